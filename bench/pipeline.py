"""From journal to tables: how fast, how that grows, what it takes; and DuckDB on the same tables."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from shutil import rmtree
from typing import Any, Final

from bench import goals, journals
from bench.aggregates import Answer
from bench.goals import Judged
from bench.machine import PATIENCE, ROOT, cpu_seconds, memory_kb, processes
from bench.report import figure, median, spread, table
from stomprelay.pipeline.store import layout

NAME: Final = "pipeline"

RECORDS: Final = (1_000_000, 5_000_000)
LONG: Final = (*RECORDS, 20_000_000)
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

HEADER: Final = (
    "records",
    "journal MiB",
    "tables MiB",
    "seconds",
    "records/s",
    "cost/before",
    "CPU us/record",
    "CPU/before",
    "Java MiB",
    "driver MiB",
    "worker MiB",
    "nothing new s",
)
ANSWERS: Final = (
    "question",
    "records",
    "rows",
    "cells",
    "Spark s",
    "DuckDB s",
    "Spark/DuckDB",
    "CPU/DuckDB's",
)


class PipelineError(Exception):
    """The pipeline failed, or its tables are not what is in the journal. The text says how."""


@dataclass(frozen=True)
class Peak:
    """The most memory in MiB: of Java, of the Python that started it, and of the largest of Python's workers."""

    java: float = 0.0
    driver: float = 0.0
    worker: float = 0.0

    def with_(self, java: float, driver: float, worker: float) -> "Peak":
        """The larger of each."""
        return Peak(max(self.java, java), max(self.driver, driver), max(self.worker, worker))


@dataclass(frozen=True)
class Once:
    """One run of `stomprelay-pipeline once`: seconds, and CPU seconds of all its processes."""

    seconds: float
    cpu: float
    peak: Peak


@dataclass(frozen=True)
class Step:
    """A journal of so many records made tables, that once more with nothing new, and questions to the tables. Sizes
    are octets.
    """

    records: int
    journal: int
    tables: int
    first: Once
    again: Once
    answers: tuple[Answer, ...]

    @property
    def rate(self) -> float:
        """Records a second, the start of Spark included."""
        return self.records / self.first.seconds

    @property
    def cost(self) -> float:
        """Seconds a record, without what a run takes that finds nothing."""
        return max(self.first.seconds - self.again.seconds, 0.0) / self.records

    @property
    def work(self) -> float:
        """CPU seconds a record, in the same way."""
        return max(self.first.cpu - self.again.cpu, 0.0) / self.records


def missing() -> str | None:
    """A package that is needed and not installed."""
    return next((name for name in ("pyspark", "pyarrow") if find_spec(name) is None), None)


def steps(*, quick: bool, long: bool = False) -> Sequence[int]:
    """How many records."""
    return LONG if long else QUICK if quick else RECORDS


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
    truth = journals.make(journal, world(records))
    first = _once(journal, tables)
    # Whoever closes what a dead relay left writes down that its run ended.
    found = truth.records + sum(truth.died.values())
    verify(tables, {"frames": found, "messages": truth.commands["SEND"]})
    again = _once(journal, tables)
    answers = _answers(tables)
    if not all(answer.duckdb for answer in answers):
        note("pipeline: DuckDB is left out: it is not installed (PyPI package duckdb)")
    return Step(truth.records, _size(journal), _size(tables), first, again, answers)


def world(records: int) -> journals.World:
    """Return what is made up: several relays in full segments, some of which die, for less than an hour."""
    return journals.World(records, rate=max(journals.World.rate, records / _WAITED), age=_AGE)


def _once(journal: Path, tables: Path) -> Once:
    command = ["from stomprelay.pipeline.cli import main; raise SystemExit(main())", "once"]
    given = ["--journal", str(journal), "--tables", str(tables)]
    given += ["--master", MASTER, "--conf", f"spark.driver.memory={HEAP}"]
    log = tables.with_name("once.log")
    began = time.perf_counter()
    with _started([sys.executable, "-c", *command, *given], log, log) as process:
        peak = Peak()
        workers: dict[int, float] = {}
        while True:
            kinds = _kinds(process.pid)
            peak = peak.with_(*_memory(kinds))
            workers |= _cpu([each for each, kind in kinds.items() if kind == _WORKER])
            ended, status, usage = os.wait4(process.pid, os.WNOHANG)
            if ended:
                break
            time.sleep(_SAMPLE)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise PipelineError(f"once ended with {process.returncode}:\n{_tail(log)}")
    # The process that starts the workers waits for none of them, so nobody has their time who is waited for.
    cpu = usage.ru_utime + usage.ru_stime + sum(workers.values())
    return Once(time.perf_counter() - began, cpu, peak)


