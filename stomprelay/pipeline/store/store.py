"""The tables on disk: what a batch adds, what it writes anew, and what it leaves for the next.

    <root>/<table>/hour=H/batch=N/     rows that stay, one folder for each batch
    <root>/<table>/hour=H/             tables that are written anew, hour by hour
    <root>/_deltas/<name>/hour=H/batch=N/   what a batch adds to an hour that is folded from such
    <root>/_state/<name>/batch=N       what a batch leaves for the next: a folder of rows, or a file of text

Whatever is written for a batch takes the place of what was written for the same batch before, so a batch that was cut
short is simply done again. Readers skip names that begin with an underscore.

`Batch` is what a step is given to write with; `Lock` keeps two runs apart.
"""

import fcntl
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, NamedTuple
from uuid import uuid4

from stomprelay.pipeline.schema import TABLES, Table
from stomprelay.pipeline.settings import Settings
from stomprelay.pipeline.store import layout
from stomprelay.pipeline.store.volume import Volume, absolute, literal

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


OPEN: Final = "open"
"""Used in place of a batch's number: rows that the next batch replaces."""
_STATE: Final = "parquet"
_DROPPED: Final = "_dropped"


_NAME: Final = "_lock"


class StoreError(Exception):
    """The tables cannot be used as they are. The text tells the user why."""


def batch_name(batch: int | str) -> str:
    """Return a batch's number padded with zeros for a folder's name, so that names sort like numbers; `OPEN`
    stays as it is.
    """
    return batch if isinstance(batch, str) else f"{batch:09d}"


class Compacted(NamedTuple):
    """An hour that was compacted: its folder relative to the root, and its number of files before and after."""

    place: str
    before: int
    after: int


