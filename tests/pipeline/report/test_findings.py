"""What the report is made from."""

from dataclasses import replace

from stomprelay.pipeline.report.findings import GOT, Findings, Span
from stomprelay.pipeline.report.outcomes import MEANING
from stomprelay.pipeline.report.text import HOUR
from stomprelay.pipeline.schema import MESSAGES, OUTCOMES
from tests.pipeline.report.sample import BEGIN, sample

NOTHING = Findings(Span.over(BEGIN, BEGIN + HOUR - 1), recorded=[False] * 60)


def test_the_outcomes_are_those_of_the_table() -> None:
    """Each that `messages` may say is shown, and has words."""
    (about,) = (column.about for column in MESSAGES.columns if column.name == "outcome")
    assert all(f"`{outcome}`" in about for outcome in OUTCOMES)
    assert set(MEANING) == set(OUTCOMES)
    assert set(OUTCOMES) >= GOT


def test_sums() -> None:
    """Aborted and lost messages did not reach anybody."""
    findings = replace(NOTHING, outcomes={"acked": 5, "returned": 1, "undelivered": 2, "aborted": 3})
    assert (findings.messages, findings.reached) == (11, 6)


def test_emptiness() -> None:
    """Nothing recorded and nothing happened; a failover alone is something."""
    assert NOTHING.empty
    assert not replace(NOTHING, outcomes={"acked": 1}).empty
    assert not replace(NOTHING, failovers=sample().failovers).empty
    assert not replace(NOTHING, recorded=[True]).empty
    assert not sample().empty
