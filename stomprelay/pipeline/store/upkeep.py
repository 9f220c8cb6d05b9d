"""Allows one run at a time, and keeps the tables small: removes old hours and joins small files."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from stomprelay.journal import disk
from stomprelay.pipeline.schema import TABLES
from stomprelay.pipeline.store import layout
from stomprelay.pipeline.store.compaction import Shown, compact, recover, unshown
from stomprelay.pipeline.store.store import DROPPED, OPEN, STAGING, Batch, Store, StoreError, batch_name
from stomprelay.pipeline.store.volume import local

EVERY: Final = 16
"""Small files are joined after every so many batches."""
AGE: Final = timedelta(hours=2)
"""No more rows are expected for an hour that ended this long before the newest hour."""
_HALF: Final = (".spark-staging-*", f"{STAGING}*", "_temporary")
"""Folders of half-written files."""
_LOCK: Final = "_lock"


@contextmanager
def alone(folder: Path | None) -> Iterator[None]:
    """Keep other runs from the tables in this folder while the context is entered. Without a folder (the tables are on
    another machine) do nothing. Raises `StoreError` if another run is at work, or the folder cannot be made.
    """
    if folder is None:
        yield
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / _LOCK).open("ab")
    except OSError as error:
        raise StoreError(f"the tables in {folder} cannot be written: {error.strerror}") from None
    with file:
        if disk.lock(file.fileno(), wait=False) is False:
            raise StoreError(f"another run is at work on the tables in {folder}")
        yield


def hour_name(time: datetime) -> str:
    """Return the name of the hour of a time in UTC, as in `hour=2026-11-21-08`."""
    return f"{time:%Y-%m-%d-%H}"


def expire(store: Store, now: datetime, keep: float) -> dict[str, list[str]]:
    """Remove the hours that ended more than `keep` seconds before `now`, from all tables and their sums. Return the
    removed hours by table. `now` is the UTC time of the clock, so a journal that is no longer written gets old, too.

    What the pipeline needs for open messages is never removed. If records of a removed hour come later, such as from a
    relay that was cut off for days, the hour is made again and stays until the next call.
    """
    before = hour_name(now - timedelta(seconds=keep))
    gone = {}
    for table in TABLES.values():
        if table.hourly:
            gone[table.name] = store.expire(table.name, before)
    store.expire_sums(before)
    return {name: hours for name, hours in gone.items() if hours}


def begin(store: Store, finished: int) -> bool:
    """Remove what a killed run left: half-written files, and all files of the batch after `finished`, the last batch
    that is done. That next batch is written again, and with other settings it may have other hours. Return whether it
    was begun before. Call this function before the first batch of a run, while the lock of `alone` is held. Raises
    `OSError`.
    """
    root = local(store.root)
    if root is not None:
        recover(root)
    volume = store.volume
    half = [f"{place}/{name}" for place in ("*", "_sums/*", "_state/*") for name in _HALF]
    left = [path for each in half for path in volume.find(store.root, each)]
    begun = bool(left) or store.newest() > finished
    if begun:
        name = batch_name(finished + 1)
        tables = [each for each in TABLES.values() if each.incremental]
        places = [f"{each.name}/{layout.HOURS}" if each.hourly else each.name for each in tables]
        for place in (*places, "_sums/*/hour=*"):
            for which in (name, f"{OPEN}-{name}-*"):
                left += volume.find(store.root, f"{place}/batch={which}")
    # Half-written files are removed last: they show that others may be left.
    for path in (*reversed(left), f"{store.root}/{DROPPED}"):
        volume.remove(path)
    return begun


def after(
    batch: Batch, now: datetime, shown: Shown = unshown, held_back: Callable[[], str | None] = lambda: None
) -> list[str]:
    """Remove old state and old hours. After every `EVERY` batches, join small files, too. Call it at the end of a
    batch, when all tables are written. `now` is in UTC; `shown` is as in `compact`. `held_back` returns the first hour
    whose rows must stay in files of their batch. Return sentences for the log. Raises `CompactionError` and `OSError`.
    """
    told: list[str] = []
    batch.store.forget(batch.number)
    if batch.settings.retain is not None:
        told += _expired(batch.store, now, batch.settings.retain)
    if batch.number % EVERY == EVERY - 1:
        newest = max(batch.store.hours("frames"), default=None)
        if newest is not None:
            # Files of this batch stay as they are: Spark has not recorded the batch as done.
            before = hour_name(datetime.strptime(newest, "%Y-%m-%d-%H") - AGE)
            told += _joined(batch.store, min(before, held_back() or before), batch.number, shown)
        batch.store.sweep(now)
    return told


def thorough(store: Store, now: datetime, retain: float | None = None, shown: Shown = unshown) -> list[str]:
    """After the last batch, remove old hours and join small files. Return and raise what `after` does."""
    told = [] if retain is None else [*_expired(store, now, retain)]
    told += _joined(store, hour_name(now - AGE), None, shown)
    store.sweep(now)
    return told


def _expired(store: Store, now: datetime, retain: float) -> Iterator[str]:
    for name, hours in expire(store, now, retain).items():
        yield f"{name}: {len(hours)} hours up to {hours[-1]} dropped"


def _joined(store: Store, before: str, below: int | None, shown: Shown) -> Iterator[str]:
    for one in (*store.tidy(before), *compact(store, before, below, shown)):
        yield f"{one.place}: {one.before} files made {one.after}"


def migrate(store: Store, slices: Mapping[str, str], shown: Shown = unshown) -> bool:
    """Migrate tables of the earlier layout to the present layout. Other tables stay as they are. Return whether the
    tables had the earlier layout. `slices` has the schemas, by name, of kept slices that have columns of tables. If a
    call is cut short, the next call continues. The last step writes the file `layout.NAME`. Until then the tables have
    the earlier layout, and readers know both. The caller must hold the lock of `alone`. Raises `OSError` and what
    `Store.check` raises.
    """
    store.check(migrates=True)
    if not store.is_before:
        return False
    path = f"{store.root}/{layout.NAME}"
    there = layout.told(store.volume.text(path))
    assert there is not None
    root = local(store.root)
    if root is not None:
        recover(root)  # Otherwise an hour that compaction had moved away would be left out.
    for number, table in enumerate(TABLES.values()):
        shown(number, len(TABLES) + 1)
        if layout.both(table.ddl) != table.ddl:
            store.rename_columns(table)
    shown(len(TABLES), len(TABLES) + 1)
    for name, schema in slices.items():
        store.rename_slices(name, schema)
    store.volume.put(path, layout.text(store.format, there.headers))
    store.check()
    return True
