"""The pipeline is killed while it makes tables: how these are compared, and when it is killed."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from chaos.tables import compared, differences, run
from stomprelay.pipeline.schema import QUARANTINE

SEGMENT = {"segment": "a", "position": 0, "length": 10, "reason": "damaged"}


def write(tables: Path, many: Sequence[Mapping[str, Any]], place: str = "batch=000000000") -> Path:
    """Rows of `quarantine`."""
    folder = tables / QUARANTINE.name / place
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist([dict(row) for row in many]), folder / "part-0.parquet")
    return tables


def test_rows_that_differ(tmp_path: Path) -> None:
    """One that came twice is one too many."""
    other = {**SEGMENT, "reason": "torn"}
    one = write(tmp_path / "one", [SEGMENT, other])
    two = write(tmp_path / "two", [SEGMENT, SEGMENT])
    assert differences(one, two, QUARANTINE.name) == (1, 1)
    assert compared(one, two, [QUARANTINE.name]) == [
        "two: quarantine: 1 rows are missing, 1 should not be there"
    ]
    assert differences(one, tmp_path / "none", QUARANTINE.name) == (2, 0)


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.e2e
def test_the_pipeline_is_killed(tmp_path: Path) -> None:
    """Its tables are those of an undisturbed run."""
    verdict = run(tmp_path, 1, 7, 1500)
    assert not verdict.broken, str(verdict)
