"""Matchings side by side, over the borders of Arrow batches."""

from collections.abc import Iterator
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from stomprelay.pipeline.match.matching import Matchings, MatchRow
from stomprelay.pipeline.sessions import transfer as s
from stomprelay.pipeline.settings import SECOND, TimeLimits
from stomprelay.pipeline.spark import arrow
from tests.pipeline.script import Script


def _batches(rows: list[s.Transfer], most: int) -> Iterator[pa.RecordBatch]:
    for at in range(0, len(rows), most):
        yield arrow.batch(rows[at : at + most], arrow.schema(s.FIELDS))


def _script() -> Script:
    script = Script()
    script.subscribes()
    for name in ("t1", "t2", "t3"):
        script.sends(name)
    script.gets("t2")
    script.gets("t3")
    script.gets("t3")
    script.says("ACK", ack="t2")
    return script


@pytest.mark.parametrize("most", [1, 2, 100])
def test_keys_one_behind_the_other(most: int) -> None:
    """Some are final, the others are open and kept."""
    script = _script()
    rows = sorted(script.transfers, key=lambda row: (row[s.KEY], row[s.NS]))
    found = [
        row
        for batch in Matchings(TimeLimits(), script.ns + 11 * SECOND)(_batches(rows, most))
        for row in batch.to_pylist()
    ]
    final = [row for row in found if row["what"] == MatchRow.FINAL]
    assert [(row["key"], row["outcome"], row["final"]) for row in final] == [("t2", "acked", True)]
    assert final[0]["hour"] == "2026-11-18-11"
    assert final[0]["seen_at"] == datetime(2026, 11, 18, 11, 6, 40, 5000, UTC)
    assert final[0]["deliveries"][0]["settled_at"] == datetime(2026, 11, 18, 11, 6, 40, 10000, UTC)
    assert [(row["key"], row["outcome"]) for row in found if row["what"] == MatchRow.OPEN] == [
        ("t1", "undelivered"),
        ("t3", "delivered"),
    ]
    kept = [row for row in found if row["what"] == MatchRow.OPEN]
    assert [(row["match"], row["turn"]) for row in kept] == [("tt1", 0), ("tt3", 0)]
    assert [row["due"] - script.ns > 3500 * SECOND for row in kept] == [True, True]
    assert len([row for row in found if row["what"] == MatchRow.REPEAT]) == 1
    again = []
    for row in kept:
        state: s.Transfer = [None] * len(s.FIELDS)
        state[s.KEY], state[s.NS], state[s.TEXT] = row["match"], row["turn"], row["text"]
        state[s.KIND] = int(s.Kind.KEPT)
        again.append(state)
    later = Matchings(TimeLimits(), script.ns + 3601 * SECOND)(_batches(again, most))
    rest = [row for batch in later for row in batch.to_pylist()]
    assert [(row["what"], row["key"]) for row in rest] == [(MatchRow.FINAL, "t1"), (MatchRow.FINAL, "t3")]
