"""The tables in Delta Lake: each change of a table is one transaction in its log.

A reader sees a table as it was after one transaction, even while others write. If a run is killed, its last change is
there as a whole or not at all. When a batch comes for the first time, the transaction contains its number (`txnAppId`,
`txnVersion`). So, if two runs are at work, Delta refuses one of the two. A batch that comes again replaces the rows
that it had written.

Tables are in folders by hour, and open rows are in other folders than final rows, so that hours and open rows are
replaced and removed without writing other rows anew. The batch of a row is a column, not a folder, because OPTIMIZE
joins files of many batches. The sums and the state beside the tables are files, as in `Store`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from stomprelay.pipeline.schema import MESSAGES, TABLES, Column, Table
from stomprelay.pipeline.spark.delta import EXTENSIONS, SETTINGS
from stomprelay.pipeline.store import layout
from stomprelay.pipeline.store.compaction import FEW, LARGE, SMALL
from stomprelay.pipeline.store.layout import LOG, NAME
from stomprelay.pipeline.store.store import OPEN, Compacted, SliceHours, Store, StoreError, batch_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FEW_FILES: Final = 32
"""A table without hours is left as it is if it has at most so many small files."""

_APP: Final = "stomprelay"
_BATCH: Final = "batch "
"""The metadata of each transaction is this word and the number of the batch. `DESCRIBE HISTORY` shows it."""
_APART: Final = "final"
_SWEPT: Final = "_swept"
_NEVER: Final = "false"
_ORDER: Final = ("destination", "seen_at")
_SESSION: Final = {
    # Rows that replace open rows need not be open.
    "spark.databricks.delta.replaceWhere.constraintCheck.enabled": "false",
    "spark.databricks.delta.optimize.maxFileSize": str(LARGE),
}
_STATISTICS: Final = "delta.dataSkippingStatsColumns"
_LISTING: Final = "spark.sql.sources.parallelPartitionDiscovery.parallelism"


class DeltaStore(Store):
    """The tables as Delta tables. With `as_of`, they can only be read, as they were at this time or after the batch of
    this number. Raises `StoreError`.
    """

    def __init__(self, spark: "SparkSession", root: str, as_of: datetime | int | None = None) -> None:
        super().__init__(spark, root, "delta")
        self._as_of = as_of
        self._batch = -1
        self._known: set[str] = set()
        if not self._is_in_session():
            raise StoreError(
                "this Spark session has no Delta Lake: it was started without its jars, as spark-submit --jars adds "
                f"them, or without {EXTENSIONS}={SETTINGS[EXTENSIONS]}"
            )
        for name, value in _SESSION.items():
            spark.conf.set(name, value)

    # ------------------------------------------------------------------ tables

    def append(self, table: str, batch: int | str, rows: "DataFrame") -> None:
        """See `Store.append`."""
        named, own = self._named(TABLES[table], rows, batch_name(batch)), _of([batch_name(batch)])
        if isinstance(batch, str):
            self._save_delta(table, named, "overwrite", replaceWhere=own)
        else:
            self._commit(table, batch, named, own)

    def remove(self, table: str, name: str) -> None:
        """See `Store.remove`. It replaces the old rows by no rows: a DELETE would not record the batch."""
        self.append(table, name, self._nothing(TABLES[table].ddl))

    def replace(self, table: str, rows: "DataFrame", hours: Iterable[str] = ()) -> None:
        """See `Store.replace`."""
        wanted = _among(hours)
        named = self._named(TABLES[table], rows, None)
        how = {"partitionOverwriteMode": "dynamic"} if wanted == _NEVER else {"replaceWhere": wanted}
        self._save_delta(table, named, mode="overwrite", **how)

    def replace_open(
        self, batch: int, rows: "DataFrame", slices: Iterable[str] = (), gone: SliceHours | None = None
    ) -> None:
        """See `Store.replace_open`, in one transaction."""
        old = gone or {}
        hours = {hour for each in old.values() for hour in each}
        also = f"({_open(old)} AND {_among(hours)})" if hours else ""
        # A batch that is done again with other settings may have made more slices before.
        earlier = f"{_APART} = false AND batch LIKE '{OPEN}-{batch_name(batch)}-%'"
        own = f"{_of([batch_name(batch)])} OR ({_open(slices)}) OR ({earlier})"
        self._commit(MESSAGES.name, batch, self._sliced(MESSAGES, batch, rows), own, also)

    def read(
        self, table: str, hours: Iterable[str] | None = None, batch: int | str | None = None
    ) -> "DataFrame":
        """See `Store.read`. Columns that are missing are null. The earlier layout can be read, too."""
        from pyspark.sql import functions as f

        known = TABLES[table]
        kinds = {**{each.name: each.kind for each in known.columns}, **self._partitions(known)}
        version = self._version(table) if self._there(table) else None
        if version is None:
            return self._nothing(", ".join(f"`{name}` {kind}" for name, kind in kinds.items()))
        reader = self.spark.read.format("delta")
        if self._as_of is not None:
            reader = reader.option("versionAsOf", version)
        rows = _renamed(reader.load(self._path(table)), kinds)
        if hours is not None:
            rows = rows.where(_among(hours))
        if batch is not None:
            rows = rows.where(f"{_APART} = false" if batch == OPEN else _of([batch_name(batch)]))
        lacking = {name: f.lit(None).cast(kind) for name, kind in kinds.items() if name not in rows.columns}
        return rows.withColumns(lacking).select(*(f"`{name}`" for name in kinds))

    def open_rows(self, table: str, slices: SliceHours) -> "DataFrame":
        """See `Store.open_rows`."""
        hours = {hour for each in slices.values() for hour in each}
        return self.read(table, hours).where(_open(slices))

    def drop(self, table: str, hours: Iterable[str]) -> None:
        """See `Store.drop`. All hours are removed in one step. Their files stay until `sweep`, for older versions."""
        wanted = _among(hours)
        if wanted != _NEVER and self._there(table):
            with self._alone():
                self.spark.sql(f"DELETE FROM {self._sql(table)} WHERE {wanted}")

    def hours(self, table: str) -> list[str]:
        """See `Store.hours`."""
        return sorted(self._counts(table))

    # ------------------------------------------------------------------ before a run

    def check(self, *, migrates: bool = False) -> None:
        """See `Store.check`."""
        super().check(migrates=migrates)
        if self.volume.text(f"{self.root}/{NAME}") is None and any(
            self.volume.exists(self._path(name)) for name in TABLES
        ):
            raise StoreError(f"the tables in {self.root} are no Delta tables of ours: leave --format out")

    def prepare(self, finished: int, headers: tuple[str, ...] | None = None) -> tuple[str, ...]:
        """See `Store.prepare`. Missing tables are made, and missing columns are added."""
        kept = super().prepare(finished, headers)
        with self._alone():
            for table in TABLES.values():
                if self._there(table.name):
                    self._grow(table)
                else:
                    self._make(table)
        if finished > self.newest():
            raise StoreError(
                f"the tables in {self.root} end with batch {self.newest()} and their checkpoint with {finished}: they "
                "do not belong together. Remove both to begin again"
            )
        return kept

    def newest(self) -> int:
        """See `Store.newest`."""
        return self._noted("frames")

    # ------------------------------------------------------------------ while batches go on

    def tidy(self, before: str) -> Iterator[Compacted]:
        """See `Store.tidy`. In the joined files, rows of one destination and time are near to each other. Nothing is
        done before a batch was written.
        """
        if self._batch < 0:
            return
        for table in TABLES.values():
            if not table.incremental:
                continue
            few = FEW if table.hourly else FEW_FILES
            small = self._counts(table.name, below=SMALL)
            many = sorted(hour for hour, count in small.items() if hour < before and count > few)
            if not many:
                continue
            which = f" WHERE {_among(many)}" if table.hourly else ""
            if _APART in table.names:
                which += f" AND {_APART} = true"
            order = [name for name in _ORDER if name in table.names]
            near = f" ZORDER BY ({', '.join(order)})" if order else ""
            earlier = self._counts(table.name)
            with self._alone():
                self.spark.sql(f"OPTIMIZE {self._sql(table.name)}{which}{near}")
            now = self._counts(table.name)
            for hour in many:
                place = f"{table.name}/{layout.place(hour)}" if table.hourly else table.name
                yield Compacted(place, earlier[hour], now.get(hour, 0))

    def sweep(self, now: datetime) -> None:
        """See `Store.sweep`. Unused files are removed after `delta.deletedFileRetentionDuration`: 7 days by default."""
        today, last = f"{now:%Y-%m-%d}", self.volume.text(f"{self.root}/{_SWEPT}")
        if last == today:
            return
        self.volume.put(f"{self.root}/{_SWEPT}", today)
        if last is None:
            return  # the tables were made today
        # Delta prints on the terminal what it removes; and by default it lists a folder in ten thousand tasks.
        jvm: Any = self.spark._jvm
        nowhere = jvm.java.io.PrintStream(jvm.java.io.OutputStream.nullOutputStream())
        getattr(getattr(jvm.scala, "Console$"), "MODULE$").setOutDirect(nowhere)
        before = str(self.spark.conf.get(_LISTING))
        self.spark.conf.set(_LISTING, str(self.spark.sparkContext.defaultParallelism))
        try:
            for name in TABLES:
                if self._there(name):
                    self.spark.sql(f"VACUUM {self._sql(name)}")
        finally:
            self.spark.conf.set(_LISTING, before)

    # ------------------------------------------------------------------ how

    def _is_in_session(self) -> bool:
        """Return whether the session has Delta's classes and the setting that enables them."""
        from py4j.protocol import Py4JError

        jvm: Any = self.spark._jvm
        sources = jvm.org.apache.spark.sql.execution.datasources.DataSource
        try:
            sources.lookupDataSource("delta", self.spark._jsparkSession.sessionState().conf())
        except Py4JError:
            return False
        return SETTINGS[EXTENSIONS] in (self.spark.conf.get(EXTENSIONS, "") or "")

    def _path(self, table: str) -> str:
        return f"{self.root}/{table}"

    def _sql(self, table: str) -> str:
        return f"delta.`{self._path(table).replace('`', '``')}`"

    def _there(self, table: str) -> bool:
        # A run that was killed may have left a log without anything in it.
        if table not in self._known and self.volume.find(f"{self._path(table)}/{LOG}", "[0-9]*"):
            self._known.add(table)
        return table in self._known

    def _commit(self, table: str, batch: int, rows: "DataFrame", own: str, also: str = "") -> None:
        """Write the rows of a batch in one transaction. They replace the rows that fulfil `also`. If the batch was
        written before, they also replace the rows that fulfil `own`. Then the batch is not noted again, because Delta
        would skip the query, and an `Observation` of the rows would wait for ever.
        """
        again = self._noted(table) >= batch
        where = " OR ".join(each for each in (also, own if again else "") if each)
        options = {} if again else {"txnAppId": _APP, "txnVersion": str(batch)}
        if where:
            options["replaceWhere"] = where
        self._batch = batch
        self._save_delta(table, rows, "overwrite" if where else "append", **options)

    def _save_delta(
        self, table: str, rows: "DataFrame", mode: str, folders: Sequence[str] = (), **options: str
    ) -> None:
        with self._alone():
            options["userMetadata"] = f"{_BATCH}{self._batch}"
            rows.write.format("delta").mode(mode).options(**options).save(
                self._path(table), partitionBy=list(folders) or None
            )

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Raise `StoreError` if Delta reports that another writer was quicker. Then nothing was written."""
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException

        try:
            yield
        except (Py4JJavaError, PySparkException) as error:
            if "io.delta.exceptions." in str(error):  # all these exceptions mean this
                raise StoreError(f"another run is at work on the tables in {self.root}") from None
            raise

    def _snapshot(self, table: str) -> Any:
        """Return Delta's own view of a table, in the newest version that this process knows."""
        jvm: Any = self.spark._jvm
        log = jvm.org.apache.spark.sql.delta.DeltaLog.forTable(self.spark._jsparkSession, self._path(table))
        return log.unsafeVolatileSnapshot()

    def _noted(self, table: str) -> int:
        """Return the number of the newest batch that a table has; -1 before the first."""
        if not self._there(table):
            return -1
        found = self._snapshot(table).transactions().get(_APP)
        return int(found.get()) if found.isDefined() else -1

    def _counts(self, table: str, below: int | None = None) -> dict[str, int]:
        """Return the number of files by hour ("": no hours). `below`: only files of final rows with fewer bytes."""
        from pyspark.sql import DataFrame
        from pyspark.sql import functions as f

        if not self._there(table):
            return {}
        files = DataFrame(self._snapshot(table).allFiles().toDF(), self.spark)
        folders = f.col("partitionValues")
        if below is not None:
            files = files.where((f.col("size") < below) & f.coalesce(folders[_APART] == "true", f.lit(True)))
        found = files.groupBy(folders["date"].alias("date"), folders["hour"].alias("hour")).count().collect()
        return {f"{row.date}-{int(row.hour):02d}" if row.date else "": row["count"] for row in found}

    def _version(self, table: str) -> int | None:
        """Return the version at `as_of`: -1 for the newest, None if there was no version. Raises `StoreError`."""
        if self._as_of is None:
            return -1
        history = self.spark.sql(f"DESCRIBE HISTORY {self._sql(table)}")
        rows = history.selectExpr("version", "unix_micros(timestamp) AS at", "userMetadata AS said").collect()
        found = max((int(row.version) for row in rows if self._is_then(row.at, row.said)), default=None)
        oldest = min(int(row.version) for row in rows)
        if found is None and oldest > 0:
            raise StoreError(
                f"the log of {table} does not reach back so far: it begins with version {oldest}"
            )
        return found

    def _is_then(self, at: int, said: str | None) -> bool:
        """Return whether a version existed at `as_of`. `at` (µs) is its time, `said` is its transaction's metadata."""
        if isinstance(self._as_of, datetime):
            return datetime.fromtimestamp(at / 1e6, UTC) <= self._as_of
        batch = (said or "").removeprefix(_BATCH)
        return self._as_of is not None and batch.isdigit() and int(batch) <= self._as_of

    # ------------------------------------------------------------------ tables made, grown and migrated

    def rename_columns(self, table: Table) -> None:
        """See `Store.rename_columns`. This is one transaction. Readers keep earlier versions until `sweep`."""
        from pyspark.sql import functions as f

        if not self._there(table.name):
            return
        if layout.RENAMED.keys() & set(self.spark.read.format("delta").load(self._path(table.name)).columns):
            # The property names columns that will not be there.
            self._alter(table, f"UNSET TBLPROPERTIES IF EXISTS ('{_STATISTICS}')")
            columns = {each.name: _about(each) for each in (*table.columns, *table.partitions)}
            rows = self.read(table.name)
            named = (
                f.col(each).alias(each, metadata={"comment": columns.get(each, "")}) for each in rows.columns
            )
            folders = _folders(table)
            order = [*folders, *(each for each in _ORDER if each in table.names)]
            rows = rows.select(*named).sortWithinPartitions(*order) if order else rows.select(*named)
            self._batch = self._noted(table.name)
            self._save_delta(table.name, rows, "overwrite", folders, overwriteSchema="true")
        self._alter(table, f"SET TBLPROPERTIES ({_quoted(_STATISTICS)} = {_quoted(_statistics(table))})")

    def _alter(self, table: Table, what: str) -> None:
        with self._alone():
            self.spark.sql(f"ALTER TABLE {self._sql(table.name)} {what}")

    def _make(self, table: Table) -> None:
        columns = [
            *(_defined(column) for column in table.columns),
            *map(_defined, table.partitions),
            *(["`batch` string NOT NULL"] if table.incremental else []),
        ]
        folders = _folders(table)
        # A run that was killed may have left this log before the table was there.
        self.volume.remove(f"{self._path(table.name)}/{LOG}")
        # Without deletion vectors every reader of Delta tables can read them.
        properties = {"delta.enableDeletionVectors": "false", _STATISTICS: _statistics(table)}
        self.spark.sql(
            f"CREATE TABLE {self._sql(table.name)} ({', '.join(columns)}) USING delta "
            + (f"PARTITIONED BY ({', '.join(folders)}) " if folders else "")
            + f"COMMENT {_quoted(table.about)} TBLPROPERTIES ("
            + ", ".join(f"{_quoted(name)} = {_quoted(value)}" for name, value in properties.items())
            + ")"
        )

    def _grow(self, table: Table) -> None:
        there = dict(self.spark.read.format("delta").load(self._path(table.name)).dtypes)
        new = [column for column in table.columns if column.name not in there]
        wanted = {
            each.name: each.dataType.simpleString()
            for each in self._nothing(table.ddl).schema.fields
            if each.name in there
        }
        other = sorted(name for name, kind in wanted.items() if there[name] != kind)
        if other:
            raise StoreError(
                f"column {other[0]} of table {table.name} in {self.root} is {there[other[0]]}, not {wanted[other[0]]}: "
                "these tables were made by another release. Remove them with their checkpoint, or name another folder"
            )
        if new:
            # The new columns are null in the present rows.
            added = ", ".join(_defined(column, nullable=True) for column in new)
            self._alter(table, f"ADD COLUMNS ({added})")


