"""Clients that leave while they are not read from. Linux tells of it by `EPOLLRDHUP` (epoll_ctl(2)), which Twisted does
not ask for; so such connections are in an epoll object of their own, from which the reactor reads. On other systems
nothing is watched.
"""

import select
from collections.abc import Callable
from typing import Any, Final

from twisted.internet.interfaces import IReactorFDSet, IReadDescriptor
from twisted.python.failure import Failure
from zope.interface import implementer

from stomprelay.service.log import logger

AVAILABLE: Final = hasattr(select, "epoll")
AT_ONCE: Final = 256
"""Connections that are looked at in one turn of the reactor, at most."""

_log: Final = logger()


@implementer(IReadDescriptor)
class Departures:
    """Watches sockets for peers that leave, for all connections of a service. Call `open` first, `close` at the end."""

    def __init__(self, reactor: Any) -> None:
        self._reactor = reactor
        self._poller: Any = None
        self._watched: dict[int, Callable[[bool], None]] = {}

    def watch(self, descriptor: int, departed: Callable[[bool], None]) -> None:
        """Call `departed` in a later turn when the peer closes its direction (False) or resets (True)."""
        if self._poller is None:
            return
        events = select.EPOLLRDHUP | select.EPOLLET
        try:
            self._poller.register(descriptor, events)
        except FileExistsError:
            self._poller.modify(descriptor, events)
        except OSError as error:
            _log.warn("a connection cannot be watched: {error}", error=error)
            return
        self._watched[descriptor] = departed

    def forget(self, descriptor: int) -> None:
        """Stop watching this socket, if it is watched."""
        if self._watched.pop(descriptor, None) is None:
            return
        try:
            self._poller.unregister(descriptor)
        except OSError:
            pass  # it is closed, and with it its registration is gone

    def open(self) -> None:
        """Begin: sockets can be watched from now on, where the system can do so."""
        if not AVAILABLE or not IReactorFDSet.providedBy(self._reactor):
            return
        try:
            self._poller = select.epoll()
        except OSError as error:
            _log.warn("no connection can be watched: {error}", error=error)
            return
        self._reactor.addReader(self)

    def close(self) -> None:
        """Watch nothing more."""
        poller, self._poller = self._poller, None
        self._watched.clear()
        if poller is not None:
            self._reactor.removeReader(self)
            poller.close()

    # What the reactor asks for

    def fileno(self) -> int:
        """Return the descriptor of the epoll object; -1 where it is closed."""
        return -1 if self._poller is None else int(self._poller.fileno())

    def doRead(self) -> None:
        """Call `departed` of each socket whose peer has left."""
        for descriptor, events in self._poller.poll(0, AT_ONCE):
            departed = self._watched.get(descriptor)
            if departed is not None:
                departed(bool(events & (select.EPOLLHUP | select.EPOLLERR)))

    def logPrefix(self) -> str:
        """Return the name that Twisted's log lines have for it."""
        return "departures"

    def connectionLost(self, reason: Failure) -> None:
        """Do nothing; Twisted calls it when the reactor stops."""
