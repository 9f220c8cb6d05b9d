"""The tables of sums: `traffic` from `frames`, `latency` and `flow` from `messages`.

Each batch adds its rows to the sums of their hours, and makes these hours of the table anew from the sums.

The sums of an hour are kept as one version, named by the batch that wrote it. A batch that is done again after a crash
begins with the same version as before. Open messages count only while they are open. The sums of each slice of open
messages are kept separately, and are removed with the slice. Sums add up in any order, so a table does not depend on
how the journal was cut into batches.

`latency` has percentiles. The durations of a minute and destination are kept as buckets, each with its count and its
largest value. Bucket 0 has the duration 0, and bucket n the durations from 1.022^(n-1) to below 1.022^n µs. Bucket -n
has the same durations below zero (a clock was set back). A percentile is the largest value in the bucket that has the
nearest rank. It is not below the exact percentile, and at most 2.2 % above it. Below 46 µs a bucket holds one value, so
the percentile is exact.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from stomprelay.pipeline.match import messages
from stomprelay.pipeline.schema import FLOW, LATENCY, TRAFFIC, Table
from stomprelay.pipeline.spark.tasks import few
from stomprelay.pipeline.store.store import OPEN, Batch, batch_name

MEASURES: Final = ("receipt", "delivery", "ack")
PERCENTILES: Final = (50, 95, 99)
WIDTH: Final = 1.022
"""The upper bound of a bucket divided by its lower bound."""
_PAIRS: Final = ", ".join(f"'{name}', {name}_us" for name in MEASURES)
MEASURED: Final = f"stack({len(MEASURES)}, {_PAIRS})"
"""SQL that turns a row of `messages` into a row for each of `MEASURES`, with its name and the duration or null."""


def hour_of(time: Column) -> Column:
    """Return the name of a timestamp's hour, such as `2026-11-21-08`. The session's time zone must be UTC."""
    return F.date_format(time, "yyyy-MM-dd-HH")


@dataclass(frozen=True)
class Rollup:
    """A table of sums. The stored sums have the columns of the schema `kept`, and `hour`. Rows with the same `keys` are
    added up: the columns `sums` are added, and of the columns `longest` the greatest value is kept. `counted` makes
    rows with these columns from rows of the source. `folded` makes rows of the table from sums.
    """

    table: Table
    kept: str
    keys: Sequence[str]
    sums: Sequence[str]
    longest: Sequence[str]
    counted: Callable[[DataFrame], DataFrame]
    folded: Callable[[DataFrame], DataFrame]

    def total(self, rows: DataFrame) -> DataFrame:
        """Return these rows added up by `keys`, and also by `batch` if the rows have that column."""
        by = [*self.keys, *_batch(rows)]
        sums = (F.coalesce(F.sum(name), F.lit(0)).cast("bigint").alias(name) for name in self.sums)
        return rows.groupBy(*by).agg(*sums, *(F.max(name).alias(name) for name in self.longest))

    def summed(self, source: DataFrame) -> DataFrame:
        """Return the sums of rows of the source, with the name of their `hour`. The rows are added up first, because
        making the name is slow.
        """
        return self.total(self.counted(source)).withColumn("hour", hour_of(F.col("hour")))

    def rows(self, sums: DataFrame) -> DataFrame:
        """Add up sums of any batches. Return them as rows of the table, with their `hour`."""
        return self.folded(self.total(sums.drop("batch")))

    def advance(
        self,
        batch: Batch,
        rows: DataFrame,
        hours: Iterable[str],
        touched: Iterable[str] = (),
        there: Mapping[str, Iterable[str]] | None = None,
    ) -> None:
        """Add `rows` to the sums. Then write the table's hours in `hours` and `touched` anew. `hours`: the hours of all
        rows whose `batch` is this batch. The other rows belong to slices of open messages. `there`: all slices after
        this batch, with the hours of each.
        """
        store, name, now = batch.store, self.table.name, batch_name(batch.number)
        adding = set(hours)
        wanted = sorted({*adding, *touched})
        if not wanted:
            return
        slices: dict[str, list[str]] = {}
        for each, those in (there or {}).items():
            for hour in those:
                slices.setdefault(hour, []).append(f"{OPEN}-{each}")
        before, after = [], []
        for hour in wanted:
            found = store.summed(name, hour)
            versions = [each for each in found if each.isdigit() and each < now]
            version = max(versions, default=None)
            wasted = {each for each in found if not each.isdigit()} - {*slices.get(hour, ())}
            store.drop_sums(name, hour, {*wasted, *versions} - {version})
            if version is not None and hour in adding:
                before.append(f"hour={hour}/batch={version}")
            newest = now if hour in adding else version
            after += [f"hour={hour}/batch={each}" for each in (newest, *slices.get(hour, ())) if each]
        news = self.summed(few(rows))
        if before:
            old = store.sums(name, self.kept, before).withColumn("batch", F.lit(now))
            news = self.total(few(news.unionByName(old)))
        store.save_sums(name, news)
        store.replace(name, self.rows(few(store.sums(name, self.kept, after))), wanted)

    def advance_messages(self, batch: Batch) -> None:
        """Add a batch's messages that became final, and the open ones of its slices. Doing it again changes nothing."""
        changed = messages.changes(batch)
        if not changed.hours:
            return
        rows = messages.still_open(batch, changed.made)
        if changed.final:
            rows = rows.unionByName(messages.settled(batch))
        self.advance(batch, rows, changed.final, changed.hours, changed.there)


