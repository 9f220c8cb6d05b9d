"""What a frame costs does not depend on what the client said before."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.relay.costs import DOCUMENT, Cost, written

pytestmark = pytest.mark.ci  # a process that counts its operations is slow

ROOT = Path(__file__).resolve().parents[2]
GROWTH = 1.3
"""More than the logarithms of four times as many; a loop over half of them is more than this."""


@pytest.fixture(scope="module")
def measured() -> list[Cost]:
    """All rows, from a process whose relay counts what it does."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.relay.costs"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return [Cost(*row) for row in json.loads(done.stdout)]


def test_no_frame_costs_more_because_there_is_more(measured: list[Cost]) -> None:
    """Operations a frame at four times as many of everything are those at one time, whatever is said in which state."""
    grown = [row for row in measured if row.operations[-1] > GROWTH * row.operations[0]]
    assert grown == []


def test_what_is_kept_grows_no_faster_than_what_is_said(measured: list[Cost]) -> None:
    """Four times as much is kept of four times as much, and never without being counted."""
    grown = [row for row in measured if row.kept[-1] > 4.2 * row.kept[0] + 1024]
    assert grown == []


def test_the_document_has_these_costs(measured: list[Cost]) -> None:
    """Each row of docs/limits.md; operations and bytes within a quarter of what they are."""
    told = written(DOCUMENT.read_text(encoding="utf-8"))
    assert [row[:2] for row in told] == [row[:2] for row in measured]
    for one, other in zip(told, measured, strict=True):
        for name in ("operations", "kept"):
            pairs = zip(getattr(one, name), getattr(other, name), strict=True)
            assert all(abs(old - new) <= 50 + old // 4 for old, new in pairs), (one, other)
