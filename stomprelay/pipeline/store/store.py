"""The tables on disk: what a batch adds, what it writes anew, and what it leaves for the next batch.

    <root>/<table>/date=D/hour=H/batch=N/   final rows, one folder for each batch
    <root>/<table>/date=D/hour=H/batch=open-S/   a slice of the rows that may still change
    <root>/<table>/date=D/hour=H/      tables that are written anew, hour by hour
    <root>/_sums/<name>/hour=H/batch=N/   the sums that a table is made of; see `rollup`
    <root>/_state/<name>/batch=N       a text that a batch leaves for the next
    <root>/_state/<name>/slice=S/      a part of the rows that are kept from batch to batch, written once

What is written for a batch replaces what was written for the same batch before, so a batch that was cut short is
simply done again. Readers skip names that begin with an underscore.

Hours have names, such as `2026-11-21-08`. Rows that are written have this name in the column `hour`. Rows that are read
have the columns `date` and `hour` of the table.

Each step of a batch gets a `Batch`.
"""

import json
import posixpath
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import uuid4

from stomprelay.journal.disk import sync_path
from stomprelay.pipeline.schema import MESSAGES, TABLES, Table
from stomprelay.pipeline.settings import Settings
from stomprelay.pipeline.store import layout
from stomprelay.pipeline.store.volume import Volume, absolute, literal, local

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


DROPPED: Final = "_dropped"
STAGING: Final = ".staging-"
"""The folder `DROPPED` has files to remove. A folder `STAGING` with a number has a batch's files before `adopt`."""
OPEN: Final = "open"
"""This name is used in place of a batch's number, for rows that later batches replace slice by slice."""
_STATE: Final = "parquet"
_ASIDE: Final = "_migrating"
_NOTE: Final = "note"
_FRAMES: Final = "frames"
SliceHours = Mapping[str, Iterable[str]]
"""Slices by name, each with its hours."""


class StoreError(Exception):
    """The tables cannot be used as they are. The text tells the user why."""


def batch_name(batch: int | str) -> str:
    """Return a batch's number with leading zeros, so that names sort like numbers. Return other names unchanged."""
    return batch if isinstance(batch, str) else f"{batch:09d}"


def _pattern(batch: int | str) -> str:
    return f"{OPEN}-*" if batch == OPEN else batch_name(batch)


def dated(rows: "DataFrame") -> "DataFrame":
    """Return the rows with the columns `date` and `hour`, made from the name of the hour in `hour`."""
    from pyspark.sql import functions as f

    name = f.col("hour")
    return rows.withColumns(
        {"date": f.to_date(f.substring(name, 1, 10)), "hour": f.substring(name, 12, 2).cast("int")}
    )


def renamed(rows: "DataFrame") -> "DataFrame":
    """Return these rows with the present names only. They were read with the schema of `layout.both`."""
    from pyspark.sql import functions as f

    def inside(old: str, new: str) -> "Callable[[Column], Column]":
        return lambda it: it.withField(new, f.coalesce(it[new], it[old])).dropFields(old)

    for field in rows.schema.fields:
        inner = getattr(getattr(field.dataType, "elementType", None), "names", ())
        for old, new in layout.RENAMED.items():
            if field.name == old:
                rows = rows.withColumn(new, f.coalesce(new, old)).drop(old)
            elif old in inner:
                rows = rows.withColumn(field.name, f.transform(field.name, inside(old, new)))
    return rows


class Compacted(NamedTuple):
    """An hour whose small files were joined: its folder below the root, and its number of files before and after."""

    place: str
    before: int
    after: int


