"""One frame as slices, and frames of our own making."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stomprelay.wire.decoder import Decoder
from stomprelay.wire.dialect import DIALECTS, V1_0, V1_1, V1_2, Dialect, Headers
from stomprelay.wire.errors import StompError
from stomprelay.wire.frame import Frame, Limits, compose, compose_raw
from stomprelay.wire.names import CONNECT, CONNECTED, CONTENT_LENGTH, MESSAGE, SEND
from tests import strategies
from tests.wire.decoding import ANY

LF = b"SEND\na:1\nb:2\n\nbody\0"


def one(wire: bytes, dialect: Dialect = V1_2) -> Frame:
    """The first frame of a chunk."""
    decoder = Decoder(dialect, ANY, Limits())
    decoder.feed(wire)
    return next(decoder.frames())


@pytest.mark.parametrize("before", [b"", b"\n", b"\r\n\0", b"RECEIPT\nreceipt-id:1\n\n\0"], ids=repr)
@pytest.mark.parametrize("behind", [b"", b"\r\n", b"\0", b"SEND\n\n\0", b"SE"], ids=repr)
def test_the_parts_of_a_frame(before: bytes, behind: bytes) -> None:
    """Wherever in its chunk it stands, a frame is the same parts of it."""
    decoder = Decoder(V1_2, ANY, Limits())
    decoder.feed(before + LF + behind)
    frame = next(frame for frame in decoder.frames() if frame.command is SEND)
    assert frame.wire == LF
    assert frame.head_lines == b"a:1\nb:2\n"
    assert frame.payload == b"body"
    assert frame.data[frame.head : frame.body] == b"a:1\nb:2\n\n"
    assert not frame.crlf


def test_the_lf_behind_a_frame_goes_with_it() -> None:
    """Most brokers write NUL LF: where both come in one chunk, the slice holds both; never a second LF."""
    assert one(LF + b"\n\nSEND\n\n\0").wire == LF + b"\n"
    assert one(LF + b"\r\n").wire == LF
    assert one(LF).wire == LF


def test_a_frame_with_one_more_header() -> None:
    """All its offsets move, wherever in its chunk it stood, and CR LF is no obstacle."""
    decoder = Decoder(V1_2, ANY, Limits())
    decoder.feed(b"\n\nSEND\r\ndestination:a\r\ncontent-length:2\r\n\r\n\0x\0\nSEND\nx:y\n\nbody\0")
    for frame in decoder.frames():
        copy = frame.with_header(b"relay-copy", b"n-1")
        assert copy.wire == frame.wire.replace(b"\n", b"\nrelay-copy:n-1\n", 1)
        assert copy.payload == frame.payload
        assert copy.headers(V1_2) == [(b"relay-copy", b"n-1"), *frame.headers(V1_2)]
        assert (copy.plain, copy.crlf) == (frame.plain, frame.crlf)


def test_a_repr_tells_no_secret() -> None:
    """Heads hold passcodes, bodies hold business: command and size are enough."""
    shown = repr(one(b"CONNECT\nlogin:me\npasscode:secret\n\n\0"))
    assert "CONNECT" in shown
    assert "me" not in shown.replace("frame", "")
    assert "secret" not in shown
    assert "body" not in repr(one(LF))
    assert str(len(LF)) in repr(one(b"\n" + LF + b"\n"))


@pytest.mark.parametrize(
    ("head", "raw"),
    [
        (b"foo:bar\n", b"bar"),
        (b"foo:\n", b""),
        (b"foo:a:b\n", b"a:b"),
        (b"foo: bar \n", b" bar "),
        (b"foo:a\\cb\n", b"a\\cb"),
        (b"x:1\nfoo:bar\n", b"bar"),
        (b"foo:first\nfoo:second\n", b"first"),
        (b"foo:\nfoo:second\n", b""),
        (b"foo:bar\r\n", b"bar\r"),
        (b"", None),
        (b"x:1\n", None),
        (b"Foo:bar\n", None),
        (b"foo :bar\n", None),
        (b" foo:bar\n", None),
        (b"foofoo:bar\n", None),
        (b"fo:foo:bar\n", None),
        (b"fo:o\nfoo2:bar\n", None),
    ],
    ids=repr,
)
def test_the_first_value_of_a_header(head: bytes, raw: bytes | None) -> None:
    """Whole name, exact case, first of its kind; as it stands on the wire."""
    assert one(b"SEND\n" + head + b"\nfoo:body\n\0").raw(b"foo") == raw


@pytest.mark.parametrize(
    ("head", "in_1_0", "in_1_1", "in_1_2"),
    [
        (b"", True, True, True),
        (b"a:1\n", True, True, True),
        (b"a:\n", True, True, True),
        (b"a:b c\n", True, True, True),
        (b"a b:c\n", True, True, True),
        (b"a:\xc3\xa4\xff\t\n", True, True, True),
        (b"a: 1\n", False, True, True),
        (b"a:1 \n", False, True, True),
        (b"a :1\n", False, True, True),
        (b"a:1\nb: 2\n", False, True, True),
        (b"a:1:2\n", False, False, False),
        (b"a:1\nb::\n", False, False, False),
        (b"a:\\\\\n", False, False, False),
        (b"a\\c:1\n", False, False, False),
        (b"a:1\r\n", False, False, False),
    ],
    ids=repr,
)
def test_what_is_plain(head: bytes, *, in_1_0: bool, in_1_1: bool, in_1_2: bool) -> None:
    """One colon a line, no backslash, no CR, and where blanks are padding none of those."""
    plain = [one(b"SEND\n" + head + b"\n\0", dialect).plain for dialect in DIALECTS.values()]
    assert plain == [in_1_0, in_1_1, in_1_2]


@settings(max_examples=3 * settings().max_examples)
@given(dialect=st.sampled_from(list(DIALECTS.values())), data=st.data())
def test_plain_means_the_same_everywhere(dialect: Dialect, data: st.DataObject) -> None:
    """A plain head is the same bytes in every dialect; and where padding was looked for, all read the same."""
    headers = data.draw(strategies.headers(dialect))
    frame = one(compose(SEND, headers, dialect), dialect)
    if frame.plain:
        read = frame.headers(dialect)
        assert [other.write(read) for other in DIALECTS.values()] == [frame.head_lines] * 3
        assert V1_1.read(frame.head_lines) == V1_2.read(frame.head_lines) == read
        if dialect.padded:
            assert V1_1.read(frame.head_lines) == read
        for name, value in reversed(read):
            if name not in [other for other, _ in read[: read.index((name, value))]]:
                assert frame.header(name, dialect) == value


@pytest.mark.parametrize(
    ("dialect", "wire"),
    [
        (V1_0, b"MESSAGE\nmessage-id:ID:1\\2\nfoo:\n\nbody\0\n"),
        (V1_1, b"MESSAGE\nmessage-id:ID\\c1\\\\2\nfoo:\n\nbody\0\n"),
        (V1_2, b"MESSAGE\nmessage-id:ID\\c1\\\\2\nfoo:\n\nbody\0\n"),
    ],
    ids=["1.0", "1.1", "1.2"],
)
def test_compose(dialect: Dialect, wire: bytes) -> None:
    """A whole frame, spelled for its reader, with the EOL behind it that old clients wait for."""
    assert compose(MESSAGE, [(b"message-id", b"ID:1\\2"), (b"foo", b"")], dialect, b"body") == wire


def test_compose_raw() -> None:
    """Nothing is escaped: these heads never are."""
    headers = [(b"passcode", b"a:b\\c "), (b"host", b"/")]
    assert compose_raw(CONNECT, headers, end=b"\0") == b"CONNECT\npasscode:a:b\\c \nhost:/\n\n\0"
    assert compose_raw(CONNECTED, []) == b"CONNECTED\n\n\0\n"


@pytest.mark.parametrize("octet", [b"\n", b"\0"], ids=repr)
def test_compose_raw_cannot_be_broken_out_of(octet: bytes) -> None:
    """A value that cannot be said in CONNECT, for there it has no escape, is an error and not a second header."""
    with pytest.raises((StompError, ValueError)):
        compose_raw(CONNECT, [(b"passcode", b"a" + octet + b"login:admin")])


def parsed(wire: bytes, dialect: Dialect) -> tuple[bytes, Headers, bytes]:
    """A frame of ours as its reader understands it."""
    frame = one(wire, dialect)
    return frame.command, frame.headers(dialect), frame.payload


@settings(max_examples=3 * settings().max_examples)
@given(
    dialect=st.sampled_from(list(DIALECTS.values())),
    command=st.sampled_from([SEND, MESSAGE]),
    body=strategies.bodies,
    data=st.data(),
)
def test_composed_and_decoded(dialect: Dialect, command: bytes, body: bytes, data: st.DataObject) -> None:
    """Any headers that a dialect can say, and any body, come back from the decoder."""
    headers = data.draw(strategies.headers(dialect))
    length = [(CONTENT_LENGTH, b"%d" % len(body))]
    assert parsed(compose(command, headers + length, dialect, body), dialect) == (
        command,
        headers + length,
        body,
    )
    if b"\0" not in body:
        assert parsed(compose(command, headers, dialect, body), dialect) == (command, headers, body)
