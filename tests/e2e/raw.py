"""STOMP in plain bytes, as client and as broker: what is written and read is what is on the wire.

It shares no code with the relay on purpose.
"""

import select
import socket
import ssl
from typing import Self

from tests.e2e.child import PATIENCE

CONNECT = b"CONNECT\naccept-version:1.2\nhost:/\n\n\0"


class Closed(Exception):
    """The peer closed the connection; the argument holds the bytes that came before and were not taken."""


_open: "set[Connection]" = set()


class Connection:
    """One TCP connection; every wait is bounded."""

    def __init__(self, sock: socket.socket) -> None:
        self._buffer = b""
        self.socket = sock
        sock.settimeout(PATIENCE)
        _open.add(self)

    @classmethod
    def to(cls, port: int, tls: ssl.SSLContext | None = None) -> Self:
        """Connect to a port of 127.0.0.1, with TLS where a context is given."""
        plain = socket.create_connection(("127.0.0.1", port), PATIENCE)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            return cls(tls.wrap_socket(plain, server_hostname="localhost") if tls else plain)
        except BaseException:
            plain.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def write(self, data: bytes) -> None:
        self.socket.sendall(data)

    def connect(self, version: str = "1.2", login: str = "guest", passcode: str = "guest") -> bytes:
        """Write CONNECT and return the answer."""
        self.write(
            f"CONNECT\naccept-version:{version}\nhost:/\nlogin:{login}\npasscode:{passcode}\n\n\0".encode()
        )
        return self.frame()

    def connected(self, version: str = "1.2") -> bytes:
        """Play the broker: read CONNECT, answer CONNECTED and return the CONNECT."""
        connect = self.frame()
        self.write(
            f"CONNECTED\nversion:{version}\nserver:scripted\nsession:s1\nheart-beat:0,0\n\n\0".encode()
        )
        return connect

    def frame(self) -> bytes:
        """Return the next frame as it came, from its command to its NUL; EOLs before it are left out."""
        while True:
            self._buffer = self._buffer.lstrip(b"\r\n")
            end = end_of_frame(self._buffer)
            if end:
                frame, self._buffer = self._buffer[:end], self._buffer[end:]
                return frame
            self._more()

    def until(self, mark: bytes) -> bytes:
        """Return what came up to this, with it."""
        while mark not in self._buffer:
            self._more()
        found, _, self._buffer = self._buffer.partition(mark)
        return found + mark

    def rest(self) -> bytes:
        """Read until the peer closes and return everything that came and was not taken."""
        while True:
            try:
                self._more()
            except Closed as closed:
                return bytes(closed.args[0])

    def close(self) -> None:
        self.socket.close()
        _open.discard(self)

    def _more(self) -> None:
        try:
            data = self.socket.recv(65536)
        except ConnectionResetError:
            data = b""
        if not data:
            raise Closed(self._buffer)
        self._buffer += data


def close_all() -> None:
    """Close the connections that a test has left open because it failed."""
    for connection in [*_open]:
        connection.close()


class ScriptedBroker:
    """A broker of which a test plays every byte: `accept` gives one connection after the other."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self._tls = tls
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._socket.settimeout(PATIENCE)
        self.port: int = self._socket.getsockname()[1]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    @property
    def uri(self) -> str:
        """Its address in the relay's configuration."""
        return f"tcp://127.0.0.1:{self.port}"

    def waiting(self) -> bool:
        """Tell whether somebody has connected who is not accepted yet."""
        return bool(select.select([self._socket], [], [], 0)[0])

    def accept(self) -> Connection:
        """Return the next connection, after its TLS handshake; raise `OSError` if that fails."""
        plain, _ = self._socket.accept()
        plain.settimeout(PATIENCE)
        try:
            return Connection(self._tls.wrap_socket(plain, server_side=True) if self._tls else plain)
        except BaseException:
            plain.close()
            raise


def headers(frame: bytes) -> dict[bytes, bytes]:
    """Return the header lines of `frame` as they are on the wire, undecoded; the first of repeated names."""
    found: dict[bytes, bytes] = {}
    for line in frame.partition(b"\n\n")[0].split(b"\n")[1:]:
        name, _, value = line.partition(b":")
        found.setdefault(name, value)
    return found


def body(frame: bytes) -> bytes:
    """Return the body of `frame`."""
    return frame.partition(b"\n\n")[2][:-1]


def end_of_frame(data: bytes) -> int:
    """Return the offset behind the first frame's NUL, or 0 while it is incomplete."""
    head = data.find(b"\n\n")
    if head < 0:
        return 0
    length = headers(data[:head]).get(b"content-length")
    end = head + 2 + int(length) if length is not None else data.find(b"\0", head)
    return end + 1 if head < end < len(data) else 0
