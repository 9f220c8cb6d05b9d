"""The relay as a service: its listeners, its sessions, and how they end."""

import os
import random
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from twisted.application.service import MultiService
from twisted.internet.defer import Deferred, TimeoutError
from twisted.internet.interfaces import IAddress, IStreamClientEndpoint
from twisted.internet.protocol import Factory
from twisted.logger import Logger

from stomprelay.config import Config
from stomprelay.journal.settings import Settings
from stomprelay.relay.model.counters import Counters
from stomprelay.relay.model.group import Broker
from stomprelay.relay.model.listener import Listener
from stomprelay.relay.model.upstream import Upstream
from stomprelay.relay.relay import Relay
from stomprelay.service.brokerservice import BrokerService
from stomprelay.service.endpoints import MEMORY, BadEndpoint, entrance, way
from stomprelay.service.notify import Notify
from stomprelay.service.perform import Performer, Stage
from stomprelay.service.protocol import LegProtocol
from stomprelay.service.relaying import Relaying
from stomprelay.service.roster import ALL, Roster
from stomprelay.service.rounds import Rounds
from stomprelay.service.signals import PAUSE, RESUME, Signals
from stomprelay.service.switchover import Switchover
from stomprelay.service.ways import Ways

if TYPE_CHECKING:
    from stomprelay.service.journal import Journal

_log: Final = Logger("stomprelay")

GRACE: Final = 1.0
"""Seconds beyond the longest linger that a stop waits for connections to end."""


class Reception(Factory):
    """Receives the clients of one listener. `sessions` are those that are not over."""

    noisy = False

    def __init__(self, service: "RelayService", listener: Listener, ways: Ways) -> None:
        self.listener = listener
        self.counters = Counters()
        self.sessions: set[Relaying] = set()
        self._service = service
        self._ways = ways

    def logPrefix(self) -> str:
        """As Twisted's lines call it."""
        return f"listener {self.listener.name}"

    def buildProtocol(self, addr: IAddress | None) -> Any:
        """A session for a new client; none while stopping."""
        service = self._service
        if service.stopping:
            return None
        relay = Relay(self.listener, service.next_name(), self.counters, random.random)
        session = service.received(relay, self._ways)
        self.sessions.add(session)
        return LegProtocol(session, relay.client)


