"""The selection made fast: written once, sorted, a file for each connection, and read back batch by batch."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from stomprelay.pipeline.commands.query import failing
from stomprelay.pipeline.replay.selection import COLUMNS, TURN

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_OCTETS: Final = 4 << 20
"""Of a batch in memory, about."""
_ROWS: Final = 2000


class Passed(NamedTuple):
    """In place of a batch whose messages are confirmed already."""

    num_rows: int


def write(rows: "DataFrame", folder: Path, connections: int) -> list[tuple[Path, int]]:
    """Write those of what `selected` answered that can be sent to a folder of the file system; the messages to one
    destination are in one file. Answers the files with their messages. Raises `ValueError` where the query fails.
    """
    import pyarrow.parquet as pq
    from pyspark.sql import functions as f

    ordered = (
        rows.where(f.col("fate").isNull())
        .repartition(connections, "destination")
        .sortWithinPartitions(*TURN)
        .select(*COLUMNS)
    )
    with failing():
        ordered.write.option("maxRecordsPerFile", 0).parquet(f"file://{folder}")
    paths = sorted(folder.glob("part-*.parquet"))
    return [(path, count) for path in paths if (count := pq.ParquetFile(path).metadata.num_rows)]


def read(path: Path, passed: int) -> Iterator[Any]:
    """The messages of a file in Arrow batches. In place of those that are among the first `passed` there may be a
    `Passed`.
    """
    import pyarrow.parquet as pq

    with pq.ParquetFile(path, buffer_size=1 << 20) as file:
        known = file.metadata
        octets = sum(known.row_group(group).total_byte_size for group in range(known.num_row_groups))
        size = max(1, min(_ROWS, _OCTETS * known.num_rows // max(octets, 1)))
        done = 0
        for group in range(known.num_row_groups):
            count = known.row_group(group).num_rows
            done += count
            if done <= passed:
                yield Passed(count)
            else:
                yield from file.iter_batches(size, row_groups=[group])
