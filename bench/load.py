"""The load: the programs in `c` compiled, their null brokers running, and one run of their client."""

import json
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench.machine import AbsentError, cores, cpu_seconds, started, which
from tests.e2e.child import Child

VERSIONS: Final = ("1.0", "1.1", "1.2")
RABBITMQ: Final = "RabbitMQ"
BROKERS: Final = (*VERSIONS, "ActiveMQ", RABBITMQ)
"""The ports of a null broker: one for each version, and two on 1.2 where it says that it is that product."""

CONNECTIONS: Final = {
    **dict.fromkeys(("sink", "source", "ack", "individual"), 8),
    **dict.fromkeys(("sessions", "polite"), 32),
    "loop": 50,
    "latency": 1,
}
"""Client connections by kind of load."""

_ACKS: Final = {"ack": "client", "individual": "client-individual"}
"""Loads that are `source` with an ack mode."""

PATH: Final = "/ws"
"""Where a WebSocket is asked for."""

LARGE: Final = 64 * 1024
"""Octets of a large piece: what one write carries where there is so much to send."""
SMALL: Final = 1
"""One frame a write."""


class LoadError(Exception):
    """A run that lost, gained or damaged something, or that did not end. The text says which."""


@dataclass(frozen=True)
class Case:
    """What is sent: kind of load, least octets of a body, the client's version, and how it is written.

    No two heads are alike.
    """

    mode: str
    body: int = 100
    client: str = "1.2"
    escaped: bool = False
    """One value to escape in every SEND, one id to unescape in every MESSAGE."""
    piece: int = LARGE
    """Octets that one write carries, a frame at least."""
    web: bool = False
    """Over WebSocket (`PATH`), a message a frame."""
    login: str | None = None
    """Of a broker that is not ours; it counts nothing for us."""
    connections: int | None = None
    """Instead of CONNECTIONS."""
    window: int = 1
    """Messages of a connection that are on their way at once; of `loop`."""
    others: int = 0
    """Connections that the broker has beside ours, and keeps."""


@dataclass(frozen=True)
class Run:
    """One run: messages, seconds from start to the last count, CPU of what was measured, and round trips in us."""

    messages: int
    seconds: float
    cpu: float
    p50: float | None = None
    p99: float | None = None

    @property
    def rate(self) -> float:
        """Messages a second."""
        return self.messages / self.seconds

    @property
    def cost(self) -> float:
        """CPU microseconds a message of what was measured."""
        return self.cpu / self.messages * 1e6


def compile_load(directory: Path) -> Path:
    """Compile the load into a directory. Raises `AbsentError` without a compiler, `LoadError` when it fails."""
    compiler = which("cc", "gcc", "clang")
    if compiler is None:
        raise AbsentError("no C compiler: install one (Debian package gcc)")
    sources = Path(__file__).with_name("c")
    program = directory / "load"
    command = [compiler, "-std=c11", "-O2", "-o", str(program), *map(str, sorted(sources.glob("*.c")))]
    outcome = subprocess.run(command, capture_output=True, text=True, check=False)
    if outcome.returncode:
        raise LoadError(f"{compiler} failed on {sources}:\n{outcome.stderr}")
    return program


class Load:
    """A compiled load with its null broker running; `ports` has the broker's port for each of BROKERS."""

    def __init__(self, program: Path, broker: Child, directory: Path) -> None:
        self._program = program
        self._broker = broker
        self._directory = directory
        self.ports = _ports(broker)

    @contextmanager
    def broker(self) -> Iterator[tuple[Child, dict[str, int]]]:
        """One more null broker, which may be killed, and its ports."""
        with _null_broker(self._program, self._directory) as child:
            yield child, _ports(child)

    @contextmanager
    def client(self, mode: str, port: int, *options: str) -> Iterator[Child]:
        """The client as a child process that is talked to line by line."""
        command = [str(self._program), "client", mode, "-p", str(port), *options]
        child = started("the load's client", command, self._directory, cores()[0], talk=True)
        try:
            yield child
        finally:
            child.stop()

    def run(self, case: Case, port: int, messages: int, pids: Sequence[int] = ()) -> Run:
        """Send a case through a port; `pids` have their CPU counted. Raises `LoadError` unless all arrived as sent."""
        acks = _ACKS.get(case.mode)
        mode = "source" if acks else "sessions" if case.mode == "polite" else case.mode
        flags = ["-e"] * case.escaped + ["-d"] * (case.mode == "polite") + (["-a", acks] if acks else [])
        flags += ["-W", PATH] * case.web + (["-l", case.login] if case.login else [])
        flags += ["-k", str(case.window), "-o", str(case.others)]
        sizes = ["-c", str(case.connections or CONNECTIONS[case.mode]), "-n", str(messages)]
        sizes += ["-b", str(case.body), "-w", str(case.piece)]
        with self.client(mode, port, "-v", case.client, *sizes, *flags) as client:
            if (said := client.hear()) != "ready":
                raise self._failed(client, said)
            before = sum(map(cpu_seconds, pids))
            client.tell("go")
            told = self.answer(client)
            after = sum(map(cpu_seconds, pids))
            client.tell("bye")
            self.answer(client)
        return Run(int(told["messages"]), told["seconds"], after - before, told.get("p50"), told.get("p99"))

    def answer(self, client: Child) -> dict[str, Any]:
        """The client's next line. Raises `LoadError` with the client's words when it failed."""
        line = client.hear()
        told: dict[str, Any] = json.loads(line) if line else {}
        if "messages" not in told:
            raise self._failed(client, line)
        return told

    def _failed(self, client: Child, said: str) -> LoadError:
        """All that is known of a failure: what the client said, and the broker if it is gone."""
        reason = json.loads(said)["error"] if said else "the client ended"
        broker = f"; the broker said {self._broker.hear()}" if self._broker.exited(0) else ""
        return LoadError(f"{reason}{broker}")


def _ports(broker: Child) -> dict[str, int]:
    return dict(zip(BROKERS, map(int, broker.hear().split()), strict=True))


@contextmanager
def _null_broker(program: Path, directory: Path) -> Iterator[Child]:
    command = [str(program), "broker"]
    child = started("the null broker", command, directory, cores()[2], talk=True)
    try:
        yield child
    finally:
        child.stop()


@contextmanager
def loaded(directory: Path) -> Iterator[Load]:
    """Compile the load into a directory and run its null broker. Raises what `compile_load` raises."""
    program = compile_load(directory)
    with _null_broker(program, directory) as broker:
        yield Load(program, broker, directory)
