"""Brokers of a session as they come and go, and what is told of their losses."""

from typing import Any

from stomprelay.pipeline.sessions.outages import OpenOutages, SessionOutage
from tests.pipeline.rows import OUTAGE_ROW

USUAL = SessionOutage(**{**dict.fromkeys(SessionOutage._fields), **OUTAGE_ROW, "session": "s", "broker": "a"})


def _row(lost: int, recovered: int | None = None, **more: Any) -> SessionOutage:
    return USUAL._replace(lost_ns=lost, recovered_ns=recovered, **more)


def _duplicates(outages: OpenOutages) -> list[int]:
    return [row.duplicates for row in outages.changed]


def test_duplicates() -> None:
    """A delivery before the loss, and another one of its message after it; the first loss counts."""
    outages = OpenOutages([])
    outages.told([_row(10, 20), _row(50, 60)])
    outages.repeated([("s", "a", 5, 15), ("s", "a", 5, 70), ("s", "a", 30, 55)])
    assert _duplicates(outages) == [2, 1]
    outages.repeated([("s", "a", 30, 40), ("s", "b", 5, 15), ("t", "a", 5, 15), ("s", None, 5, 15)])
    assert _duplicates(outages) == [2, 1]


def test_of_a_planned_move_what_came_meanwhile() -> None:
    """It was lost as well."""
    outages = OpenOutages([])
    outages.told([_row(10, 20, planned=True)])
    outages.repeated([("s", "a", 15, 25), ("s", "a", 21, 25)])
    assert _duplicates(outages) == [1]


def test_only_what_is_new_is_told() -> None:
    """And with what was counted before."""
    outages = OpenOutages([_row(10), _row(30, duplicates=4)])
    assert (outages.changed, outages.sessions) == ([], {"s"})
    outages.told([_row(30, 40, stale_acks=2)])
    assert outages.changed == [_row(30, 40, stale_acks=2, duplicates=4)]
    outages.repeated([("s", "a", 5, 12)])
    assert _duplicates(outages) == [1, 4]


def test_how_long_they_are_kept() -> None:
    """As long as they go on, or something may still be repeated."""
    outages = OpenOutages([_row(10), _row(20, 30), _row(40, given_up=True)])
    assert [row.lost_ns for row in outages.kept(30)] == [10, 20, 40]
    assert [row.lost_ns for row in outages.kept(31)] == [10, 40]
    assert [row.lost_ns for row in outages.kept(41)] == [10]
