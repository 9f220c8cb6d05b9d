"""Many small files of an hour made few.

A batch writes files of its own, so that it can be done again; after a day there are thousands. An hour's small ones
are written anew as few in a hidden place beside the tables, together with links to the large ones, and then the two
folders of the hour change places. On Linux that is one step (`renameat2`): who lists the hour sees the old files or
the new ones, all of them, and a crash leaves one or the other. A query that had listed the old ones and opens them
afterwards fails with "file not found" and has to be run again; it never reads a row twice or misses one. Where the
system cannot exchange folders, the hour is not there for a moment, and after a crash in it until `recover`.
"""

import ctypes
import errno
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from stomprelay.journal.disk import sync_path
from stomprelay.pipeline.schema import TABLES
from stomprelay.pipeline.store.store import FILES, OPEN, Store
from stomprelay.pipeline.store.volume import literal, local

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LARGE: Final = 128 << 20
"""Bytes of a file that is made, about."""
SMALL: Final = 32 << 20
"""The folder of a batch with fewer bytes is joined to others."""
FEW: Final = 4
"""So many small files of an hour stay as they are."""
FEW_DELTAS: Final = 32
"""So many small files of deltas that only the pipeline reads; more make each batch slower."""

PLACE: Final = "_compact"
_DELTAS: Final = "_deltas"
_NAME: Final = re.compile(r"batch=(\d+)(?:-(\d+))?")
_AT_FDCWD: Final = -100
_RENAME_EXCHANGE: Final = 2
_CANNOT: Final = frozenset({errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EPERM})


class CompactionError(Exception):
    """What was written anew is not what was there; that stays as it was."""


@dataclass(frozen=True)
class Compacted:
    """An hour of a table, by its folder below the tables, and how many files it had and has."""

    place: str
    before: int
    after: int


@dataclass(frozen=True)
class _Folder:
    """What a batch, or several, wrote to an hour."""

    path: Path
    first: int
    last: int
    files: tuple[Path, ...]
    size: int


def compact(store: Store, before: str, below: int | None = None) -> list[Compacted]:
    """Join the small files of the hours before this one, and deltas of any hour of which there are many.

    Nobody else may write to these tables meanwhile. Only what batches `below` this number wrote is touched: Spark may
    do this one again. None: Spark has recorded all of them as done. Raises `CompactionError` and `OSError`; what is
    not done then is as it was. Only folders of this machine's can be done, and only of formats that are mere files:
    other formats have their own means.
    """
    root = local(store.root)
    if root is None or store.format not in FILES:
        return []
    recover(root)
    done = []
    for hour in _hours(root):
        is_delta = hour.parent.parent.name == _DELTAS
        name = hour.name.partition("=")[2]
        few = FEW if name < before else FEW_DELTAS
        if is_delta or name < before:
            form = "parquet" if is_delta else store.format
            told = _join(store.spark, form, root, hour, few, below)
            if told is not None:
                done.append(told)
    shutil.rmtree(root / PLACE, ignore_errors=True)
    return done


def recover(root: Path) -> None:
    """Put back what a run that was cut short had taken away, and remove what it left. No other run may be at work."""
    place = root / PLACE
    for old in sorted(place.glob("**/hour=*/old")):
        hour = root / old.parent.relative_to(place)
        if not hour.exists():
            old.rename(hour)
    shutil.rmtree(place, ignore_errors=True)


def _hours(root: Path) -> Iterator[Path]:
    """The hours of all tables to which batches add, and of the deltas."""
    for table in TABLES.values():
        if table.incremental and "hour" in table.partitions:
            yield from sorted((root / table.name).glob("hour=*"))
    yield from sorted((root / _DELTAS).glob("*/hour=*"))


def _join(
    spark: "SparkSession", form: str, root: Path, hour: Path, few: int, below: int | None
) -> Compacted | None:
    """Do one hour; None when there is nothing to do."""
    names = os.listdir(hour)
    if f"batch={OPEN}" in names or (len(names) == 1 and "-" in names[0].removeprefix("batch=")):
        return None
    folders = list(_folders(hour))
    small = [one for one in folders if one.size < SMALL and (below is None or one.last < below)]
    before = sum(len(one.files) for one in small)
    count = -(-sum(one.size for one in small) // LARGE)
    if before <= max(few, count):
        return None
    name = f"batch={min(one.first for one in small):09d}-{max(one.last for one in small):09d}"
    work = root / PLACE / hour.relative_to(root)
    new = work / "new"
    after = _write(spark, form, [one.path for one in small], new / name, count)
    kept = [one for one in folders if one not in small]
    for one in kept:
        _link(one, new / one.path.name)
    for path in (*new.rglob("*"), new):
        sync_path(path)
    swap(new, hour, work / "old")
    sync_path(hour.parent)
    shutil.rmtree(work)
    large = sum(len(one.files) for one in kept)
    return Compacted(str(hour.relative_to(root)), before + large, after + large)


def _folders(hour: Path) -> Iterator[_Folder]:
    for path in sorted(hour.iterdir()):
        name = _NAME.fullmatch(path.name)
        if name is not None:
            files = tuple(sorted(one for one in path.iterdir() if not one.name.startswith(("_", "."))))
            size = sum(one.stat().st_size for one in files)
            yield _Folder(path, int(name[1]), int(name[2] or name[1]), files, size)


def _write(spark: "SparkSession", form: str, folders: Sequence[Path], target: Path, count: int) -> int:
    """Write the rows of these folders to one; returns how many files it has."""
    merged = {"mergeSchema": "true"} if form in {"parquet", "orc"} else {}
    rows = spark.read.format(form).options(**merged).load([literal(str(path)) for path in folders])
    order = [name for name in ("ns", "at", "minute") if name in rows.columns][:1]
    fewer = rows.coalesce(max(count, 1))
    (fewer.sortWithinPartitions(*order) if order else fewer).write.format(form).save(str(target))
    (target / "_SUCCESS").unlink(missing_ok=True)
    found = spark.read.format(form).load(literal(str(target))).count()
    if found != rows.count():
        raise CompactionError(f"{target} has {found} rows in place of {rows.count()}")
    return sum(1 for one in target.iterdir() if not one.name.startswith(("_", ".")))


def _link(folder: _Folder, target: Path) -> None:
    target.mkdir(parents=True)
    for file in folder.files:
        try:
            os.link(file, target / file.name)
        except OSError:
            shutil.copy2(file, target / file.name)


def swap(new: Path, place: Path, old: Path) -> None:
    """Put `new` in the place of a folder. What was there is then either in `new` or in `old`."""
    if not exchange(new, place):
        place.rename(old)
        new.rename(place)


def exchange(one: Path, other: Path) -> bool:
    """Let two folders change places in one step; whether this system can do it. Raises `OSError`."""
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "renameat2"):
        return False
    if libc.renameat2(_AT_FDCWD, bytes(one), _AT_FDCWD, bytes(other), _RENAME_EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in _CANNOT:
        return False
    raise OSError(number, os.strerror(number), str(other))
