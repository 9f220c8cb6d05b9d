"""The relay as its users run it: `stomprelay run`, or `twistd stomprelay`, in a child process; and how they
ask it, over HTTP at its `admin` and by the command `stomprelay`.
"""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.e2e.child import PATIENCE, Child
from tests.e2e.ports import free_port
from tests.prometheus import sums

TWISTD = Path(sys.executable).with_name("twistd")
RUN = (sys.executable, "-m", "stomprelay", "run")
ROOT = Path(__file__).resolve().parents[2]

_WRONG = re.compile(r"Traceback|Unhandled|exceptions\.|Warning:|<class '|object at 0x")


@dataclass(frozen=True)
class Admin:
    """A relay's administration at a port of 127.0.0.1, with the token that it wants."""

    port: int
    token: str = ""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def ask(self, path: str, said: object = None) -> tuple[int, str]:
        """GET a page, or POST what is said. Return status and text."""
        headers = {"content-type": "application/json"}
        if self.token:
            headers["authorization"] = f"Bearer {self.token}"
        body = None if said is None else json.dumps(said).encode()
        request = urllib.request.Request(self.url + path, body, headers)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def get(self, path: str, said: object = None) -> str:
        """The same, where all is well. Return the text."""
        status, text = self.ask(path, said)
        assert status == 200, text
        return text

    def told(self, path: str, **said: object) -> Any:
        """GET a page of JSON, or POST what is said. Return what it says."""
        return json.loads(self.get(path, said or None))

    def metrics(self) -> dict[str, float]:
        """Return each metric by its name without `stomprelay_`: the sum of its samples."""
        return {name.removeprefix("stomprelay_"): each for name, each in sums(self.get("/metrics")).items()}

    def counted(self, name: str) -> int:
        """Return the sum of a counter over all listeners."""
        return int(self.metrics()[f"{name}_total"])

    def brokers(self) -> dict[str, dict[str, Any]]:
        """Return what the relay says of its brokers, by URI."""
        return {each["uri"]: each for each in self.told("/brokers")["brokers"]}


class Relay:
    """A relay that runs; `log` is what it has written. `file` is its configuration, where it has one; `port`
    and `admin` are known where `served` runs it.
    """

    file: Path
    port: int
    admin: Admin

    def __init__(self, child: Child) -> None:
        self._child = child
        self.killed = False

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

    def reload(self, text: str | None = None) -> str:
        """Write another configuration, where one is given, and send SIGHUP. Return the line that the log has of it."""
        if text is not None:
            self.file.write_text(text)
        start = len(self.log)
        self.send(signal.SIGHUP)
        return self.wait_for_log("the configuration is (not )?reloaded", start)

    @property
    def ended(self) -> bool:
        """Whether it has ended by itself."""
        return self._child.exited(within=0)

    def ends(self) -> None:
        """Wait until it has ended by itself."""
        assert self._child.exited(within=PATIENCE), self._child.last_words

    def kill(self) -> None:
        """End it by SIGKILL, and wait until it has ended."""
        self.killed = True
        self.send(signal.SIGKILL)
        self.ends()

    def memory(self) -> int:
        """Return its resident memory in bytes."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        found = re.search(r"^VmRSS:\s+(\d+) kB$", status, re.MULTILINE)
        assert found, status
        return int(found.group(1)) * 1024

    def wait_until(self, reached: Callable[[], object]) -> None:
        """Ask `reached` again and again until it is true."""
        for _ in range(int(PATIENCE / 0.05)):
            if reached():
                return
            assert not self._child.exited(within=0.05), self._child.last_words
        raise AssertionError(f"not reached in {PATIENCE} s:\n{self._child.last_words}")


def launch(directory: Path, command: Sequence[str]) -> Child:
    """Start a command that finds our code, in a directory."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    return Child(Path(command[0]).name, command, env={"PYTHONPATH": path}, cwd=directory)


def start(directory: Path, arguments: Sequence[str]) -> Child:
    """Start `twistd` with a plugin of ours and these arguments."""
    return launch(directory, [str(TWISTD), "-n", "--pidfile=", *arguments])


@contextlib.contextmanager
def relay(directory: Path, config: str, ports: Sequence[int]) -> Iterator[Relay]:
    """Run `stomprelay run` with `config`, wait for its `ports`, and check its log at the end."""
    path = directory / "stomprelay.toml"
    path.write_text(config)
    with serving(launch(directory, [*RUN, "-c", str(path)]), ports) as running:
        running.file = path
        yield running


def listening(port: int, name: str = "main", more: str = "") -> str:
    """Return the table of a listener on a port. `more`: further lines of it, and tables behind it."""
    return f'[listener.{name}]\nendpoint = "tcp:{port}:interface=127.0.0.1"\n{more}\n'


@contextlib.contextmanager
def served(
    directory: Path,
    upstream: str = 'uri = "memory:"',
    listener: str = "",
    more: str = "",
    *,
    by: str = "",
    ports: Sequence[int] = (),
    workers: int = 1,
) -> Iterator[Relay]:
    """Run a relay with `admin`, and with a listener and an upstream of the name `main`, in this order. The texts are
    TOML: `upstream` and `listener` are further lines of these tables, and tables behind them; `more` comes before both.
    `by`: what stands before `tcp:` in the listener's endpoint. `ports`: other ports that it listens on.
    """
    port, admin = free_port(), Admin(free_port())
    config = f"""
workers = {workers}
admin = "tcp:{admin.port}:interface=127.0.0.1"
{more}
[listener.main]
endpoint = "{by}tcp:{port}:interface=127.0.0.1"
upstream = "main"
{listener}
[upstream.main]
{upstream}
"""
    with relay(directory, config, [port, admin.port, *ports]) as running:
        running.port, running.admin = port, admin
        if workers > 1:
            running.wait_for_log(f"all {workers} workers serve")
        yield running


@contextlib.contextmanager
def twistd(directory: Path, arguments: Sequence[str], ports: Sequence[int]) -> Iterator[Relay]:
    """Run `twistd` with a plugin of ours, wait for its `ports`; it must end without a traceback."""
    with serving(start(directory, arguments), ports) as running:
        yield running


@contextlib.contextmanager
def serving(child: Child, ports: Sequence[int]) -> Iterator[Relay]:
    """Wait for the ports of a child that was started, and end it afterwards; it must do so without a traceback."""
    running = Relay(child)
    try:
        for port in ports:
            # A probing connection would be a session; Twisted logs every port that it opens.
            child.wait_for_output(rf" starting on {port}$")
        yield running
    except Exception:
        print(child.output)  # what it saw when a test failed
        raise
    finally:
        status = child.stop()
    assert running.killed or status in (0, -signal.SIGTERM), f"exit status {status}:\n{child.output}"
    check(child)


def check(child: Child) -> None:
    """Assert that a child has written nothing of an error that it did not expect, and no `repr` of Python's."""
    assert not _WRONG.search(child.output), child.output


def run(directory: Path, *command: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    """Run a command to its end, in a directory and with these variables. It has nobody to ask."""
    return subprocess.run(
        command,
        cwd=directory,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def stomprelay(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run our command to its end."""
    return run(ROOT, sys.executable, "-m", "stomprelay", *arguments)
