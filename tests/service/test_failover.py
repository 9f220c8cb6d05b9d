"""Sessions that outlive their brokers, on real sockets: the brokers are played by the tests."""

import os
import re
import signal
import socket
from typing import Any

import pytest
import pytest_twisted
from twisted.internet import reactor
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.endpoints import TCP4ServerEndpoint
from twisted.internet.task import deferLater

from stomprelay.config import Config
from stomprelay.config.address import broker
from stomprelay.relay.model.group import Broker, Group, Reconnect
from stomprelay.relay.model.upstream import Upstream
from stomprelay.service.relayservice import RelayService
from tests.service.house import CONNECT, CONNECTED, MESSAGE, SEND, listener
from tests.service.sockets import ANY_PORT, call
from tests.service.talker import Accepting, Talker, until

COUNT = 120
"""Frames of a hundred thousand octets: more than all sockets on the way can hold."""

SUBSCRIBE = b"SUBSCRIBE\nid:0\ndestination:/queue/a\nack:auto\n\n\0"


class Coast:
    """A relay on real sockets, in front of groups of brokers that the test plays: so many in each."""

    def __init__(self, *sizes: int, **settings: Any) -> None:
        self._sizes = sizes or (2,)
        self._settings = settings
        self._ports: list[Any] = []
        self._stopped: Deferred[None] | None = None
        self.groups: list[list[Accepting]] = []
        self.brokers: list[list[Broker]] = []

    async def __aenter__(self) -> "Coast":
        groups = []
        for number, size in enumerate(self._sizes):
            self.groups.append([Accepting() for _ in range(size)])
            self.brokers.append([await self._listen(factory) for factory in self.groups[-1]])
            options = Reconnect(randomize=False, initial_delay=0.0, longest_delay=0.2)
            groups.append(Group(f"group-{number}", tuple(self.brokers[-1]), options))
        upstream = Upstream("main", tuple(groups), **self._settings)
        self.service = RelayService(Config((listener(endpoint=ANY_PORT, upstream=upstream),)), reactor)
        self.service.privilegedStartService()
        self.service.startService()
        return self

    async def _listen(self, factory: Accepting) -> Broker:
        port = await TCP4ServerEndpoint(reactor, 0, interface="127.0.0.1").listen(factory)
        self._ports.append(port)
        return broker(f"tcp://127.0.0.1:{port.getHost().port}")

    async def __aexit__(self, *trouble: object) -> None:
        if trouble[0] is None:
            await until(lambda: not self.service.stage.sockets)
        await self.stop()
        for port in self._ports:
            await port.stopListening()
        if trouble[0] is None:
            assert self.service.stage.lines == {}
            assert self.service.sessions == 0
            assert all(
                each.health.sessions == each.health.coming == 0 for group in self.brokers for each in group
            )

    def stop(self) -> Deferred[None]:
        """The relay stops."""
        self._stopped = self._stopped or maybeDeferred(self.service.stopService)
        return self._stopped

    async def accepts(self, number: int = 0, group: int = 0) -> Talker:
        """The next connection to this broker, whose CONNECT is answered."""
        served = await self.groups[group][number].accepted.get()
        assert (await served.frame()).startswith(b"CONNECT\n")
        served.transport.write(CONNECTED)
        return served

    async def client(self) -> Talker:
        """A client that said CONNECT."""
        client = await call(self.service._doors.getServiceNamed("public"))
        client.transport.write(CONNECT)
        return client

    async def session(self) -> tuple[Talker, Talker]:
        """A connected client and its broker, the first one."""
        client = await self.client()
        served = await self.accepts()
        assert (await client.frame()).startswith(b"CONNECTED\n")
        return client, served


def turns(seconds: float = 0.05) -> Deferred[None]:
    """A while in which something would happen that must not."""
    return deferLater(reactor, seconds)


def numbered(count: int) -> bytes:
    """So many large SENDs, in order."""
    return b"".join(
        b"SEND\ndestination:/queue/a\nnumber:%d\n\n%b\0" % (number, b"x" * 100_000) for number in range(count)
    )


