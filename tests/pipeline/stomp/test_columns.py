"""Messages to columns."""

import datetime

import pyarrow as pa

from stomprelay.pipeline.stomp.columns import STORED, Columns, rows
from tests.pipeline.stomp.rig import batch, frames, message

NOW = 1_700_000_000_123_456


def gathered(*messages: bytes, headers: bool = True) -> list[dict[str, object]]:
    """Put messages into columns and read them as rows."""
    columns = Columns(["/queue/a", "/queue/b.>"], headers=headers)
    for frame in frames(b"".join(messages)):
        columns.add(columns.read(frame), frame.payload, NOW)
    assert len(columns) == len(messages)
    made = columns.batch()
    assert made.schema.equals(STORED)
    assert len(columns) == 0
    found: list[dict[str, object]] = made.to_pylist()
    return found


def test_a_message_becomes_a_row() -> None:
    """Each header is where it belongs, and what names the delivery alone is nowhere."""
    (row,) = gathered(message(1, b"content-type:text/plain\nredelivered:true\nn:1\npersistent:true\n"))
    assert row == {
        "destination": "/queue/a",
        "message_id": "m1",
        "subscription": "/queue/a",
        "content_type": "text/plain",
        "headers": [("n", "1"), ("persistent", "true")],
        "body": b"hello",
        "redelivered": True,
        "received": datetime.datetime.fromtimestamp(NOW / 1e6, datetime.UTC),
    }


def test_a_pattern_tells_the_destination_from_the_subscription() -> None:
    """The row says what was subscribed to, and where the message went."""
    (row,) = gathered(b"MESSAGE\nsubscription:1\nmessage-id:x\ndestination:/queue/b.c\n\n\0")
    assert [row[name] for name in ("subscription", "destination")] == ["/queue/b.>", "/queue/b.c"]
    assert row["content_type"] is None


def test_odd_messages() -> None:
    """No destination is the one subscribed to, no id is null; a header that is not UTF-8 loses nothing."""
    (row,) = gathered(b"MESSAGE\nsubscription:0\n\n\0")
    assert (row["destination"], row["message_id"], row["headers"]) == ("/queue/a", None, [])
    first, second = gathered(message(1, b"n:\xff\xfe\n"), message(2, "n:ä\n".encode()))
    assert (first["headers"], second["headers"]) == ([("n", "\\xff\\xfe")], [("n", "ä")])


def test_a_piece_of_the_spool_gets_its_numbers() -> None:
    """In the columns that Spark was told, nothing copied; one that a spool of an older version lacks is null."""
    kinds = {"receiver": pa.int32(), "sequence": pa.int64(), "body": pa.binary(), "later": pa.string()}
    made = rows(batch(5, 9).slice(1, 2), 3, 6, pa.schema([pa.field(*each) for each in kinds.items()]))
    assert made.to_pylist() == [
        {"receiver": 3, "sequence": 6, "body": b"6", "later": None},
        {"receiver": 3, "sequence": 7, "body": b"7", "later": None},
    ]
