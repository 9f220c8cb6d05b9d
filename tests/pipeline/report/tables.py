"""Tables with a few rows each, as the pipeline writes them."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession

from stomprelay.pipeline.schema import TABLES
from stomprelay.pipeline.store.store import Store
from tests.pipeline.rows import FRAME, MESSAGE, START, write

Values = Mapping[str, Any]

USUAL: Final[Mapping[str, Values]] = {
    "frames": FRAME,
    "messages": MESSAGE,
    "traffic": {
        "minute": START,
        "destination": "/queue/a",
        "client": "alice",
        "direction": "to_broker",
        "frames": 1,
        "messages": 1,
        "octets": 100,
        "body_octets": 10,
        "errors": 0,
    },
    "latency": {
        "minute": START,
        "destination": "/queue/a",
        **{f"{name}_count": 1 for name in ("receipt", "delivery", "ack")},
    },
    "flow": {"destination": "/queue/a", "messages": 1, "deliveries": 1, "octets": 10},
    "stuck": {
        "since": START,
        "relay": "r1",
        "session": "s1",
        "client": "bob",
        "subscription": "1",
        "destination": "/queue/a",
        "upstream": "main",
        "broker": "a:61613",
        "age_us": 0,
        "deliveries": 1,
    },
    "failovers": {
        "upstream": "main",
        "broker": "a:61613",
        "moved_to": ["b:61613"],
        "began_at": START,
        "planned": False,
        "sessions": 1,
        "recovered": 1,
        "given_up": 0,
        "resent": 0,
        "stale_acks": 0,
        "duplicates": 0,
    },
    "runs": {
        "relay": "r1",
        "run": "0000000a",
        "began_at": START,
        "heard_at": START,
        "outcome": "running",
        **dict.fromkeys(("segments", "missing", "frames", "events", "dropped", "torn"), 0),
    },
    "quarantine": {"segment": "x.journal", "position": 0, "length": 1, "reason": "checksum"},
}
TIMES: Final = {
    "frames": "seen_at",
    "messages": "seen_at",
    "traffic": "minute",
    "latency": "minute",
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
