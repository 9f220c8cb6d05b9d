"""The relay's fast path on sockets of a world. All but the reading is that of a relay."""

from typing import Any, Final

from twisted.internet.main import CONNECTION_DONE, CONNECTION_LOST

from stomprelay.service.connection.protocol import PIPE


class _Reading:
    source: Any
    hand_on: Any

    def __call__(self) -> Exception | None:
        transport = self.source.socket()
        room = transport.bufferSize
        try:
            data = transport.socket.recv(room)
        except BlockingIOError:
            return None
        except OSError:
            return CONNECTION_LOST
        return self.hand_on(data, len(data) == room) if data else CONNECTION_DONE


Pipe: Final[Any] = None if PIPE is None else type("Pipe", (_Reading, PIPE), {})
"""What reads a socket without the core; None where nothing is compiled."""
