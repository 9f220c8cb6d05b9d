"""Plain messages, column by column: what `Matching` says of the same rows, one by one."""

from collections.abc import Iterator
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from stomprelay.pipeline.match.matching import Matchings, MatchRow
from stomprelay.pipeline.match.plain import plain
from stomprelay.pipeline.schema import ACKED, NACKED, RETURNED
from stomprelay.pipeline.sessions import transfer as s
from stomprelay.pipeline.settings import SECOND, TimeLimits
from stomprelay.pipeline.spark import arrow

LIMITS = TimeLimits()
BEGUN = 1_000_000 * SECOND


def _row(key: str, ns: int, number: int, **values: Any) -> s.Transfer:
    row: s.Transfer = [None] * len(s.FIELDS)
    row[s.KEY], row[s.NS], row[s.SEGMENT], row[s.POSITION], row[s.NUMBER] = key, ns, "seg", 40, number
    row[s.RELAY], row[s.DESTINATION], row[s.SIZE] = "r", "/queue/a", 7
    names = [name for name, _ in s.FIELDS]
    for name, value in values.items():
        row[names.index(name)] = value
    return row


def _world(random: Random) -> list[s.Transfer]:
    """Keys with whatever can come of them; most as usual, and some late or early."""
    rows: list[s.Transfer] = []

    def later(ns: int) -> int:
        return ns + random.choice((0, 1, 1500, SECOND, 9 * SECOND, 11 * SECOND, 4000 * SECOND))

    for at in range(random.randrange(40)):
        key = random.choice(("t", "t", "o")) + f"{at}"
        sent = BEGUN + random.randrange(40) * SECOND
        got = later(sent) if random.random() < 0.7 else sent - random.choice((1, SECOND, 12 * SECOND))
        values: dict[str, Any] = {
            "kind": int(s.Kind.SENT),
            "session": "p",
            "client": random.choice(("c", None)),
        }
        if random.random() < 0.6:
            values |= {"receipt": "r", "receipt_ns": random.choice((later(sent), later(sent), None))}
        if random.random() < 0.2:
            values |= {"transaction": "t", "ended_ns": random.choice((later(sent), None))}
            values |= {"aborted": random.choice((None, None, True)) if values["ended_ns"] else None}
        if random.random() < 0.2:
            values |= {"headers": '{"kind":"new"}'}
        if random.random() < 0.95:
            rows.append(_row(key, sent, 2 * at, **values))
        for more in range(random.choice((0, 1, 1, 1, 1, 1, 1, 2))):
            values = {"kind": int(s.Kind.DELIVERED), "session": "c", "client": random.choice(("d", None))}
            values |= {"subscription": "1", "broker": "b", "message_id": f"m{at}", "again": False}
            values |= {"mode": random.choice(("auto", "client", "client", None))}
            known = got if values["mode"] == "auto" else later(got)
            outcome = random.choice((ACKED, ACKED, ACKED, NACKED, RETURNED, None))
            if outcome is not None:
                values |= {"known_ns": known, "settled_ns": random.choice((known, got)), "outcome": outcome}
            rows.append(_row(key, got, 2 * at + 1 + 100 * more, **values))
    return sorted(rows, key=lambda row: (row[s.KEY], row[s.NS], row[s.NUMBER]))


def _batches(rows: list[s.Transfer], most: int, *, coded: bool) -> Iterator[pa.RecordBatch]:
    for at in range(0, len(rows), most):
        batch = arrow.batch(rows[at : at + most], arrow.schema(s.FIELDS))
        if coded:
            columns = [
                column.dictionary_encode() if name in s.REPEATING else column
                for name, column in zip(batch.schema.names, batch.columns, strict=True)
            ]
            batch = pa.RecordBatch.from_arrays(columns, batch.schema.names)
        yield batch


def _told(what: Matchings, batches: Iterator[pa.RecordBatch]) -> list[str]:
    return sorted(repr(row) for batch in what(batches) for row in batch.to_pylist())


@pytest.mark.parametrize("seed", range(60))
def test_both_say_the_same(seed: int) -> None:
    """In whatever batches the rows come, and however far the journal was read."""
    random = Random(seed)
    rows = _world(random)
    until = BEGUN + random.choice((0, 20, 60, 5000, 20_000)) * SECOND
    wanted = _told(Matchings(LIMITS, until), _batches(rows, 1000, coded=False))
    for most in (3, 1000):
        found = _told(Matchings(LIMITS, until, plain), _batches(rows, most, coded=most > 3))
        assert found == wanted


def test_most_messages_are_plain() -> None:
    """A SEND with its RECEIPT, and its MESSAGE with an ACK, whichever of the relays' clocks is ahead."""
    rows = []
    for at in range(10):
        sent, got = BEGUN + at, BEGUN + at + (at % 2) * 10 - 5
        rows.append(_row(f"t{at}", sent, 0, kind=int(s.Kind.SENT), receipt="r", receipt_ns=sent + 100))
        outcome = {"known_ns": got + 50, "settled_ns": got + 50, "outcome": ACKED, "mode": "client"}
        rows.append(_row(f"t{at}", got, 1, kind=int(s.Kind.DELIVERED), **outcome))
    rows.sort(key=lambda row: (row[s.KEY], row[s.NS]))
    found, others = plain(next(_batches(rows, 100, coded=True)), LIMITS, BEGUN + 3600 * SECOND)
    assert found is not None
    assert (len(found), len(others)) == (8, 4)
    assert found.column("what").unique().to_pylist() == [int(MatchRow.FINAL)]