def numbers(said: bytes) -> list[int]:
    """Their numbers in what was said, where it is all there."""
    found = re.findall(rb"\nnumber:(\d+)\n", said)
    assert said.count(b"\n\n" + b"x" * 100_000 + b"\0") == len(found)
    return list(map(int, found))


async def leave(*talkers: Talker) -> None:
    """All of them close their connections."""
    for talker in talkers:
        talker.transport.loseConnection()
    for talker in talkers:
        await talker.gone()


@pytest.mark.parametrize("end", ["close", "reset"])
@pytest_twisted.ensureDeferred
async def test_a_client_does_not_notice_that_its_broker_is_gone(end: str) -> None:
    """Its subscription is there at the next one, what it says is, and what that says comes; its connection stays."""
    async with Coast() as coast:
        client, first = await coast.session()
        client.transport.write(SUBSCRIBE)
        await first.frame()
        (first.transport.loseConnection if end == "close" else first.transport.abortConnection)()
        client.transport.write(SEND)
        second = await coast.accepts(1)
        assert await second.frame() == SUBSCRIBE
        assert await second.frame() == SEND
        second.transport.write(MESSAGE)
        assert await client.frame() == MESSAGE
        assert not client.half_closed
        assert not client.closed
        await leave(client)
        await second.gone()


@pytest_twisted.ensureDeferred
async def test_brokers_may_go_again_and_again() -> None:
    """Forth and back; nothing of the old connections is kept."""
    async with Coast() as coast:
        client, served = await coast.session()
        for number in (1, 0, 1, 0, 1):
            served.transport.abortConnection()
            served = await coast.accepts(number)
            client.transport.write(SEND)
            assert await served.frame() == SEND
            await until(lambda: coast.service.stage.sockets == 2)
            assert len(coast.service.stage.lines) == 2
        await leave(client)
        await served.gone()


@pytest_twisted.ensureDeferred
async def test_a_broker_that_does_not_read_and_dies() -> None:
    """While it does not read, its client is not read from; when it is gone, the client goes on with the next one, and
    what was said since then arrives there, in order.
    """
    async with Coast(confirm=True, resend_buffer=64 * 1024 * 1024) as coast:
        client, slow = await coast.session()
        slow.transport.pauseProducing()
        slow.transport.getHandle().setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        frames = numbered(COUNT)
        client.transport.write(frames)
        stage = coast.service.stage

        def held() -> bool:
            return any(line.valve is not None and line.valve.held for line in stage.lines.values())

        await until(held)
        taken = sum(line.octets for line in stage.lines.values())
        await turns(0.2)
        assert sum(line.octets for line in stage.lines.values()) == taken < len(frames) / 2
        slow.transport.abortConnection()
        second = await coast.accepts(1)
        last = b"\nnumber:%d\n" % (COUNT - 1)
        await until(lambda: last in second.heard[-101_000:] and second.heard.endswith(b"\0"))
        assert numbers(second.heard) == list(range(COUNT))
        for receipt in re.findall(rb"\nreceipt:(.+)\n", second.heard):
            second.transport.write(b"RECEIPT\nreceipt-id:%b\n\n\0" % receipt)
        await leave(client)
        await second.gone()


@pytest_twisted.ensureDeferred
async def test_a_client_that_does_not_read_across_a_failover() -> None:
    """It holds the next broker as it held the first, and gets all that both had to say when it reads again."""
    async with Coast() as coast:
        client, first = await coast.session()
        client.heard = client.heard.lstrip(b"\n")
        client.transport.write(SUBSCRIBE)
        await first.frame()
        client.transport.pauseProducing()
        large = MESSAGE.replace(b"hello", b"x" * 100_000)
        first.transport.write(large * 200)
        stage = coast.service.stage

        def held() -> bool:
            return any(line.valve is not None and line.valve.held for line in stage.lines.values())

        await until(held)
        taken = sum(line.octets for line in stage.lines.values())
        assert taken < len(large) * 150
        (session,) = coast.service.everyone()
        first.transport.abortConnection()

        # Nobody reads from the first one, so its end is seen only when the client reads on.
        client.transport.resumeProducing()
        second = await coast.accepts(1)
        assert await second.frame() == SUBSCRIBE
        client.transport.pauseProducing()
        second.transport.write(large * 200)
        await until(held)
        client.transport.resumeProducing()
        await until(lambda: session.glance().received >= len(large) * 200)
        await until(lambda: not held())
        second.transport.write(MESSAGE)
        await client.hears(b"\n\nhello\0")
        await leave(client)
        await second.gone()


