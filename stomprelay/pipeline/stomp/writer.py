"""Writing, as Spark calls it: made on the driver, pickled, and `write` called by each task on its executor.

A task is done when the broker has confirmed its rows. A job that fails in between has sent some of them: what is said
again has the same key, in the header that the option `keyHeader` names, so that consumers can drop it.
"""

import logging
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from stomprelay.pipeline.stomp.options import Sink
from stomprelay.pipeline.stomp.pace import Pace
from stomprelay.pipeline.stomp.progress import Progress
from stomprelay.pipeline.stomp.sending import Job, Sending
from stomprelay.pipeline.stomp.sends import check

_log: Final = logging.getLogger("stomprelay.stomp")

_BATCH: Final = "streaming.sql.batchId"
_QUERY: Final = "sql.streaming.queryId"


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
            self._id = Progress(sink.progress).identity(sink.id)

    def _send(self, batches: Iterator[Any]) -> Sent:
        context = TaskContext.get()
        partition, attempt = (0, 0) if context is None else (context.partitionId(), context.attemptNumber())
        said = {} if context is None else {key: context.getLocalProperty(key) for key in (_BATCH, _QUERY)}
        job = Job(self._id or said.get(_QUERY) or self._name, said.get(_BATCH) or "0", partition, attempt)
        sending = Sending(self._sink, job, self._pace())
        rows = sending.run(batches)
        return Sent(rows, sending.skipped)

    def _pace(self) -> Pace | None:
        return Pace.shared(self._sink.rate, self._sink.progress, self._name)

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
