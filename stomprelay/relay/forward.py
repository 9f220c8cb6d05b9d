"""Frames on their way into one write."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from stomprelay.relay.effects import Effect
from stomprelay.relay.notes import answered
from stomprelay.session.effects import Send
from stomprelay.session.leg import Leg
from stomprelay.session.states import Side
from stomprelay.wire.errors import StompError
from stomprelay.wire.frame import Frame, compose
from stomprelay.wire.names import DISCONNECT, RECEIPT, RECEIPT_ID


class Pieces:
    """What is written together. Neighbours of one chunk that pass as they came stay one slice of it."""

    __slots__ = ("_data", "_done", "_start", "_stop")

    def __init__(self) -> None:
        self._done: list[bytes] = []
        self._data = b""
        self._start = self._stop = 0

    def add(self, frame: Frame, head: bytes | None, extra: bytes = b"") -> None:
        """A frame: as it came, or with a new head. `extra` are header lines, each with its LF, to put in front."""
        data = self._data
        if frame.data is not data or frame.start != self._stop:
            if self._stop > self._start:
                self._done.append(data[self._start : self._stop])
            data = self._data = frame.data
            self._start = frame.start
        if head is not None:
            if extra:
                at = head.find(b"\n") + 1
                head = head[:at] + extra + head[at:]
            self._done += (data[self._start : frame.start], head)
            self._start = frame.body
        elif extra:
            self._done += (data[self._start : frame.head], extra)
            self._start = frame.head
        self._stop = frame.after

    def write(self, wire: bytes) -> None:
        """Whole frames of our own."""
        self._done += (self._data[self._start : self._stop], wire)
        self._start = self._stop

    def take(self) -> bytes:
        """All of it, which is forgotten here."""
        done = self._done
        if self._stop > self._start:
            done.append(self._data[self._start : self._stop])
        self.clear()
        return b"".join(done)

    def clear(self) -> None:
        """Nothing of it shall be written."""
        self._done = []
        self._data = b""
        self._start = self._stop = 0


class Carriage(NamedTuple):
    """What the other leg is written, how many frames were read for it, and what was wrong with the one after them."""

    data: bytes
    frames: int
    failure: StompError | None


def carry(source: Leg, untouched: frozenset[bytes], headed: Callable[[Frame], bytes | None]) -> Carriage:
    """All complete frames of a leg, up to a DISCONNECT, as one write. Neighbours that pass as they came stay one
    slice, and where the whole chunk does, it is not even copied.

    Frames of `untouched` commands pass without a look. Of others `headed` answers the new head; None: it passes as
    it came; nothing at all, b"": it does not pass.
    """
    decoder = source.decoder
    pieces: list[bytes] = []
    data = b""
    start = stop = count = 0
    failure = None
    try:
        for frame in decoder.frames():
            count += 1
            data = frame.data
            head = None if frame.command in untouched else headed(frame)
            if head is None:
                if frame.start != stop:
                    pieces.append(data[start:stop])
                    start = frame.start
                stop = frame.after
            elif head:
                pieces += (data[start:stop], head)
                start = frame.body
                stop = frame.after
            if frame.command is DISCONNECT:
                break
    except StompError as error:
        failure = error
    pieces.append(data[start:stop])
    if stop and stop == len(data) and data[-1] == 0 and source.side is Side.UPSTREAM and decoder.trails:
        # It would come with the next chunk, too late for clients that wait for it.
        pieces.append(b"\n")
    return Carriage(b"".join(pieces), count, failure)


def give(receipts: Sequence[bytes], client: Leg, effects: list[Effect], now: float) -> None:
    """Write the client a RECEIPT frame for each of these ids, all in one `Send`."""
    if not receipts:
        return
    frames = [compose(RECEIPT, [(RECEIPT_ID, each)], client.dialect) for each in receipts]
    client.heartbeat.said_at = now
    effects += [Send(client, b"".join(frames)), *answered(receipts)]
