"""Matchings side by side: what runs in Spark's Python processes, on sightings sorted by key."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from time import gmtime, strftime
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from stomprelay.pipeline.match import sighting as s
from stomprelay.pipeline.match.conversations import Said
from stomprelay.pipeline.match.matching import Matching
from stomprelay.pipeline.schema import MESSAGES
from stomprelay.pipeline.spark import arrow
from stomprelay.pipeline.terms import SECOND, Terms

_HOUR: Final = 3600 * SECOND
_DELIVERY: Final = (
    ("at", "timestamp"),
    ("client", "string"),
    ("session", "string"),
    ("subscription", "string"),
    ("upstream", "string"),
    ("broker", "string"),
    ("message_id", "string"),
    ("mode", "string"),
    ("settled_at", "timestamp"),
    ("outcome", "string"),
)
_NS: Final = pa.int64()
_US: Final = pa.timestamp("us", "UTC")
_OF_DELIVERY: Final = arrow.schema(_DELIVERY)
_DELIVERIES: Final = pa.list_(pa.struct(list(_OF_DELIVERY)))


class Found(IntEnum):
    """What a row is."""

    FINAL = 0
    OPEN = 1
    KEPT = 2
    """For the next batch: `key`, `text`, and in `number` its place among those of its key."""
    REPEAT = 3
    """A delivery that was repeated: `text` is a JSON list, see `Matching`."""


_FURTHER: Final = (("what", "int"), ("hour", "string"), ("text", "string"))
DDL: Final = ", ".join(
    f"`{name}` {kind}"
    for name, kind in [*((column.name, column.kind) for column in MESSAGES.columns), *_FURTHER]
)
"""The rows: those of `messages`, with `hour`, `what` they are, and `text` where they are something else."""


def _types() -> Iterator[tuple[str, Any]]:
    for column in MESSAGES.columns:
        yield (
            column.name,
            _DELIVERIES if column.name == "deliveries" else arrow.schema([("", column.kind)]).field(0).type,
        )
    for name, kind in _FURTHER:
        yield name, arrow.schema([("", kind)]).field(0).type


_SCHEMA: Final = pa.schema(list(_types()))
_NAMES: Final = _SCHEMA.names
_WIDTH: Final = len(_NAMES)
_DELIVERIES_AT: Final = _NAMES.index("deliveries")
_TIMES: Final = frozenset(at for at, field in enumerate(_SCHEMA) if field.type == _US)
_KEY, _NUMBER = _NAMES.index("key"), _NAMES.index("number")


@dataclass(frozen=True)
class Matchings:
    """Call it with the sightings of some keys, and with what the last batch kept of them. It yields rows of `DDL`; what
    `Said` names is passed on. `until`: up to when all relays have been read.
    """

    terms: Terms
    until: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Arrow in, Arrow out."""
        with arrow.uncollected():
            yield from self._matched(arrow.rows(batches))

    def _matched(self, sightings: Iterator[tuple[Any, ...]]) -> Iterator[pa.RecordBatch]:
        rows: list[list[Any]] = []
        matching: Matching | None = None
        key = None
        for sighting in sightings:
            if sighting[s.KIND] >= Said.STATE:
                rows.append(_other(sighting[s.KIND], sighting[s.TEXT], sighting[s.KEY]))
                continue
            if matching is None or sighting[s.KEY] != key:
                if matching is not None:
                    rows += self._found(key or "", matching)
                    while len(rows) >= arrow.ROWS:
                        yield batch(rows[: arrow.ROWS])
                        del rows[: arrow.ROWS]
                key = sighting[s.KEY]
                matching = Matching(key, self.terms)
            matching.saw([*sighting])
        if matching is not None:
            rows += self._found(key or "", matching)
        for at in range(0, len(rows), arrow.ROWS):
            yield batch(rows[at : at + arrow.ROWS])

    def _found(self, key: str, matching: Matching) -> Iterator[list[Any]]:
        matching.go(self.until)
        for row in matching.finals:
            yield [*row, int(Found.FINAL), _hour(row[0]), None]
        for number, text in enumerate(matching.kept()):
            yield _other(Found.KEPT, text, key, number)
        for repeat in matching.repeats:
            yield _other(Found.REPEAT, json.dumps(repeat))
        for row in matching.open():
            yield [*row, int(Found.OPEN), _hour(row[0]), None]


def _other(what: int, text: str, key: str | None = None, number: int | None = None) -> list[Any]:
    row: list[Any] = [None] * _WIDTH
    row[-3], row[-1], row[_KEY], row[_NUMBER] = int(what), text, key, number
    return row


_hours: dict[int, str] = {}


def _hour(ns: int) -> str:
    number = ns // _HOUR
    found = _hours.get(number)
    if found is None:
        found = _hours[number] = strftime("%Y-%m-%d-%H", gmtime(number * 3600))
    return found


def batch(rows: list[list[Any]]) -> pa.RecordBatch:
    """Rows of `DDL`, with times in ns and deliveries as tuples, as a batch."""
    arrays = []
    for at, values in enumerate(zip(*rows, strict=True)):
        if at == _DELIVERIES_AT:
            arrays.append(_deliveries(values))
        elif at in _TIMES:
            arrays.append(_times(values))
        else:
            arrays.append(pa.array(values, _SCHEMA.field(at).type))
    return pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA)


def _times(values: Any) -> pa.Array:
    return pc.divide(pa.array(values, _NS), pa.scalar(1000, _NS)).cast(_US)


def _deliveries(lists: Any) -> pa.Array:
    ends = [0]
    every: list[tuple[Any, ...]] = []
    for each in lists:
        every += each or ()
        ends.append(len(every))
    columns = zip(*every, strict=True) if every else ((),) * len(_DELIVERY)
    arrays = [
        _times(values) if field.type == _US else pa.array(values, field.type)
        for values, field in zip(columns, _OF_DELIVERY, strict=True)
    ]
    structs = pa.StructArray.from_arrays(arrays, fields=list(_OF_DELIVERY))
    return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), structs, type=_DELIVERIES)
