"""Passes listening sockets to another process over a UNIX socket. A message is a line of JSON, `{"sockets": [names],
"said": {...}}`. The sockets' descriptors are sent with the line, in batches of `BATCH`. With each batch, one byte of
the line is sent. With the last batch, the rest of the line is sent.
"""

import json
import os
import socket
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple

from twisted.internet.abstract import FileDescriptor
from twisted.internet.main import CONNECTION_DONE, CONNECTION_LOST
from twisted.python.failure import Failure

BATCH: Final = 253
"""The most descriptors that the system passes at a time (Linux: SCM_MAX_FD)."""
MOST: Final = 1024
LONGEST: Final = 16 * 1024 * 1024
_CHUNK: Final = 64 * 1024
_CLOEXEC: Final[int] = getattr(socket, "MSG_CMSG_CLOEXEC", 0)


class BrokenMessage(Exception):
    """The bytes are no message, or only a part of a message; the text is the reason."""


class PassedMessage(NamedTuple):
    """A message. `sockets`: listening sockets by name. The receiver owns them and closes those that it does not use."""

    said: Mapping[str, Any]
    sockets: Mapping[str, socket.socket]

    def close(self) -> None:
        """Close all sockets of the message."""
        for each in self.sockets.values():
            each.close()


def spell(said: Mapping[str, Any], names: Iterable[str] = ()) -> bytes:
    """Return the line of a message."""
    return json.dumps({"sockets": list(names), "said": said}).encode("ascii") + b"\n"


def parse(line: bytes | bytearray) -> tuple[dict[str, Any], list[str]]:
    """Return the content of a line, and the names of its sockets. Raises `BrokenMessage`."""
    try:
        values = json.loads(line)
        names, said = values["sockets"], values["said"]
    except (ValueError, LookupError, TypeError, RecursionError):
        raise BrokenMessage("what came is no message") from None
    named = isinstance(names, list) and all(isinstance(each, str) for each in names)
    if not named or len(set(names)) < len(names) or not isinstance(said, dict):
        raise BrokenMessage("what came is no message")
    return said, names


class Passage:
    """One end of a connected UNIX socket, blocking or not. `close` also closes the sockets of an incomplete message."""

    def __init__(self, own: socket.socket) -> None:
        self.socket = own
        self._line = bytearray()
        self._came: list[int] = []
        self._out: deque[tuple[bytes, list[int]]] = deque()

    def put(self, said: Mapping[str, Any], sockets: Mapping[str, int] | None = None) -> None:
        """Add a message with copies of these descriptors; then `flush`. Raises `OSError`, `ValueError` for too many."""
        sockets = sockets or {}
        if len(sockets) > MOST:
            raise ValueError(f"{len(sockets)} sockets are too many for a message, {MOST} at most")
        line = spell(said, sockets)
        held: list[int] = []
        try:
            for each in sockets.values():
                held.append(os.dup(each))
        except OSError:
            _close(held)
            raise
        while len(held) > BATCH:
            self._out.append((line[:1], held[:BATCH]))
            line, held = line[1:], held[BATCH:]
        self._out.append((line, held))

    def flush(self) -> None:
        """Send messages. Raises the socket's errors. After `BlockingIOError` or `TimeoutError` call `flush` again."""
        while self._out:
            data, held = self._out[0]
            sent = socket.send_fds(self.socket, [data], held) if held else self.socket.send(data)
            _close(held)
            if sent < len(data):
                self._out[0] = data[sent:], []
            else:
                self._out.popleft()

    def receive(self) -> list[PassedMessage]:
        """Read once, and return the complete messages. Raises the socket's errors, `EOFError` or `BrokenMessage`. After
        `EOFError` or `BrokenMessage` call `close`.
        """
        data, came, flags, _ = socket.recv_fds(self.socket, _CHUNK, BATCH, _CLOEXEC)
        self._came += came
        found: list[PassedMessage] = []
        try:
            for each in came:
                os.set_inheritable(each, False)
            if flags & socket.MSG_CTRUNC:
                raise BrokenMessage("sockets were lost on the way: this process can open no more")
            if not data:
                raise EOFError
            self._line += data
            if b"\n" in data:
                *lines, self._line = self._line.split(b"\n")
                for line in lines:
                    found.append(self._message(line))
            if len(self._line) > LONGEST or len(self._came) > (MOST if self._line else 0):
                raise BrokenMessage("there is more than a message may have")
        except (BrokenMessage, EOFError, OSError):
            for message in found:
                message.close()
            raise
        return found

    def _message(self, line: bytes | bytearray) -> PassedMessage:
        said, names = parse(line)
        if len(names) > len(self._came):
            raise BrokenMessage(f"{len(names)} sockets are named, {len(self._came)} came")
        passed = PassedMessage(said, {name: _listening(self._came.pop(0)) for name in names})
        for name, each in passed.sockets.items():
            if not each.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                passed.close()
                raise BrokenMessage(f"{name}: is no socket that listens")
        return passed

    def close(self) -> None:
        """Close the connection, and all sockets of incomplete messages."""
        self.socket.close()
        _close(self._came)
        for _, held in self._out:
            _close(held)
        self._out.clear()


