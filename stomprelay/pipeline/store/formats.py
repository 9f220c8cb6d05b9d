"""Which store there is for a format, and which format a folder of tables has."""

from datetime import datetime
from typing import TYPE_CHECKING

from stomprelay.pipeline.store import layout
from stomprelay.pipeline.store.delta import DeltaStore
from stomprelay.pipeline.store.store import Store, StoreError
from stomprelay.pipeline.store.volume import absolute, local

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def opened(spark: "SparkSession", root: str, form: str, as_of: datetime | int | None = None) -> Store:
    """Return the tables under a root, of one of `layout.FORMATS`; `as_of` as in `DeltaStore`. Raises `StoreError`
    where this session has not what the format needs, and for `as_of` with tables that are files.
    """
    if form == "delta":
        return DeltaStore(spark, root, as_of)
    if as_of is not None:
        raise StoreError(
            f"tables of format {form} are files, which do not remember what they were: --as-of is for --format delta"
        )
    return Store(spark, root, form)


def found(root: str) -> str:
    """Return the format of the tables in a folder of this machine, else the default. Needs no Spark."""
    place = local(absolute(root))
    try:
        there = None if place is None else layout.told((place / layout.NAME).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        there = None
    return layout.FORMATS[0] if there is None or there.format not in layout.FORMATS else there.format
