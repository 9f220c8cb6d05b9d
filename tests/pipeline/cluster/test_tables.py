"""Tables that a cluster makes: row for row those that one machine makes of the same journal."""

import io
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from chaos import tables
from stomprelay.pipeline.follow.progress import ProgressLine
from stomprelay.pipeline.follow.stream import Stream
from stomprelay.pipeline.schema import TABLES
from stomprelay.pipeline.settings import Settings
from tests.e2e.child import Child
from tests.pipeline.cluster.standalone import Standalone, once, standalone
from tests.pipeline.recorded_world import RecordedWorld

pytestmark = pytest.mark.spark

PATIENCE = 900.0
"""Seconds that a run on a cluster may take, on a busy machine."""

BRIEF = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""Compiling a plan takes longer than running it over a few rows."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    """Two workers of one core each."""
    with standalone(tmp_path_factory.mktemp("cluster")) as made:
        yield made


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A journal of some hundred records: brokers that die, in three segments."""
    world = RecordedWorld(4)
    (tmp_path / "journal").mkdir()
    count = len(world.run.blocks)
    world.run.write(tmp_path / "journal", [count // 3, 2 * count // 3])
    return tmp_path / "journal"


def through(child: Child) -> str:
    """Wait for the end of a run that must succeed. Return what it said."""
    assert child.exited(PATIENCE), f"it does not end:\n{child.last_words}"
    assert child.stop() == 0, child.output
    return child.output


def here(spark: SparkSession, journal: Path, into: Path) -> Path:
    """The same on this machine alone."""
    settings = Settings(journal=str(journal), tables=str(into))
    Stream(spark, settings, ProgressLine(io.StringIO())).once()
    return into


def files(root: Path, table: str) -> int:
    """How many a table has in its fullest folder."""
    return max(Counter(Path(each).parent for each in tables.files(root, table)).values())


@pytest.mark.deep
def test_a_cluster_makes_the_same_tables(
    spark: SparkSession, cluster: Standalone, small: Path, tmp_path: Path
) -> None:
    """Whose executors have nothing of ours installed; and few files, where there are few rows."""
    child = once(cluster.url, small, tmp_path / "far", **BRIEF)
    near = here(spark, small, tmp_path / "near")
    said = through(child)
    assert "3 segments" in said
    assert tables.rows(near, "messages") > 30
    assert tables.compared(near, tmp_path / "far", list(TABLES)) == []
    assert [files(tmp_path / "far", table) for table in ("frames", "messages", "traffic")] == [1, 1, 1]
