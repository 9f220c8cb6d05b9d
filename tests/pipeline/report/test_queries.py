"""What is asked of Spark."""

import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from stomprelay.pipeline.report.findings import NOTHING, Percentiles, Rest, Span
from stomprelay.pipeline.report.gather import (
    Buckets,
    Range,
    add,
    bin_of,
    coded,
    decoded,
    extent,
    percentiles,
    timings,
    top,
    whole_hours,
)
from stomprelay.pipeline.report.text import HOUR, MINUTE, SECOND
from stomprelay.pipeline.schema import MESSAGES
from stomprelay.pipeline.tables.latency import WIDTH, folded
from stomprelay.pipeline.tables.latency import bucketed as by_minute
from tests.pipeline.report.sample import BEGIN, HOSTILE
from tests.pipeline.report.tables import build, later
from tests.pipeline.rows import MESSAGE, rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


pytestmark = pytest.mark.spark


def test_the_range(spark: "SparkSession", tmp_path: Path) -> None:
    """Its begin belongs to it, its end does not; other hours are not read."""
    minutes = [{"minute": later(seconds), "frames": seconds} for seconds in (-3600, -60, 0, 60, 3600, 7200)]
    traffic = build(spark, tmp_path, traffic=minutes).read("traffic")

    def within(range_: Range) -> list[int]:
        return sorted(row.frames for row in range_.within(traffic, "minute").collect())

    assert within(Range()) == [-3600, -60, 0, 60, 3600, 7200]
    assert within(Range(BEGIN, BEGIN + HOUR)) == [0, 60]
    assert within(Range(since=BEGIN + 1)) == [60, 3600, 7200]
    assert within(Range(until=BEGIN + 1)) == [-3600, -60, 0]


def test_the_extent(spark: "SparkSession", tmp_path: Path) -> None:
    """Goes as far as the options say, else from the first minute to the end of the last."""
    store = build(spark, tmp_path, traffic=[{"minute": later(60)}, {"minute": later(300)}])
    assert extent(store, Range()) == (BEGIN + MINUTE, BEGIN + 6 * MINUTE - 1)
    assert extent(store, Range(BEGIN, BEGIN + HOUR)) == (BEGIN, BEGIN + HOUR - 1)
    assert extent(store, Range(since=BEGIN)) == (BEGIN, BEGIN + 6 * MINUTE - 1)
    assert extent(store, Range(until=BEGIN + 3 * MINUTE)) == (BEGIN + MINUTE, BEGIN + 3 * MINUTE - 1)
    assert extent(store, Range(since=BEGIN + HOUR)) is None
    assert extent(build(spark, tmp_path / "nothing"), Range()) is None


def test_names(spark: "SparkSession") -> None:
    """The top by the first weight, then by the next, then by name; the others and none keep apart from any name."""
    table = spark.createDataFrame(
        [("b", 5, 0), ("a", 2, 0), ("a", 3, 0), (None, 99, 0), ("c", 1, 7), ("d", 1, 8)],
        "who string, messages bigint, octets bigint",
    )
    found = top(table, "who", ["messages", "octets"], 3, F.max("messages").alias("most"))
    assert [row.most for row in found] == [3, 5, 1]
    names = [row.who for row in found]
    assert names == ["a", "b", "d"]
    codes = [row[0] for row in table.select(coded("who", names)).collect()]
    assert [decoded(code, names) for code in codes] == ["b", "a", "a", None, Rest.OTHERS, "d"]


def test_names_that_mean_harm(spark: "SparkSession") -> None:
    """Are values, not code."""
    names = [name for name in HOSTILE if len(name) < 100]
    table = spark.createDataFrame([(name, 1) for name in names], "who string, n bigint")
    found = [row.who for row in top(table, "who", ["n"], 99)]
    assert sorted(found) == sorted(names)
    assert [row[0] for row in table.select(coded("who", names)).collect()] == list(range(len(names)))


def test_bins(spark: "SparkSession") -> None:
    """The same as the span's own."""
    span = Span(BEGIN, BEGIN + MINUTE, 5 * SECOND)
    instants = [BEGIN, BEGIN + 5 * SECOND - 1, BEGIN + 5 * SECOND, BEGIN + MINUTE - 1]
    table = spark.createDataFrame([(at,) for at in instants], "seen_at bigint")
    assert [row[0] for row in table.select(bin_of(span, F.col("seen_at"))).collect()] == [
        span.index(at) for at in instants
    ]


def test_hours() -> None:
    """A table by hour fits a range that begins and ends with one."""
    assert whole_hours(Span(BEGIN, BEGIN + HOUR, MINUTE))
    assert not whole_hours(Span(BEGIN + MINUTE, BEGIN + HOUR, MINUTE))


def test_a_spread() -> None:
    """A percentile is the largest value of the bucket that its rank falls in."""
    buckets: Buckets = {}
    assert percentiles(buckets) == NOTHING
    for each in ((5, 49, 110), (5, 1, 111), (9, 45, 200), (12, 5, 300)):
        add(buckets, *each)
    assert percentiles(buckets) == Percentiles(100, 111, 200, 300, 300)


@pytest.mark.spark
def test_percentiles_are_those_of_the_table(spark: "SparkSession") -> None:
    """By minute they equal the columns of `latency`; over all they are as near to the exact ones."""
    chance = random.Random(3)
    values = [int(chance.lognormvariate(8, 1.5)) for _ in range(600)] + [0, 1, -7]
    many = [
        {
            "seen_at": later(chance.randrange(180)),
            "delivery_us": value,
            "ack_us": value if value % 2 else None,
        }
        for value in values
    ]
    messages = rows(spark, MESSAGES, MESSAGE, many).persist()
    span = Span(BEGIN, BEGIN + 4 * MINUTE, MINUTE)
    found, by_place = timings(messages, span, [MESSAGE["destination"]])
    for row in folded(by_minute(messages)).withColumn("since", F.unix_micros("minute")).collect():
        bin_ = span.index(row.since)
        for measure in ("delivery", "ack"):
            told = [row[f"{measure}_{what}"] for what in ("count", "p50", "p95", "p99", "max")]
            assert found[measure].bins[bin_] == Percentiles(*told)
    assert found["delivery"].bins[3] == NOTHING
    assert found["receipt"].whole == NOTHING
    whole = found["delivery"].whole
    assert by_place == {0: whole}
    assert whole.count == len(values)
    assert whole.longest == max(values)
    for percent, value in ((50, whole.p50), (95, whole.p95), (99, whole.p99)):
        exact = sorted(values)[-(-percent * len(values) // 100) - 1]
        assert value is not None
        assert exact <= value <= exact * WIDTH
