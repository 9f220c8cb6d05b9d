"""The pipeline's parts are killed."""

from collections.abc import Callable
from pathlib import Path

import pytest

from chaos.cluster import alone, run
from chaos.verdict import Verdict


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.e2e
@pytest.mark.parametrize(("killing", "rounds"), [(alone, 1), (run, 3)])
def test_the_pipeline_is_killed(
    tmp_path: Path, killing: Callable[[Path, int, int, int], Verdict], rounds: int
) -> None:
    """On one machine, and on a cluster: its tables are those of a run that nobody disturbed."""
    verdict = killing(tmp_path, rounds, 7, 1500)
    assert not verdict.broken, str(verdict)
