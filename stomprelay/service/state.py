"""What a relay that runs consists of, as its admin endpoint shows it: sessions by listener, brokers, journal."""

from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from stomprelay.relay.model.counters import Counters
from stomprelay.relay.model.listener import Listener
from stomprelay.service.brokers.brokers import Brokers
from stomprelay.service.brokers.pause import Pauses
from stomprelay.service.connection.protocol import Runtime
from stomprelay.service.connection.relay_driver import RelayDriver
from stomprelay.service.journal.journal import Journal


class ListenerSessions:
    """The sessions of one listener that are not over, each by its driver, and what was counted for the listener.

    A driver calls `ended` when it is over.
    """

    def __init__(self, listener: Listener) -> None:
        self.listener: Final = listener
        self.counters: Final = Counters()
        self._drivers: set[RelayDriver] = set()
        self.ended: Final[Callable[[RelayDriver], None]] = self._drivers.discard

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
        self.listeners: Final = {each.name: ListenerSessions(each) for each in listeners}
        self.stopping = False

    def __iter__(self) -> Iterator[RelayDriver]:
        for each in self.listeners.values():
            yield from each

    def __len__(self) -> int:
        return sum(map(len, self.listeners.values()))

    def refuse(self) -> None:
        """Accept no more sessions: the factories of the listeners build no protocol from now on."""
        self.stopping = True

    def stop(self) -> None:
        """End all sessions: each client gets an ERROR, and its connections are closed."""
        for session in tuple(self):
            session.stop()


class RelayState(NamedTuple):
    """The parts of a relay that runs. `journal` is None where none is kept."""

    runtime: Runtime
    sessions: Sessions
    brokers: Brokers
    pauses: Pauses
    journal: Journal | None