def opened(spark: "SparkSession", root: str, form: str, as_of: datetime | int | None = None) -> Store:
    """Return the tables under a root in the format `form`. `as_of`: see `DeltaStore`. Raises `StoreError`."""
    if form == "delta":
        return DeltaStore(spark, root, as_of)
    if as_of is not None:
        raise StoreError(
            f"tables of format {form} are files, which do not remember what they were: --as-of is for --format delta"
        )
    return Store(spark, root, form)


def _renamed(rows: "DataFrame", kinds: Mapping[str, str]) -> "DataFrame":
    """Return the rows of a version in the earlier layout under the present names. Return other rows unchanged."""
    from pyspark.sql import functions as f

    old = {name: new for name, new in layout.RENAMED.items() if name in rows.columns}
    if not old:
        return rows
    # The fields of a struct get their names by their order.
    whole = {name: f.col(name).cast(kind) for name, kind in kinds.items() if "struct<" in kind}
    return rows.withColumnsRenamed(old).withColumns(whole)


def _folders(table: Table) -> list[str]:
    """Return the columns whose values name the folders of a table's files."""
    return [*(each.name for each in table.partitions), *([_APART] if _APART in table.names else [])]


def _statistics(table: Table) -> str:
    """Return the columns, joined by commas, whose least and greatest value in each file is in the log."""
    known = ("seen_at", "minute", "ns", "destination", "session", "since")
    return ",".join([name for name in known if name in table.names] + ["batch"] * table.incremental)


def _about(column: Column) -> str:
    return f"{column.about}; {column.unit}" if column.unit else column.about


def _defined(column: Column, *, nullable: bool | None = None) -> str:
    needed = "" if column.nullable or nullable else " NOT NULL"
    return f"`{column.name}` {column.kind}{needed} COMMENT {_quoted(_about(column))}"


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _among(hours: Iterable[str]) -> str:
    """Return the SQL condition that a row belongs to one of these hours."""
    dates: dict[str, list[int]] = {}
    for name in sorted(set(hours)):
        date, _, hour = name.rpartition("-")
        dates.setdefault(date, []).append(int(hour))
    each = [f"(date = DATE'{date}' AND hour IN ({', '.join(map(str, of))}))" for date, of in dates.items()]
    return f"({' OR '.join(each)})" if each else _NEVER


def _of(batches: Iterable[str]) -> str:
    names = ", ".join(map(_quoted, batches))
    return f"batch IN ({names})" if names else _NEVER


def _open(slices: Iterable[str]) -> str:
    return f"{_APART} = false AND {_of(f'{OPEN}-{name}' for name in slices)}"
