"""Recorded heads, taken apart."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stomprelay.pipeline.read import segments
from stomprelay.wire.dialect import DIALECTS

V12 = segments.dialect("1.2")


@pytest.mark.parametrize(
    ("head", "read"),
    [
        (b"SEND\nb:/queue/a\na:ID:host-1:2\n\n", (b"SEND", {b"b": b"/queue/a", b"a": b"ID:host-1:2"})),
        (b"DISCONNECT\n\n", (b"DISCONNECT", {})),
        (b"DISCONNECT\r\n\r\n", (b"DISCONNECT", {})),
        (b"SEND\r\na:1\r\nb:2\r\n\r\n", (b"SEND", {b"a": b"1", b"b": b"2"})),
        (b"MESSAGE\na:1\nb:2\na:3\n\n", (b"MESSAGE", {b"a": b"1", b"b": b"2"})),
        (b"MESSAGE\nnonsense\na:1\n\n", (b"MESSAGE", {b"": b"nonsense", b"a": b"1"})),
        *[
            (each + b"\nlogin:a\\nb\n\n", (each, {b"login": rb"a\nb"}))
            for each in (b"CONNECT", b"STOMP", b"CONNECTED")
        ],
    ],
)
def test_a_head_is_its_command_and_its_headers(head: bytes, read: tuple[bytes, dict[bytes, bytes]]) -> None:
    """Of repeated headers the first counts; a line without a colon has no name; opening frames have no escapes."""
    found = segments.read_head(head, V12)
    assert found == read
    assert list(found[1]) == list(read[1])


@pytest.mark.parametrize(
    ("version", "head", "headers"),
    [
        ("1.2", rb"x\cy:a\nb\\c", {b"x:y": b"a\nb\\c"}),
        ("1.1", rb"x\cy:a\nb\\c", {b"x:y": b"a\nb\\c"}),
        ("1.0", rb"x\cy:a\nb\\c", {rb"x\cy": rb"a\nb\\c"}),
        ("1.2", b"a:1\r", {b"a": b"1"}),
        ("1.1", b"a:1\r", {b"a": b"1\r"}),
        ("1.0", b"destination: /queue/a ", {b"destination": b"/queue/a"}),
        ("1.0", b"x: y ", {b"x": b"y "}),
        ("1.2", b"x: y ", {b"x": b" y "}),
        ("1.2", rb"a:\q", {b"a": rb"\q"}),
    ],
)
def test_values_mean_what_they_do_on_their_leg(
    version: str, head: bytes, headers: dict[bytes, bytes]
) -> None:
    """Escapes, ends of lines and padding are the dialect's; what is not defined stays as it is."""
    assert segments.read_head(b"SEND\n" + head + b"\n\n", segments.dialect(version)) == (b"SEND", headers)


def test_a_version_that_is_not_known_is_read_as_the_newest() -> None:
    """A newer relay may speak more; none at all is before CONNECT."""
    assert segments.dialect("1.3").version == b"1.2"
    assert not segments.dialect("").reads


@given(st.sampled_from(sorted(DIALECTS)), st.dictionaries(st.binary(min_size=1), st.binary(), max_size=5))
def test_what_a_relay_writes_is_read(version: bytes, headers: dict[bytes, bytes]) -> None:
    """Whatever survives in the dialect comes back."""
    spoken = DIALECTS[version]
    kept = {
        name: value
        for name, value in headers.items()
        if spoken.nameable(name) and spoken.speakable(value) and not spoken.padded
    }
    head = b"SEND\n" + spoken.write(list(kept.items())) + b"\n"
    assert segments.read_head(head, segments.dialect(version.decode())) == (b"SEND", kept)


@given(st.binary(), st.sampled_from(["", "1.0", "1.1", "1.2"]))
def test_no_octets_are_too_strange(octets: bytes, version: str) -> None:
    """Nothing that a file can hold raises."""
    command, headers = segments.read_head(octets + b"\n\n", segments.dialect(version))
    assert isinstance(command, bytes)
    assert all(isinstance(each, bytes) for pair in headers.items() for each in pair)


@pytest.mark.parametrize(
    ("head", "values"),
    [
        (b"SEND\ndestination:d\nreceipt:r\ntransaction:t\nid:x\n", (b"d", None, None, None, b"r", b"t")),
        (
            b"MESSAGE\ndestination:d\nsubscription:s\nmessage-id:m\nack:a\n",
            (b"d", b"s", b"m", b"a", None, None),
        ),
        (
            b"SUBSCRIBE\nid:s\ndestination:d\nack:client\nreceipt:r\n",
            (b"d", b"s", None, b"client", b"r", None),
        ),
        (b"UNSUBSCRIBE\nid:s\n", (None, b"s", None, None, None, None)),
        (b"ACK\nid:a\ntransaction:t\n", (None, None, None, b"a", None, b"t")),
        (b"NACK\nsubscription:s\nmessage-id:m\n", (None, b"s", b"m", None, None, None)),
        (b"RECEIPT\nreceipt-id:r\n", (None, None, None, None, b"r", None)),
        (b"ERROR\nreceipt-id:r\nmessage:no\n", (None, None, None, None, b"r", None)),
        (b"BEGIN\ntransaction:t\n", (None, None, None, None, None, b"t")),
        (b"SEND\n\\n:x\n", (None, None, None, None, None, None)),
    ],
)
def test_each_command_has_its_columns(head: bytes, values: tuple[bytes | None, ...]) -> None:
    """Which headers are destination, subscription, message_id, ack, receipt and transaction."""
    command, headers = segments.read_head(head + b"\n", V12)
    assert segments.header_values(command, headers) == values
