"""Parquet files without Spark."""

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from stomprelay.pipeline.match import matching
from stomprelay.pipeline.read import segments, writing
from stomprelay.pipeline.spark import arrow
from stomprelay.pipeline.spark.arrow import MICROSECONDS
from stomprelay.pipeline.store import files
from stomprelay.pipeline.store.files import NewFile, columns, merge

KINDS = pa.schema(
    [("at", pa.int64()), ("who", pa.string()), ("headers", arrow.MAP), ("deliveries", matching.DELIVERIES)]
)


def _rows(*times: int) -> pa.RecordBatch:
    told = [{"at": at, "who": "a", "headers": [("k", "v")], "deliveries": [{"mode": "auto"}]} for at in times]
    return pa.RecordBatch.from_pylist(told, KINDS)


def _chunks(path: str) -> list[dict[str, bool]]:
    """Of each row group its columns, and whether they have dictionaries."""
    facts = parquet.read_metadata(path)
    groups = [facts.row_group(number) for number in range(facts.num_row_groups)]
    chunks = [[group.column(number) for number in range(group.num_columns)] for group in groups]
    return [{each.path_in_schema: each.has_dictionary_page for each in group} for group in chunks]


def test_columns_go_by_the_names_that_files_have(tmp_path: Path) -> None:
    """Those within others, too; all have dictionaries but those that are said to be unlike."""
    unlike = {"at", "headers.key_value.value", "deliveries.list.element.seen_at"}
    file = NewFile(tmp_path / "new", KINDS, unlike)
    file.add(_rows(1, 2))
    (group,) = _chunks(file.close())
    assert list(group) == columns(KINDS)
    assert {name for name, has in group.items() if not has} == unlike


@pytest.mark.parametrize(
    ("schema", "unlike"), [(matching.SCHEMA, matching.UNLIKE), (segments.SCHEMA, writing.UNLIKE)]
)
def test_what_is_unlike_is_a_column(schema: pa.Schema, unlike: frozenset[str]) -> None:
    """A name that is no column's would be left out without a word."""
    assert unlike <= set(columns(schema))


def test_rows_are_sorted_group_by_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as are held at a time, whatever they come in; no group is much larger than it should be."""
    monkeypatch.setattr(files, "ROW_GROUP_ROWS", 2)
    file = NewFile(tmp_path, KINDS, (), by="at", groups=2)
    for rows in (_rows(9, 7), _rows(8), pa.Table.from_batches([_rows(6), _rows(5)]), _rows(1), _rows(0)):
        file.add(rows)
    path = file.close()
    assert parquet.read_table(path)["at"].to_pylist() == [5, 6, 7, 8, 9, 0, 1]
    facts = parquet.read_metadata(path)
    assert [facts.row_group(number).num_rows for number in range(facts.num_row_groups)] == [3, 2, 2]


HUGE = 1 << 40


def put(folder: Path, *files: Sequence[int | None], **further: Any) -> list[Path]:
    """Files of rows with these times, and with a number that tells where each came from."""
    paths = []
    for number, times in enumerate(files):
        rows = {"ns": pa.array(times, pa.int64()), "from": [f"{number}/{row}" for row in range(len(times))]}
        paths.append(folder / f"{number}.parquet")
        parquet.write_table(pa.table(rows), paths[-1], **further)
    return paths


def rows(folder: Path) -> list[tuple[Any, ...]]:
    """All of them, in the order of the files and in theirs."""
    tables = [parquet.ParquetFile(path).read() for path in sorted(folder.iterdir())]
    return [tuple(row.values()) for table in tables for row in table.to_pylist()]


@settings(deadline=None)
@given(st.lists(st.lists(st.one_of(st.none(), st.integers(-9, 99)), max_size=9), min_size=1, max_size=6))
def test_no_row_is_lost(tmp_path_factory: pytest.TempPathFactory, many: list[list[int | None]]) -> None:
    """Of whatever files, in whatever order their rows are."""
    place = tmp_path_factory.mktemp("files")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "ROW_GROUP_ROWS", 3)
        merge(put(place, *many), place / "new", HUGE)
    wanted = {(time, f"{n}/{row}") for n, times in enumerate(many) for row, time in enumerate(times)}
    found = rows(place / "new")
    assert set(found) == wanted
    assert len(found) == len(wanted)


def test_rows_are_sorted_by_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However the files overlap; row groups have what their bounds allow."""
    random = Random(1)
    begins = enumerate((500, 0, 100, 150, 900))
    many = [[5 * time + at for time in random.sample(range(first, first + 300), 100)] for at, first in begins]
    monkeypatch.setattr(files, "ROW_GROUP_ROWS", 120)
    assert merge(put(tmp_path, *many), tmp_path / "new", HUGE) == 1
    assert [row[0] for row in rows(tmp_path / "new")] == sorted(time for times in many for time in times)
    (made,) = (tmp_path / "new").iterdir()
    facts = parquet.read_metadata(made)
    assert [facts.row_group(number).num_rows for number in range(facts.num_row_groups)] == [120] * 4 + [20]


def test_row_groups_and_files_are_bounded_in_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By what rows weigh."""
    monkeypatch.setattr(files, "ROW_GROUP", 2000)
    assert merge(put(tmp_path, range(1000), use_dictionary=False), tmp_path / "new", 1500) > 2
    for path in (tmp_path / "new").iterdir():
        facts = parquet.read_metadata(path)
        assert all(facts.row_group(number).total_byte_size < 4000 for number in range(facts.num_row_groups))
    assert [row[0] for row in rows(tmp_path / "new")] == list(range(1000))


def test_files_of_older_releases_are_brought_up_to_date(tmp_path: Path) -> None:
    """Times without a zone become such as new files have, in structures too; columns that came later are null."""
    inner = pa.list_(pa.struct([("seen_at", pa.timestamp("us"))]))
    times, many = pa.array([2, 1], pa.timestamp("us")), pa.array([[{"seen_at": 1}], []], inner)
    old = pa.table({"seen_at": times, "many": many})
    inner = pa.list_(pa.struct([("seen_at", MICROSECONDS), ("name", pa.string())]))
    times, many = pa.array([3, 0], MICROSECONDS), pa.array([[{"seen_at": 4, "name": "x"}], None], inner)
    new = pa.table({"seen_at": times, "many": many, "key": ["k", None]})
    parquet.write_table(old, tmp_path / "old.parquet", use_deprecated_int96_timestamps=True)
    parquet.write_table(new, tmp_path / "new.parquet")
    merge([tmp_path / "old.parquet", tmp_path / "new.parquet"], tmp_path / "made", HUGE)
    (made,) = (tmp_path / "made").iterdir()
    table = parquet.ParquetFile(made).read()
    assert table.schema.field("seen_at").type == MICROSECONDS
    assert table.column("seen_at").cast(pa.int64()).to_pylist() == [0, 1, 2, 3]
    assert table.column("key").to_pylist() == [None, None, None, "k"]
    names = [many and [each["name"] for each in many] for many in table.column("many").to_pylist()]
    assert names == [None, [], [None], ["x"]]


def test_what_does_not_go_together_is_told(tmp_path: Path) -> None:
    """A column of numbers is none of texts."""
    parquet.write_table(pa.table({"ns": [1]}), tmp_path / "a.parquet")
    parquet.write_table(pa.table({"ns": [{"x": 1}]}), tmp_path / "b.parquet")
    with pytest.raises(pa.ArrowException):
        merge([tmp_path / "a.parquet", tmp_path / "b.parquet"], tmp_path / "made", HUGE)
