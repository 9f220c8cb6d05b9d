"""The table `runs`: how each run of a relay's process began and ended, and what the journal has of it.

The rows of the runs that may still change stand together and are written anew by each batch that changes one. A run of
which nothing came for long, which `read.runs` forgets, has its row to itself.
"""

from collections.abc import Iterable
from typing import Any, Final

from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from stomprelay.pipeline.match import messages
from stomprelay.pipeline.schema import RUNS
from stomprelay.pipeline.store.store import Batch

_PRESENT: Final = "present"
_TIMES: Final = tuple(column.name for column in RUNS.columns if column.kind == "timestamp")
_IN_NS: Final = ", ".join(
    f"{column.name} {'bigint' if column.name in _TIMES else column.kind}" for column in RUNS.columns
)


def advance(batch: Batch) -> None:
    """Write the rows that this batch changed; safe to do again."""
    runs, known = messages.runs_after(batch), messages.runs_before(batch)
    before, now, old = known.rows(), runs.rows(), known.rows(gone=True)
    for name, row in (before | runs.rows(gone=True)).items():
        if name not in now and row != old.get(name):
            _write(batch, _own(name), [row])
    for name in now.keys() - before.keys():
        _write(batch, _own(name), [])
    if now != before:
        _write(batch, _PRESENT, now.values())


def _own(run: str) -> str:
    return f"run-{run}"


def _write(batch: Batch, name: str, rows: Iterable[tuple[Any, ...]]) -> None:
    there = list(rows)
    if not there:
        batch.store.remove(RUNS.name, name)
        return
    times = {each: F.timestamp_micros(F.expr(f"{each} DIV 1000")) for each in _TIMES}
    frame = batch.spark.createDataFrame(there, _IN_NS).withColumns(times)
    batch.store.append(RUNS.name, name, frame.coalesce(1))
