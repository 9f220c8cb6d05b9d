"""Conversations as they are written down: whole, by hand, or cut off."""

import pytest

from stomprelay.explain import FrameText
from stomprelay.wire.dialect import V1_0, V1_2, Dialect
from stomprelay.wire.errors import FrameError, ProtocolError
from stomprelay.wire.names import CONNECTED

SUBSCRIBE = b"SUBSCRIBE\nid:0\ndestination:/queue/a\n\n\0"
MESSAGE = b"MESSAGE\nsubscription:0\nmessage-id:1\ndestination:/queue/a\ncontent-length:3\n\na\0b\0"


def frames(text: bytes, dialect: Dialect = V1_2) -> list[tuple[bytes, bytes]]:
    """The commands and bodies of a text."""
    conversation = FrameText(text)
    found = []
    while conversation.command is not None:
        frame = conversation.frame(dialect)
        found.append((frame.command, frame.payload))
    return found


@pytest.mark.parametrize("between", [b"", b"\n", b"\r\n\r\n", b"\n\0\n"])
def test_both_sides_in_one_text(between: bytes) -> None:
    """Frames of a client and of a broker, with EOLs and NULs between them and behind them."""
    text = between + SUBSCRIBE + between + MESSAGE + between
    assert frames(text) == [(b"SUBSCRIBE", b""), (b"MESSAGE", b"a\0b")]


def test_each_frame_is_read_in_its_own_dialect() -> None:
    """The dialect may change from frame to frame."""
    conversation = FrameText(b"SEND\ndestination: /a\n\n\0SEND\ndestination: /a\n\n\0")
    assert conversation.frame(V1_0).header(b"destination", V1_0) == b"/a"
    assert conversation.frame(V1_2).header(b"destination", V1_2) == b" /a"


def test_a_caret_may_stand_for_nul() -> None:
    """In a text without NULs, as editors make them; with NULs, a caret is a caret."""
    assert frames(b"BEGIN\ntransaction:1\n\n^@\nSEND\ndestination:/a\n\nx^@\n") == [
        (b"BEGIN", b""),
        (b"SEND", b"x"),
    ]
    assert frames(b"SEND\ndestination:/a\n\nx^@\n\0") == [(b"SEND", b"x^@\n")]


@pytest.mark.parametrize(
    ("text", "body"),
    [
        (b"SEND\ndestination:/a\n\nhello", b"hello"),
        (b"SEND\ndestination:/a\n\nhello\n", b"hello"),
        (b"SEND\ndestination:/a\n\nhello\r\n", b"hello"),
        (b"SEND\ndestination:/a\n\nhello\n\n", b"hello\n"),
        (b"SEND\ndestination:/a\n\n", b""),
        (b"SEND\ndestination:/a\n", b""),
        (b"SEND\ndestination:/a", b""),
        (b"SEND\r\ndestination:/a\r\n\r\nhello", b"hello"),
        (b"SEND\ncontent-length:5\n\nhello", b"hello"),
        (b"SEND\ncontent-length:5\n\nhello\n", b"hello"),
        (b"SEND\ncontent-length:6\n\nhello\n", b"hello\n"),
        (b"SEND", b""),
    ],
)
def test_the_last_frame_needs_no_nul(text: bytes, body: bytes) -> None:
    """The end that is missing is put there, in the place of a last line end."""
    assert frames(text) == [(b"SEND", body)]
    assert frames(SUBSCRIBE + text) == [(b"SUBSCRIBE", b""), (b"SEND", body)]


@pytest.mark.parametrize("end", [b"", b"\n", b"\n\n", b"\n\n\n", b"\r\n\r\n"])
def test_a_last_frame_without_a_body(end: bytes) -> None:
    """A frame that may have no body is given none, however many lines follow it."""
    assert frames(b"BEGIN\ntransaction:1" + end) == [(b"BEGIN", b"")]


@pytest.mark.parametrize("text", [b"", b"\n", b"\r\n\0\n"])
def test_nothing_to_read(text: bytes) -> None:
    """EOLs alone hold no frame."""
    assert frames(text) == []


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        (b"HELLO\n\n\0", ProtocolError, "unknown command"),
        (b"SEND\ncontent-length:9\n\nhello", FrameError, "the frame does not end"),
        (b"SEND\nno colon\n\n\0", FrameError, "malformed header line"),
        (b"BEGIN\n\nbody", FrameError, "BEGIN must not have a body"),
        (b"SEND\nx:\\q\n\n\0", FrameError, "undefined escape sequence in a header"),
    ],
)
def test_what_is_no_frame(text: bytes, error: type[Exception], message: str) -> None:
    """The error is the one that the relay has."""
    with pytest.raises(error, match=message):
        frames(text)


def test_the_command_is_known_before_the_frame() -> None:
    """It tells whose frame it is, and so in which dialect to read it."""
    conversation = FrameText(b"\n\nCONNECTED\r\nversion:1.2\r\n\r\n\0")
    assert conversation.command == CONNECTED
    assert conversation.command == CONNECTED
    conversation.frame(V1_0)
    assert conversation.command is None
