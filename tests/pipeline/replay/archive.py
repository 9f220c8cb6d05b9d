"""Tables `frames` made by hand, without Spark, and what a replay of them must send."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from stomprelay.pipeline.read.segments import FURTHER, SCHEMA
from stomprelay.pipeline.store import layout
from tests.pipeline.rows import FRAME, START_NS

HOUR: Final = "2026-11-21-08"
_STEP: Final = 1_000_000

Row = Mapping[str, Any]


def send(number: int, destination: str, body: bytes, **more: Any) -> dict[str, Any]:
    """A SEND as the pipeline has it, the `number`-th of its session, a millisecond after the one before."""
    headers = {"destination": destination, "content-length": str(len(body)), **more.pop("headers", {})}
    ns = START_NS + number * _STEP
    return {
        **FRAME,
        "ns": ns,
        "seen_at": ns // 1000,
        "destination": destination,
        "headers": list(headers.items()),
        "body_size": len(body),
        "body": body or None,
        "position": number * 100,
        "number": number,
        **more,
    }


def orders(count: int, destinations: int, prefix: str = "/queue/d", size: int = 20) -> list[dict[str, Any]]:
    """So many SENDs to destinations in turn; the bodies say the destination's own order."""
    return [
        send(
            number,
            f"{prefix}{number % destinations}",
            b"%d" % (number // destinations) + b" " * size,
            headers={"kind": "order", "n": str(number)},
        )
        for number in range(count)
    ]


def write(tables: Path, many: Iterable[Row], batch: int = 0) -> Path:
    """Add these rows to table `frames`, as a batch of the pipeline would."""
    schema = pa.schema([field for field in SCHEMA if field.name not in {name for name, _ in FURTHER}])
    columns = list(many)
    table = pa.table(
        [pa.array([row.get(field.name) for row in columns], field.type) for field in schema], schema=schema
    )
    return _put(table, tables, "frames", f"{batch:09d}")


def messages(tables: Path, known: Mapping[int, Row], *, final: bool = True) -> Path:
    """Add rows to table `messages`, by the numbers of their SENDs: those of a batch, or those that may change. Of
    the columns only those that matter are there; others are null.
    """
    kinds = {"outcome": pa.string(), "transaction": pa.string(), "redelivered": pa.int32()}
    rows = [
        {
            "segment": FRAME["segment"],
            "position": number * 100,
            "number": number,
            "sent_at": FRAME["seen_at"],
            **one,
        }
        for number, one in known.items()
    ]
    columns = {name: pa.array([row[name] for row in rows]) for name in ("segment", "position", "number")}
    columns["sent_at"] = pa.array([row["sent_at"] for row in rows], pa.timestamp("us", "UTC"))
    columns["final"] = pa.array([final] * len(rows))
    columns |= {name: pa.array([row.get(name) for row in rows], kind) for name, kind in kinds.items()}
    return _put(pa.table(columns), tables, "messages", "000000000" if final else "open")


def _put(table: pa.Table, tables: Path, name: str, batch: str) -> Path:
    folder = tables / name / layout.place(HOUR) / f"batch={batch}"
    folder.mkdir(parents=True)
    pq.write_table(table, folder / "part-00000.parquet")
    return tables
