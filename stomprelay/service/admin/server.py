"""The HTTP server of the endpoints `admin` and `metrics`: whoever asks, it keeps little, and not for long.

No client holds a connection for longer than it has use for it: a request has `REQUEST` seconds, its response as many,
and of more than `CONNECTIONS` the one that waits longest gives way.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final

from twisted.internet.interfaces import IProtocol
from twisted.internet.protocol import connectionDone
from twisted.protocols.policies import ProtocolWrapper
from twisted.python.failure import Failure
from twisted.web.http import HTTPChannel
from twisted.web.resource import Resource
from twisted.web.server import Request, Site

from stomprelay.service.network.endpoints import HTTP

LONGEST_BODY: Final = 4096
"""Bytes of a request's body, at most."""
REQUEST: Final = 30.0
"""Seconds until a request must have come, from the beginning of its connection or the response before; and seconds that
the last response may wait to be read.
"""
CONNECTIONS: Final = 32
"""Connections at a time, at most."""


class BoundedRequest(Request):
    """A request of whose body no more than `LONGEST_BODY` is kept; `excess` is set where more came."""

    content: Any
    excess = False

    def gotLength(self, length: int | None) -> None:
        """Start the body in memory: Twisted would write one with a large announced `length` to a file."""
        super().gotLength(0)

    def handleContentChunk(self, data: bytes) -> None:
        """Append a part of the body; set `excess` instead once the body would exceed `LONGEST_BODY`."""
        if self.excess or self.content.tell() + len(data) > LONGEST_BODY:
            self.excess = True
        else:
            super().handleContentChunk(data)


class AdminChannel(HTTPChannel):
    """A connection to the admin endpoint, whose time does not begin anew with every byte."""

    site: "AdminSite"
    transport: Any
    upgraded = False

    def connectionMade(self) -> None:
        """Begin the time of the first request, and take a place among the connections."""
        super().connectionMade()
        self.site.waiting(self)

    def resetTimeout(self) -> None:
        """Do nothing, where Twisted would give a request its time again for every part of it that comes."""

    def requestDone(self, request: Any) -> None:
        """Begin the time of the next request: one was responded to."""
        self.site.waiting(self)
        super().requestDone(request)

    def checkPersistence(self, request: Any, version: bytes) -> bool:
        """Return whether another request may follow this one: not where nobody listens with the site any more."""
        return super().checkPersistence(request, version) and not self.site.ended

    def upgrade(self, protocol: IProtocol, request: bytes) -> None:
        """Give the connection of the request that is being responded to to another protocol, which gets that again."""
        transport = self.transport
        self.site.left(self)
        self.upgraded = True
        transport.unregisterProducer()
        if isinstance(transport, ProtocolWrapper):
            transport.wrappedProtocol = protocol
        else:
            transport.protocol = protocol
        protocol.makeConnection(transport)
        protocol.dataReceived(request)

    def rawDataReceived(self, data: bytes) -> None:
        """A part of a body came, or of the next request. None may follow one that gave the connection away: no client
        sends any before it is answered, and what stands there may be a request that a proxy took for a body.
        """
        if self.upgraded:
            self.transport.abortConnection()
        else:
            super().rawDataReceived(data)

    def timeoutConnection(self) -> None:
        """Close the connection: no request came in time."""
        self.loseConnection()

    def loseConnection(self) -> None:
        """Close the connection when all is written, or abort it after `REQUEST` seconds."""
        if self._abortingCall is None:
            self._abortingCall = self.callLater(REQUEST, self.forceAbortClient)
        super().loseConnection()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """Give the place away: the connection ended."""
        self.site.left(self)
        super().connectionLost(reason)


class AdminSite(Site):
    """A site without an access log, which would have little but the requests of monitoring. It has room for
    `CONNECTIONS` connections. `name` is that of its endpoint; `on_end`, if any, is called when nobody listens with it
    any more.
    """

    protocol: Callable[[], Any] = AdminChannel

    def __init__(
        self, name: str, pages: Resource, reactor: Any, on_end: Callable[[], None] | None = None
    ) -> None:
        self._name = name
        self._on_end = on_end
        super().__init__(
            pages,
            requestFactory=BoundedRequest,
            parsePOSTFormSubmission=False,
            reactor=reactor,
            timeout=REQUEST,
        )
        self._waiting: OrderedDict[AdminChannel, None] = OrderedDict()
        self.ended = False

    def waiting(self, channel: AdminChannel) -> None:
        """Record that a connection waits for its next request. The one that has waited longest is aborted where there
        are too many.
        """
        self._waiting[channel] = None
        self._waiting.move_to_end(channel)
        if len(self._waiting) > CONNECTIONS:
            oldest, _ = self._waiting.popitem(last=False)
            oldest.transport.abortConnection()

    def left(self, channel: AdminChannel) -> None:
        """Forget a connection that ended."""
        self._waiting.pop(channel, None)

    def acceptableProtocols(self) -> list[bytes]:
        """Return what clients may ask for by ALPN. Where HTTP/2 is installed, Twisted would speak that as well."""
        return [HTTP]

    def logPrefix(self) -> str:
        """Return the name that Twisted's log lines have for it."""
        return self._name

    def startFactory(self) -> None:
        """Open no log file, which Twisted's own site would do."""
        self.ended = False

    def stopFactory(self) -> None:
        """End the connections that wait for a request, and the others after theirs: nobody listens with it any more,
        and another one may have another token.
        """
        self.ended = True
        for channel in tuple(self._waiting):
            channel.persistent = False
            if not channel.requests:
                channel.loseConnection()
        if self._on_end is not None:
            self._on_end()

    def log(self, request: Any) -> None:
        """Write no line to an access log."""
