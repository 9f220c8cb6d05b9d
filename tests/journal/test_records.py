"""Times, records one by one, and which of them are selected."""

from pathlib import Path

import pytest

from stomprelay.journal.block import BlockKind, Damage, RecordedFrame, encode
from stomprelay.journal.records import Contexts, Record, RecordFilter, parse_time, records
from stomprelay.journal.schema import Context, EventRecord
from stomprelay.journal.segment import spell_time
from tests.journal.made import BROKER, CLIENT, HEADER, NAME, NOW, SECOND, SEND, event, frames, header, put


def test_times_are_shown() -> None:
    """UTC, ISO 8601, microseconds; there is nothing that cannot be shown."""
    times = {0: "1970-01-01T00:00:00.000000Z", NOW: "2026-11-21T08:23:00.123456Z"}
    times |= {NOW + 544: "2026-11-21T08:23:00.123457Z", -1: "1969-12-31T23:59:59.999999Z"}
    times |= {-62135596800 * SECOND: "0001-01-01T00:00:00.000000Z", 1 << 80: f"{1 << 80}ns"}
    times[(1 << 63) - 1] = "2262-04-11T23:47:16.854775Z"
    assert {ns: spell_time(ns) for ns in times} == times


def test_times_are_read() -> None:
    """Parts of it, UTC where nothing else is said."""
    times = {"1970-01-01": 0, "1970-01-01T00:01": 60 * SECOND, "1970-01-01T01:00:00+01:00": 0}
    times |= {"1970-01-01 00:00:00.000001Z": 1000, "19700101T000001Z": SECOND}
    times["1969-12-31T23:59:59.999999"] = -1000
    assert {text: parse_time(text) for text in times} == times


def only(tmp_path: Path, block: bytes) -> Record:
    """The one record of a block."""
    (record,) = records(put(tmp_path, block))
    assert isinstance(record, Record)
    return record


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


def test_an_event_for_machines(tmp_path: Path) -> None:
    """What is empty is left out."""
    assert only(tmp_path, event("lost", "gone", Context(), broker="b")).columns() == {
        "seen_at": "2026-11-21T08:23:00.123456Z",
        "ns": NOW,
        "relay": "eu-1",
        "kind": "event",
        "event": "lost",
        "text": "gone",
        "facts": {"broker": "b"},
        "segment": NAME,
        "position": len(header()),
        "number": 0,
    }


@pytest.mark.parametrize(
    ("kept", "told"),
    [(b"", {}), ("zürich\0".encode(), {"body": "zürich\0"}), (b"\xff\0", {"body_base64": "/wA="})],
)
def test_bodies_for_machines(tmp_path: Path, kept: bytes, told: dict[str, str]) -> None:
    """As text where it is text; when asked for."""
    record = only(tmp_path, frames(RecordedFrame(SEND, kept, 9)))
    assert record.columns(bodies=True) == record.columns() | told
    assert not {"body", "body_base64"} & set(record.columns())


def block(kind: BlockKind, context: bytes, payload: bytes) -> bytes:
    """A block with a right checksum and any content."""
    return encode(kind, NOW, 0, context, (), payload)


@pytest.mark.parametrize(
    "odd",
    [
        block(BlockKind.FRAMES, b"{", b""),
        block(BlockKind.FRAMES, b"{}", b""),
        block(BlockKind.FRAMES, b"\xff", b""),
        block(BlockKind.EVENT, CLIENT.encode(), b"{"),
        block(BlockKind.EVENT, CLIENT.encode(), b"[]"),
        block(BlockKind.EVENT, CLIENT.encode(), b'{"event":"a"}'),
        block(BlockKind.EVENT, CLIENT.encode(), b'{"event":"a","text":"b","facts":3}'),
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
    path = put(
        tmp_path, event(), newer, block(BlockKind.EVENT, b'["red","s"]', EventRecord("a", "", {}).encode())
    )
    found = [(item.relay, item.context.session) for item in records(path) if isinstance(item, Record)]
    assert found == [("eu-1", "eu-1.7"), ("eu-2", "s")]


def test_contexts() -> None:
    """Each is read once; none without a header, save that of nothing."""
    contexts = Contexts(HEADER)
    assert contexts[CLIENT.encode()] is contexts[CLIENT.encode()]
    assert contexts[b""] == Context()
    with pytest.raises(ValueError, match="header"):
        Contexts()[CLIENT.encode()]


def found(tmp_path: Path) -> list[Record]:
    """A SEND, a frame without a destination, an event, a MESSAGE."""
    path = put(
        tmp_path,
        frames((SEND, b""), at=NOW),
        frames((b"ACK\nid:1\n\n", b""), at=NOW + 1),
        event(at=NOW + 2),
        frames((b"MESSAGE\ndestination:/topic/b\\cc\n\n", b""), at=NOW + 3, context=BROKER),
        event(at=NOW + 4, context=CLIENT._replace(session="eu-1.8")),
    )
    return [record for record in records(path) if isinstance(record, Record)]


@pytest.mark.parametrize(
    ("selection", "taken"),
    [
        (RecordFilter(), [0, 1, 2, 3, 4]),
        (RecordFilter(sessions=frozenset({"eu-1.7"})), [0, 1, 2, 3]),
        (RecordFilter(sessions=frozenset({"eu-1.8", "eu-1.9"})), [4]),
        (RecordFilter(commands=frozenset({"ACK", "MESSAGE"})), [1, 3]),
        (RecordFilter(destinations=("/queue/a",)), [0]),
        (RecordFilter(destinations=("/queue",)), []),
        (RecordFilter(destinations=("/queue/*", "/topic/?:[c]")), [0, 3]),
        (RecordFilter(destinations=("*",)), [0, 3]),
        (RecordFilter(destinations=("*",), commands=frozenset({"MESSAGE"})), [3]),
        (RecordFilter(since=NOW + 1), [1, 2, 3, 4]),
        (RecordFilter(until=NOW + 1), [0]),
        (RecordFilter(since=NOW + 1, until=NOW + 3), [1, 2]),
    ],
)
def test_what_is_taken(tmp_path: Path, selection: RecordFilter, taken: list[int]) -> None:
    """All conditions hold together; of one condition, any value will do."""
    assert [index for index, record in enumerate(found(tmp_path)) if selection.matches(record)] == taken
