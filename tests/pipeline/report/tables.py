"""Tables with a few rows each, as the pipeline writes them."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession

from stomprelay.pipeline.schema import TABLES
from stomprelay.pipeline.store.store import Store
from tests.pipeline.rows import COUNTS, FRAME, MESSAGE, START, STUCK_AT, STUCK_WHO, write

Values = Mapping[str, Any]

_TO: Final = {"destination": "/queue/a", "client": "alice", "direction": "to_broker"}
_SUMS: Final = {"frames": 1, "messages": 1, "octets": 100, "body_octets": 10, "errors": 0}
_OUTAGE: Final = {"upstream": "main", "broker": "a:61613", "moved_to": ["b:61613"], "planned": False}
_RUN: Final = {"relay": "r1", "run": "0000000a", "outcome": "running"}
_NUMBERS: Final = ("segments", "missing", "frames", "events", "dropped", "torn")
_TIMED: Final = ("receipt_count", "delivery_count", "ack_count")
USUAL: Final[Mapping[str, Values]] = {
    "frames": FRAME,
    "messages": MESSAGE,
    "traffic": {"minute": START, **_TO, **_SUMS},
    "latency": {"minute": START, "destination": "/queue/a", **dict.fromkeys(_TIMED, 1)},
    "flow": {"destination": "/queue/a", "messages": 1, "deliveries": 1, "octets": 10},
    "stuck": {"since": START, **STUCK_WHO, **STUCK_AT, "age_us": 0, "deliveries": 1},
    "failovers": {"began_at": START, **_OUTAGE, "sessions": 1, "recovered": 1, "given_up": 0, **COUNTS},
    "runs": {"began_at": START, "heard_at": START, **_RUN, **dict.fromkeys(_NUMBERS, 0)},
    "quarantine": {"segment": "x.journal", "position": 0, "length": 1, "reason": "checksum"},
}
TIMES: Final = {
    **dict.fromkeys(("frames", "messages"), "seen_at"),
    **dict.fromkeys(("traffic", "latency"), "minute"),
    "stuck": "since",
    "failovers": "began_at",
}


def later(seconds: float) -> datetime:
    """So long after the start."""
    return START + timedelta(seconds=seconds)


def build(spark: SparkSession, root: Path, **tables: Iterable[Values]) -> Store:
    """The tables; each row is the usual one but for what is said."""
    for name, many in tables.items():
        write(root, TABLES[name], USUAL[name], many, time=TIMES.get(name, ""))
    return Store(spark, str(root))