class Store:
    """The tables below a path or a URI of Spark, in files of this `format`. `delta.opened` returns a store."""

    def __init__(self, spark: "SparkSession", root: str, format: str = "parquet") -> None:
        self.spark = spark
        self.volume = Volume(spark)
        self.root = absolute(root).rstrip("/") or "/"
        self.format = format
        self.is_before = False
        """Whether `check` has found tables of the earlier layout. Then `upkeep.migrate` must be called before anything
        is written.
        """

    # ------------------------------------------------------------------ tables

    def append(self, table: str, batch: int | str, rows: "DataFrame") -> None:
        """Write the rows of a batch, in place of the rows that this batch wrote before. The rows must have the table's
        columns and, if the table has hours, the name of the hour in `hour`. `batch` can be a name. Then a later batch
        can replace all rows of this name, or call `remove`.
        """
        self._write(TABLES[table], self._named(TABLES[table], rows, batch_name(batch)))

    def remove(self, table: str, name: str) -> None:
        """Remove the rows that `append` wrote under this name, if there are any. The table must have no hours."""
        self.volume.remove(f"{self.root}/{table}/batch={name}")

    def stage(self, table: str, batch: int) -> Path | None:
        """Return a folder where tasks may put Parquet files with the rows of a batch, before `adopt` is called. Return
        None if only Spark can write the table. The files must be in folders `layout.place(hour)`, and below these in
        `batch=…` if not all rows are of this batch. If `table` is `_state/<name>`, the files must be in folders
        `slice=S`.
        """
        if local(self.root) is None or self.format != "parquet":
            return None
        folder = self._staging(table, batch)
        self.volume.remove(folder)
        return local(folder)

    def adopt(self, table: str, batch: int, files: Iterable[Path]) -> None:
        """Make these files, which are in the folder of `stage`, the rows of a batch. Other files in the same folders
        are from tasks that were done again, and are removed. The folders are moved one by one. If this is cut short,
        `upkeep.begin` removes what the batch wrote.
        """
        folder = self._staging(table, batch)
        known = frozenset(files)
        for made in sorted({file.parent for file in known}):
            for file in made.iterdir():
                if file not in known:
                    file.unlink()
            name = made.relative_to(Path(str(local(folder)))).as_posix()
            place = f"{self.root}/{table}/{name}"
            if made.name.startswith("hour="):
                place += f"/batch={batch_name(batch)}"
            self.volume.remove(place)
            self.volume.rename(f"{folder}/{name}", place)
        self.volume.remove(folder)

    def replace(self, table: str, rows: "DataFrame", hours: Iterable[str] = ()) -> None:
        """Replace each hour that has `rows`, and remove the hours in `hours` that have no `rows`. All other hours
        stay. If `hours` are given, each hour that is in both the table and `rows` must be among them.
        """
        named = self._named(TABLES[table], rows, None)
        places = [f"{self.root}/{table}/{layout.place(hour)}" for hour in sorted(set(hours))]
        before = self._files(places)
        self._write(TABLES[table], named)
        now = self._files(before)
        for folder, files in before.items():
            if now.get(folder) == files:
                self._remove_at_once(folder)

    def replace_open(
        self, batch: int, rows: "DataFrame", slices: Iterable[str] = (), gone: SliceHours | None = None
    ) -> None:
        """Write a batch's rows of `messages`. Final rows of earlier batches stay. Rows that are not `final` go to the
        slice in their column `slice`, one of `slices`. Then each slice in `gone` is removed from its hours.
        """
        self._write(MESSAGES, self._sliced(MESSAGES, batch, rows))
        self.drop_slices(gone or {})

    def drop_slices(self, gone: SliceHours) -> None:
        """Remove each of these slices from its hours."""
        for name, hours in gone.items():
            for hour in hours:
                self.volume.remove(f"{self.root}/{MESSAGES.name}/{layout.place(hour)}/batch={OPEN}-{name}")

    def read(
        self, table: str, hours: Iterable[str] | None = None, batch: int | str | None = None
    ) -> "DataFrame":
        """Return the rows of a table. With `hours`, return only the rows of these hours. With `batch` (a number or
        `OPEN`), return only the rows of this batch. The rows have the table's columns, `date` and `hour`, and `batch`
        if the table has batches. A table that was not written yet is empty.
        """
        known, path = TABLES[table], f"{self.root}/{table}"
        which = None if batch is None else f"batch={_pattern(batch)}"
        folders = [path] if self.volume.exists(path) else []
        if known.hourly and (hours is not None or which is not None):
            places = [layout.HOURS] if hours is None else [layout.place(hour) for hour in sorted(set(hours))]
            folders = [
                found
                for place in places
                for found in self.volume.find(path, place if which is None else f"{place}/{which}")
            ]
        elif which is not None:
            folders = self.volume.find(path, which)
        return self._loaded(self.format, path, self._whole(known), folders)

    def open_rows(self, table: str, slices: SliceHours) -> "DataFrame":
        """Return the rows of these slices, each read from its hours."""
        known, path = TABLES[table], f"{self.root}/{table}"
        folders = [
            f"{layout.place(hour)}/batch={OPEN}-{name}" for name, hours in slices.items() for hour in hours
        ]
        return self._folders(self.format, path, self._whole(known), folders)

    def drop(self, table: str, hours: Iterable[str]) -> None:
        """Remove these hours, if they exist. For readers that list the table, each hour disappears in one step."""
        for hour in hours:
            path = f"{self.root}/{table}/{layout.place(hour)}"
            self._remove_at_once(path)
            date = posixpath.dirname(path)
            if not self.volume.find(date, "*"):
                self.volume.remove(date)

    def hours(self, table: str) -> list[str]:
        """Return the names of the hours that a table has, sorted."""
        return sorted(map(layout.hour_at, self._find(f"{table}/{layout.HOURS}")))

    def expire(self, table: str, before: str) -> list[str]:
        """Remove the hours before `before`. Return the names of the removed hours."""
        old = [hour for hour in self.hours(table) if hour < before]
        self.drop(table, old)
        return old

    def expire_sums(self, before: str) -> None:
        """Remove the rows that tables of sums keep for hours before `before`."""
        for path in self._find("_sums/*/hour=*"):
            if path.rpartition("hour=")[2] < before:
                self._remove_at_once(path)

    def tidy(self, before: str) -> Iterable[Compacted]:
        """Join small files of the hours before `before`, if the format can do this. Return the hours that were
        changed. The caller must hold the lock of `upkeep.alone`.
        """
        return ()

    def sweep(self, now: datetime) -> None:
        """Once a day, remove old files that the format has kept for readers of older versions."""

    # ------------------------------------------------------------------ sums and state

    def save_text(self, name: str, batch: int, text: str) -> None:
        """Store a text for the next batch, or for other tables in this batch."""
        self.volume.put(self._state(name, batch), text)

    def saved_text(self, name: str, batch: int) -> str | None:
        """Return the text that a batch stored; None before the first batch. Raises `StoreError` if there is no text."""
        path = self._state(name, batch)
        text = self.volume.text(path)
        if text is None and batch >= 0 and self._find(f"_state/{name}/batch=*"):
            raise StoreError(
                f"{path} is missing, so this run cannot go on from the one before: the tables in {self.root} and "
                "their checkpoint do not belong together. Remove both to begin again"
            )
        return text

    def noted(self, name: str, batch: int) -> str | None:
        """Return the text that a batch stored; None if there is none."""
        return self.volume.text(self._state(name, batch))

    def save_slices(self, name: str, rows: "DataFrame") -> None:
        """Write rows to the slices in their column `slice`, in place of the rows there. Slices stay until removed."""
        self._save(rows, _STATE, f"{self.root}/_state/{name}", ("slice",))

    def slices(self, name: str, schema: str, which: Iterable[str]) -> "DataFrame":
        """Return the rows of these slices, with the column `slice`. A slice without rows need not exist."""
        path = f"{self.root}/_state/{name}"
        return self._folders(_STATE, path, f"{schema}, slice string", [f"slice={each}" for each in which])

    def has_slice(self, name: str, which: str) -> bool:
        """Return whether there is a slice of this name."""
        return self.volume.exists(f"{self.root}/_state/{name}/slice={which}")

    def keep_slices(self, name: str, which: Iterable[str]) -> None:
        """Remove all slices except these."""
        kept = set(which)
        for path in self._find(f"_state/{name}/slice=*"):
            if path.rpartition("slice=")[2] not in kept:
                self.volume.remove(path)

    def sums(self, name: str, schema: str, folders: Iterable[str]) -> "DataFrame":
        """Return the table's sums in these folders (`hour=H/batch=N`), with the columns `hour` and `batch`."""
        path = f"{self.root}/_sums/{name}"
        return self._folders(_STATE, path, f"{schema}, hour string, batch string", folders)

    def save_sums(self, name: str, rows: "DataFrame") -> None:
        """Write sums to the folders of their `hour` and `batch`, in place of the rows there."""
        self._save(rows, _STATE, f"{self.root}/_sums/{name}", ("hour", "batch"))

    def summed(self, name: str, hour: str) -> set[str]:
        """Return the batches, and the open slices, for which a table of sums keeps rows of this hour."""
        return {path.rpartition("batch=")[2] for path in self._find(f"_sums/{name}/hour={hour}/batch=*")}

    def drop_sums(self, name: str, hour: str, batches: Iterable[str]) -> None:
        """Remove the sums of the table `name` that are kept for these batches in this hour."""
        for batch in batches:
            self.volume.remove(f"{self.root}/_sums/{name}/hour={hour}/batch={batch}")

    def forget(self, below: int) -> None:
        """Remove the texts of batches with lower numbers than this one."""
        for path in self._find("_state/*/batch=*"):
            number = path.rpartition("batch=")[2]
            if number.isdigit() and int(number) < below:
                self.volume.remove(path)

    # ------------------------------------------------------------------ before a run

    def check(self, *, migrates: bool = False) -> None:
        """Raise `StoreError` if this session cannot use the tables, or if they have another format or layout. After
        this call, tables of the earlier layout can be read under the present names. With `migrates`, an unfinished
        migration is no error: the caller will complete it.
        """
        there = layout.told(self.volume.text(f"{self.root}/{layout.NAME}"))
        if there is None:
            if self._find(layout.BEFORE):
                raise StoreError(layout.older(self.root))
            return
        wrong = layout.unlike(there, self.format, self.root)
        if wrong:
            raise StoreError(wrong)
        self.is_before = there.version < layout.VERSION
        if self.is_before and not migrates and self.volume.exists(f"{self.root}/{_ASIDE}/{_NOTE}"):
            raise StoreError(
                f"the tables in {self.root} are being migrated, or that was cut short: ask again, or have it go on by "
                "stomprelay-pipeline migrate"
            )

    def prepare(self, finished: int, headers: tuple[str, ...] | None = None) -> tuple[str, ...]:
        """Make the tables ready for the batch after `finished`, the number of the last batch that is done (-1 before
        the first). `messages` shall keep `headers`, or the same headers as before if this is None. Return the headers
        that `messages` keeps. The caller must hold the lock of `upkeep.alone`. Raises `StoreError` if the next batch
        does not fit the tables, if other headers were kept before, or if the tables have an older layout.
        """
        path = f"{self.root}/{layout.NAME}"
        there = layout.told(self.volume.text(path))
        if there is None:
            if any(self.volume.exists(f"{self.root}/{name}") for name in TABLES):
                raise StoreError(layout.older(self.root))
            there = layout.Layout(layout.VERSION, self.format, headers or ())
            self.volume.put(path, layout.text(self.format, there.headers))
        elif headers is not None and headers != there.headers:
            kept = ", ".join(there.headers) or "none"
            raise StoreError(
                f"the tables in {self.root} were made to keep other headers: {kept}. Leave --keep-headers out, or make "
                "tables from the journal in another folder"
            )
        if self.newest() > finished + 1:
            raise StoreError(
                f"the tables in {self.root} have batch {self.newest()} and their checkpoint has none after {finished}: "
                "they do not belong together. Remove both to begin again"
            )
        return there.headers

    def newest(self) -> int:
        """Return the number of the newest batch that left something in the tables, -1 if there is none."""
        numbers = [path.rpartition("batch=")[2] for path in self._find("_state/*/batch=*")]
        return max((int(each) for each in numbers if each.isdigit()), default=-1)

    # ------------------------------------------------------------------ from the layout before

    def rename_columns(self, table: Table) -> None:
        """Give the columns of a table their present names, if the columns have the earlier names. If this is cut
        short, it must be called again before anything else is written. The caller must hold the lock of
        `upkeep.alone`.
        """
        path, schema = f"{self.root}/{table.name}", self._whole(table)
        for folder in self.volume.find(path, "date=*") if table.hourly else [path]:
            below = [name for name in self._partitions(table) if name != "date"]
            self._rename(self.format, path, folder, schema, below)

    def rename_slices(self, name: str, schema: str) -> None:
        """Do the same as `rename_columns` for the rows of `save_slices`."""
        path = f"{self.root}/_state/{name}"
        self._rename(_STATE, path, path, f"{schema}, slice string", ["slice"])

    def _rename(self, form: str, path: str, folder: str, schema: str, below: Sequence[str]) -> None:
        """Write the files of a folder anew, with the present names. The files are in folders by the columns `below`.
        The new files are first written elsewhere. Then a note says which files they replace. After the note only
        `_exchange` must be called, which can be repeated if it was cut short.
        """
        self._exchange()
        files = "/".join([*(f"{name}=*" for name in below), "part-*"])
        old = self.volume.find(folder, files)
        if not old or not layout.RENAMED.keys() & set(
            self.spark.read.format(form).load(literal(old[0])).columns
        ):
            return
        aside = f"{self.root}/{_ASIDE}"
        rows = renamed(
            self.spark.read.format(form)
            .schema(layout.both(schema))
            .option("basePath", path)
            .load(literal(folder))
        ).drop("date")
        order = [*below, *(name for name in ("seen_at",) if name in rows.columns)]
        rows.sortWithinPartitions(*order).write.format(form).partitionBy(*below).save(f"{aside}/new")
        place = local(f"{aside}/new")
        for new in () if place is None else (*place.rglob("*"), place):
            sync_path(new)
        note = {"folder": folder, "files": files, "old": old}
        self.volume.put(f"{aside}/{_NOTE}", json.dumps(note))
        self._exchange()

    def _exchange(self) -> None:
        """Put the new files in the place of the files that the note names. Without a note, remove the new files."""
        aside = f"{self.root}/{_ASIDE}"
        said = self.volume.text(f"{aside}/{_NOTE}")
        if said is not None:
            note = json.loads(said)
            for old in note["old"]:
                self.volume.remove(old)
            for new in self.volume.find(f"{aside}/new", note["files"]):
                self.volume.rename(new, note["folder"] + new.partition(f"{_ASIDE}/new")[2])
        self.volume.remove(aside)

    # ------------------------------------------------------------------ how

    @staticmethod
    def _partitions(table: Table) -> dict[str, str]:
        """Return the columns that are in names of folders and not in files, with their types."""
        further = {each.name: each.kind for each in table.partitions}
        return {**further, "batch": "string"} if table.incremental else further

    @classmethod
    def _whole(cls, table: Table) -> str:
        return ", ".join([table.ddl, *(f"{name} {kind}" for name, kind in cls._partitions(table).items())])

    def _nothing(self, schema: str) -> "DataFrame":
        # With the limit, Spark knows without a job that there are no rows.
        return self.spark.createDataFrame([], schema).limit(0)

    def _named(self, table: Table, rows: "DataFrame", batch: "str | Column | None") -> "DataFrame":
        from pyspark.sql import functions

        named = dated(rows) if table.hourly else rows
        named = named.select(*table.names, *(each.name for each in table.partitions))
        if batch is None:
            return named
        return named.withColumn("batch", functions.lit(batch) if isinstance(batch, str) else batch)

    def _sliced(self, table: Table, batch: int, rows: "DataFrame") -> "DataFrame":
        """Return the rows as they are written: sorted by time, with the name of the batch or slice in `batch`."""
        from pyspark.sql import functions as f

        which = f.concat(f.lit(f"{OPEN}-"), f.col("slice"))
        which = f.when(f.col("final"), f.lit(batch_name(batch))).otherwise(which)
        named = dated(rows).withColumn("batch", which).select(*table.names, *self._partitions(table))
        return named.sortWithinPartitions("seen_at")

    def _write(self, table: Table, rows: "DataFrame") -> None:
        self._save(rows, self.format, f"{self.root}/{table.name}", self._partitions(table))

    @staticmethod
    def _save(rows: "DataFrame", form: str, path: str, partitions: Iterable[str]) -> None:
        writer = rows.write.format(form).mode("overwrite").option("partitionOverwriteMode", "dynamic")
        writer.partitionBy(*partitions).save(path)

    def _folders(self, form: str, path: str, schema: str, folders: Iterable[str]) -> "DataFrame":
        places = [f"{path}/{folder}" for folder in sorted(set(folders))]
        return self._loaded(form, path, schema, [place for place in places if self.volume.exists(place)])

    def _loaded(self, form: str, path: str, schema: str, folders: Sequence[str]) -> "DataFrame":
        if not folders:
            return self._nothing(schema)
        places = [literal(folder) for folder in folders]
        reader = self.spark.read.format(form).option("basePath", path)
        if not self.is_before:
            return reader.schema(schema).load(places)
        return renamed(reader.schema(layout.both(schema)).load(places))

    def _remove_at_once(self, path: str) -> None:
        """Remove a folder. Rename it first, so that it disappears in one step for readers that list it."""
        aside = f"{self.root}/{DROPPED}/{uuid4().hex}"
        self.volume.rename(path, aside)
        self.volume.remove(aside)

    def _find(self, pattern: str) -> list[str]:
        return self.volume.find(self.root, pattern)

    def _staging(self, table: str, batch: int) -> str:
        return f"{self.root}/{table}/{STAGING}{batch_name(batch)}"

    def _state(self, name: str, batch: int) -> str:
        return f"{self.root}/_state/{name}/batch={batch_name(batch)}"

    def _files(self, folders: Iterable[str]) -> dict[str, list[str]]:
        """Return the names of the files in each of these folders. Folders without files are left out."""
        found = {folder: self.volume.find(folder, "part-*") for folder in folders}
        return {folder: files for folder, files in found.items() if files}


