"""All receivers of one source, and offsets over their spools."""

import logging
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from stomprelay.pipeline.stomp.options import Source
from stomprelay.pipeline.stomp.receiver import Receiver
from stomprelay.pipeline.stomp.spool import SpoolError, covered, segments

_log: Final = logging.getLogger("stomprelay.stomp")

Offset = Mapping[str, int]
"""By receiver (`r0`, `r1`) the sequence behind the last row."""

PIECE: Final = 10_000
"""Rows that a task has, where there are fewer than enough for all tasks."""
_LOOK: Final = 0.02
_SETTLE: Final = 30.0


class SourceError(Exception):
    """The source cannot go on; the text has the reason."""


class Piece(NamedTuple):
    """Rows of one receiver's spool for one task, `end` excluded."""

    receiver: int
    first: int
    end: int


def place(source: Source, number: int) -> Path:
    """The folder of a receiver's spool."""
    return source.spool / f"r{number}"


class Receivers:
    """The receivers of one query. They are opened, and the spools held, from the first question on; they connect with
    `start`. Raises `SpoolError` and `SourceError`.
    """

    def __init__(self, source: Source, start: Offset | None = None) -> None:
        self._source = source
        self._parent = os.getppid()
        self._receivers: dict[int, Receiver] = {}
        try:
            for number in sorted({*range(source.receivers), *_numbers(start or {}), *_spooled(source)}):
                self._open(number, None if start is None else start.get(f"r{number}", 0))
        except BaseException:
            self.close()
            raise

    def _open(self, number: int, start: int | None) -> None:
        source, folder = self._source, place(self._source, number)
        if start and not segments(folder):
            self._lost(folder, "is new", start)  # before it is made: the next attempt must find the same
        receiver = self._receivers[number] = Receiver(source, number, folder, first=start or 0)
        if start is None:
            return
        if start < receiver.begin:
            self._lost(folder, f"begins at message {receiver.begin}", start)
        if start > receiver.end:
            self._lost(folder, f"ends at message {receiver.end}", start)
            receiver.skip(start)

    def _lost(self, folder: Path, what: str, start: int) -> None:
        text = (
            f"spool {folder} {what}, and the query goes on from message {start}: what was received meanwhile is lost,"
            " or this is not the query's spool"
        )
        if self._source.strict:
            raise SourceError(f"{text}. Set failOnDataLoss to false to go on with what there is")
        _log.warning("%s", text)

    def start(self) -> None:
        """Connect what is not connected."""
        for number, receiver in self._receivers.items():
            if number < self._source.receivers and not receiver.running and receiver.failure is None:
                receiver.start()

    # What there is

    @property
    def begin(self) -> dict[str, int]:
        """The first that the spools have."""
        return {f"r{number}": receiver.begin for number, receiver in self._receivers.items()}

    @property
    def end(self) -> dict[str, int]:
        """Behind the last that is on disk."""
        return {f"r{number}": receiver.end for number, receiver in self._receivers.items()}

    def check(self) -> None:
        """Raise `SourceError` when a receiver is dead, or nobody is there for whom to receive."""
        for number, receiver in self._receivers.items():
            if receiver.failure is not None:
                raise SourceError(f"receiver {number} has ended: {receiver.failure}")
        if os.getppid() != self._parent:
            raise SourceError("the driver is gone")

    def commit(self, offset: Offset) -> None:
        """Spark has committed all before this offset."""
        for number, receiver in self._receivers.items():
            receiver.commit(offset.get(f"r{number}", receiver.begin))

    def settle(self) -> None:
        """Wait until what Spark has committed is acknowledged."""
        deadline = time.monotonic() + _SETTLE
        while not all(each.settled for each in self._receivers.values()) and time.monotonic() < deadline:
            self.check()
            time.sleep(_LOOK)

    @property
    def held(self) -> bool:
        """Whether brokers may have more that does not come before Spark has committed something."""
        return any(receiver.held for receiver in self._receivers.values())

    def drained(self, until: float) -> dict[str, int]:
        """Wait until nothing comes any more, or `until` on the steady clock. Returns the end."""
        idle = self._source.idle
        while time.monotonic() < until and not all(
            each.held or each.quiet(idle) for each in self._receivers.values()
        ):
            self.check()
            time.sleep(_LOOK)
        self.check()
        return self.end

    def deadline(self) -> float:
        """When a draining that begins now must be over."""
        drain = self._source.drain
        return float("inf") if drain is None else time.monotonic() + drain

    def drop_older(self, seconds: float) -> None:
        """Remove what was written so long ago."""
        for receiver in self._receivers.values():
            receiver.drop_older(seconds)

    def close(self) -> None:
        """Disconnect from the brokers and close the spools. Raises `SourceError` where that failed."""
        for receiver in self._receivers.values():
            receiver.stop()
        for receiver in self._receivers.values():
            receiver.close()


def limited(start: Offset, end: Offset, most: int) -> dict[str, int]:
    """At most so many rows from `start` on, of all receivers alike."""
    chosen = {name: start.get(name, 0) for name in end}
    left = most
    waiting = sorted(end, key=lambda name: end[name] - chosen[name])
    for number, name in enumerate(waiting):
        part = left // (len(waiting) - number)
        taken = max(0, min(end[name] - chosen[name], part))
        chosen[name] += taken
        left -= taken
    return chosen


def pieces(source: Source, start: Offset, end: Offset) -> list[Piece]:
    """What each task reads. Raises `SpoolError` where the spools do not hold it all, and data loss is a failure."""
    ranges: list[Piece] = []
    for name in sorted(end):
        number, first, last = int(name[1:]), start.get(name, 0), end[name]
        folder = place(source, number)
        try:
            found = covered(folder, first, last)
        except SpoolError:
            if source.strict:
                raise
            _log.warning("spool %s lacks messages between %d and %d", folder, first, last)
            found = [(first, last)]
        ranges += [Piece(number, low, high) for low, high in found]
    tasks = source.partitions or os.cpu_count() or 1
    size = max(PIECE, -(-sum(each.end - each.first for each in ranges) // tasks))
    if source.partitions is not None:
        size = max(1, min(size, sum(each.end - each.first for each in ranges) // source.partitions))
    return [
        Piece(each.receiver, low, min(low + size, each.end))
        for each in ranges
        for low in range(each.first, each.end, size)
    ]


def _numbers(offset: Offset) -> set[int]:
    return {int(name[1:]) for name in offset}


def _spooled(source: Source) -> set[int]:
    """Receivers that once were, and whose spools may hold something still."""
    if not source.spool.is_dir():
        return set()
    names = [each.name for each in source.spool.iterdir() if each.is_dir()]
    return {int(name[1:]) for name in names if name[:1] == "r" and name[1:].isdigit()}
