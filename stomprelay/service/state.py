"""The parts of a running relay that its admin endpoint shows: sessions by listener, brokers, journal."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from ipaddress import IPv6Address as IPv6
from ipaddress import ip_address, ip_network
from typing import Final, NamedTuple

from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.defer import CancelledError, Deferred, TimeoutError

from stomprelay.config.address import MEMORY
from stomprelay.relay.effects import KILLED
from stomprelay.relay.inputs import Input, Killed, Limited, StopBegan, Stopped
from stomprelay.relay.model.counters import Counters
from stomprelay.relay.model.listener import Listener
from stomprelay.relay.model.rates import Limiter, Scope
from stomprelay.service.brokers import Brokers, Outages, Pauses
from stomprelay.service.connection.relay_driver import RelayDriver
from stomprelay.service.connection.runtime import Runtime
from stomprelay.service.journal.journal import Journal
from stomprelay.service.journal.tails import Tails
from stomprelay.service.log import counted, logger
from stomprelay.service.moves import Moves
from stomprelay.service.process import Reloads

_log: Final = logger()


def network(address: object) -> str | None:
    """Return the text by which clients of an address are counted: an IPv4 address, or the first 64 bits of an IPv6
    address; None without an address.
    """
    if not isinstance(address, IPv4Address | IPv6Address):
        return None
    try:
        found = ip_address(address.host.partition("%")[0])
    except ValueError:
        return address.host
    if isinstance(found, IPv6):
        if found.ipv4_mapped is None:
            return str(ip_network((int(found) >> 64 << 64, 64)))
        found = found.ipv4_mapped
    return str(found)


def _cost(listener: Listener) -> int:
    ways = [listener.upstream, *[each.upstream for each in listener.routes]]
    return 1 + len(
        {
            id(group)
            for way in ways
            for group in way.groups
            for each in group.brokers
            if each.endpoint != MEMORY
        }
    )


class ListenerSessions:
    """The running sessions of one listener, and its counters. New sessions use `listener`. `on_end` is called when a
    session has ended. `cost`: how many descriptors a session may need, one for its client and one for each group.
    `limiter` limits connections and traffic of clients. `epoch`: see `Counters`.
    """

    def __init__(
        self, listener: Listener, on_end: Callable[[], None] = lambda: None, epoch: float = 0.0
    ) -> None:
        self.counters: Final = Counters(epoch)
        self.limiter: Final = Limiter(listener.rates)
        self._drivers: dict[RelayDriver, tuple[tuple[Scope, str], ...]] = {}
        self._counts: dict[tuple[Scope, str], int] = {}
        self._on_end = on_end
        self.listener = listener
        self.cost = _cost(listener)
        self.ended: Final = self._remove
        """A driver calls this when its session is over. All drivers share this one bound method."""

    def change(self, listener: Listener) -> bool:
        """Use this listener, which has the same name, for new sessions. Its rates apply to all sessions. Return whether
        its rules differ from the earlier rules. If they do, the caller must give the sessions the new rules.
        """
        before, self.listener = self.listener, listener
        if listener.rates != self.limiter.rates and self.limiter.change(listener.rates):
            for driver in tuple(self._drivers):
                driver.handle(Limited(self.limited_by(driver.address)))
        self.cost = _cost(listener)
        return listener.rules != before.rules

    def add(self, driver: RelayDriver, address: object = None) -> None:
        """Add the session of a client of this listener. `address`: the client's address, an object of Twisted."""
        place = network(address) if self.listener.clients_per_address is not None else None
        self._drivers[driver] = ()
        if place is not None:
            self.count(driver, (Scope.ADDRESS, place))

    def count(self, driver: RelayDriver, among: tuple[Scope, str]) -> None:
        """Count a session for this address, or for the user as whom its client was identified."""
        self._drivers[driver] += (among,)
        self._counts[among] = self._counts.get(among, 0) + 1

    def limited_by(self, address: object) -> str | None:
        """Return the text by which the limiter groups clients of this address; None if addresses are not limited."""
        return network(address) if self.limiter.asks_address else None

    def _remove(self, driver: RelayDriver) -> None:
        for among in self._drivers.pop(driver, ()):
            self._counts[among] -= 1
            if not self._counts[among]:
                del self._counts[among]
        self._on_end()

    def of(self, scope: Scope, place: str | None) -> int:
        """Return how many sessions this user has, or how many are counted for the `network` of this address."""
        return self._counts.get((scope, place or ""), 0)

    def __iter__(self) -> Iterator[RelayDriver]:
        return iter(self._drivers)

    def __len__(self) -> int:
        return len(self._drivers)


