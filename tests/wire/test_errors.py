"""What can be wrong with a frame, and what its author is told."""

import pytest

from stomprelay.wire.errors import FrameError, LimitError, ProtocolError, Refused, StompError, visible

KINDS = [FrameError, LimitError, ProtocolError, Refused]

kinds = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)


@kinds
@pytest.mark.parametrize(
    ("detail", "quoted", "explanation"),
    [
        ("it says", b"\xff" * 50, "it says: '" + "\\\\xff" * 32 + "'"),
        ("", b"a\x1b'", '"a\\x1b\'"'),
        ("it says", None, "it says"),
        ("it says", b"", "it says: ''"),
    ],
    ids=repr,
)
def test_who_is_told(kind: type[StompError], detail: str, quoted: bytes | None, explanation: str) -> None:
    """The beginning of it, printable; what is logged has none of it."""
    error = kind("odd", detail, quoted=quoted)
    assert error.explanation == explanation
    assert (str(error), error.detail) == ("odd", detail)


@kinds
def test_what_is_logged_is_the_message_alone(kind: type[StompError]) -> None:
    """A detail may quote what the peer sent: it reaches the peer, not a traceback."""
    error = kind("too much", "it says 'secret'", receipt=b"secret")
    assert str(error) == "too much"
    assert "secret" not in repr(error)


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("", ""),
        ("zürich 東京", "zürich 東京"),
        ("a\nb", "a\\nb"),
        ("\x1b\x7f\x9b", "\\x1b\\x7f\\x9b"),
        ("\u200b\u202e", "\\u200b\\u202e"),
    ],
)
def test_visible(text: str, seen: str) -> None:
    """Letters of all languages as they are, all else escaped."""
    assert visible(text) == seen
