"""Whether a connection is read from: not while there is a reason against it. For the reason `PRESSURE` a `ReadControl`
is the producer of the transport that its bytes go to.
"""

from typing import Final, Protocol

from twisted.internet.interfaces import IPushProducer
from zope.interface import implementer

PRESSURE: Final = 1
"""The other connection cannot be written to fast enough."""
ASKED: Final = 2
"""The core asked for it, by the effect `Pause`."""
JOURNAL: Final = 4
"""The journal has no room for what would come."""
TURN: Final = 8
"""What came waits until others had their turn."""
UNREAD: Final = 16
"""What came over WebSocket is looked at when others had their turn."""
MEMORY: Final = 32
"""Too much is kept of all clients, and of this session."""


class _Source(Protocol):
    """The connection whose reading is controlled. The core is told of changes: silence of a peer that is not read from
    does not count.
    """

    def stop_reading(self) -> None: ...
    def read_on(self) -> None: ...
    def reading_changed(self, on: bool) -> None: ...


@implementer(IPushProducer)
class ReadControl:
    """Stops and resumes the reading of one connection. Where `ASKED` is the only reason, reading stops only after one
    more chunk, so that the end of the connection is seen.
    """

    __slots__ = ("_reasons", "_source", "_stopped")

    def __init__(self, source: _Source) -> None:
        self._source: _Source | None = source
        self._reasons = 0
        self._stopped = False

    @property
    def held(self) -> bool:
        """Whether there is a reason not to read."""
        return self._reasons != 0

    @property
    def reasons(self) -> int:
        """The sum of the reasons not to read; 0 when there is none."""
        return self._reasons

    def hold(self, reason: int) -> None:
        """Add a reason not to read. One that is there already changes nothing."""
        source = self._source
        if source is None:
            return
        before = self._reasons
        self._reasons = before | reason
        if reason != ASKED and not self._stopped:
            self._stopped = True
            source.stop_reading()
        if not before:
            source.reading_changed(False)

    def release(self, reason: int) -> None:
        """Remove a reason not to read. Reading goes on if it was the last."""
        source = self._source
        before = self._reasons
        if source is None or not before & reason:
            return
        self._reasons = before & ~reason
        if not self._reasons:
            self._resume(source)
            source.reading_changed(True)

    def received(self) -> None:
        """Record that a chunk was received. Where there is a reason not to read, reading stops now."""
        if self._reasons and not self._stopped and self._source is not None:
            self._stopped = True
            self._source.stop_reading()

    def retire(self) -> None:
        """Read on, and report nothing more: the leg is closed."""
        source, self._source = self._source, None
        if source is not None:
            self._resume(source)

    def _resume(self, source: _Source) -> None:
        if self._stopped:
            self._stopped = False
            source.read_on()

    def pauseProducing(self) -> None:
        """Add the reason `PRESSURE`: the transport that this connection's bytes are written to is full."""
        self.hold(PRESSURE)

    def resumeProducing(self) -> None:
        """Remove the reason `PRESSURE`: that transport has room again."""
        self.release(PRESSURE)

    def stopProducing(self) -> None:
        """Remove the reason `PRESSURE`: that transport is closed."""
        self.release(PRESSURE)
