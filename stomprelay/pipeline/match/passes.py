"""What Spark does with the frames of a batch: one pass session by session, one order by order, one message by message.

Each pass is one of our functions on Arrow batches, on rows that are together and sorted as it wants them.
"""

from collections.abc import Iterable
from functools import reduce
from typing import TYPE_CHECKING, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from stomprelay.journal.capture import TRACE
from stomprelay.pipeline.match import record, transfer
from stomprelay.pipeline.match.conversation import EVENTS, Conversations, SessionRow
from stomprelay.pipeline.match.matching import DDL, Matchings
from stomprelay.pipeline.match.ordering import Orders
from stomprelay.pipeline.match.slices import KEPT, special
from stomprelay.pipeline.read.runs import Runs, Segment
from stomprelay.pipeline.settings import TimeLimits
from stomprelay.pipeline.spark.tasks import together
from stomprelay.pipeline.store.store import Batch

if TYPE_CHECKING:
    from stomprelay.pipeline.settings import Settings

COPY: Final = "relay-copy"
REDELIVERED: Final = "redelivered"


def said(batch: Batch, number: int, what: int) -> DataFrame:
    """Return the rows of a kind (of `SessionRow` or `MatchRow`) that a batch left: `key`, `number`, `text`."""
    rows = batch.store.slices(KEPT, "match string, turn int, text string", [special(number, what)])
    return rows.select(F.col("match").alias("key"), F.col("turn").alias("number"), "text")


def read(batch: Batch, ready: Iterable[Segment]) -> DataFrame:
    """Return the rows of `frames` of these segments, whichever batch read them."""
    by_batch: dict[int, list[str]] = {}
    for segment in ready:
        if segment.newest_ns is not None:
            by_batch.setdefault(segment.batch, []).append(segment.name)
    parts = [
        (batch.frames() if number == batch.number else batch.store.read("frames", batch=number)).where(
            F.col("segment").isin(names)
        )
        for number, names in sorted(by_batch.items())
    ]
    return reduce(DataFrame.unionByName, parts) if parts else batch.frames().limit(0)


def records(frames: DataFrame, settings: "Settings") -> DataFrame:
    """Return rows of `record.FIELDS`: the frames and events of sessions that matter to messages.
    `settings.id_headers` names the headers that hold a publisher's id, `keep_headers` those that are kept.
    """
    headers = F.when(F.col("command").isin("SEND", "MESSAGE"), F.col("headers"))
    made: dict[str, Column] = {
        "turn": F.try_to_number(F.substring_index("segment", "-", -1), F.lit("999999999999")).cast("int"),
        "digest": F.when(F.col("body").isNotNull(), F.xxhash64("body")),
        "trace": headers[TRACE.decode()],
        "own": F.coalesce(*(headers[name] for name in settings.id_headers), F.lit(None).cast("string")),
        "copy": headers[COPY],
        "redelivered": headers[REDELIVERED],
        "kept": record.kept(settings.keep_headers or ()),
        "facts": F.when(F.col("event").isNotNull(), F.to_json("facts")),
    }
    columns = [made.get(name, F.col(name)).cast(kind).alias(name) for name, kind in record.FIELDS]
    matters = F.col("command").isNotNull() | F.col("event").isin(sorted(EVENTS))
    return frames.where(F.col("session").isNotNull() & matters).select(*columns)


def conversations(batch: Batch, runs: Runs, limits: TimeLimits, frames: DataFrame) -> DataFrame:
    """Return rows of `transfer.FIELDS`, made of these frames and of the sessions' state from the last batch:
    transfers, and the rows that `SessionRow` lists.
    """
    before = said(batch, batch.number - 1, SessionRow.STATE)
    state = _filled(before, record.FIELDS, session=F.col("key"), turn=F.lit(record.SAID))
    rows = records(frames, batch.settings).unionByName(state)
    rows = together(rows, "session").sortWithinPartitions(*record.SORTED)
    return rows.mapInArrow(Conversations(limits, runs.newest, runs.present, runs.gone), transfer.DDL)


def ordered(batch: Batch, runs: Runs, limits: TimeLimits, told: DataFrame) -> DataFrame:
    """Return the rows of `conversations` with the keys of single messages, where theirs was that of an order, and
    what the next batch needs of orders.
    """
    before = said(batch, batch.number - 1, SessionRow.ORDER)
    kept = _filled(
        before, transfer.FIELDS, ns=F.lit(0), number=F.lit(None), kind=F.lit(int(transfer.Kind.KEPT))
    )
    rows = together(told.unionByName(kept), "key")
    return rows.sortWithinPartitions("key", *map(F.expr, transfer.PHASED)).mapInArrow(
        Orders(limits, runs.until), transfer.DDL
    )


def matched(runs: Runs, limits: TimeLimits, told: DataFrame, kept: DataFrame) -> DataFrame:
    """Return rows of `matching.DDL`, made of the rows of `ordered` and of those that were kept of the same keys:
    messages, and the rows that `MatchRow` and `SessionRow` list.
    """
    before = _filled(
        kept.where(F.col("text").isNotNull()).select("match", "turn", "text"),
        transfer.FIELDS,
        key=F.col("match"),
        ns=F.col("turn"),
        kind=F.lit(int(transfer.Kind.KEPT)),
    )
    rows = together(told.unionByName(before), "key").sortWithinPartitions(*transfer.SORTED)
    return rows.mapInArrow(Matchings(limits, runs.until), DDL)


def _filled(rows: DataFrame, fields: Iterable[tuple[str, str]], **made: Column) -> DataFrame:
    """Return the rows with exactly these fields, cast to their types: from `made` if given there, else the
    column of that name, else null.
    """
    there = {**{name: F.col(name) for name in rows.columns}, **made}
    return rows.select(*(there.get(name, F.lit(None)).cast(kind).alias(name) for name, kind in fields))
