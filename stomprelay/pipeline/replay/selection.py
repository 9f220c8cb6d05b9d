"""Which messages are sent again: rows of `COLUMNS`, made from the tables. If a message cannot be sent, its row has a
reason.

A message is a SEND of a client. A SEND in a transaction counts only if the transaction was committed. It counts from
the time of the COMMIT on.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, TextIO

from stomprelay.journal.capture import MASK
from stomprelay.journal.command import table
from stomprelay.pipeline.schema import ABORTED
from stomprelay.pipeline.spark.arrow import hour
from stomprelay.pipeline.spark.errors import as_value_error, sentence
from stomprelay.pipeline.store.store import Store, StoreError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


PLACE: Final = ("segment", "position", "number")
"""Columns that name a frame of the journal."""
COLUMNS: Final = ("destination", "headers", "body", "content_length", "seen_at", *PLACE)
"""The columns of a selected message: its new destination, its headers without masked headers, its body, whether its
SEND had a content-length, when it was sent, and the place of its SEND. For ActiveMQ a body with a content-length is
bytes, and a body without a content-length is text.
"""
TURN: Final = ("turn_ns", *PLACE)
"""The columns that give the order of messages. `turn_ns`: the time of the SEND or, in a transaction, of its COMMIT."""
FURTHER: Final = (
    "outcome",
    "deliveries",
    "redelivered",
    "key",
    "matched",
    "receipt_us",
    "delivery_us",
    "ack_us",
    "final",
)
"""The columns of `messages` that a condition may use. A condition may also use all columns of `frames`."""

UNCOMMITTED: Final = "uncommitted"
NOWHERE: Final = "nowhere"
INCOMPLETE: Final = "incomplete"
REASONS: Final = {
    ABORTED: "of aborted transactions",
    UNCOMMITTED: "of transactions without a COMMIT",
    NOWHERE: "without a destination that is known",
    INCOMPLETE: "whose bodies were not recorded as a whole",
}
"""Why messages are not sent, in words that follow the number of messages."""

_LAST: Final = 0x7FFFFFFF


@dataclass(frozen=True)
class Selection:
    """Messages that fulfil `where`, a condition of Spark SQL over `frames` and `FURTHER`, sent from `since` on and
    before `until` (µs since 1970). They go to `destination`, or to their old destinations with the longest matching
    prefix in `renames` replaced.
    """

    where: str | None = None
    since: int | None = None
    until: int | None = None
    destination: str | None = None
    renames: tuple[tuple[str, str], ...] = ()

    def hours(self, there: Iterable[str]) -> list[str]:
        """Return the hours in `there` that can have selected messages."""
        first = "" if self.since is None else hour(self.since * 1000)
        last = "~" if self.until is None else hour(self.until * 1000)
        return [each for each in there if first <= each <= last]


def selected(store: Store, selection: Selection) -> "DataFrame":
    """Return the messages with `COLUMNS`, `turn_ns`, `reason` (null if the message can be sent) and `blanked` (names of
    headers without recorded values). Raises `StoreError` if there are no tables, and `ValueError` for a bad condition.
    """
    from pyspark.sql import functions as f

    there = [] if not store.volume.exists(store.root) else store.hours("frames")
    if not there:
        raise StoreError(
            f"there is no table `frames` in {store.root} yet: `stomprelay-pipeline once` makes it from a journal"
        )
    hours = selection.hours(there)
    frames = _client(store, hours).where(f.col("command") == "SEND")
    if selection.since is not None:
        frames = frames.where(f.col("ns") >= selection.since * 1000)
    if selection.until is not None:
        frames = frames.where(f.col("ns") < selection.until * 1000)
    chosen = _chosen(frames, store.read("messages", hours), selection.where)
    later = [hour for hour in there if hours and hour >= hours[0]]
    ended = chosen.join(_ends(chosen, _client(store, later)), ["session", "number"], "left")
    return _rows(ended, selection)


def _client(store: Store, hours: Iterable[str]) -> "DataFrame":
    from pyspark.sql import functions as f

    return store.read("frames", hours).where((f.col("side") == "client") & (f.col("kind") == "frame"))


def _chosen(frames: "DataFrame", messages: "DataFrame", where: str | None) -> "DataFrame":
    """Return the frames that fulfil the condition, with the columns `FURTHER` of their messages. If the condition does
    not use these columns, they have values only for messages in transactions.
    """
    from pyspark.errors import AnalysisException
    from pyspark.sql import functions as f

    sent = messages.where(f.col("sent_at").isNotNull())
    if where is None or _sufficient(frames, where):
        sent = sent.where(f.col("transaction").isNotNull())
    # While a batch is at work a row may be there twice, as one that may change and as the final one.
    known = sent.groupBy(*PLACE).agg(f.max_by(f.struct(*FURTHER), "final").alias("known"))
    joined = frames.join(known.select(*PLACE, "known.*"), list(PLACE), "left")
    if where is None:
        return joined
    try:
        return joined.where(where)
    except AnalysisException as error:
        raise ValueError(f"--where: {sentence(str(error))}") from None


def _sufficient(frames: "DataFrame", where: str) -> bool:
    """Return whether the condition needs only columns of `frames`."""
    from pyspark.errors import AnalysisException

    try:
        frames.where(where)
    except AnalysisException:
        return False
    return True


def _ends(chosen: "DataFrame", frames: "DataFrame") -> "DataFrame":
    """Return for each SEND in a transaction how the transaction `ended`, COMMIT or ABORT, and when: `ended_ns`."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    names = ("session", "transaction", "number")
    inside = chosen.where(f.col("transaction").isNotNull()).select(
        *names, f.lit(None).cast("struct<ended: string, ended_ns: bigint>").alias("end")
    )
    ends = frames.where(f.col("command").isin("COMMIT", "ABORT") & f.col("transaction").isNotNull()).select(
        *names, f.struct(f.col("command").alias("ended"), f.col("ns").alias("ended_ns")).alias("end")
    )
    later = (
        Window.partitionBy("session", "transaction")
        .orderBy("number")
        .rowsBetween(1, Window.unboundedFollowing)
    )
    both = inside.unionByName(ends).withColumn("next", f.first("end", ignorenulls=True).over(later))
    return both.where(f.col("end").isNull()).select("session", "number", "next.*")


