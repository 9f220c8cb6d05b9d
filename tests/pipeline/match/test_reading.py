"""Rows of `frames` to records: what of a frame and its headers a session's steps are given."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from stomprelay.pipeline.match import record
from stomprelay.pipeline.match.reading import COLUMNS, Reading, Share, shared
from stomprelay.pipeline.read import segments
from tests.pipeline import journal_files as made

HEADS = [
    b"SEND\ndestination:/queue/a\nrelay-trace:t1\nown:o1\nother:o2\nkind:new\nkind:old\n\n",
    b"SEND\ndestination:/queue/a\nother:o2\nkind:" + b"x" * 2000 + b"\n\n",
    b"ACK\nid:1\nrelay-trace:no\nown:no\n\n",
    b"SEND\ndestination:/queue/a\n\n",
]


def _frames(folder: Path) -> pa.Table:
    path = made.put(
        folder,
        made.name(1),
        made.header(1),
        made.frames(HEADS),
        made.event("lost", facts={"broker": "b:1"}),
        made.event("journal begun", facts={"within": 30}),
    )
    return pa.Table.from_batches(list(segments.rows(str(path))))


def _read(rows: pa.Table, reading: Reading) -> list[dict[str, Any]]:
    found = list(reading(iter(rows.select(list(COLUMNS)).combine_chunks().to_batches())))
    assert all(batch.schema.names == list(record.NAMES) for batch in found)
    return [row for batch in found for row in batch.to_pylist()]


@pytest.mark.parametrize("coded", [False, True])
def test_headers_have_columns(tmp_path: Path, coded: bool) -> None:
    """Of SENDs and MESSAGEs alone: the first of the names that a publisher's id may have, what is kept, cut."""
    rows = _frames(tmp_path)
    name = rows.column("segment")[0].as_py()
    reading = Reading([name], ("own", "other"), ("kind",))
    if coded:
        parquet.write_table(rows, tmp_path / "rows.parquet", store_schema=False)
        (shares,) = shared([tmp_path / "rows.parquet"], 1)
        rows = pa.Table.from_batches([batch for share in shares for batch in share.rows()])
        assert pa.types.is_dictionary(rows.column("session").type)
    one, two, ack, bare, lost = _read(rows, reading)
    assert (one["trace"], one["own"], json.loads(one["kept"])) == ("t1", "o1", {"kind": "new"})
    assert (two["trace"], two["own"], json.loads(two["kept"])) == (None, "o2", {"kind": "x" * 1024})
    assert (ack["trace"], ack["own"], ack["kept"], ack["command"]) == (None, None, None, "ACK")
    assert (bare["own"], bare["kept"], bare["turn"]) == (None, None, 1)
    assert (lost["event"], json.loads(lost["facts"])) == ("lost", {"broker": "b:1"})


def test_other_segments_are_left_out(tmp_path: Path) -> None:
    """They are read when their turn comes."""
    assert _read(_frames(tmp_path), Reading(["another"], (), ())) == []


def test_row_groups_are_shared_among_tasks(tmp_path: Path) -> None:
    """Each is read once, by tasks that have about as many rows."""
    for name in ("a", "b"):
        parquet.write_table(pa.table({"x": [*range(60)]}), tmp_path / name, row_group_size=20)
    files = [tmp_path / "a", tmp_path / "b"]
    found = shared(files, 2)
    assert [len(each) for each in found] == [3, 3]
    assert {share for each in found for share in each} == {
        Share(file, at) for file in files for at in range(3)
    }
    assert shared([], 2) == []