def _close(descriptors: list[int]) -> None:
    while descriptors:
        with suppress(OSError):
            os.close(descriptors.pop())


def _listening(descriptor: int) -> socket.socket:
    """Return the socket of a descriptor. If the descriptor is no socket, close it and raise `BrokenMessage`."""
    try:
        return socket.socket(fileno=descriptor)
    except OSError:
        os.close(descriptor)
        raise BrokenMessage("what came is no socket") from None


class ReactorPassage(FileDescriptor):
    """A passage in a reactor. `received` gets each message; `ended` is called once, with the error or an empty text."""

    reactor: Any

    def __init__(
        self,
        reactor: Any,
        passage: Passage,
        received: Callable[[PassedMessage], None],
        ended: Callable[[str], None],
    ) -> None:
        super().__init__(reactor)
        passage.socket.setblocking(False)
        self._passage = passage
        self._received = received
        self._ended = ended
        self._why = ""
        self.connected = 1
        self.startReading()

    def send(self, said: Mapping[str, Any], sockets: Mapping[str, int] | None = None) -> None:
        """Send a message with these sockets, as soon as the peer takes it. Raises the errors of `Passage.put`."""
        if self.connected:
            self._passage.put(said, sockets)
            self.startWriting()

    def fileno(self) -> int:
        """Return the descriptor; -1 after the close."""
        return self._passage.socket.fileno()

    def doRead(self) -> Any:
        """Receive messages, and give them to `received`."""
        try:
            found = self._passage.receive()
        except BlockingIOError:
            return None
        except EOFError:
            return CONNECTION_DONE
        except (BrokenMessage, OSError) as error:
            self._why = str(error)
            return CONNECTION_LOST
        for each in found:
            if self.connected:
                self._received(each)
            else:
                each.close()
        return None

    def doWrite(self) -> Any:
        """Send the waiting messages."""
        try:
            self._passage.flush()
        except BlockingIOError:
            return None
        except BrokenPipeError:
            pass  # the peer has closed; its earlier messages are still to be read
        except OSError as error:
            self._why = str(error)
            return CONNECTION_LOST
        self.stopWriting()
        return None

    def loseConnection(self, _connDone: Any = None) -> None:  # noqa: N803 - Twisted's
        """Close the passage now; waiting messages are not sent."""
        if self.connected:
            self.connectionLost(Failure(CONNECTION_DONE))

    def connectionLost(self, reason: Failure) -> None:
        """Close the passage and call `ended`, once."""
        if not self.connected:
            return
        super().connectionLost(reason)
        self._passage.close()
        self._ended(self._why)

    def logPrefix(self) -> str:
        """Return this object's name in Twisted's log lines."""
        return "passage"
