"""From journal to tables: how fast, how that grows, what it takes; and DuckDB on the same tables."""

import json
import resource
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from shutil import rmtree
from typing import Final

from bench import goals, journals
from bench.aggregates import Answer
from bench.goals import Judged
from bench.machine import cpu_seconds, memory_kb, processes, started
from bench.report import median, spread
from stomprelay.pipeline.store import layout
from tests.e2e.child import Child

NAME: Final = "pipeline"

RECORDS: Final = (1_000_000, 5_000_000)
QUICK: Final = (200_000,)
_SAMPLE: Final = 0.25
"""Seconds between two looks at the memory."""
_ROUNDS: Final = 7
"""Of questions: in the first ones Java still compiles."""
_JAVA, _DRIVER, _WORKER = range(3)

MASTER: Final = "local[2]"
HEAP: Final = "2g"
"""Of the driver's Java, in which the tasks run, too."""
_WAITED: Final = 3000
"""Seconds that a journal takes at most, so that no message is given up."""
_AGE: Final = 3600.0


class PipelineError(Exception):
    """The pipeline failed, or its tables are not what is in the journal. The text says how."""


@dataclass(frozen=True)
class Once:
    """One run of `once`: seconds, CPU seconds of all processes, and the most MiB of Java and of a Python worker."""

    seconds: float
    cpu: float
    java: float
    worker: float


@dataclass(frozen=True)
class Step:
    """A journal of so many records made tables, that once more with nothing new, and questions to the tables."""

    records: int
    first: Once
    again: Once
    answers: tuple[Answer, ...]

    @property
    def work(self) -> float:
        """CPU seconds a record, without what a run takes that finds nothing."""
        return max(self.first.cpu - self.again.cpu, 0.0) / self.records


def missing() -> str | None:
    """A package that is needed and not installed."""
    return next((name for name in ("pyspark", "pyarrow") if find_spec(name) is None), None)


def measure(directory: Path, wanted: Sequence[int], note: Callable[[str], None]) -> list[Step]:
    """Each size in a folder of its own, which is removed again. Raises `PipelineError`."""
    found = []
    for records in wanted:
        place = directory / f"pipeline-{records}"
        try:
            found.append(_step(place, records, note))
        finally:
            rmtree(place, ignore_errors=True)
    return found


def _step(place: Path, records: int, note: Callable[[str], None]) -> Step:
    journal, tables = place / "journal", place / "tables"
    journal.mkdir(parents=True)
    truth = journals.make(journal, _world(records))
    first = _once(journal, tables)
    # Whoever closes what a dead relay left writes down that its run ended.
    found = truth.records + sum(truth.died.values())
    verify(tables, {"frames": found, "messages": truth.commands["SEND"]})
    again = _once(journal, tables)
    answers = _answers(tables)
    if not all(answer.duckdb for answer in answers):
        note("pipeline: DuckDB is left out: it is not installed (PyPI package duckdb)")
    return Step(truth.records, first, again, answers)


def _world(records: int) -> journals.World:
    """Return what is made up: several relays in full segments, some of which die, for less than an hour."""
    return journals.World(records, rate=max(journals.World.rate, records / _WAITED), age=_AGE)


def _once(journal: Path, tables: Path) -> Once:
    command = [sys.executable, "-m", "stomprelay.pipeline.cli", "once"]
    command += ["--journal", str(journal), "--tables", str(tables)]
    command += ["--master", MASTER, "--conf", f"spark.driver.memory={HEAP}"]
    began, before = time.perf_counter(), _ended()
    child = started("once", command, tables.parent)
    java = worker = 0.0
    workers: dict[int, float] = {}
    try:
        while not child.exited(_SAMPLE):
            kinds = _kinds(child.pid)
            java, worker = max(java, _memory(kinds, _JAVA)), max(worker, _memory(kinds, _WORKER))
            workers |= _cpu([each for each, kind in kinds.items() if kind == _WORKER])
    finally:
        _ends_well(child)
    # The process that starts the workers waits for none of them, so nobody has their time who is waited for.
    return Once(time.perf_counter() - began, _ended() - before + sum(workers.values()), java, worker)


