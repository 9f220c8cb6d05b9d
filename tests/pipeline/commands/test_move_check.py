"""What a move would change, from the tables."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from stomprelay.cli.move.precheck import journal, pair, tables
from stomprelay.cli.move.precheck.report import Report
from stomprelay.config import load, load_upstreams
from stomprelay.journal.records import Record, parse_time, records, segments
from stomprelay.pipeline.commands.query import views
from stomprelay.pipeline.schema import TABLES
from stomprelay.pipeline.store.store import Store
from tests.pipeline.rows import FRAME, write
from tests.precheck.test_check import CONFIG, scene

pytestmark = [pytest.mark.spark, pytest.mark.ci]


def build(spark: SparkSession, root: Path, folder: Path) -> None:
    """The table of the frames of a journal, and a view of each table."""
    found = [each for path in segments([str(folder)]) for each in records(path)]
    rows = [each.columns() for each in found if isinstance(each, Record)]
    names = set(TABLES["frames"].names) - {"seen_at"}
    kept = [{name: row.get(name) for name in names} for row in rows]
    for row in kept:
        row["facts"] = {name: str(value) for name, value in (row["facts"] or {}).items()}
    write(root, TABLES["frames"], {"seen_at": FRAME["seen_at"]}, kept)
    views(spark, Store(spark, str(root)))


def found(report: Report) -> tuple[object, object]:
    """What a report has, whatever its source."""
    uses = {key: (use.counts.total(), {*use.places}, {*use.whys}) for key, use in report.uses.items()}
    return uses, report.extras


@pytest.mark.parametrize(
    ("since", "until"), [(None, None), ("2026-11-21T08:23:06", None), (None, "2026-11-21T08:23:05")]
)
def test_the_tables_say_what_the_journal_says(
    spark: SparkSession, tmp_path: Path, since: str | None, until: str | None
) -> None:
    """Counts, destinations, and what selectors keep away are the same, for the whole or a part of the time."""
    folder, file = tmp_path / "journal", tmp_path / "relay.toml"
    folder.mkdir()
    scene(folder)
    build(spark, tmp_path / "tables", folder)
    file.write_text(CONFIG)
    config, upstreams = load(str(file)), load_upstreams(str(file))
    one, other = (pair.find(config, upstreams, ("old", "new"), (None, None), None) for _ in range(2))
    first, last = (None if each is None else parse_time(each) for each in (since, until))
    journal.read([str(folder)], first, last, journal.Reading(one))
    rows = [each.asDict() for each in spark.sql(tables.sql(other.judge, first, last)).collect()]
    tables.add(rows, other)
    assert found(one.report) == found(other.report)
    assert one.report.uses
