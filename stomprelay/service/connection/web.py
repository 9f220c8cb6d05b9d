"""Connections over WebSocket, which the core does not notice. A client may also speak plain STOMP, a broker may not."""

from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from math import inf
from typing import Final

from twisted.internet import tcp
from twisted.python.failure import Failure

from stomprelay.relay.model.listener import Listener, Web
from stomprelay.service.connection.failures import UNREAD, Farewell
from stomprelay.service.connection.protocol import Driver, LegProtocol, close_when_written, send
from stomprelay.service.connection.runtime import Timed
from stomprelay.service.network.endpoints import WebSocketEndpoint
from stomprelay.service.network.sockets import FIRST_READ, read_at_most
from stomprelay.service.network.upgrade import HttpRefusal, WebSocketHandshake, WebSocketRequest
from stomprelay.service.network.websocket import Received, WebSocket
from stomprelay.session.effects import How
from stomprelay.session.leg import Leg
from stomprelay.session.reasons import CLOSED
from stomprelay.session.refusal import METHODS

_SILENT: Final = "it did not answer a ping in time"
_UNANSWERED: Final = "the peer closed the connection before it answered for a WebSocket"


_UNFINISHED: Final = {
    Farewell.DONE: HttpRefusal(HTTPStatus.REQUEST_TIMEOUT, "The request took too long."),
    Farewell.LEAVING: HttpRefusal(HTTPStatus.SERVICE_UNAVAILABLE, "The relay stops."),
    Farewell.LATER: HttpRefusal(
        HTTPStatus.SERVICE_UNAVAILABLE, "The relay takes no more clients now.", b"Retry-After: 10\r\n"
    ),
}
"""The answer to a client whose request is incomplete when the relay ends the connection."""


@dataclass(slots=True, eq=False, repr=False)
class Pings(Timed):
    """Pings the client of a WebSocket if the client is silent for the `ping_interval` of `web`."""

    _protocol: "WebLegProtocol"

    def woke(self, now: float) -> None:
        """Ping the client, or end the connection."""
        self._protocol.ask(now)


class DirectWebSocket(WebSocket):
    """A WebSocket on a bare socket. It writes with `protocol.send`, so it can write and close at once."""

    __slots__ = ()

    def _send(self, data: bytes) -> None:
        send(self.transport, data)

    def _close(self) -> None:
        close_when_written(self.transport)

    def _shut(self) -> None:
        self.transport.loseWriteConnection()


