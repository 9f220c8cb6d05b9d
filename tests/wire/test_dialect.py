"""What each version does, cell by cell."""

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stomprelay.wire.dialect import (
    DIALECTS,
    ESCAPES,
    PROTOCOL_HEADERS,
    V1_0,
    V1_1,
    V1_2,
    DeliveryNaming,
    Dialect,
    Headers,
)
from stomprelay.wire.errors import FrameError
from stomprelay.wire.names import CLIENT_COMMANDS, MESSAGE_ID, NACK
from tests import strategies

ALL = frozenset(ESCAPES)
RABBITMQ_1_0 = dataclasses.replace(V1_0, reads=ALL, writes=ALL, strict=False)
ACTIVEMQ_1_0 = dataclasses.replace(V1_0, writes=ALL - {b"\r"}, escaped_names=False, strict=False)
ACTIVEMQ_1_2 = dataclasses.replace(V1_2, escaped_names=False, strict=False)
LENIENT_1_1 = dataclasses.replace(V1_1, strict=False)
LENIENT_1_2 = dataclasses.replace(V1_2, strict=False)

SPECIFIED = [V1_0, V1_1, V1_2]
OTHERS = {
    "rabbitmq-1.0": RABBITMQ_1_0,
    "activemq-1.0": ACTIVEMQ_1_0,
    "activemq-1.2": ACTIVEMQ_1_2,
    "lenient-1.1": LENIENT_1_1,
    "lenient-1.2": LENIENT_1_2,
}

versions = pytest.mark.parametrize("dialect", SPECIFIED, ids=lambda dialect: dialect.version.decode())
every = pytest.mark.parametrize("dialect", [*SPECIFIED, *OTHERS.values()], ids=["1.0", "1.1", "1.2", *OTHERS])

dialects = st.sampled_from([*SPECIFIED, *OTHERS.values()])


FACTS: list[tuple[str, object, object, object]] = [
    ("version", b"1.0", b"1.1", b"1.2"),
    ("reads", set(), {b"\\", b"\n", b":"}, {b"\\", b"\n", b":", b"\r"}),
    ("writes", set(), {b"\\", b"\n", b":"}, {b"\\", b"\n", b":", b"\r"}),
    ("padded", True, False, False),
    ("crlf", False, False, True),
    ("raw_cr", True, True, False),
    ("named_subscriptions", False, True, True),
    ("delivery", DeliveryNaming.MESSAGE_ID, DeliveryNaming.SUBSCRIPTION_AND_MESSAGE_ID, DeliveryNaming.ACK),
    ("negotiates", False, True, True),
    ("heart_beats", False, True, True),
    ("commands", CLIENT_COMMANDS - {NACK}, CLIENT_COMMANDS, CLIENT_COMMANDS),
    ("strict", True, True, True),
    ("keeps_undefined", False, True, False),
    ("escaped_names", True, True, True),
    ("utf8", False, False, False),
    ("trims_cr", False, False, False),
]


@pytest.mark.parametrize(("fact", "in_1_0", "in_1_1", "in_1_2"), FACTS, ids=[row[0] for row in FACTS])
def test_the_facts_of_the_versions(fact: str, in_1_0: object, in_1_1: object, in_1_2: object) -> None:
    """Each fact of each record is what the specification of that version says."""
    assert [getattr(dialect, fact) for dialect in SPECIFIED] == [in_1_0, in_1_1, in_1_2]


