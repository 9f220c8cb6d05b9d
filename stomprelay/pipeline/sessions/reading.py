"""Makes records from rows of `frames`, column by column. Where possible, tasks read the table's files themselves."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import dataset, parquet
from pyarrow.fs import LocalFileSystem

from stomprelay.journal.capture import TRACE
from stomprelay.pipeline.read.runs import Segment
from stomprelay.pipeline.schema import FRAMES
from stomprelay.pipeline.sessions import record
from stomprelay.pipeline.sessions.conversation import EVENTS
from stomprelay.pipeline.settings import LONGEST_HEADER
from stomprelay.pipeline.spark import arrow
from stomprelay.pipeline.spark.bundles import Rows
from stomprelay.pipeline.spark.tasks import PARTITIONS
from stomprelay.pipeline.store import layout
from stomprelay.pipeline.store.store import batch_name
from stomprelay.pipeline.store.volume import local

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from stomprelay.pipeline.store.store import Batch

COPY: Final = "relay-copy"
REDELIVERED: Final = "redelivered"
COLUMNS: Final = (
    *("session", "segment", "position", "number", "ns", "relay", "client", "command", "upstream", "broker"),
    *("version", "destination", "subscription", "message_id", "ack", "receipt", "transaction", "body_size"),
    *("body", "headers", "event", "facts"),
)
"""The columns of `frames` from which records are made."""
_CODED: Final = (*(name for name in record.REPEATING if name in COLUMNS), "headers.key_value.key")
"""The columns that are read as dictionaries."""
_ROWS: Final = 1 << 16
_SCHEMA: Final = arrow.schema(record.FIELDS)
_EVENTS: Final = pa.array(sorted(EVENTS), pa.string())


@dataclass(frozen=True)
class Reading:
    """Call it with rows of `frames`, with the columns `COLUMNS`. It yields records (`record.FIELDS`) of the rows that
    matter to a `Conversation` and belong to these `segments` or parts of segments. `id_headers` are the names of
    headers with a publisher's id, `keep_headers` the names of headers that `messages` keeps.
    """

    segments: Sequence[Segment]
    id_headers: Sequence[str]
    keep_headers: Sequence[str]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Take and yield batches, as `mapInArrow` requires."""
        wanted = pa.array([each.name for each in self.segments], pa.string())
        parts = [each for each in self.segments if each.begin or each.end]
        for batch in batches:
            matters = pc.or_(pc.is_valid(batch.column("command")), _among(batch.column("event"), _EVENTS))
            matters = pc.and_(matters, pc.is_valid(batch.column("session")))
            matters = pc.and_(matters, _among(batch.column("segment"), wanted))
            for each in parts:
                inside = pc.greater_equal(batch.column("position"), each.begin)
                if each.end:
                    inside = pc.and_(inside, pc.less(batch.column("position"), each.end))
                of_part = _among(batch.column("segment"), pa.array([each.name]))
                matters = pc.and_not(matters, pc.and_not(of_part, inside))
            rows = batch if pc.all(matters).as_py() else batch.filter(matters)
            if len(rows):
                yield self._recorded(rows)

    def _recorded(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        headers = _Headers(rows)
        made: dict[str, Any] = {name: rows.column(name) for name in COLUMNS if name in record.NAMES}
        made["turn"] = _turns(rows.column("segment"))
        made["digest"] = _digests(rows.column("body"))
        made["trace"] = headers.values([TRACE.decode()])
        made["own"] = headers.values(self.id_headers)
        made["copy"] = headers.values([COPY])
        made["redelivered"] = headers.values([REDELIVERED])
        made["kept"] = headers.kept(self.keep_headers)
        made["facts"] = _objects(rows.column("facts"))
        arrays = [
            made[field.name] if field.name in made else pa.nulls(len(rows), field.type) for field in _SCHEMA
        ]
        return pa.RecordBatch.from_arrays(arrays, record.NAMES)


def reading_of(batch: "Batch", segments: Sequence[Segment]) -> Reading:
    """Return a reader of these segments and parts of segments, with the settings of a batch."""
    settings = batch.settings
    return Reading(segments, tuple(settings.id_headers), tuple(settings.keep_headers or ()))


class _Headers:
    """The headers of the SENDs and MESSAGEs among rows."""

    def __init__(self, rows: pa.RecordBatch) -> None:
        maps = rows.column("headers")
        ends = maps.offsets.to_numpy()
        self._first = int(ends[0])
        names = maps.keys.slice(self._first, int(ends[-1]) - self._first)
        self._coded = names if isinstance(names, pa.DictionaryArray) else names.dictionary_encode()
        self._names: list[str] = self._coded.dictionary.to_pylist()
        self._codes = self._coded.indices.to_numpy(zero_copy_only=False)
        self._texts = maps.items
        self._rows = np.repeat(np.arange(len(rows)), np.diff(ends))
        self._carrying = _carrying(rows, "SEND", "MESSAGE")
        self._sent = _carrying(rows, "SEND")
        self._count = len(rows)

    def _places(self, name: str) -> Any:
        """Return the indices of all headers with this name."""
        found = self._names.index(name) if name in self._names else -1
        return np.flatnonzero(self._codes == found) if found >= 0 else np.array([], np.int64)

    def values(self, names: Sequence[str]) -> pa.Array:
        """Return a column of texts. For a SEND or MESSAGE, the text is the value of the first of these headers that
        the frame has. All other texts are null.
        """
        at = np.full(self._count, -1, np.int64)
        for name in reversed(names):
            places = self._places(name)
            at[self._rows[places]] = places + self._first
        at[~self._carrying] = -1
        return (
            self._texts.take(pa.array(at, mask=at < 0))
            if (at >= 0).any()
            else pa.nulls(self._count, pa.string())
        )

    def kept(self, names: Sequence[str]) -> pa.Array:
        """Return a column with these headers of SENDs as JSON; null for a row without such headers."""
        found: dict[int, dict[str, str]] = {}
        places = np.sort(np.concatenate([np.array([], np.int64), *map(self._places, names)]))
        places = places[self._sent[self._rows[places]]]
        values = self._texts.take(pa.array(places + self._first)).to_pylist()
        for row, code, value in zip(
            self._rows[places].tolist(), self._codes[places].tolist(), values, strict=True
        ):
            found.setdefault(row, {})[self._names[code]] = value[:LONGEST_HEADER]
        return _sparse({row: arrow.compact(each) for row, each in found.items()}, self._count)


def _carrying(rows: pa.RecordBatch, *commands: str) -> Any:
    return _among(rows.column("command"), pa.array(commands, pa.string())).to_numpy(zero_copy_only=False)


def _among(values: pa.Array, known: pa.Array) -> pa.Array:
    """Return a column that tells which values are among `known`. Null is not among them."""
    if isinstance(values, pa.DictionaryArray):
        return pc.is_in(values.dictionary, value_set=known).take(values.indices).fill_null(False)
    return pc.is_in(values, value_set=known)


def _sparse(values: dict[int, Any], count: int) -> pa.Array:
    """Return a column of `count` texts, with these values at their indices and null elsewhere."""
    column: list[Any] = [None] * count
    for at, value in values.items():
        column[at] = value
    return pa.array(column, pa.string())


def _turns(segments: pa.Array) -> pa.Array:
    """Return the numbers at the end of the segments' names; null for a name without a number."""
    coded = segments if isinstance(segments, pa.DictionaryArray) else segments.dictionary_encode()
    ends = [name.rpartition("-")[2] for name in coded.dictionary.to_pylist()]
    return pa.array(
        [int(end) if end.isdecimal() and len(end) < 10 else None for end in ends], pa.int32()
    ).take(coded.indices)


def _digests(bodies: pa.Array) -> pa.Array:
    """Return a number for the kept part of each body. Equal bytes have equal numbers."""
    if bodies.null_count == len(bodies):
        return pa.nulls(len(bodies), pa.int64())
    found = [
        None if each is None else int.from_bytes(blake2b(each, digest_size=8).digest(), "little", signed=True)
        for each in bodies.to_pylist()
    ]
    return pa.array(found, pa.int64())


def _objects(maps: pa.Array) -> pa.Array:
    places = np.flatnonzero(maps.is_valid().to_numpy(zero_copy_only=False))
    there = maps.take(pa.array(places)).to_pylist()
    found = {at: arrow.compact(dict(each)) for at, each in zip(places.tolist(), there, strict=True)}
    return _sparse(found, len(maps))


@dataclass(frozen=True)
class RowGroup:
    """A row group of a file of `frames`."""

    path: Path
    group: int

    def rows(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the row group, with the columns `COLUMNS`. Raises `OSError`."""
        with parquet.ParquetFile(self.path, read_dictionary=list(_CODED)) as file:
            yield from file.iter_batches(_ROWS, row_groups=[self.group], columns=list(COLUMNS))


def frames(
    batch: "Batch",
    number: int,
    hours: Sequence[str] | None,
    segments: Sequence[Segment],
    then: Rows,
    ddl: str,
) -> "DataFrame":
    """Return the rows (`ddl`) that `then` makes from rows of `frames`. `then` gets all rows of these segments, and
    maybe other rows of the same batch `number`. `hours` are the hours of the batch's rows, None if not known. Raises
    `OSError`.
    """
    files = files_of(batch, number, hours)
    if files is None:
        rows = batch.store.read(FRAMES.name, hours, number)
        return rows.select(*COLUMNS).mapInArrow(then, ddl)
    shares = shared(files, int(batch.spark.conf.get(PARTITIONS) or 1), segments)

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        numbers = (number for each in batches for number in each.column(0).to_pylist())
        return then(rows for number in numbers for share in shares[number] for rows in share.rows())

    return batch.spark.range(0, len(shares), 1, max(len(shares), 1)).mapInArrow(read, ddl)


def files_of(batch: "Batch", number: int, hours: Sequence[str] | None) -> list[Path] | None:
    """Return the files of `frames` that a batch wrote for these hours; None if only Spark can read them."""
    root = local(batch.store.root)
    if root is None or batch.store.format != "parquet":
        return None
    places = [layout.HOURS] if hours is None else [layout.place(hour) for hour in sorted(set(hours))]
    pattern = f"batch={batch_name(number)}/*.parquet"
    return sorted(file for place in places for file in (root / FRAMES.name).glob(f"{place}/{pattern}"))


def shared(files: Sequence[Path], tasks: int, segments: Sequence[Segment]) -> list[list[RowGroup]]:
    """Return the row groups that each task reads, for at most `tasks` tasks with about as many rows for each. Row
    groups without rows of these segments are left out. Raises `OSError`.
    """
    wanted = pc.scalar(False)
    for each in segments:
        position = dataset.field("position")
        within = (dataset.field("segment") == each.name) & (position >= each.begin)
        wanted |= within & (position < each.end) if each.end else within
    groups: list[tuple[RowGroup, int]] = []
    here = LocalFileSystem()
    for file in files:
        fragment = dataset.ParquetFileFormat().make_fragment(str(file), here)
        for part in fragment.split_by_row_group(wanted, fragment.physical_schema):
            (group,) = part.row_groups
            groups.append((RowGroup(file, group.id), group.num_rows))
    found: list[list[RowGroup]] = []
    enough = sum(rows for _, rows in groups) / max(tasks, 1)
    held = 0
    for share, rows in groups:
        if not found or held >= enough * len(found):
            found.append([])
        found[-1].append(share)
        held += rows
    return found