class Sessions:
    """The sessions of all listeners. Copy the collection before you end a session. `listeners` has the sessions of each
    configured listener by its name, `removed` those of each removed listener. `stopping`: no new session is accepted.
    `draining`: new clients are refused for now. `on_end` gets the number of remaining sessions.
    `epoch`: see `Counters`.
    """

    def __init__(
        self,
        listeners: Iterable[Listener],
        on_end: Callable[[int], object] | None = None,
        epoch: float = 0.0,
    ) -> None:
        self._epoch = epoch
        self.listeners: dict[str, ListenerSessions] = {}
        self.removed: dict[str, ListenerSessions] = {}
        self.change(listeners)
        self.stopping = False
        self.draining = False
        self._on_end = on_end
        self._over: Deferred[None] | None = None

    def change(self, listeners: Iterable[Listener]) -> list[ListenerSessions]:
        """Use these listeners from now on; names keep their counts. Return the listeners whose rules have changed."""
        known, self.listeners = {**self.removed, **self.listeners}, {}
        ruled = []
        for each in listeners:
            found = known.pop(each.name, None)
            if found is None:
                found = ListenerSessions(each, self._ended, self._epoch)
            elif found.listener is not each and found.change(each):
                ruled.append(found)
            self.listeners[each.name] = found
        self.removed = {name: each for name, each in known.items() if len(each)}
        return ruled

    def of(self, name: str) -> ListenerSessions:
        """Return the sessions of the listener of this name: a configured one, or a removed one that has sessions."""
        return self.listeners[name] if name in self.listeners else self.removed[name]

    @property
    def counted(self) -> tuple[ListenerSessions, ...]:
        """Return the sessions of each listener, including removed listeners that still have sessions."""
        return (*self.listeners.values(), *self.removed.values())

    def __iter__(self) -> Iterator[RelayDriver]:
        for each in self.counted:
            yield from each

    def __len__(self) -> int:
        return sum(map(len, self.counted))

    def drain(self, draining: bool) -> None:
        """Refuse new clients from now on (`draining`), or accept them again. Existing sessions continue."""
        if draining != self.draining:
            self.draining = draining
            _log.info("draining: new clients are refused" if draining else "new clients are accepted again")

    def stop_accepting(self) -> float:
        """Accept no session from now on. Return the longest `linger` of all listeners, removed ones, too."""
        self.stopping = True
        return max((each.listener.linger for each in self.counted), default=0.0)

    async def end(self, within: float, runtime: Runtime) -> None:
        """End all sessions. Sessions with nothing left to deliver end at once, other sessions when they have delivered
        everything. The rest ends after `within` seconds, or when `hurry` is called. The number of SENDs that may be
        lost is logged. Call `stop_accepting` before. The connections may take longer to close.
        """
        begun = runtime.seconds()
        if within:
            self._each(StopBegan())
        if within and len(self):
            count = counted(len(self), "session")
            text = "stopping: {sessions} with something left to deliver, within {within:g} s"
            _log.info(text, sessions=count, within=within)
            self._over = Deferred()
            try:
                await self._over.addTimeout(within, runtime.reactor)
                text = "stopping: all is delivered after {seconds:.1f} s"
                _log.info(text, seconds=runtime.seconds() - begun)
            except (TimeoutError, CancelledError):
                pass
            self._over = None
        left, before = len(self), self.possibly_lost()
        self.stop()
        if left:
            text = "{sessions} ended with the relay after {seconds:.1f} s, SENDs that may be lost: {lost}"
            lost = self.possibly_lost() - before
            emit = _log.warn if lost else _log.info
            emit(text, sessions=counted(left, "session"), seconds=runtime.seconds() - begun, lost=lost)

    def hurry(self) -> None:
        """Make `end` end the remaining sessions now."""
        if self._over is not None:
            self._over.cancel()

    def _ended(self) -> None:
        if self.removed:
            self.removed = {name: each for name, each in self.removed.items() if len(each)}
        if self._on_end is not None:
            self._on_end(len(self))
        if self._over is not None and not len(self):
            over, self._over = self._over, None
            over.callback(None)

    def possibly_lost(self) -> int:
        """Return how many SENDs may have been lost since the relay started."""
        return sum(each.counters["possibly_lost"] for each in self.counted)

    def kill(self, name: str) -> bool:
        """End the session of this name with an ERROR, as an operator asks. Return whether there is such a session."""
        for session in self:
            if session.name == name:
                _log.info("session {session} is ended, as an operator asked", session=name)
                session.handle(Killed(KILLED))
                return True
        return False

    def stop(self) -> None:
        """End all sessions: each client gets an ERROR, and its connections are closed."""
        self._each(Stopped())

    def _each(self, event: Input) -> None:
        """Give all sessions this input. If a session fails, log that, and give the input to the other sessions."""
        for session in tuple(self):
            try:
                session.handle(event)
            except Exception:
                _log.failure("a session could not be ended")


class RelayState(NamedTuple):
    """The parts of a running relay. `reloads` is None in a worker. `certificates` returns when each certificate ends,
    by its table in the configuration. `started` is the relay's start. All times are in seconds since 1970.
    """

    runtime: Runtime
    sessions: Sessions
    brokers: Brokers
    pauses: Pauses
    moves: Moves
    journal: Journal | None
    outages: Outages
    tails: Tails
    certificates: Callable[[], Mapping[str, float]]
    started: float
    reloads: Reloads | None = None