class RelayService(MultiService):
    """Listens where the configuration says, and relays.

    `receptions` holds what is known of each listener, by its name; `roster` the brokers. SIGUSR1 pauses all of them,
    SIGUSR2 resumes them; so does `switchover`, each by itself. `journal` is there if one is kept; `clock` is its time,
    in nanoseconds since 1970. `received` makes a session for a client. Raises `BadEndpoint` for what cannot be used.
    """

    def __init__(
        self,
        config: Config,
        reactor: Any,
        seconds: Callable[[], float] = time.monotonic,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        super().__init__()
        self.stopping = False
        self.receptions: dict[str, Reception] = {}
        self.stage = Stage(reactor, seconds, self._over)
        self._reactor = reactor
        run = os.urandom(4).hex()
        self._prefix = f"relay-{run}"
        self._named = 0
        self.roster = Roster(config.listeners)
        self.switchover = Switchover(self.everyone, self.stage)
        self.received: Callable[[Relay, Ways], Relaying] = partial(Relaying, self.stage)
        self.journal = self._add_journal(config.journal, run, clock)
        self.broker: BrokerService | None = None
        if any(entry.broker.endpoint == MEMORY for entry in self.roster):
            self.broker = BrokerService(reactor, config.broker, seconds=seconds)
            self.broker.setServiceParent(self)
        ways = {
            broker: self._way(upstream, broker)
            for upstream in self.roster.upstreams
            for broker in upstream.brokers
        }
        self._doors = MultiService()
        self._doors.setServiceParent(self)
        for listener in config.listeners:
            self._add(listener, ways)
        self._rounds = Rounds(self.stage, self.roster, self.everyone, ways)
        self._rounds.setServiceParent(self)
        self._add_admin(config.admin)
        orders = {
            PAUSE: lambda: self.switchover.pause(self.roster.named(ALL)),
            RESUME: lambda: self.switchover.resume(self.roster.named(ALL)),
        }
        Signals(reactor, orders).setServiceParent(self)
        self._notify = Notify(self._status, reactor)
        self._notify.setServiceParent(self)

    def _add(self, listener: Listener, ways: Ways) -> None:
        reception = Reception(self, listener, ways)
        try:
            door = entrance(self._reactor, listener.name, listener.endpoint, reception, listener.tls)
        except BadEndpoint as error:
            raise BadEndpoint(f"listener.{listener.name}.{error}") from error
        self.receptions[listener.name] = reception
        door.setServiceParent(self._doors)

    def _way(self, upstream: Upstream, broker: Broker) -> IStreamClientEndpoint:
        if self.broker is not None and broker.endpoint == MEMORY:
            return self.broker.memory
        try:
            return way(self._reactor, broker, upstream.tls)
        except BadEndpoint as error:
            raise BadEndpoint(f"upstream.{upstream.name}.{error}") from error

    def _add_journal(self, settings: Settings, run: str, clock: Callable[[], int]) -> "Journal | None":
        """Added first, it ends last."""
        if settings.directory is None:
            return None
        from stomprelay.service.journal import Held, Journal
        from stomprelay.service.journalled import Journalled

        def held() -> Iterator[Held]:
            return (session for session in self.everyone() if isinstance(session, Journalled))

        journal = Journal(settings, self._reactor, run, held, clock)
        journal.setServiceParent(self)
        self.stage.journal = journal
        upstreams = {entry.broker: entry.upstream.name for entry in self.roster}
        self.received = lambda relay, ways: Journalled(self.stage, relay, ways, journal, upstreams)
        return journal

    def _add_admin(self, endpoint: str | None) -> None:
        if endpoint is None:
            return
        # A web server is not loaded where none is wanted.
        from stomprelay.service.admin import site

        try:
            door = entrance(self._reactor, "admin", endpoint, site(self, self._reactor))
        except BadEndpoint as error:
            raise BadEndpoint(f"admin: {error}") from error
        door.setServiceParent(self)

    def next_name(self) -> bytes:
        """A name for a session that no other ever had."""
        self._named += 1
        return f"{self._prefix}-{self._named}".encode("ascii")

    def _over(self, performer: Performer) -> None:
        assert isinstance(performer, Relaying)
        self.receptions[performer.place.name].sessions.discard(performer)

    def everyone(self) -> Iterator[Relaying]:
        """All sessions of all listeners."""
        for reception in self.receptions.values():
            yield from reception.sessions

    @property
    def sessions(self) -> int:
        """How many clients are there."""
        return sum(len(reception.sessions) for reception in self.receptions.values())

    def _status(self) -> str:
        sessions, listeners = self.sessions, len(self.receptions)
        state = "stopping, " if self.stopping else ""
        trouble = (
            f", the journal {self.journal.state}" if self.journal is not None and self.journal.trouble else ""
        )
        return f"{state}{sessions} session{'s'[: sessions != 1]}, {listeners} listener{'s'[: listeners != 1]}{trouble}"

    def startService(self) -> None:
        """All listeners listen, or an exception says which one cannot."""
        super().startService()
        for reception in self.receptions.values():
            listener = reception.listener
            _log.info(
                "{listener}: {endpoint} to {brokers}",
                listener=listener.name,
                endpoint=listener.endpoint,
                brokers=", ".join(
                    str(broker) for upstream in listener.upstreams() for broker in upstream.brokers
                ),
            )

    def stopService(self) -> Deferred[None]:
        """Stop accepting, tell every client, and wait until their connections have ended, or long enough."""
        self.stopping = True
        self._notify.stopping()
        return Deferred.fromCoroutine(self._stop())

    async def _stop(self) -> None:
        closed = self._doors.disownServiceParent()
        self._rounds.stop()
        for session in tuple(self.everyone()):
            session.stop()
        if closed is not None:
            await closed
        longest = max((each.listener.linger for each in self.receptions.values()), default=0.0)
        try:
            await self.stage.idle().addTimeout(longest + GRACE, self._reactor)
        except TimeoutError:
            _log.warn("{count} connections did not end in time", count=self.stage.sockets)
        await super().stopService()
