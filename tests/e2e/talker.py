"""A client in plain bytes that keeps apart what comes unasked from what it waits for."""

import itertools
import socket
from collections import deque
from typing import Self

from tests.e2e.raw import Connection, body, headers

_numbers = itertools.count(1)


class Talker(Connection):
    """A logged-in client of one version. Whatever comes and is not waited for must be a MESSAGE."""

    def __init__(self, sock: socket.socket) -> None:
        super().__init__(sock)
        self.version = "1.2"
        self._messages: deque[bytes] = deque()

    @classmethod
    def at(cls, port: int, version: str = "1.2", **more: str) -> Self:
        """Connect as guest; the answer must be CONNECTED."""
        talker = cls.to(port)
        talker.version = version
        hello = {"host": "/", "login": "guest", "passcode": "guest", "heart_beat": "0,0", **more}
        talker.tell("CONNECT", accept_version=version, **hello)
        connected = talker.frame()
        assert connected.startswith(b"CONNECTED\n"), connected
        assert headers(connected).get(b"version", b"1.0") == version.encode()
        return talker

    def tell(self, command: str, body: bytes = b"", /, **headers: str) -> None:
        """Write a frame; in names of headers `_` stands for `-`."""
        head = "".join(f"{name.replace('_', '-')}:{value}\n" for name, value in headers.items())
        self.write(f"{command}\n{head}\n".encode() + body + b"\0")

    def ask(self, command: str, body: bytes = b"", /, **headers: str) -> None:
        """Write a frame and wait for its receipt."""
        receipt = self.ask_later(command, body, **headers)
        self.receipts(receipt)

    def ask_later(self, command: str, body: bytes = b"", /, **headers: str) -> str:
        """Write a frame that asks for a receipt and return its id."""
        receipt = f"r-{next(_numbers)}"
        self.tell(command, body, receipt=receipt, **headers)
        return receipt

    def send(self, destination: str, *bodies: bytes, **headers: str) -> None:
        """SEND each body, to outlive its broker, and wait for all receipts."""
        self.receipts(
            *[
                self.ask_later("SEND", body, destination=destination, persistent="true", **headers)
                for body in bodies
            ]
        )

    def receipts(self, *ids: str) -> None:
        """Wait for these receipts in any order; no other may come."""
        owed = set(ids)
        while owed:
            frame = self._next(b"RECEIPT")
            owed.remove(headers(frame)[b"receipt-id"].decode())

    def subscribe(self, destination: str, id: str, ack: str = "auto") -> None:
        """SUBSCRIBE and wait for the receipt."""
        self.ask("SUBSCRIBE", destination=destination, id=id, ack=ack)

    def acknowledge(self, message: bytes, **more: str) -> None:
        """ACK as this version does it, and wait for the receipt."""
        self.ask("ACK", **self._named(message), **more)

    def message(self) -> bytes:
        """Return the next MESSAGE."""
        return self._messages.popleft() if self._messages else self._next(b"MESSAGE")

    def bodies(self, count: int) -> list[bytes]:
        """Return the bodies of the next MESSAGEs."""
        return [body(self.message()) for _ in range(count)]

    def error(self) -> bytes:
        """Wait for an ERROR and the end of the connection behind it; return the ERROR."""
        frame = self._next(b"ERROR")
        assert self.rest().strip() == b""
        return frame

    def leave(self) -> None:
        """DISCONNECT, wait for the receipt, and close; nothing must have come that was not asked for."""
        assert not self._messages, self._messages
        self.ask("DISCONNECT")
        self.close()

    def _named(self, message: bytes) -> dict[str, str]:
        """Return the headers by which `message` is acknowledged."""
        said = {name: value.decode() for name, value in headers(message).items()}
        if self.version == "1.2":
            return {"id": said[b"ack"]}
        if self.version == "1.1":
            return {"message_id": said[b"message-id"], "subscription": said[b"subscription"]}
        return {"message_id": said[b"message-id"]}

    def _next(self, command: bytes) -> bytes:
        while not (frame := self.frame()).startswith(command + b"\n"):
            assert frame.startswith(b"MESSAGE\n"), frame
            self._messages.append(frame)
        return frame
