"""Spark reads a queue while it is killed."""

from pathlib import Path

import pytest

from chaos.source import run


@pytest.mark.deep
@pytest.mark.spark
@pytest.mark.e2e
@pytest.mark.parametrize(
    ("ack", "rounds"),
    [
        ("commit", 1),
        pytest.param("spool", 1, marks=pytest.mark.long),
        pytest.param("spool", 3, marks=pytest.mark.long),
    ],
)
def test_nothing_is_lost_when_the_driver_is_killed(tmp_path: Path, ack: str, rounds: int) -> None:
    """SIGKILL to Java and Python at random moments: every message is in the table, and each once by its key."""
    verdict = run(tmp_path, rounds, 7, 600, ack)
    assert not verdict.broken, str(verdict)