@pytest_twisted.ensureDeferred
async def test_brokers_that_accept_and_never_answer() -> None:
    """Each is given up in time and the next one tried, for a client that just came and for one that lost its own."""
    async with Coast(3, connect_timeout=1.0) as coast:
        client = await coast.client()
        mute = await coast.groups[0][0].accepted.get()
        second = await coast.accepts(1)
        assert (await client.frame()).startswith(b"CONNECTED\n")
        await mute.gone()
        second.transport.abortConnection()
        third = await coast.accepts(2)
        client.transport.write(SEND)
        assert await third.frame() == SEND
        await leave(client)
        await third.gone()


@pytest_twisted.ensureDeferred
async def test_a_client_that_leaves_while_no_broker_is_there() -> None:
    """What it said is delivered to the next one, though there is nobody left: then all is over."""
    async with Coast(confirm=True) as coast:
        client, first = await coast.session()
        for factory in coast.groups[0]:
            factory.buildProtocol = lambda addr: None  # type: ignore[assignment, method-assign, return-value]
        first.transport.abortConnection()
        await first.gone()
        client.transport.write(SEND)
        await until(
            lambda: any(session.relay.links[0].broker is None for session in coast.service.everyone())
        )
        await leave(client)
        await until(lambda: not coast.service.stage.lines)
        assert coast.service.sessions == 1
        for factory in coast.groups[0]:
            del factory.buildProtocol
        found: list[Talker] = []
        for factory in coast.groups[0]:
            _ = factory.accepted.get().addCallback(found.append)
        await until(lambda: found)
        (served,) = found
        await served.frame()
        served.transport.write(CONNECTED)
        frame = await served.frame()
        assert frame.endswith(b"\n\nhello\0")
        receipt = frame.partition(b"\nreceipt:")[2].partition(b"\n")[0]
        served.transport.write(b"RECEIPT\nreceipt-id:%b\n\n\0" % receipt)
        await served.gone()


@pytest_twisted.ensureDeferred
async def test_a_switch_over_by_signal() -> None:
    """SIGUSR1 takes all brokers out of service: clients are held. SIGUSR2 brings them back: all that was said comes
    through, and nobody was cut.
    """
    async with Coast() as coast:
        client, first = await coast.session()
        os.kill(os.getpid(), signal.SIGUSR1)
        goodbye = await first.frame()
        assert goodbye.startswith(b"DISCONNECT\nreceipt:")
        client.transport.write(SEND)
        receipt = goodbye.removeprefix(b"DISCONNECT\nreceipt:").partition(b"\n")[0]
        first.transport.write(b"RECEIPT\nreceipt-id:%b\n\n\0" % receipt)
        await leave(first)
        late = await coast.client()
        await turns()
        assert [len(factory.accepted.pending) for factory in coast.groups[0]] == [0, 0]
        assert late.heard == b""
        os.kill(os.getpid(), signal.SIGUSR2)
        one, two = await coast.accepts(0), await coast.accepts(1)
        assert (await late.frame()).startswith(b"CONNECTED\n")
        await until(lambda: SEND in one.heard or SEND in two.heard)
        await leave(client, late)
        await one.gone()
        await two.gone()


@pytest_twisted.ensureDeferred
async def test_the_relay_stops_while_a_session_waits_for_a_broker() -> None:
    """The client is told, and nothing is waited for that will not come."""
    async with Coast(1) as coast:
        client, first = await coast.session()
        coast.groups[0][0].buildProtocol = lambda addr: None  # type: ignore[assignment, method-assign, return-value]
        await leave(first)
        await until(lambda: next(coast.service.everyone()).relay.links[0].broker is None)
        stopping = coast.stop()
        assert b"the relay is stopping" in await client.frame()
        await client.gone()
        await stopping


