"""The relay as its users run it: `stomprelay run`, or `twistd stomprelay`, in a child process."""

import contextlib
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tests.e2e.child import PATIENCE, Child

TWISTD = Path(sys.executable).with_name("twistd")
RUN = (sys.executable, "-m", "stomprelay", "run")
ROOT = Path(__file__).resolve().parents[2]

_WRONG = re.compile(r"Traceback|Unhandled|exceptions\.|Warning:|<class '|object at 0x")


class Relay:
    """A relay that runs; `log` is what it has written."""

    def __init__(self, child: Child) -> None:
        self._child = child

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def log(self) -> str:
        return self._child.output

    def wait_for_log(self, pattern: str, start: int = 0) -> str:
        """Wait for a line of the log, from offset `start`, that matches `pattern`; return the line."""
        return self._child.wait_for_output(f"^.*(?:{pattern}).*$", start=start).group()

    def send(self, sig: signal.Signals) -> None:
        """Send it a signal."""
        self._child.send(sig)

    def descriptors(self) -> int:
        """Count its open file descriptors."""
        return len(list(Path(f"/proc/{self.pid}/fd").iterdir()))

    def memory(self) -> int:
        """Return its resident memory in bytes."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        found = re.search(r"^VmRSS:\s+(\d+) kB$", status, re.MULTILINE)
        assert found, status
        return int(found.group(1)) * 1024

    def wait_until(self, reached: Callable[[], bool]) -> None:
        """Ask `reached` again and again until it is true."""
        for _ in range(int(PATIENCE / 0.05)):
            if reached():
                return
            assert not self._child.exited(within=0.05), self._child.last_words
        raise AssertionError(f"not reached in {PATIENCE} s:\n{self._child.last_words}")


def launch(directory: Path, command: Sequence[str], descriptors: int | None = None) -> Child:
    """Start a command that finds our code, in a directory; it may have so many file descriptors."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    if descriptors is not None:
        command = ["sh", "-c", f'ulimit -n {descriptors} && exec "$@"', "sh", *command]
    return Child(Path(command[0]).name, command, env={"PYTHONPATH": path}, cwd=directory)


def start(directory: Path, arguments: Sequence[str], descriptors: int | None = None) -> Child:
    """Start `twistd` with a plugin of ours and these arguments; it may have so many file descriptors."""
    return launch(directory, [str(TWISTD), "-n", "--pidfile=", *arguments], descriptors)


@contextlib.contextmanager
def relay(
    directory: Path, config: str, ports: Sequence[int], descriptors: int | None = None
) -> Iterator[Relay]:
    """Run `stomprelay run` with `config`, wait for its `ports`, and check its log at the end."""
    path = directory / "stomprelay.toml"
    path.write_text(config)
    with serving(launch(directory, [*RUN, "-c", str(path)], descriptors), ports) as running:
        yield running


@contextlib.contextmanager
def twistd(
    directory: Path, arguments: Sequence[str], ports: Sequence[int], descriptors: int | None = None
) -> Iterator[Relay]:
    """Run `twistd` with a plugin of ours, wait for its `ports`; it must end without a traceback."""
    with serving(start(directory, arguments, descriptors), ports) as running:
        yield running


@contextlib.contextmanager
def serving(child: Child, ports: Sequence[int]) -> Iterator[Relay]:
    """Wait for the ports of a child that was started, and end it afterwards; it must do so without a traceback."""
    try:
        for port in ports:
            # A probing connection would be a session; Twisted logs every port that it opens.
            child.wait_for_output(rf" starting on {port}$")
        yield Relay(child)
    except Exception:
        print(child.output)  # what it saw when a test failed
        raise
    finally:
        status = child.stop()
    assert status in (0, -signal.SIGTERM), f"exit status {status}:\n{child.output}"
    check(child)


def check(child: Child) -> None:
    """Assert that a child has written nothing of an error that it did not expect, and no `repr` of Python's."""
    assert not _WRONG.search(child.output), child.output
