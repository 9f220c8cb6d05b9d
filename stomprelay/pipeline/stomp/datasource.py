"""`format("stomp")`, as Spark finds it. See `options` for what it takes, `columns` for the rows."""

from collections.abc import MutableMapping

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from stomprelay.pipeline.stomp.columns import DDL, DDL_WITHOUT_HEADERS
from stomprelay.pipeline.stomp.options import Sink, Source
from stomprelay.pipeline.stomp.reader import BatchReader, StreamReader
from stomprelay.pipeline.stomp.writer import BatchWriter, StreamWriter


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