def _rows(chosen: "DataFrame", selection: Selection) -> "DataFrame":
    from pyspark.sql import functions as f

    mask = MASK.decode()
    headers = f.col("headers")
    inside = f.col("transaction").isNotNull()
    aborted = (f.col("ended") == "ABORT") | f.col("outcome").eqNullSafe(ABORTED)
    kept = f.coalesce(f.length("body"), f.lit(0))
    destination = _destination(selection)
    reason = (
        f.when(inside & aborted, ABORTED)
        .when(inside & f.col("ended").isNull(), UNCOMMITTED)
        .when(destination.isNull() | (destination == ""), NOWHERE)
        .when(f.coalesce(f.col("body_size"), f.lit(0)) != kept, INCOMPLETE)
    )
    made = {
        "destination": destination,
        "headers": f.map_filter(headers, lambda _, value: value != mask),
        "content_length": f.coalesce(f.map_contains_key(headers, "content-length"), f.lit(False)),
    }
    return chosen.select(
        *(made.get(name, f.col(name)).alias(name) for name in COLUMNS),
        f.coalesce("ended_ns", "ns").alias("turn_ns"),
        reason.alias("reason"),
        f.map_keys(f.map_filter(headers, lambda _, value: value == mask)).alias("blanked"),
    )


def _destination(selection: Selection) -> "Column":
    from pyspark.sql import functions as f

    if selection.destination is not None:
        return f.lit(selection.destination)
    said = f.col("destination")
    known = f.when(said != MASK.decode(), said)
    found = known
    for old, new in sorted(selection.renames, key=lambda each: len(each[0])):
        rest = f.substring(known, len(old) + 1, _LAST)
        found = f.when(known.startswith(old), f.concat(f.lit(new), rest)).otherwise(found)
    return found


class DestinationTotal(NamedTuple):
    """A destination: how many messages and bytes would go there. `first`, `last`: when its messages were sent (UTC)."""

    destination: str
    messages: int
    octets: int
    first: str
    last: str


class Preview(NamedTuple):
    """A preview of a selection. `lines`: the messages by destination. `left_out`: how many are not sent, by reason.
    `blanked`: names of headers that are not sent because the journal does not have their values.
    """

    lines: list[DestinationTotal]
    left_out: dict[str, int]
    blanked: list[str]

    @property
    def messages(self) -> int:
        """Return how many messages would be sent."""
        return sum(line.messages for line in self.lines)

    def show(self, out: TextIO) -> None:
        """Write the preview to `out` as a table."""
        rows = [
            (each.destination, f"{each.messages:,}", f"{each.octets:,}", *each[3:]) for each in self.lines
        ]
        for line in table(("destination", "#messages", "#octets", "first", "last"), rows):
            out.write(f"{line}\n")


def preview(rows: "DataFrame") -> Preview:
    """Count the rows that `selected` returned. Raises `ValueError` if the query fails."""
    from pyspark.sql import functions as f

    counted = rows.groupBy("reason", "destination").agg(
        f.count("*"),
        f.coalesce(f.sum(f.length("body")), f.lit(0)),
        f.min("seen_at").cast("string"),
        f.max("seen_at").cast("string"),
        f.array_distinct(f.flatten(f.collect_set("blanked"))),
    )
    with as_value_error():
        found = counted.collect()
    left_out = {reason: sum(count for why, _, count, *_ in found if why == reason) for reason in REASONS}
    return Preview(
        sorted(DestinationTotal(to, *values) for reason, to, *values, _ in found if reason is None),
        {reason: count for reason, count in left_out.items() if count},
        sorted({name for *_, names in found for name in names or ()}),
    )
