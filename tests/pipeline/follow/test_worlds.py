"""A whole world's journal, made up, through `once`: all tables say what is true."""

import io
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet
from pyspark.sql import SparkSession

from bench.journals import Truth, World, make
from stomprelay.journal.folder import Folder
from stomprelay.pipeline.follow import stream
from stomprelay.pipeline.follow.progress import ProgressLine
from stomprelay.pipeline.follow.stream import Stream
from stomprelay.pipeline.schema import TABLES
from stomprelay.pipeline.settings import Settings
from stomprelay.pipeline.spark import launch
from stomprelay.pipeline.store.store import Store

pytestmark = pytest.mark.spark

WORLD = World(2000, relays=2, deaths=1, segment=20_000, nacked=0.02, unanswered=0.02, backlog=100)
TIMES = {
    name: [each.name for each in table.columns if each.kind == "timestamp"] for name, table in TABLES.items()
}
SORTED = {"messages": "seen_at"}


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Truth, Store, int]:
    """Two runs over a world: what is true of it, the tables, and the number of segments."""
    folder = tmp_path_factory.mktemp("world")
    made, journal = folder / "made", folder / "j"
    made.mkdir()
    journal.mkdir()
    truth = make(made, WORLD)
    settings = Settings(journal=str(journal), tables=str(folder / "t"))
    segments = Folder(made).segments()
    for part in (segments[: len(segments) // 2], segments[len(segments) // 2 :]):
        for each in part:
            each.path.rename(journal / each.path.name)
        Stream(spark, settings, ProgressLine(io.StringIO()), stream.STEPS).once()
    return truth, Store(spark, settings.tables), len(segments)


def test_all_tables_say_what_is_true_of_a_world(tables: tuple[Truth, Store, int]) -> None:
    """Relays with clocks of their own, one of them killed, a hot queue, brokers that were lost; two batches."""
    truth, store, segments = tables

    def sums(table: str, by: str, what: str) -> dict[Any, int]:
        """What a table's rows sum up to."""
        keys = by.split()
        rows = store.read(table).selectExpr(*keys, f"{what} AS n").groupBy(*keys).sum("n").collect()
        return {row[0] if len(keys) == 1 else tuple(row[:-1]): row[-1] for row in rows}

    commands = {name: count for name, count in truth.commands.items() if name != "event"}
    assert {name: count for name, count in sums("frames", "command", "1").items() if name} == commands
    assert sums("messages", "destination outcome", "1") == truth.outcomes
    assert +Counter(sums("messages", "destination", "size(deliveries)")) == truth.deliveries
    assert +Counter(sums("messages", "destination", "redelivered")) == truth.redelivered
    sent = sum(truth.destinations.values())
    delivered = sum(truth.deliveries.values())
    assert sums("traffic", "direction", "messages") == {"to_broker": sent, "to_client": delivered}
    assert sum(sums("latency", "destination", "receipt_count").values()) == truth.receipts
    assert sum(sums("flow", "destination", "deliveries").values()) == delivered
    assert sums("failovers", "broker planned sessions recovered resent", "stale_acks") == {
        (each.broker, each.planned, each.sessions, each.sessions, each.resent): each.stale_acks
        for each in truth.outages
    }
    runs = store.read("runs").collect()
    ended = {"stopped": WORLD.relays * WORLD.runs - WORLD.deaths, "killed": WORLD.deaths}
    assert Counter(row.outcome for row in runs) == ended
    assert sum(row.frames for row in runs) == sum(commands.values())
    assert sum(row.segments for row in runs) == segments


def test_engines_read_only_what_they_must(tables: tuple[Truth, Store, int]) -> None:
    """Times are microseconds with statistics, row groups are bounded, and messages are sorted."""
    seen = set()
    for name, times in TIMES.items():
        for file in sorted((Path(tables[1].root) / name).rglob("[!_.]*.parquet")):
            seen.add(name)
            facts = parquet.read_metadata(file)
            groups = [facts.row_group(number) for number in range(facts.num_row_groups)]
            assert all(group.total_byte_size <= 128 << 20 for group in groups)
            assert all(group.num_rows <= 2 * launch.ROW_GROUP_ROWS for group in groups)
            chunks = [group.column(number) for group in groups for number in range(group.num_columns)]
            of_times = [chunk for chunk in chunks if chunk.path_in_schema in times]
            assert len(of_times) == len(times) * len(groups)
            for chunk in of_times:
                assert (chunk.physical_type, chunk.is_stats_set) == ("INT64", True)
                assert chunk.statistics.has_min_max or chunk.statistics.null_count == chunk.num_values
            kinds = [facts.schema.column(number) for number in range(facts.num_columns)]
            told = [kind.logical_type.to_json() for kind in kinds if kind.path in times]
            assert all('"timeUnit":"microseconds"' in each for each in told)
            if name in SORTED:
                column = parquet.ParquetFile(file).read([SORTED[name]]).column(0)
                found = column.cast("int64").to_pylist()
                assert found == sorted(found), file
    assert seen >= {"frames", "messages", "traffic", "latency", "flow"}
