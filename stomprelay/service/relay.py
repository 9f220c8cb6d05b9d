"""The relay as a service: made from a configuration, it listens, accepts sessions, and ends them when it stops."""

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from operator import attrgetter
from typing import Any, Final, NamedTuple

from twisted.application.service import MultiService
from twisted.internet.defer import Deferred, DeferredList, maybeDeferred

from stomprelay.config import Config
from stomprelay.config.address import MEMORY
from stomprelay.config.admin import UNENCRYPTED, unencrypted
from stomprelay.config.change import Change, ConfigSource, change
from stomprelay.config.config import COMMAND_LINE
from stomprelay.config.summary import choice
from stomprelay.config.upstream import PARTS
from stomprelay.relay.inputs import Ruled
from stomprelay.relay.model.group import Broker
from stomprelay.relay.model.listener import Listener
from stomprelay.relay.model.upstream import Upstream
from stomprelay.service.brokers import Brokers, Outages, Pauses, PeriodicChecks
from stomprelay.service.clients.clients import Admission, Clients
from stomprelay.service.clients.identification import Identification
from stomprelay.service.connection.memory import SessionMemory
from stomprelay.service.connection.runtime import Runtime
from stomprelay.service.embedded import BrokerService
from stomprelay.service.journal.journal import Journal
from stomprelay.service.journal.tails import Tails
from stomprelay.service.log import counted, logger, set_level
from stomprelay.service.moves import Moves
from stomprelay.service.network.endpoints import (
    HTTP,
    BadEndpoint,
    BrokerEndpoint,
    CannotStart,
    ListeningService,
    NamedFactory,
    Ports,
    broker_endpoint,
    listening_service,
    secured_by,
)
from stomprelay.service.network.sharing import Inherited
from stomprelay.service.network.tls import CertificateWatch, TLSConnections
from stomprelay.service.process import (
    HURRY,
    Notify,
    Reloaded,
    Reloads,
    Signals,
    memory_limit,
    open_descriptors,
    return_freed_memory,
    unused,
)
from stomprelay.service.state import ListenerSessions, RelayState, Sessions
from stomprelay.wire.decoder import SCANNER

_log: Final = logger()

RULING: Final = 0.01
MARGIN: Final = 10.0
"""systemd is asked for so many seconds more than `stop_timeout` and `linger`, to write the journal to its end."""


class Prepared(NamedTuple):
    """Another configuration that a relay can use. `change` is the difference. `ports`: the ports that change, those of
    listeners first. `use` is called to change everything else. Call `open`, then `commit` or `abandon`, in the same
    turn of the reactor.
    """

    change: Change
    ports: list[Ports]
    use: Callable[[], None]

    def open(self) -> None:
        """Listen on all new endpoints. If an endpoint fails, listen on none of them and raise `CannotStart`."""
        try:
            for each in self.ports:
                each.open()
        except CannotStart:
            self.abandon()
            raise

    def abandon(self) -> None:
        """Close the new endpoints that were opened. Nothing else has changed."""
        for each in self.ports:
            each.abandon()

    def commit(self) -> Deferred[Reloaded]:
        """Use the configuration. The Deferred fires with the changes when the removed endpoints are closed."""
        closed = [each.commit() for each in self.ports]
        self.use()
        found = Reloaded(self.change.changed, self.change.restart)
        return DeferredList(closed).addCallback(lambda _: found)


