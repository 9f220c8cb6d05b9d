"""What a client sent and nobody has read yet: it waits for a broker, for its turn, or for what it may send."""

from collections import deque
from typing import Final

from stomprelay.relay.client.pace import Pace
from stomprelay.relay.effects import Outbox
from stomprelay.relay.flow import Flow
from stomprelay.session.effects import Pause, Resume
from stomprelay.session.leg import Leg, State

_TAKEN: Final = 65536
"""How many bytes of small chunks are taken together."""


class InputBuffer:
    """Bytes of a client that are not read yet, for want of a broker. With `most` of them, the client is not read from.
    `pace` is how fast they may be; None: as fast as can be. `cost` is how many bytes are kept; `paused`: the client is
    not read from because of this buffer.

    Call `paced` after each change, with the other reasons not to read; `hold` when something came that has to wait,
    `stop` for the client to be read from no more.
    """

    __slots__ = ("_at", "_chunks", "_client", "_most", "_outbox", "_stopped", "cost", "pace", "paused")

    def __init__(self, client: Leg, outbox: Outbox, most: int) -> None:
        self._client = client
        self._outbox = outbox
        self._most = most
        # An empty deque has as many bytes as the rest of a session's account; most sessions never need one.
        self._chunks: deque[bytes] | None = None
        self._at = 0
        self.cost = 0
        self.pace: Pace | None = None
        self.paused = False
        self._stopped = False

    @property
    def unread(self) -> bool:
        """Whether the client sent more than was carried yet, since it is connected: here, or in its decoder."""
        client = self._client
        return self.cost > 0 or (client.state is State.CONNECTED and client.decoder.behind)

    def append(self, data: bytes) -> None:
        """Keep a chunk."""
        if self._chunks is None:
            self._chunks = deque()
        self._chunks.append(data)
        self.cost += len(data)

    def take(self) -> bytes:
        """Return the oldest bytes, a whole chunk or several small ones, which are kept no longer. There are some."""
        chunks = self._chunks
        assert chunks is not None
        taken = [chunks.popleft()[self._at :]]
        self._at = 0
        size = len(taken[0])
        while chunks and size + len(chunks[0]) <= _TAKEN:
            taken.append(chunks.popleft())
            size += len(taken[-1])
        self.cost -= size
        if not chunks:
            self._chunks = None
        return b"".join(taken)

    def part(self, most: int) -> bytes:
        """Return the oldest bytes, so many at most, which are kept no longer."""
        parts: list[bytes] = []
        chunks = self._chunks
        while chunks and most > 0:
            part = chunks[0][self._at : self._at + most]
            parts.append(part)
            most -= len(part)
            self._at += len(part)
            self.cost -= len(part)
            if self._at == len(chunks[0]):
                chunks.popleft()
                self._at = 0
        if not chunks:
            self._chunks = None
        return b"".join(parts)

    def limit(self, pace: Pace | None) -> None:
        """Have this pace from now on."""
        if self.pace is not None:
            self.pace.leave()
        self.pace = pace

    def clear(self) -> None:
        """Forget all chunks: the session is over."""
        self._chunks = None
        self._at = self.cost = 0
        if self.pace is not None:
            self.pace.leave()

    def stop(self) -> None:
        """Stop reading from the client for good: what was received of it is all that counts."""
        self._stopped = True
        self.hold()

    def hold(self) -> None:
        """Stop reading from the client until `paced` finds no reason for it."""
        if not self.paused:
            self.paused = True
            self._outbox.put(Pause(self._client))

    def paced(self, flow: Flow) -> None:
        """Stop reading from the client when too much is kept here, or its pace has it wait, or too much waits in the
        flow (`full`); go on when nothing is kept and not too much waits there any more (`crowded`).
        """
        waiting = self.pace is not None and self.pace.waiting
        if self.paused:
            if not (self.cost or waiting or self._stopped or flow.crowded):
                self.paused = False
                self._outbox.put(Resume(self._client))
        elif waiting or self.cost >= self._most or flow.full:
            self.paused = True
            self._outbox.put(Pause(self._client))
