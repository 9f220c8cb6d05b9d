"""Percentiles over any bins."""

import random
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from stomprelay.pipeline.report.findings import NOTHING, Percentiles, Span
from stomprelay.pipeline.report.queries import Spread, bin_of, bucketed, deliveries, latencies
from stomprelay.pipeline.report.text import MINUTE
from stomprelay.pipeline.schema import MESSAGES
from stomprelay.pipeline.tables.latency import WIDTH, folded
from stomprelay.pipeline.tables.latency import bucketed as by_minute
from tests.pipeline.report.house import later
from tests.pipeline.report.sample import BEGIN
from tests.pipeline.rows import MESSAGE, rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_spread() -> None:
    """A percentile is the largest value of the bucket that its rank falls in."""
    spread = Spread()
    assert spread.percentiles() == NOTHING
    spread.add(5, 49, 110)
    spread.add(5, 1, 111)
    spread.add(9, 45, 200)
    spread.add(12, 5, 300)
    assert spread.percentiles() == Percentiles(100, 111, 200, 300, 300)


@pytest.mark.spark
def test_percentiles_are_those_of_the_table(spark: "SparkSession") -> None:
    """By minute they equal the columns of `latency`; over all they are as near to the exact ones."""
    chance = random.Random(3)
    values = [int(chance.lognormvariate(8, 1.5)) for _ in range(600)] + [0, 1, -7]
    many = [
        {"at": later(chance.randrange(180)), "delivery_us": value, "ack_us": value if value % 2 else None}
        for value in values
    ]
    messages = rows(spark, MESSAGES, MESSAGE, many).persist()
    span = Span(BEGIN, BEGIN + 4 * MINUTE, MINUTE)
    buckets = bucketed(
        messages, bin_of(span, F.unix_micros("at")).alias("bin"), F.lit(0).alias("place")
    ).persist()
    found = latencies(span, buckets)
    for row in folded(by_minute(messages)).withColumn("since", F.unix_micros("minute")).collect():
        bin_ = span.index(row.since)
        for measure in ("delivery", "ack"):
            told = [row[f"{measure}_{what}"] for what in ("count", "p50", "p95", "p99", "max")]
            assert found[measure].bins[bin_] == Percentiles(*told)
    assert found["delivery"].bins[3] == NOTHING
    assert found["receipt"].whole == NOTHING
    whole = found["delivery"].whole
    assert deliveries(buckets) == {0: whole}
    assert whole.count == len(values)
    assert whole.longest == max(values)
    for percent, value in ((50, whole.p50), (95, whole.p95), (99, whole.p99)):
        exact = sorted(values)[-(-percent * len(values) // 100) - 1]
        assert value is not None
        assert exact <= value <= exact * WIDTH
