"""What a client says while there is no broker for it."""

from collections import deque

from stomprelay.relay.effects import Effect
from stomprelay.session.effects import Pause, Resume
from stomprelay.session.leg import Leg


class Hold:
    """Octets of a client that nobody reads yet. With `most` of them, the client is not read from any more.

    Say `paced` after each change, with what else speaks against reading.
    """

    __slots__ = ("_chunks", "_client", "_most", "_octets", "_paused")

    def __init__(self, client: Leg, most: int) -> None:
        self._client = client
        self._most = most
        self._chunks: deque[bytes] = deque()
        self._octets = 0
        self._paused = False

    def __len__(self) -> int:
        return self._octets

    @property
    def paused(self) -> bool:
        """Whether the client is not read from because of this hold."""
        return self._paused

    def take(self, data: bytes) -> None:
        """Keep a chunk."""
        self._chunks.append(data)
        self._octets += len(data)

    def give(self) -> bytes:
        """The oldest chunk, which is kept no longer."""
        data = self._chunks.popleft()
        self._octets -= len(data)
        return data

    def clear(self) -> None:
        """Nobody will want to know."""
        self._chunks.clear()
        self._octets = 0

    def paced(self, effects: list[Effect], *, full: bool, crowded: bool) -> None:
        """Stop reading from the client when too much is held or elsewhere too much waits (`full`); go on when all is
        given and not too much waits any more (`crowded`).
        """
        if self._paused:
            if not self._octets and not crowded:
                self._paused = False
                effects.append(Resume(self._client))
        elif full or self._octets >= self._most:
            self._paused = True
            effects.append(Pause(self._client))
