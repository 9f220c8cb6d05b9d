"""Drains queues of one broker to another: the connections and the clock of `move.drain`.

Each end is a client of a relay of its own, in this process. So the upstream's settings have their effect: TLS,
WebSocket, login, versions, heart-beats, names at the broker.
"""

import os
import random
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count, cycle
from typing import Any, Final

from twisted.internet.defer import Deferred
from twisted.internet.protocol import Protocol, connectionDone
from twisted.internet.task import LoopingCall
from twisted.python.failure import Failure

from stomprelay.move.drain import Close, Done, Drain, End, Hold, Open, Request, Wake, Write
from stomprelay.relay.model.counters import Counters
from stomprelay.relay.model.group import Broker, alone
from stomprelay.relay.model.listener import Listener
from stomprelay.relay.model.profile import Profile
from stomprelay.relay.model.upstream import Upstream
from stomprelay.relay.relay import Relay
from stomprelay.service.connection.protocol import PIPE, LegProtocol
from stomprelay.service.connection.relay_driver import RelayDriver
from stomprelay.service.connection.runtime import Runtime
from stomprelay.service.embedded import MemoryEndpoint
from stomprelay.service.network.endpoints import NamedFactory, broker_endpoint
from stomprelay.service.process import HURRY, Signals
from stomprelay.session.effects import Event, Note
from stomprelay.session.leg import Terms
from stomprelay.wire.dialect import V1_2

_EXPLAINING: Final = frozenset({Event.FOREIGN, Event.LOST, Event.REFUSED})
"""The events of a session that explain its end."""
_UNACKNOWLEDGED: Final = 1 << 20
"""More deliveries than brokers make before the first ACK."""


class Client(Protocol):
    """The connection of one end to its relay. `end` None: it was closed, and nothing more is reported."""

    def __init__(self, moving: "Moving", end: End) -> None:
        self._moving = moving
        self.end: End | None = end

    def connectionMade(self) -> None:
        """Report the connection."""
        if self.end is not None:
            self._moving.happened("opened", self.end)

    def dataReceived(self, data: bytes) -> None:
        """Pass on the bytes."""
        if self.end is not None:
            self._moving.happened("received", self.end, data)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """Report the end of the connection."""
        if self.end is not None:
            end, self.end = self.end, None
            self._moving.lost(end, self)

    def close(self) -> None:
        """Close when all is written."""
        self.end = None
        if self.transport is not None:
            self.transport.loseConnection()


class Door:
    """Connects clients to the brokers of an upstream, one session at a time: to each broker in turn. Raises
    `BadEndpoint`.
    """

    def __init__(self, reactor: Any, seconds: Callable[[], float], upstream: Upstream) -> None:
        self._upstream = upstream
        self._endpoints = {each: broker_endpoint(reactor, each, upstream) for each in upstream.brokers}
        self._brokers = cycle(upstream.brokers)
        self._names = (b"drain-%b-%d" % (os.urandom(4).hex().encode(), number) for number in count(1))
        self._reasons: deque[str] = deque(maxlen=1)
        self._runtime = Runtime(reactor, seconds)
        self._runtime.observe(self._noted)
        self._memory = MemoryEndpoint(reactor, NamedFactory("drain", lambda _: self._accept()))
        self.broker: Broker | None = None

    @property
    def profile(self) -> Profile:
        """The product of the broker that is connected."""
        return (self.broker and self.broker.profile) or self._upstream.profile

    @property
    def why(self) -> str:
        """Return why the last session ended, and forget it."""
        return self._reasons.pop() if self._reasons else f"{self.broker} closed the connection"

    def connect(self, client: Client) -> "Deferred[Any]":
        """Connect this client to the next broker."""
        self._reasons.clear()
        return self._memory.connect(NamedFactory("drain", lambda _: client))

    async def closed(self) -> None:
        """Wait until the connections to brokers have ended, but not for long."""
        await self._runtime.wait_closed(0.0)

    def _accept(self) -> LegProtocol:
        broker = self.broker = next(self._brokers)
        upstream = self._upstream
        relay = Relay(
            Listener(
                "drain",
                "",
                replace(upstream, groups=alone(broker), quorum=1),
                versions=frozenset({V1_2.version}),
                heart_beat=Terms(0, 0),
                limits=upstream.limits,
                unacknowledged=_UNACKNOWLEDGED,
            ),
            next(self._names),
            Counters(),
            random.random,
            passes=PIPE is not None,
        )
        return LegProtocol(
            RelayDriver(self._runtime, relay, self._endpoints, lambda driver: None), relay.client
        )

    def _noted(self, note: Note, probed: bool) -> None:
        if note.event in _EXPLAINING:
            self._reasons.append(note.text)