class Store:
    """The tables under one root: a path, or a URI that Spark understands. They are files in folders; `format` is that
    of the files, as Spark calls it. `formats.opened` returns the store for any format.
    """

    def __init__(self, spark: "SparkSession", root: str, format: str = "parquet") -> None:
        self.spark = spark
        self.volume = Volume(spark)
        self.root = absolute(root).rstrip("/") or "/"
        self.format = format

    # ------------------------------------------------------------------ tables

    def append(self, table: str, batch: int, rows: "DataFrame", **options: str) -> None:
        """Write the rows of a batch. They need the table's columns and, if the table has hours, the column
        `hour`. `options` are passed to the format's writer.
        """
        self._write(TABLES[table], self._named(TABLES[table], rows, batch_name(batch)), **options)

    def replace(self, table: str, rows: "DataFrame", hours: Iterable[str] = ()) -> None:
        """Replace each hour that `rows` has rows for, and remove the hours in `hours` that it has none for.
        Other hours stay. Where `hours` are given, all that the table and `rows` have in common are among them.
        """
        named = self._named(TABLES[table], rows, None)
        places = [f"{self.root}/{table}/hour={hour}" for hour in sorted(set(hours))]
        before = self._files(places)
        self._write(TABLES[table], named)
        for folder in self._untouched(before):
            self._remove_at_once(folder)

    def replace_open(self, batch: int, rows: "DataFrame", table: str = "messages") -> None:
        """Write the rows of a batch. The rows whose `final` is false replace all such rows written before, in
        every hour.
        """
        from pyspark.sql import functions as f

        which = f.when(f.col("final"), f.lit(batch_name(batch))).otherwise(f.lit(OPEN))
        named = self._named(TABLES[table], rows, which)
        before = self._files(self._find(f"{table}/hour=*/batch={OPEN}"))
        self._write(TABLES[table], named)
        for folder in self._untouched(before):
            self.volume.remove(folder)

    def read(
        self, table: str, hours: Iterable[str] | None = None, batch: int | str | None = None
    ) -> "DataFrame":
        """Return the rows of a table, only of these hours and this batch (a number or `OPEN`) if they are
        given. They have the table's columns, `hour`, and `batch` if the table has batches. A table that was
        not written yet is empty.
        """
        known = TABLES[table]
        partitions = self._partitions(known)
        return self._read(self.format, f"{self.root}/{table}", known.ddl, partitions, hours, batch)

    def drop(self, table: str, hours: Iterable[str]) -> None:
        """Remove these hours; those that do not exist are skipped. Each one disappears in one step for
        readers that list the table.
        """
        for hour in hours:
            self._remove_at_once(f"{self.root}/{table}/hour={hour}")

    def hours(self, table: str) -> list[str]:
        """Return the names of the hours that a table has, sorted."""
        return sorted(path.rpartition("hour=")[2] for path in self._find(f"{table}/hour=*"))

    def hours_of(self, table: str, batch: int | str) -> set[str]:
        """Return the names of the hours to which this batch (a number or `OPEN`) wrote rows of a table."""
        found = self._find(f"{table}/hour=*/batch={batch_name(batch)}")
        return {path.rpartition("hour=")[2].partition("/")[0] for path in found}

    def wrote(self, table: str, batch: int) -> bool:
        """Return whether a batch wrote rows to a table without hours, as far as that is known without reading
        it.
        """
        return bool(self._find(f"{table}/batch={batch_name(batch)}"))

    def expire(self, table: str, before: str) -> list[str]:
        """Remove the hours before this one. Return the names of those removed."""
        old = [hour for hour in self.hours(table) if hour < before]
        self.drop(table, old)
        return old

    def expire_deltas(self, before: str) -> None:
        """Remove the deltas of the hours before this one."""
        for path in self._find("_deltas/*/hour=*"):
            if path.rpartition("hour=")[2] < before:
                self._remove_at_once(path)

    def tidy(self, before: str) -> Iterable[Compacted]:
        """Join the files of the hours before `before` that have many, as far as the format has means of its own.
        Return those hours. The caller must hold the `Lock`.
        """
        return ()

    def sweep(self, now: datetime) -> None:
        """Remove, once a day, the files that a format keeps for who reads older versions, when they are too old."""

    # ------------------------------------------------------------------ deltas and state

    def delta(self, name: str, batch: int, rows: "DataFrame") -> None:
        """Write what a batch adds to the hours of a folded table. The rows have `hour`."""
        from pyspark.sql import functions

        named = rows.withColumn("batch", functions.lit(batch_name(batch)))
        self._save(named, _STATE, f"{self.root}/_deltas/{name}", ("hour", "batch"))

    def deltas(self, name: str, schema: str, hours: Iterable[str] | None = None) -> "DataFrame":
        """All that batches added to these hours; `schema` is that of the rows without `hour`. The answer has `hour`
        and `batch`, too.
        """
        return self._read(_STATE, f"{self.root}/_deltas/{name}", schema, ("hour", "batch"), hours, batch=None)

    def save(self, name: str, batch: int, rows: "DataFrame", *partitions: str) -> None:
        """Leave rows for the next batch, or for other tables in this one; in folders by the `partitions`."""
        rows.write.format(_STATE).mode("overwrite").partitionBy(*partitions).save(self._state(name, batch))

    def saved(self, name: str, batch: int, schema: str, partition: str = "") -> "DataFrame":
        """What a batch left, all of it or one partition, such as `what=3`; nothing before the first. Raises
        `StoreError` where it is gone.
        """
        path = self._state(name, batch)
        if not self._is_there(name, batch, path):
            return self._nothing(schema)
        place = f"{path}/{partition}" if partition else path
        if partition and not self.volume.exists(place):
            return self._nothing(schema)
        return self.spark.read.schema(schema).format(_STATE).load(literal(place))

    def save_text(self, name: str, batch: int, text: str) -> None:
        """Leave a text, as `save` leaves rows."""
        path = self._state(name, batch)
        self.volume.remove(path)
        self.volume.put(path, text)

    def saved_text(self, name: str, batch: int) -> str | None:
        """Return the text that a batch left; None before the first batch. Raises `StoreError` where it is
        missing.
        """
        path = self._state(name, batch)
        return self.volume.text(path) if self._is_there(name, batch, path) else None

    def _is_there(self, name: str, batch: int, path: str) -> bool:
        there = self.volume.exists(path)
        if not there and batch >= 0 and self._find(f"_state/{name}/batch=*"):
            raise StoreError(
                f"{path} is missing, so this run cannot go on from the one before: the tables in {self.root} and "
                "their checkpoint do not belong together. Remove both to begin again"
            )
        return there

    def forget(self, below: int) -> None:
        """Remove the state of batches with numbers below this one."""
        for path in self._find("_state/*/batch=*"):
            number = path.rpartition("batch=")[2]
            if number.isdigit() and int(number) < below:
                self.volume.remove(path)

    # ------------------------------------------------------------------ before a run

    def check(self) -> None:
        """Raise `StoreError` if the tables cannot be used by this session, or are of another format or
        layout.
        """
        self._layout(layout.told(self.volume.text(f"{self.root}/{layout.NAME}")))

    def prepare(self, finished: int) -> None:
        """Make the tables ready for the batch after `finished`, the number of the last one that is done, -1 before
        the first. The caller must hold the `Lock`. Raises `StoreError` if that batch cannot be the next, or
        the tables were made by an older release.
        """
        path = f"{self.root}/{layout.NAME}"
        if self.volume.text(path) is None:
            if any(self.volume.exists(f"{self.root}/{name}") for name in TABLES):
                raise StoreError(layout.older(self.root))
            self.volume.put(path, layout.text(self.format))
        if self.newest() > finished + 1:
            raise StoreError(
                f"the tables in {self.root} have batch {self.newest()} and their checkpoint has none after {finished}: "
                "they do not belong together. Remove both to begin again"
            )

    def newest(self) -> int:
        """Return the number of the newest batch that left something in the tables, -1 if there is none."""
        numbers = [path.rpartition("batch=")[2] for path in self._find("_state/*/batch=*")]
        return max((int(each) for each in numbers if each.isdigit()), default=-1)

    def _layout(self, there: layout.Layout | None) -> None:
        if there is not None:
            wrong = layout.unlike(there, self.format, self.root)
            if wrong:
                raise StoreError(wrong)

    def remove_leftovers(self) -> None:
        """Remove half-written files of runs that were cut short. The caller must hold the `Lock`."""
        self.volume.remove(f"{self.root}/{_DROPPED}")
        for place in ("*", "_deltas/*"):
            for path in self._find(f"{place}/.spark-staging-*"):
                self.volume.remove(path)
            for path in self._find(f"{place}/_temporary"):
                self.volume.remove(path)

    # ------------------------------------------------------------------ how

    @staticmethod
    def _partitions(table: Table) -> tuple[str, ...]:
        return (*table.partitions, "batch") if table.incremental else table.partitions

    def _nothing(self, schema: str) -> "DataFrame":
        # With the limit, Spark knows that it need not look.
        return self.spark.createDataFrame([], schema).limit(0)

    def _named(self, table: Table, rows: "DataFrame", batch: "str | Column | None") -> "DataFrame":
        from pyspark.sql import functions

        named = rows.select(*table.names, *table.partitions)
        if batch is None:
            return named
        return named.withColumn("batch", functions.lit(batch) if isinstance(batch, str) else batch)

    def _write(self, table: Table, rows: "DataFrame", **options: str) -> None:
        self._save(rows, self.format, f"{self.root}/{table.name}", self._partitions(table), **options)

    @staticmethod
    def _save(rows: "DataFrame", form: str, path: str, partitions: Sequence[str], **options: str) -> None:
        how = {"partitionOverwriteMode": "dynamic", **options}
        rows.write.format(form).mode("overwrite").options(**how).partitionBy(*partitions).save(path)

    def _read(
        self,
        form: str,
        path: str,
        schema: str,
        partitions: Sequence[str],
        hours: Iterable[str] | None,
        batch: int | str | None,
    ) -> "DataFrame":
        whole = ", ".join([schema, *(f"{name} string" for name in partitions)])
        wanted = None if hours is None else sorted(set(hours))
        which = "*" if batch is None else batch_name(batch)
        folders = [path] if self.volume.exists(path) else []
        if "hour" in partitions and (wanted is not None or batch is not None):
            ending = f"/batch={which}" if batch is not None else ""
            folders = [
                found
                for hour in (["*"] if wanted is None else wanted)
                for found in self.volume.find(path, f"hour={hour}{ending}")
            ]
        elif batch is not None:
            folders = self.volume.find(path, f"batch={which}")
        if not folders:
            return self._nothing(whole)
        reader = self.spark.read.format(form).schema(whole).option("basePath", path)
        return reader.load([literal(folder) for folder in folders])

    def _remove_at_once(self, path: str) -> None:
        """Remove a folder in one step for readers that list it: it is renamed, and then its files are
        removed.
        """
        aside = f"{self.root}/{_DROPPED}/{uuid4().hex}"
        self.volume.rename(path, aside)
        self.volume.remove(aside)

    def _find(self, pattern: str) -> list[str]:
        return self.volume.find(self.root, pattern)

    def _state(self, name: str, batch: int) -> str:
        return f"{self.root}/_state/{name}/batch={batch_name(batch)}"

    def _files(self, folders: Iterable[str]) -> dict[str, list[str]]:
        """Return the names of the files in each of these folders that has any. Spark never uses a file's name
        again.
        """
        found = {folder: self.volume.find(folder, "part-*") for folder in folders}
        return {folder: files for folder, files in found.items() if files}

    def _untouched(self, before: dict[str, list[str]]) -> list[str]:
        """Return the folders whose files are still the ones in `before`."""
        now = self._files(before)
        return [folder for folder, files in before.items() if now.get(folder) == files]


class Lock(AbstractContextManager["Lock"]):
    """Keeps other runs away from the tables while the context is entered; the system releases it when the
    process ends. `folder` is None for tables on another machine, which are not locked. Entering raises
    `StoreError` where another process holds the lock or the folder cannot be written.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._file: IO[bytes] | None = None

    def __enter__(self) -> "Lock":
        if self._folder is not None:
            try:
                self._folder.mkdir(parents=True, exist_ok=True)
                self._file = (self._folder / _NAME).open("ab")
            except OSError as error:
                raise StoreError(
                    f"the tables in {self._folder} cannot be written: {error.strerror}"
                ) from None
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self._file.close()
                raise StoreError(f"another run is at work on the tables in {self._folder}") from None
            except OSError:
                pass  # a file system without locks
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


@dataclass(frozen=True)
class Batch:
    """What a step of the pipeline is given: the batch's `number`, from 0, and the `store` to write to under
    that number. A batch that was cut short comes again with the same number and the same segments.
    """

    spark: "SparkSession"
    store: Store
    number: int
    settings: Settings

    def frames(self) -> "DataFrame":
        """Return this batch's rows of the table `frames`, which an earlier step has written."""
        return self.store.read("frames", batch=self.number)
