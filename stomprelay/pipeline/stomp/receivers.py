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
"""An offset of the query: by receiver (`r0`, `r1`) the sequence after the last row."""

PIECE: Final = 10_000
"""Rows that a task reads at least, unless there are fewer."""
_LOOK: Final = 0.02
_SETTLE: Final = 30.0


class SourceError(Exception):
    """The source cannot go on; the text has the reason."""


class Piece(NamedTuple):
    """The rows of one receiver's spool that one task reads: sequences from `first` up to `end`, not included."""

    receiver: int
    first: int
    end: int


def place(source: Source, number: int) -> Path:
    """Return the folder of a receiver's spool."""
    return source.spool / f"r{number}"


class Receivers:
    """The receivers of one query, with their spools. `start` (offset): where it goes on, None for a new one. Raises
    `SpoolError`, and `SourceError` where messages are missing.
    """

    def __init__(self, source: Source, start: Offset | None = None) -> None:
        self._source = source
        self._parent = os.getppid()
        self._receivers: dict[int, Receiver] = {}
        try:
            for number in sorted(
                {*range(source.receivers), *(int(name[1:]) for name in start or ()), *_spooled(source)}
            ):
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
        if start < receiver.spool.begin:
            self._lost(folder, f"begins at message {receiver.spool.begin}", start)
        if start > receiver.spool.end:
            self._lost(folder, f"ends at message {receiver.spool.end}", start)
            receiver.spool.skip(start)

    def _lost(self, folder: Path, what: str, start: int) -> None:
        text = (
            f"spool {folder} {what}, and the query goes on from message {start}: what was received meanwhile is lost,"
            " or this is not the query's spool"
        )
        if self._source.strict:
            raise SourceError(f"{text}. Set failOnDataLoss to false to go on with what there is")
        _log.warning("%s", text)

    def start(self) -> None:
        """Start the receivers that do not run and have not failed. Calling it again does no harm."""
        for number, receiver in self._receivers.items():
            if number < self._source.receivers and not receiver.running and receiver.failure is None:
                receiver.start()

    # What there is

    @property
    def begin(self) -> dict[str, int]:
        """Return the offset of the first rows in the spools."""
        return {f"r{number}": receiver.spool.begin for number, receiver in self._receivers.items()}

    @property
    def end(self) -> dict[str, int]:
        """Return the offset after the last rows on disk."""
        return {f"r{number}": receiver.spool.end for number, receiver in self._receivers.items()}

    @property
    def unacknowledged(self) -> int:
        """Return how many deliveries the brokers wait to have acknowledged."""
        return sum(receiver.unacknowledged for receiver in self._receivers.values())

    def check(self) -> None:
        """Raise `SourceError` if a receiver has failed, or if the driver's process is gone."""
        for number, receiver in self._receivers.items():
            if receiver.failure is not None:
                raise SourceError(f"receiver {number} has ended: {receiver.failure}")
        if os.getppid() != self._parent:
            raise SourceError("the driver is gone")

    def commit(self, offset: Offset) -> None:
        """Record that Spark has committed all rows before this offset. Raises `SpoolError`."""
        for number, receiver in self._receivers.items():
            receiver.commit(offset.get(f"r{number}", receiver.spool.begin))

    def settle(self) -> None:
        """Wait until what Spark has committed is acknowledged, up to half a minute. Raises `SourceError`."""
        deadline = time.monotonic() + _SETTLE
        while not all(each.settled for each in self._receivers.values()) and time.monotonic() < deadline:
            self.check()
            time.sleep(_LOOK)

    @property
    def held(self) -> bool:
        """Return whether a broker may have more messages that it cannot deliver before Spark commits some."""
        return any(receiver.held for receiver in self._receivers.values())

    def drained(self, until: float) -> dict[str, int]:
        """Wait for silence, or until `until` (monotonic). Return the offset at the end. Raises `SourceError`."""
        idle = self._source.idle
        while time.monotonic() < until and not all(
            each.held or each.quiet(idle) for each in self._receivers.values()
        ):
            self.check()
            time.sleep(_LOOK)
        self.check()
        return self.end

    def deadline(self) -> float:
        """Return the monotonic time until which `drained` may wait, by the option `drainMs`."""
        drain = self._source.drain
        return float("inf") if drain is None else time.monotonic() + drain

    def drop_older(self, seconds: float) -> None:
        """Remove from the spools what was written more than so many seconds ago. Raises `SpoolError`."""
        for receiver in self._receivers.values():
            receiver.spool.drop_older(seconds)

    def close(self) -> None:
        """Disconnect and close the spools. Call `check` afterwards to know of failed receivers."""
        for receiver in self._receivers.values():
            receiver.stop()
        for receiver in self._receivers.values():
            receiver.close()


def limited(start: Offset, end: Offset, most: int) -> dict[str, int]:
    """Return the offset at most `most` rows after `start`, up to `end`, shared evenly among receivers."""
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
    """Return what each task of a batch reads. Raises `SpoolError` for missing rows if `failOnDataLoss`."""
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


def _spooled(source: Source) -> set[int]:
    """Return the numbers of the receivers that have a spool, whether the options ask for them or not."""
    if not source.spool.is_dir():
        return set()
    names = [each.name for each in source.spool.iterdir() if each.is_dir()]
    return {int(name[1:]) for name in names if name[:1] == "r" and name[1:].isdigit()}
