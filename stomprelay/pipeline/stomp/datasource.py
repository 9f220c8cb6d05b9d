"""What Spark calls: `format("stomp")` as a source and as a sink.

Spark makes readers and writers on the driver, pickles them, and calls `read` or `write` in each task on an executor.
See `options` for what can be set, `columns` for the rows.

Spark makes some readers only to pickle them. So a new reader holds only options. The reader connects when Spark asks
for the first offset. From then on the reader's process receives messages until the query ends. `read` only reads the
spool.

Spark passes `start` to `latestOffset`. Spark has committed all rows before `start`, because it writes its commit log
before it asks again. Spark calls the method `commit` one batch later, and never for the last batch, so the readers do
not use that method.

A task is done when the broker has confirmed its rows. A job that fails may have sent some of its rows. Rows that are
sent again have the same key, in the header that the option `keyHeader` names, so that consumers can drop them.
"""

import logging
import os
import uuid
from collections.abc import Callable, Iterator, MutableMapping
from dataclasses import dataclass
from functools import wraps
from typing import Any, Final, ParamSpec, TypeVar

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from stomprelay.pipeline.stomp.columns import DDL, DDL_WITHOUT_HEADERS, rows
from stomprelay.pipeline.stomp.options import OptionError, ReaderOptions, Sink, wrong
from stomprelay.pipeline.stomp.progress import JobProgress
from stomprelay.pipeline.stomp.receivers import Offset, Piece, Receivers, limited, pieces, place
from stomprelay.pipeline.stomp.scans import RowRange, ScanIdentity, Scans
from stomprelay.pipeline.stomp.sending import Job, SchemaError, SharedRate, TaskSender, check
from stomprelay.pipeline.stomp.spool import SpoolError, read

FEW: int = 4096
"""Arrow batches of the spool that have fewer rows are joined until they have this many rows together."""
MOST: int = 32 * 1024 * 1024
"""Joining also stops when the batches have this many bytes together."""


P = ParamSpec("P")
T = TypeVar("T")
_log: Final = logging.getLogger("stomprelay.stomp")
_BATCH: Final = "streaming.sql.batchId"
_QUERY: Final = "sql.streaming.queryId"


def _told_alone(method: Callable[P, T]) -> Callable[P, T]:
    """Return `method`, changed so that its errors about options, columns or the spool come without a traceback."""

    @wraps(method)
    def called(*given: P.args, **named: P.kwargs) -> T:
        try:
            return method(*given, **named)
        except (OptionError, SchemaError, SpoolError):
            os.environ["SPARK_HIDE_TRACEBACK"] = "1"
            raise

    return called


