"""Reading, as Spark calls it: which process does what is the key to it.

Spark makes these objects in processes that live for a moment, too, and pickles them to its executors: so they hold
options alone, and connect only when the first offset is asked for. From then on one process serves a query until its
end, and its threads receive. `read` runs elsewhere and knows nothing but the spool.

The `start` of `latestOffset` is what Spark has committed: it is written to the commit log before Spark asks again.
`commit` comes a batch later, and never for the last one; it is not used.
"""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from stomprelay.pipeline.stomp.columns import rows
from stomprelay.pipeline.stomp.intake import Intake, Offset, Piece, limited, pieces, place
from stomprelay.pipeline.stomp.options import Source
from stomprelay.pipeline.stomp.spool import read

FEW: int = 4096
"""Rows of a record batch, at least, where there are so many: groups of a trickle are put together."""
MOST: int = 32 * 1024 * 1024
"""Octets of one, about."""


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
        self._intake: Intake | None = None
        self._draining = False
        self._target: dict[str, int] | None = None
        self._until = 0.0

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_intake": None}

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        """Where a query without a checkpoint begins."""
        intake = self._opened(None)
        return intake.end if self._source.earliest is False else intake.begin

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
        intake = self._opened(start)
        intake.check()
        intake.start()
        intake.commit(start)
        end = self._drained(intake, start) if self._draining else intake.end
        if isinstance(limit, ReadMaxRows):
            end = limited(start, end, limit.max_rows)
        return {name: max(end[name], start.get(name, 0)) for name in end}

    def reportLatestOffset(self) -> dict[str, int] | None:  # noqa: N802 - Spark's name
        """What the spool has, for the query's progress."""
        return None if self._intake is None else self._intake.end

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        """The tasks of a batch."""
        return [InputPartition(tuple(each)) for each in pieces(self._source, start, end)]

    def stop(self) -> None:
        """The driver goes, if it is asked to: nothing depends on this."""
        if self._intake is not None:
            self._intake.close()

    def _opened(self, start: Offset | None) -> Intake:
        if self._intake is None:
            self._intake = Intake(self._source, start)
        return self._intake

    def _drained(self, intake: Intake, start: dict[str, int]) -> dict[str, int]:
        """What was there when the query began. Where the broker holds some back until earlier ones are acknowledged,
        it is there as well.
        """
        intake.settle()
        if self._target is None:
            self._until = intake.deadline()
            self._target = intake.drained(self._until)
            self._more = intake.held
        elif self._more and all(start.get(name, 0) >= end for name, end in self._target.items()):
            self._target = intake.drained(self._until)
            self._more = intake.held or any(start.get(name, 0) < end for name, end in self._target.items())
        return self._target

    _more = False


class BatchReader(_Rows, DataSourceReader):
    """`spark.read.format("stomp")`: what there is goes to the spool, is acknowledged, and read from there."""

    def partitions(self) -> list[InputPartition]:
        """Drain the broker, in the process that plans the query. The tasks of the job."""
        source = self._source
        intake = Intake(source)
        try:
            if source.retain:
                intake.drop_older(source.retain)
            start = intake.begin if source.earliest else intake.end
            intake.start()
            intake.drained(intake.deadline())
        finally:
            intake.close()
        intake.check()
        return [InputPartition(tuple(each)) for each in pieces(source, start, intake.end)] or [
            InputPartition(None)
        ]
