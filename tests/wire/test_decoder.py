"""Chunks to frames: what is taken, what is refused and why, and that no cut of the stream changes either."""

import dataclasses
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stomprelay.wire.decoder import Decoder
from stomprelay.wire.dialect import DIALECTS, V1_1, V1_2, Dialect, demanding_utf8
from stomprelay.wire.errors import FrameError, LimitError, ProtocolError, StompError
from stomprelay.wire.frame import Limits
from stomprelay.wire.names import BODIES, BROKER_COMMANDS, CLIENT_COMMANDS, OPENING, SEND
from tests import strategies
from tests.wire.decoding import ANY, decode, octets, refuse, run

SPECIFIED = list(DIALECTS.values())
versions = pytest.mark.parametrize("dialect", SPECIFIED, ids=lambda dialect: dialect.version.decode())

LF = b"SEND\ndestination:/queue/a\n\nhello\0"
CRLF = b"SEND\r\ndestination:/queue/a\r\n\r\nhello\0"
SMALL = Limits(headers=3, header_line=20, body=30)


# ------------------------------------------------------------------ whole frames


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"hello", b"\n", b"\n\n", b"\r\n\r\n", b"SEND\ndestination:/queue/a\n\nhello"),
        *(b"content-length:3\n\n", b"\xff\xfe\x80", b"  padded  ", b"\\c\\n\\", bytes(range(1, 256))),
    ],
    ids=repr,
)
@versions
def test_a_body_ends_at_the_first_nul(dialect: Dialect, body: bytes) -> None:
    """Without `content-length`, all up to the NUL is the body, whatever it looks like."""
    (frame,) = decode(b"SEND\na:b\n\n" + body + b"\0", dialect)
    assert frame.payload == body


@pytest.mark.parametrize(
    "body", [b"", b"hello", b"\0", b"\0\0\0", b"a\0b", b"\0\nSEND\n\n\0", bytes(range(256))], ids=repr
)
@versions
def test_a_body_with_content_length(dialect: Dialect, body: bytes) -> None:
    """So many octets are the body, NULs included, and then comes the NUL."""
    for eol in (b"\n", b"\r\n"):
        head = b"SEND" + eol + b"content-length:%d" % len(body) + eol + eol
        (frame,) = decode(head + body + b"\0", dialect)
        assert frame.payload == body


@pytest.mark.parametrize(
    "line",
    [
        *(b"Content-Length:9", b"x-content-length:9", b"content-length-2:9", b"foo:content-length:9"),
        *(b" content-length:9", b"content-length :9", b"foo:\\ncontent-length:9"),
    ],
    ids=repr,
)
def test_what_is_not_content_length(line: bytes) -> None:
    """Names are case-sensitive and whole; a value cannot pass for a header."""
    (frame,) = decode(b"SEND\n" + line + b"\n\nabc\0")
    assert frame.payload == b"abc"


# ------------------------------------------------------------------ between frames


@pytest.mark.parametrize(
    "gap",
    [b"\n", b"\r\n", b"\n\n\n", b"\r\n\n\r\n", b"\0", b"\0\0", b"\n\0\n", b"\r", b"\n" * 1000],
    ids=repr,
)
@versions
def test_eols_and_nuls_between_frames_are_nothing(dialect: Dialect, gap: bytes) -> None:
    """Before the first frame, between two, and behind the last (STOMP 1.2, heart-beats; RabbitMQ takes NULs)."""
    frames = decode(LF, dialect)
    assert decode(gap + LF + gap + LF + gap, dialect) == frames * 2
    assert decode(gap, dialect) == []


@settings(max_examples=3 * settings().max_examples)
@given(dialect=st.sampled_from(SPECIFIED), data=st.data())
def test_any_chunking_gives_the_same_frames(dialect: Dialect, data: st.DataObject) -> None:
    """However a stream of good frames is cut, the same frames come out, and nothing is left."""
    stream = data.draw(strategies.streams(dialect))
    whole = run([stream], dialect)
    assert (whole.error, whole.buffered) == (None, 0)
    assert run(data.draw(strategies.chunkings(stream)), dialect) == whole
    assert run(octets(stream), dialect) == whole


def test_frames_can_be_taken_one_by_one() -> None:
    """Whoever stops in the middle of a chunk comes back for the rest, and may feed more meanwhile."""
    decoder = Decoder(V1_2, ANY, Limits())
    decoder.feed(b"SEND\nn:1\n\n\0SEND\nn:2\n\n\0SEND\nn:3")
    frames = decoder.frames()
    assert next(frames).raw(b"n") == b"1"
    assert decoder.buffered == len(b"SEND\nn:2\n\n\0SEND\nn:3")
    del frames
    decoder.feed(b"3\n\n\0SEND")
    assert [frame.raw(b"n") for frame in decoder.frames()] == [b"2", b"33"]
    decoder.feed(b"\nn:4\n\n\0")
    assert [frame.raw(b"n") for frame in decoder.frames()] == [b"4"]
    assert decoder.buffered == 0


