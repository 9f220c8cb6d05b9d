"""Sockets handed over from one relay to the next: both are services of this process, on real sockets."""

import contextlib
import os
import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import pytest_twisted
from twisted.application.service import MultiService
from twisted.internet.threads import deferToThread
from twisted.logger import capturedLogs, formatEvent

from stomprelay.config.address import quoted
from stomprelay.service import handover as module
from stomprelay.service.handover import Handover, TakenOver
from stomprelay.service.network.endpoints import BadEndpoint, CannotStart, ListeningService, listening_service
from stomprelay.service.network.passing import Passage, PassedMessage, spell
from tests.service.sockets import (
    ANY_PORT,
    Accepting,
    connect,
    port_of,
    reactor,
    running,
    stopped,
    turns,
    until,
)


class Stoppable:
    """The reactor, but for its end."""

    def __init__(self) -> None:
        self.stops = 0
        self.triggers: list[Callable[[], None]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(reactor, name)

    def stop(self) -> None:
        self.stops += 1

    def addSystemEventTrigger(self, phase: str, event: str, do: Callable[[], None]) -> None:  # noqa: N802
        self.triggers.append(do)


class Relay:
    """A relay as far as this goes: what listens, and its hand-over. `accepting` is what its listeners lead to."""

    def __init__(self, path: Path, **endpoints: str) -> None:
        self.reactor = Stoppable()
        self.service, self.when_ready = MultiService(), MultiService()

        self.accepting: dict[str, Accepting] = {}
        self.listening: dict[str, ListeningService] = {}
        for name, endpoint in endpoints.items():
            self.accepting[name] = Accepting()
            self.listening[name] = listening_service(self.reactor, name, endpoint, self.accepting[name])
            self.listening[name].setServiceParent(self.service)
        self.handover = Handover(str(path), self.service, self.reactor)
        self.handover.setServiceParent(self.service)

    def start(self) -> None:
        self.when_ready.setServiceParent(self.service)
        self.service.privilegedStartService()
        self.service.startService()

    async def take(self) -> TakenOver | None:
        """Ask the relay that runs, which answers meanwhile."""
        taken = await deferToThread(self.handover.take_over)
        if taken is not None:
            taken.setServiceParent(self.when_ready)
        return taken

    async def succeed(self, before: "Relay") -> None:
        """Take over, all of it; the one before has stopped then."""
        await self.take()
        self.start()
        await until(lambda: before.reactor.stops)
        await stopped(before.service)
        await until(lambda: not self.handover.busy)

    async def reached(self, name: str, place: str) -> bool:
        """Whether who connects there comes to this listener."""
        client = await connect(place)
        await until(lambda: self.accepting[name].accepted.pending)
        server = await self.accepting[name].accepted.get()
        client.transport.loseConnection()
        await server.ended()
        server.transport.loseConnection()
        await server.gone()
        return True


def words(logs: Sequence[dict[str, Any]]) -> list[str]:
    """What the log says of it."""
    return [text for text in map(formatEvent, logs) if text.startswith("handover: ")]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where sockets are handed over."""
    return tmp_path / "handover"


@pytest_twisted.ensureDeferred
async def test_a_relay_that_is_to_stop_in_the_middle(path: Path, tmp_path: Path) -> None:
    """It leaves what it gave: the other process is about to serve, and goes on."""
    door = tmp_path / "door"
    first = Relay(path, local=f"unix:{quoted(str(door))}")
    first.start()
    second = Relay(path, local=f"unix:{quoted(str(door))}")
    await second.take()
    for trigger in first.reactor.triggers:
        trigger()
    await stopped(first.service)
    assert door.is_socket()
    second.start()
    await until(lambda: not second.handover.busy)
    assert await second.reached("local", f"unix:{quoted(str(door))}")
    await stopped(second.service)
    assert not door.exists()


@pytest_twisted.ensureDeferred
async def test_a_relay_that_is_to_stop_before_it_gave_anything(path: Path) -> None:
    """It refuses: the other process would find nothing to go on with."""
    first = Relay(path, public=ANY_PORT)
    first.start()
    client = await connect(f"unix:{quoted(str(path))}")
    await until(lambda: first.handover._offer is not None)
    for trigger in first.reactor.triggers:
        trigger()
    assert b'{"refused": "it stops"}' in await client.ended()
    await client.gone()
    with pytest.raises(BadEndpoint, match=r"does not hand over: it stops$"):
        await Relay(path).take()
    await stopped(first.service)


@pytest_twisted.ensureDeferred
async def test_a_relay_that_is_gone_in_the_middle(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or says nothing more: the new one has all that it needs."""
    for silent in (False, True):
        monkeypatch.setattr(module, "ANSWER", 0.05)
        ours, theirs = socket.socketpair()
        relay = Relay(path)
        TakenOver(Passage(ours), {}, relay.handover, relay.reactor).setServiceParent(relay.when_ready)
        with theirs, capturedLogs() as logs:
            if not silent:
                theirs.close()
            relay.start()
            await until(lambda logs=logs: len(words(logs)) == 1)  # type: ignore[misc]
        assert words(logs)[0].startswith("handover: the relay before is gone")
        assert silent == ("no answer within 0.05 s" in words(logs)[0])
        await stopped(relay.service)
        await turns()


@pytest_twisted.ensureDeferred
async def test_a_new_relay_that_takes_too_long(
    path: Path, monkeypatch: pytest.MonkeyPatch, log: list[str]
) -> None:
    """The old one has given up on it, and goes on; the new one ends."""
    monkeypatch.setattr(module, "WITHIN", 0.05)
    ended: list[int] = []
    monkeypatch.setattr(module, "raise_signal", ended.append)
    first, second = Relay(path, public=ANY_PORT), Relay(path, public=ANY_PORT)
    first.start()
    place = f"tcp:127.0.0.1:{port_of(first.listening['public'])}"
    await second.take()
    await until(lambda: any("it was not ready" in line for line in log))
    second.start()
    await until(lambda: ended)
    assert log[-1].endswith("the relay that runs goes on, this one ends: it was not ready in 0.05 s")
    await stopped(second.service)
    assert await first.reached("public", place)
    assert first.reactor.stops == 0
    await stopped(first.service)
    assert not path.exists()


TOO_LONG = b"x" * 20_000


def asking(path: Path, *messages: dict[str, Any] | bytes) -> list[PassedMessage]:
    """What a process is answered that says this, until the relay closes."""
    with socket.socket(socket.AF_UNIX) as own:
        own.connect(str(path))
        passage = Passage(own)
        with contextlib.suppress(BrokenPipeError):  # it was answered before
            for each in messages:
                own.sendall(each if isinstance(each, bytes) else spell(each))
        found: list[PassedMessage] = []
        try:
            while True:
                found += passage.receive()
        except (EOFError, ConnectionResetError):
            return found
        finally:
            for passed in found:
                passed.close()


@pytest.mark.parametrize(
    "messages",
    [
        [b"what\n"],
        [TOO_LONG],
        [{"do": "leave", "kept": []}],
        [{"do": "take"}, {"do": "take"}],
        [{"do": "take"}, {"do": "leave", "kept": ["7"]}],
        [{"do": "take"}, {"do": "leave", "kept": [[]]}],
        [{"do": "take"}, {"do": "leave"}],
    ],
)
@pytest_twisted.ensureDeferred
async def test_what_is_no_request(path: Path, messages: list[dict[str, Any] | bytes]) -> None:
    """It is refused, and the relay goes on, and hands over to the next who asks."""
    first = Relay(path, public=ANY_PORT)
    first.start()
    place = f"tcp:127.0.0.1:{port_of(first.listening['public'])}"
    found = await deferToThread(asking, path, *messages)
    refusal = {"refused": "what came is no message"}
    said = [each.said for each in found if "places" not in each.said]
    assert said == ([] if messages == [TOO_LONG] else [refusal])
    assert await first.reached("public", place)
    second = Relay(path, public=ANY_PORT)
    await second.succeed(first)
    await stopped(second.service)


@pytest_twisted.ensureDeferred
async def test_who_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another user; a second one at a time; and nobody is trusted who hands over as another user."""
    first, second, third = (Relay(path, public=ANY_PORT) for _ in range(3))
    first.start()
    users = [os.geteuid() + 1]
    monkeypatch.setattr(module, "stranger", lambda own: users[0] if users else None)
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(BadEndpoint, match=rf"does not hand over: it is of user {users[0]}$"):
        await second.take()
    found = await deferToThread(asking, path, {"do": "take"})
    assert [each.said for each in found] == [{"refused": f"user {users[0]} must not"}]
    users.clear()
    taken = await second.take()
    assert taken is not None
    with pytest.raises(BadEndpoint, match=r"does not hand over: another process takes over$"):
        await third.take()
    second.start()
    await until(lambda: first.reactor.stops)
    await stopped(first.service)
    await stopped(second.service)


def test_strangers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Root and our own user are none; where the system does not tell, the mode of the path has to do."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert module.stranger(ours) is None
        monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
        assert module.stranger(ours) == (os.getuid() or None)
        of_another = Mock(size=12, unpack=lambda data: (1, 4711, 0))  # process, user, group
        monkeypatch.setattr(module, "_CREDENTIALS", of_another)
        assert module.stranger(ours) == 4711
        monkeypatch.delattr(socket, "SO_PEERCRED")
        assert module.stranger(ours) is None


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"", "no answer"),
        (b"HTTP/1.0 400 Bad Request\r\n\r\n", "what came is no message"),
        (b"unfinished", "it is gone"),
        (b'{"sockets": [], "said": {"places": 5}}\n', "what came is no message"),
        (b'{"sockets": [], "said": {"refused": "no"}}\n', "no"),
        (b'{"sockets": ["0"], "said": {"places": {}}}\n', "1 sockets are named, 0 came"),
    ],
)
@pytest_twisted.ensureDeferred
async def test_what_is_no_relay(
    path: Path, monkeypatch: pytest.MonkeyPatch, answer: bytes, reason: str
) -> None:
    """Something else listens there, and says this: the new one does not start, and says what it met."""
    monkeypatch.setattr(module, "ANSWER", 0.2)
    other = Accepting()
    async with running(listening_service(reactor, "other", f"unix:{quoted(str(path))}", other)):
        taking = deferToThread(Relay(path, public=ANY_PORT).handover.take_over)
        peer = await other.accepted.get()
        await peer.receive_until(b"\n")
        if answer:
            peer.transport.write(answer)
            peer.transport.loseConnection()
        with pytest.raises(BadEndpoint) as caught:
            await taking
        await peer.gone()
    assert str(caught.value) == f"handover: {path}: the relay that runs does not hand over: {reason}"


@pytest_twisted.ensureDeferred
async def test_nobody_at_the_path(path: Path) -> None:
    """Nothing is there, or a socket that was left behind: it starts as usual."""
    for left_behind in (False, True):
        if left_behind:
            with socket.socket(socket.AF_UNIX) as dead:
                dead.bind(str(path))
        relay = Relay(path, public=ANY_PORT)
        with capturedLogs() as logs:
            assert await relay.take() is None
        assert words(logs) == [f"handover: no relay answers at {path}: this relay opens its sockets itself"]
        relay.start()
        assert await relay.reached("public", f"tcp:127.0.0.1:{port_of(relay.listening['public'])}")
        await stopped(relay.service)
        assert not path.exists()


@pytest_twisted.ensureDeferred
async def test_a_path_that_is_taken(path: Path) -> None:
    """By a file, which is left alone; by another relay."""
    path.write_text("precious")
    relay = Relay(path)
    with pytest.raises(CannotStart, match=r"is no socket$"):
        relay.handover.privilegedStartService()
    assert path.read_text() == "precious"
    path.unlink()
    first = Relay(path)
    first.start()
    with pytest.raises(
        CannotStart, match=r"another relay hands over there: take over, or name another path$"
    ):
        relay.handover.privilegedStartService()
    await turns()
    await stopped(first.service)
