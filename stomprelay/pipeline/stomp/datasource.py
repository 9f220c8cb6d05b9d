"""What Spark calls: `format("stomp")` as a source and as a sink.

Spark makes readers and writers on the driver, pickles them, and calls `read` or `write` in each task on an executor.
See `options` for what can be set, `columns` for the rows.

Reading, as Spark calls it: which process does what is the key to it.

Spark makes these objects in processes that live for a moment, too, and pickles them to its executors: so they hold
options alone, and connect only when the first offset is asked for. From then on one process serves a query until its
end, and its threads receive. `read` runs elsewhere and knows nothing but the spool.

The `start` of `latestOffset` is what Spark has committed: it is written to the commit log before Spark asks again.
`commit` comes a batch later, and never for the last one; it is not used.

Writing, as Spark calls it: made on the driver, pickled, and `write` called by each task on its executor.

A task is done when the broker has confirmed its rows. A job that fails in between has sent some of them: what is sent
again has the same key, in the header that the option `keyHeader` names, so that consumers can drop it.
"""

import logging
import uuid
from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass
from typing import Any, Final

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
from stomprelay.pipeline.stomp.options import Sink, Source
from stomprelay.pipeline.stomp.progress import JobProgress
from stomprelay.pipeline.stomp.receivers import Offset, Piece, Receivers, limited, pieces, place
from stomprelay.pipeline.stomp.sending import Job, SharedRate, TaskSender
from stomprelay.pipeline.stomp.sends import check
from stomprelay.pipeline.stomp.spool import read

FEW: int = 4096
"""Rows of a record batch, at least, where there are so many: groups of a trickle are put together."""
MOST: int = 32 * 1024 * 1024
"""Bytes of one, about."""


_log: Final = logging.getLogger("stomprelay.stomp")
_BATCH: Final = "streaming.sql.batchId"
_QUERY: Final = "sql.streaming.queryId"


class _Rows:
    """What reading the spool on an executor needs."""

    def __init__(self, source: Source, schema: StructType) -> None:
        self._source = source
        self._schema = schema

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The rows of one piece, as record batches."""
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
    """`spark.readStream.format("stomp")`."""

    def __init__(self, source: Source, schema: StructType) -> None:
        super().__init__(source, schema)
        self._receivers: Receivers | None = None
        self._draining = False
        self._target: dict[str, int] | None = None
        self._until = 0.0

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_receivers": None}

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        """Where a query without a checkpoint begins."""
        receivers = self._opened(None)
        return receivers.end if self._source.earliest is False else receivers.begin

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Of a micro-batch."""
        most = self._source.most
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """The query ends when what there is has been read."""
        self._draining = True
        self._target = None

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802 - Spark's name
        """Up to where the next batch may go."""
        receivers = self._opened(start)
        receivers.check()
        receivers.start()
        receivers.commit(start)
        end = self._drained(receivers, start) if self._draining else receivers.end
        if isinstance(limit, ReadMaxRows):
            end = limited(start, end, limit.max_rows)
        return {name: max(end[name], start.get(name, 0)) for name in end}

    def reportLatestOffset(self) -> dict[str, int] | None:  # noqa: N802 - Spark's name
        """What the spool has, for the query's progress."""
        return None if self._receivers is None else self._receivers.end

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        """The tasks of a batch."""
        return [InputPartition(tuple(each)) for each in pieces(self._source, start, end)]

    def stop(self) -> None:
        """The driver goes, if it is asked to: nothing depends on this."""
        if self._receivers is not None:
            self._receivers.close()

    def _opened(self, start: Offset | None) -> Receivers:
        if self._receivers is None:
            self._receivers = Receivers(self._source, start)
        return self._receivers

    def _drained(self, receivers: Receivers, start: dict[str, int]) -> dict[str, int]:
        """What was there when the query began. Where the broker holds some back until earlier ones are acknowledged,
        it is there as well.
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

    _more = False


class BatchReader(_Rows, DataSourceReader):
    """`spark.read.format("stomp")`: what there is goes to the spool, is acknowledged, and read from there."""

    def partitions(self) -> list[InputPartition]:
        """Drain the broker, in the process that plans the query. The tasks of the job."""
        source = self._source
        receivers = Receivers(source)
        try:
            if source.retain:
                receivers.drop_older(source.retain)
            start = receivers.begin if source.earliest else receivers.end
            receivers.start()
            receivers.drained(receivers.deadline())
        finally:
            receivers.close()
        receivers.check()
        return [InputPartition(tuple(each)) for each in pieces(source, start, receivers.end)] or [
            InputPartition(None)
        ]


@dataclass
class Sent(WriterCommitMessage):
    """What a task did: rows sent, and rows that an earlier run had sent."""

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

    def _send(self, batches: Iterator[Any]) -> Sent:
        context = TaskContext.get()
        partition, attempt = (0, 0) if context is None else (context.partitionId(), context.attemptNumber())
        said = {} if context is None else {key: context.getLocalProperty(key) for key in (_BATCH, _QUERY)}
        job = Job(self._id or said.get(_QUERY) or self._name, said.get(_BATCH) or "0", partition, attempt)
        sending = TaskSender(self._sink, job, self._pace())
        rows = sending.run(batches)
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
    """`frame.write.format("stomp")`."""

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Send the rows of a task."""
        return self._send(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """All tasks are done."""
        self._done(messages, "written")

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """A task failed; what was sent is sent."""
        self._done(messages, "not written to the end")


class StreamWriter(_Writer, DataSourceStreamArrowWriter):
    """`frame.writeStream.format("stomp")`."""

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Send the rows of a task."""
        return self._send(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """All tasks of a batch are done."""
        self._done(messages, f"batch {batchId} written")

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """A task failed; what was sent is sent, and its batch comes again."""
        self._done(messages, f"batch {batchId} not written to the end")


class StompDataSource(DataSource):
    """A STOMP broker, or a relay, as a source and a sink of Spark.

    Spark finds it by itself, for the package `pyspark_stomp` is there.
    """

    options: MutableMapping[str, str]

    @classmethod
    def name(cls) -> str:
        """As in `format("stomp")`."""
        return "stomp"

    def schema(self) -> str:
        """The columns of the source."""
        return DDL if Source.read(self.options).include_headers else DDL_WITHOUT_HEADERS

    def reader(self, schema: StructType) -> BatchReader:
        """Drain what is there."""
        return BatchReader(Source.read(self.options), schema)

    def streamReader(self, schema: StructType) -> StreamReader:  # noqa: N802 - Spark's name
        """Receive as long as the query lives."""
        return StreamReader(Source.read(self.options), schema)

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        """Send each row."""
        return BatchWriter(Sink.read(self.options), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802 - Spark's name
        """Send each row of each batch."""
        return StreamWriter(Sink.read(self.options), schema)
