"""One batch: the segments that are read at a time, and where what they say goes."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stomprelay.pipeline.settings import Settings
from stomprelay.pipeline.store.store import Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class Batch:
    """Number `number`, from 0. A batch that was cut short comes again with the same number and the same segments;
    whatever it writes goes to the `store` under its number.
    """

    spark: "SparkSession"
    store: Store
    number: int
    settings: Settings

    def frames(self) -> "DataFrame":
        """Its frames and events, read back from the table, so that they are parsed but once."""
        return self.store.read("frames", batch=self.number)
