"""Which message each transfer is of, where its key does not say: one key after another, each in the order of time.

What `JournalOrders` yields has keys of single messages, so that a queue that all use is spread over all tasks
afterwards. It runs in Spark's Python processes and takes each row once.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from stomprelay.pipeline.match.order import SendOrder
from stomprelay.pipeline.sessions import transfer as s
from stomprelay.pipeline.sessions.conversation import SessionRow
from stomprelay.pipeline.settings import TimeLimits
from stomprelay.pipeline.spark import arrow

_SCHEMA: Final = arrow.schema(s.FIELDS)
_TIMES: Final = (s.RECEIPT_NS, s.ENDED_NS, s.KNOWN_NS)
_AHEAD: Final = "a"
"""Begins a text that holds a row; any other is the state of the order, with the time up to which it counts before."""


class _Current:
    """The key that is being read. `texts`: its state for the next batch; `out`: changed rows."""

    def __init__(self, key: str, limits: TimeLimits, until: int) -> None:
        self.key = key
        self.out: list[s.Transfer] = []
        self._until = until
        self._limits = limits
        self._text: str | None = None
        self._order: SendOrder | None = None
        self._ahead: list[s.Transfer] = []
        self._waiting: list[s.Transfer] = []

    def restore(self, text: str) -> None:
        """Take one row of the state that the last batch left."""
        if text[0] != _AHEAD:
            self._text = text
            return
        self._waiting.append([self.key, *json.loads(text[1:])])
        self._waiting.sort(key=_phase, reverse=True)

    def _known(self) -> SendOrder:
        order = self._order
        if order is None:
            order = self._order = SendOrder(self._limits, by_id=self.key[0] == s.BY_ID)
            if self._text is not None:
                order.load(self._text.partition(" ")[2])
        return order

    def take(self, row: tuple[Any, ...]) -> str | None:
        """Return the key of a row; None if it must not be passed on, because other rows take its place."""
        while self._waiting and _phase(self._waiting[-1]) <= _phase(row):
            self._again(self._waiting.pop())
        until = self._until
        if row[s.NS] > until or any((row[time] or 0) > until for time in _TIMES):
            self._split([*row])
            return None
        return f"{self.key}#{self._known().take(row)}"

    def _again(self, row: s.Transfer) -> None:
        key = self.take(tuple(row))
        if key is not None:
            self.out.append([key, *row[1:]])

    def _split(self, row: s.Transfer) -> None:
        """Leave rows after `until` to the next batch, and take earlier ones."""
        if row[s.NS] > self._until:
            self._ahead.append(row)
            return
        later: s.Transfer = [None] * len(row)
        later[: s.KIND + 1] = row[: s.KIND + 1]
        later[s.KIND] |= 1
        for time, fields in s.PARTS:
            if (row[time] or 0) > self._until:
                for field in fields:
                    later[field], row[field] = row[field], None
        self._ahead.append(later)
        if row[s.KIND] != later[s.KIND] or any(row[time] is not None for time in _TIMES):
            row[s.KEY] = f"{self.key}#{self._known().take(row)}"
            self.out.append(row)

    def end(self) -> Iterator[s.Transfer]:
        """Yield the rows at the end: provisional ones, and the state."""
        while self._waiting:
            self._again(self._waiting.pop())
        until = self._until
        if self._order is None and self._text is not None and until <= int(self._text.partition(" ")[0]):
            yield s.saying(SessionRow.ORDER, self.key, self._text)
            yield from self._foretaste()
            return
        order = self._known()
        order.advance(until, s.LATER)
        kept = order.dump(until)
        if kept is not None:
            yield s.saying(SessionRow.ORDER, self.key, f"{kept[1]} {kept[0]}")
        yield from self._foretaste()

    def _foretaste(self) -> Iterator[s.Transfer]:
        for row in self._ahead:
            yield s.saying(SessionRow.ORDER, self.key, _AHEAD + arrow.compact(row[1:]))
        yield from self.out
        self._ahead.sort(key=_phase)
        for row in self._ahead:
            yield [f"{self.key}#{self._known().take(row)}", *row[1:]]


def _phase(row: Any) -> tuple[Any, ...]:
    return (row[s.NS], row[s.KIND] >> 1, *row[s.SEGMENT : s.KIND], row[s.KIND])


@dataclass(frozen=True)
class JournalOrders:
    """Call it with rows of `transfer.FIELDS` sorted by `transfer.PHASED`, with those that the last batch kept of
    orders. It yields rows of the same fields: those of an order with the key of their message, and `SessionRow.ORDER`.
    """

    limits: TimeLimits
    until: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Take batches of `transfer.FIELDS` and yield others of them, as `mapInArrow` wants it."""
        with arrow.uncollected():
            current: _Current | None = None
            for batch in batches:
                keys = batch.column(s.KEY).to_pylist()
                kinds = batch.column(s.KIND).to_pylist()
                if not any(
                    key is not None and key[0] != s.BY_TRACE and kind < SessionRow.STATE
                    for key, kind in zip(keys, kinds, strict=True)
                ):
                    yield batch
                    continue
                stay: list[bool] = []
                rows: list[s.Transfer] = []
                for at, row in enumerate(zip(*map(arrow.listed, batch.columns), strict=True)):
                    key = row[s.KEY]
                    if row[s.KIND] >= SessionRow.STATE or key[0] == s.BY_TRACE:
                        stay.append(True)
                        continue
                    if current is None or current.key != key:
                        if current is not None:
                            rows += current.end()
                        current = _Current(key, self.limits, self.until)
                    if row[s.KIND] == s.RowKind.KEPT:
                        current.restore(row[s.TEXT])
                        stay.append(False)
                        continue
                    name = current.take(row)
                    stay.append(name is not None)
                    if name is not None:
                        keys[at] = name
                named = batch.set_column(s.KEY, _SCHEMA.field(s.KEY), pa.array(keys, pa.string()))
                named = named.cast(_SCHEMA)
                yield named if all(stay) else named.filter(pa.array(stay, pa.bool_()))
                yield from _batches(rows)
            if current is not None:
                yield from _batches(list(current.end()))


def _batches(rows: list[s.Transfer]) -> Iterator[pa.RecordBatch]:
    for at in range(0, len(rows), arrow.ROWS):
        yield arrow.batch(rows[at : at + arrow.ROWS], _SCHEMA)
