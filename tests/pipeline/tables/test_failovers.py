"""Outages of brokers, from what their sessions saw."""

from typing import Any

import pytest
from pyspark.sql import SparkSession

from stomprelay.pipeline.schema import FAILOVERS
from stomprelay.pipeline.sessions.outages import SessionOutage
from stomprelay.pipeline.tables.episodes import SPACING, failover, outages_of, rows_of
from tests.pipeline.rows import OUTAGE_ROW, SECOND, START_NS, told

GIVE_UP = 3600
USUAL = {**dict.fromkeys(SessionOutage._fields), **OUTAGE_ROW}


def lost(session: str, at: float, recovered: float | None = None, **further: Any) -> SessionOutage:
    """A session's outage; times are seconds after the start."""
    back = None if recovered is None else START_NS + round(recovered * SECOND)
    times = {"lost_ns": START_NS + round(at * SECOND), "recovered_ns": back}
    to = None if recovered is None else "b:61613"
    return SessionOutage(**{**USUAL, "session": session, **times, "moved_to": to, **further})


GONE, SILENT, SLOW = lost("s1", 0, given_up=True), lost("s1", 0), lost("s1", 0, 300)


def cells(columns: str, *losses: SessionOutage) -> list[tuple[Any, ...]]:
    """Of each outage these columns; times are whole seconds after the start."""
    rows = [failover(each) for each in outages_of(losses, GIVE_UP * SECOND)]
    named = [dict(zip(FAILOVERS.names, row, strict=True)) for row in rows]
    for row in named:
        ends = {name: (row[name] - START_NS) // SECOND for name in ("began_at", "ended_at") if row[name]}
        row.update(ends)
    return [tuple(row[name] for name in columns.split()) for row in named]


@pytest.mark.spark
def test_each_cell(spark: SparkSession) -> None:
    """Three sessions lose a broker; two go one way, one the other."""
    losses = [
        lost("s1", 0, 2, resent=3, stale_acks=1),
        lost("s2", 0.5, 1.5, moved_to="c:61613", resent=1, duplicates=4),
        lost("s3", 1, 4, relay="r2"),
    ]
    outages = outages_of(losses, GIVE_UP * SECOND)
    found = rows_of(spark, FAILOVERS, [failover(each) for each in outages])
    assert found.columns == FAILOVERS.names
    where, at = ("main", "a:61613", ["b:61613", "c:61613"]), "2026-11-21 08:00:0"
    assert told(found) == [(*where, f"{at}0", f"{at}4", False, 3, 3, 0, 2_000_000, 3_000_000, 4, 1, 4)]


@pytest.mark.parametrize(
    ("losses", "begun"),
    [
        ([lost("s1", 0, 1), lost("s2", 10, 11), lost("s3", 20, 21)], [(0, 3)]),
        ([lost("s1", 0, 1), lost("s2", 10.000_000_001, 11)], [(0, 1), (10, 1)]),
        ([SLOW, lost("s2", 1, 2), lost("s3", 299, 301)], [(0, 3)]),
        ([SLOW, lost("s2", 1, 2), lost("s3", 301, 302)], [(0, 2), (301, 1)]),
        ([GONE, lost("s2", 60, 61)], [(0, 1), (60, 1)]),
        ([SILENT, lost("s2", GIVE_UP, GIVE_UP + 1)], [(0, 2)]),
        ([SILENT, lost("s2", GIVE_UP + 1, GIVE_UP + 2)], [(0, 1), (GIVE_UP + 1, 1)]),
    ],
)
def test_when_an_outage_begins(losses: list[SessionOutage], begun: list[tuple[int, int]]) -> None:
    """A loss within ten seconds of the last is of the same outage; a later one, while a session may come back."""
    assert SPACING == 10
    assert cells("began_at sessions", *losses) == begun


@pytest.mark.parametrize(
    ("losses", "ended"),
    [
        ([lost("s1", 0, 1), lost("s2", 0)], (None, 2, 1, 0)),
        ([lost("s2", 0, 1), GONE], (1, 2, 1, 1)),
        ([GONE], (None, 1, 0, 1)),
    ],
)
def test_when_an_outage_ends(losses: list[SessionOutage], ended: tuple[int | None, ...]) -> None:
    """When each session has another broker, or gave up."""
    assert cells("ended_at sessions recovered given_up", *losses) == [ended]


def test_what_sets_outages_apart() -> None:
    """Upstream, broker and plan, at the same moment too."""
    others: list[dict[str, Any]] = [
        {"upstream": "other"},
        {"upstream": None},
        {"broker": "c"},
        {"planned": True},
    ]
    losses = [lost(f"t{n}", 0, 1, **one) for n, one in enumerate([{}, *others])]
    a = "a:61613"
    wanted = [
        ("main", a, False),
        ("other", a, False),
        (None, a, False),
        ("main", "c", False),
        ("main", a, True),
    ]
    assert cells("upstream broker planned sessions", *losses) == [(*each, 1) for each in wanted]


def test_silences() -> None:
    """The median is the nearest rank's, and a clock that was set back makes none shorter than none."""
    silences = {
        (): (None, None),
        (7,): (7, 7),
        (9, 1): (1, 9),
        (5, 1, 9): (5, 9),
        (4, 3, 2, 1): (2, 4),
        (-3, 2): (0, 2),
    }
    for lasted, found in silences.items():
        ended = [lost(f"s{n}", 0, us / 1_000_000) for n, us in enumerate(lasted)]
        assert cells("silence_p50_us silence_max_us", *ended, lost("never", 0, given_up=True)) == [found]


def test_what_is_summed() -> None:
    """A session that lost the broker twice counts once; where most sessions went is first, equals by the alphabet."""
    twice = [lost("s1", 0, 1, resent=1), lost("s1", 5, given_up=True, resent=2)]
    assert cells("sessions recovered given_up silence_max_us resent", *twice) == [(1, 0, 1, 1_000_000, 3)]
    moves = [lost(f"s{n}", 0, 1, moved_to=to) for n, to in enumerate("cdbdcdab")]
    assert cells("moved_to", *moves, lost("none", 0)) == [(["d", "b", "c", "a"],)]
    assert cells("moved_to", lost("s1", 0)) == [([],)]
