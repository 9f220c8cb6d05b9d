"""Sockets that several processes accept from: here each process is a service of its own."""

import os
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytest_twisted
from twisted.internet.defer import maybeDeferred
from twisted.internet.endpoints import clientFromString, wrapClientTLS
from twisted.internet.protocol import Factory

from stomprelay.config.address import quoted
from stomprelay.relay.model.upstream import ClientTLS
from stomprelay.service.network import sharing, tls
from stomprelay.service.network.endpoints import CannotStart, ListeningService, listening_service
from stomprelay.service.network.sharing import Inherited
from stomprelay.service.relay import RelayService
from stomprelay.service.workers.loads import AWAY, Loads
from tests.e2e.certificates import Authority
from tests.service.harness import RelayHarness
from tests.service.sockets import ANY_PORT, Accepting, Peer, connect, port_of, reactor, running, turns


@asynccontextmanager
async def shared(
    description: str, workers: dict[Accepting, int | None]
) -> AsyncIterator[tuple[ListeningService, list[ListeningService]]]:
    """A parent that holds an endpoint, and workers that accept there; each has room for so many clients, or all."""
    async with AsyncExitStack() as stack:
        parent = listening_service(reactor, "public", description, Factory())
        await stack.enter_async_context(running(parent))
        doors = []
        for accepting, most in workers.items():
            descriptor, room = os.dup(parent.hold()), None if most is None else partial(int, most)
            doors.append(
                listening_service(reactor, "public", description, accepting, inherited=descriptor, room=room)
            )
            await stack.enter_async_context(running(doors[-1]))
        yield parent, doors


async def serves(accepting: Accepting, client: Peer) -> Peer:
    """What accepts there hears the client; both are gone afterwards."""
    client.transport.write(b"hello")
    server = await accepting.accepted.get()
    assert await server.receive_until(b"hello") == b"hello"
    client.transport.loseConnection()
    await server.ended()
    server.transport.loseConnection()
    await server.gone()
    return server


@pytest_twisted.ensureDeferred
async def test_the_path_and_the_mode_of_a_local_socket(tmp_path: Path) -> None:
    """Are the parent's: a worker neither changes nor removes them."""
    path = tmp_path / "door"
    accepting = Accepting()
    async with shared(f"unix:{quoted(str(path))}:mode=600", {accepting: None}) as (_, [worker]):
        assert path.stat().st_mode & 0o777 == 0o600
        client = await connect(f"unix:{quoted(str(path))}")
        await serves(accepting, client)
        await maybeDeferred(worker.stopService)
        assert path.is_socket()
    assert not path.exists()


@pytest.mark.filterwarnings("ignore:Passing pyOpenSSL:DeprecationWarning")  # Twisted's own
@pytest_twisted.ensureDeferred
async def test_tls_of_the_endpoint(tmp_path: Path) -> None:
    """Each worker has it."""
    authority = Authority(tmp_path, "authority")
    own = authority.issue("relay")
    accepting = Accepting()
    place = f"ssl:0:interface=127.0.0.1:privateKey={own.key}:certKey={own.certificate}"
    async with shared(place, {accepting: None}) as (parent, _):
        trusting = tls.for_broker(ClientTLS(ca=str(authority.file)), "localhost")
        plain = clientFromString(reactor, f"tcp:127.0.0.1:{port_of(parent)}")
        await serves(accepting, await connect(wrapClientTLS(trusting, plain, reactor)))


def test_an_endpoint_without_a_socket() -> None:
    """Cannot be shared, and the relay does not start."""
    service = listening_service(reactor, "public", "stdio:", Factory())
    with pytest.raises(CannotStart, match="public: stdio: cannot be shared by several workers"):
        service.hold()


def test_twisted_keeps_what_we_rely_on() -> None:
    """A port that is told so leaves the socket open for others when it ends; by default it does not."""
    from twisted.internet import tcp, unix

    for kind in (tcp.Port, unix.Port):
        assert kind._shouldShutdown is True
    assert not unix._inFilesystemNamespace(b"\0")
    assert socket.AF_UNIX in reactor._supportedAddressFamilies


# Who accepts


@asynccontextmanager
async def accepting_there(*rooms: tuple[Accepting, int | None]) -> AsyncIterator[str]:
    """Workers with room for so many clients; yields where they accept."""
    async with shared(ANY_PORT, dict(rooms)) as (parent, _):
        yield f"tcp:127.0.0.1:{port_of(parent)}"


@pytest_twisted.ensureDeferred
async def test_who_has_no_room_lets_others_accept(monkeypatch: pytest.MonkeyPatch) -> None:
    """While it rests all clients go to the other one."""
    monkeypatch.setattr(sharing, "REST", 3600.0)
    full, other = Accepting(), Accepting()
    before = set(reactor.getDelayedCalls())
    async with accepting_there((full, 0), (other, 2)) as place:
        for _ in range(5):
            await serves(other, await connect(place))
    assert not full.accepted.pending
    for call in set(reactor.getDelayedCalls()) - before:
        call.cancel()


@pytest_twisted.ensureDeferred
async def test_who_has_no_room_accepts_those_that_nobody_accepts() -> None:
    """After a short while."""
    full = Accepting()
    async with accepting_there((full, 0)) as place:
        for _ in range(3):
            await serves(full, await connect(place))


def test_who_has_more(tmp_path: Path) -> None:
    """Each writes its own number, who is away does not count, a few more are no matter; in the end nobody has room."""
    parent = Loads.create(tmp_path / "loads", 3)
    one, two = Loads(tmp_path / "loads"), Loads(tmp_path / "loads")
    assert one.room(1, 0) == 1
    assert two.room(2, 0) == 1
    assert two.room(2, 1) == 0
    assert one.room(1, 0) == 1
    assert one.room(1, 1) == 1
    two.write(2, 100)
    assert one.room(1, 60) == 1 + 60 // 8
    assert two.room(2, 67) == 1
    assert two.room(2, 68) == 0
    two.write(2, AWAY)
    assert one.room(1, 1000)
    one.write(3, 0)
    assert one.room(1, 1) == 0
    parent.close()
    assert (one.room(1, 0), two.room(2, 5)) == (-1, -1)


@pytest_twisted.ensureDeferred
async def test_who_is_to_accept_nobody_leaves_all_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even those that nobody accepts are its own, as they are of one that has no room."""
    monkeypatch.setattr(sharing, "REST", 0.0)
    stops, other = Accepting(), Accepting()
    async with accepting_there((stops, -1)) as place:
        client = await connect(place)
        await turns()
        assert not stops.accepted.pending
        client.transport.loseConnection()
        await client.gone()
    async with accepting_there((stops, -1), (other, 2)) as place:
        for _ in range(5):
            await serves(other, await connect(place))
    assert not stops.accepted.pending


def test_others_hear_of_sessions_that_end() -> None:
    """At once, lest one be taken for full that is not."""
    left: list[int] = []

    def room(sessions: int) -> int:
        left.append(sessions)
        return 1

    harness = RelayHarness()
    door = Inherited({"public": 0}, room, lambda size, sessions: (size, sessions))
    service = RelayService(harness.config, harness.reactor, harness.reactor.seconds, inherited=door)
    sessions = service.state.sessions.listeners["public"]
    drivers: list[Any] = [object(), object()]
    for each in drivers:
        sessions.add(each)
    for each in drivers:
        sessions.ended(each)
    assert left == [1, 0]