@pytest.mark.parametrize(
    ("wire", "in_1_0", "in_1_1", "in_1_2"),
    [
        (b"\\\\", b"\\\\", b"\\", b"\\"),
        (b"\\c", b"\\c", b":", b":"),
        (b"\\n", b"\\n", b"\n", b"\n"),
        (b"\\r", b"\\r", b"\\r", b"\r"),
        (b"\\t", b"\\t", b"\\t", None),
        (b"\\C", b"\\C", b"\\C", None),
        (b"\\0", b"\\0", b"\\0", None),
        (b"\\:", b"\\:", b"\\:", None),
        (b"\\ ", b"\\ ", b"\\ ", None),
        (b"a\\", b"a\\", b"a\\", None),
        (b"\\\\\\", b"\\\\\\", b"\\\\", None),
        (b"\\tn\\n", b"\\tn\\n", b"\\tn\n", None),
        # One pass from the left (translation in two passes would find an LF in the first).
        (b"\\\\n", b"\\\\n", b"\\n", b"\\n"),
        (b"\\\\\\n", b"\\\\\\n", b"\\\n", b"\\\n"),
        (b"\\\\\\\\c", b"\\\\\\\\c", b"\\\\c", b"\\\\c"),
        (b"\\n\\c\\\\", b"\\n\\c\\\\", b"\n:\\", b"\n:\\"),
        # A colon that nobody escaped is part of the value.
        (b"a:b:c", b"a:b:c", b"a:b:c", b"a:b:c"),
    ],
    ids=repr,
)
def test_escapes_in_one_pass(wire: bytes, in_1_0: bytes, in_1_1: bytes, in_1_2: bytes | None) -> None:
    """Each spelling in each version; None where it is a fatal error."""
    for dialect, value in zip(SPECIFIED, [in_1_0, in_1_1, in_1_2], strict=True):
        if value is None:
            with pytest.raises(FrameError, match="undefined escape"):
                dialect.decode(b"k", wire)
            with pytest.raises(FrameError, match="undefined escape"):
                dialect.read(b"k:%b\n" % wire)
        else:
            assert dialect.decode(b"k", wire) == value
            assert dialect.read(b"k:%b\n" % wire) == [(b"k", value)]


@pytest.mark.parametrize("escaped", [True, False], ids=["others", "CONNECT"])
@versions
def test_connect_heads_are_never_unescaped(dialect: Dialect, *, escaped: bool) -> None:
    """CONNECT, STOMP and CONNECTED are raw in every version; so is 1.0 altogether."""
    value = b":" if escaped and dialect is not V1_0 else b"\\c"
    assert dialect.read(b"passcode:\\c\n", escaped=escaped) == [(b"passcode", value)]


def test_how_brokers_depart_from_their_versions() -> None:
    """ActiveMQ escapes no names, and on 1.0 only reads escapes; a line without a colon is a value without a name."""
    assert ACTIVEMQ_1_2.read(b"a\\cb:c\\cd\n") == [(b"a\\cb", b"c:d")]
    assert ACTIVEMQ_1_2.write([(b"a\\b", b"c:d\\")]) == b"a\\b:c\\cd\\\\\n"
    assert not ACTIVEMQ_1_2.nameable(b"a:b")
    assert not ACTIVEMQ_1_2.nameable(b"a\nb")
    assert ACTIVEMQ_1_2.nameable(b"a\\b")
    assert ACTIVEMQ_1_0.encode(b"C:\\new") == b"C\\c\\\\new"
    assert ACTIVEMQ_1_0.decode(b"path", b"C:\\new") == b"C:\\new"
    assert LENIENT_1_1.read(b"a:b\nnonsense\n:c\n") == [(b"a", b"b"), (b"", b"nonsense"), (b"", b"c")]


@pytest.mark.parametrize("name", sorted(PROTOCOL_HEADERS), ids=bytes.decode)
def test_padding_of_protocol_headers(name: bytes) -> None:
    """1.0 clients may pad, and nobody means a blank around a destination; 1.1 and 1.2 never trim."""
    assert V1_0.read(name + b":  x y  \n") == [(name, b"x y")]
    assert V1_1.read(name + b":  x y  \n") == [(name, b"  x y  ")]
    assert V1_2.read(name + b":  x y  \n") == [(name, b"  x y  ")]


@pytest.mark.parametrize(
    "text", [b"a\nb:c", b"\n\n", b"a\nSEND\n\n\0", b"evil\ndestination:/queue/x"], ids=repr
)
@every
def test_no_text_can_break_out_of_its_line(dialect: Dialect, text: bytes) -> None:
    """Whatever a dialect claims to be able to say comes out as exactly one line."""
    if dialect.speakable(text):
        assert dialect.write([(b"k", text)]).count(b"\n") == 1
    if dialect.nameable(text):
        assert dialect.write([(text, b"v")]).count(b"\n") == 1


