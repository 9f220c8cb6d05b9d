"""The pipeline's parts are killed, and Spark while it reads a queue."""

from collections.abc import Callable
from pathlib import Path

import pytest

from chaos import cluster, source
from chaos.verdict import Verdict

pytestmark = [pytest.mark.spark, pytest.mark.e2e]


@pytest.mark.parametrize(
    "killing",
    [
        pytest.param(lambda home: cluster.alone(home, 1, 7, 1500), marks=pytest.mark.long),
        pytest.param(lambda home: cluster.run(home, 3, 7, 1500), marks=pytest.mark.long),
        lambda home: source.run(home, 1, 7, 600, "commit"),
        pytest.param(lambda home: source.run(home, 3, 7, 600), marks=pytest.mark.long),
    ],
)
def test_what_is_killed_loses_nothing(tmp_path: Path, killing: Callable[[Path], Verdict]) -> None:
    """The tables are those of a run that nobody disturbed, on one machine and on a cluster; and every message of the
    queue is in its table, each once by its key.
    """
    assert not (verdict := killing(tmp_path)).broken, str(verdict)
