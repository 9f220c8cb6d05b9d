"""Into how many tasks the work of a batch is cut, and what a small one does without.

What Spark does for large amounts of data costs more than it gains for some megabytes: each shuffle is a stage of its
own, each plan is made Java code and compiled. A batch of few bytes is one task from its files to those that it writes.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PARTITIONS: Final = "spark.sql.shuffle.partitions"
WORTH: Final = 4 << 20
"""So many bytes of a journal get a partition of their own: a task needs a second or two for them."""
ROW: Final = 40
"""A row of `frames` stands for about so many bytes of a journal."""
_BY_NUMBER: Final = {"spark.sql.execution.arrow.maxBytesPerBatch": str((1 << 31) - 1)}
"""Batches of rows for Python are limited by their number alone. With Spark's limit of bytes, Spark would look at the
size of the batch after each row, which takes long for rows with deliveries. No row here has a body.
"""
_SMALL: Final = 64 << 20
_COMPILED: Final = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
}
"""For a batch that is one task: its plans take longer to compile than to run. A broadcast would be a job of its own,
though the rows are in the same task anyway.
"""


@contextmanager
def planned(spark: "SparkSession", octets: int) -> Iterator[None]:
    """Give Spark, in the context, as few partitions as a batch of `octets` bytes of a journal needs."""
    before = int(spark.conf.get(PARTITIONS) or 1)
    fitting = min(before, max(-(-octets // WORTH), 1))
    wanted = {PARTITIONS: str(fitting), **_BY_NUMBER}
    if octets < _SMALL:
        wanted["spark.sql.adaptive.enabled"] = "false"  # else each stage is a job of its own, for nothing
    if fitting == 1:
        wanted |= _COMPILED
    was = {name: str(spark.conf.get(name)) for name in wanted}
    for name, value in wanted.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in was.items():
            spark.conf.set(name, value)


def is_single(spark: "SparkSession") -> bool:
    """Return whether shuffles have one partition, as in a small batch."""
    return spark.conf.get(PARTITIONS) == "1"


def together(rows: "DataFrame", *by: str) -> "DataFrame":
    """Return the rows; rows with equal values in these columns are in one partition."""
    return rows.coalesce(1) if is_single(rows.sparkSession) else rows.repartition(*by)


def few(rows: "DataFrame") -> "DataFrame":
    """Return the same rows. If shuffles have one partition, the rows have one, too, and later steps need no shuffle."""
    return rows.coalesce(1) if is_single(rows.sparkSession) else rows
