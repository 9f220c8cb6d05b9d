"""What clients and brokers of a world have in common: one end of a connection, which is written to and read from."""

import socket
from collections import deque
from collections.abc import Callable, Sequence

from sim.layers import Layer
from sim.net import Clock, End
from sim.stomp import Frame


class Line:
    """An end of a connection with what waits to be written. `received` is called with bytes; `ended` once, with
    "closed", "reset", or "refused" where there never was a connection.
    `layers`: the highest first. While `slow`, nothing is read.
    """

    def __init__(
        self,
        clock: Clock,
        end: End,
        received: Callable[[bytes], None],
        ended: Callable[[str], None],
        layers: Sequence[Layer] = (),
    ) -> None:
        self._clock = clock
        self.end = end
        self._received = received
        self._ended = ended
        self._layers = layers
        self._waiting = bytearray()
        self._early: deque[tuple[bytes, Frame | None, int]] = deque()
        self.leaving = self.slow = self.over = False
        end.notify = self.serve
        end.changed()
        self._put(b"", 0)
        self._flush()

    def write(self, data: bytes, frame: Frame | None = None, behind: int = 0) -> None:
        """Write this, now or when there is room. If it is a `frame`, it is noted when the relay has read all of it."""
        if not self.over and not self.leaving:
            self._early.append((data, frame, behind))
            self._go_on()
            self._flush()

    def half_close(self) -> None:
        """Write no more. What was written still goes."""
        self.leaving = True
        self._flush()

    def close(self) -> None:
        """Close the connection: `ended` is not called."""
        self.over = True
        self.end.close()

    def abort(self) -> None:
        """Reset the connection: `ended` is not called."""
        self.over = True
        self.end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"")
        self.end.close()

    def pause(self, seconds: float) -> None:
        """Read nothing for so long."""
        self.slow = True
        self._clock.after(seconds, self._awake)

    def _awake(self) -> None:
        self.slow = False
        self.serve()

    def _flush(self) -> None:
        while self._waiting and not self.over and self.end.peer is not None:
            try:
                count = self.end.send(bytes(self._waiting))
            except BlockingIOError:
                return
            except OSError:
                self._waiting.clear()  # the end is read, too
                return
            del self._waiting[:count]
        end = self.end
        if self.leaving and not (self.over or self._waiting or end.peer is None or end.shut or end.broken):
            end.shutdown(1)

    def serve(self) -> None:
        """Read what there is, and write what waits. The connection calls this when either is possible."""
        if self.over:
            return
        if self._waiting or self.leaving:
            self._flush()
        while not (self.slow or self.over) and self.end.readable:
            try:
                data = self.end.recv(65536)
            except OSError:
                self._gone("refused" if self.end.peer is None else "reset")
                return
            if data:
                self._read(data)
            else:
                self._gone("closed")

    def _put(self, data: bytes, at: int) -> None:
        for layer in self._layers[at:]:
            data = layer.put(data)
        self._waiting += data

    def _go_on(self) -> None:
        """Write one after the other, each by itself, when all handshakes are over."""
        while self._early and all(each.open for each in self._layers):
            data, frame, behind = self._early.popleft()
            self._put(data, 0)
            if frame is not None:
                self.end.marks.append((self.end.sent + len(self._waiting), frame, behind))

    def _read(self, data: bytes) -> None:
        for at in reversed(range(len(self._layers))):
            if data:
                data, answer = self._layers[at].take(data)
                self._put(answer, at + 1)
        self._go_on()
        if self._waiting:
            self._flush()
        if data:
            self._received(data)
        if not self.over and any(each.over for each in self._layers):
            self._gone("closed")

    def _gone(self, how: str) -> None:
        self.over = True
        self.end.close()
        self._ended(how)