# ------------------------------------------------------------------ repeated heads


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (b"SEND\na:1\n\n\0", b"SEND\na:1\ncontent-length:3\n\na\0b\0"),
        (b"SEND\na:1\ncontent-length:1\n\nx\0", b"SEND\na:1\ncontent-length:11\n\nhello\0there\0"),
        (b"SEND\na:1\n\n\0", b"SEND\na:1\r\n\r\n\0"),
        (b"SEND\n\n\0", b"SEND\n\nSEND\n\n\0"),
        (b"SEND\n\n\0", b"SEND\na:\\c\n\n\0"),
    ],
    ids=repr,
)
def test_a_head_that_only_begins_alike_is_another_one(first: bytes, second: bytes) -> None:
    """Whichever of two SENDs comes first, both are read as they are alone."""
    alone = decode(first) + decode(second)
    assert decode(first + second) == alone
    assert decode(second + first) == alone[::-1]
    assert decode(first + second + first) == [*alone, alone[0]]


def test_a_repeated_head_is_held_to_the_length_it_names() -> None:
    """The second body does not fit what the head says: that is found although the head was seen before."""
    wire = b"SEND\ncontent-length:2\n\nab\0"
    assert (
        str(run([wire + b"SEND\ncontent-length:2\n\nabc\0"]).error) == "content-length does not fit the body"
    )
    assert run([wire + b"SEND\ncontent-length:2\n\na"]).buffered == len(b"SEND\ncontent-length:2\n\na")


# ------------------------------------------------------------------ content-length, spelling by spelling


class Spelling(NamedTuple):
    """A value of `content-length` for five octets of body; what each version makes of it."""

    value: bytes
    in_1_0: int | str
    in_1_1: int | str
    in_1_2: int | str


NUMBER = "content-length is not a number"
FIT = "content-length does not fit the body"
LARGE = "body too large"
SPELLINGS = [
    Spelling(b"5", 5, 5, 5),
    Spelling(b"05", 5, 5, 5),
    Spelling(b"0000000005", 5, 5, 5),
    Spelling(b" 5", 5, NUMBER, NUMBER),
    Spelling(b"5 ", 5, NUMBER, NUMBER),
    Spelling(b"  5  ", 5, NUMBER, NUMBER),
    Spelling(b"5\r", NUMBER, NUMBER, 5),
    Spelling(b"5\r\r", NUMBER, NUMBER, "carriage return inside a header"),
    Spelling(b"\t5", NUMBER, NUMBER, NUMBER),
    Spelling(b"5\t", NUMBER, NUMBER, NUMBER),
    Spelling(b"", NUMBER, NUMBER, NUMBER),
    Spelling(b" ", NUMBER, NUMBER, NUMBER),
    Spelling(b"+5", NUMBER, NUMBER, NUMBER),
    Spelling(b"-5", NUMBER, NUMBER, NUMBER),
    Spelling(b"-1", NUMBER, NUMBER, NUMBER),
    Spelling(b"0x5", NUMBER, NUMBER, NUMBER),
    Spelling(b"5h", NUMBER, NUMBER, NUMBER),
    Spelling(b"5.0", NUMBER, NUMBER, NUMBER),
    Spelling(b"5e0", NUMBER, NUMBER, NUMBER),
    Spelling(b"5_", NUMBER, NUMBER, NUMBER),
    Spelling(b"0_5", NUMBER, NUMBER, NUMBER),
    Spelling(b"5,5", NUMBER, NUMBER, NUMBER),
    Spelling(b"5 5", NUMBER, NUMBER, NUMBER),
    Spelling(b"five", NUMBER, NUMBER, NUMBER),
    Spelling("\N{ARABIC-INDIC DIGIT FIVE}".encode(), NUMBER, NUMBER, NUMBER),
    Spelling("\N{FULLWIDTH DIGIT FIVE}".encode(), NUMBER, NUMBER, NUMBER),
    Spelling(b"5:5", NUMBER, NUMBER, NUMBER),
    Spelling(b"5\\n", NUMBER, NUMBER, NUMBER),
    Spelling(b"4", FIT, FIT, FIT),
    Spelling(b"0", FIT, FIT, FIT),
    Spelling(b"16777217", LARGE, LARGE, LARGE),
    Spelling(b"4294967301", LARGE, LARGE, LARGE),
    Spelling(b"18446744073709551621", LARGE, LARGE, LARGE),
    Spelling(b"9" * 5000, LARGE, LARGE, LARGE),
]


