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
"""Bytes of a journal that are worth a partition: they take a second or two."""
ROW: Final = 40
"""Bytes of a journal that a row of `frames` stands for, about."""
_BY_NUMBER: Final = {"spark.sql.execution.arrow.maxBytesPerBatch": str((1 << 31) - 1)}
"""Rows go to Python by so many, without Spark's limit of their bytes: for that it asks at each row how large they are
by now, which goes over all rows since the last that has a delivery, again and again. None of these rows has a body.
"""
_SMALL: Final = 64 << 20
_ADAPTIVE: Final = {"spark.sql.adaptive.enabled": "false"}
"""For a batch of fewer bytes: each stage would be a job of its own, and there is nothing to adapt to."""
_COMPILED: Final = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
}
"""For a batch that is one task: to compile its plans takes longer than to run them over so few rows, and what a join
would broadcast, in a job of its own, is in that task anyway.
"""


@contextmanager
def planned(spark: "SparkSession", octets: int) -> Iterator[None]:
    """A context in which Spark uses as few partitions as `octets` bytes of a journal need."""
    before = int(spark.conf.get(PARTITIONS) or 1)
    fitting = min(before, max(-(-octets // WORTH), 1))
    wanted = {PARTITIONS: str(fitting), **_BY_NUMBER}
    if octets < _SMALL:
        wanted |= _ADAPTIVE
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
    """Return whether shuffles have one partition, as those of a small batch."""
    return spark.conf.get(PARTITIONS) == "1"


def together(rows: "DataFrame", *by: str) -> "DataFrame":
    """Return the rows; rows with equal values in these columns are in one partition."""
    return rows.coalesce(1) if is_single(rows.sparkSession) else rows.repartition(*by)


def few(rows: "DataFrame") -> "DataFrame":
    """Return the rows, in one partition where shuffles have one, so that nothing that follows needs a shuffle."""
    return rows.coalesce(1) if is_single(rows.sparkSession) else rows
