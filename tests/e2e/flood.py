"""More than a peer can take, to see that it takes no more."""

import select
import threading

from tests.e2e.child import PATIENCE
from tests.e2e.raw import Connection

MUCH = 256 << 20
"""More bytes than the buffers of the kernel and of the relay may hold together."""


class Flood:
    """A frame written again and again for as long as the peer takes it; `written` counts bytes."""

    def __init__(self, connection: Connection, frame: bytes) -> None:
        self._connection = connection
        self._frame = frame
        self.written = 0

    def run(self) -> None:
        """Write until the peer has taken nothing for two seconds, or until it has taken too much."""
        sock = self._connection.socket
        sock.setblocking(False)
        while self.written < MUCH and select.select([], [sock], [], 2)[1]:
            self.written += sock.send(self._frame[self.written % len(self._frame) :])
        sock.settimeout(PATIENCE)

    def finish(self) -> None:
        """Write the rest of the frame that was begun, or one more."""
        self._connection.write(self._frame[self.written % len(self._frame) :])

    def arrives(self, reader: Connection) -> None:
        """Finish while `reader` reads, and check everything it gets."""
        rest = threading.Thread(target=self.finish)
        rest.start()
        for _ in range(self.written // len(self._frame) + 1):
            assert reader.frame() == self._frame
        rest.join()
