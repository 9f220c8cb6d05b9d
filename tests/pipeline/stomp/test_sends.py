"""Rows to SENDs."""

import re
from typing import Any

import pyarrow as pa
import pytest

from stomprelay.pipeline.stomp.columns import DDL
from stomprelay.pipeline.stomp.sending import SchemaError, SendFrames, check
from tests.pipeline.stomp.rig import schema, sink

MAP = pa.map_(pa.string(), pa.string())


def rows(**columns: Any) -> Any:
    """Make a record batch; a map is a list of lists of pairs."""
    arrays = {
        name: pa.array(values, MAP) if name == "headers" else pa.array(values)
        for name, values in columns.items()
    }
    return pa.RecordBatch.from_pydict(arrays)


def spelled(batch: Any, first: int = 0, **options: object) -> list[tuple[list[bytes], bytes]]:
    """Return header lines and body of each SEND."""
    made = SendFrames(sink(**options), "job/0/3").of(batch, first)
    return [(head.split(b"\n")[:-1], body) for head, body in made]


def test_a_row_becomes_a_send() -> None:
    """With the key of its place, and persistent."""
    found = spelled(rows(destination=["/queue/a", "/queue/b:1"], body=["hällo", None]), first=7)
    assert found == [
        (
            [b"destination:/queue/a", b"persistent:true", b"content-length:6", b"relay-key:job/0/3/7"],
            "hällo".encode(),
        ),
        ([b"destination:/queue/b\\c1", b"persistent:true", b"content-length:0", b"relay-key:job/0/3/8"], b""),
    ]


def test_all_columns_are_said() -> None:
    """A key of the row's own, in the header that was asked for; names and values escaped."""
    found = spelled(
        rows(
            destination=["/queue/a"],
            body=[b"\0\1"],
            content_type=["text/plain"],
            key=["k:1"],
            headers=[[("a:b", "x\ny"), ("n", None), ("", "z"), ("persistent", "false")]],
        ),
        keyHeader="my-key",
        header_priority=9,
    )
    assert found == [
        (
            [
                b"destination:/queue/a",
                b"content-type:text/plain",
                b"a\\cb:x\\ny",
                b"persistent:false",
                b"priority:9",
                b"content-length:2",
                b"my-key:k\\c1",
            ],
            b"\0\1",
        )
    ]


def test_what_belongs_to_a_frame_or_a_broker_is_left_out() -> None:
    """Rows of an archive can be sent as they are."""
    names = (
        "destination",
        "content-length",
        "receipt",
        "message-id",
        "ack",
        "subscription",
        "transaction",
        "n",
    )
    batch = rows(
        destination=["/queue/a"],
        body=[""],
        headers=[[(name, "x") for name in (*names, "relay-key", "relay-resent")]],
    )
    ((lines, _),) = spelled(batch, persistent="false")
    assert lines == [b"destination:/queue/a", b"n:x", b"content-length:0", b"relay-key:job/0/3/0"]


@pytest.mark.parametrize(
    ("said", "body", "there"),
    [
        (None, b"ab", True),
        (True, b"ab", True),
        (False, b"ab", False),
        (None, b"", True),
        (True, b"", True),
        (False, b"", False),
        (None, None, True),
        (True, None, True),
        (False, None, False),
        (None, b"a\0b", True),
        (True, b"a\0b", True),
        (False, b"a\0b", True),
        (False, b"\0", True),
    ],
)
@pytest.mark.parametrize("text", [False, True])
def test_a_row_may_go_without_content_length(
    said: bool | None, body: bytes | None, there: bool, text: bool
) -> None:
    """By it ActiveMQ tells octets from text. A body with a NUL always has it, for it would be cut there."""
    batch = rows(
        destination=["/queue/a"],
        body=pa.array([body.decode() if text and body else body], pa.string() if text else pa.binary()),
        content_length=pa.array([said], pa.bool_()),
    )
    ((lines, sent),) = spelled(batch, persistent="false")
    assert sent == (body or b"")
    length = [b"content-length:%d" % len(sent)] if there else []
    assert lines == [b"destination:/queue/a", *length, b"relay-key:job/0/3/0"]


def test_the_option_says_where_all_go() -> None:
    """As Kafka's `topic` does."""
    found = spelled(rows(destination=["/queue/a", None], body=["", ""]), destination="/queue/z")
    assert [lines[0] for lines, _ in found] == [b"destination:/queue/z"] * 2


@pytest.mark.parametrize("nowhere", [None, ""])
def test_a_row_without_a_destination_is_told(nowhere: str | None) -> None:
    """By its number and its partition."""
    batch = rows(destination=pa.array(["/queue/a", nowhere], pa.string()), body=["", ""])
    with pytest.raises(SchemaError, match="row 8 of job/0/3 has no destination"):
        spelled(batch, first=7)


def test_what_was_read_can_be_written() -> None:
    """The columns of the source are known."""
    check(schema(DDL), sink())


def test_all_columns_can_be_written() -> None:
    """In their types."""
    ddl = "destination string, body binary, content_type string, content_length boolean, key string"
    check(schema(f"{ddl}, headers map<string,string>"), sink())


@pytest.mark.parametrize(
    ("ddl", "options", "text"),
    [
        ("destination string", {}, "needs a column body"),
        ("body string", {}, "needs a column destination, or the option"),
        (
            "body string, bodi string",
            {"destination": "x"},
            'cannot send the column bodi; did you mean "body"',
        ),
        ("body int", {"destination": "x"}, "column body must be binary or string, not int"),
        ("body string, destination binary", {}, "column destination must be string, not binary"),
        (
            "body string, headers map<string,int>",
            {"destination": "x"},
            "column headers must be map<string,string>, not map<string,int>",
        ),
        ("body string, headers string", {"destination": "x"}, "column headers must be map<string,string>"),
        (
            "body string, content_length int",
            {"destination": "x"},
            "column content_length must be boolean, not int",
        ),
    ],
)
def test_a_frame_that_cannot_be_sent_is_refused(ddl: str, options: dict[str, str], text: str) -> None:
    """Before anything is sent."""
    with pytest.raises(SchemaError, match=re.escape(text)):
        check(schema(ddl), sink(**options))