@pytest.mark.parametrize("spelling", SPELLINGS, ids=lambda spelling: repr(spelling.value[:24]))
@versions
def test_content_length_is_digits(dialect: Dialect, spelling: Spelling) -> None:
    """Digits and nothing else, as no two parsers agree on anything more; 1.0 may pad, and CR ends a line on 1.2."""
    expected = dict(zip(DIALECTS, spelling[1:], strict=True))[dialect.version]
    wire = b"SEND\ncontent-length:" + spelling.value + b"\n\nhello\0"
    if isinstance(expected, int):
        (frame,) = decode(wire, dialect)
        assert len(frame.payload) == expected
    else:
        assert str(refuse(wire, dialect)) == expected


@pytest.mark.parametrize("command", sorted(ANY - BODIES), ids=bytes.decode)
@pytest.mark.parametrize("value", [b"abc", b"-1", b"", b"+0"], ids=repr)
def test_content_length_is_judged_on_frames_without_body(command: bytes, value: bytes) -> None:
    """Some brokers read it there and some do not: only a number may pass."""
    assert str(refuse(command + b"\ncontent-length:" + value + b"\n\n\0")) == NUMBER


@pytest.mark.parametrize("command", sorted(ANY - BODIES), ids=bytes.decode)
@versions
def test_only_three_frames_have_a_body(command: bytes, dialect: Dialect) -> None:
    """Anything but LFs before the NUL of another frame, announced or not, is refused; a length of 0 is harmless."""
    must_not = f"{command.decode()} must not have a body"
    for body in (b"x", b" ", b"\r", b"\r\n", b"\n\r\n", b"\n\nx", b"\nSEND\n\n"):
        assert str(refuse(command + b"\n\n" + body + b"\0", dialect)) == must_not
    assert str(refuse(command + b"\ncontent-length:1\n\nx\0", dialect)) == must_not
    assert str(refuse(command + b"\ncontent-length:1\n\n\0", dialect)) == must_not
    assert str(refuse(command + b"\ncontent-length:0\n\nx\0", dialect)) == must_not
    (frame,) = decode(command + b"\ncontent-length:0\n\n\0", dialect)
    assert frame.payload == b""


@pytest.mark.parametrize("command", sorted(ANY - BODIES), ids=bytes.decode)
@pytest.mark.parametrize("lfs", [1, 2, 30])
@versions
def test_a_body_of_lfs_is_none(command: bytes, lfs: int, dialect: Dialect) -> None:
    """Clients write one LF too many, and brokers take it: the frame ends at its NUL, however it is cut."""
    body = b"\n" * lfs
    for head in (b"\n\n", b"\r\n\r\n", b"\na:1\n\n", b"\ncontent-length:%d\n\n" % lfs):
        (frame,) = decode(command + head + body + b"\0", dialect, limits=SMALL)
        assert (frame.command, frame.payload) == (command, body)


@pytest.mark.parametrize("command", sorted(ANY - BODIES), ids=bytes.decode)
@pytest.mark.parametrize("length", [0, 1, 3, 31, 9999])
def test_a_body_of_lfs_is_as_long_as_it_says(command: bytes, length: int) -> None:
    """Otherwise it would depend on the reader where the frame ends."""
    wire = command + b"\ncontent-length:%d\n\n\n\n\0" % length
    assert str(refuse(wire, limits=SMALL)) == f"{command.decode()} must not have a body"


@pytest.mark.parametrize("rest", [b"", b"\0", b"x", b"\n" * 70], ids=repr)
def test_a_body_of_lfs_has_the_limit_of_bodies(rest: bytes) -> None:
    """One more than a body may have is refused, whatever follows."""
    error = refuse(b"BEGIN\n\n" + b"\n" * 31 + rest, limits=SMALL)
    assert (type(error), str(error)) == (LimitError, "body too large")


# ------------------------------------------------------------------ the receipt that a broken frame asks for


