"""Rows of `frames` to records: what of a frame and its headers a session's steps are given."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from stomprelay.pipeline.read import segments
from stomprelay.pipeline.read.runs import Segment
from stomprelay.pipeline.sessions import record
from stomprelay.pipeline.sessions.reading import COLUMNS, Reading, shared
from tests.pipeline import journal_files as made

OTHER = pa.array(["other"] * 6)
HEADS = [
    b"SEND\ndestination:/queue/a\nrelay-trace:t1\nown:o1\nother:o2\nkind:new\nkind:old\n\n",
    b"SEND\ndestination:/queue/a\nother:o2\nkind:" + b"x" * 2000 + b"\n\n",
    b"ACK\nid:1\nrelay-trace:no\nown:no\n\n",
    b"SEND\ndestination:/queue/a\n\n",
]


def _segment(name: str) -> Segment:
    return Segment(name, 0, 0, 0, ended=False)


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
    reading = Reading([_segment(name)], ("own", "other"), ("kind",))
    if coded:
        parquet.write_table(rows, tmp_path / "rows.parquet", store_schema=False)
        (shares,) = shared([tmp_path / "rows.parquet"], 1, reading.segments)
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
    assert _read(_frames(tmp_path), Reading([_segment("another")], (), ())) == []


def test_a_part_of_a_segment_is_read(tmp_path: Path) -> None:
    """By the offsets of its blocks; of another segment in the same rows, all."""
    one = _frames(tmp_path)
    rows = pa.concat_tables([one, one.set_column(one.schema.get_field_index("segment"), "segment", OTHER)])
    name, offsets = one.column("segment")[0].as_py(), one.column("position").unique().to_pylist()
    for begin, end, kinds in (
        (0, offsets[1], [4, 0]),
        (offsets[1], offsets[2], [0, 1]),
        (offsets[2], 0, [0, 0]),
    ):
        part = _segment(name)._replace(begin=begin, end=end)
        found = _read(rows, Reading([part, _segment("other")], (), ()))
        of_part = [row for row in found if row["segment"] == name]
        assert [sum(row[kind] is not None for row in of_part) for kind in ("command", "event")] == kinds
        assert len(found) - len(of_part) == len(HEADS) + 1


def test_row_groups_without_what_is_wanted_are_not_read(tmp_path: Path) -> None:
    """As far as their statistics tell which segment they have, and where of it."""
    file = tmp_path / "a"
    rows = {"segment": ["a"] * 40 + ["a"] * 10 + ["c"] * 10, "position": [*range(50), *range(10)]}
    for wanted, groups in (
        (_segment("a"), [0, 1, 2]),
        (_segment("a")._replace(begin=20), [1, 2]),
        (_segment("a")._replace(end=20), [0, 2]),
        (_segment("a")._replace(begin=19, end=21), [0, 1, 2]),
        (_segment("b"), [2]),
        (_segment("d"), []),
    ):
        parquet.write_table(pa.table(rows), file, row_group_size=20)
        assert [share.group for task in shared([file], 1, [wanted]) for share in task] == groups
    parquet.write_table(pa.table(rows), file, row_group_size=20, write_statistics=False)
    assert len(shared([file], 1, [_segment("d")])[0]) == 3
