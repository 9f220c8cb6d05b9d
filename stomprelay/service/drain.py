"""Drains queues of one broker to another: the connections and the clock of `move.drain` and `move.compare`.

Each end is a client of a relay of its own, in this process. So the upstream's settings have their effect: TLS,
WebSocket, login, versions, heart-beats, names at the broker.
"""

import os
import random
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count, cycle
from typing import Any, Final

from twisted.internet.defer import Deferred
from twisted.internet.protocol import Protocol, connectionDone
from twisted.internet.task import LoopingCall
from twisted.python.failure import Failure

from stomprelay.journal.capture import Records
from stomprelay.journal.follow import Follower
from stomprelay.journal.records import Record
from stomprelay.journal.schema import Context
from stomprelay.move.compare import Compare
from stomprelay.move.consumer import Connect, Consumer, End, HangUp, Write
from stomprelay.move.drain import Drain
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
from stomprelay.service.journal.journal import Journal
from stomprelay.service.network.endpoints import NamedFactory, broker_endpoint
from stomprelay.service.process import HURRY, Signals
from stomprelay.session.effects import Note
from stomprelay.session.reasons import EXPLAINING


class Client(Protocol):
    """The connection of one end to its relay. `held`: it is not read from."""

    transport: Any = None
    held = False

    def __init__(self, moving: "Performing", end: End) -> None:
        self._moving = moving
        self._end = end

    def connectionMade(self) -> None:
        """Report the connection."""
        self._moving.heard(self, self._end, "opened")

    def dataReceived(self, data: bytes) -> None:
        """Pass on the bytes."""
        self._moving.heard(self, self._end, "received", data)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """Report the end of the connection."""
        self._moving.lost(self, self._end)


class Door:
    """Connects clients to the brokers of an upstream, one session at a time: to each broker in turn. `name` is that of
    its listener, and begins the names of its sessions. `records` takes what they say, if it is not None. Raises
    `BadEndpoint`.
    """

    def __init__(
        self,
        reactor: Any,
        seconds: Callable[[], float],
        upstream: Upstream,
        name: str,
        records: Records | None = None,
    ) -> None:
        self._upstream = upstream
        self._name = name
        self._records = records
        self._endpoints = {each: broker_endpoint(reactor, each, upstream) for each in upstream.brokers}
        self._brokers = cycle(upstream.brokers)
        self._names = (f"{name}-{os.urandom(4).hex()}-{number}".encode() for number in count(1))
        self._reasons: deque[str] = deque(maxlen=1)
        self._runtime = Runtime(reactor, seconds)
        self._runtime.observe(self._noted)
        self._memory = MemoryEndpoint(reactor, NamedFactory(name, lambda _: self._accept()))
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
        return self._memory.connect(NamedFactory(self._name, lambda _: client))

    async def closed(self) -> None:
        """Wait until the connections to brokers have ended, but not for long."""
        await self._runtime.wait_closed(0.0)

    def _accept(self) -> LegProtocol:
        broker = self.broker = next(self._brokers)
        relay = Relay(
            Listener.own(self._name, replace(self._upstream, groups=alone(broker), quorum=1)),
            next(self._names),
            Counters(),
            random.random,
            passes=PIPE is not None,
        )
        driver = RelayDriver(self._runtime, relay, self._endpoints, lambda driver: None)
        driver.record_to(self._records)
        return LegProtocol(driver, relay.client)

    def _noted(self, note: Note, probed: bool) -> None:
        if note.event in EXPLAINING:
            self._reasons.append(note.text)


class Performing:
    """Performs what its `core` asks for, from `start` on. `core` must be set before. `ended` fires when the core is
    done. `upstreams` are those of its ends; for `name` and `records` see `Door`. Raises `BadEndpoint`.
    """

    core: Consumer

    def __init__(
        self, reactor: Any, upstreams: Mapping[End, Upstream], name: str, records: Records | None = None
    ) -> None:
        self._reactor = reactor
        self._seconds = time.monotonic
        self._doors = {
            end: Door(reactor, self._seconds, each, name, records) for end, each in upstreams.items()
        }
        self._clients: dict[End, Client] = {}
        self._timer: Any = None
        self.ended: Deferred[None] = Deferred()

    @property
    def epoch(self) -> float:
        """The time 0 of the core, in seconds since 1970."""
        return time.time() - self._seconds()

    def profile(self, end: End) -> Profile:
        """Return the product of an end that is connected."""
        return self._doors[end].profile

    def start(self) -> None:
        """Begin."""
        self.happened("begun")

    async def closed(self) -> None:
        """Wait until all connections have ended, but not for long."""
        for door in self._doors.values():
            await door.closed()

    def heard(self, client: Client, end: End, what: str, *facts: Any) -> None:
        """Something happened to a client's connection, which is over if the core has closed it."""
        if self._clients.get(end) is client:
            self.happened(what, end, *facts)

    def lost(self, client: Client, end: End, reason: str = "") -> None:
        """A client's connection ended, or could not be opened."""
        if self._clients.get(end) is client:
            del self._clients[end]
            self.happened("lost", end, reason or self._doors[end].why)

    def happened(self, what: str, *facts: Any) -> None:
        """Tell the core, and do what it asks for."""
        core = self.core
        if self.core.done:
            return
        for request in getattr(core, what)(*facts, self._seconds()):
            match request:
                case Write(end, data):
                    self._clients[end].transport.write(data)
                case Connect(end):
                    self._connect(end)
                case HangUp(end) if end in self._clients:
                    transport = self._clients.pop(end).transport
                    if transport is not None:  # otherwise it is still an attempt
                        transport.loseConnection()
        self._hold(core.holding)
        self._wake(core.wakes_at)
        if core.done:
            self.ended.callback(None)

    def _connect(self, end: End) -> None:
        client = self._clients[end] = Client(self, end)
        _ = self._doors[end].connect(client).addErrback(lambda why: self.lost(client, end, str(why.value)))

    def _hold(self, on: bool) -> None:
        client = self._clients.get(next(iter(self._doors)))
        if client is not None and client.transport is not None and on is not client.held:
            client.held = on
            (client.transport.pauseProducing if on else client.transport.resumeProducing)()

    def _wake(self, at: float) -> None:
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        if at < float("inf"):
            self._timer = self._reactor.callLater(max(at - self._seconds(), 0), self.happened, "woke")


