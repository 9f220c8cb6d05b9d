"""One Spark session for all tests that need one; `tests/workers.py` gives them to one process."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import copytree

import pytest
from pyspark.sql import SparkSession

from stomprelay.pipeline.schema import TABLES
from stomprelay.pipeline.spark import delta as jars
from stomprelay.pipeline.spark import java, launch
from stomprelay.pipeline.spark.errors import MissingSpark
from stomprelay.pipeline.store.delta import DeltaStore


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A small session, the only one of the run; nothing of it is left afterwards."""
    try:
        conf = {
            "spark.sql.shuffle.partitions": "1",
            "spark.sql.leafNodeDefaultParallelism": "1",
            "spark.default.parallelism": "1",
            "spark.sql.streaming.minBatchesToRetain": "3",
            # Compiling a plan takes longer than running it over a few rows.
            "spark.sql.codegen.wholeStage": "false",
            "spark.sql.codegen.factoryMode": "NO_CODEGEN",
            "spark.sql.adaptive.enabled": "false",
        }
        if jars.found() is not None:
            conf = jars.settings({**conf, "spark.databricks.delta.snapshotPartitions": "1"})
        session = launch.session("tests", master="local[2]", conf=conf, brief=True)
    except (java.MissingJava, MissingSpark) as error:
        pytest.skip(str(error))
    yield session
    launch.stop(session)


@pytest.fixture
def with_delta(spark: SparkSession) -> SparkSession:
    """The same session, where it has Delta Lake; no test fetches the jars."""
    if jars.found() is None:
        pytest.skip(f"the jars of Delta Lake are not here: make delta-jars, or {jars.MAVEN}")
    return spark


@contextmanager
def _three() -> Iterator[None]:
    """Know three tables alone, as Delta Lake takes a second to make one; then all in their order."""
    whole = dict(TABLES)
    for name in whole.keys() - {"messages", "traffic", "quarantine"}:
        del TABLES[name]
    try:
        yield
    finally:
        TABLES.clear()
        TABLES.update(whole)


@pytest.fixture
def few() -> Iterator[None]:
    """The same, for a test."""
    with _three():
        yield


@pytest.fixture(scope="session")
def _empty_delta(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("delta") / "tables"
    with _three():
        DeltaStore(spark, str(folder)).prepare(-1)
    return folder


@pytest.fixture
def delta(
    with_delta: SparkSession,
    few: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> DeltaStore:
    """Three empty tables in Delta Lake, in a folder with letters that mean something to Hadoop and SQL."""
    folder = copytree(request.getfixturevalue("_empty_delta"), tmp_path / "it's a `folder` [1]")
    monkeypatch.setattr(DeltaStore, "newest", lambda self: self._noted("messages"))
    return DeltaStore(with_delta, str(folder))