ASKING = [
    pytest.param(b"SEND\nreceipt:r\nnocolon\n\n\0", id="bad head"),
    pytest.param(b"SEND\nnocolon\nreceipt:r\nreceipt:s\n\n\0", id="the first counts"),
    pytest.param(b"BEGIN\nreceipt:r\n\nx\0", id="a body where none may be"),
    pytest.param(b"SEND\nreceipt:r\ncontent-length:3\n\nhello\0", id="a length that lies"),
    pytest.param(b"SEND\nreceipt:r\ncontent-length:x\n\nhello\0", id="a length that is none"),
    pytest.param(b"SEND\nreceipt:r\na:1\nb:2\nc:3\n\n\0", id="too many headers"),
    pytest.param(b"SEND\nreceipt:r\nfoo:" + b"x" * 30 + b"\n\n\0", id="too long a header"),
    pytest.param(b"SEND\nreceipt:r\n\n" + b"x" * 40, id="too large a body"),
    pytest.param(b"SEND\nreceipt:r\nfoo:\0\n\n\0", id="NUL in the head"),
    pytest.param(b"SEND\nreceipt:r\nfoo:\\t\n\n\0", id="undefined escape"),
    pytest.param(b"SEND\r\nreceipt:r\r\nnocolon\r\n\r\n\0", id="CRLF"),
]


@pytest.mark.parametrize("wire", ASKING)
def test_an_error_names_the_receipt(wire: bytes) -> None:
    """As a broker's does, where the frame's receipt can be read; however the stream is cut."""
    for before in (b"", b"\n\n", LF):
        for chunks in ([before + wire], octets(before + wire), [before, wire]):
            error = run(chunks, V1_2, CLIENT_COMMANDS, SMALL).error
            assert error is not None
            assert error.receipt == b"r"


def test_an_unexpected_command_names_its_receipt() -> None:
    """A second CONNECT, or no command at all; but that of a MESSAGE is its publisher's business."""
    for chunks in ([b"CONNECT\nreceipt:a\\cb\n\n\0"], octets(b"CONNECT\nreceipt:a\\cb\n\n\0")):
        error = run(chunks, V1_2, CLIENT_COMMANDS).error
        assert error is not None
        assert (str(error), error.receipt) == ("CONNECT is not allowed here", b"a\\cb")
    error = run([b"FOO\nreceipt:a\\cb\n\n\0"], V1_2, CLIENT_COMMANDS).error
    assert error is not None
    assert error.receipt == b"a:b"
    error = run([b"MESSAGE\nreceipt:r\nnocolon\n\n\0"], V1_2, BROKER_COMMANDS).error
    assert error is not None
    assert error.receipt is None


@pytest.mark.parametrize(
    "wire",
    [
        b"CONNECT\nfoo:" + b"x" * 30 + b"\nreceipt:r\n\n\0",
        b"CONNECT\na:1\na:2\na:3\na:4\nreceipt:r\n\n\0",
        b"MESSAGE\nreceipt:r\n\n\0",
        b"SEND\nreceipt:\\t\n\n\0",
        b"SEND\nnocolon\n\nreceipt:r\n\0",
        b"SEND\nfoo:\0\nreceipt:r\n\n\0",
        b"SEND\na:1\0SEND\nreceipt:r\n\n\0",
        b"SEND\nReceipt:r\nnocolon\n\n\0",
        b"SEND\nreceipt:" + b"r" * 30 + b"\n\n\0",
        b"SEND\nx:\xff\nreceipt:\xff\n\n\0",
    ],
    ids=repr,
)
def test_an_error_without_a_receipt(wire: bytes) -> None:
    """What cannot be read, or is not the frame's, is not named, and is no second error."""
    for chunks in ([wire], octets(wire)):
        error = run(chunks, demanding_utf8(V1_2), CLIENT_COMMANDS, SMALL).error
        assert error is not None
        assert error.receipt is None


# ------------------------------------------------------------------ CR


class Cr(NamedTuple):
    """A head with a CR in it; the headers each version makes of it, or why it refuses."""

    head: bytes
    in_1_0: bytes | str
    in_1_1: bytes | str
    in_1_2: bytes | str


BLANK = "malformed header line"
INSIDE = "carriage return inside a header"
CRS = [
    Cr(b"SEND\r\nfoo:bar\r\n\r\n", b"bar", b"bar", b"bar"),
    Cr(b"SEND\r\nfoo:bar\n\n", b"bar", b"bar", b"bar"),
    Cr(b"SEND\r\nfoo:bar\r\n\n", b"bar", b"bar", b"bar"),
    Cr(b"SEND\r\nfoo:bar\n\r\n", b"bar", b"bar", b"bar"),
    Cr(b"SEND\nfoo:bar\r\n\n", b"bar\r", b"bar\r", b"bar"),
    Cr(b"SEND\nfoo:bar\n\r\n", BLANK, BLANK, b"bar"),
    Cr(b"SEND\nfoo:bar\r\n\r\n", BLANK, BLANK, b"bar"),
    Cr(b"SEND\nfoo:bar\r\r\n\n", b"bar\r\r", b"bar\r\r", INSIDE),
    Cr(b"SEND\r\nfoo:bar\r\r\n\r\n", b"bar\r", b"bar\r", INSIDE),
    Cr(b"SEND\nfoo:\rbar\r\n\n", b"\rbar\r", b"\rbar\r", INSIDE),
    Cr(b"SEND\nfoo:\r:bar\n\n", b"\r:bar", b"\r:bar", INSIDE),
]


