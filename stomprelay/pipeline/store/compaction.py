"""Joins the small files of an hour.

A batch writes files of its own, so that the batch can be done again; after a day there are thousands of files. The
rows of an hour's small files are written to a few new files, in a hidden place beside the tables, together with links
to the large files. Then this new folder and the folder of the hour change places. On Linux that is one step
(`renameat2`): a reader that lists the hour sees all old files or all new files, and after a crash the old or the new
files are there. A query that had listed the old files and opens them afterwards fails with "file not found" and must
be run again; it never reads a row twice or misses a row. Where the system cannot exchange folders, the hour is missing
for a moment. After a crash in that moment the hour is missing until `recover` is called.
"""

import ctypes
import errno
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pyarrow import parquet

from stomprelay.journal.disk import sync_path
from stomprelay.pipeline.schema import TABLES, Table
from stomprelay.pipeline.store import layout
from stomprelay.pipeline.store.store import OPEN, Compacted, Store
from stomprelay.pipeline.store.volume import literal, local

LARGE: Final = 128 << 20
"""A joined file has about so many bytes."""
SMALL: Final = 32 << 20
"""A batch's folder with fewer bytes than this is joined with others."""
FEW: Final = 4
"""An hour with at most so many small files is left as it is."""

PLACE: Final = "_compact"
_NAME: Final = re.compile(r"batch=(\d+)(?:-(\d+))?")
_AT_FDCWD: Final = -100
_RENAME_EXCHANGE: Final = 2
_MARK: Final = "mapreduce.fileoutputcommitter.marksuccessfuljobs"
_CANNOT: Final = frozenset({errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EPERM})


class CompactionError(Exception):
    """The joined files do not have the rows of the old files. The old files are left as they were."""


@dataclass(frozen=True)
class _Folder:
    """The files of an hour that one batch wrote, or joined files of batches `first` to `last`; `size` is in bytes."""

    path: Path
    first: int
    last: int
    files: tuple[Path, ...]
    size: int


Shown = Callable[[int, int], None]
"""A function that is called with the number of hours that were looked at, and the number of all hours."""


def unshown(_: int, __: int) -> None:
    """Do nothing: no progress is shown."""


def compact(store: Store, before: str, below: int | None = None, shown: Shown = unshown) -> list[Compacted]:
    """Join the small files of the hours before `before` (a name as `hour_name` returns it). Return the hours that were
    changed; none if the tables are on another machine, or are not Parquet.

    With `below`, only files of batches with lower numbers are joined, because Spark may do later batches again. The
    caller must hold the lock of `upkeep.alone`: no other process may write to these tables meanwhile. Raises
    `CompactionError` and `OSError`; then the hours that are not done are as they were.
    """
    root = local(store.root)
    if root is None or store.format != "parquet":
        return []
    recover(root)
    done = []
    hours = [hour for hour in _hours(root) if layout.hour_at(str(hour)) < before]
    for number, hour in enumerate(hours):
        shown(number, len(hours))
        told = _join(store, root, hour, below)
        if told is not None:
            done.append(told)
    shutil.rmtree(root / PLACE, ignore_errors=True)
    return done


def recover(root: Path) -> None:
    """Put back hours that a killed run had moved away. The lock of `upkeep.alone` must be held. Raises `OSError`."""
    place = root / PLACE
    for old in sorted(place.glob("**/hour=*/old")):
        hour = root / old.parent.relative_to(place)
        if not hour.exists():
            old.rename(hour)
    shutil.rmtree(place, ignore_errors=True)


def _hours(root: Path) -> Iterator[Path]:
    """Yield the hour folders of all tables to which batches add rows."""
    for table in TABLES.values():
        if table.incremental and table.hourly:
            yield from sorted(
                (root / table.name).glob(layout.HOURS), key=lambda one: layout.hour_at(str(one))
            )


def _join(store: Store, root: Path, hour: Path, below: int | None) -> Compacted | None:
    """Join the small files of one hour. Return what was done; None if there is nothing to do."""
    names = os.listdir(hour)
    if any(name.startswith(f"batch={OPEN}") for name in names) or (
        len(names) == 1 and "-" in names[0].removeprefix("batch=")
    ):
        return None
    folders = list(_folders(hour))
    small = [one for one in folders if one.size < SMALL and (below is None or one.last < below)]
    before = sum(len(one.files) for one in small)
    if before <= max(FEW, -(-sum(one.size for one in small) // LARGE)):
        return None
    name = f"batch={min(one.first for one in small):09d}-{max(one.last for one in small):09d}"
    work = root / PLACE / hour.relative_to(root)
    new = work / "new"
    after = _write(store, TABLES[hour.relative_to(root).parts[0]], small, new / name)
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


def _write(store: Store, table: Table, folders: Sequence[_Folder], target: Path) -> int:
    """Write the rows of these folders, sorted by time, to a new folder. Return the number of its files. Raises
    `CompactionError`.
    """
    files = [file for one in folders for file in one.files]
    rows = store.spark.read.schema(table.ddl).parquet(*(literal(str(file)) for file in files))
    count = max(round(sum(one.size for one in folders) / LARGE), 1)
    rows = rows.coalesce(1) if count == 1 else rows.repartitionByRange(count, "seen_at")
    rows.sortWithinPartitions("seen_at").write.option(_MARK, "false").parquet(str(target))
    made = [*target.glob("part-*")]
    found, wanted = _rows(made), _rows(files)
    if found != wanted:
        raise CompactionError(f"{target} has {found} rows in place of {wanted}")
    return len(made)


def _rows(files: Iterable[Path]) -> int:
    return sum(parquet.read_metadata(file).num_rows for file in files)


def _link(folder: _Folder, target: Path) -> None:
    target.mkdir(parents=True)
    for file in folder.files:
        try:
            os.link(file, target / file.name)
        except OSError:
            shutil.copy2(file, target / file.name)


def swap(new: Path, place: Path, old: Path) -> None:
    """Put the folder `new` at `place`. The caller must remove the old folder, at `new` or `old`. Raises `OSError`."""
    if not exchange(new, place):
        place.rename(old)
        new.rename(place)


def exchange(one: Path, other: Path) -> bool:
    """Exchange two folders in one step. Return False if the system cannot do this. Raises `OSError`."""
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "renameat2"):
        return False
    if libc.renameat2(_AT_FDCWD, bytes(one), _AT_FDCWD, bytes(other), _RENAME_EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in _CANNOT:
        return False
    raise OSError(number, os.strerror(number), str(other))