class Moving:
    """Performs what a drain asks for, from `start` on. `ended` fires when the drain is over. Raises `BadEndpoint`."""

    def __init__(
        self,
        reactor: Any,
        queues: Sequence[str],
        old: Upstream,
        new: Upstream,
        seconds: Callable[[], float] = time.monotonic,
        **options: Any,
    ) -> None:
        self._reactor = reactor
        self._seconds = seconds
        self._upstreams = {End.OLD: old, End.NEW: new}
        self._doors = {end: Door(reactor, seconds, each) for end, each in self._upstreams.items()}
        self._clients: dict[End, Client] = {}
        self._timer: Any = None
        self.ended: Deferred[None] = Deferred()
        self.drain = Drain(
            queues,
            lambda end: self._doors[end].profile,
            {end: each.groups[0].reconnect for end, each in self._upstreams.items()},
            {end: each.limits for end, each in self._upstreams.items()},
            epoch=time.time() - seconds(),
            **options,
        )

    def start(self) -> None:
        """Begin."""
        self.happened("begun")

    async def closed(self) -> None:
        """Wait until all connections have ended, but not for long."""
        for door in self._doors.values():
            await door.closed()

    def happened(self, what: str, *facts: Any) -> None:
        """Tell the drain, and do what it asks for."""
        if not self.drain.done:
            self._perform(getattr(self.drain, what)(*facts, self._seconds()))

    def lost(self, end: End, client: Client) -> None:
        """A client's connection ended."""
        if self._clients.get(end) is client:
            del self._clients[end]
            self.happened("lost", end, self._doors[end].why)

    def _perform(self, requests: Sequence[Request]) -> None:
        for request in requests:
            match request:
                case Write(end, data):
                    transport = self._clients[end].transport
                    assert transport is not None
                    transport.write(data)
                case Open(end):
                    self._open(end)
                case Close(end):
                    if end in self._clients:
                        self._clients.pop(end).close()
                case Hold(on):
                    self._hold(on)
                case Wake(at):
                    self._wake(at)
                case Done():
                    self._wake(None)
                    self.ended.callback(None)

    def _open(self, end: End) -> None:
        client = self._clients[end] = Client(self, end)

        def failed(reason: Failure) -> None:
            client.end = None
            if self._clients.pop(end, None) is client:
                self.happened("lost", end, str(reason.value))

        _ = self._doors[end].connect(client).addErrback(failed)

    def _hold(self, on: bool) -> None:
        client = self._clients.get(End.OLD)
        transport: Any = None if client is None else client.transport
        if transport is not None:
            (transport.pauseProducing if on else transport.resumeProducing)()

    def _wake(self, at: float | None) -> None:
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        self._timer = None
        if at is not None and at < float("inf"):
            self._timer = self._reactor.callLater(max(at - self._seconds(), 0), self.happened, "woke")


def run(reactor: Any, movings: Sequence[Moving], progress: Callable[[Drain], None] | None = None) -> None:
    """Drain one after the other, and return when all have ended. SIGINT and SIGTERM end the present one, and then the
    others. `progress` is called once a second. Call this function only once in a process.
    """
    now = movings[0]

    async def work() -> None:
        nonlocal now
        for now in movings:
            if interrupted:
                now.happened("stopped", INTERRUPTED)
            now.start()
            await now.ended
            await now.closed()
        reactor.stop()

    interrupted: list[str] = []

    def interrupt() -> None:
        interrupted.append(INTERRUPTED)
        now.happened("stopped", INTERRUPTED)

    reactor.callWhenRunning(Signals(reactor, dict.fromkeys(HURRY, interrupt)).startService)
    reactor.callWhenRunning(lambda: Deferred.fromCoroutine(work()).addErrback(failed))
    failures: list[Failure] = []

    def failed(failure: Failure) -> None:
        failures.append(failure)
        reactor.stop()

    if progress is not None:
        reactor.callWhenRunning(LoopingCall(lambda: progress(now.drain)).start, 1.0, False)
    reactor.run()
    for each in failures:
        each.raiseException()


INTERRUPTED: Final = "the command was interrupted"