@pytest.mark.parametrize("case", CRS, ids=lambda case: repr(case.head))
@versions
def test_carriage_returns(dialect: Dialect, case: Cr) -> None:
    """Part of the value on 1.0 and 1.1 unless the command line ended so, the line's end on 1.2, never inside."""
    expected = dict(zip(DIALECTS, case[1:], strict=True))[dialect.version]
    wire = case.head + b"x\0"
    if isinstance(expected, str):
        assert str(refuse(wire, dialect)) == expected
    else:
        (frame,) = decode(wire, dialect)
        assert dialect.read(frame.head_lines, crlf=frame.crlf) == [(b"foo", expected)]
        assert frame.payload == b"x"


@pytest.mark.parametrize(
    ("line", "in_1_0", "in_1_1", "in_1_2"),
    [
        (b"foo:\\n", True, True, True),
        (b"foo:\\c\\\\", True, True, True),
        (b"foo:\\r", True, True, True),
        (b"foo:\\t", True, True, False),
        (b"foo:\\", True, True, False),
        (b"foo:\\\\\\", True, True, False),
        (b"foo:\\\\n\\n", True, True, True),
        (b"foo:\\\\\\\\t", True, True, True),
        (b"foo:\\\\\\t", True, True, False),
        (b"f\\co:bar", True, True, True),
        (b"f\\to:bar", True, False, False),
        (b"foo\\:bar", True, False, False),
        (b"foo\\\\:bar", True, True, True),
        (b"a:1\nfoo:\\t", True, True, False),
        (b"foo:a:b\\t", True, True, False),
    ],
    ids=repr,
)
def test_undefined_escapes_are_fatal(line: bytes, *, in_1_0: bool, in_1_1: bool, in_1_2: bool) -> None:
    """STOMP 1.2, "Value Encoding", names included; of 1.1 only in names; 1.0 has no escapes."""
    for dialect, fine in zip(SPECIFIED, [in_1_0, in_1_1, in_1_2], strict=True):
        wire = b"SEND\n" + line + b"\n\n\0"
        if fine:
            assert len(decode(wire, dialect)) == 1
        else:
            assert str(refuse(wire, dialect)) == "undefined escape sequence in a header"


# ------------------------------------------------------------------ escapes


@pytest.mark.parametrize(
    ("line", "spelled"),
    [
        (b"foo:\\t", b"foo:\\\\t"),
        (b"foo:\\", b"foo:\\\\"),
        (b"foo:\\\\\\", b"foo:\\\\\\\\"),
        (b"foo:\\tn\\\\t\\n\\:\\\\", b"foo:\\\\tn\\\\t\\n\\\\:\\\\"),
        (b"f\\co:\\r\na:\\", b"f\\co:\\\\r\na:\\\\"),
    ],
    ids=repr,
)
@pytest.mark.parametrize("eol", [b"\n", b"\r\n"], ids=repr)
def test_a_backslash_that_begins_no_escape_is_spelled_as_one(line: bytes, spelled: bytes, eol: bytes) -> None:
    """So a frame of 1.1 means the same to whoever reads it; a head that repeats and what is around it, too."""
    lines = [
        b"SEND%b" + each.replace(b"\n", eol) + b"%bcontent-length:3%b%ba\\t\0" for each in (line, spelled)
    ]
    said, meant = (each % (eol, eol, eol, eol) for each in lines)
    for chunks in ([said * 2 + LF], octets(said * 2 + LF)):
        assert run(chunks, V1_1).frames == run([meant * 2 + LF], V1_1).frames


def test_what_is_spelled_out_is_held_to_the_limit() -> None:
    """Whoever reads the frame again has the same limits."""
    fits, longer = (b"SEND\nfoo:" + b"\\t" * count + b"\n\n\0" for count in (8, 9))
    limits = Limits(header_line=28)
    (frame,) = run([fits], V1_1, limits=limits).frames
    assert len(frame.head_lines) == 29
    assert str(run([longer], V1_1, limits=limits).error) == "header line too long"


# ------------------------------------------------------------------ what is not a frame


