"""The relay's fast path, on sockets of a world: what `stomprelay/service/connection/_pipe.pyx` does, in Python."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from twisted.internet.main import CONNECTION_DONE, CONNECTION_LOST

from stomprelay.service.connection import protocol
from stomprelay.wire.run import Run


@dataclass(eq=False)
class Pipe:
    """Reads the socket of `source` while it is `open`, and writes whole runs to `target` without the core."""

    source: Any
    target: Any
    scan: Callable[[bytes, int], object]
    takes: Callable[[Run], bool]
    trails: bool
    seconds: Callable[[], float]
    failed: Callable[[Exception], None]
    recording: Any
    counter: Any
    session: Any
    frames: int = 0
    _size: int = 0
    _sent: int = 0
    _at: float = 0.0
    _untold: int = 0
    _until: int = 1

    def __post_init__(self) -> None:
        self._transport = self.source.socket()
        self._wrapped = self.source.plain is None

    def open(self) -> None:
        """Read instead of the transport."""
        self._transport.doRead = self

    def shut(self) -> None:
        """Let the transport read again."""
        if self._transport.__dict__.get("doRead") is self:
            del self._transport.doRead

    def take(self) -> tuple[int, int, int, float]:
        """Return what passed since the last call: frames, bytes as they came and went, and the time of the last."""
        taken = (self.frames, self._size, self._sent, self._at)
        self.frames = self._size = self._sent = 0
        return taken

    def __call__(self) -> Exception | None:
        """Read once. Returns and raises what `doRead` does."""
        room = self._transport.bufferSize
        try:
            data = self._transport.socket.recv(room)
        except BlockingIOError:
            return None
        except OSError:
            return CONNECTION_LOST
        if not data:
            return CONNECTION_DONE
        more = len(data) == room
        if self._wrapped:
            if more:
                self.source.dataReceived(data)
                return None
            data = self.source.unwrapped(data)
        at = 0
        try:
            if data and not more and not (self.trails and data[-1] == 0):
                at = self._pass(data)
        except Exception as error:
            self.failed(error)
            return None
        if at < len(data):
            self.source.came(data[at:])
        return None

    def _pass(self, data: bytes) -> int:
        at, kept, out = 0, 0, b""
        while at < len(data):
            run = self.scan(data, at)
            if type(run) is not Run or not self.takes(run):
                break
            self.frames += run.count
            self._untold += run.count
            if self.counter is not None and self._untold >= self._until:
                count, self._untold = self._untold, 0
                self._until = self.counter.passed(run, self.session, self.source.leg.dialect, count)
            if run.instead is not None:
                out += data[kept:at] + run.instead.data
                kept = run.after
            at = run.after
            if self.recording is not None:
                self.recording.recorder.frames.append(run)
        if at:
            out += data[kept:at]
            self._size += at
            self._sent += len(out)
            self._at = self.seconds()
            if at == len(data) and self.recording is not None:
                self.recording.record(self.recording.recorder)
            if self.target.plain is None:
                self.target.write(out)
            else:
                protocol.send(self.target.plain, out)
        return at
