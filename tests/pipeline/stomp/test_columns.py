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


def test_what_a_broker_leaves_out_is_filled_in_or_null() -> None:
    """No destination is the one subscribed to; no id is null."""
    (row,) = gathered(b"MESSAGE\nsubscription:0\n\n\0")
    assert (row["destination"], row["message_id"], row["headers"]) == ("/queue/a", None, [])


def test_octets_that_are_no_text_are_shown() -> None:
    """A header that is not UTF-8 loses nothing, and its neighbours stay as they are."""
    first, second = gathered(message(1, b"n:\xff\xfe\n"), message(2, "n:ä\n".encode()))
    assert (first["headers"], second["headers"]) == ([("n", "\\xff\\xfe")], [("n", "ä")])


def test_a_piece_of_the_spool_gets_its_numbers() -> None:
    """Rows carry receiver and sequence, in the columns that Spark was told, nothing copied."""
    schema = pa.schema(
        [pa.field("receiver", pa.int32()), pa.field("sequence", pa.int64()), pa.field("body", pa.binary())]
    )
    made = rows(batch(5, 9).slice(1, 2), 3, 6, schema)
    assert made.to_pylist() == [
        {"receiver": 3, "sequence": 6, "body": b"6"},
        {"receiver": 3, "sequence": 7, "body": b"7"},
    ]


def test_a_column_that_a_spool_lacks_is_null() -> None:
    """A spool of an older version can still be read."""
    made = rows(batch(0, 2), 0, 0, pa.schema([pa.field("later", pa.string())]))
    assert made.to_pylist() == [{"later": None}, {"later": None}]