@dataclass(frozen=True)
class Batch:
    """What each step of a batch gets: the `number` of the batch, from 0, and the `store` to write to. A batch that was
    cut short comes again with the same number and the same segments. `unread`: the time (ns) at which the first
    segment of later batches begins, None if this is not known. `again`: an earlier run, perhaps with other settings,
    had begun this batch and was cut short.
    """

    spark: "SparkSession"
    store: Store
    number: int
    settings: Settings
    unread: int | None = None
    again: bool = False

    def frames(self) -> "DataFrame":
        """Return this batch's rows of the table `frames`; an earlier step has written them."""
        return self.store.read("frames", self.frame_hours(), self.number)

    def frame_hours(self) -> list[str]:
        """Return the hours of this batch's rows of `frames`."""
        return list(self.noted_frames()["hours"])

    def note_frames(self, hours: Iterable[str], segments: Sequence[Sequence[Any]]) -> None:
        """Store the hours of this batch's rows of `frames`, and the `Segment`s that the batch read."""
        told = {"hours": sorted(hours), "segments": segments}
        self.store.save_text(_FRAMES, self.number, json.dumps(told))

    def noted_frames(self) -> dict[str, Any]:
        """Return what `note_frames` stored: `hours` and `segments`, as lists."""
        return dict(json.loads(self.store.noted(_FRAMES, self.number) or '{"hours": [], "segments": []}'))
