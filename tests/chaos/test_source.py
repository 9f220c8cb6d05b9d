"""Spark reads a queue while it is killed."""

from pathlib import Path

import pytest

from chaos.source import run
from tests.e2e import brokers


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
    with brokers.memory(tmp_path) as broker:
        outcome = run(f"failover:(tcp://127.0.0.1:{broker.port})", tmp_path, rounds, 600, 7, ack)
    assert outcome.lost == 0, outcome.report()
    assert outcome.keys == outcome.sent, outcome.report()
