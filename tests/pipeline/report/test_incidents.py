"""What went wrong, from the tables."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from stomprelay.pipeline.report.findings import Damage, Episode, Failover, Stuck, Trouble
from stomprelay.pipeline.report.gather import (
    read_damages,
    read_failovers,
    read_stuck,
    read_troubles,
    united,
)
from stomprelay.pipeline.report.queries import Range
from stomprelay.pipeline.report.text import HOUR, MINUTE, SECOND
from tests.pipeline.report.house import build, later
from tests.pipeline.report.sample import BEGIN

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ALL = Range()


def test_united() -> None:
    """Episodes that touch are one; one that goes on holds all that began later."""
    many = [Episode(5, 9, 1), Episode(0, 2, 2), Episode(2, 3, 4), Episode(7, 8, 8)]
    assert united(many) == [Episode(0, 3, 6), Episode(5, 9, 9)]
    assert united([*many, Episode(2, None, 16)]) == [Episode(0, None, 31)]
    assert united([Episode(0, 5, 1), Episode(5, None, 1)]) == [Episode(0, None, 2)]
    assert united([]) == []


@pytest.mark.spark
def test_failovers(spark: "SparkSession", tmp_path: Path) -> None:
    """Each cell; those that began before the range and were not over belong to it."""
    store = build(
        spark,
        tmp_path,
        failovers=[
            {
                "began_at": later(-7000),
                "ended_at": later(5),
                "silence_p50_us": 100,
                "silence_max_us": 200,
                "sessions": 9,
                "recovered": 7,
                "given_up": 2,
                "resent": 4,
                "stale_acks": 5,
                "duplicates": 6,
            },
            {"began_at": later(-7000), "ended_at": later(-6990), "broker": "over"},
            {"began_at": later(-7000), "broker": "never over"},
            {"began_at": later(3600), "broker": "later"},
            {"began_at": later(3599), "broker": "last", "planned": True, "moved_to": []},
        ],
    )
    found = read_failovers(store, Range(BEGIN, BEGIN + HOUR))
    assert [one.broker for one in found] == ["a:61613", "never over", "last"]
    assert found[0] == Failover(
        "main",
        "a:61613",
        ("b:61613",),
        BEGIN - 7000 * SECOND,
        BEGIN + 5 * SECOND,
        False,
        *(9, 7, 2, 100, 200, 4, 5, 6),
    )
    assert (found[1].ended, found[2].planned, found[2].moved_to) == (None, True, ())
    assert len(read_failovers(store, ALL)) == 5


@pytest.mark.spark
def test_stuck(spark: "SparkSession", tmp_path: Path) -> None:
    """A subscription's episodes are one row, the longest wait first; those that ended are there as well."""
    seen = [
        {
            "since": later(10),
            "until": later(160),
            "age_us": 150 * SECOND,
            "deliveries": 5,
            "outcome": "acked",
        },
        {"since": later(500), "age_us": 100 * SECOND, "deliveries": 2, "broker": "c"},
        {
            "since": later(20),
            "until": later(100),
            "age_us": 80 * SECOND,
            "session": "s2",
            "client": None,
            "outcome": "returned",
        },
    ]
    store = build(spark, tmp_path, stuck=seen)
    found, total = read_stuck(store, ALL, 10)
    assert total == 2
    over = Episode(BEGIN + 10 * SECOND, BEGIN + 160 * SECOND, 5)
    assert found == [
        Stuck(
            "bob",
            "1",
            "/queue/a",
            "c",
            [over, Episode(BEGIN + 500 * SECOND, None, 2)],
            150 * SECOND,
            None,
        ),
        Stuck(
            None,
            "1",
            "/queue/a",
            "a:61613",
            [Episode(BEGIN + 20 * SECOND, BEGIN + 100 * SECOND, 1)],
            80 * SECOND,
            "returned",
        ),
    ]
    assert [(one.still, one.deliveries) for one in found] == [(True, 7), (False, 1)]
    assert read_stuck(store, ALL, 1) == (found[:1], 2)
    first = read_stuck(store, Range(until=BEGIN + 3 * MINUTE), 1)[0][0]
    assert (first.episodes, first.outcome) == ([over], "acked")
    assert [one.still for one in read_stuck(store, Range(BEGIN + HOUR, BEGIN + 2 * HOUR), 9)[0]] == [True]
    assert read_stuck(build(spark, tmp_path / "nothing"), ALL, 10) == ([], 0)


@pytest.mark.spark
def test_troubles(spark: "SparkSession", tmp_path: Path) -> None:
    """What brokers and the relay said, counted by their words; other events and clients' frames do not count."""
    store = build(
        spark,
        tmp_path,
        frames=[
            {"command": "ERROR", "side": "broker", "headers": {"message": "No"}, "at": later(5)},
            {"command": "ERROR", "side": "broker", "headers": {"message": "No"}, "client": "bob"},
            {"command": "ERROR", "side": "broker", "headers": {"x": "y"}, "client": None},
            {"command": "ERROR", "side": "client", "headers": {"message": "odd"}},
            {"command": None, "kind": "event", "event": "error", "text": "Too long", "side": None},
            {"command": None, "kind": "event", "event": "lost", "text": "Gone", "side": None},
            {},
        ],
    )
    found, total = read_troubles(store.read("frames"), 10)
    assert found == [
        Trouble("No", "broker", 2, 2, BEGIN, BEGIN + 5 * SECOND),
        Trouble("(no message)", "broker", 1, 0, BEGIN, BEGIN),
        Trouble("Too long", "relay", 1, 1, BEGIN, BEGIN),
    ]
    assert total == 3
    assert read_troubles(store.read("frames"), 1) == (found[:1], 3)


@pytest.mark.spark
def test_damages(spark: "SparkSession", tmp_path: Path) -> None:
    """Each once, the first by file and place."""
    store = build(spark, tmp_path, quarantine=[{"offset": 9}, {"offset": 5}, {"offset": 5}, {"segment": "y"}])
    assert read_damages(store, 2) == (
        [Damage("x.journal", 5, 1, "checksum"), Damage("x.journal", 9, 1, "checksum")],
        3,
    )
    assert read_damages(build(spark, tmp_path / "nothing"), 2) == ([], 0)
