"""Outages of brokers, from what their sessions saw."""

import random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stomprelay.pipeline.match.outages import OUTAGE
from stomprelay.pipeline.schema import FAILOVERS
from stomprelay.pipeline.tables.failovers import KNOWN, SPACING, failovers, grouped, latest
from tests.pipeline.rows import OUTAGE_ROW, SECOND, START_NS, rows, told

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

GIVE_UP = 3600


def lost(session: str, at: float, recovered: float | None = None, **further: Any) -> dict[str, Any]:
    """A session's outage; times are seconds after the start."""
    return {
        "session": session,
        "lost_ns": START_NS + round(at * SECOND),
        "recovered_ns": None if recovered is None else START_NS + round(recovered * SECOND),
        "moved_to": None if recovered is None else "b:61613",
        **further,
    }


def table(spark: "SparkSession", *outages: dict[str, Any]) -> "DataFrame":
    """The rows of `failovers`."""
    return failovers(grouped(rows(spark, OUTAGE, OUTAGE_ROW, outages), GIVE_UP))


def begun(spark: "SparkSession", *outages: dict[str, Any]) -> list[tuple[str, int]]:
    """When each outage began, after the start, and of how many sessions it is."""
    found = told(table(spark, *outages), ["began_at", "sessions"])
    return [(at[11:], sessions) for at, sessions in found]


def test_each_cell(spark: "SparkSession") -> None:
    """Three sessions lose a broker; two go one way, one the other."""
    found = table(
        spark,
        lost("s1", 0, 2, resent=3, stale_acks=1),
        lost("s2", 0.5, 1.5, moved_to="c:61613", resent=1, duplicates=4),
        lost("s3", 1, 4, relay="r2"),
    )
    assert found.columns == ["hour", *FAILOVERS.names]
    assert told(found) == [
        (
            "2026-11-21-08",
            "main",
            "a:61613",
            ["b:61613", "c:61613"],
            "2026-11-21 08:00:00",
            "2026-11-21 08:00:04",
            False,
            3,
            3,
            0,
            2_000_000,
            3_000_000,
            4,
            1,
            4,
        )
    ]


def test_the_next_loss_within_ten_seconds_is_the_same_outage(spark: "SparkSession") -> None:
    """Ten seconds after the last loss, not the first; a little later it is another outage."""
    assert SPACING == 10
    assert begun(spark, lost("s1", 0, 1), lost("s2", 10, 11), lost("s3", 20, 21)) == [("08:00:00", 3)]
    assert begun(spark, lost("s1", 0, 1), lost("s2", 10.000_000_001, 11)) == [
        ("08:00:00", 1),
        ("08:00:10", 1),
    ]


def test_it_goes_on_until_all_have_recovered(spark: "SparkSession") -> None:
    """While one session is without a broker, a loss minutes later is still the same outage."""
    slow = lost("s1", 0, 300)
    assert begun(spark, slow, lost("s2", 1, 2), lost("s3", 299, 301)) == [("08:00:00", 3)]
    assert begun(spark, slow, lost("s2", 1, 2), lost("s3", 301, 302)) == [("08:00:00", 2), ("08:05:01", 1)]


def test_one_that_gave_up_holds_nothing_open(spark: "SparkSession") -> None:
    """It waits for no broker any more."""
    gone = lost("s1", 0, given_up=True)
    assert begun(spark, gone, lost("s2", 60, 61)) == [("08:00:00", 1), ("08:01:00", 1)]


def test_one_of_which_nothing_is_heard(spark: "SparkSession") -> None:
    """It holds an outage open for `give_up` seconds: a relay that was killed does not merge all outages to come."""
    silent = lost("s1", 0)
    assert begun(spark, silent, lost("s2", GIVE_UP, GIVE_UP + 1)) == [("08:00:00", 2)]
    assert begun(spark, silent, lost("s2", GIVE_UP + 1, GIVE_UP + 2)) == [("08:00:00", 1), ("09:00:01", 1)]


def test_upstream_broker_and_plan_set_outages_apart(spark: "SparkSession") -> None:
    """At the same moment too; a session without an upstream's name counts as well."""
    others: list[dict[str, Any]] = [
        {"upstream": "other"},
        {"upstream": None},
        {"broker": "c:61613"},
        {"planned": True},
    ]
    found = table(spark, lost("s1", 0, 1), *(lost(f"t{n}", 0, 1, **one) for n, one in enumerate(others)))
    assert told(found, ["upstream", "broker", "planned", "sessions"]) == sorted(
        [
            ("main", "a:61613", False, 1),
            ("other", "a:61613", False, 1),
            (None, "a:61613", False, 1),
            ("main", "c:61613", False, 1),
            ("main", "a:61613", True, 1),
        ],
        key=repr,
    )