class _WebSocketProtocol(LegProtocol):
    """A leg that speaks WebSocket once `_upgrade` was called. When the connection ends, received bytes that still wait
    are handled before the owner is informed.
    """

    __slots__ = ("_ended", "_websocket")

    def __init__(self, owner: Driver, leg: Leg) -> None:
        self._websocket: WebSocket | None = None
        self._ended: Failure | None = None
        super().__init__(owner, leg)

    def _upgrade(
        self, most: float, farewell: Callable[[], Farewell], *, client: bool = False, window: int = 0
    ) -> None:
        """Speak WebSocket from now on; see `WebSocket`."""
        kind = WebSocket if self.plain is None else DirectWebSocket
        self.plain = None
        self.transport = self._websocket = kind(self.transport, most, farewell, client=client, window=window)

    def socket(self) -> tcp.Connection | None:
        """Return the socket from which a pipe may read; None if there is none. Over WebSocket, the pipe has to give the
        received bytes to `unwrapped`.
        """
        websocket = self._websocket
        if websocket is None:
            return super().socket()
        direct = isinstance(websocket, DirectWebSocket) and not (websocket.client or websocket.window)
        return websocket.transport if direct else None

    def unwrapped(self, data: bytes) -> bytes:
        """Return the frames in bytes of a pipe, if these are whole messages. Otherwise handle them and return b""."""
        websocket = self._websocket
        assert websocket is not None
        payload, end = websocket.begun(data)
        if end == len(data):
            return payload
        rest = websocket.received(data[end:] if end else data)
        self._found(websocket, rest._replace(data=payload + rest.data))
        return b""

    def connectionLost(self, reason: Failure) -> None:
        """Report the end of the connection to the owner."""
        websocket = self._websocket
        if self._owner is not None and websocket is not None and websocket.waits:
            self._ended = reason
            self._wait()
            return
        super().connectionLost(reason)
        self._websocket = None

    def _take(self, websocket: WebSocket, data: bytes) -> None:
        if len(data) == FIRST_READ and isinstance(websocket, DirectWebSocket):
            read_at_most(websocket.transport, self.runtime.memory.most)
        self._found(websocket, websocket.received(data))
        if not websocket.waits or self.transport is None:
            return
        if self.reasons:
            if not self._stopped:
                self._stop_reading()
        else:
            self.hold(UNREAD)
            self._wait()

    def _found(self, websocket: WebSocket, found: Received) -> None:
        if found.data:
            self.came(found.data)
        if found.ping is not None and not self.waits:
            # A peer that does not read gets no pong: the waiting bytes already show that the relay is there.
            websocket.pong(found.ping)
        if found.end:
            self._leave(found.end)

    def _read_on(self) -> None:
        """Read again, if reading was stopped. Bytes that wait are handled first, also if it was not."""
        super()._read_on()
        if self._websocket is not None and self._websocket.waits:
            self._wait()

    def _wait(self) -> None:
        self.runtime.turns.wait(self, self._go_on)

    def _go_on(self) -> None:
        websocket = self._websocket
        if websocket is None or self.transport is None:
            return
        if self._ended is None or self._owner is not None:
            if not self.reasons & ~UNREAD:
                self._found(websocket, websocket.received())
                if websocket.waits and self.transport is not None:
                    self._wait()
                    return
            self.release(UNREAD)
        if self._ended is not None and not (self._owner is not None and websocket.waits):
            self.connectionLost(self._ended)

    def close(self, how: How) -> None:
        """End the connection. The owner gets `closed`, and nothing after it."""
        super().close(how)
        if self._ended is not None:
            self._wait()

    def _leave(self, reason: str) -> None:
        """Report that the peer is gone, and end the connection when all is written."""
        owner = self._owner
        if owner is not None:
            owner.lost(self, reason)
            self.close(How.FLUSH)

    def readConnectionLost(self) -> None:
        """The peer closed its sending direction; over WebSocket that is the end."""
        if self._websocket is None:
            super().readConnectionLost()
            return
        self._websocket.peer_left()
        if self._owner is None:
            self.transport.loseConnection()
        else:
            self._leave(CLOSED)


class BrokerWebProtocol(_WebSocketProtocol):
    """The connection to a broker over WebSocket, at this endpoint. Reports `connected` when the WebSocket is open."""

    __slots__ = ("_request",)

    def __init__(self, owner: Driver, leg: Leg, endpoint: WebSocketEndpoint) -> None:
        self._request = WebSocketRequest(endpoint.host, endpoint.path, endpoint.versions)
        super().__init__(owner, leg)

    def _connected(self, owner: Driver) -> None:
        """The connection exists, with TLS if configured: request a WebSocket."""
        self.write(self._request.wire)

    def dataReceived(self, data: bytes) -> None:
        """Receive bytes."""
        if self._websocket is not None:
            self._take(self._websocket, data)
            return
        owner = self._owner
        found = None if owner is None else self._request.received(data)
        if owner is None or found is None:
            return
        if isinstance(found, str):
            self._decline(owner, found)
            return
        self._upgrade(inf, lambda: Farewell.DONE, client=True)
        super()._connected(owner)
        if found:
            self.dataReceived(found)

    def _decline(self, owner: Driver, reason: str) -> None:
        owner.refused(self, reason)
        self.close(How.ABORT)

    def readConnectionLost(self) -> None:
        """The broker closed its sending direction: report that it is lost, or that it refused the request."""
        if self._websocket is None and self._owner is not None:
            self._heard_all = True
            self._decline(self._owner, _UNANSWERED)
        else:
            super().readConnectionLost()


