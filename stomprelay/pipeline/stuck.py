"""Who does not answer: the table `stuck`, a snapshot at the end of each batch."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from stomprelay.pipeline.batch import Batch
from stomprelay.pipeline.outstanding import OUTSTANDING
from stomprelay.pipeline.rollup import hour_of
from stomprelay.pipeline.tables import STUCK


def stuck(outstanding: DataFrame, after: float) -> DataFrame:
    """Of `OUTSTANDING` rows those whose oldest delivery waits for more than `after` seconds, as rows of `stuck` with
    their `hour`.
    """
    waited = F.col("as_of_ns") - F.col("oldest_ns")
    at = F.timestamp_micros(F.expr("as_of_ns DIV 1000"))
    return (
        outstanding.where(waited > F.lit(round(after * 1_000_000_000)))
        .withColumns(
            {
                "at": at,
                "hour": hour_of(at),
                "oldest_at": F.timestamp_micros(F.expr("oldest_ns DIV 1000")),
                "age_us": F.expr("(as_of_ns - oldest_ns) DIV 1000"),
            }
        )
        .select("hour", *STUCK.names)
    )


def advance(batch: Batch) -> None:
    """Write down who is stuck after this batch; safe to do again."""
    outstanding = batch.store.saved("outstanding", batch.number, OUTSTANDING.ddl)
    batch.store.append(STUCK.name, batch.number, stuck(outstanding, batch.settings.stuck_after))
