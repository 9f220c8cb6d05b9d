"""stomp.py (PyPI `stomp.py`)."""

import queue
import socket
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import stomp

from tests.e2e.child import PATIENCE
from tests.e2e.clients.client import ConnectionLost, Frame

_CONNECTIONS = {
    "1.0": stomp.StompConnection10,
    "1.1": stomp.StompConnection11,
    "1.2": stomp.StompConnection12,
}
_VHOST = {"1.0": {}, "1.1": {"vhost": "/"}, "1.2": {"vhost": "/"}}


class _Listener(stomp.ConnectionListener):  # type: ignore[misc]
    """Puts what stomp.py's reading thread reports into a queue."""

    def __init__(self) -> None:
        self.frames: queue.SimpleQueue[Frame | None] = queue.SimpleQueue()

    def _put(self, frame: Any) -> None:
        self.frames.put(Frame(frame.cmd, dict(frame.headers), bytes(frame.body), frame))

    on_connected = on_message = on_receipt = on_error = _put

    def on_disconnected(self) -> None:
        self.frames.put(None)


class StompPy:
    """A connection of stomp.py; it sends STOMP instead of CONNECT in 1.1 and 1.2.

    `heart_beats`: milliseconds, what it offers and wants; it gives up a peer whose beats fail to come. `more`: further
    headers of its CONNECT. `patience`: how many seconds it waits for a frame.
    """

    heart_beats = (0, 0)
    more: Mapping[str, str] = {}
    patience = PATIENCE

    def connect(self, port: int, version: str, login: str, passcode: str) -> Frame:
        self._version = version
        self._connection = self._made(version)(
            [("127.0.0.1", port)],
            auto_decode=False,
            reconnect_attempts_max=1,
            timeout=PATIENCE,
            **({} if version == "1.0" else {"heartbeats": self.heart_beats}),
            **_VHOST[version],
        )
        self._listener = _Listener()
        self._connection.set_listener("test", self._listener)
        self._connection.connect(login, passcode, headers=dict(self.more))
        return self.receive()

    def _made(self, version: str) -> Callable[..., Any]:
        made: Callable[..., Any] = _CONNECTIONS[version]
        return made

    def send(self, destination: str, body: bytes, headers: Mapping[str, str]) -> None:
        self._connection.send(destination, body, headers=dict(headers))

    def subscribe(self, destination: str, headers: Mapping[str, str]) -> None:
        rest = dict(headers)
        self._connection.subscribe(destination, rest.pop("id", None), rest.pop("ack"), rest)

    def unsubscribe(self, destination: str, headers: Mapping[str, str]) -> None:
        rest = dict(headers)
        id = rest.pop("id", None)
        by = {"destination": destination} if id is None else {"id": id}
        self._connection.unsubscribe(**by, headers=rest)

    def ack(self, message: Frame, headers: Mapping[str, str]) -> None:
        self._connection.ack(*self._acknowledgement(message), **headers)

    def nack(self, message: Frame, headers: Mapping[str, str]) -> None:
        self._connection.nack(*self._acknowledgement(message), **headers)

    def begin(self, transaction: str, headers: Mapping[str, str]) -> None:
        self._connection.begin(transaction, dict(headers))

    def commit(self, transaction: str, headers: Mapping[str, str]) -> None:
        self._connection.commit(transaction, dict(headers))

    def abort(self, transaction: str, headers: Mapping[str, str]) -> None:
        self._connection.abort(transaction, dict(headers))

    def receive(self) -> Frame:
        try:
            frame = self._listener.frames.get(timeout=self.patience)
        except queue.Empty:
            raise TimeoutError("stomp.py: nothing received") from None
        if frame is None:
            raise ConnectionLost
        return frame

    def disconnect(self) -> None:
        """Send DISCONNECT; stomp.py adds a receipt of its own and closes when it has come."""
        self._connection.disconnect()
        while True:
            try:
                self.receive()
            except ConnectionLost:
                return

    def drop(self) -> None:
        self._connection.transport.disconnect_socket()

    def _acknowledgement(self, message: Frame) -> list[str]:
        names = {"1.0": ["message-id"], "1.1": ["message-id", "subscription"], "1.2": ["ack"]}
        return [message.headers[name] for name in names[self._version]]


class WebStompPy(StompPy):
    """The same over WebSocket, in binary messages, for its text ones may be no UTF-8; it speaks STOMP 1.2 alone."""

    def _made(self, version: str) -> Callable[..., Any]:
        assert version == "1.2"
        return partial(stomp.WSStompConnection, ws_path="/ws", binary_mode=True)

    def drop(self) -> None:
        # Its own way only closes the socket, from which its thread still reads: nobody is told.
        self._connection.transport.socket.sock.shutdown(socket.SHUT_RDWR)
        super().drop()
