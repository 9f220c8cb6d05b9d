"""What is measured of a relay and its load: nobody is left out, nothing is lost."""

from pathlib import Path

import pytest

from bench import memory, outage
from bench.load import Load


@pytest.mark.deep
@pytest.mark.e2e
def test_an_outage_and_idle_sessions(load: Load, tmp_path: Path) -> None:
    """The broker is killed and each session hears from the other one; and some sessions are held."""
    notes: list[str] = []
    (wait,) = outage.measure(load, tmp_path, 1, notes.append, 20)
    (held,) = memory.measure(load, tmp_path, 1, notes.append, 20)
    assert [each for each in notes if "haproxy" not in each] == []
    assert wait.what == "20 sessions, broker killed"
    assert wait.found is not None
    assert held.found is not None