MALFORMED = [
    # no colon, no name
    (b"SEND\nnocolon\n\n\0", "malformed header line"),
    (b"SEND\na:1\nnocolon\nb:2\n\n\0", "malformed header line"),
    (b"SEND\n \n\n\0", "malformed header line"),
    (b"SEND\nnocolon\na:1:2\n\n\0", "malformed header line"),
    (b"SEND\na:1:2\nnocolon\n\n\0", "malformed header line"),
    (b"SEND\n\\\na:b\n\n\0", "malformed header line"),
    (b"SEND\n:v\n\n\0", "empty header name"),
    (b"SEND\n:\n\n\0", "empty header name"),
    (b"SEND\na:1\n:v\n\n\0", "empty header name"),
    (b"SEND\r\n:v\r\n\r\n\0", "empty header name"),
    # NUL where no NUL belongs
    (b"SEND\nfoo:a\0b\n\n\0", "NUL in a frame's head"),
    (b"SEND\nfo\0o:a\n\n\0", "NUL in a frame's head"),
    (b"SEND\nfoo:a\n\0\n", "NUL in a frame's head"),
    (b"SEND\n\0\n\n", "NUL in a frame's head"),
    (b"SEND\nfoo:bar\0", "NUL in a frame's head"),
    (b"DISCONNECT\n\0", "NUL in a frame's head"),
    (b"SEND\ndestination:/queue/a\0\nSEND\ndestination:/queue/b\n\n\0", "NUL in a frame's head"),
    # two lengths: which one counts depends on who reads
    (b"SEND\ncontent-length:5\ncontent-length:5\n\nhello\0", "more than one content-length"),
    (b"SEND\ncontent-length:5\ncontent-length:0\n\nhello\0", "more than one content-length"),
    (b"SEND\ncontent-length:0\na:1\ncontent-length:5\n\nhello\0", "more than one content-length"),
    (b"SEND\r\ncontent-length:5\r\ncontent-length:5\r\n\r\nhello\0", "more than one content-length"),
    (b"SEND\ncontent-length:5\ncontent-length:abc\n\nhello\0", "more than one content-length"),
    (b"ACK\ncontent-length:0\ncontent-length:0\n\n\0", "more than one content-length"),
    # a length that lies
    (b"SEND\ncontent-length:4\n\nhello\0", "content-length does not fit the body"),
    (b"SEND\ncontent-length:0\n\nhello\0", "content-length does not fit the body"),
    (b"SEND\ncontent-length:8\n\nhello\0SEND\n\n\0", "content-length does not fit the body"),
    (b"MESSAGE\ncontent-length:5\n\nhello\n\0", "content-length does not fit the body"),
    # a frame hidden in a body that may not be
    (b"SUBSCRIBE\nid:1\ncontent-length:9\n\nSEND\n\n\0\0\0\0", "SUBSCRIBE must not have a body"),
    (b"CONNECT\n\nSEND\n\n\0", "CONNECT must not have a body"),
    (b"DISCONNECT\n\n \0", "DISCONNECT must not have a body"),
    # something else than a command
    (b"send\n\n\0", "unknown command"),
    (b"Send\n\n\0", "unknown command"),
    (b"SEND \n\n\0", "unknown command"),
    (b" SEND\n\n\0", "unknown command"),
    (b"\tSEND\n\n\0", "unknown command"),
    (b"\x0bSEND\n\n\0", "unknown command"),
    (b"SEND\r\r\n\r\n\0", "unknown command"),
    (b"SENDX\n\n\0", "unknown command"),
    (b"SEN\n\n\0", "unknown command"),
    (b"SEND:\n\n\0", "unknown command"),
    (b"S\0END\n\n\0", "unknown command"),
    (b"\xef\xbb\xbfSEND\n\n\0", "unknown command"),
    (b"FOO\nreceipt:r\n\n\0", "unknown command"),
    (b"\xff\xfe\xfd\n\n\0", "unknown command"),
    (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\n\n", "unknown command"),
]


@pytest.mark.parametrize(("wire", "message"), MALFORMED, ids=[repr(wire) for wire, _ in MALFORMED])
@versions
def test_what_is_not_a_frame(dialect: Dialect, wire: bytes, message: str) -> None:
    """It is refused in every version, with a reason; a good frame before it is not lost."""
    assert str(refuse(wire, dialect)) == message


LONG_GARBAGE = [
    b"G" * 14,
    b"x" * 4000,
    b"Accept: text/html, */*;q=0.8",
    b"\x80" * 100,
    b"destination:/queue/a\n\nhello\0",
]


@pytest.mark.parametrize("wire", LONG_GARBAGE, ids=[repr(wire[:20]) for wire in LONG_GARBAGE])
def test_endless_garbage_is_refused_before_its_line_ends(wire: bytes) -> None:
    """No command is longer than UNSUBSCRIBE: there is nothing to wait for, at once or octet by octet."""
    error = refuse(wire)
    assert (type(error), str(error)) == (ProtocolError, "unknown command")


def test_the_stream_is_lost_after_an_error() -> None:
    """What follows a bad frame is never taken for a frame, however often it is asked for."""
    decoder = Decoder(V1_2, ANY, Limits())
    decoder.feed(LF + b"FOO\n\n\0" + LF)
    frames = decoder.frames()
    assert next(frames).command is SEND
    with pytest.raises(ProtocolError):
        next(frames)
    for _ in range(3):
        with pytest.raises(ProtocolError):
            next(decoder.frames())


@pytest.mark.parametrize(
    "wire", [b"NONSENSE\n", b"MESSAGE\n", b"SEND\r\r\n", b"SEND\nfoo\0", b"SEND\n\0"], ids=repr
)
def test_what_can_never_become_a_frame_is_not_waited_for(wire: bytes) -> None:
    """A wrong command line and a NUL in a head show before the head ends."""
    refuse(wire, V1_2, CLIENT_COMMANDS)


# ------------------------------------------------------------------ commands that may come


@pytest.mark.parametrize("expected", [OPENING, CLIENT_COMMANDS, BROKER_COMMANDS], ids=min)
@pytest.mark.parametrize("command", sorted(ANY), ids=bytes.decode)
def test_a_command_that_may_not_come(command: bytes, expected: frozenset[bytes]) -> None:
    """It is told from an unknown one, and the error names what may."""
    wire = command + b"\n\n\0"
    if command in expected:
        assert len(decode(wire, V1_2, expected)) == 1
    else:
        error = refuse(wire, V1_2, expected)
        assert isinstance(error, ProtocolError)
        assert str(error) == f"{command.decode()} is not allowed here"
        assert error.detail == "expected: " + ", ".join(sorted(map(bytes.decode, expected)))


@pytest.mark.parametrize(
    "line", [b"\xff" * 40, b"A" * 5000, b"a\x1bb\x07", "Ärger".encode()], ids=lambda x: repr(x[:9])
)
def test_an_unknown_command_is_quoted_harmlessly(line: bytes) -> None:
    """Short, in ASCII, and without an octet that could do something to whoever reads it."""
    error = run([line + b"\n\n\0"]).error
    assert error is not None
    assert error.explanation.isascii()
    assert error.explanation.isprintable()
    assert len(error.explanation) < 250


@pytest.mark.parametrize(
    ("line", "quoted"),
    [
        (b"send", b"send"),
        (b"Subscribe\r", b"Subscribe"),
        (b"passcode:x", None),
        (b"SEND x", None),
        (b"A" * 17, None),
    ],
    ids=repr,
)
def test_only_what_may_be_meant_for_a_command_is_quoted(line: bytes, quoted: bytes | None) -> None:
    """A header or a body that is read as a command may be a secret; and nothing is quoted in what is logged."""
    error = run([line + b"\n\n\0"]).error
    assert error is not None
    assert error.quoted == quoted
    assert error.detail == "no STOMP command that may come here"


# ------------------------------------------------------------------ UTF-8


@pytest.mark.parametrize(
    "octet", [b"\xff", b"\xc3", b"\xc3\x28", b"\xed\xa0\x80", b"\xc0\x80", b"\xf8\x88\x80\x80\x80"]
)
def test_heads_that_are_not_utf8(octet: bytes) -> None:
    """They pass as octets unless the listener wants UTF-8; bodies always pass."""
    for line in (b"foo:" + octet, b"f" + octet + b"oo:bar"):
        wire = b"SEND\n" + line + b"\n\nbody\0"
        assert decode(wire)[0].head_lines == line + b"\n"
        error = refuse(wire, demanding_utf8(V1_2))
        assert isinstance(error, FrameError)
        assert str(error) == "a header is not UTF-8"
    assert decode(b"SEND\n\n" + octet + b"\0", demanding_utf8(V1_2))[0].payload == octet


# ------------------------------------------------------------------ limits


def lines(count: int) -> bytes:
    """So many header lines."""
    return b"".join([b"h%d:v\n" % n for n in range(count)])


@pytest.mark.parametrize("eol", [b"\n", b"\r\n"], ids=["LF", "CRLF"])
@pytest.mark.parametrize("spice", [b"", b"x:a\\cb\n"], ids=["plain", "escaped"])
@pytest.mark.parametrize("most", [1, 3, 128])
def test_the_limit_of_headers(most: int, spice: bytes, eol: bytes) -> None:
    """So many lines are taken, one more is not."""
    limits = Limits(headers=most)
    for count, taken in ((most, True), (most + 1, False)):
        head = lines(count - spice.count(b"\n")) + spice
        wire = (b"SEND\n" + head + b"\n").replace(b"\n", eol) + b"\0"
        if taken:
            assert len(decode(wire, limits=limits)) == 1
        else:
            error = refuse(wire, limits=limits)
            assert (type(error), str(error)) == (LimitError, "too many headers")
            assert error.detail == f"the limit is {most}"


@pytest.mark.parametrize("spice", [b"", b"\\c"], ids=["plain", "escaped"])
@pytest.mark.parametrize("at", [0, 1, 2])
def test_the_limit_of_a_header_line(at: int, spice: bytes) -> None:
    """Name, colon and value together, wherever the line stands; one octet more is refused."""
    for excess, taken in ((0, True), (1, False)):
        long = b"foo:" + spice + b"x" * (16 - len(spice) + excess)
        head = [b"a:1", b"b:2"]
        head.insert(at, long)
        wire = b"SEND\n" + b"\n".join(head) + b"\n\nbody that is longer than a line\0"
        limits = Limits(header_line=20)
        if taken:
            assert len(decode(wire, limits=limits)) == 1
        else:
            error = refuse(wire, limits=limits)
            assert (type(error), str(error)) == (LimitError, "header line too long")
            assert error.detail == "the limit is 20 bytes"


def test_the_limit_of_a_body() -> None:
    """One octet more is refused, with and without `content-length`, whose word is enough."""
    limits = Limits(body=30)
    for head in (b"SEND\n\n", b"SEND\ncontent-length:30\n\n"):
        (frame,) = decode(head + b"x" * 30 + b"\0", limits=limits)
        assert len(frame.payload) == 30
    for head in (b"SEND\n\n", b"SEND\ncontent-length:31\n\n"):
        error = refuse(head + b"x" * 31 + b"\0", limits=limits)
        assert (type(error), str(error)) == (LimitError, "body too large")
        assert error.detail == "the limit is 30 bytes"
    outcome = run([b"SEND\ncontent-length:31\n\n"], limits=Limits(body=30))
    assert str(outcome.error) == "body too large"


# ------------------------------------------------------------------ anything


@settings(max_examples=5 * settings().max_examples)
@given(dialect=st.sampled_from(SPECIFIED), data=st.data())
def test_garbage_gives_frames_or_an_error(dialect: Dialect, data: st.DataObject) -> None:
    """Any octets, cut anyhow: the same frames, an error in all cuts or in none, and never anything else."""
    stream = data.draw(strategies.garbage)
    whole = run([stream], dialect)
    for chunks in (data.draw(strategies.chunkings(stream)), octets(stream)):
        outcome = run(chunks, dialect)
        assert outcome.frames == whole.frames
        assert (outcome.error is None) == (whole.error is None)
        if whole.error is None:
            assert outcome.buffered == whole.buffered
    assert sum(len(frame.command + frame.head_lines + frame.payload) for frame in whole.frames) <= len(stream)


@settings(max_examples=3 * settings().max_examples)
@given(dialect=st.sampled_from(SPECIFIED), data=st.data())
def test_garbage_never_grows_beyond_the_limits(dialect: Dialect, data: st.DataObject) -> None:
    """Whatever comes, what is kept of it stays below what one frame may be, and a chunk."""
    limits = Limits(headers=2, header_line=12, body=10)
    decoder = Decoder(dialect, ANY, limits)
    stream = data.draw(strategies.garbage)
    size = data.draw(st.integers(1, 9))
    most = 13 + limits.headers * (limits.header_line + 1 + size) + 2 + limits.body + 1 + size
    try:
        for at in range(0, len(stream), size):
            decoder.feed(stream[at : at + size])
            for frame in decoder.frames():
                assert len(frame.payload) <= limits.body
                assert len(frame.head_lines.split(b"\n")) - 1 <= limits.headers
            assert decoder.buffered <= most
    except StompError:
        assert decoder.buffered <= most + size


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        *[(each, None) for each in (b":v", b"nocolon", b"a:1\nb", b"a:\\t", b"a:b\rc", b"a:b\\")],
        (b"a:\0", "NUL in a frame's head"),
        (b"a:1\nb:2\nc:3\nd:4", "too many headers"),
        (b"a:" + b"x" * 19, "header line too long"),
    ],
    ids=repr,
)
@versions
def test_a_lenient_dialect_takes_more(dialect: Dialect, lines: bytes, message: str | None) -> None:
    """A publisher's odd header does not cost the consumer its connection; a NUL and what is over a limit do."""
    lenient = dataclasses.replace(dialect, strict=False)
    wire = b"MESSAGE\n" + lines + b"\n\n\0"
    if message is None:
        assert len(decode(wire, lenient, limits=SMALL)) == 1
    else:
        assert str(refuse(wire, lenient, limits=SMALL)) == message
