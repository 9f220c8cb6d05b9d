"""The number of tasks for a batch, and what Spark does not do for a small batch.

Some work that Spark does for large amounts of data takes longer than it saves for some megabytes: each shuffle is a
stage of its own, and each plan is turned into Java code and compiled. So a small batch is one task, from the files
that it reads to the files that it writes.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PARTITIONS: Final = "spark.sql.shuffle.partitions"
WORTH: Final = 4 << 20
"""So many bytes of a journal get a partition of their own, because a task takes a second or two for them."""
ROW: Final = 40
"""A row of `frames` stands for about so many bytes of a journal."""
_BY_NUMBER: Final = {"spark.sql.execution.arrow.maxBytesPerBatch": str((1 << 31) - 1)}
"""Batches of rows for Python are limited by the number of rows alone. With a limit of bytes, Spark would look at the
size of the batch after each row, which takes long for rows with deliveries. No row here has a body.
"""
_SMALL: Final = 64 << 20
_COMPILED: Final = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
}
"""The settings for a batch that is one task. To compile its plans takes longer than to run them. A broadcast would be a
separate job, and is not needed, because all rows are in the same task.
"""


@contextmanager
def planned(spark: "SparkSession", octets: int) -> Iterator[None]:
    """While the context is entered, let Spark use only as many partitions as `octets` bytes of a journal need."""
    before = int(spark.conf.get(PARTITIONS) or 1)
    fitting = min(before, max(-(-octets // WORTH), 1))
    wanted = {PARTITIONS: str(fitting), **_BY_NUMBER}
    if octets < _SMALL:
        wanted["spark.sql.adaptive.enabled"] = "false"  # otherwise each stage is a job of its own
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
    """Return the rows. Rows with equal values in these columns are in the same partition."""
    return rows.coalesce(1) if is_single(rows.sparkSession) else rows.repartition(*by)


def few(rows: "DataFrame") -> "DataFrame":
    """Return the same rows. They are in one partition if shuffles have one, so that later steps need no shuffle."""
    return rows.coalesce(1) if is_single(rows.sparkSession) else rows
