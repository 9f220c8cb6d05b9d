"""What clients and brokers of a world have in common: one end of a connection, which is written to and read from."""

import socket
from collections.abc import Callable

from sim.net import Clock, End


class Line:
    """An end of a connection with what waits to be written. `received` is called with bytes; `ended` once, with "closed"
    or "reset". While `slow`, nothing is read.
    """

    def __init__(
        self, clock: Clock, end: End, received: Callable[[bytes], None], ended: Callable[[str], None]
    ) -> None:
        self._clock = clock
        self._end = end
        self._received = received
        self._ended = ended
        self._waiting = bytearray()
        self.leaving = False
        self.slow = False
        self.over = False
        end.notify = self.serve
        end.changed()

    @property
    def end(self) -> End:
        """Return the end, for the weather."""
        return self._end

    def write(self, data: bytes) -> None:
        """Write this, now or when there is room."""
        if not self.over and not self.leaving:
            self._waiting += data
            self._flush()

    def half_close(self) -> None:
        """Write no more. What was written still goes."""
        self.leaving = True
        self._flush()

    def close(self) -> None:
        """Close the connection: `ended` is not called."""
        self.over = True
        self._end.close()

    def abort(self) -> None:
        """Reset the connection: `ended` is not called."""
        self.over = True
        self._end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"")
        self._end.close()

    def pause(self, seconds: float) -> None:
        """Read nothing for so long."""
        self.slow = True
        self._clock.after(seconds, self._awake)

    def _awake(self) -> None:
        self.slow = False
        self.serve()

    def _flush(self) -> None:
        if self.over or self._end.peer is None:
            return
        while self._waiting:
            try:
                count = self._end.send(bytes(self._waiting))
            except BlockingIOError:
                return
            except OSError:
                self._waiting.clear()  # the end is read, too
                return
            del self._waiting[:count]
        if self.leaving and not self._end.shut and not self._end.broken:
            self._end.shutdown(1)

    def serve(self) -> None:
        """Read what there is, and write what waits. The connection calls this when either is possible."""
        if self.over:
            return
        self._flush()
        while not self.slow and not self.over:
            try:
                data = self._end.recv(65536)
            except BlockingIOError:
                return
            except OSError:
                self._gone("reset")
                return
            if not data:
                self._gone("closed")
                return
            self._received(data)

    def _gone(self, how: str) -> None:
        self.over = True
        self._end.close()
        self._ended(how)
