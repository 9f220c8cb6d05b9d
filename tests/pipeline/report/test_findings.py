"""What the report is made from, and its axis of time."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from stomprelay.pipeline.report.findings import BINS, GOT, MEANING, UNHEARD, Findings, Span
from stomprelay.pipeline.report.text import DAY, HOUR, MINUTE, SECOND, Micros
from stomprelay.pipeline.schema import MESSAGES, OUTCOMES
from tests.pipeline.report.sample import BEGIN, sample

NOTHING = Findings(Span.over(BEGIN, BEGIN + HOUR - 1), recorded=[False] * 60)


def test_the_outcomes_are_those_of_the_table() -> None:
    """Each that `messages` may say is shown, and has words."""
    (about,) = (column.about for column in MESSAGES.columns if column.name == "outcome")
    assert all(f"`{outcome}`" in about for outcome in OUTCOMES)
    assert [outcome for outcome in MEANING if outcome != UNHEARD] == list(OUTCOMES)
    assert set(OUTCOMES) >= GOT


def test_sums() -> None:
    """Aborted and lost messages did not reach anybody."""
    findings = replace(NOTHING, outcomes={"acked": 5, "returned": 1, "undelivered": 2, "aborted": 3})
    assert (findings.messages, findings.reached, findings.expected) == (11, 6, 11)
    assert replace(findings, outcomes={"acked": 5, "unheard": 4}).expected == 5


def test_emptiness() -> None:
    """Nothing recorded and nothing happened; a failover alone is something."""
    assert NOTHING.empty
    assert not replace(NOTHING, outcomes={"acked": 1}).empty
    assert not replace(NOTHING, failovers=sample().failovers).empty
    assert not replace(NOTHING, recorded=[True]).empty
    assert not sample().empty


def test_the_width_of_a_bin() -> None:
    """Is round and gives a sensible number of them; seconds only for short ranges."""
    lengths = (1, 3 * MINUTE, 10 * MINUTE, 30 * MINUTE, 3 * HOUR, 7 * DAY, 365 * DAY)
    spans = [Span.over(BEGIN, BEGIN + length - 1) for length in lengths]
    assert [span.step for span in spans[:4]] == [SECOND, SECOND, 5 * SECOND, 10 * SECOND]
    assert [span.step for span in spans[4:]] == [MINUTE, HOUR, 2 * DAY]
    for span, bins in zip(spans, (1, 180, 120, 180, 180, 168, 183), strict=True):
        assert abs(span.bins - bins) <= 1


@given(st.integers(0, 4 * 10**15), st.integers(0, 10**15))
def test_any_range(first: Micros, length: Micros) -> None:
    """It holds both ends, on round times, in few bins."""
    span = Span.over(first, first + length)
    assert span.since <= first
    assert first + length < span.until
    assert span.since % span.step == span.until % span.step == 0
    assert 1 <= span.bins <= BINS
    assert len(span.starts) == span.bins
    assert (span.index(first), span.index(first + length)) == (0, span.bins - 1)


@given(st.integers(0, 4 * 10**15), st.integers(0, 10**14))
def test_ticks(first: Micros, length: Micros) -> None:
    """At most ten, some of them main ones, at most five, each where it belongs."""
    span = Span.over(first, first + length)
    ticks = span.ticks()
    assert len(ticks) <= 11
    assert sum(tick.main for tick in ticks) <= 5
    assert all(tick.place == span.place(tick.at) for tick in ticks)
    assert all(0 <= tick.place < 1 for tick in ticks)
