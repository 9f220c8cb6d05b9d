"""Records one by one."""

import json
from pathlib import Path

import pytest

from stomprelay.journal.block import Damage, Kind, Recorded, encode
from stomprelay.journal.record import Contexts, Record, records
from stomprelay.journal.schema import Context, Happening
from stomprelay.pipeline.schema import FRAMES
from tests.journal.made import BROKER, CLIENT, HEADER, NAME, NOW, SEND, event, frames, header, put


def only(tmp_path: Path, block: bytes) -> Record:
    """The one record of a block."""
    (record,) = records(put(tmp_path, block))
    assert isinstance(record, Record)
    return record


def test_frames(tmp_path: Path) -> None:
    """Each of a block, with its number on the leg."""
    path = put(tmp_path, frames((SEND, b"a"), Recorded(b"ABORT\ntransaction:t\n\n", b"", 0), number=7))
    first, second = [record for record in records(path) if isinstance(record, Record)]
    assert first == Record(
        "eu-1",
        NAME,
        len(header()),
        NOW,
        7,
        CLIENT,
        "SEND",
        [("destination", "/queue/a")],
        Recorded(SEND, b"a", 1),
        None,
    )
    assert (second.number, second.offset, second.command) == (8, len(header()), "ABORT")
    assert second.header("transaction") == "t"
    assert second.header("x") is None


def test_events(tmp_path: Path) -> None:
    """With what happened, and no command."""
    record = only(tmp_path, event("lost", "gone", resent=3))
    assert record.happening == Happening("lost", "gone", {"resent": 3})
    assert (record.context, record.command, record.headers, record.frame) == (CLIENT, "", [], None)


@pytest.mark.parametrize(
    ("version", "head", "headers"),
    [
        ("1.2", b"SEND\na\\cb:c\\n\\\\n\n\n", [("a:b", "c\n\\n")]),
        ("1.2", b"SEND\r\na:b\r\nc: d \r\n\r\n", [("a", "b"), ("c", " d ")]),
        ("1.1", b"SEND\na:\\n\\c\n\n", [("a", "\n:")]),
        ("1.0", b"SEND\ndestination: /a \nx: y \n\n", [("destination", "/a"), ("x", "y ")]),
        ("1.0", b"SEND\na:\\c\n\n", [("a", "\\c")]),
        ("1.2", b"CONNECTED\na:\\c\n\n", [("a", "\\c")]),
        ("1.2", b"SEND\na:\\t\n\n", [("a", "\\t")]),
        ("1.2", b"SEND\nnothing\n\n", [("", "nothing")]),
        ("1.2", b"SEND\na:\xff\xc3\xa4\n\n", [("a", "\\xffä")]),
        ("1.2", b"SEND\na:1\na:2\n\n", [("a", "1"), ("a", "2")]),
        ("", b"STOMP\naccept-version:1.2\n\n", [("accept-version", "1.2")]),
        ("9.9", b"SEND\na:\\c\n\n", [("a", ":")]),
        ("1.2", b"SEND\n\n", []),
        ("1.2", b"SEND\r\n\r\n", []),
        ("1.2", b"SEND\n", []),
        ("1.2", b"SEND", []),
        ("1.2", b"", []),
    ],
)
def test_heads(tmp_path: Path, version: str, head: bytes, headers: list[tuple[str, str]]) -> None:
    """As the dialect of the block's version has them; what is none of its heads is read as far as it goes."""
    record = only(tmp_path, frames((head, b""), context=CLIENT._replace(version=version)))
    assert record.headers == headers
    assert record.command == head.partition(b"\n")[0].strip().decode()


@pytest.mark.parametrize("command", [b"CONNECT", b"STOMP"])
def test_secrets(tmp_path: Path, command: bytes) -> None:
    """A passcode is not shown, even if somebody forgot to blank it."""
    record = only(tmp_path, frames((command + b"\nlogin:a\npasscode:secret\n\n", b"")))
    assert record.headers == [("login", "a"), ("passcode", "***")]
    assert "secret" not in json.dumps(record.named(bodies=True))


