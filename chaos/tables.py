"""A journal, and the tables that `stomprelay-pipeline once` makes of it: compared row for row, as DuckDB sees them,
which shares nothing with the pipeline. Only `batch` may differ: which batch a row came with.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import duckdb

from bench import journals
from bench.machine import ROOT
from chaos.source import end
from chaos.verdict import Verdict
from stomprelay.pipeline.schema import TABLES
from tests.e2e.child import Child
from tests.pipeline.recorded_world import RecordedWorld

PATIENCE: Final = 900.0
"""Seconds that one run may take, on a busy machine."""
FILES: Final = 6
"""Segments in a batch, about."""
_PIECES: Final = 4


def journal(folder: Path, records: int, seed: int) -> int:
    """Segments of two relays under load and of others whose brokers die, and some that cannot be read as a whole;
    answers how many.
    """
    folder.mkdir()
    for number, trace in enumerate((True, False), start=1):
        made = journals.World(
            records // 2,
            relays=1,
            relay="r" if trace else "s",
            runs=1,
            deaths=0,
            trace=trace,
            bodies=0 if trace else 2000,
            seed=seed + number,
            segment=max(records * 10, 20_000),
            rate=records / 1500,  # some minutes, so that subscriptions get stuck
        )
        journals.make(folder, made)
    for number in range(_PIECES):
        world = RecordedWorld(seed * _PIECES + number)
        count = len(world.run.blocks)
        world.run.write(folder, [count // 3, 2 * count // 3])
    whole = sorted(folder.glob("*-r1-*.journal"))
    data = whole[1].read_bytes()
    middle = len(data) // 2
    whole[1].write_bytes(data[:middle] + b"damaged" + data[middle + 7 :])
    last = whole[-1].read_bytes()
    whole[-1].write_bytes(last[: len(last) - 11])
    (folder / "20261121T080000-r3-00000003-000001.journal").write_bytes(b"no segment")
    return len(list(folder.glob("*.journal")))


def files(tables: Path, table: str) -> list[str]:
    """A table's files, as Spark reads them: names with `_` or `.` in front do not count."""
    found = (tables / table).rglob("*.parquet")
    parts = ((path, path.relative_to(tables).parts) for path in found)
    return sorted(str(path) for path, names in parts if not any(each[0] in "_." for each in names))


def rows(tables: Path, table: str) -> int:
    """How many there are."""
    return _count(_select(tables, table)) if files(tables, table) else 0


def differences(one: Path, other: Path, table: str) -> tuple[int, int]:
    """Rows that are in `one` and not, or not as often, in `other`, and the other way round."""
    if not files(one, table) or not files(other, table):
        return rows(one, table), rows(other, table)
    left, right = _select(one, table), _select(other, table)
    return _count(f"{left} EXCEPT ALL {right}"), _count(f"{right} EXCEPT ALL {left}")


def _select(tables: Path, table: str) -> str:
    """All columns but `batch`, in the table's order."""
    names = ",".join(f"'{each}'" for each in files(tables, table))
    columns = ",".join(f'"{column.name}"' for column in TABLES[table].columns)
    columns = ",".join([columns, *(each.name for each in TABLES[table].partitions)])
    return f"SELECT {columns} FROM read_parquet([{names}], hive_partitioning=true, union_by_name=true)"


def _count(query: str) -> int:
    with duckdb.connect() as connection:
        answer = connection.execute(f"SELECT count(*) FROM ({query})").fetchone()
    assert answer is not None
    return int(answer[0])


def few(journal: Path) -> int:
    """Return the bytes of `FILES` segments of a journal, about."""
    sizes = [path.stat().st_size for path in journal.glob("*.journal")]
    return max(FILES * sum(sizes) // max(len(sizes), 1), 1)


def once(journal: Path, tables: Path) -> Child:
    """Start the pipeline as its users do, with small batches."""
    command = [sys.executable, "-m", "stomprelay.pipeline.cli", "once", "--master", "local[2]"]
    command += ["--bytes-per-batch", str(few(journal)), "--conf", "spark.driver.memory=768m"]
    command += ["--conf", "spark.sql.shuffle.partitions=1"]
    return Child("once", [*command, "--journal", str(journal), "--tables", str(tables)], cwd=ROOT)


def batches(tables: Path) -> int:
    """How many are done."""
    marks = (tables / "_checkpoint" / "parts").glob("done-*")
    return max((int(mark.name.removeprefix("done-")) + 1 for mark in marks), default=0)


def torn(tables: Path) -> bool:
    """Whether something is there of a batch that is not done."""
    # Unlike `rglob`, it does not mind folders that go while it looks.
    names = (name for _, folders, files in os.walk(tables) for name in (*folders, *files))
    numbers = (name.removeprefix("batch=") for name in names if name.startswith("batch="))
    return max((int(each) for each in numbers if each.isdigit()), default=-1) >= batches(tables)


def through(child: Child, within: float) -> bool:
    """Whether a run ends by itself in so many seconds. Raises `AssertionError` where it fails."""
    if not child.exited(within):
        return False
    assert child.stop() == 0, f"the pipeline failed:\n{child.last_words}"
    return True


class Undisturbed:
    """A journal in `home`, and the tables that nobody disturbed when they were made of it."""

    def __init__(self, home: Path, records: int, seed: int) -> None:
        self.journal, self.tables = home / "journal", home / "undisturbed"
        self._segments = journal(self.journal, records, seed)
        child = once(self.journal, self.tables)
        try:
            assert through(child, PATIENCE), f"it does not end:\n{child.last_words}"
        finally:
            end(child)
        self._batches = batches(self.tables)

    def verdict(self, title: str, folders: int, broken: Sequence[str]) -> Verdict:
        """Return what is said at the end: how often it got through, and which tables differ from these."""
        return Verdict(
            title,
            (
                ("segments, batches of an undisturbed run", f"{self._segments:,}, {self._batches:,}"),
                ("times that it got through", f"{folders:,}"),
                *((f"rows of {table}", f"{rows(self.tables, table):,}") for table in TABLES),
                ("tables that differ", f"{len(broken):,}"),
            ),
            tuple(broken),
        )


def compared(one: Path, other: Path, tables: Sequence[str]) -> list[str]:
    """In which tables they differ, in words."""
    found = []
    for table in tables:
        missing, more = differences(one, other, table)
        if missing or more:
            found.append(f"{other.name}: {table}: {missing:,} rows are missing, {more:,} should not be there")
    return found
