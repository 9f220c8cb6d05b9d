"""What a relay that runs consists of, as its admin endpoint shows it: sessions by listener, brokers, journal."""

from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from twisted.internet.defer import Deferred, succeed

from stomprelay.relay.model.counters import Counters
from stomprelay.relay.model.listener import Listener
from stomprelay.service.brokers.brokers import Brokers
from stomprelay.service.brokers.pause import Pauses
from stomprelay.service.connection.protocol import Runtime
from stomprelay.service.connection.relay_driver import RelayDriver
from stomprelay.service.journal.journal import Journal
from stomprelay.service.log import logger

_log: Final = logger()


class ListenerSessions:
    """The sessions of one listener that are not over, each by its driver, and what was counted for the listener.

    A driver calls `ended` when it is over; then `on_end` is called.
    """

    def __init__(self, listener: Listener, on_end: Callable[[], None] = lambda: None) -> None:
        self.listener: Final = listener
        self.counters: Final = Counters()
        self._drivers: set[RelayDriver] = set()
        self._on_end = on_end

    def ended(self, driver: RelayDriver) -> None:
        """Remove the session of a driver that is over."""
        self._drivers.discard(driver)
        self._on_end()

    def add(self, driver: RelayDriver) -> None:
        """Add the session of a client that connected to this listener."""
        self._drivers.add(driver)

    def __iter__(self) -> Iterator[RelayDriver]:
        return iter(self._drivers)

    def __len__(self) -> int:
        return len(self._drivers)


class Sessions:
    """The sessions of all listeners. Copy them before you do anything to them that may end one.

    `listeners` has those of each listener by its name. `stopping`: no session is accepted any more.
    """

    def __init__(self, listeners: Iterable[Listener]) -> None:
        self.listeners: Final = {each.name: ListenerSessions(each, self._ended) for each in listeners}
        self.stopping = False
        self._over: Deferred[None] | None = None

    def __iter__(self) -> Iterator[RelayDriver]:
        for each in self.listeners.values():
            yield from each

    def __len__(self) -> int:
        return sum(map(len, self.listeners.values()))

    def refuse(self) -> None:
        """Accept no more sessions: the factories of the listeners build no protocol from now on."""
        self.stopping = True

    def begin_stop(self) -> None:
        """End all sessions that have nothing left to deliver; the others end when they have not."""
        self._each(RelayDriver.begin_stop)

    def over(self) -> Deferred[None]:
        """Return a Deferred that fires when no session is left; at once where there is none. It may be cancelled."""
        if not len(self):
            return succeed(None)
        self._over = Deferred()
        return self._over

    def _ended(self) -> None:
        if self._over is not None and not len(self):
            over, self._over = self._over, None
            if not over.called:
                over.callback(None)

    def possibly_lost(self) -> int:
        """Return how many SENDs may have been lost since the relay started."""
        return sum(each.counters["possibly_lost"] for each in self.listeners.values())

    def stop(self) -> None:
        """End all sessions: each client gets an ERROR, and its connections are closed."""
        self._each(RelayDriver.stop)

    def _each(self, do: Callable[[RelayDriver], None]) -> None:
        """Do this to all sessions. One that fails is logged, and the others are not kept from their end by it."""
        for session in tuple(self):
            try:
                do(session)
            except Exception:
                _log.failure("a session could not be ended")


class RelayState(NamedTuple):
    """The parts of a relay that runs. `journal` is None where none is kept."""

    runtime: Runtime
    sessions: Sessions
    brokers: Brokers
    pauses: Pauses
    journal: Journal | None
