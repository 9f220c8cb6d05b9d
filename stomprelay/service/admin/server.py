"""The HTTP server of `admin` and `metrics`, with bounded memory and time: a request and its response have `REQUEST`
seconds each. If there are more than `CONNECTIONS` connections, the connection that waits longest is closed.
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
REQUEST: Final = 30.0
"""Seconds in which a request must arrive, and in which the last response must be read."""
CONNECTIONS: Final = 32


class BoundedRequest(Request):
    """A request that keeps at most `LONGEST_BODY` bytes of its body; `excess` is set if there were more."""

    content: Any
    excess = False

    def gotLength(self, length: int | None) -> None:
        """Keep the body in memory: Twisted would write a body with a large announced `length` to a file."""
        super().gotLength(0)

    def handleContentChunk(self, data: bytes) -> None:
        """Append a part of the body; set `excess` instead once the body would exceed `LONGEST_BODY`."""
        if self.excess or self.content.tell() + len(data) > LONGEST_BODY:
            self.excess = True
        else:
            super().handleContentChunk(data)


class AdminChannel(HTTPChannel):
    """A connection to the admin endpoint. Its time-out does not start again with every byte."""

    site: "AdminSite"
    transport: Any
    upgraded = False
    _late: Any = None

    def connectionMade(self) -> None:
        """Start the time-out of the first request, and record that the connection waits."""
        super().connectionMade()
        self.site.waiting(self)

    def resetTimeout(self) -> None:
        """Do nothing: Twisted would start a request's time-out again for each part that arrives."""

    def requestDone(self, request: Any) -> None:
        """Start the time-out of the next request: the last request was answered."""
        self.site.waiting(self)
        super().requestDone(request)

    def checkPersistence(self, request: Any, version: bytes) -> bool:
        """Return whether another request may follow this request. False after the endpoint was closed."""
        return super().checkPersistence(request, version) and not self.site.ended

    def upgrade(self, protocol: IProtocol, request: bytes) -> None:
        """Give the connection of the current request to another protocol, which receives this request again."""
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
        """Receive bytes. After `upgrade` close the connection: no bytes may come before the answer."""
        if self.upgraded:
            self.transport.abortConnection()
        else:
            super().rawDataReceived(data)

    def end(self) -> None:
        """Close the connection after the current request, or at once if there is no request."""
        self.persistent = False
        if not self.requests:
            self.loseConnection()

    def timeoutConnection(self) -> None:
        """Close the connection: no request came in time."""
        self.loseConnection()

    def loseConnection(self) -> None:
        """Close the connection when all is written, or abort it after `REQUEST` seconds."""
        if self._late is None:
            self._late = self.callLater(REQUEST, self.forceAbortClient)
        super().loseConnection()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """Record that the connection ended, and stop its time-outs."""
        self.site.left(self)
        if self._late is not None and self._late.active():
            self._late.cancel()
        super().connectionLost(reason)


class AdminSite(Site):
    """A site without an access log and with `CONNECTIONS` connections at most. `on_end` is called when it is closed."""

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
        """Record that a connection waits for a request. If too many wait, abort the connection that waits longest."""
        self._waiting[channel] = None
        self._waiting.move_to_end(channel)
        if len(self._waiting) > CONNECTIONS:
            oldest, _ = self._waiting.popitem(last=False)
            oldest.transport.abortConnection()

    def left(self, channel: AdminChannel) -> None:
        """Forget a connection that ended."""
        self._waiting.pop(channel, None)

    def acceptableProtocols(self) -> list[bytes]:
        """Return only HTTP/1.1 for ALPN. Twisted's own site would also offer HTTP/2 if its library is installed."""
        return [HTTP]

    def logPrefix(self) -> str:
        """Return the name in Twisted's log lines about this site."""
        return self._name

    def startFactory(self) -> None:
        """Open no log file, which Twisted's own site would do."""
        self.ended = False

    def stopFactory(self) -> None:
        """Close each connection after its request. Another endpoint, whose token may differ, can be listening next."""
        self.ended = True
        for channel in tuple(self._waiting):
            channel.end()
        if self._on_end is not None:
            self._on_end()

    def log(self, request: Any) -> None:
        """Write no line to an access log."""