def _batch(rows: DataFrame) -> list[str]:
    return [name for name in rows.columns if name == "batch"]


# The rows that are added up; their `hour` is a timestamp


def _hour(time: str) -> Column:
    return F.date_trunc("hour", F.col(time)).alias("hour")


def _frames(frames: DataFrame) -> DataFrame:
    """Return a row of `traffic` for each frame and each event `error`. The event says that a client got an error."""
    frame, command, direction = F.col("kind") == "frame", F.col("command"), F.col("direction")
    error = (frame & (command == "ERROR") & (F.col("side") == "broker")) | (F.col("event") == "error")
    message = ((command == "SEND") & (direction == "to_broker")) | (
        (command == "MESSAGE") & (direction == "to_client")
    )
    return frames.where(frame | (F.col("event") == "error")).select(
        _hour("seen_at"),
        F.date_trunc("minute", F.col("seen_at")).alias("minute"),
        "destination",
        "client",
        "upstream",
        F.coalesce(direction, F.lit("to_client")).alias("direction"),
        frame.cast("bigint").alias("frames"),
        F.coalesce(message, F.lit(False)).cast("bigint").alias("messages"),
        F.when(frame, F.col("size")).alias("octets"),
        F.when(frame, F.col("body_size")).alias("body_octets"),
        F.coalesce(error, F.lit(False)).cast("bigint").alias("errors"),
        *_batch(frames),
    )


def bucket_of(us: Column) -> Column:
    """Return the number of the bucket of a duration in microseconds."""
    size = us.cast("double")
    number = F.when(size == 0, 0).otherwise(1 + F.floor(F.log(F.abs(size)) / F.log(F.lit(WIDTH))))
    return (F.signum(size) * number).cast("int")


def _durations(messages: DataFrame) -> DataFrame:
    """Return a row for each duration of each message: its bucket with the count 1."""
    measured = messages.select(
        _hour("seen_at"),
        F.date_trunc("minute", F.col("seen_at")).alias("minute"),
        "destination",
        F.expr(MEASURED).alias("measure", "us"),
        *_batch(messages),
    ).where("us IS NOT NULL")
    return measured.select(
        *("hour", "minute", "destination", "measure", *_batch(messages)),
        bucket_of(F.col("us")).alias("bucket"),
        F.lit(1).cast("bigint").alias("count"),
        F.col("us").alias("longest"),
    )


def _percentiles(buckets: DataFrame) -> DataFrame:
    """Return rows of `latency` for these buckets. No two buckets may have the same keys."""
    measure = Window.partitionBy("minute", "destination", "measure")
    upward = measure.orderBy("bucket").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    ranked = buckets.withColumns(
        {"reached": F.sum("count").over(upward), "total": F.sum("count").over(measure)}
    )
    columns = []
    for name in MEASURES:
        here = F.col("measure") == name
        columns.append(F.coalesce(F.sum(F.when(here, F.col("count"))), F.lit(0)).alias(f"{name}_count"))
        for part in PERCENTILES:
            in_reach = here & (F.col("reached") * 100 >= F.col("total") * part)
            columns.append(F.min(F.when(in_reach, F.col("longest"))).alias(f"{name}_p{part}"))
        columns.append(F.max(F.when(here, F.col("longest"))).alias(f"{name}_max"))
    return ranked.groupBy("hour", "minute", "destination").agg(*columns)


