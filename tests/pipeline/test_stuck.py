"""Who does not answer."""

from typing import TYPE_CHECKING, Any

import pytest

from stomprelay.pipeline.outstanding import OUTSTANDING
from stomprelay.pipeline.stuck import stuck
from stomprelay.pipeline.tables import STUCK
from tests.pipeline.rows import SECOND, START_NS, rows, told

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

OWES: dict[str, Any] = {
    "as_of_ns": START_NS,
    "relay": "r1",
    "session": "s1",
    "client": "bob",
    "subscription": "1",
    "destination": "/queue/a",
    "broker": "a:61613",
    "oldest_ns": START_NS - 61 * SECOND - 1500,
    "outstanding": 3,
}


def test_each_cell(spark: "SparkSession") -> None:
    """The age is what lies between the newest record and the oldest delivery, in whole microseconds."""
    table = stuck(rows(spark, OUTSTANDING, OWES, [{}]), 60)
    assert table.columns == ["hour", *STUCK.names]
    assert told(table) == [
        (
            "2026-11-21-08",
            "2026-11-21 08:00:00",
            "r1",
            "s1",
            "bob",
            "1",
            "/queue/a",
            "a:61613",
            "2026-11-21 07:58:58.999998",
            61_000_001,
            3,
        )
    ]


@pytest.mark.parametrize(("after", "found"), [(0, 3), (60, 1), (59.999, 2), (3600, 0)])
def test_only_what_waits_for_longer(spark: "SparkSession", after: float, found: int) -> None:
    """Exactly `stuck_after` is not yet stuck; parts of a second count."""
    ages = [1, 60 * SECOND, 60 * SECOND + 1]
    owed = rows(spark, OUTSTANDING, OWES, [{"oldest_ns": START_NS - age} for age in ages])
    assert stuck(owed, after).count() == found


def test_a_clock_that_was_set_back(spark: "SparkSession") -> None:
    """A delivery that seems to come from the future is not stuck."""
    assert stuck(rows(spark, OUTSTANDING, OWES, [{"oldest_ns": START_NS + SECOND}]), 0).count() == 0