class Moving(Performing):
    """A drain of these queues. Raises `BadEndpoint`."""

    core: Drain

    def __init__(
        self, reactor: Any, queues: Sequence[str], old: Upstream, new: Upstream, **options: Any
    ) -> None:
        upstreams = {End.OLD: old, End.NEW: new}
        super().__init__(reactor, upstreams, "drain")
        self.core = Drain(queues, upstreams, self.profile, epoch=self.epoch, **options)


LOOKING: Final = 0.2
"""Seconds between two looks into the journal."""
LONGEST: Final = 0.02
"""Seconds of a turn of the reactor in which records of the journal are read."""


COMPARED: Final = "compared"
"""The event by which the journal of a comparison says which SENDs were compared: to where, since when, until when."""


class Comparing(Performing):
    """A comparison of the journal in the folder `directory`, from `since` on (ns since 1970), with the copies at NEW.
    What NEW delivers goes to `records`, too, if it is not None. For the rest see `Compare`. Raises `BadEndpoint`.
    """

    core: Compare

    def __init__(
        self,
        reactor: Any,
        new: Upstream,
        directory: str,
        since: int,
        records: Journal | None,
        destinations: Sequence[str],
        moves: Callable[[str, str], bool],
        seconds: float,
    ) -> None:
        super().__init__(reactor, {End.NEW: new}, "compare", records)
        self._several = len(new.brokers) > 1
        self.follower = Follower(directory, since)
        self._records = records
        self._found: Iterator[Record] = iter(())
        self.core = Compare(destinations, moves, new, self.profile, epoch=self.epoch, seconds=seconds)

    @property
    def only(self) -> str:
        """The broker from which copies were taken, if NEW has others; otherwise nothing."""
        return f"{self._doors[End.NEW].broker}" if self._several else ""

    def start(self) -> None:
        """Begin. Raises `CannotStart` if there is no folder for `records`."""
        if self._records is not None:
            self._records.startService()
        super().start()
        self._found = self.follower.records(self.core.wants)
        self._look()

    async def closed(self) -> None:
        """Wait until the connections have ended, and `records` are written, but not for long."""
        await super().closed()
        if self._records is None:
            return
        began, context = self.epoch, Context(listener="compare").encode()
        for destination, since in self.core.comparison.since.items():
            times = {"since": int(since * 1e9), "until": int((began + self.core.until) * 1e9)}
            facts = {"destination": destination, **times}
            self._records.event(context, COMPARED, f"{destination} was compared", facts)
        await self._records.stopService()

    def _look(self) -> None:
        until = self._seconds() + LONGEST
        try:
            for record in self._found:
                what = record.command if record.event is None else record.event.event
                headers, at = dict(reversed(record.headers)), record.time / 1e9
                self.happened("recorded", record.context, record.number, what, headers, at)
                if self._seconds() >= until or self.core.ahead(until):
                    break
            else:
                self.happened("read")
                self._found = self.follower.records(self.core.wants)
                until += LOOKING
        except OSError as error:
            self.happened("unreadable", f"the journal cannot be read: {error.strerror}: {error.filename}")
        if not self.core.done:
            self._reactor.callLater(max(until - self._seconds(), 0), self._look)


def run(reactor: Any, movings: Sequence[Performing], progress: Callable[[Any], None] | None = None) -> None:
    """Perform one after the other, and return when all have ended. SIGINT and SIGTERM end the present one, and then the
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

    interrupted: list[str] = []
    failures: list[Failure] = []

    def interrupt() -> None:
        interrupted.append(INTERRUPTED)
        now.happened("stopped", INTERRUPTED)

    def stop(_: object) -> None:
        reactor.stop()

    reactor.callWhenRunning(Signals(reactor, dict.fromkeys(HURRY, interrupt)).startService)
    reactor.callWhenRunning(lambda: Deferred.fromCoroutine(work()).addErrback(failures.append).addBoth(stop))
    if progress is not None:
        reactor.callWhenRunning(LoopingCall(lambda: progress(now.core)).start, 1.0, False)
    reactor.run()
    for each in failures:
        each.raiseException()


INTERRUPTED: Final = "the command was interrupted"
