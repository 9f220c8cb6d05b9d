"""Percentiles from buckets, beside exact ones."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import timedelta
from math import ceil
from random import Random
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from stomprelay.pipeline.schema import LATENCY, MESSAGES
from stomprelay.pipeline.tables.rollup import LATENCY_SUMS, MEASURES, PERCENTILES, WIDTH
from tests.pipeline.rows import MESSAGE, START, rows, told

pytestmark = pytest.mark.spark

Measured = tuple[int, str, int | None, int | None, int | None]
"""Minute, destination, and the three durations."""

CASES: dict[str, list[Measured]] = {
    "small": [(0, "small", us, None, 45 - us) for us in range(1, 21)],
    "back": [(0, "back", us, None, None) for us in (-1000, -1000, -7, 0, 0, 9)],
    "none": [(0, "none", None, None, None)],
}
"""By destination, so that all can be looked at side by side."""


def messages(spark: SparkSession, many: Sequence[Measured]) -> DataFrame:
    """Rows of `messages`."""
    names = [f"{name}_us" for name in MEASURES]
    told = [
        {
            "seen_at": START + timedelta(minutes=minute, seconds=30),
            "destination": destination,
            **dict(zip(names, took, strict=True)),
        }
        for minute, destination, *took in many
    ]
    return rows(spark, MESSAGES, MESSAGE, told)


def cells(table: DataFrame) -> dict[tuple[str, str], dict[str, Any]]:
    """By minute and destination."""
    names = ["hour", *LATENCY.names]
    named = [dict(zip(names, row, strict=True)) for row in told(table, names)]
    found = {(row["minute"], row["destination"]): row for row in named}
    assert len(found) == len(named)
    return found


@pytest.fixture(scope="module")
def found(spark: SparkSession) -> dict[tuple[str, str], dict[str, Any]]:
    """The cells of all cases."""
    many = [one for case in CASES.values() for one in case]
    return cells(LATENCY_SUMS.rows(LATENCY_SUMS.summed(messages(spark, many))))


FIGURES = ("count", "p50", "p95", "p99", "max")


def test_small_figures_are_exact(found: dict[tuple[str, str], dict[str, Any]]) -> None:
    """Below 46 µs each value has its own bucket; times of a clock that was set back sort below 0; no figure, no row."""
    small = found["2026-11-21 08:00:00", "small"]
    assert {name: [small[f"{name}_{each}"] for each in FIGURES] for name in MEASURES} == {
        "receipt": [20, 10, 19, 20, 20],
        "delivery": [0, None, None, None, None],
        "ack": [20, 34, 43, 44, 44],
    }
    assert (small["hour"], len(small)) == ("2026-11-21-08", 3 + 3 * len(FIGURES))
    back = found["2026-11-21 08:00:00", "back"]
    assert [back[f"receipt_{each}"] for each in FIGURES] == [6, -7, 9, 9, 9]
    assert {destination for _, destination in found} == {"small", "back"}


def test_the_columns_are_the_tables(spark: SparkSession) -> None:
    """By name and type, whatever there is."""
    table = LATENCY_SUMS.rows(LATENCY_SUMS.summed(messages(spark, [])))
    assert table.columns == ["hour", *LATENCY.names]
    wanted = spark.createDataFrame([], LATENCY.ddl).schema
    assert [field.dataType for field in table.schema.fields[1:]] == [field.dataType for field in wanted]


def test_percentiles_of_many(spark: SparkSession) -> None:
    """Each cell beside the exact one, of durations of all sizes alike; see `_check`."""
    random = Random(7)

    def took() -> int | None:
        return random.choice((None, random.randrange(-60, 61), _any(random)))

    many = [(random.randrange(58, 62), random.choice("abc"), took(), took(), took()) for _ in range(1500)]
    _check(spark, many, 300, 301)


def _any(random: Random) -> int:
    size = 1 << random.randrange(51)
    return random.choice((random.randrange(-size, size + 1), round(WIDTH ** random.randrange(1600))))


def _check(spark: SparkSession, many: Sequence[Measured], low: int, high: int) -> None:
    """Count and maximum are exact, a percentile is at most 2.2 % above, however the rows were cut into batches."""
    parts = [LATENCY_SUMS.summed(messages(spark, part)) for part in (many[:low], many[low:high], many[high:])]
    found = cells(LATENCY_SUMS.rows(parts[0].unionByName(parts[1]).unionByName(parts[2])))
    exact: defaultdict[tuple[str, str], dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for minute, destination, *all_took in many:
        for name, took in zip(MEASURES, all_took, strict=True):
            if took is not None:
                at = f"2026-11-21 {8 + minute // 60:02}:{minute % 60:02}:00"
                exact[at, destination][name].append(took)
    assert found.keys() == exact.keys()
    for cell, row in found.items():
        assert row["hour"] == cell[0][:13].replace(" ", "-")
        for name in MEASURES:
            values = sorted(exact[cell][name])
            assert row[f"{name}_count"] == len(values)
            assert row[f"{name}_max"] == max(values, default=None)
            for part in PERCENTILES:
                _hold(row[f"{name}_p{part}"], values, part)


def _hold(value: int | None, values: list[int], part: int) -> None:
    if not values:
        assert value is None
        return
    nearest = values[ceil(part * len(values) / 100) - 1]
    assert value is not None
    assert value in values
    assert nearest <= value <= nearest + (WIDTH - 1) * abs(nearest) * (1 + 1e-6)
