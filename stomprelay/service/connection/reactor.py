"""The relay's reactor: Twisted's epoll reactor. It calls the relay's own pipes, sockets and accepting ports without
the log context that Twisted makes for each call: for a few bytes that context takes as long as passing the bytes on.
"""

from collections.abc import Callable
from functools import lru_cache, partial
from select import EPOLLIN, EPOLLOUT
from typing import Any, Final

from twisted.internet.abstract import isIPAddress, isIPv6Address
from twisted.internet.epollreactor import EPollReactor
from twisted.internet.interfaces import IConnector
from twisted.internet.main import installReactor
from twisted.python import log

from stomprelay.service.connection.protocol import PIPE
from stomprelay.service.network.sockets import READ, Socket, SocketConnector, read_at_most

_DIRECT: Final = frozenset({PIPE, partial})
"""The types of `doRead` that are called directly: pipes, and the functions of accepting ports."""
_RECEIVED: Final = 4 * 1024 * 1024
"""About so many bytes are received in a turn from all connections together; fewer while a turn exceeds `_TURN`."""
_TURN: Final = 0.01
"""Seconds that a turn should take at most. New bytes wait for one or two turns."""
_LEAST: Final = 1024
"""Bytes that a connection reads in its turn, however many others there are."""


@lru_cache(256)
def _numeric(host: str) -> bool:
    return isIPAddress(host) or isIPv6Address(host)


def _read_some(connection: Socket, read: Callable[[], Any], most: int) -> Any:
    before = connection.bufferSize
    read_at_most(connection, most)
    try:
        return read()
    finally:
        read_at_most(connection, before)


class RelayReactor(EPollReactor):
    """An epoll reactor that calls pipes and our sockets directly. It relies on `_poller`, `_selectables`,
    `_doReadOrWrite` and `_disconnectSelectable` of Twisted's reactor; the tests check that they exist.
    """

    def __init__(self) -> None:
        super().__init__()
        self._most = float(_RECEIVED)
        """Bytes that all connections together may receive in the next turn."""

    def doPoll(self, timeout: float | None) -> None:
        """Wait for at most `timeout` seconds (None: no limit) and serve all descriptors, until something is due."""
        selectables = self._selectables
        while True:
            events = self._poller.poll(-1 if timeout is None else timeout, len(selectables))
            began = self.seconds()
            share = self._most / (len(events) or 1)
            for descriptor, event in events:
                selectable = selectables.get(descriptor)
                if selectable is None:
                    continue  # another selectable closed this one in this turn
                kind, reads = type(selectable), event & EPOLLIN and not event & EPOLLOUT
                if reads and (kind is Socket or type(getattr(selectable, "doRead", None)) in _DIRECT):
                    act = selectable.doRead
                    if share < READ and kind is Socket and selectable.bufferSize > share:
                        act = partial(_read_some, selectable, act, max(int(share), _LEAST))
                elif kind is SocketConnector or (kind is Socket and event == EPOLLOUT):
                    act = selectable.doWrite
                else:
                    log.callWithLogger(selectable, self._doReadOrWrite, selectable, descriptor, event)
                    continue
                end: BaseException | None
                try:
                    end = act()
                except BaseException as error:
                    log.callWithLogger(selectable, log.err)
                    end = error
                if end is not None:
                    log.callWithLogger(selectable, self._disconnectSelectable, selectable, end, bool(reads))
            took = self.seconds() - began
            if took > _TURN:
                self._most = max(self._most * _TURN / took, _LEAST * len(events))
            elif self._most < _RECEIVED:
                self._most = min(2 * self._most, _RECEIVED)
            if not self.running or self.threadCallQueue:
                return
            timeout = self.timeout()
            if timeout == 0:
                return

    doIteration = doPoll

    def stop(self) -> None:
        """Stop when this turn is over. `doPoll` returns, because a call is due."""
        super().stop()
        self.callLater(0, lambda: None)

    def connectTCP(
        self,
        host: str,
        port: int,
        factory: Any,
        timeout: float = 30,
        bindAddress: Any = None,
    ) -> IConnector:
        """Connect a client of `factory`; see `IReactorTCP`."""
        if bindAddress is not None or not _numeric(host):
            connector: IConnector = super().connectTCP(host, port, factory, timeout, bindAddress)
            return connector
        attempt = SocketConnector(self, host, port, factory, timeout)
        attempt.connect()
        return attempt


def install() -> None:
    """Install a `RelayReactor` in this process. Raises `ReactorAlreadyInstalledError` if there is a reactor."""
    installReactor(RelayReactor())