class _Rows:
    """Reads rows from the spool, on an executor."""

    def __init__(self, source: ReaderOptions, schema: StructType) -> None:
        self._source = source
        self._schema = schema

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield a partition's rows in batches. Its value has a `Piece`'s fields; None: no rows. Raises `SpoolError`."""
        if partition.value is None:
            return
        piece = Piece(*partition.value)
        schema = to_arrow_schema(self._schema, timezone="UTC")
        gathered: list[Any] = []
        count = size = 0
        groups = read(place(self._source, piece.receiver), piece.first, piece.end, strict=self._source.strict)
        for group in groups:
            gathered.append(rows(group.batch, piece.receiver, group.first, schema))
            count += group.batch.num_rows
            size += group.batch.nbytes
            if count >= FEW or size >= MOST:
                yield from _together(gathered)
                gathered, count, size = [], 0, 0
        yield from _together(gathered)


def _together(batches: list[Any]) -> Iterator[Any]:
    if len(batches) < 2:
        yield from batches
    else:
        yield from pa.Table.from_batches(batches).combine_chunks().to_batches()


class StreamReader(_Rows, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The reader behind `spark.readStream.format("stomp")`."""

    def __init__(self, source: ReaderOptions, schema: StructType) -> None:
        super().__init__(source, schema)
        self._receivers: Receivers | None = None
        self._planned: dict[str, int] = {}
        self._draining = False
        self._target: dict[str, int] | None = None
        self._more = False
        self._until = 0.0

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_receivers": None}

    @_told_alone
    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        """Return the offset at which a query without a checkpoint begins."""
        receivers = self._opened(None)
        return receivers.end if self._source.earliest is False else receivers.begin

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Return how many rows a micro-batch may have, from the options."""
        most = self._source.most
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Make the query end after it has read the messages that the brokers have now."""
        self._draining = True
        self._target = None

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802 - Spark's name
        """Return the offset where the next batch may end. Rows before `start` are committed. Raises `SourceError`."""
        receivers = self._opened(start)
        receivers.check()
        receivers.start()
        receivers.commit(start)
        end = self._drained(receivers, start) if self._draining else receivers.end
        if isinstance(limit, ReadMaxRows):
            end = limited(start, end, limit.max_rows)
        self._planned = {name: max(end[name], start.get(name, 0)) for name in end}
        return self._planned

    def reportLatestOffset(self) -> dict[str, int] | None:  # noqa: N802 - Spark's name
        """Return the end of the spools; None before the first batch. The result has two more keys, because Spark takes
        no metrics from Python. `lag`: the number of messages that are in no batch yet. `unacknowledged`: the number of
        deliveries without an ACK.
        """
        if self._receivers is None:
            return None
        begin, end = self._receivers.begin, self._receivers.end
        lag = sum(each - self._planned.get(name, begin[name]) for name, each in end.items())
        return {**end, "lag": lag, "unacknowledged": self._receivers.unacknowledged}

    @_told_alone
    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        """Return the partitions of a batch, one for each task. Raises `SpoolError` if rows are missing."""
        return [InputPartition(tuple(each)) for each in pieces(self._source, start, end)]

    def stop(self) -> None:
        """Disconnect and close the spools. Spark may not call this method; nothing depends on it."""
        if self._receivers is not None:
            self._receivers.close()

    def _opened(self, start: Offset | None) -> Receivers:
        if self._receivers is None:
            self._receivers = Receivers(self._source, start)
        return self._receivers

    def _drained(self, receivers: Receivers, start: dict[str, int]) -> dict[str, int]:
        """Return the offset after the messages that the brokers had when the query began. If a broker delivers more of
        these messages only after commits, later calls return a later offset.
        """
        receivers.settle()
        if self._target is None:
            self._until = receivers.deadline()
            self._target = receivers.drained(self._until)
            self._more = receivers.held
        elif self._more and all(start.get(name, 0) >= end for name, end in self._target.items()):
            self._target = receivers.drained(self._until)
            self._more = receivers.held or any(start.get(name, 0) < end for name, end in self._target.items())
        return self._target


class BatchReader(_Rows, DataSourceReader):
    """The reader behind `spark.read.format("stomp")`. It receives messages into the spool; its tasks read the spool.
    All scans with the same `identity` have the same rows.
    """

    def __init__(self, source: ReaderOptions, schema: StructType, identity: ScanIdentity) -> None:
        super().__init__(source, schema)
        self._identity = identity
        if source.late:
            raise wrong(
                "ack", "must be spool in batch: only a stream commits, after which commit acknowledges"
            )

    @_told_alone
    def partitions(self) -> list[InputPartition]:
        """Return the partitions. The first scan receives until no more messages come. Later scans have the same rows
        and receive nothing. Raises `SourceError` and `SpoolError`.
        """
        source = self._source
        scans = Scans(source.spool, self._identity, source.retain)
        with scans.alone():
            found = scans.found()
            if found is None or found.end is None:
                found = self._received(scans, found)
        assert found.end is not None
        return [InputPartition(tuple(each)) for each in pieces(source, found.start, found.end)] or [
            InputPartition(None)
        ]

    def _received(self, scans: Scans, begun: RowRange | None) -> RowRange:
        """Receive messages. Record and return the range of their rows. `begun`: the record of a scan that failed."""
        source = self._source
        receivers = Receivers(source)
        try:
            if source.retain:
                receivers.drop_older(source.retain)
            if begun is not None:
                start = begun.start
            else:
                start = receivers.begin if source.earliest else receivers.end
                scans.note(start, None)
            receivers.start()
            receivers.drained(receivers.deadline())
        finally:
            receivers.close()
        receivers.check()
        return scans.note(start, receivers.end)


@dataclass
class Sent(WriterCommitMessage):
    """The report of a task: how many rows the task sent, and how many rows an earlier run had already sent."""

    rows: int
    skipped: int


