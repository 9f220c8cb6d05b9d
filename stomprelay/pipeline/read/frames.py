"""Table `frames`: a batch's segments, parsed in parallel. A task parses one segment or several small segments."""

import json
import posixpath
import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import unquote

from stomprelay.journal.segment import CLOSED, FRAMES_DROPPED, FRAMES_MISSING
from stomprelay.pipeline.read import segments, writing
from stomprelay.pipeline.read.runs import Segment
from stomprelay.pipeline.spark import arrow
from stomprelay.pipeline.spark.bundles import Rows, chained
from stomprelay.pipeline.store.store import Batch
from stomprelay.pipeline.store.volume import literal, local

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

FILES: Final = "path string, modificationTime timestamp, length bigint, content binary"
"""The columns of Spark's format `binaryFile`."""
_LEAST: Final = 4 << 20
_MOST: Final = 64 << 20
"""A task gets segments until they have enough bytes: a number from `_LEAST` to `_MOST` that depends on the batch."""
_QUARANTINE: Final = "segment string, position bigint, length bigint, reason string"
_AGAIN: Final = "its segment was read already, from another file of the same run and number"
_TOLD: Final = ("segment", "position", "length", "reason", "sums", "file")
"""The columns of `segments.DDL` in which a task reports damages, segments and files."""


class QuarantineRow(NamedTuple):
    """A row of `quarantine`. `position` and `length` are bytes. Missing segments or frames have the length 0."""

    segment: str
    position: int
    length: int
    reason: str


class SegmentToRead(NamedTuple):
    """A segment to read: its path or its URI for Spark, and its size in bytes (0 if the file has vanished)."""

    path: str
    size: int


def advance(
    batch: Batch, arrivals: Sequence[SegmentToRead], again: Sequence[SegmentToRead] = ()
) -> tuple[int, int, list[str]]:
    """Write the frames of the segments `arrivals`. Write to `quarantine` what cannot be read, and a row for each file
    in `again`, whose segment arrived before. Return the number of frames, the number of rows written to `quarantine`,
    and a sentence for each place where frames are missing.
    """
    folder = batch.store.stage("frames", batch.number)
    if folder is None:
        told = _appended(batch, parsed(batch.spark, arrivals, writing.summed))
    else:
        # The tasks write the table's files: Spark would take ten times as long for that.
        write = chained(writing.summed, partial(writing.written, folder=folder))
        told = parsed(batch.spark, arrivals, write).select(*_TOLD).collect()
        batch.store.adopt("frames", batch.number, [Path(each.file) for each in told if each.file is not None])
    damages = [QuarantineRow(*each[:4]) for each in told if each.reason is not None]
    sums = [json.loads(each.sums) for each in told if each.sums is not None]
    segments = [Segment(*each)._replace(batch=batch.number) for _, each in sums]
    # Segments in which nothing could be read have come, too.
    broken = {posixpath.basename(each.segment).removesuffix(CLOSED) for each in damages}
    broken -= {each.name for each in segments}
    unread = [Segment(name, batch.number, None, None, ended=False) for name in sorted(broken)]
    batch.note_frames({hour for hours, _ in sums for hour in hours}, [*segments, *unread])
    damages += [QuarantineRow(each.path, 0, each.size, _AGAIN) for each in again]
    if damages:
        found = batch.spark.createDataFrame(damages, _QUARANTINE)
        batch.store.append("quarantine", batch.number, found.distinct().coalesce(1))
    missing = sorted(
        f"{posixpath.basename(each.segment)}, at {each.position}: {each.reason}"
        for each in damages
        if FRAMES_MISSING in each.reason or FRAMES_DROPPED in each.reason
    )
    return sum(each.rows for each in segments), len(damages), missing


def _appended(batch: Batch, rows: "DataFrame") -> "Sequence[Row]":
    """Let Spark write the frames and events in `rows` to the table. Return all other rows of `rows`."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as f

    seen, is_frame = Observation(), f.col("hour").isNotNull()
    others = f.collect_list(f.when(~is_frame, f.struct(*_TOLD)))
    batch.store.append("frames", batch.number, rows.observe(seen, others.alias("told")).where(is_frame))
    told: Sequence[Row] = seen.get["told"]
    return told


def parsed(spark: "SparkSession", arrivals: Sequence[SegmentToRead], then: Rows) -> "DataFrame":
    """Return a DataFrame of `segments.DDL`. In each task, `then` makes rows from the rows of the task's segments."""
    is_far = {each: each.size > 0 and local(each.path) is None for each in arrivals}
    far = [each.path for each in arrivals if is_far[each]]
    shares = shared([each for each in arrivals if not is_far[each]], spark.sparkContext.defaultParallelism)
    near = spark.range(0, len(shares), 1, max(len(shares), 1)).mapInArrow(
        chained(parser(shares), then), segments.DDL
    )
    if not far:
        return near
    reader = spark.read.format("binaryFile").schema(FILES).option("ignoreMissingFiles", "true")
    fetched = reader.load([literal(path) for path in far]).select("path", "content")
    return near.unionByName(fetched.mapInArrow(chained(fetched_parser, then), segments.DDL))


def shared(arrivals: Sequence[SegmentToRead], processors: int) -> list[tuple[str, ...]]:
    """Return the paths for each task: a large segment or several small segments, about two tasks for a processor."""
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


def parser(shares: Sequence[tuple[str, ...]]) -> Rows:
    """Return a function for `mapInArrow` that takes numbers of `shares` and yields the rows of their segments."""

    def parse(batches: Iterator[Any]) -> Iterator[Any]:
        with arrow.uncollected():
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    for path in shares[number]:
                        yield from segments.rows(path)

    return parse


def fetched_parser(batches: Iterator[Any]) -> Iterator[Any]:
    """Yield rows of `segments.DDL` for batches with the path and content of segments that Spark has fetched."""
    with arrow.uncollected(), tempfile.TemporaryDirectory() as place:
        for batch in batches:
            for uri, content in zip(batch.column(0), batch.column(1), strict=True):
                origin = uri.as_py()
                copy = Path(place) / posixpath.basename(unquote(origin))
                copy.write_bytes(content.as_buffer())
                yield from segments.rows(str(copy), origin)
                copy.unlink()
