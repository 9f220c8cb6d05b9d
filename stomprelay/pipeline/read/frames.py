"""Table `frames`: a batch's segments, parsed side by side, one task for a segment or for several small ones."""

import posixpath
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import unquote

from stomprelay.journal.segment import CLOSED, FRAMES_DROPPED, FRAMES_MISSING
from stomprelay.pipeline.read import segments, writing
from stomprelay.pipeline.spark import arrow
from stomprelay.pipeline.store import layout
from stomprelay.pipeline.store.store import Batch
from stomprelay.pipeline.store.volume import literal, local

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FILES: Final = "path string, modificationTime timestamp, length bigint, content binary"
"""The columns of Spark's format `binaryFile`."""
_LEAST: Final = 4 << 20
_MOST: Final = 64 << 20
"""Bytes that are worth a task, and those that are worth one though no processor is free for it."""
_QUARANTINE: Final = "segment string, position bigint, length bigint, reason string"
_AGAIN: Final = "its segment was read already, from another file of the same run and number"
Rows = Callable[[Iterator[Any]], Iterator[Any]]
"""Arrow batches to others, in one of Spark's tasks."""


class Damage(NamedTuple):
    """A row of `quarantine`."""

    segment: str
    position: int
    length: int
    reason: str


class SegmentFile(NamedTuple):
    """A segment to read: a path or a URI of Spark, and its size, 0 for one that has vanished."""

    path: str
    size: int


class Taken(NamedTuple):
    """What a batch had: the time (ns) of its newest record, and sentences about frames that are missing."""

    frames: int
    damages: int
    newest: int | None
    missing: tuple[str, ...] = ()


def advance(batch: Batch, arrivals: Sequence[SegmentFile], again: Sequence[SegmentFile] = ()) -> Taken:
    """Write the frames of these segments, and to `quarantine` what cannot be read, and the copies in `again`."""
    taken, damages = _placed(batch, arrivals) or _appended(batch, arrivals)
    damages += [Damage(each.path, 0, each.size, _AGAIN) for each in again]
    if damages:
        found = batch.spark.createDataFrame(damages, _QUARANTINE)
        batch.store.append("quarantine", batch.number, found.distinct().coalesce(1))
    missing = sorted(
        f"{posixpath.basename(each.segment)}, at {each.position}: {each.reason}"
        for each in damages
        if FRAMES_MISSING in each.reason or FRAMES_DROPPED in each.reason
    )
    return taken._replace(damages=len(damages), missing=tuple(missing))


def _placed(batch: Batch, arrivals: Sequence[SegmentFile]) -> tuple[Taken, list[Damage]] | None:
    """Have the tasks write the table's files. Return what was taken, and the damages; None where they cannot."""
    folder = batch.store.stage("frames", batch.number)
    if folder is None:
        return None
    told = parsed(batch.spark, arrivals, partial(writing.written, folder=folder), writing.DDL).collect()
    files = [Path(each.file) for each in told if each.file is not None]
    batch.store.adopt("frames", batch.number, files)
    damages = [
        Damage(each.segment, each.position, each.length, each.reason)
        for each in told
        if each.reason is not None
    ]
    read = [
        [each[name] for name in writing.SUMS] for each in told if each.file is None and each.reason is None
    ]
    known = {each[0] for each in read}
    # Of segments in which nothing could be read, too, somebody wants to know that they came.
    broken = {posixpath.basename(each.segment).removesuffix(CLOSED) for each in damages} - known
    read += [[name, None, None, False, None, None, 0, []] for name in sorted(broken)]
    batch.note_frames({layout.hour_at(str(file)) for file in files}, read)
    summed = [each for each in told if each.newest is not None]
    newest = max((each.newest for each in summed), default=None)
    return Taken(sum(each.frames for each in summed), len(damages), newest), damages


def _appended(batch: Batch, arrivals: Sequence[SegmentFile]) -> tuple[Taken, list[Damage]]:
    """Have Spark write the table, and return the same."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as f

    seen = Observation()
    sound = f.col("reason").isNull()
    damage = f.struct("segment", "position", "length", "reason")
    rows = parsed(batch.spark, arrivals).observe(
        seen,
        f.count(f.when(sound, 1)).alias("frames"),
        f.max("ns").alias("newest"),
        f.collect_set(f.when(sound, f.col("hour"))).alias("hours"),
        f.collect_list(f.when(~sound, damage)).alias("damages"),
    )
    batch.store.append("frames", batch.number, rows.where(sound))
    had = seen.get
    batch.note_frames(had["hours"] or (), None)
    damages = [Damage(*each) for each in had["damages"] or []]
    return Taken(had["frames"], len(damages), had["newest"]), damages


def parsed(
    spark: "SparkSession", arrivals: Sequence[SegmentFile], then: Rows = iter, ddl: str = segments.DDL
) -> "DataFrame":
    """Return rows of `segments.DDL` from these segments, or rows of `ddl` that each task makes of them by `then`."""
    is_far = {each: each.size > 0 and local(each.path) is None for each in arrivals}
    far = [each.path for each in arrivals if is_far[each]]
    shares = shared([each for each in arrivals if not is_far[each]], spark.sparkContext.defaultParallelism)
    near = spark.range(0, len(shares), 1, max(len(shares), 1)).mapInArrow(_both(parser(shares), then), ddl)
    if not far:
        return near
    reader = spark.read.format("binaryFile").schema(FILES).option("ignoreMissingFiles", "true")
    fetched = reader.load([literal(path) for path in far]).select("path", "content")
    return near.unionByName(fetched.mapInArrow(_both(fetched_parser, then), ddl))


def _both(first: Rows, then: Rows) -> Rows:
    return lambda batches: then(first(batches))


def shared(arrivals: Sequence[SegmentFile], processors: int) -> list[tuple[str, ...]]:
    """Return the paths for each task: one large segment or several small ones, two tasks for each processor."""
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
    """Return the function for `mapInArrow` that turns numbers of shares into rows of `segments.DDL`."""

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