def _answers(tables: Path) -> tuple[Answer, ...]:
    told, log = tables.with_name("answers.json"), tables.with_name("answers.log")
    command = [sys.executable, "-m", "bench.aggregates", str(tables), str(_ROUNDS)]
    with _started(command, told, log) as process:
        if process.wait():
            raise PipelineError(f"the tables do not answer:\n{_tail(log)}")
    answers = [json.loads(line) for line in told.read_text().splitlines()]
    return tuple(Answer(**{name: _frozen(found) for name, found in one.items()}) for one in answers)


def _frozen(found: Any) -> Any:
    return tuple(found) if isinstance(found, list) else found


@contextmanager
def _started(command: Sequence[str], out: Path, log: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """A child process, ended with us in any case: Spark's Java goes when the Python that started it has gone."""
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    with out.open("ab") as output, log.open("ab") as errors:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            env={**os.environ, "PYTHONPATH": path},
        )
    try:
        yield process
    finally:
        if process.returncode is None and process.poll() is None:
            process.terminate()
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _kinds(pid: int) -> dict[int, int]:
    """What each process of a driver is. Python's workers are started by one that Java started; what else Java starts
    is Java's for a moment, memory and all.
    """
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


def _memory(kinds: Mapping[int, int]) -> tuple[float, float, float]:
    """MiB of Java, of the driver and of the largest worker, as they are now."""
    most = [0.0] * 3
    for child, kind in kinds.items():
        with suppress(OSError, StopIteration):  # it has ended meanwhile
            most[kind] = max(most[kind], memory_kb(child) / 1024)
    return most[_JAVA], most[_DRIVER], most[_WORKER]


def verify(tables: Path, wanted: dict[str, int]) -> None:
    """Raise `PipelineError` where a table has not as many rows as it must."""
    from pyarrow import parquet

    for name, count in wanted.items():
        files = (tables / name).glob(f"{layout.HOURS}/batch=*/*.parquet")
        found = sum(parquet.read_metadata(file).num_rows for file in files)
        if found != count:
            raise PipelineError(f"{name} has {found:,} rows, not {count:,}")


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _tail(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-15:])


def report(found: Sequence[Step]) -> str:
    """What it costs and how that grows, and the same questions to Spark and to DuckDB."""
    rows = []
    for before, step in zip([None, *found], found, strict=False):
        growth = step.cost / before.cost if before is not None and before.cost else None
        more = step.work / before.work if before is not None and before.work else None
        rows.append(
            [
                f"{step.records:,}",
                figure(step.journal / 2**20),
                figure(step.tables / 2**20),
                figure(step.first.seconds),
                figure(step.rate),
                figure(growth),
                figure(step.first.cpu / step.records * 1e6),
                figure(more),
                figure(step.first.peak.java),
                figure(step.first.peak.driver),
                figure(step.first.peak.worker),
                figure(step.again.seconds),
            ]
        )
    answers = [
        [
            answer.name,
            f"{step.records:,}",
            f"{answer.rows:,}",
            f"{answer.cells:,}",
            figure(min(answer.spark)),
            figure(min(answer.duckdb, default=None)),
            figure(_ratio(answer.spark, answer.duckdb)),
            figure(_ratio(answer.spark_cpu, answer.duckdb_cpu)),
        ]
        for step in found
        for answer in step.answers
    ]
    return "\n".join(
        [
            table(f"pipeline: from journal to tables, `once`, {MASTER}, {HEAP} of heap", HEADER, rows),
            table("pipeline: the same questions to the same Parquet files", ANSWERS, answers),
        ]
    )


def judged(found: Sequence[Step]) -> list[Judged]:
    """What is to be reached: of the largest journal, and how the cost of a record grew up to it."""
    if not found:
        return []
    last, peaks = found[-1], [step.first.peak for step in found]
    what = f"pipeline, {last.records:,} records"
    grown = [last.work / found[0].work] if len(found) > 1 and found[0].work else []
    made = [
        Judged(what, "records/s", None, spread([last.rate]), goals.PIPELINE_RATE),
        Judged(what, f"CPU/record over {found[0].records:,}", None, spread(grown), goals.PIPELINE_GROWTH),
        Judged(what, "Java MiB", None, spread([max(peak.java for peak in peaks)]), goals.PIPELINE_JAVA),
        Judged(what, "worker MiB", None, spread([max(peak.worker for peak in peaks)]), goals.PIPELINE_WORKER),
    ]
    for answer in last.answers:
        over = _ratio(answer.spark, answer.duckdb)
        best = min(answer.duckdb, default=None)
        found_ratio = None if over is None else spread([over])
        made.append(
            Judged(f"{answer.name} by Spark", "over DuckDB", best, found_ratio, goals.PIPELINE_ANSWER)
        )
    return made


def _ratio(ours: Sequence[float], theirs: Sequence[float]) -> float | None:
    """The median of the rounds' ratios."""
    return median([one / other for one, other in zip(ours, theirs, strict=False) if other])
