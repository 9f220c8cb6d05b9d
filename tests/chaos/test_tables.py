"""How tables are compared."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from chaos.tables import compared, differences
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
