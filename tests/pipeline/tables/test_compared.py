"""The view `compared`: both sides of a move, from the relay's journal and that of `move compare`."""

from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from pyspark.sql import SparkSession

from stomprelay.pipeline.commands.query import views
from stomprelay.pipeline.report.findings import Compared
from stomprelay.pipeline.report.gather import Range, read_compared
from stomprelay.pipeline.schema import COMPARED, TABLES, VIEWS
from tests.pipeline.report.tables import build, later
from tests.pipeline.rows import START_NS

pytestmark = pytest.mark.spark

SECOND = 10**9


def sent(number: int, **more: Any) -> dict[str, Any]:
    """A SEND in `messages`, a second after the one before."""
    at = later(number)
    return {"seen_at": at, "sent_at": at, "producer_session": "s", "number": number, "size": 1, **more}


def came(number: int, place: int, said: bytes = b"x", **more: Any) -> dict[str, Any]:
    """The copy of this SEND, as a MESSAGE of NEW in `frames`, with the body `x`."""
    mark = f"s-shadow-{number}-{crc32(said):08x}"
    who = {"relay": "compare", "listener": "compare", "session": "compare-1", "side": "broker"}
    where = {"ns": START_NS + 20 * SECOND, "number": place, "destination": "/queue/x"}
    frame = {"command": "MESSAGE", "headers": {"relay-copy": mark}, "body": b"x", "body_size": 1}
    return who | where | frame | more


def compared(**facts: Any) -> dict[str, Any]:
    """The event that says since when and until when, in seconds."""
    times = {name: str(START_NS + value * SECOND) for name, value in facts.items()}
    event = {"kind": "event", "command": None, "event": "compared", "relay": "compare"}
    return {**event, "facts": {"destination": "/queue/a", **times}}


def test_what_became_of_each_send(spark: SparkSession, tmp_path: Path) -> None:
    """Of those that were sent before the comparison, the ones behind the first copy count."""
    messages = [
        *[sent(number) for number in range(10)],
        sent(20, outcome="aborted"),
        sent(21, destination="/queue/b"),
        sent(30),
    ]
    frames = [
        *[came(2, 0), came(4, 1), came(3, 2), came(4, 3), came(4, 4)],
        *[came(5, 5, b"y"), came(6, 6, body_size=2), came(7, 7, body=b"")],
        *[came(8, 8), came(8, 9, headers={**came(8, 9)["headers"], "redelivered": "true"})],
        came(99, 10, headers={}),
        compared(since=8, until=25),
    ]
    store = build(spark, tmp_path, messages=messages, frames=frames)
    views(spark, store)
    try:
        rows = spark.sql(f"SELECT * FROM {COMPARED} ORDER BY number").collect()
        assert read_compared(store, Range(), 5) == (
            [Compared("/queue/a", "alice", 8, 5, 1, 2, 1, 2, 1, 18_000_000)],
            1,
        )
        assert read_compared(store, Range(until=0), 5) == ([], 0)
    finally:
        for name in (*TABLES, *VIEWS):
            spark.catalog.dropTempView(name)
    assert [(row.number, row.body, row.copies, row.marked, row.late) for row in rows] == [
        (2, "same", 1, 0, False),
        (3, "same", 1, 0, True),
        (4, "same", 3, 0, False),
        (5, "other", 1, 0, False),
        (6, "other", 1, 0, False),
        (7, "size", 1, 0, False),
        (8, "same", 2, 1, False),
        (9, "missing", 0, 0, False),
    ]
    assert (rows[0].lag_us, rows[0].producer, rows[0].destination) == (18_000_000, "alice", "/queue/a")
    assert rows[-1].lag_us is None
