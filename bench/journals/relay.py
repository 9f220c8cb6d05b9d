"""A relay of a world that is made up: its clock, and its runs, which end or die."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from bench.journals.truth import Truth
from bench.journals.world import SECOND
from stomprelay.journal.block import BlockKind, encode
from stomprelay.journal.schema import Context, EventRecord, JournalEvent
from stomprelay.journal.segment import CLOSED, OPEN
from stomprelay.journal.writer import Writer

_PIECE: Final = 1 << 18
_FLUSH: Final = SECOND // 5
_NOBODY: Final = Context().encode()
SOFTWARE: Final = "stomprelay bench"


class Relay:
    """One relay, whose clock is ahead of the world's by `skew` ns; `run` is its present run, `RELAY-RUN`."""

    def __init__(
        self,
        folder: Path,
        name: str,
        number: int,
        seed: int,
        skew: int,
        segment: int,
        age: float,
        truth: Truth,
    ) -> None:
        self.name = name
        self.skew = skew
        self.runs = 0
        self.run = ""
        self._folder = folder
        self._first = (seed & 0xFFFF) << 16 | (number & 0xFF) << 8
        self._segment = segment
        self._age = age
        self._truth = truth
        self._piece = min(_PIECE, segment // 4)
        self._waiting: list[bytes] = []
        self._held = 0
        self._since = 0
        self._writer: Writer

    def begin(self, now: int) -> None:
        """Start; the run before, if any, has ended or died."""
        self.runs += 1
        run = f"{self._first | self.runs & 0xFF:08x}"
        self.run = f"{self.name}-{run}"
        self._writer = Writer(
            self._folder, self.name, run, size=self._segment, age=self._age, software=SOFTWARE
        )
        facts = {"software": SOFTWARE, "pid": 1000 + self.runs}
        self.happened(now, _NOBODY, JournalEvent.BEGUN.value, f"{SOFTWARE} began to write", facts)

    def happened(self, now: int, context: bytes, event: str, text: str, facts: Mapping[str, Any]) -> None:
        """Record an event."""
        self._truth.took("event", 1)
        record = EventRecord(event, text, facts).encode()
        self.put(now, encode(BlockKind.EVENT, now + self.skew, 0, context, (), record))

    def put(self, now: int, block: bytes) -> None:
        """Record a block. It is written when there is enough, or what waits is old."""
        if self._held > self._piece or (self._held and now - self._since > _FLUSH):
            self._flush()
        if not self._held:
            self._since = now
        self._held += len(block)
        self._waiting.append(block)

    def _flush(self) -> None:
        if self._waiting:
            self._writer.write(b"".join(self._waiting), self._since + self.skew)
            self._waiting.clear()
            self._held = 0

    def end(self, now: int) -> None:
        """Stop in good order."""
        self.happened(now, _NOBODY, JournalEvent.ENDED.value, f"{SOFTWARE} ended in good order", {})
        self._flush()
        self._writer.close(now + self.skew)
        self._truth.died[self.run] = False

    def die(self, now: int, block: bytes) -> None:
        """Be killed while this block is written: half of it is there, in a segment that nobody closed."""
        self._flush()
        path = self._writer.path
        assert path is not None
        self._writer.close(now + self.skew)
        closed = path.with_name(path.name.removesuffix(OPEN) + CLOSED)
        with closed.open("ab") as file:
            file.write(block[: len(block) // 2])
        closed.rename(path)
        self._truth.died[self.run] = True
