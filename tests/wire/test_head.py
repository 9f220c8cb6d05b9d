"""Whether a head is right, and what it says of the body. The decoder's tests run the same cases from the wire."""

import dataclasses

import pytest

from stomprelay.wire.dialect import DIALECTS, V1_0, V1_1, V1_2, Dialect
from stomprelay.wire.errors import FrameError, LimitError, StompError
from stomprelay.wire.frame import Head, Limits

SPECIFIED = list(DIALECTS.values())
LIMITS = Limits()
SMALL = Limits(headers=2, header_line=10)

versions = pytest.mark.parametrize("dialect", SPECIFIED, ids=lambda dialect: dialect.version.decode())


def places(lines: bytes, eol: bytes = b"\n", blank: bytes = b"") -> tuple[bytes, int, int]:
    """A chunk with a frame of this head between others that must not matter, and where its head and body begin."""
    before = b"SEND\ncontent-length:1\nnocolon\n\n\0"
    start = before + b"SEND" + eol
    head = start + lines + (blank or eol)
    return head + b"content-length:2\n:\nnocolon\n\n\0", len(start), len(head)


def examine(lines: bytes, dialect: Dialect, limits: Limits = LIMITS, eol: bytes = b"\n") -> bool:
    """Whether the head is plain."""
    return Head(limits).examine(*places(lines, eol), dialect)


def length(lines: bytes, dialect: Dialect, eol: bytes = b"\n") -> int:
    """What the head says of the body."""
    return Head.content_length(*places(lines, eol), dialect)


# ------------------------------------------------------------------ examine


@pytest.mark.parametrize(
    ("lines", "eol", "in_1_0", "in_1_1", "in_1_2"),
    [
        (b"a:b:c\n", b"\n", False, False, False),
        (b"a:\\\\\n", b"\n", False, False, False),
        (b"a:1\r\n", b"\r\n", False, False, False),
        (b"", b"\r\n", False, False, False),
        (b"a: 1\n", b"\n", False, True, True),
        (b"a:1 \n", b"\n", False, True, True),
        (b"a :1\n", b"\n", False, True, True),
        (b"a:1\r\n", b"\n", False, False, False),
        (b"a:\\t\n", b"\n", False, False, "undefined escape sequence in a header"),
        (b"a:\\r\n", b"\n", False, False, False),
        (b"a\\b:\n", b"\n", False, *["undefined escape sequence in a header"] * 2),
        (b"a:b\rc\n", b"\n", False, False, "carriage return inside a header"),
        (b"a:b\rc\r\n", b"\r\n", False, False, "carriage return inside a header"),
        (b"a\r:b\n", b"\n", False, False, "carriage return inside a header"),
        *[
            (line, b"\n", *["malformed header line"] * 3)
            for line in (b"a\n", b"a:1\nb\n", b"b\na:1\n", b"a:1:2\nb\n")
        ],
        *[(line, b"\r\n", *["malformed header line"] * 3) for line in (b"a\r\n", b"a:1\r\nb\r\n")],
        *[(line, b"\n", *["empty header name"] * 3) for line in (b":\n", b":v\n", b"a:1\n:v\n", b"::\n")],
        *[
            (line, b"\n", *["NUL in a frame's head"] * 3)
            for line in (b"a:\0\n", b"\0:a\n", b"a:1\nb\0c:d\n", b"\0\n")
        ],
    ],
    ids=lambda part: repr(part) if isinstance(part, bytes) else "",
)
def test_a_head_that_is_not_plain(
    lines: bytes, eol: bytes, in_1_0: bool | str, in_1_1: bool | str, in_1_2: bool | str
) -> None:
    """It is right all the same, or the reason why it is not."""
    for dialect, expected in zip(SPECIFIED, [in_1_0, in_1_1, in_1_2], strict=True):
        if isinstance(expected, str):
            with pytest.raises(FrameError) as caught:
                examine(lines, dialect, eol=eol)
            assert str(caught.value) == expected
        else:
            assert examine(lines, dialect, eol=eol) is expected


@pytest.mark.parametrize(
    "lines", [b":v\n", b"nocolon\n", b"a:1\nb\n", b"a:\\t\n", b"a:b\rc\n", b"a:b\\\n"], ids=repr
)
@versions
def test_a_lenient_dialect_takes_what_its_broker_wrote(dialect: Dialect, lines: bytes) -> None:
    """A publisher may have gone round the relay: its odd header is no reason to lose the consumer."""
    examine(lines, dataclasses.replace(dialect, strict=False))


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (b"a:\0\n", "NUL in a frame's head"),
        (b"a:1\nb:2\nc:3\n", "too many headers"),
        (b"a\nb\nc\n", "too many headers"),
        (b"a:012345678\n", "header line too long"),
    ],
    ids=repr,
)
def test_what_a_lenient_dialect_refuses(lines: bytes, message: str) -> None:
    """A NUL, for its reader may take it for the frame's end, and what is over the limits."""
    with pytest.raises(StompError) as caught:
        examine(lines, dataclasses.replace(V1_2, strict=False), SMALL)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("blank", "dialect", "fine"),
    [(b"\r\n", V1_0, False), (b"\r\n", V1_1, False), (b"\r\n", V1_2, True), (b"\n", V1_1, True)],
)
def test_a_blank_line_with_a_cr(blank: bytes, dialect: Dialect, *, fine: bool) -> None:
    """Behind a command line without one it ends a head on 1.2 only; elsewhere two readers could disagree."""
    data, head, body = places(b"a:1\n", blank=blank)
    if fine:
        Head(Limits()).examine(data, head, body, dialect)
    else:
        with pytest.raises(FrameError, match="malformed header line") as caught:
            Head(Limits()).examine(data, head, body, dialect)
        assert "carriage return" in caught.value.detail


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (b"a:1\nb:2\n", None),
        (b"a:1\nb:\\\\\n", None),
        (b"a:1\nb:2\nc:3\n", "too many headers"),
        (b"a:1\nb:2\nc:\\\\\n", "too many headers"),
        (b"a:1\nlong:56789\n", None),
        (b"a:1\nlong:567890\n", "header line too long"),
        (b"long:567890\nb:2\n", "header line too long"),
        (b"long:\\\\7890\n", "header line too long"),
        (b"long567890\n", "malformed header line"),
    ],
    ids=repr,
)
def test_limits(lines: bytes, message: str | None) -> None:
    """Of lines and of octets a line, plain or not; the last of a limit is still taken."""
    if message is None:
        examine(lines, V1_2, SMALL)
    else:
        with pytest.raises(StompError) as caught:
            examine(lines, V1_2, SMALL)
        assert str(caught.value) == message
        assert isinstance(caught.value, LimitError) is (message != "malformed header line")


# ------------------------------------------------------------------ content-length
