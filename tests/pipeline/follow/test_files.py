"""The tables' files, as other engines find them."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyarrow import parquet

from bench import journals
from stomprelay.pipeline.follow import stream
from stomprelay.pipeline.schema import TABLES
from stomprelay.pipeline.settings import Settings
from stomprelay.pipeline.spark import launch
from tests.pipeline.follow.test_stream import run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

TIMES = {
    name: [each.name for each in table.columns if each.kind == "timestamp"] for name, table in TABLES.items()
}
SORTED = {"parquet": {"frames": "ns", "messages": "seen_at"}, "delta": {}}


def values(file: Path, column: str) -> list[Any]:
    """Those of a column of numbers or times, in the file's order."""
    whole: list[Any] = parquet.ParquetFile(file).read([column]).column(column).cast("int64").to_pylist()
    return whole


@pytest.mark.parametrize("form", SORTED)
def test_times_are_microseconds_with_statistics_and_files_are_sorted(
    request: pytest.FixtureRequest, tmp_path: Path, form: str
) -> None:
    """In each table, of a batch alone and of several that were compacted: so engines read only what they must. Delta's
    are in its own order.
    """
    spark: SparkSession = request.getfixturevalue("with_delta" if form == "delta" else "spark")
    (tmp_path / "j").mkdir()
    journals.write(tmp_path / "j", journals.Load(2000, segment=60_000, rate=50.0, trace=True))
    settings = Settings(journal=str(tmp_path / "j"), tables=str(tmp_path / "t"), bytes_per_batch=150_000)
    settings = replace(settings, format=form)
    run(spark, settings, stream.STEPS)
    seen = set()
    for name, times in TIMES.items():
        for file in sorted((tmp_path / "t" / name).rglob("[!_.]*.parquet")):
            whole = parquet.read_metadata(file)
            seen.add(name)
            groups = [whole.row_group(number) for number in range(whole.num_row_groups)]
            assert all(group.total_byte_size <= 128 << 20 for group in groups)
            assert all(group.num_rows <= 2 * launch.ROW_GROUP_ROWS for group in groups)
            chunks = [group.column(number) for group in groups for number in range(group.num_columns)]
            of_times = [chunk for chunk in chunks if chunk.path_in_schema in times]
            assert len(of_times) == len(times) * len(groups)
            for chunk in of_times:
                assert chunk.physical_type == "INT64"
                assert chunk.is_stats_set
                assert chunk.statistics.has_min_max or chunk.statistics.null_count == chunk.num_values
            kinds = [whole.schema.column(number) for number in range(whole.num_columns)]
            for kind in kinds:
                if kind.path in times:
                    assert '"timeUnit":"microseconds"' in kind.logical_type.to_json()
            if name in SORTED[form]:
                found = values(file, SORTED[form][name])
                assert found == sorted(found), file
    assert seen >= {"frames", "messages", "traffic", "latency", "flow"}
