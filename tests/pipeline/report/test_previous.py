"""What was a day or a week before, read through Spark."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from stomprelay.pipeline.report.findings import Client, Earlier
from stomprelay.pipeline.report.gather import Range, earlier, gather, stretch
from stomprelay.pipeline.report.text import DAY, HOUR, MINUTE, SECOND
from tests.pipeline.report.sample import BEGIN
from tests.pipeline.report.tables import build, later

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

BEFORE = -86400
NOW = Range(BEGIN, BEGIN + HOUR)


def test_the_day_before(spark: "SparkSession", tmp_path: Path) -> None:
    """The same figures as of the day itself, of the same hour: what is beside it does not count."""
    back = {"direction": "to_client", "client": "bob"}
    store = build(
        spark,
        tmp_path,
        traffic=[
            {"minute": later(60), "messages": 10},
            {"minute": later(60), "messages": 10, "destination": "/queue/b"},
            {"minute": later(BEFORE + 600), "messages": 4, "errors": 2},
            {"minute": later(BEFORE + 660), "messages": 3, **back},
            {"minute": later(BEFORE + 660), "destination": "/queue/b", "messages": 1},
            {"minute": later(BEFORE + 660), "destination": "/queue/gone", "messages": 9, "client": "carol"},
            {"minute": later(BEFORE + 660), "destination": "/queue/silent", "messages": 0, "client": "carol"},
            {"minute": later(BEFORE - 60), "messages": 100},
            {"minute": later(BEFORE + 3600), "messages": 100},
        ],
        messages=[
            {"seen_at": later(BEFORE + 600), "delivery_us": 1000, "redelivered": 1},
            {"seen_at": later(BEFORE + 601), "outcome": "undelivered", "destination": "/topic/t"},
            {"seen_at": later(BEFORE - 1), "outcome": "undelivered"},
        ],
        failovers=[{"began_at": later(BEFORE + 5), "ended_at": later(BEFORE + 6)}, {"began_at": later(5)}],
        stuck=[{"since": later(BEFORE + 5), "until": later(BEFORE + 99), "age_us": 94 * SECOND}],
    )
    made = earlier(store, gather(store, NOW, 10, BEGIN), "day")
    assert (made.since, made.until) == (BEGIN - DAY, BEGIN - DAY + HOUR)
    assert (made.first, made.last) == (made.since + 10 * MINUTE, made.since + 12 * MINUTE)
    assert made.gone == ["/queue/gone"]
    found = made.found
    assert found is not None
    assert [(one.name, one.sent, one.delivered) for one in found.destinations] == [
        ("/queue/a", 4, 3),
        ("/queue/b", 1, 0),
    ]
    assert found.clients == [Client("alice", 5, 0, 200, 2)]
    assert (list(found.errors), found.octets) == ([2], 500)
    assert found.outcomes == {"acked": 1, "unheard": 1}
    assert found.latencies["delivery"].whole.p99 == 1000
    assert found.redelivered == 1
    assert [one.began for one in found.failovers] == [BEGIN - DAY + 5 * SECOND]
    assert (found.total_stuck, found.stuck[0].worst) == (1, 94 * SECOND)


def test_nothing_before(spark: "SparkSession", tmp_path: Path) -> None:
    """Is told as such, with the time that was looked at."""
    store = build(spark, tmp_path, traffic=[{}])
    week = 7 * DAY
    assert earlier(store, gather(store, NOW, 10, BEGIN), "week") == Earlier(
        "week", BEGIN - week, BEGIN - week + HOUR
    )


@pytest.mark.deep
def test_a_few_seconds(spark: "SparkSession", tmp_path: Path) -> None:
    """A range of seconds is compared with the same seconds, not with their minutes."""
    frames = [{"seen_at": later(at)} for at in (10, BEFORE + 10, BEFORE + 11, BEFORE + 40)]
    store = build(spark, tmp_path, frames=frames, traffic=[{}, {"minute": later(BEFORE), "messages": 3}])
    range_ = Range(BEGIN + 5 * SECOND, BEGIN + 15 * SECOND)
    made = earlier(store, gather(store, range_, 10, BEGIN), "day")
    assert made.found is not None
    assert [one.sent for one in made.found.destinations] == [2]


def test_the_stretch(spark: "SparkSession", tmp_path: Path) -> None:
    """Without a begin it is the last day, or week, of what there is; one that is asked for holds, to the bin."""
    store = build(spark, tmp_path / "tables", traffic=[{"minute": later(60)}])
    assert stretch(store, Range(), "day") == Range(BEGIN + 10 * MINUTE - DAY, None)
    assert stretch(store, Range(None, BEGIN + HOUR), "week") == Range(BEGIN + HOUR - 7 * DAY, BEGIN + HOUR)
    assert stretch(store, NOW, "day") == NOW
    odd = Range(BEGIN - DAY + MINUTE, BEGIN + MINUTE)
    assert stretch(store, odd, "day") == Range(BEGIN + 10 * MINUTE - DAY, odd.until)
    assert stretch(build(spark, tmp_path / "nothing"), Range(), "day") == Range()
