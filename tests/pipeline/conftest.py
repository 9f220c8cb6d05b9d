"""One Spark session for all tests that need one; `tests/workers.py` gives them to one process."""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from stomprelay.pipeline.schema import TABLES
from stomprelay.pipeline.spark import class_archive, delta, java, launch
from stomprelay.pipeline.spark.errors import MissingSpark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator["SparkSession"]:
    """A small session, the only one of the run; nothing of it is left afterwards."""
    try:
        found, folder = java.find(), java.folder()
        if folder is None or not class_archive.path(found, folder).exists():
            # To make the archive takes longer than a single session gains by it.
            os.environ.setdefault(class_archive.SWITCH, "0")
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
        if delta.found() is not None:
            conf = delta.settings({**conf, "spark.databricks.delta.snapshotPartitions": "1"})
        session = launch.session("tests", master="local[2]", conf=conf, brief=True)
    except (java.MissingJava, MissingSpark) as error:
        pytest.skip(str(error))
    yield session
    launch.stop(session)


@pytest.fixture
def with_delta(spark: "SparkSession") -> "SparkSession":
    """The same session, where it has Delta Lake; no test fetches the jars."""
    if delta.found() is None:
        pytest.skip(f"the jars of Delta Lake are not here: make delta-jars, or {delta.MAVEN}")
    return spark


@pytest.fixture
def few() -> Iterator[None]:
    """Three tables, as to make one takes a second. What is taken out comes back in its order, which the
    documentation has, too.
    """
    whole = dict(TABLES)
    for name in whole.keys() - {"messages", "traffic", "quarantine"}:
        del TABLES[name]
    yield
    TABLES.clear()
    TABLES.update(whole)
