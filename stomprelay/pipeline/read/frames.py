"""Table `frames`: a batch's segments, parsed side by side, one task for a segment or for several small ones."""

import posixpath
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import unquote

from stomprelay.pipeline.read import segments
from stomprelay.pipeline.spark import arrow
from stomprelay.pipeline.store.store import Batch
from stomprelay.pipeline.store.volume import literal, local

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame, SparkSession

FILES: Final = "path string, modificationTime timestamp, length bigint, content binary"
"""The columns of Spark's format `binaryFile`."""
_LEAST: Final = 4 << 20
_MOST: Final = 64 << 20
"""Bytes that are worth a task, and so many that another one is worth it though no processor is free for it. A task
writes one file for each hour that it finds.
"""
_UNLIKE: Final = (
    "message_id",
    "ack",
    "receipt",
    "headers.key_value.value",
    "body",
    "ns",
    "at",
    "offset",
    "number",
)
"""Columns whose values hardly repeat: a dictionary of them costs a third of the time and makes larger files."""
_QUARANTINE: Final = "segment string, offset bigint, length bigint, reason string"


class SegmentFile(NamedTuple):
    """A segment that is to be read. `path` is a path, or a URI that Spark understands; `size` in bytes, 0 for one
    that has vanished.
    """

    path: str
    size: int


class Taken(NamedTuple):
    """What a batch had. `newest`: the time of its newest record, nanoseconds since 1970; None without any."""

    frames: int
    damages: int
    newest: int | None


def advance(batch: Batch, arrivals: Sequence[SegmentFile]) -> Taken:
    """Write the frames and events of these segments, and what could not be read to `quarantine`."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as f

    seen = Observation()
    sound = f.col("reason").isNull()
    damage = f.struct("segment", "offset", "length", "reason")
    rows = parsed(batch.spark, arrivals).observe(
        seen,
        f.count(f.when(sound, 1)).alias("frames"),
        f.max("ns").alias("newest"),
        f.collect_list(f.when(~sound, damage)).alias("damages"),
    )
    batch.store.append("frames", batch.number, rows.where(sound), **_options(batch.store.format))
    had = seen.get
    damages = had["damages"] or []
    if damages:
        found = batch.spark.createDataFrame([tuple(each) for each in damages], _QUARANTINE)
        batch.store.append("quarantine", batch.number, found.distinct().coalesce(1))
    return Taken(had["frames"], len(damages), had["newest"])


def _options(form: str) -> dict[str, str]:
    return {f"parquet.enable.dictionary#{name}": "false" for name in _UNLIKE} if form == "parquet" else {}


def parsed(spark: "SparkSession", arrivals: Sequence[SegmentFile]) -> "DataFrame":
    """Return rows of `segments.DDL` from these segments. Spark fetches those that are on another file system."""
    is_far = {each: each.size > 0 and local(each.path) is None for each in arrivals}
    far = [each.path for each in arrivals if is_far[each]]
    shares = shared([each for each in arrivals if not is_far[each]], spark.sparkContext.defaultParallelism)
    near = spark.range(0, len(shares), 1, max(len(shares), 1)).mapInArrow(parser(shares), segments.DDL)
    if not far:
        return near
    reader = spark.read.format("binaryFile").schema(FILES).option("ignoreMissingFiles", "true")
    fetched = reader.load([literal(path) for path in far]).select("path", "content")
    return near.unionByName(fetched.mapInArrow(fetched_parser, segments.DDL))


def shared(arrivals: Sequence[SegmentFile], processors: int) -> list[tuple[str, ...]]:
    """Return the paths for each task: one large segment, or several small ones; two tasks for each processor where
    there is enough for all, as segments are not of one size.
    """
    enough = sum(each.size for each in arrivals) // (2 * processors)
    enough = min(max(enough, _LEAST), _MOST)
    shares: list[tuple[str, ...]] = []
    share: list[str] = []
    size = 0
    for arrival in arrivals:
        share.append(arrival.path)
        size += arrival.size
        if size >= enough:
            shares.append(tuple(share))
            share, size = [], 0
    return [*shares, tuple(share)] if share else shares


def parser(
    shares: Sequence[tuple[str, ...]],
) -> "Callable[[Iterator[pyarrow.RecordBatch]], Iterator[pyarrow.RecordBatch]]":
    """Return the function for `mapInArrow` that turns numbers of shares into rows of `segments.DDL`."""

    def parse(batches: Iterator[Any]) -> Iterator[Any]:
        with arrow.uncollected():
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    for path in shares[number]:
                        yield from segments.rows(path)

    return parse


def fetched_parser(batches: "Iterator[pyarrow.RecordBatch]") -> "Iterator[pyarrow.RecordBatch]":
    """Yield rows of `segments.DDL` for batches with the path and content of segments that Spark has fetched."""
    with arrow.uncollected(), tempfile.TemporaryDirectory() as place:
        for batch in batches:
            for uri, content in zip(batch.column(0), batch.column(1), strict=True):
                origin = uri.as_py()
                copy = Path(place) / posixpath.basename(unquote(origin))
                copy.write_bytes(content.as_buffer())
                yield from segments.rows(str(copy), origin)
                copy.unlink()
