"""A program that a test runs as its own child process."""

import contextlib
import ctypes
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

PATIENCE = float(os.environ.get("STOMPRELAY_TEST_PATIENCE", "60"))
"""Seconds after which a wait for something observable fails: generous, for slow and busy machines."""


def wait_until(reached: Callable[[], object], why: Callable[[], object] = str) -> None:
    """Ask again and again until it is true. `why` says what was found where it never is."""
    deadline = time.monotonic() + PATIENCE
    while not reached():
        assert time.monotonic() < deadline, why()
        time.sleep(0.01)


_PR_SET_PDEATHSIG = 1
_prctl = getattr(ctypes.CDLL(None), "prctl", None)  # looked up before any fork


def _die_with_parent() -> None:
    """Ask Linux to end this process when the test run is killed, so that nothing is left behind."""
    if _prctl is not None:
        _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


class Child:
    """A child process whose output (standard output and error) is kept; end it with `stop`.

    `talk`: it reads what `tell` writes. `core`: it runs on this processor only.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        talk: bool = False,
        core: int | None = None,
    ) -> None:
        self.name = name
        self._lines: list[str] = []
        self._heard = 0
        self._ended = False
        self._news = threading.Condition()
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE if talk else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(env or {})},
            cwd=cwd,
            preexec_fn=_die_with_parent,
        )
        if core is not None:
            os.sched_setaffinity(self.pid, {core})
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def last_words(self) -> str:
        """The end of its output, for the message of a failed wait."""
        with self._news:
            return "".join(self._lines[-30:])

    @property
    def output(self) -> str:
        """What the process has written until now."""
        with self._news:
            return "".join(self._lines)

    def tell(self, line: str) -> None:
        """Write a line to its standard input."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n".encode())
        self._process.stdin.flush()

    def hear(self) -> str:
        """Return the next line that it writes, without its end; "" when there is no more."""
        with self._news:
            self._news.wait_for(lambda: self._heard < len(self._lines) or self._ended)
            line = self._lines[self._heard].strip() if self._heard < len(self._lines) else ""
            self._heard += 1
            return line

    def wait_for_output(self, pattern: str, *, start: int = 0, within: float = PATIENCE) -> re.Match[str]:
        """Wait until the output, from offset `start`, matches the regular expression `pattern`."""
        deadline = time.monotonic() + within
        with self._news:
            while True:
                found = re.compile(pattern, re.MULTILINE).search("".join(self._lines), start)
                if found:
                    return found
                left = deadline - time.monotonic()
                if left <= 0 or self._ended:
                    raise AssertionError(
                        f"{self.name}: no {pattern!r} in its output:\n{''.join(self._lines)}"
                    )
                self._news.wait(left)

    def wait_until_stopped(self) -> None:
        """Wait until SIGSTOP has reached each of its threads: until then one that runs may still answer."""
        wait_until(lambda: not set(self._states()) - {"T", "Z"}, lambda: f"{self.name} goes on after SIGSTOP")

    def _states(self) -> Iterator[str]:
        """The state of each of its threads, a letter, as the kernel lists them (proc(5))."""
        for each in Path(f"/proc/{self.pid}/task").iterdir():
            with contextlib.suppress(OSError):  # a thread may end meanwhile
                yield (each / "stat").read_text().rpartition(")")[2].split()[0]

    def exited(self, within: float) -> bool:
        """Wait at most `within` seconds for the process to end; return whether it has."""
        try:
            self._process.wait(within)
        except subprocess.TimeoutExpired:
            return False
        return True

    def send(self, sig: signal.Signals) -> None:
        """Send `sig` to the process, if it is still there."""
        self._process.send_signal(sig)

    def stop(self, sig: signal.Signals = signal.SIGTERM, within: float = PATIENCE) -> int:
        """Send `sig`, wait for the end and return the exit status; who stays is killed and reported."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        if self._process.poll() is None:
            self._process.send_signal(sig)
        try:
            status = self._process.wait(within)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise AssertionError(f"{self.name} did not stop within {within} s:\n{self.output}") from None
        self._reader.join(PATIENCE)
        return status

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as stream:
            for line in stream:
                with self._news:
                    self._lines.append(line.decode("utf-8", "replace"))
                    self._news.notify_all()
        with self._news:
            self._ended = True
            self._news.notify_all()
        self._process.wait()  # a test that failed has not called `stop`: Python would warn in another test