# Several brokers at a time


@pytest_twisted.ensureDeferred
async def test_a_slow_group_of_a_fan_out_holds_nobody() -> None:
    """While one broker does not read, the client is read from and the other broker gets everything; it catches up
    when it reads on.
    """
    async with Coast(1, 1, resend_buffer=64 * 1024 * 1024) as coast:
        client = await coast.client()
        slow, quick = await coast.accepts(group=0), await coast.accepts(group=1)
        assert (await client.frame()).startswith(b"CONNECTED\n")
        slow.transport.getHandle().setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        slow.transport.pauseProducing()
        frames = numbered(COUNT)
        client.transport.write(frames)
        await until(lambda: len(quick.heard) >= len(frames))
        assert numbers(quick.heard) == list(range(COUNT))
        assert len(slow.heard) < len(frames) / 2
        waiting = [
            len(line.transport.dataBuffer) + line.transport._tempDataLen
            for line in coast.service.stage.lines.values()
        ]
        assert max(waiting) < 1_500_000  # the rest is in the group's own queue, which has its bound
        slow.transport.resumeProducing()
        await until(lambda: len(slow.heard) >= len(frames))
        assert numbers(slow.heard) == list(range(COUNT))
        await leave(client)
        await slow.gone()
        await quick.gone()


@pytest_twisted.ensureDeferred
async def test_a_client_that_does_not_read_holds_all_groups() -> None:
    """None of them is read from; what they have to say comes when it reads on."""
    async with Coast(1, 1) as coast:
        client = await coast.client()
        one, other = await coast.accepts(group=0), await coast.accepts(group=1)
        assert (await client.frame()).startswith(b"CONNECTED\n")
        client.transport.write(SUBSCRIBE)
        await one.frame()
        await other.frame()
        client.transport.pauseProducing()
        large = MESSAGE.replace(b"hello", b"x" * 100_000) * COUNT
        for served in (one, other):
            served.transport.write(large)
        lines = coast.service.stage.lines
        await until(lambda: sum(line.valve is not None and line.valve.held for line in lines.values()) == 2)
        taken = sum(line.octets for line in lines.values())
        await turns(0.2)
        assert sum(line.octets for line in lines.values()) == taken < len(large)
        client.transport.resumeProducing()
        (session,) = coast.service.everyone()
        await until(lambda: session.glance().received >= 2 * len(large))
        await until(lambda: client.heard.count(b"\0") >= 2 * COUNT)
        await leave(client)
        await one.gone()
        await other.gone()


@pytest_twisted.ensureDeferred
async def test_a_group_of_a_fan_out_that_dies_while_it_is_slow() -> None:
    """The other goes on, and when it is there again it gets what it missed."""
    async with Coast(1, 1, resend_buffer=64 * 1024 * 1024, confirm=True) as coast:
        client = await coast.client()
        slow, quick = await coast.accepts(group=0), await coast.accepts(group=1)
        assert (await client.frame()).startswith(b"CONNECTED\n")
        slow.transport.getHandle().setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        slow.transport.pauseProducing()
        client.transport.write(numbered(COUNT))
        await until(lambda: b"\nnumber:%d\n" % (COUNT - 1) in quick.heard[-101_000:])
        slow.transport.abortConnection()
        again = await coast.accepts(group=0)
        last = b"\nnumber:%d\n" % (COUNT - 1)
        await until(lambda: last in again.heard[-101_000:] and again.heard.endswith(b"\0"))
        assert numbers(again.heard) == list(range(COUNT))
        for served in (quick, again):
            for receipt in re.findall(rb"\nreceipt:(.+)\n", served.heard):
                served.transport.write(b"RECEIPT\nreceipt-id:%b\n\n\0" % receipt)
        await leave(client)
        await quick.gone()
        await again.gone()
