"""Back-pressure: whether a leg is read from.

A leg is not read from while there is a reason against it. One is pressure: what comes from it goes to another leg
whose transport holds too much already. So a leg's valve is registered as the producer of that transport, which
shuts it and opens it again. Another is that the core asked for it, a third that the journal has no room.
"""

from typing import Any, Final, Protocol

from twisted.internet.interfaces import IPushProducer
from zope.interface import implementer

PRESSURE: Final = 1
"""The other leg cannot be written to fast enough."""
ASKED: Final = 2
"""The core said `Pause`."""
JOURNAL: Final = 4
"""The journal has no room for what would come."""


class Source(Protocol):
    """Whose reading a valve governs."""

    transport: Any
    """Its `pauseProducing` and `resumeProducing` stop and start the reading."""

    def read(self, on: bool) -> None:
        """Reading stopped, or goes on: the core must know, for the silence of an unread peer means nothing."""


@implementer(IPushProducer)
class Valve:
    """The reading side of one leg.

    Where nothing but the core's wish is against it, the transport goes on reading until something comes: only so
    is the end of the connection seen. That one chunk passes, then it is shut for good.
    """

    __slots__ = ("_reasons", "_shut", "_source")

    def __init__(self, source: Source) -> None:
        self._source: Source | None = source
        self._reasons = 0
        self._shut = False

    @property
    def held(self) -> bool:
        """Whether there is a reason not to read."""
        return self._reasons != 0

    @property
    def reasons(self) -> int:
        """Those that there are not to read, added up."""
        return self._reasons

    def hold(self, reason: int) -> None:
        """There is a reason not to read."""
        source = self._source
        if source is None:
            return
        before = self._reasons
        self._reasons = before | reason
        if reason != ASKED and not self._shut:
            self._shut = True
            source.transport.pauseProducing()
        if not before:
            source.read(False)

    def release(self, reason: int) -> None:
        """The reason is no more; read on if it was the last."""
        source = self._source
        before = self._reasons
        if source is None or not before & reason:
            return
        self._reasons = before & ~reason
        if not self._reasons:
            self._open(source)
            source.read(True)

    def passed(self) -> None:
        """Something came. When it should not have, nothing more does."""
        if self._reasons and not self._shut and self._source is not None:
            self._shut = True
            self._source.transport.pauseProducing()

    def retire(self) -> None:
        """The leg is closed: read whatever the reasons, tell nobody. What comes is for its protocol to throw away."""
        source, self._source = self._source, None
        if source is not None:
            self._open(source)

    def _open(self, source: Source) -> None:
        if self._shut:
            self._shut = False
            if source.transport is not None:
                source.transport.resumeProducing()

    def pauseProducing(self) -> None:
        """The transport that takes this leg's octets is full."""
        self.hold(PRESSURE)

    def resumeProducing(self) -> None:
        """It has room again."""
        self.release(PRESSURE)

    def stopProducing(self) -> None:
        """It is gone, and what becomes of this leg is the core's to say."""
        self.release(PRESSURE)
