"""What keeps the tables small while batches go on: old hours dropped, small files joined."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from stomprelay.pipeline.store.batch import Batch
from stomprelay.pipeline.store.compaction import Compacted, compact, recover
from stomprelay.pipeline.store.retention import expire, hour_name
from stomprelay.pipeline.store.store import Store
from stomprelay.pipeline.store.volume import local

EVERY: Final = 16
"""Batches from one look for small files to the next."""
AGE: Final = timedelta(hours=2)
"""Hours that ended so long ago are not expected to get more rows."""


def begin(store: Store) -> None:
    """Before the first batch of a run: mend what the run before left when it was killed."""
    root = local(store.root)
    if root is not None:
        recover(root)


def after(batch: Batch, now: datetime) -> list[str]:
    """At the end of a batch, when all tables have it; `now` is in UTC. Answers what was done, in sentences."""
    told: list[str] = []
    batch.store.forget(batch.number)
    if batch.settings.retain is not None:
        told += _expired(batch.store, now, batch.settings.retain)
    if batch.number % EVERY == EVERY - 1:
        newest = max(batch.store.hours("frames"), default=None)
        if newest is not None:
            # The batch itself is not touched: Spark has not recorded it as done.
            before = hour_name(datetime.strptime(newest, "%Y-%m-%d-%H") - AGE)
            told += _compacted(compact(batch.store, before, batch.number))
    return told


def thorough(store: Store, now: datetime, retain: float | None = None) -> list[str]:
    """After the last batch of a run, when Spark has recorded it as done: all that can be done, in sentences."""
    told = [] if retain is None else [*_expired(store, now, retain)]
    return [*told, *_compacted(compact(store, hour_name(now - AGE)))]


def _expired(store: Store, now: datetime, retain: float) -> Iterator[str]:
    for name, hours in expire(store, now, retain).items():
        yield f"{name}: {len(hours)} hours up to {hours[-1]} dropped"


def _compacted(done: list[Compacted]) -> Iterator[str]:
    for one in done:
        yield f"{one.place}: {one.before} files made {one.after}"