def test_a_frame_for_machines(tmp_path: Path) -> None:
    """By the names of the pipeline's table; of repeated headers the first."""
    record = only(tmp_path, frames((b"MESSAGE\na:1\na:2\nb:3\n\n", b"hello"), context=BROKER, number=4))
    assert record.named() == {
        "at": "2026-11-21T08:23:00.123456Z",
        "ns": NOW,
        "relay": "eu-1",
        "listener": "main",
        "session": "eu-1.7",
        "peer": "10.0.0.1:5",
        "client": "orders",
        "side": "broker",
        "upstream": "erp",
        "broker": "tcp://b:61613",
        "version": "1.2",
        "direction": "to_client",
        "kind": "frame",
        "command": "MESSAGE",
        "headers": {"a": "1", "b": "3"},
        "size": len(b"MESSAGE\na:1\na:2\nb:3\n\nhello\0"),
        "body_size": 5,
        "segment": NAME,
        "offset": len(header()),
        "number": 4,
    }
    assert list(record.named()["headers"]) == ["a", "b"]


def test_an_event_for_machines(tmp_path: Path) -> None:
    """What is empty is left out."""
    assert only(tmp_path, event("lost", "gone", Context(), broker="b")).named() == {
        "at": "2026-11-21T08:23:00.123456Z",
        "ns": NOW,
        "relay": "eu-1",
        "kind": "event",
        "event": "lost",
        "text": "gone",
        "facts": {"broker": "b"},
        "segment": NAME,
        "offset": len(header()),
        "number": 0,
    }


def test_the_names_are_those_of_the_table(tmp_path: Path) -> None:
    """Whoever knows the one knows the other."""
    columns = {column.name for column in FRAMES.columns}
    for block in (frames((SEND, b"a")), event()):
        assert set(only(tmp_path, block).named(bodies=True)) <= columns


@pytest.mark.parametrize(
    ("kept", "told"),
    [
        (b"", {}),
        ("zürich\0".encode(), {"body": "zürich\0"}),
        (b"\xff\0", {"body_base64": "/wA="}),
    ],
)
def test_bodies_for_machines(tmp_path: Path, kept: bytes, told: dict[str, str]) -> None:
    """As text where it is text; when asked for."""
    record = only(tmp_path, frames(Recorded(SEND, kept, 9)))
    assert {name: value for name, value in record.named(bodies=True).items() if name.startswith("body_b")} | (
        {"body": record.named(bodies=True)["body"]} if "body" in record.named(bodies=True) else {}
    ) == told
    assert not {"body", "body_base64"} & set(record.named())


def test_damage_is_passed_on(tmp_path: Path) -> None:
    """In its place."""
    path = put(tmp_path, frames((SEND, b"")), b"garbage", frames((SEND, b"")))
    assert [type(item) for item in records(path)] == [Record, Damage, Record]


def block(kind: Kind, context: bytes, payload: bytes) -> bytes:
    """A block with a right checksum and any content."""
    return b"".join(encode(kind, NOW, 0, context, (), payload))


@pytest.mark.parametrize(
    "odd",
    [
        block(Kind.FRAMES, b"{", b""),
        block(Kind.FRAMES, b"{}", b""),
        block(Kind.FRAMES, b"\xff", b""),
        block(Kind.EVENT, CLIENT.encode(), b"{"),
        block(Kind.EVENT, CLIENT.encode(), b"[]"),
        block(Kind.EVENT, CLIENT.encode(), b'{"event":"a"}'),
        block(Kind.EVENT, CLIENT.encode(), b'{"event":"a","text":"b","facts":3}'),
    ],
)
def test_blocks_that_make_no_sense(tmp_path: Path, odd: bytes) -> None:
    """Though their checksums are right, they are damage; the others are read."""
    path = put(tmp_path, event(), odd, event())
    found = list(records(path))
    assert [type(item) for item in found] == [Record, Damage, Record]
    at = len(header()) + len(event())
    assert found[1] == Damage(at, len(odd), "the block is whole, but what it says is not understood")


def test_a_newer_schema(tmp_path: Path) -> None:
    """Each block is read under the header before it."""
    newer = header(HEADER._replace(number=2, relay="eu-2", context=("colour", "session")))
    path = put(tmp_path, event(), newer, block(Kind.EVENT, b'["red","s"]', Happening("a", "", {}).encode()))
    found = [(item.relay, item.context.session) for item in records(path) if isinstance(item, Record)]
    assert found == [("eu-1", "eu-1.7"), ("eu-2", "s")]


def test_contexts() -> None:
    """Each is read once; none without a header, save that of nothing."""
    contexts = Contexts(HEADER)
    assert contexts[CLIENT.encode()] is contexts[CLIENT.encode()]
    assert contexts[b""] == Context()
    with pytest.raises(ValueError, match="header"):
        Contexts()[CLIENT.encode()]
