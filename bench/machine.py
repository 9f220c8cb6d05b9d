"""The machine under the bench: its cores, and child processes with their CPU time and memory."""

import ctypes
import os
import platform
import resource
import shutil
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from tests.e2e.child import PATIENCE, Child

ROOT: Final = Path(__file__).resolve().parent.parent
"""The working tree; children find `stomprelay` and `bench` there first."""

_libc = ctypes.CDLL(None, use_errno=True)


class AbsentError(Exception):
    """A program that is needed is not installed here. The text says which, and how to get it."""


def cores() -> tuple[int, int, int]:
    """The cores for the client, for what is measured, and for the null broker.

    Client and broker share one where there are fewer than three; all do on a machine of one core.
    """
    usable = sorted(os.sched_getaffinity(0))
    client, measured, *others = usable * 2 if len(usable) == 1 else usable
    return client, measured, others[0] if others else client


def describe() -> dict[str, str | int]:
    """What a reader of the figures wants to know of the machine."""
    model = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    return {
        "cpu": model[0].partition(":")[2].strip() if model else platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "kernel": platform.release(),
        "python": platform.python_version(),
    }


def raise_descriptor_limit() -> int:
    """As many open files as this user may have, for this process and its children; answers how many."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = 65536 if hard == resource.RLIM_INFINITY else hard
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return most


def started(
    name: str, command: Sequence[str], directory: Path, core: int | None = None, *, talk: bool = False
) -> Child:
    """Start a program that finds our code, in a directory, on a core of its own where one is named."""
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    return Child(name, command, env={"PYTHONPATH": path}, cwd=directory, talk=talk, core=core)


def wait_for_port(child: Child, port: int) -> None:
    """Wait until something listens on a port of 127.0.0.1. Raises `RuntimeError` when it does not."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            if child.exited(0.02) or time.monotonic() > deadline:
                raise RuntimeError(f"{child.name} does not listen:\n{child.last_words}") from None


def cpu_seconds(pid: int) -> float:
    """User and system time that a process has used, all its threads; exact where the kernel has a clock for it."""
    clock = ctypes.c_int()
    if _libc.clock_getcpuclockid(pid, ctypes.byref(clock)) == 0:
        return time.clock_gettime(clock.value)
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_kb(pid: int) -> float:
    """User-space memory of a process in kB: its proportional share (PSS), or its anonymous pages without that."""
    try:
        text, wanted = Path(f"/proc/{pid}/smaps_rollup").read_text(), "Pss:"
    except OSError:
        text, wanted = Path(f"/proc/{pid}/status").read_text(), "RssAnon:"
    return next(float(line.split()[1]) for line in text.splitlines() if line.startswith(wanted))


def processes() -> Iterator[tuple[int, int, str]]:
    """Id, parent's id and name of all processes."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with suppress(OSError):
                name, _, rest = (entry / "stat").read_text().partition("(")[2].rpartition(")")
                yield int(entry.name), int(rest.split()[1]), name


def family(pid: int) -> list[int]:
    """A process and all that it, and those, have started."""
    found = {pid}
    children = {child: parent for child, parent, _ in processes()}
    while more := {child for child, parent in children.items() if parent in found} - found:
        found |= more
    return sorted(found)


def which(*names: str) -> str | None:
    """The first of these programs that there is; Debian keeps daemons where not every user looks."""
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/local/sbin", "/usr/sbin", "/sbin"])
    return next((found for name in names if (found := shutil.which(name, path=path))), None)
