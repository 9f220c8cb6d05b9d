"""Rows of the pipeline's tables in few words, and what a frame of them says, without Python's time zones."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql.types import TimestampType

from stomprelay.pipeline.schema import Table
from stomprelay.pipeline.spark import arrow
from stomprelay.pipeline.store import layout

START: Final = datetime(2026, 11, 21, 8, 0, tzinfo=UTC)
SECOND: Final = 1_000_000_000
START_NS: Final = int(START.timestamp()) * SECOND

Values = Mapping[str, Any]

WHO: Final = {"relay": "r1", "session": "s1", "client": "alice"}
PLACE: Final[Values] = {"segment": "20261121T080000-r1-00000001-000001", "position": 0, "number": 0}
SEND: Final[Values] = {"command": "SEND", "destination": "/queue/a", "size": 100, "body_size": 10}
SAID: Final = {"side": "client", "direction": "to_broker", "kind": "frame"}
FRAME: Final[Values] = {"seen_at": START, "ns": START_NS, **WHO, **SAID, **SEND, **PLACE}
SENT: Final[Values] = {
    "relay": "r1",
    "destination": "/queue/a",
    "producer": "alice",
    "sent_at": START,
    "size": 10,
}
BECAME: Final[Values] = {"outcome": "acked", "deliveries": [], "redelivered": 0, "final": True}
MESSAGE: Final[Values] = {"seen_at": START, **SENT, **BECAME, **PLACE}
COUNTS: Final = dict.fromkeys(("resent", "stale_acks", "duplicates"), 0)
LOST: Final[Values] = {"broker": "a:61613", "lost_ns": START_NS, "planned": False, "given_up": False}
OUTAGE_ROW: Final[Values] = {**WHO, "upstream": "main", **LOST, **COUNTS}
STUCK_WHO: Final[Values] = {**WHO, "client": "bob", "subscription": "1", "destination": "/queue/a"}
STUCK_AT: Final[Values] = {"upstream": "main", "broker": "a:61613"}


def rows(
    spark: SparkSession, table: Table, usual: Values, many: Iterable[Values], also: str = ""
) -> DataFrame:
    """A frame with a table's schema, each row the usual one but for what is said; `also`: further columns, as DDL."""
    names = [*table.names, *(column.split()[0] for column in also.split(",") if column)]
    told = [{**usual, **one} for one in many]
    unknown = {name for one in told for name in one} - set(names)
    assert not unknown, unknown
    values = [tuple(one.get(name) for name in names) for one in told]
    return spark.createDataFrame(values, ", ".join([table.ddl, *([also] if also else [])]))


def _value(value: Any, kind: pa.DataType) -> Any:
    if isinstance(value, Mapping):
        return list(value.items())
    if pa.types.is_list(kind) and pa.types.is_struct(kind.value_type):
        names = [field.name for field in kind.value_type]
        return [dict(zip(names, one, strict=True)) for one in value]
    return value


def write(
    root: str | Path,
    table: Table,
    usual: Values,
    many: Iterable[Values],
    batch: int | str = 0,
    time: str = "",
) -> None:
    """Rows of a table as the pipeline leaves them on disk, but without Spark, which takes long: one file for each hour.

    `batch`: the batch that wrote them, or `open`; `time`: the column by which they have their hour.
    """
    folders: dict[str, list[Values]] = {}
    for one in many:
        row = {**usual, **one}
        unknown = row.keys() - {*table.names}
        assert not unknown, unknown
        place = []
        if table.partitions:
            place.append(layout.place(f"{row[time]:%Y-%m-%d-%H}" if time else "2026-11-21-08"))
        if table.incremental:
            place.append(f"batch={batch if isinstance(batch, str) else f'{batch:09d}'}")
        folders.setdefault("/".join(place), []).append(row)
    fields = arrow.schema((column.name, column.kind) for column in table.columns)
    for place_name, rows_there in folders.items():
        folder = Path(root) / table.name / place_name
        folder.mkdir(parents=True, exist_ok=True)
        told = [
            {field.name: _value(row.get(field.name), field.type) for field in fields} for row in rows_there
        ]
        made = pa.Table.from_pylist(told, fields)
        pq.write_table(made, folder / f"part-{uuid4().hex}.parquet", coerce_timestamps="us")


def delivery(client: str | None, at: datetime, session: str = "c1") -> tuple[Any, ...]:
    """One of a message's deliveries."""
    return (at, client, session, "1", "main", "a:61613", "m1", "client", None, "acked")


def told(frame: DataFrame, columns: Sequence[str] = ()) -> list[tuple[Any, ...]]:
    """The rows, sorted; timestamps as text in UTC."""
    wanted = columns or frame.columns
    kinds = {field.name: field.dataType for field in frame.schema.fields}
    times = {name for name in wanted if isinstance(kinds[name], TimestampType)}
    shown = (F.col(name).cast("string") if name in times else F.col(name) for name in wanted)
    return sorted((tuple(row) for row in frame.select(*shown).collect()), key=repr)
