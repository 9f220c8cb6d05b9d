"""Spark reads a queue while it is killed."""

import subprocess
import sys
from pathlib import Path

import pytest

from chaos.source import Outcome, kill, run
from tests.e2e import brokers


def test_the_figures_are_told() -> None:
    """What counts: rows, what is lost, what dropDuplicates removes."""
    outcome = Outcome(3, 6000, 6002, 5999, 1, 12, 61.2)
    assert outcome.duplicates == 3
    assert outcome.report() == (
        "3 kills, 6,000 messages, 12 batches in 61 s: 6,002 rows, 1 lost, 3 duplicates, "
        "5,999 after dropDuplicates by key"
    )


def test_a_whole_family_is_killed() -> None:
    """A process and its children, however deep."""
    code = "import os, time; os.fork() and os.fork(); os.write(1, b'%d\\n' % os.getpid()); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        family = [int(process.stdout.readline()) for _ in range(3)]
        kill(process.pid)
        assert process.stdout.read() == ""  # nobody holds the other end any more
        assert process.wait() == -9
    assert len({*family}) == 3
    assert process.pid in family


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
