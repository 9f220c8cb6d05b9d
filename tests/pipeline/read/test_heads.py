"""Recorded heads, taken apart."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stomprelay.pipeline.read import heads
from stomprelay.wire.dialect import DIALECTS

V12 = heads.dialect("1.2")


def test_a_plain_head_is_its_command_and_its_headers() -> None:
    """Values may hold colons; order is kept."""
    read = heads.read(b"SEND\ndestination:/queue/a\nmessage-id:ID:host-1:2\n\n", V12)
    assert read == (b"SEND", {b"destination": b"/queue/a", b"message-id": b"ID:host-1:2"})
    assert list(read[1]) == [b"destination", b"message-id"]


def test_a_head_without_headers_is_a_command() -> None:
    """DISCONNECT needs none."""
    assert heads.read(b"DISCONNECT\n\n", V12) == (b"DISCONNECT", {})


def test_of_repeated_headers_the_first_counts() -> None:
    """As the specification has it."""
    assert heads.read(b"MESSAGE\na:1\nb:2\na:3\n\n", V12) == (b"MESSAGE", {b"a": b"1", b"b": b"2"})


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
    assert heads.read(b"SEND\n" + head + b"\n\n", heads.dialect(version)) == (b"SEND", headers)


def test_lines_may_end_in_cr_lf() -> None:
    """All of them, the command's and the blank one."""
    assert heads.read(b"SEND\r\na:1\r\nb:2\r\n\r\n", V12) == (b"SEND", {b"a": b"1", b"b": b"2"})
    assert heads.read(b"DISCONNECT\r\n\r\n", V12) == (b"DISCONNECT", {})


@pytest.mark.parametrize("command", [b"CONNECT", b"STOMP", b"CONNECTED"])
def test_opening_frames_are_never_escaped(command: bytes) -> None:
    """So a backslash in a login is one."""
    assert heads.read(command + b"\nlogin:a\\nb\n\n", V12) == (command, {b"login": rb"a\nb"})


def test_a_line_without_a_colon_is_kept() -> None:
    """Under an empty name, as a lenient reader has it."""
    assert heads.read(b"MESSAGE\nnonsense\na:1\n\n", V12) == (b"MESSAGE", {b"": b"nonsense", b"a": b"1"})


def test_a_version_that_is_not_known_is_read_as_the_newest() -> None:
    """A newer relay may speak more; none at all is before CONNECT."""
    assert heads.dialect("1.3").version == b"1.2"
    assert not heads.dialect("").reads


@given(
    st.sampled_from(sorted(DIALECTS)),
    st.dictionaries(st.binary(min_size=1), st.binary(), max_size=5),
)
def test_what_a_relay_writes_is_read(version: bytes, headers: dict[bytes, bytes]) -> None:
    """Whatever survives in the dialect comes back."""
    spoken = DIALECTS[version]
    kept = {
        name: value
        for name, value in headers.items()
        if spoken.nameable(name) and spoken.speakable(value) and not spoken.padded
    }
    head = b"SEND\n" + spoken.write(list(kept.items())) + b"\n"
    assert heads.read(head, heads.dialect(version.decode())) == (b"SEND", kept)


@given(st.binary(), st.sampled_from(["", "1.0", "1.1", "1.2"]))
def test_no_octets_are_too_strange(octets: bytes, version: str) -> None:
    """Nothing that a file can hold raises."""
    command, headers = heads.read(octets + b"\n\n", heads.dialect(version))
    assert isinstance(command, bytes)
    assert all(isinstance(each, bytes) for pair in headers.items() for each in pair)


@pytest.mark.parametrize(
    ("head", "columns"),
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
def test_each_command_has_its_columns(head: bytes, columns: tuple[bytes | None, ...]) -> None:
    """Which headers are destination, subscription, message_id, ack, receipt and transaction."""
    command, headers = heads.read(head + b"\n", V12)
    assert heads.fields(command, headers) == columns