class _Writer:
    def __init__(self, sink: Sink, schema: StructType) -> None:
        check(schema, sink)
        self._sink = sink
        self._name = uuid.uuid4().hex
        self._id = sink.id
        if sink.progress is not None:
            self._id = JobProgress(sink.progress).identity(sink.id)

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Send the rows of a task and return a `Sent`. Raises `SessionLost`, `ProgressError` and `SchemaError`."""
        context = TaskContext.get()
        partition, attempt = (0, 0) if context is None else (context.partitionId(), context.attemptNumber())
        said = {} if context is None else {key: context.getLocalProperty(key) for key in (_BATCH, _QUERY)}
        job = Job(self._id or said.get(_QUERY) or self._name, said.get(_BATCH) or "0", partition, attempt)
        sending = TaskSender(self._sink, job, self._pace())
        rows = sending.run(iterator)
        return Sent(rows, sending.skipped)

    def _pace(self) -> SharedRate | None:
        return SharedRate.shared(self._sink.rate, self._sink.progress, self._name)

    def _done(self, messages: list[WriterCommitMessage | None], how: str) -> None:
        sent = [each for each in messages if isinstance(each, Sent)]
        rows, skipped = sum(each.rows for each in sent), sum(each.skipped for each in sent)
        _log.info("%s: %d rows sent, %d had been sent before", how, rows, skipped)
        pace = self._pace()
        if pace is not None:
            pace.forget()


class BatchWriter(_Writer, DataSourceArrowWriter):
    """The writer behind `frame.write.format("stomp")`."""

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Log how many rows were sent. Spark calls this method when all tasks have succeeded."""
        self._done(messages, "written")

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Log how many rows were sent. Spark calls this method when a task failed. Sent rows cannot be taken back."""
        self._done(messages, "not written to the end")


class StreamWriter(_Writer, DataSourceStreamArrowWriter):
    """The writer behind `frame.writeStream.format("stomp")`."""

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Log how many rows of the batch were sent. Spark calls this method when all its tasks have succeeded."""
        self._done(messages, f"batch {batchId} written")

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Log how many rows of the batch were sent. A task failed, and Spark repeats the batch."""
        self._done(messages, f"batch {batchId} not written to the end")


class StompDataSource(DataSource):
    """The data source `stomp`; Spark finds it through `pyspark_stomp`. All methods raise `OptionError`."""

    options: MutableMapping[str, str]

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._identity = ScanIdentity.new()  # Spark makes one data source for each `load`

    @classmethod
    def name(cls) -> str:
        """Return the name for `format(...)`."""
        return "stomp"

    @_told_alone
    def schema(self) -> str:
        """Return the columns of the source as a schema string. Spark calls this method first, at `load`."""
        source = ReaderOptions.read(self.options)
        there = next(each for each in (source.spool, *source.spool.parents) if os.path.exists(each))
        if not there.is_dir():
            raise wrong("spool", f"{source.spool} cannot be made: {there} is no folder")
        if not os.access(there, os.W_OK | os.X_OK):
            raise wrong("spool", f"{source.spool} cannot be used: {there} cannot be written to")
        return DDL if source.include_headers else DDL_WITHOUT_HEADERS

    @_told_alone
    def reader(self, schema: StructType) -> BatchReader:
        """Return the reader of a batch query."""
        source = ReaderOptions.read(self.options)
        chosen = self._identity if source.read_id is None else ScanIdentity.named(source.read_id)
        return BatchReader(source, schema, chosen)

    @_told_alone
    def streamReader(self, schema: StructType) -> StreamReader:  # noqa: N802 - Spark's name
        """Return the reader of a streaming query."""
        return StreamReader(ReaderOptions.read(self.options), schema)

    @_told_alone
    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        """Return the writer of a batch query. Raises `SchemaError`, and `OptionError` for mode "overwrite"."""
        if overwrite:
            raise OptionError(
                'format("stomp"): mode("overwrite") cannot be: what a broker has is not replaced, and what is sent'
                ' cannot be taken back. Say mode("append")'
            )
        return BatchWriter(Sink.read(self.options), schema)

    @_told_alone
    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802 - Spark's name
        """Return the writer of a streaming query; `overwrite` (of mode complete) is ignored. Raises `SchemaError`."""
        return StreamWriter(Sink.read(self.options), schema)
