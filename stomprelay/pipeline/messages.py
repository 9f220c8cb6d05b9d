"""Table `messages`: the frames of a batch, session by session, and then what they say of each message.

What is under way goes on in the next batch: the batch leaves it as state, in which nothing is but what the journal has
not decided yet. So the same batch, done twice, gives the same rows; and however the journal is cut into segments and
batches, the same final rows come of it.
"""

import json
from collections.abc import Iterable
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from stomprelay.journal.capture import TRACE
from stomprelay.journal.name import CLOSED
from stomprelay.journal.schema import JournalEvent
from stomprelay.pipeline import record, sighting
from stomprelay.pipeline.batch import Batch
from stomprelay.pipeline.conversation import EVENTS
from stomprelay.pipeline.conversations import Conversations, Said
from stomprelay.pipeline.matchings import DDL, Found, Matchings
from stomprelay.pipeline.outage import OUTAGE
from stomprelay.pipeline.outages import Outages
from stomprelay.pipeline.outstanding import OUTSTANDING
from stomprelay.pipeline.runs import Runs, Segment
from stomprelay.pipeline.tables import MESSAGES
from stomprelay.pipeline.terms import Terms

if TYPE_CHECKING:
    from stomprelay.pipeline.settings import Settings

COPY: Final = "relay-copy"
REDELIVERED: Final = "redelivered"

_STATE: Final = "session string, text string"
_KEPT: Final = "key string, ns bigint, text string"
_WATCH: Final = "what string, text string"
_RUNS: Final = "runs"
_LOSSES: Final = "losses"


def advance(batch: Batch) -> None:
    """Add the messages of this batch, and leave for the other tables what is `settled`, `open`, `outages` and
    `outstanding` in it; safe to do again.
    """
    store, number = batch.store, batch.number
    settings = batch.settings
    terms = Terms.of(settings.patience, settings.linger, settings.give_up)
    before = {row.what: row.text for row in store.saved("watch", number - 1, _WATCH).collect()}
    runs = Runs.load(before[_RUNS], terms) if before else Runs(terms)
    ready = runs.arrived(segments(batch))
    found = matched(batch, runs, terms, conversations(batch, runs, terms, read(batch, ready))).persist()
    try:
        _save(batch, found)
        outages = _save_outages(batch, json.loads(before.get(_LOSSES, "[]")), found)
    finally:
        found.unpersist()
    losses = json.dumps(outages.kept(runs.horizon - terms.give_up))
    watch = [(_RUNS, runs.dump()), (_LOSSES, losses)]
    store.save("watch", number, batch.spark.createDataFrame(watch, _WATCH).coalesce(1))


# What is read


def segments(batch: Batch) -> list[Segment]:
    """The segments of a batch, those of which nothing could be read included."""
    ended = F.max(F.coalesce(F.col("event") == JournalEvent.ENDED.value, F.lit(False)))
    rows = batch.frames().groupBy("segment").agg(F.min("ns"), F.max("ns"), ended).collect()
    found = {row[0]: Segment(row[0], batch.number, row[1], row[2], row[3]) for row in rows}
    for row in batch.store.read("quarantine", batch=batch.number).select("segment").distinct().collect():
        name = row.segment.rpartition("/")[2].removesuffix(CLOSED)
        found.setdefault(name, Segment(name, batch.number, None, None, False))
    return list(found.values())


def read(batch: Batch, ready: Iterable[Segment]) -> DataFrame:
    """The frames of these segments, whichever batch read them."""
    by_batch: dict[int, list[str]] = {}
    for segment in ready:
        if segment.newest_ns is not None:
            by_batch.setdefault(segment.batch, []).append(segment.name)
    parts = [
        batch.store.read("frames", batch=number).where(F.col("segment").isin(names))
        for number, names in sorted(by_batch.items())
    ]
    return reduce(DataFrame.unionByName, parts) if parts else batch.frames().limit(0)


