"""Parquet files without Spark."""

from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from stomprelay.pipeline.match import matching
from stomprelay.pipeline.read import segments, writing
from stomprelay.pipeline.spark import arrow
from stomprelay.pipeline.store import files
from stomprelay.pipeline.store.files import NewFile, columns

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
