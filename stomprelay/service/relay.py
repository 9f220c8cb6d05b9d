"""The relay as a service: made from a configuration, it listens, accepts sessions, and ends them when it stops."""

import os
import random
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

from twisted.application.service import MultiService
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.interfaces import IAddress, IStreamClientEndpoint
from twisted.internet.protocol import Factory

from stomprelay import COMPILED
from stomprelay.config import Config
from stomprelay.config.access import UNENCRYPTED, unencrypted
from stomprelay.config.address import MEMORY
from stomprelay.journal.settings import JournalSettings
from stomprelay.relay.model.group import Broker
from stomprelay.relay.model.upstream import Upstream
from stomprelay.relay.relay import Relay
from stomprelay.service.admission import Admission
from stomprelay.service.brokers.brokers import Brokers
from stomprelay.service.brokers.checks import PeriodicChecks
from stomprelay.service.brokers.outages import Outages
from stomprelay.service.brokers.pause import Pauses
from stomprelay.service.connection.pipes import PIPE
from stomprelay.service.connection.protocol import LegProtocol, Runtime
from stomprelay.service.connection.recording import RecordingDriver
from stomprelay.service.connection.relay_driver import RelayDriver
from stomprelay.service.drain import Drain
from stomprelay.service.embedded import BrokerService
from stomprelay.service.journal.journal import Journal
from stomprelay.service.log import logger, set_level, share_heads
from stomprelay.service.network.endpoints import BadEndpoint, client_endpoint, listening_service
from stomprelay.service.network.sharing import Inherited
from stomprelay.service.process import HURRY, Notify, Signals, open_descriptors, unused
from stomprelay.service.state import ListenerSessions, RelayState, Sessions
from stomprelay.wire.decoder import SCANNER

_log: Final = logger()

OPEN: Final = 32
"""File descriptors that are taken for open at the start where the system does not tell."""
JOURNAL: Final = 8
"""File descriptors that the journal may have open: segments, their folder, files that are removed."""
MARGIN: Final = 10.0
"""Seconds beyond `stop_timeout` and `linger` that systemd is asked for: the journal is written to its end."""


class ListenerFactory(Factory):
    """Builds the protocols of one listener's clients."""

    noisy = False

    def __init__(
        self, sessions: ListenerSessions, accept: Callable[[ListenerSessions, object], LegProtocol | None]
    ) -> None:
        self._sessions = sessions
        self._accept = accept

    def logPrefix(self) -> str:
        """Return the name that Twisted's log lines have for it."""
        return f"listener {self._sessions.listener.name}"

    def buildProtocol(self, addr: IAddress | None) -> Any:
        """Return the protocol of a new client; None while the relay stops, which closes the connection."""
        return self._accept(self._sessions, addr)


