"""A cluster's parts are killed."""

from pathlib import Path

import pytest

from chaos.cluster import run


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.e2e
def test_driver_executor_and_worker_are_killed(tmp_path: Path) -> None:
    """Its tables are those of one machine that nobody disturbed."""
    verdict = run(tmp_path, 3, 7, 1500)
    assert not verdict.broken, str(verdict)