def _ended() -> float:
    """Return the CPU seconds of all children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _ends_well(child: Child) -> None:
    """End a child with us in any case. Raises `PipelineError` with its last words when it failed."""
    if status := child.stop():
        raise PipelineError(f"{child.name} ended with {status}:\n{child.last_words}")


def _answers(tables: Path) -> tuple[Answer, ...]:
    command = [sys.executable, "-m", "bench.aggregates", str(tables), str(_ROUNDS)]
    child = started("questions", command, tables.parent)
    try:
        while not child.exited(within=1.0):
            pass
    finally:
        _ends_well(child)
    return tuple(Answer(**json.loads(line)) for line in child.output.splitlines() if line.startswith("{"))


def _kinds(pid: int) -> dict[int, int]:
    """What each process of a driver is. What Java starts is a Python worker, or for a moment Java's, memory and all."""
    family: dict[int, list[tuple[int, str]]] = {}
    for child, parent, name in processes():
        family.setdefault(parent, []).append((child, name))
    kinds = {pid: _DRIVER}
    waiting = [pid]
    while waiting:
        parent = waiting.pop()
        for child, name in family.get(parent, ()):
            if not (kinds[parent] == _JAVA and name == "java"):
                kinds[child] = _JAVA if name == "java" else _WORKER
                waiting.append(child)
    return kinds


def _cpu(pids: Sequence[int]) -> dict[int, float]:
    """CPU seconds of these processes until now."""
    found = {}
    for each in pids:
        with suppress(OSError, IndexError):  # it has ended meanwhile
            found[each] = cpu_seconds(each)
    return found


def _memory(kinds: Mapping[int, int], wanted: int) -> float:
    """Return the MiB of the largest process of a kind, as they are now."""
    most = 0.0
    for child, kind in kinds.items():
        with suppress(OSError, StopIteration):  # it has ended meanwhile
            most = max(most, memory_kb(child) / 1024 if kind == wanted else 0.0)
    return most


def verify(tables: Path, wanted: dict[str, int]) -> None:
    """Raise `PipelineError` where a table has not as many rows as it must."""
    from pyarrow import parquet

    for name, count in wanted.items():
        files = (tables / name).glob(f"{layout.HOURS}/batch=*/*.parquet")
        found = sum(parquet.read_metadata(file).num_rows for file in files)
        if found != count:
            raise PipelineError(f"{name} has {found:,} rows, not {count:,}")


def judged(found: Sequence[Step]) -> list[Judged]:
    """What is to be reached: of the largest journal, and how the cost of a record grew up to it."""
    if not found:
        return []
    last, runs = found[-1], [step.first for step in found]
    what = f"pipeline, {last.records:,} records"
    grown = [last.work / found[0].work] if len(found) > 1 and found[0].work else []
    made = [
        Judged(what, "records/s", None, spread([last.records / last.first.seconds]), goals.PIPELINE_RATE),
        Judged(what, f"CPU/record over {found[0].records:,}", None, spread(grown), goals.PIPELINE_GROWTH),
        Judged(what, "Java MiB", None, spread([max(run.java for run in runs)]), goals.PIPELINE_JAVA),
        Judged(what, "worker MiB", None, spread([max(run.worker for run in runs)]), goals.PIPELINE_WORKER),
    ]
    for answer in last.answers:
        best = min(answer.duckdb, default=None)
        over = median([one / other for one, other in zip(answer.spark, answer.duckdb, strict=False)])
        ratio = None if over is None else spread([over])
        made.append(Judged(f"{answer.name} by Spark", "over DuckDB", best, ratio, goals.PIPELINE_ANSWER))
    return made