class RelayService(MultiService):
    """Listens on the configured endpoints, and relays. Raises `BadEndpoint` for what cannot be used.

    `state` is what runs; `embedded` is the embedded broker, if an upstream leads to it. `clock` is the time of the
    journal, in nanoseconds since 1970. `descriptors` is how many file descriptors the process may have, None for no
    limit. `inherited` is what it has of its parent, where this is a worker of several.
    """

    def __init__(
        self,
        config: Config,
        reactor: Any,
        seconds: Callable[[], float] = time.monotonic,
        clock: Callable[[], int] = time.time_ns,
        descriptors: int | None = None,
        inherited: Inherited | None = None,
    ) -> None:
        super().__init__()
        self._descriptors = descriptors
        self._inherited = inherited
        set_level(config.log_level)
        self._reactor = reactor
        run = os.urandom(4).hex()
        self._prefix = f"relay-{run}"
        self._named = 0
        runtime = Runtime(reactor, seconds)
        self._stop_timeout = config.stop_timeout
        self._passes = config.fast_path and PIPE is not None
        brokers = Brokers(config.listeners)
        sessions = (
            Sessions(config.listeners) if inherited is None else Sessions(config.listeners, inherited.room)
        )
        self._admission = Admission(runtime, sessions.listeners.values(), config.clients)
        # Added first, the journal ends last.
        journal = self._add_journal(config.journal, sessions, run, clock)
        outages = Outages(brokers, runtime.timers, seconds, clock)
        self.state = RelayState(runtime, sessions, brokers, Pauses(sessions, journal), journal, outages)
        runtime.observe(outages.noted, outages.probed)
        self._upstreams = {each.broker: each.upstream.name for each in brokers}
        self.embedded: BrokerService | None = None
        if any(each.broker.endpoint == MEMORY for each in brokers):
            self.embedded = BrokerService(reactor, config.broker, seconds=seconds)
            self.embedded.setServiceParent(self)
        self._endpoints = {
            broker: self._endpoint(upstream, broker)
            for upstream in brokers.upstreams
            for broker in upstream.brokers
        }
        self._listening = MultiService()
        self._listening.setServiceParent(self)
        for each in sessions.listeners.values():
            self._listen(each)
        watched = config.admin is not None or config.metrics is not None
        if watched:
            runtime.tallies.count_destinations()
        self._checks = PeriodicChecks(runtime, brokers, sessions, self._endpoints, journal, watched=watched)
        self._checks.setServiceParent(self)
        self._add_admin(config)
        unused(reactor).setServiceParent(self)
        self._notify = Notify(self._status, reactor)
        self._notify.setServiceParent(self)

    def _add_journal(
        self, settings: JournalSettings, sessions: Sessions, run: str, clock: Callable[[], int]
    ) -> Journal | None:
        if settings.directory is None:
            return None

        def recorded() -> Iterator[RecordingDriver]:
            return (session for session in sessions if isinstance(session, RecordingDriver))

        journal = Journal(settings.directory, settings, self._reactor, run, recorded, clock)
        journal.setServiceParent(self)
        return journal

    def _endpoint(self, upstream: Upstream, broker: Broker) -> IStreamClientEndpoint:
        if self.embedded is not None and broker.endpoint == MEMORY:
            return self.embedded.memory
        try:
            return client_endpoint(self._reactor, broker, upstream.tls)
        except BadEndpoint as error:
            raise BadEndpoint(f"upstream.{upstream.name}.{error}") from error

    def _listen(self, sessions: ListenerSessions) -> None:
        listener, factory = sessions.listener, ListenerFactory(sessions, self._accept)
        shared: dict[str, Any] = {}
        if (inherited := self._inherited) is not None:
            shared["inherited"] = inherited.sockets[listener.name]
            shared["room"] = lambda: inherited.room(len(self.state.sessions))
        try:
            service = listening_service(
                self._reactor, listener.name, listener.endpoint, factory, listener.tls, **shared
            )
        except BadEndpoint as error:
            raise BadEndpoint(f"listener.{listener.name}.{error}") from error
        service.setServiceParent(self._listening)

    def _add_admin(self, config: Config) -> None:
        self._admin_connections = 0
        if config.admin is None and config.metrics is None:
            return
        # A web server is not loaded where none is wanted.
        from stomprelay.service.admin.server import CONNECTIONS
        from stomprelay.service.admin.site import admin_services

        worker = self._inherited is not None
        for each in admin_services(config, self.state, self._reactor, worker=worker):
            self._admin_connections += CONNECTIONS
            each.setServiceParent(self)
        place, token = config.admin, config.admin_token
        if place is not None and token is not None and unencrypted(place, config.admin_tls):
            _log.warn("admin: {endpoint}: {warning}", endpoint=place, warning=UNENCRYPTED)

    def _accept(self, sessions: ListenerSessions, address: object) -> LegProtocol | None:
        """Begin a session for a new client and return the protocol of its leg; None while the relay stops. One that is
        too many, or comes while the relay is drained, is sent an ERROR.
        """
        runtime, journal = self.state.runtime, self.state.journal
        if self.state.sessions.stopping:
            return None
        refusal = self._admission.refusal(sessions, address, draining=self.state.sessions.draining)
        if refusal is not None:
            return self._admission.turn_away(sessions, *refusal)
        relay = Relay(
            sessions.listener,
            self._next_name(),
            sessions.counters,
            random.random,
            passes=self._passes,
            counter=runtime.tallies.counter,
        )
        driver = (
            RelayDriver(runtime, relay, self._endpoints, sessions.ended)
            if journal is None
            else RecordingDriver(runtime, relay, self._endpoints, sessions.ended, journal, self._upstreams)
        )
        sessions.add(driver, address)
        return LegProtocol(driver, relay.client)

    def _next_name(self) -> bytes:
        """Return a name for a session that no other session has, of this relay or of another."""
        self._named += 1
        return f"{self._prefix}-{self._named}".encode("ascii")

    def _status(self) -> str:
        """Return the relay's status in one line, for systemd."""
        sessions, journal = self.state.sessions, self.state.journal
        count, listeners = len(sessions), len(sessions.listeners)
        state = "stopping, " if sessions.stopping else "draining, " if sessions.draining else ""
        trouble = f", the journal {journal.state}" if journal is not None and journal.trouble else ""
        return (
            f"{state}{count} session{'s'[: count != 1]}, {listeners} listener{'s'[: listeners != 1]}{trouble}"
        )

    def startService(self) -> None:
        """Start to listen on all endpoints. Raises `CannotStart`, which names the endpoint that cannot be listened
        on.
        """
        share_heads()
        self.state.runtime.open()
        super().startService()
        self._admission.started(self._descriptors, self._needed())
        _log.info(
            "decoder: {decoder}; core: {core}",
            decoder="pure Python" if SCANNER is None else "compiled",
            core="compiled" if COMPILED else "pure Python",
        )
        for each in self.state.sessions.listeners.values():
            listener = each.listener
            _log.info(
                "{listener}: {endpoint} to {brokers}",
                listener=listener.name,
                endpoint=listener.endpoint,
                brokers=", ".join(
                    str(broker) for upstream in listener.upstreams() for broker in upstream.brokers
                ),
            )

    def _needed(self) -> int:
        """Return how many descriptors are open now, or may be by what is no session."""
        probes = sum(bool(each.upstream.checks.probe) for each in self.state.brokers)
        journal = 0 if self.state.journal is None else JOURNAL
        return (open_descriptors() or OPEN) + probes + journal + self._admin_connections

    def stopService(self) -> Deferred[None]:
        """Stop accepting, give every session `stop_timeout` seconds to deliver what it has, end those that are left,
        and wait until their connections have ended, or long enough. SIGTERM and SIGINT shorten that time.
        """
        sessions = self.state.sessions
        sessions.refuse()
        linger = max((each.listener.linger for each in sessions.listeners.values()), default=0.0)
        self._notify.stopping(self._stop_timeout + linger + MARGIN)
        return Deferred.fromCoroutine(self._stop(linger))

    async def _stop(self, linger: float) -> None:
        runtime = self.state.runtime
        drain = Drain(self.state.sessions, runtime, self._stop_timeout)
        signals = Signals(self._reactor, dict.fromkeys(HURRY, drain.hurry))
        signals.startService()
        closed = self._listening.disownServiceParent()
        await drain.run()
        self._checks.stop()
        if closed is not None:
            await closed
        self.state.outages.stop()
        runtime.repeats.stop()
        if not await runtime.wait_closed(linger):
            _log.warn("{count} connections did not end in time", count=runtime.sockets)
        runtime.close()
        await super().stopService()
        await maybeDeferred(signals.stopService)
