"""The connection of one leg: a socket that never blocks, in its owner's thread."""

import socket
import ssl
import struct
import threading
from collections import deque
from collections.abc import Callable
from selectors import EVENT_READ, EVENT_WRITE, BaseSelector
from typing import Final, Protocol

from stomprelay.pipeline.stomp.dial import Dial, spell
from stomprelay.session.effects import How
from stomprelay.session.leg import Leg

ASKED: Final = 1
"""The relay's core asked for a pause."""
PRESSURE: Final = 2
"""Nobody takes what was read already."""

FULL: Final = 256 * 1024
"""Octets that wait to be written, from which on a line is full; it has room again at a quarter of that."""
LINGER: Final = 2.0
"""Seconds that a closed line may take to write what it has, and its peer to close."""

_READ: Final = 256 * 1024
_RESET: Final = struct.pack("ii", 1, 0)
_LATER: Final = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class Owner(Protocol):
    """Whoever has lines. But for `soon`, each method is called in the owner's own thread."""

    selector: BaseSelector

    def soon(self, what: Callable[[], None]) -> None:
        """Call this in the owner's thread, in its next turn; may be said in any thread."""

    def made(self, line: "Line") -> None:
        """The connection is there."""

    def received(self, line: "Line", data: bytes) -> None:
        """Octets came."""

    def refused(self, line: "Line", reason: str) -> None:
        """The connection cannot be had; the line is no more."""

    def lost(self, line: "Line", reason: str) -> None:
        """The connection ended by itself; the line is no more."""

    def held(self, line: "Line", on: bool) -> None:
        """The line is not read from any more, or is again."""

    def gone(self, line: "Line") -> None:
        """A line that was closed has ended."""


class Line:
    """Connect it with `open`, then call `ready` when the selector says so, or while it is `eager`, and `late` when
    `deadline` has come. `told` is for its owner, to remember that its core knows the line for full.
    """

    def __init__(self, owner: Owner, leg: Leg, dial: Dial) -> None:
        self.leg = leg
        self.told = False
        self.deadline: float | None = None
        self.eager = False
        self._owner = owner
        self._dial = dial
        self._socket: socket.socket | None = None
        self._out: deque[memoryview] = deque()
        self._size = 0
        self._holds = 0
        self._closed = False
        self._said_all = False
        self._full = False

    def open(self, within: float) -> None:
        """Begin to connect; the owner is told what became of it."""

        def connect() -> None:
            made, reason = None, ""
            try:
                made = self._dial.connect(within)
            except (OSError, ValueError) as error:
                reason = spell(error)
            self._owner.soon(lambda: self._opened(made, reason))

        # A thread of its own: neither name servers nor handshakes hold up what else the owner does.
        threading.Thread(target=connect, name="stomp connect", daemon=True).start()

    def _opened(self, made: socket.socket | None, reason: str) -> None:
        if self._closed:
            if made is not None:
                made.close()
            self._end()
        elif made is None:
            self._closed = True
            self._owner.refused(self, reason)
        else:
            self._socket = made
            self._watch()
            self.eager = isinstance(made, ssl.SSLSocket)
            self._owner.made(self)

    # What the owner asks for

    def write(self, data: bytes) -> None:
        """Write this after what waits already."""
        if self._closed or self._said_all:
            return
        self._out.append(memoryview(data))
        self._size += len(data)
        if len(self._out) == 1:
            self._write()
            self._watch()

    @property
    def full(self) -> bool:
        """Whether too much waits to be written."""
        self._full = self._size >= FULL // 4 if self._full else self._size >= FULL
        return self._full

    def hold(self, reason: int) -> None:
        """Do not read, for this reason."""
        before, self._holds = self._holds, self._holds | reason
        if not before:
            self._watch()
            self._owner.held(self, True)

    def release(self, reason: int) -> None:
        """This reason not to read is no more."""
        before, self._holds = self._holds, self._holds & ~reason
        if before and not self._holds:
            self.eager = isinstance(self._socket, ssl.SSLSocket)
            self._watch()
            self._owner.held(self, False)

    def close(self, how: How, now: float) -> None:
        """End it; its owner hears no more of it but `gone`. One that takes its time to end can be aborted."""
        if self._closed:
            if how is How.ABORT and self._socket is not None:
                self._end()
            return
        self._closed = True
        if self._socket is None:
            return  # it is being connected: what comes of that is thrown away
        if how is How.ABORT:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            self._end()
            return
        self.deadline = now + LINGER
        self._holds = 0
        self._write()
        self._watch()

    # What the selector and the clock say

    def ready(self, mask: int) -> None:
        """The socket can be written or read."""
        if mask & EVENT_WRITE:
            self._write()
        if mask & EVENT_READ and self._socket is not None and not self._holds:
            self._read(self._socket)
        self._watch()

    def late(self) -> None:
        """The peer did not close in time."""
        self._end()

    def _read(self, made: socket.socket) -> None:
        self.eager = False
        try:
            data = made.recv(_READ)
        except _LATER:
            return
        except OSError as error:
            self._ended(spell(error))
            return
        if not data:
            self._ended("connection closed")
            return
        self.eager = isinstance(made, ssl.SSLSocket)  # it may have more, of which the selector knows nothing
        if not self._closed:
            self._owner.received(self, data)

    def _write(self) -> None:
        made = self._socket
        while self._out and made is not None:
            try:
                sent = made.send(self._out[0])
            except _LATER:
                return
            except OSError:
                # What the peer still has for us is read first; the end of that is the end of the line.
                self._out.clear()
                self._size = 0
                self._said_all = True
                return
            self._size -= sent
            if sent == len(self._out[0]):
                self._out.popleft()
            else:
                self._out[0] = self._out[0][sent:]
        if self._closed and not self._said_all and made is not None:
            self._said_all = True
            try:
                made.shutdown(socket.SHUT_WR)
            except OSError:
                self._end()

    def _watch(self) -> None:
        """Tell the selector what there is to wait for."""
        made, selector = self._socket, self._owner.selector
        if made is None:
            return
        mask = (0 if self._holds else EVENT_READ) | (EVENT_WRITE if self._out else 0)
        known = selector.get_map().get(made)
        if known is None:
            if mask:
                selector.register(made, mask, self)
        elif not mask:
            selector.unregister(made)
        elif known.events != mask:
            selector.modify(made, mask, self)

    # Ends

    def _ended(self, reason: str) -> None:
        """The peer closed, or the network did."""
        if self._closed:
            self._end()
            return
        self._closed = True
        self._drop()
        self._owner.lost(self, reason)

    def _drop(self) -> None:
        made, self._socket = self._socket, None
        self.deadline = None
        self.eager = False
        if made is not None:
            if self._owner.selector.get_map().get(made) is not None:
                self._owner.selector.unregister(made)
            made.close()

    def _end(self) -> None:
        self._drop()
        self._owner.gone(self)