def test_it_ends_when_the_last_one_has_recovered(spark: "SparkSession") -> None:
    """Not while one is without a broker; those that gave up are not waited for."""
    columns = ["ended_at", "sessions", "recovered", "given_up"]
    assert told(table(spark, lost("s1", 0, 1), lost("s2", 0)), columns) == [(None, 2, 1, 0)]
    gone = lost("s2", 0, given_up=True)
    assert told(table(spark, lost("s1", 0, 1), gone), columns) == [("2026-11-21 08:00:01", 2, 1, 1)]
    assert told(table(spark, gone), columns) == [(None, 1, 0, 1)]


def test_a_session_that_lost_it_twice(spark: "SparkSession") -> None:
    """It counts once, as its last loss ended; its silences count both."""
    found = table(spark, lost("s1", 0, 1, resent=1), lost("s1", 5, given_up=True, resent=2))
    assert told(found, ["sessions", "recovered", "given_up", "silence_max_us", "resent"]) == [
        (1, 0, 1, 1_000_000, 3)
    ]


@pytest.mark.parametrize(
    ("silences", "median", "longest"),
    [([], None, None), ([7], 7, 7), ([9, 1], 1, 9), ([5, 1, 9], 5, 9), ([4, 3, 2, 1], 2, 4), ([-3, 2], 0, 2)],
)
def test_silences(
    spark: "SparkSession", silences: list[int], median: int | None, longest: int | None
) -> None:
    """The median is the nearest rank's; a clock that was set back makes no silence shorter than none."""
    ended = [lost(f"s{n}", 0, us / 1_000_000) for n, us in enumerate(silences)]
    found = table(spark, *ended, lost("never", 0, given_up=True))
    assert told(found, ["silence_p50_us", "silence_max_us"]) == [(median, longest)]


def test_where_most_went_comes_first(spark: "SparkSession") -> None:
    """Equals by the alphabet; who found none counts for none."""
    moves = ["c", "d", "b", "d", "c", "d", "a", "b"]
    found = table(spark, *(lost(f"s{n}", 0, 1, moved_to=to) for n, to in enumerate(moves)), lost("none", 0))
    assert told(found, ["moved_to"]) == [(["d", "b", "c", "a"],)]
    assert told(table(spark, lost("s1", 0)), ["moved_to"]) == [([],)]


def test_the_last_word_on_a_session_counts(spark: "SparkSession") -> None:
    """An outage that was open and is told again replaces the older row, in whatever order they are read."""
    told_twice = [
        {**lost("s1", 0), "known": 3},
        {**lost("s1", 0, 5, resent=7), "known": 4},
        {**lost("s2", 0, given_up=True), "known": 5},
        {**lost("s2", 0), "known": 4},
    ]
    random.Random(1).shuffle(told_twice)
    known = rows(spark, OUTAGE, OUTAGE_ROW, told_twice, also="known bigint")
    assert KNOWN.endswith("known bigint NOT NULL")
    assert told(latest(known), ["session", "recovered_ns", "given_up", "resent"]) == [
        ("s1", START_NS + 5 * SECOND, False, 7),
        ("s2", None, True, 0),
    ]


@given(
    st.lists(
        st.tuples(
            st.integers(0, 90), st.one_of(st.none(), st.integers(0, 40)), st.sampled_from("ab"), st.booleans()
        ),
        min_size=1,
        max_size=40,
    )
)
@settings(max_examples=8, suppress_health_check=[HealthCheck.too_slow])
def test_grouping(spark: "SparkSession", many: list[tuple[int, int | None, str, bool]]) -> None:
    """Groups beside those that a plain walk through the losses finds."""
    outages = [
        lost(f"s{n}", at, None if took is None else at + took, broker=broker, given_up=gone and took is None)
        for n, (at, took, broker, gone) in enumerate(many)
    ]
    wanted: list[tuple[str, int, int]] = []
    for name in "ab":
        until = began = -1
        for one in sorted((one for one in outages if one["broker"] == name), key=lambda one: one["lost_ns"]):
            at = one["lost_ns"]
            if at > until:
                began = at
            end = at if one["given_up"] else (one["recovered_ns"] or at + GIVE_UP * SECOND)
            until = max(until, at + SPACING * SECOND, end)
            wanted.append((name, at, began))
    found = told(
        grouped(rows(spark, OUTAGE, OUTAGE_ROW, outages), GIVE_UP), ["broker", "lost_ns", "began_ns"]
    )
    assert found == sorted(wanted, key=repr)
