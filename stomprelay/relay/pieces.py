"""Frames on their way into one write."""

from stomprelay.wire.frame import Frame


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
