"""The goals: each row's figures beside their bounds, met or not."""

from pathlib import Path

import pytest

from bench import goals, rows
from bench.contenders import HAPROXY, JOURNAL, RELAY, ROUTES
from bench.goals import CPU, RATE
from bench.load import Case, Load, Run
from bench.rounds import Outcome, Series

BY_NAME = {row.name: row for row in rows.ROWS}


def test_each_row_has_its_goals() -> None:
    """Every goal belongs to a row, every row has goals for what a message costs, and every route is there."""
    assert set(goals.ROWS) == set(BY_NAME)
    assert all(CPU in bounds and len(bounds) >= 2 for bounds in goals.ROWS.values())
    assert {row.route for row in rows.ROWS} == set(ROUTES)
    assert all(set(bounds) <= set(rows.FIGURES) == set(rows.UNITS) for bounds in goals.ROWS.values())


def outcome(name: str, **costs: list[int]) -> Outcome:
    """One run for each of these microseconds that a message cost, of a contender that worked all the time."""
    series = [
        Series(contender, Case("sink"), [Run(1000 // cost, 0.001, 0.001) for cost in found])
        for contender, found in costs.items()
    ]
    return Outcome(name, series)


def test_a_row_is_judged_over_haproxy_and_its_journal_over_the_relay() -> None:
    """Both figures of each, with the median of the rounds, the quartiles, and the absolute figure for scale."""
    found = outcome("send, big", haproxy=[1, 1, 2], relay=[2, 4, 4], journal=[2, 4, 5])
    cost, rate, journal_cost, journal_rate = rows.judged(BY_NAME["send"], found)
    assert (cost.what, cost.figure) == ("send, big", "CPU us")
    assert cost.scale == pytest.approx(1.0)
    assert cost.found == pytest.approx((2.0, 2.0, 4.0))
    assert rate.found == pytest.approx((0.5, 0.25, 0.5))
    assert (cost.goal, rate.goal) == (goals.ROWS["send"][CPU], goals.ROWS["send"][RATE])
    assert not cost.met
    assert journal_cost.what == journal_rate.what == "send, big, journal"
    assert journal_cost.found == pytest.approx((1.0, 1.0, 1.25))
    assert (journal_cost.met, journal_rate.met) == (True, True)


@pytest.mark.deep
@pytest.mark.e2e
def test_every_row_passes(load: Load, tmp_path: Path) -> None:
    """Each row runs through all that is installed and arrives as it was sent, with a journal, too."""
    notes: list[str] = []
    with rows.running(load.ports["1.2"], tmp_path, notes.append) as contenders:
        names = [one.name for one in contenders]
        assert set(names) >= {RELAY, JOURNAL}
        assert (HAPROXY in names) == (notes == [])
        for row in rows.ROWS:
            for found in rows.outcomes(load, contenders, row, rounds=1, seconds=0.001):
                assert [(one.name, one.failure) for one in found.series] == [(name, None) for name in names]
    assert list(tmp_path.glob("journal/*.journal"))
