"""Final rows, written by the task that found them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from stomprelay.pipeline.match.matching import Matchings, MatchRow
from stomprelay.pipeline.match.passes import Finals
from stomprelay.pipeline.schema import MESSAGES
from stomprelay.pipeline.sessions import transfer as s
from stomprelay.pipeline.settings import SECOND, TimeLimits
from stomprelay.pipeline.spark import arrow
from stomprelay.pipeline.spark.launch import ROW_GROUP_ROWS
from stomprelay.pipeline.store import files
from tests.pipeline.script import Script


def _found(count: int) -> list[pa.RecordBatch]:
    """So many messages, half of them an hour later, and the last one open."""
    script = Script()
    script.subscribes()
    for at in range(count):
        script.sends(f"t{at:03d}")
        script.gets(f"t{at:03d}")
        if at < count - 1:
            script.says("ACK", ack=f"t{at:03d}")
        if count > 1 and at == count // 2:
            script.passes(3600)
    rows = sorted(script.transfers, key=lambda row: (row[s.KEY], row[s.NS]))
    batches = iter([arrow.batch(rows, arrow.schema(s.FIELDS))])
    return list(Matchings(TimeLimits(), script.ns + 11 * SECOND)(batches))


def _rows(batches: Iterator[pa.RecordBatch]) -> list[dict[str, Any]]:
    return [row for batch in batches for row in batch.to_pylist()]


@pytest.mark.parametrize("most", [1, ROW_GROUP_ROWS])
def test_files_have_the_final_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """Sorted by time, in the folder of their hour; the others go on, with a row for each file."""
    monkeypatch.setattr(files, "ROW_GROUP_ROWS", most)
    whole = _found(10)
    wanted = [row for row in _rows(iter(whole)) if row["what"] == MatchRow.FINAL]
    left = _rows(
        Finals(tmp_path)(each.slice(at, 4) for each in reversed(whole) for at in range(0, len(each), 4))
    )
    told_files = [row for row in left if row["what"] == MatchRow.FILE]
    assert [row["what"] for row in left if row["what"] != MatchRow.FILE] == [int(MatchRow.OPEN)]
    assert sorted(row["hour"] for row in told_files) == ["2026-11-18-11", "2026-11-18-12"]
    written = []
    for row in told_files:
        assert Path(row["text"]).parent.name == f"hour={int(row['hour'][-2:])}"
        table = parquet.read_table(row["text"], partitioning=None)
        assert table.column_names == MESSAGES.names
        told = table.to_pylist()
        if most > len(told):
            assert told == sorted(told, key=lambda each: each["seen_at"])
        written += told
    names = {row["key"]: row for row in written}
    assert len(names) == len(written)
    assert names == {row["key"]: {name: row[name] for name in MESSAGES.names} for row in wanted}


def test_nothing_final_makes_no_file(tmp_path: Path) -> None:
    """Nor a row for one."""
    (batch,) = _found(1)
    assert [len(each) for each in Finals(tmp_path)(iter([batch]))] == [1]
    assert list(tmp_path.iterdir()) == []