def records(frames: DataFrame, settings: "Settings") -> DataFrame:
    """Rows of `record.FIELDS`, of frames and events of sessions that matter to messages."""
    headers = F.when(F.col("command").isin("SEND", "MESSAGE"), F.col("headers"))
    made: dict[str, Column] = {
        "turn": F.try_to_number(F.substring_index("segment", "-", -1), F.lit("999999999999")).cast("int"),
        "digest": F.when(F.col("body").isNotNull(), F.xxhash64("body")),
        "trace": headers[TRACE.decode()],
        "own": F.coalesce(*(headers[name] for name in settings.id_headers), F.lit(None).cast("string")),
        "copy": headers[COPY],
        "redelivered": headers[REDELIVERED],
        "facts": F.when(F.col("event").isNotNull(), F.to_json("facts")),
    }
    columns = [made.get(name, F.col(name)).cast(kind).alias(name) for name, kind in record.FIELDS]
    matters = F.col("command").isNotNull() | F.col("event").isin(sorted(EVENTS))
    return frames.where(F.col("session").isNotNull() & matters).select(*columns)


# What is made of it


def conversations(batch: Batch, runs: Runs, terms: Terms, frames: DataFrame) -> DataFrame:
    """Rows of `sighting.FIELDS`: what sessions show of messages, and what `Said` names."""
    before = batch.store.saved("conversations", batch.number - 1, _STATE)
    state = _filled(before, record.FIELDS, turn=F.lit(record.SAID))
    rows = records(frames, batch.settings).unionByName(state)
    ordered = rows.repartition("session").sortWithinPartitions(*record.SORTED)
    return ordered.mapInArrow(Conversations(terms, runs.newest, runs.present), sighting.DDL)


def matched(batch: Batch, runs: Runs, terms: Terms, said: DataFrame) -> DataFrame:
    """Rows of `matchings.DDL`."""
    before = batch.store.saved("matchings", batch.number - 1, _KEPT)
    kept = _filled(before, sighting.FIELDS, kind=F.lit(int(sighting.Kind.KEPT)))
    ordered = said.unionByName(kept).repartition("key").sortWithinPartitions("key", "ns")
    return ordered.mapInArrow(Matchings(terms, runs.until), DDL)


def _filled(rows: DataFrame, fields: Iterable[tuple[str, str]], **made: Column) -> DataFrame:
    """With all fields, null where they are not there."""
    there = {**{name: F.col(name) for name in rows.columns}, **made}
    return rows.select(*(there.get(name, F.lit(None)).cast(kind).alias(name) for name, kind in fields))


# What is left


def _save(batch: Batch, found: DataFrame) -> None:
    store, number = batch.store, batch.number
    kept = _of(found, Found.KEPT)
    store.save("matchings", number, kept.select("key", F.col("number").alias("ns"), "text"))
    state = _of(found, Said.STATE)
    store.save("conversations", number, state.select(F.col("key").alias("session"), "text"))
    owed = _of(found, Said.OUTSTANDING).select(F.from_json("text", OUTSTANDING.ddl).alias("row"))
    store.save("outstanding", number, owed.select("row.*"))
    final, still = _of(found, Found.FINAL), _of(found, Found.OPEN)
    store.append("messages", number, final)
    store.save("settled", number, final.select(*MESSAGES.names))
    store.save("open", number, still.select(*MESSAGES.names))
    store.replace_open(still)


def _of(found: DataFrame, what: int) -> DataFrame:
    return found.where(F.col("what") == int(what))


def _save_outages(batch: Batch, before: list[list[Any]], found: DataFrame) -> Outages:
    """There are few of these, and fewer that matter."""
    told = _of(found, Said.OUTAGE).select("text").sort("text").collect()
    outages = Outages(before)
    outages.told([row[name] for name in OUTAGE.names] for row in (json.loads(each.text) for each in told))
    lossy = sorted(outages.sessions)
    if lossy:
        repeats = _of(found, Found.REPEAT).select("text")
        wanted = repeats.where(F.get_json_object("text", "$[0]").isin(lossy))
        outages.repeated(_repeat(row.text) for row in wanted.sort("text").collect())
    rows = batch.spark.createDataFrame([tuple(row) for row in outages.changed], OUTAGE.ddl)
    batch.store.save("outages", batch.number, rows.coalesce(1))
    return outages


def _repeat(text: str) -> tuple[str, str | None, int, int]:
    session, broker, ns, again_ns = json.loads(text)
    return session, broker, ns, again_ns
