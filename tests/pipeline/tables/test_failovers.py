"""Outages of brokers, from what their sessions saw."""

from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from stomprelay.pipeline.schema import FAILOVERS
from stomprelay.pipeline.sessions.outages import SessionOutage
from stomprelay.pipeline.tables.episodes import SPACING, failover, outages_of, rows_of
from tests.pipeline.rows import OUTAGE_ROW, SECOND, START_NS, told

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


def table(spark: SparkSession, *outages: dict[str, Any]) -> DataFrame:
    """The rows of `failovers`."""
    usual = {**dict.fromkeys(SessionOutage._fields), **OUTAGE_ROW}
    losses = [SessionOutage(**{**usual, **one}) for one in outages]
    return rows_of(spark, FAILOVERS, [failover(each) for each in outages_of(losses, GIVE_UP * SECOND)])


class Cases:
    """Outages side by side, each case at brokers of its own, so that Spark is asked once."""

    def __init__(self) -> None:
        self._outages: list[dict[str, Any]] = []
        self._wanted: list[tuple[str, list[str], list[tuple[Any, ...]]]] = []

    def case(self, *outages: dict[str, Any], columns: list[str], wanted: list[tuple[Any, ...]]) -> None:
        """These outages alone make these cells."""
        name = f"{len(self._wanted)}|"
        self._outages += [{**one, "broker": name + one.get("broker", "a:61613")} for one in outages]
        self._wanted.append((name, columns, wanted))

    def begun(self, *outages: dict[str, Any], wanted: list[tuple[str, int]]) -> None:
        """When each outage begins, and of how many sessions it is."""
        rows = [(f"2026-11-21 {at}", sessions) for at, sessions in wanted]
        self.case(*outages, columns=["began_at", "sessions"], wanted=rows)

    def check(self, spark: SparkSession) -> None:
        """Compare all of them."""
        found = told(table(spark, *self._outages))
        names = FAILOVERS.names
        for name, columns, wanted in self._wanted:
            ours = [dict(zip(names, row, strict=True)) for row in found]
            ours = [
                {**row, "broker": row["broker"][len(name) :]}
                for row in ours
                if row["broker"].startswith(name)
            ]
            assert sorted((tuple(row[each] for each in columns) for row in ours), key=repr) == wanted


def test_each_cell(spark: SparkSession) -> None:
    """Three sessions lose a broker; two go one way, one the other."""
    found = table(
        spark,
        lost("s1", 0, 2, resent=3, stale_acks=1),
        lost("s2", 0.5, 1.5, moved_to="c:61613", resent=1, duplicates=4),
        lost("s3", 1, 4, relay="r2"),
    )
    assert found.columns == FAILOVERS.names
    assert told(found) == [
        (
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


def test_when_an_outage_begins_and_ends(spark: SparkSession) -> None:
    """The next loss within ten seconds of the last is the same outage, and one later is, while a session is still
    without a broker: not while it gave up, and for `give_up` seconds where nothing more comes of it.
    """
    assert SPACING == 10
    cases = Cases()
    cases.begun(lost("s1", 0, 1), lost("s2", 10, 11), lost("s3", 20, 21), wanted=[("08:00:00", 3)])
    cases.begun(lost("s1", 0, 1), lost("s2", 10.000_000_001, 11), wanted=[("08:00:00", 1), ("08:00:10", 1)])
    slow = lost("s1", 0, 300)
    cases.begun(slow, lost("s2", 1, 2), lost("s3", 299, 301), wanted=[("08:00:00", 3)])
    cases.begun(slow, lost("s2", 1, 2), lost("s3", 301, 302), wanted=[("08:00:00", 2), ("08:05:01", 1)])
    gone = lost("s1", 0, given_up=True)
    cases.begun(gone, lost("s2", 60, 61), wanted=[("08:00:00", 1), ("08:01:00", 1)])
    silent = lost("s1", 0)
    cases.begun(silent, lost("s2", GIVE_UP, GIVE_UP + 1), wanted=[("08:00:00", 2)])
    cases.begun(silent, lost("s2", GIVE_UP + 1, GIVE_UP + 2), wanted=[("08:00:00", 1), ("09:00:01", 1)])
    columns = ["ended_at", "sessions", "recovered", "given_up"]
    cases.case(lost("s1", 0, 1), lost("s2", 0), columns=columns, wanted=[(None, 2, 1, 0)])
    gone = lost("s2", 0, given_up=True)
    cases.case(lost("s1", 0, 1), gone, columns=columns, wanted=[("2026-11-21 08:00:01", 2, 1, 1)])
    cases.case(gone, columns=columns, wanted=[(None, 1, 0, 1)])
    cases.check(spark)


def test_what_sets_outages_apart_and_what_is_summed(spark: SparkSession) -> None:
    """Upstream, broker and plan, at the same moment too. A session that lost the broker twice counts once, as its last
    loss ended, its silences each; the median silence is the nearest rank's, and a clock that was set back makes none
    shorter than none. Where most sessions went comes first, equals by the alphabet.
    """
    cases = Cases()
    others: list[dict[str, Any]] = [
        {"upstream": "other"},
        {"upstream": None},
        {"broker": "c:61613"},
        {"planned": True},
    ]
    cases.case(
        lost("s1", 0, 1),
        *(lost(f"t{n}", 0, 1, **one) for n, one in enumerate(others)),
        columns=["upstream", "broker", "planned", "sessions"],
        wanted=sorted(
            [
                ("main", "a:61613", False, 1),
                ("other", "a:61613", False, 1),
                (None, "a:61613", False, 1),
                ("main", "c:61613", False, 1),
                ("main", "a:61613", True, 1),
            ],
            key=repr,
        ),
    )
    cases.case(
        lost("s1", 0, 1, resent=1),
        lost("s1", 5, given_up=True, resent=2),
        columns=["sessions", "recovered", "given_up", "silence_max_us", "resent"],
        wanted=[(1, 0, 1, 1_000_000, 3)],
    )
    silences: list[tuple[list[int], int | None, int | None]] = [
        ([], None, None),
        ([7], 7, 7),
        ([9, 1], 1, 9),
        ([5, 1, 9], 5, 9),
        ([4, 3, 2, 1], 2, 4),
        ([-3, 2], 0, 2),
    ]
    for lasted, median, longest in silences:
        ended = [lost(f"s{n}", 0, us / 1_000_000) for n, us in enumerate(lasted)]
        cases.case(
            *ended,
            lost("never", 0, given_up=True),
            columns=["silence_p50_us", "silence_max_us"],
            wanted=[(median, longest)],
        )
    moves = ["c", "d", "b", "d", "c", "d", "a", "b"]
    cases.case(
        *(lost(f"s{n}", 0, 1, moved_to=to) for n, to in enumerate(moves)),
        lost("none", 0),
        columns=["moved_to"],
        wanted=[(["d", "b", "c", "a"],)],
    )
    cases.case(lost("s1", 0), columns=["moved_to"], wanted=[([],)])
    cases.check(spark)
