"""Who says how much: counts by minute, destination, client, upstream and direction."""

from datetime import timedelta
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from stomprelay.pipeline.schema import FRAMES
from stomprelay.pipeline.tables.rollup import TRAFFIC_SUMS
from tests.pipeline.rows import FRAME, START, Values, rows, told

pytestmark = pytest.mark.spark

MESSAGE = {"side": "broker", "direction": "to_client", "upstream": "main", "command": "MESSAGE"}
ERROR: dict[str, Any] = {**MESSAGE, "command": "ERROR", "destination": None, "body_size": 0}
NOTHING = dict.fromkeys(("command", "side", "direction", "destination", "size", "body_size"))
EVENT: dict[str, Any] = {"kind": "event", "event": "error", **NOTHING}


def summed(spark: SparkSession, *many: Values) -> DataFrame:
    """The table, of frames."""
    return TRAFFIC_SUMS.summed(rows(spark, FRAMES, FRAME, many))


def test_each_cell(spark: SparkSession) -> None:
    """Frames of all commands, messages, octets and errors, each beside a hand-made sum."""
    frames = summed(
        spark,
        {"size": 100, "body_size": 10},
        {"size": 50, "body_size": 5, "seen_at": START + timedelta(seconds=59)},
        {"size": 30, "body_size": 3, "seen_at": START + timedelta(seconds=60)},
        {"command": "ACK", "destination": None, "size": 20, "body_size": 0},
        {"client": "bob", "size": 70, "body_size": 7},
        {**MESSAGE, "size": 200, "body_size": 10},
        {**MESSAGE, "size": 300, "body_size": 20, "upstream": "other"},
        {**MESSAGE, "command": "RECEIPT", "destination": None, "size": 40, "body_size": 0},
        {**ERROR, "size": 60},
    )
    hour, minute = "2026-11-21-08", "2026-11-21 08:00:00"
    queue, there, here = "/queue/a", "to_broker", "to_client"
    assert told(frames) == sorted(
        [
            (hour, minute, queue, "alice", None, there, 2, 2, 150, 15, 0),
            (hour, "2026-11-21 08:01:00", queue, "alice", None, there, 1, 1, 30, 3, 0),
            (hour, minute, None, "alice", None, there, 1, 0, 20, 0, 0),
            (hour, minute, queue, "bob", None, there, 1, 1, 70, 7, 0),
            (hour, minute, queue, "alice", "main", here, 1, 1, 200, 10, 0),
            (hour, minute, queue, "alice", "other", here, 1, 1, 300, 20, 0),
            (hour, minute, None, "alice", "main", here, 2, 0, 100, 0, 1),
        ],
        key=repr,
    )


def test_errors_of_brokers_and_of_the_relay(spark: SparkSession) -> None:
    """An event `error` is an error towards the client and no frame; an ERROR that a client says is a frame only."""
    said = {"command": "ERROR", "destination": None, "size": 9, "body_size": 0}
    others = [{**EVENT, "event": event} for event in ("recovered", "back-pressure on")]
    columns = ["direction", "frames", "messages", "octets", "body_octets", "errors"]
    found = told(summed(spark, EVENT, *others, said), columns)
    assert found == [("to_broker", 1, 0, 9, 0, 0), ("to_client", 0, 0, 0, 0, 1)]


def test_a_message_counts_where_it_goes_only(spark: SparkSession) -> None:
    """SEND counts from a client and MESSAGE from a broker; the other way about they are frames."""
    found = summed(spark, {"command": "MESSAGE"}, {**MESSAGE, "command": "SEND"})
    assert told(found, ["direction", "frames", "messages"]) == [("to_broker", 1, 0), ("to_client", 1, 0)]