def _warnings(config: Config) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield warnings and their fields: for a readable admin token, and for groups that split sessions."""
    place, token = config.admin, config.admin_token
    if place is not None and token is not None and unencrypted(place, config.admin_tls):
        yield "admin: {endpoint}: {warning}", {"endpoint": place, "warning": UNENCRYPTED}
    for upstream in config.upstreams:
        for group in upstream.parts:
            text = PARTS.format(group=group.name, choice=choice(group))
            yield "upstream {upstream}: {text}", {"upstream": upstream.name, "text": text}


_DOOR: Final = attrgetter("name", "endpoint", "tls", "web")
"""The settings of a listener that decide how its endpoint listens."""
_ADMIN: Final = attrgetter("admin", "admin_token", "admin_tls", "admin_console", "admin_hosts", "metrics")
"""The settings that decide how admin and metrics listen and what they show."""
_WAY: Final = attrgetter("name", "groups", "tls", "proxy_protocol", "versions", "connected")
"""The settings of an upstream that decide how the relay connects to its brokers, and which warnings are logged."""
_PLAIN: Final = ("tcp:", "tcp6:", "unix:", MEMORY)
"""The beginnings of endpoints that need no files such as certificates."""


class RelayService(MultiService):
    """Listens on the configured endpoints, and relays. Raises `BadEndpoint` for an endpoint that cannot be used.
    `config` is in use now; `state` has the parts that run. The services in `when_ready` start when everything listens.
    `clock` returns the time for the journal, in nanoseconds since 1970. `descriptors`: how many file descriptors the
    process may have, None for no limit. `inherited`: what a worker has from its parent. `source`: from where a reload
    reads the configuration, None if no reload is possible.
    """

    def __init__(
        self,
        config: Config,
        reactor: Any,
        seconds: Callable[[], float] = time.monotonic,
        clock: Callable[[], int] = time.time_ns,
        descriptors: int | None = None,
        inherited: Inherited | None = None,
        source: ConfigSource | None = None,
    ) -> None:
        super().__init__()
        self._descriptors = descriptors
        self._inherited = inherited
        set_level(config.log_level)
        self._reactor = reactor
        self.config = config
        run = os.urandom(4).hex()
        shared = {} if inherited is None else {"total": inherited.kept}
        room = None if inherited is None else inherited.room
        sessions = Sessions(config.listeners, room, clock() / 1e9 - seconds())
        memory = SessionMemory(
            reactor, seconds, memory_limit(config.memory), sessions, trim=return_freed_memory, **shared
        )
        runtime = self._runtime = Runtime(reactor, seconds, memory)
        brokers = Brokers(config.upstreams)
        self._admission = Admission(runtime, sessions, lambda: self.config.clients)
        # The journal is added first, so that it ends last.
        settings, journal = config.journal, None
        if settings.directory is not None:
            journal = Journal(settings.directory, settings, reactor, run, lambda: sessions, clock)
            journal.setServiceParent(self)
        tails = Tails(settings, journal, lambda: sessions, reactor, run, clock)
        tell = None if inherited is None else inherited.tell
        self._notify = Notify(self._status, reactor, tell=tell)
        reloads = None if source is None else Reloads(reactor, source, self._reload, self._notify.reloading)
        pauses = Pauses(sessions, journal)
        moves = Moves(config, sessions, runtime, clock, writes=inherited is None, tell=tell)
        moves.setServiceParent(self)
        outages = Outages(brokers, runtime, clock)
        self.state = RelayState(
            runtime,
            sessions,
            brokers,
            pauses,
            moves,
            journal,
            outages,
            tails,
            self._expiries,
            outages.time,
            reloads,
        )
        runtime.observe(outages.noted)
        self._upstreams = {each.broker: each.upstream.name for each in brokers}
        configured = [(each.upstream, each.broker) for each in brokers]
        self.embedded: BrokerService | None = None
        self.embedded = self._embedded_broker(config, configured)
        if self.embedded is not None:
            self.embedded.setServiceParent(self)
        self._endpoints = self._broker_endpoints(configured, self.embedded)
        self._identification = Identification(runtime, config.auths, reactor, clock, self._admission.admit)
        self._identification.setServiceParent(self)
        self.clients = Clients(
            self.state,
            self._admission,
            self._endpoints,
            self._identification.ask,
            f"relay-{run}",
            lambda: self.config.fast_path,
        )
        self._listening = Ports([*map(self._listener, config.listeners)])
        self._listening.setServiceParent(self)
        if config.watched:
            runtime.tallies.count_destinations()
        self._checks = PeriodicChecks(
            runtime, brokers, sessions, self._endpoints, journal, watched=config.watched
        )
        self._checks.setServiceParent(self)
        self.admin = Ports(self._admin_services(config))
        self.admin.setServiceParent(self)
        self._look_at(config)
        self._warn()
        self._certificates = CertificateWatch(reactor)
        self._certificates.watch(self._connections())
        self._certificates.setServiceParent(self)
        if reloads is not None:
            reloads.setServiceParent(self)
        unused(reactor).setServiceParent(self)
        self.when_ready = MultiService()
        self._notify.setServiceParent(self.when_ready)
        self.when_ready.setServiceParent(self)

    def _embedded_broker(
        self, config: Config, brokers: Iterable[tuple[Upstream, Broker]]
    ) -> BrokerService | None:
        """Return the embedded broker: the running one, otherwise a new one if these brokers need it, otherwise None."""
        needed = any(each.endpoint == MEMORY for _, each in brokers)
        if not needed or self.embedded is not None:
            return self.embedded
        return BrokerService(self._reactor, config.broker, seconds=self._runtime.seconds)

    def _expiries(self) -> dict[str, float]:
        """Return the expiry of each certificate in use, in seconds since 1970, by the table that names it."""
        ends = {table: [one.expires for one in each] for table, each in self._connections().items()}
        known = {table: [end for end in each if end is not None] for table, each in ends.items()}
        return {table: min(each) for table, each in known.items() if each}

    def _broker_endpoints(
        self, brokers: Iterable[tuple[Upstream, Broker]], embedded: BrokerService | None
    ) -> dict[Broker, BrokerEndpoint]:
        """Return the endpoint to connect to each of these brokers. Raises `BadEndpoint`."""
        found: dict[Broker, BrokerEndpoint] = {}
        for upstream, broker in brokers:
            if embedded is not None and broker.endpoint == MEMORY:
                found[broker] = embedded.memory
                continue
            try:
                found[broker] = broker_endpoint(self._reactor, broker, upstream)
            except BadEndpoint as error:
                raise BadEndpoint(f"upstream.{upstream.name}.{error}") from error
        return found

    def _listener(self, listener: Listener) -> ListeningService:
        accept = partial(self.clients.accept, listener.name)
        factory = NamedFactory(f"listener {listener.name}", accept, [HTTP] if listener.web else [])
        shared: dict[str, Any] = {}
        if (inherited := self._inherited) is not None:
            shared["inherited"] = inherited.sockets[listener.name]
            shared["room"] = lambda: inherited.room(len(self.state.sessions))
        try:
            return listening_service(
                self._reactor, listener.name, listener.endpoint, factory, listener.tls, **shared
            )
        except BadEndpoint as error:
            raise BadEndpoint(f"listener.{listener.name}.{error}") from error

    def _admin_services(self, config: Config) -> list[ListeningService]:
        if not config.watched or self._inherited is not None:
            return []
        # The web server is loaded only if it is wanted.
        from stomprelay.service.admin.site import admin_services

        return admin_services(config, self.state, self._reactor, self.clients.accept)

    def _connections(self) -> dict[str, list[TLSConnections]]:
        """Return the sources of TLS connections of listeners, admin and brokers, by the table that names the files."""
        found: dict[str, list[TLSConnections]] = {}
        for each in self._listening.services:
            if each.secured is not None:
                found[f"listener.{each.name}.tls"] = [each.secured]
        for each in self.admin.services:
            if each.secured is not None:
                found["admin_tls"] = [each.secured]
        for broker, endpoint in self._endpoints.items():
            secured = secured_by(endpoint)
            if secured is not None:
                found.setdefault(f"upstream.{self._upstreams[broker]}.tls", []).append(secured)
        return found

    # Another configuration

    def inherit(self, sockets: Mapping[str, int]) -> None:
        """Use these sockets of listeners, by name, at the next `prepare`. Only a worker calls this."""
        assert self._inherited is not None
        self._inherited = self._inherited._replace(sockets=sockets)

    def prepare(self, source: str, wanted: Config) -> Prepared:
        """Return how another configuration can be used; change nothing yet. Raises `ConfigError` or `BadEndpoint`."""
        found = change(source, self.config, wanted)
        config = found.config
        before = self.config
        again = self._reads_files or self._inherited is not None
        led = again or config.listeners is not before.listeners
        ports = []
        if again or (led and [*map(_DOOR, config.listeners)] != [*map(_DOOR, before.listeners)]):
            self._listening.prepare([*map(self._listener, config.listeners)])
            ports.append(self._listening)
        asked = again or _ADMIN(config) != _ADMIN(before)
        if asked:
            self.admin.prepare(self._admin_services(config))
            ports.append(self.admin)
        phases = self.state.moves.read(config) if led else {}
        differ = led and config.upstreams != before.upstreams
        ways = differ and [*map(_WAY, config.upstreams)] != [*map(_WAY, before.upstreams)]
        moved = again or bool(found.continued) or ways
        embedded, endpoints = self.embedded, self._endpoints
        if moved:
            brokers = found.brokers
            embedded = self._embedded_broker(config, brokers)
            endpoints = self._broker_endpoints(brokers, embedded)

        def use() -> None:
            if embedded is not None and self.embedded is None:
                self.embedded = embedded
                embedded.setServiceParent(self)
            if moved:
                self._change_brokers(found, endpoints)
            elif differ:
                self.state.brokers.change(config.upstreams)
            if led:
                self.state.moves.change(config, phases)
                self._rule_sessions(self.state.sessions.change(config.listeners))
                self.state.moves.tell()
            if config.auths != before.auths:
                self._identification.change(config.auths)
            if asked and config.watched:
                self._runtime.tallies.count_destinations()
            if moved or differ or (asked and config.watched != before.watched):
                self._checks.change(watched=config.watched)
            if moved:
                self.state.pauses.remove(found.left)
            self.config = config
            if config.log_level != before.log_level:
                set_level(config.log_level)
            if config.memory != before.memory:
                self._runtime.memory.allow(memory_limit(config.memory))
            if config.journal != before.journal:
                if self.state.journal is not None:
                    self.state.journal.change(config.journal)
                self.state.tails.change(config.journal)
            if moved or ports:
                self._look_at(config)
            self._warn()
            if again or self._reads_files:
                self._certificates.watch(self._connections())

        return Prepared(found, ports, use)

    def _look_at(self, config: Config) -> None:
        """Find out which warnings a configuration needs, and whether a reload has to read other files."""
        ends: list[Listener | Broker] = [*config.listeners]
        ends += [broker for upstream in config.upstreams for broker in upstream.brokers]
        places = [*filter(None, (config.admin, config.metrics)), *[each.endpoint for each in ends]]
        secured = config.admin_tls is not None or any(each.tls for each in ends)
        self._reads_files = secured or not all(each.startswith(_PLAIN) for each in places)
        self._warnings = list(_warnings(config)) if self._inherited is None else []

    def _warn(self) -> None:
        for text, facts in self._warnings:
            _log.warn(text, **facts)

    def _change_brokers(self, found: Change, endpoints: Mapping[Broker, BrokerEndpoint]) -> None:
        """Use the brokers of another configuration. Keep the endpoints of brokers that existing sessions use."""
        listeners = {id(each.relay.listener): each.relay.listener for each in self.state.sessions}
        used = {
            broker
            for listener in listeners.values()
            for upstream in listener.upstreams()
            for broker in upstream.brokers
        }
        found.apply()
        for gone in [each for each in self._endpoints if each not in used]:
            del self._endpoints[gone], self._upstreams[gone]
        self._endpoints.update(endpoints)
        self.state.brokers.change(found.config.upstreams)
        self._upstreams.update((each.broker, each.upstream.name) for each in self.state.brokers)
        self.state.outages.change(self.state.brokers)

    def _rule_sessions(self, ruled: Iterable[ListenerSessions]) -> None:
        """Apply the present rules of these listeners to their sessions, for about `RULING` seconds in each turn."""
        waiting = [(session, each) for each in ruled for session in each]
        seconds = self._runtime.seconds

        def some() -> None:
            until = seconds() + RULING
            while waiting:
                session, each = waiting.pop()
                session.handle(Ruled(each.listener.rules))
                if seconds() >= until:
                    self._reactor.callLater(0, some)
                    return

        some()

    def _reload(self, source: ConfigSource) -> Deferred[Reloaded]:
        prepared = self.prepare(source.path or COMMAND_LINE, source.read(self.config))
        prepared.open()
        return prepared.commit()

    def _status(self) -> str:
        sessions, journal = self.state.sessions, self.state.journal
        listeners = len(sessions.listeners)
        state = "stopping, " if sessions.stopping else "draining, " if sessions.draining else ""
        failing = journal is not None and journal.written.trouble
        trouble = f", the journal {journal.state}" if journal is not None and failing else ""
        return f"{state}{counted(len(sessions), 'session')}, {counted(listeners, 'listener')}{trouble}"

    def startService(self) -> None:
        """Listen on all endpoints. Raises `CannotStart`, which names the endpoint."""
        self.state.runtime.departures.open()
        super().startService()
        self._admission.started(self._descriptors, self._needed())
        _log.info("decoder: {decoder}", decoder="pure Python" if SCANNER is None else "compiled")
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
        """Return how many descriptors are open, or may be opened, for other purposes than sessions."""
        probes = sum(bool(each.upstream.checks.probe) for each in self.state.brokers)
        # Of the journal: segments, their folder, files that are removed.
        journal = 0 if self.state.journal is None else 8
        needed = (open_descriptors() or 32) + probes + journal
        if self.admin.services:
            from stomprelay.service.admin.server import CONNECTIONS

            needed += CONNECTIONS * len(self.admin.services)
        return needed

    def stopService(self) -> Deferred[None]:
        """Stop accepting; give sessions `stop_timeout` seconds to deliver; end the remaining sessions; and wait for
        their connections. SIGTERM and SIGINT shorten this time.
        """
        linger = self.state.sessions.stop_accepting()
        if self.state.reloads is not None:
            self.state.reloads.refuse()
        self._notify.stopping(self.config.stop_timeout + linger + MARGIN)
        return Deferred.fromCoroutine(self._stop(linger))

    async def _stop(self, linger: float) -> None:
        runtime = self.state.runtime
        sessions = self.state.sessions
        signals = Signals(self._reactor, dict.fromkeys(HURRY, sessions.hurry))
        signals.startService()
        closed = self._listening.disownServiceParent()
        self._admission.stop()
        await sessions.end(self.config.stop_timeout, runtime)
        self._checks.stopService()
        self.state.tails.stop()
        if closed is not None:
            await closed
        self.state.outages.stop()
        runtime.repeats.stop()
        if not await runtime.wait_closed(linger):
            _log.warn("{count} connections did not end in time", count=runtime.sockets)
        runtime.departures.close()
        if self.state.journal is not None:
            # The journal stops first: that may take long, and meanwhile `Notify` reports that this process is alive.
            await maybeDeferred(self.state.journal.disownServiceParent)
        await super().stopService()
        await maybeDeferred(signals.stopService)