@settings(max_examples=3 * settings().max_examples)
@given(dialect=dialects, data=st.data())
def test_what_is_written_is_read_again(dialect: Dialect, data: st.DataObject) -> None:
    """Headers that a dialect can say come back unchanged, in order, from the octets that it wrote."""
    headers = data.draw(strategies.headers(dialect))
    written = dialect.write(headers)
    assert written.count(b"\n") == len(headers)
    if dialect.reads == dialect.writes:
        assert dialect.read(written) == headers


def one_pass(dialect: Dialect, text: bytes) -> bytes | None:
    """Escapes read as slowly and plainly as the specification puts it; None for an undefined one."""
    octets, at = b"", 0
    while at < len(text):
        escape = text[at : at + 2]
        meant = next((octet for octet, spelled in ESCAPES.items() if spelled == escape), None)
        if text[at : at + 1] != b"\\":
            octets, at = octets + text[at : at + 1], at + 1
        elif meant is not None and (meant in dialect.reads or not dialect.strict):
            octets, at = octets + meant, at + 2
        elif dialect.strict and not dialect.keeps_undefined:
            return None
        else:
            octets, at = octets + escape, at + 2
    return octets


@settings(max_examples=3 * settings().max_examples)
@given(dialect=dialects, text=st.text("\\\\ncrt:\r\n", max_size=10).map(str.encode))
def test_escapes_are_read_as_the_specification_puts_it(dialect: Dialect, text: bytes) -> None:
    """Whatever way is faster gives the same."""
    text = text.removesuffix(b"\r")
    expected = one_pass(dialect, text) if dialect.reads else text
    if expected is None:
        with pytest.raises(FrameError, match="undefined escape"):
            dialect.decode(b"foo", text)
    elif not text.endswith(b"\r"):
        assert dialect.decode(b"foo", text) == expected


@settings(max_examples=3 * settings().max_examples)
@given(
    dialect=dialects,
    lines=st.lists(st.binary(max_size=20).map(lambda line: line.replace(b"\n", b"")), max_size=4),
)
def test_reading_anything_gives_headers_or_an_error(dialect: Dialect, lines: list[bytes]) -> None:
    """No head is read wrongly in silence: a name and a value for each line, or `FrameError`."""
    head = b"".join([line + b"\n" for line in lines])
    headers: Headers = []
    try:
        headers = dialect.read(head)
    except FrameError:
        return
    assert len(headers) == len(lines)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"a:b", [b"a:b", b"a:b", b"a:b"]),
        (b"a\rb", [b"a\rb", b"a\rb", b"a\rb"]),
        (b"a\nb", [b"a<1>b", b"a\nb", b"a\nb"]),
        (b"a\r\r\nb\n", [b"a<3>b<1>", b"a\r\r\nb\n", b"a\r\r\nb\n"]),
        (b"a\r\r", [b"a<2>", b"a<2>", b"a\r\r"]),
        (b"a\n\r", [b"a<1><1>", b"a\n<1>", b"a\n\r"]),
        (b"\n", [b"<1>", b"\n", b"\n"]),
    ],
)
def test_line_ends_that_cannot_be_spelled_are_replaced(value: bytes, expected: list[bytes]) -> None:
    """In 1.0 an LF with the CRs before it, and up to 1.1 the CRs at the end; the rest stays, and can be spelled."""
    for dialect, replaced in zip(DIALECTS.values(), expected, strict=True):
        found = dialect.replace_line_ends(value, lambda end: b"<%d>" % len(end))
        assert found == replaced
        assert dialect.speakable(found)


@given(
    dialect=st.sampled_from([V1_0, V1_1, V1_2]),
    values=st.lists(st.text("ab\\cnr: \r", max_size=4).map(str.encode), min_size=1, max_size=4),
)
def test_values_that_are_spelled_in_one_way(dialect: Dialect, values: list[bytes]) -> None:
    """Decoded together they are what each of them is, and `encode` spells each as it was."""
    lines = b"\n".join(values)
    if dialect.spells_once(lines):
        decoded = [dialect.decode(MESSAGE_ID, each) for each in values]
        assert dialect.decode(MESSAGE_ID, lines).split(b"\n") == decoded
        assert [dialect.encode(each) for each in decoded] == values
