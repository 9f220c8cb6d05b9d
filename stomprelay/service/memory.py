"""The way to the embedded broker: a pair of connected sockets that no network sees.

The kernel's buffers between the two ends are what they are between two processes, and so is the back-pressure.
"""

import socket
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import (
    IProtocol,
    IProtocolFactory,
    IStreamClientEndpoint,
)
from twisted.internet.protocol import Factory
from twisted.python.failure import Failure
from zope.interface import implementer


class _Kept(Factory):
    """Keeps the protocol that another factory builds."""

    noisy = False

    def __init__(self, factory: IProtocolFactory) -> None:
        self._factory = factory
        self.built: IProtocol | None = None

    def buildProtocol(self, addr: Any) -> Any:
        """What the other factory builds."""
        self.built = self._factory.buildProtocol(addr)
        return self.built


@implementer(IStreamClientEndpoint)
class MemoryEndpoint:
    """Connects a client to the clients' factory of the embedded broker, in the reactor's next turn."""

    def __init__(self, reactor: Any, factory: IProtocolFactory) -> None:
        self._reactor = reactor
        self._factory = factory

    def connect(self, factory: IProtocolFactory) -> Deferred[IProtocol]:
        """Fires with the client's protocol."""
        call = self._reactor.callLater(0, lambda: self._join(factory, connected))
        connected: Deferred[IProtocol] = Deferred(lambda _: call.cancel())
        return connected

    def _join(self, factory: IProtocolFactory, connected: Deferred[IProtocol]) -> None:
        kept = _Kept(factory)
        try:
            join(self._reactor, self._factory, kept)
        except Exception:
            connected.errback(Failure())
        else:
            assert kept.built is not None
            connected.callback(kept.built)


def join(reactor: Any, *factories: IProtocolFactory) -> None:
    """Give each of two factories one end of a pair of sockets. Raises `OSError` when there are no sockets left."""
    ends = socket.socketpair()
    try:
        for end, factory in zip(ends, factories, strict=True):
            end.setblocking(False)
            # The reactor takes a duplicate.
            reactor.adoptStreamConnection(end.fileno(), socket.AF_UNIX, factory)
    finally:
        for end in ends:
            end.close()
