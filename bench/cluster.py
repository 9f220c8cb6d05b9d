"""From journal to tables on a cluster: what a second executor brings, each with one core."""

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree
from typing import Final

from bench import journals
from bench.pipeline import PipelineError, verify
from bench.report import figure, table

NAME: Final = "cluster"
RECORDS: Final = 1_000_000
QUICK: Final = 100_000
EXECUTORS: Final = (1, 2)
PATIENCE: Final = 3600.0
"""Seconds that a run may take."""
_SEGMENT: Final = 4 << 20
"""Bytes of a segment, so that there are enough for all."""
_MEMORY: Final = "2g"
_BATCH: Final = re.compile(r"^batch \d+: .* in ([\d.]+) s", re.MULTILINE)

HEADER: Final = ("executors", "records", "seconds", "records/s", "time/one's")


@dataclass(frozen=True)
class Run:
    """A journal made tables by so many executors: seconds of its batches, the start of Spark left out."""

    executors: int
    records: int
    seconds: float


def measure(directory: Path, records: int, note: Callable[[str], None]) -> list[Run]:
    """Each number of executors with a cluster, and tables, of its own. Raises `PipelineError`."""
    place = directory / NAME
    (place / "journal").mkdir(parents=True)
    try:
        truth = journals.write(place / "journal", journals.Load(records, segment=_SEGMENT))
        if (os.cpu_count() or 1) <= max(EXECUTORS):
            note(f"cluster: driver and executors share {os.cpu_count()} cores")
        return [
            Run(number, truth.records, _run(place, number, truth.records, truth.commands["SEND"]))
            for number in EXECUTORS
        ]
    finally:
        rmtree(place, ignore_errors=True)


def _run(place: Path, executors: int, records: int, sent: int) -> float:
    from tests.pipeline.cluster.standalone import once, standalone

    home, tables = place / f"cluster-{executors}", place / f"tables-{executors}"
    home.mkdir()
    conf = {"spark.driver.memory": "1g", "spark.executor.memory": _MEMORY}
    with standalone(home, executors, memory=_MEMORY) as cluster:
        child = once(cluster.url, place / "journal", tables, **conf)
        try:
            if not child.exited(PATIENCE) or child.stop():
                raise PipelineError(f"once failed on {executors} executors:\n{child.last_words}")
        finally:
            child.stop()
    verify(tables, {"frames": records, "messages": sent})
    return sum(map(float, _BATCH.findall(child.output)))


def report(found: Sequence[Run]) -> str:
    """How the time shrinks."""
    rows = [
        [
            str(run.executors),
            f"{run.records:,}",
            figure(run.seconds),
            figure(run.records / run.seconds),
            figure(run.seconds / found[0].seconds),
        ]
        for run in found
    ]
    return table("cluster: from journal to tables by executors of one core", HEADER, rows)
