"""What the journal says of each record, literally, and in the versions that may come."""

import json

import pytest

from stomprelay.journal.schema import VERSION, Context, EventRecord, NewerVersion, SegmentHeader
from tests.journal.made import BROKER, HEADER

LITERAL = (
    b'{"version":2,"relay":"eu-1","run":"0123abcd","number":1,"created":1795249380123456789,"age":60.0,'
    b'"software":"stomprelay 0","context":["listener","session","peer","client","side","upstream","broker",'
    b'"version"]}'
)


def test_the_bytes_of_a_header() -> None:
    """They are on disks, so they cannot change."""
    assert HEADER.encode() == LITERAL
    assert SegmentHeader.decode(LITERAL) == HEADER


def test_the_bytes_of_a_context() -> None:
    """A list, in the order that the header names."""
    assert BROKER.encode() == b'["main","eu-1.7","10.0.0.1:5","orders","broker","erp","tcp://b:61613","1.2"]'
    assert Context(client="ä\n").encode() == '["","","","ä\\n","","","",""]'.encode()


def test_the_bytes_of_an_event() -> None:
    """An object."""
    assert EventRecord("lost", "gone: ä", {"resent": 3, "broker": "tcp://b"}).encode() == (
        b'{"event":"lost","text":"gone: \xc3\xa4","facts":{"resent":3,"broker":"tcp://b"}}'
    )


def test_what_cannot_be_encoded() -> None:
    """Half of a surrogate pair, from a client's odd name, does not stop the journal."""
    assert b"?" in Context(client="\ud800").encode()
    assert b"?" in EventRecord("a", "\ud800", {}).encode()


def test_names_that_no_block_has_room_for() -> None:
    """They are cut, so that there is a journal."""
    long = Context(client="\x1b" * 10_000, session="s" * 10_000)
    assert HEADER.contexts(long.encode()) == Context(client="\x1b" * 1000, session="s" * 1000)
    assert len(Context(*["\x1b" * 100_000] * len(Context._fields)).encode()) <= 0xFFFF
    fits = Context(client="\x1b" * 5_000)
    assert HEADER.contexts(fits.encode()) == fits


def test_a_segment_of_a_newer_schema() -> None:
    """Fields that we do not know are skipped, wherever they stand."""
    newer = HEADER._replace(context=("colour", *Context._fields[:3], "shape", *Context._fields[3:]))
    data = json.dumps([1, *BROKER[:3], None, *BROKER[3:]]).encode()
    assert newer.contexts(data) == BROKER
    more = json.dumps({**HEADER._asdict(), "mood": "good"}).encode()
    assert SegmentHeader.decode(more) == HEADER


def test_a_segment_of_an_older_schema() -> None:
    """Fields that it had not are empty."""
    older = HEADER._replace(context=("session", "client"))
    assert older.contexts(b'["s","c"]') == Context(session="s", client="c")
    assert older.contexts(b'["s"]') == Context(session="s")


@pytest.mark.parametrize("version", [VERSION + 1, 99])
def test_a_higher_version(version: int) -> None:
    """It may mean anything: it is not read, whatever else it has."""
    reason = f"version {version} of the format; this software reads up to {VERSION}"
    with pytest.raises(NewerVersion, match=reason):
        SegmentHeader.decode(b'{"version": %d}' % version)
    with pytest.raises(NewerVersion, match=reason):
        SegmentHeader.decode(HEADER._replace(version=version).encode())


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "."),
        (b"\xff", "."),
        (b"{", "."),
        (b"[]", "not the header"),
        (b"{}", "not the header"),
        (b'{"version":"1"}', "not the header"),
        (b'{"version":1}', "lacks fields"),
    ],
)
def test_what_is_no_header(data: bytes, reason: str) -> None:
    """It is a `ValueError`, and not that of a newer one."""
    with pytest.raises(ValueError, match=reason) as raised:
        SegmentHeader.decode(data)
    assert not isinstance(raised.value, NewerVersion)