def _ways(messages: DataFrame) -> DataFrame:
    """Return a row of sums for each delivery of each message. If a consumer got a message several times, only its first
    delivery counts as a message.
    """
    # Only the needed fields of deliveries are read, because each field is a column of its own in the files.
    names, sessions = F.col("deliveries.client"), F.col("deliveries.session")
    rows = messages.select(
        _hour("seen_at"),
        "producer",
        "destination",
        F.unix_micros("sent_at").alias("sent"),
        F.coalesce("size", F.lit(0)).alias("octets"),
        names.alias("names"),
        sessions.alias("sessions"),
        F.when(F.size(names) > 1, F.zip_with(names, sessions, _consumer)).alias("consumers"),
        F.posexplode_outer("deliveries.seen_at").alias("position", "got_at"),
        *_batch(messages),
    )
    got = F.col("position").isNotNull()
    consumer = _consumer(F.get("names", F.col("position")), F.get("sessions", F.col("position")))
    first = (
        ~got | (F.col("position") == 0) | (F.array_position("consumers", consumer) == F.col("position") + 1)
    )
    took = F.unix_micros("got_at") - F.col("sent")
    return rows.select(
        *("hour", "producer", "destination", "octets", *_batch(messages)),
        consumer.alias("consumer"),
        F.coalesce(first, F.lit(True)).cast("bigint").alias("messages"),
        got.cast("bigint").alias("deliveries"),
        F.when(first & took.isNotNull(), 1).otherwise(0).cast("bigint").alias("timed"),
        F.when(first, took).alias("total_us"),
        F.when(first, took).alias("longest_us"),
    )


def _consumer(client: Column, session: Column) -> Column:
    """Return the consumer's name, or its session if the client has no name. Null means that there was no consumer."""
    return F.coalesce(client, session)


def _means(sums: DataFrame) -> DataFrame:
    """Return rows of `flow` for these sums. No two sums may have the same keys."""
    mean = F.expr("CASE WHEN timed > 0 THEN total_us DIV timed END").alias("delivery_mean_us")
    longest = F.col("longest_us").alias("delivery_max_us")
    return sums.select(*TRIPLE, "messages", "deliveries", "octets", mean, longest)


TRIPLE: Final = ("hour", "producer", "destination", "consumer")
TRAFFIC_SUMS: Final = Rollup(
    TRAFFIC,
    TRAFFIC.ddl,
    ("hour", "minute", "destination", "client", "upstream", "direction"),
    ("frames", "messages", "octets", "body_octets", "errors"),
    (),
    _frames,
    lambda sums: sums,
)
LATENCY_SUMS: Final = Rollup(
    LATENCY,
    "minute timestamp NOT NULL, destination string, measure string NOT NULL, bucket int NOT NULL, "
    "count bigint NOT NULL, longest bigint NOT NULL",
    ("hour", "minute", "destination", "measure", "bucket"),
    ("count",),
    ("longest",),
    _durations,
    _percentiles,
)
FLOW_SUMS: Final = Rollup(
    FLOW,
    "producer string, destination string, consumer string, messages bigint NOT NULL, deliveries bigint NOT NULL, "
    "octets bigint NOT NULL, timed bigint NOT NULL, total_us bigint NOT NULL, longest_us bigint",
    TRIPLE,
    # `timed`: messages whose SEND was seen; `total_us` and `longest_us` are of these.
    ("messages", "deliveries", "octets", "timed", "total_us"),
    ("longest_us",),
    _ways,
    _means,
)


def advance_traffic(batch: Batch) -> None:
    """Add the frames of this batch. Doing a batch again changes nothing."""
    TRAFFIC_SUMS.advance(batch, batch.frames(), batch.frame_hours())
