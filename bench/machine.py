"""The machine under the bench: its cores, its ports, and child processes with their CPU time and memory."""

import ctypes
import os
import platform
import resource
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
"""The working tree; children find `stomprelay` and `bench` there first."""

PATIENCE: Final = 30.0
"""Seconds that a child may take to listen, or to end."""

_PR_SET_PDEATHSIG: Final = 1
_libc = ctypes.CDLL(None, use_errno=True)
_ports = iter(range(20000, 32000))


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


def free_port() -> int:
    """A port of 127.0.0.1 on which nobody listens, below those that the system hands out; each only once."""
    for port in _ports:
        with socket.socket() as probe:
            # As servers bind: connections of an earlier run that are in TIME_WAIT do not count.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise RuntimeError("no free port on 127.0.0.1")


def _die_with_parent() -> None:
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


class Child:
    """A process of the bench on a core of its own; whoever starts it calls `stop`.

    Its output goes to `log`, unless it is talked to through pipes (`talk=True`), as the load is.
    """

    def __init__(
        self, name: str, command: Sequence[str], core: int, log: Path, *, talk: bool = False
    ) -> None:
        self.name = name
        self.log = log
        path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE if talk else subprocess.DEVNULL,
                stdout=subprocess.PIPE if talk else output,
                stderr=output,
                text=True,
                cwd=log.parent,
                env={**os.environ, "PYTHONPATH": path},
                preexec_fn=_die_with_parent,  # noqa: PLW1509 - nothing is left behind when the bench is killed
            )
        os.sched_setaffinity(self.process.pid, {core})

    @property
    def pid(self) -> int:
        """The process's id."""
        return self.process.pid

    def tell(self, line: str) -> None:
        """Write a line to its standard input."""
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def hear(self) -> str:
        """The next line of its standard output, empty at the end."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def wait_for_port(self, port: int) -> None:
        """Until something listens on a port of 127.0.0.1. Raises `RuntimeError` when it does not."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                return
            except OSError:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"{self.name} does not listen:\n{self.tail()}") from None
            time.sleep(0.02)

    def tail(self) -> str:
        """The end of its log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-15:]) if self.log.exists() else ""

    def stop(self) -> None:
        """End it, by its id, and wait for its end."""
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()
        if self.process.poll() is None:
            self.process.terminate()
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


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
