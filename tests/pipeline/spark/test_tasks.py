"""How many tasks a batch is cut into, and what a small one does without."""

import pytest
from pyspark.sql import SparkSession

from stomprelay.pipeline.spark.tasks import PARTITIONS, WORTH, few, planned, together

ADAPTIVE = "spark.sql.adaptive.enabled"
BY_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
COMPILED = "spark.sql.codegen.wholeStage"


@pytest.mark.spark
def test_a_small_batch_does_without(spark: SparkSession) -> None:
    """Of one part nothing is compiled, of few bytes nothing adapted; afterwards all is as it was."""
    session = spark.newSession()
    before = {PARTITIONS: "8", ADAPTIVE: "true", COMPILED: "true"}
    for name, value in before.items():
        session.conf.set(name, value)
    limit = session.conf.get(BY_BYTES)
    for octets, wanted in (
        (0, ("1", "false", "false")),
        (WORTH, ("1", "false", "false")),
        (WORTH + 1, ("2", "false", "true")),
        (100 * WORTH, ("8", "true", "true")),
    ):
        with planned(session, octets):
            assert session.conf.get(BY_BYTES) == "2147483647" != limit
            assert tuple(session.conf.get(name) for name in before) == wanted
        assert {name: session.conf.get(name) for name in before} == before
        assert session.conf.get(BY_BYTES) == limit


@pytest.mark.spark
def test_rows_come_together(spark: SparkSession) -> None:
    """By the values that they share; in one partition, and without a shuffle, where that is enough."""
    session = spark.newSession()
    rows = session.range(0, 100, 1, 3).selectExpr("id % 5 AS name")
    session.conf.set(PARTITIONS, "4")
    parts = [{row.name for row in part} for part in together(rows, "name").rdd.glom().collect()]
    assert sum(map(len, parts)) == 5
    assert few(rows).rdd.getNumPartitions() == 3
    session.conf.set(PARTITIONS, "1")
    assert together(rows, "name").rdd.getNumPartitions() == few(rows).rdd.getNumPartitions() == 1
    assert "Exchange" not in together(rows, "name")._jdf.queryExecution().toString()