class WebLegProtocol(_WebSocketProtocol):
    """The connection of a client to a listener with `web`. `farewell` returns why the relay ends the connection."""

    __slots__ = ("_farewell", "_first", "_handshake", "_heard_at", "_listener", "_pings", "_web")

    def __init__(
        self, owner: Driver, leg: Leg, listener: Listener, web: Web, farewell: Callable[[], Farewell]
    ) -> None:
        self._listener = listener
        self._web = web
        self._farewell = farewell
        self._first: bytes | None = b""
        self._handshake: WebSocketHandshake | None = None
        self._pings: Pings | None = None
        super().__init__(owner, leg)

    def dataReceived(self, data: bytes) -> None:
        """Receive bytes."""
        if self._first is not None:
            self._begin(data)
        elif self._websocket is not None:
            self._take(self._websocket, data)
        elif self._handshake is not None:
            self._shake(self._handshake, data)
        else:
            super().dataReceived(data)

    def _begin(self, data: bytes) -> None:
        """Find out the client's protocol as soon as its first bytes show it."""
        first = (self._first or b"") + data
        if first.startswith(METHODS):
            self._first = None
            self._handshake = WebSocketHandshake(
                self._web, self._listener.versions, self._listener.before_connect
            )
            self._shake(self._handshake, first)
        elif any(method.startswith(first) for method in METHODS):
            self._first = first
        else:
            self._first = None
            super().dataReceived(first)

    def _shake(self, handshake: WebSocketHandshake, data: bytes) -> None:
        if self._owner is None:
            return
        found = handshake.received(data)
        if found is None:
            return
        self._handshake = None
        super().write(found.answer)
        if isinstance(found, HttpRefusal):
            self._leave(f"HTTP {found.status.value}: {found.why}")
            return
        self._upgrade(self._web.message, self._farewell, window=found.window)
        if self._web.ping_interval:
            self._pings, self._heard_at = Pings(self.runtime, self), self.runtime.seconds()
            self._pings.set_timer(self._heard_at + self._web.ping_interval)

    def unwrapped(self, data: bytes) -> bytes:
        """See the parent class. Bytes that pass through a pipe also show that the client is not silent."""
        if self._pings is not None:
            self._heard_at = self.runtime.seconds()
        return super().unwrapped(data)

    def _take(self, websocket: WebSocket, data: bytes) -> None:
        if self._pings is not None:
            self._heard_at = self.runtime.seconds()
        super()._take(websocket, data)

    def ask(self, now: float) -> None:
        """Ping a silent client, or end its connection. A client whose reading stopped, either way, is not silent."""
        pings, websocket = self._pings, self._websocket
        if pings is None or websocket is None or self._owner is None:
            return
        if self.reasons or self.waits:
            self._heard_at = now
        interval = self._web.ping_interval
        silent = now - self._heard_at
        if silent >= 2 * interval:
            self._leave(_SILENT)
            if self.transport is not None:
                self.transport.abortConnection()
            return
        if silent >= interval:
            websocket.ping()
        pings.set_timer(self._heard_at + interval * (2 if silent >= interval else 1))

    def write(self, data: bytes) -> None:
        """Write whole frames. A client that has not finished its handshake gets an HTTP answer instead."""
        if self._websocket is not None:
            self._websocket.write(data)
            return
        if self._handshake is None:
            super().write(data)
            return
        self._handshake = None
        super().write(_UNFINISHED[self._farewell()].answer)

    def close(self, how: How) -> None:
        """End the connection. The owner gets `closed`, and nothing after it."""
        if self._pings is not None:
            self._pings.stop_timer()
            self._pings = None
        super().close(how)
