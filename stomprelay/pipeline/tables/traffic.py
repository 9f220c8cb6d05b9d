"""The table `traffic`: frames, messages and bytes by minute, from `frames`."""

from collections.abc import Iterable
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from stomprelay.pipeline.schema import TRAFFIC
from stomprelay.pipeline.store.store import Batch
from stomprelay.pipeline.tables.rollup import Rollup, by_batch, named

_KEYS: Final = ("minute", "destination", "client", "upstream", "direction")
_SUMS: Final = ("frames", "messages", "octets", "body_octets", "errors")


def counted(frames: DataFrame) -> DataFrame:
    """Return rows of `traffic`, with their `hour`, from `frames`. Only events `error` count: an error to the client."""
    frame, command, direction = F.col("kind") == "frame", F.col("command"), F.col("direction")
    error = (frame & (command == "ERROR") & (F.col("side") == "broker")) | (F.col("event") == "error")
    message = ((command == "SEND") & (direction == "to_broker")) | (
        (command == "MESSAGE") & (direction == "to_client")
    )
    rows = frames.where(frame | (F.col("event") == "error")).select(
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
        *[name for name in frames.columns if name == "batch"],
    )
    return _summed(rows, by_batch(_KEYS, rows))


def folded(counts: DataFrame) -> DataFrame:
    """Return the rows with one row for each minute, destination, client, upstream and direction."""
    return _summed(counts, _KEYS)


def _summed(counts: DataFrame, by: Iterable[str]) -> DataFrame:
    summed = counts.groupBy(*by).agg(
        *(F.coalesce(F.sum(name), F.lit(0)).cast("bigint").alias(name) for name in _SUMS)
    )
    return named(summed, "minute")


ROLLUP: Final = Rollup(TRAFFIC, TRAFFIC.ddl, _KEYS, counted, _summed, folded)


def advance(batch: Batch) -> None:
    """Add the frames of this batch. Doing a batch again changes nothing."""
    ROLLUP.advance(batch, batch.frames(), batch.frame_hours())
