"""Reading a SEND and writing its MESSAGE, in every dialect."""

import pytest

from stomprelay.broker.message import MessageHead
from stomprelay.wire.decoder import Decoder
from stomprelay.wire.dialect import DIALECTS, V1_2, Dialect
from stomprelay.wire.frame import Frame, Limits
from stomprelay.wire.names import CLIENT_COMMANDS, RESERVED

dialects = pytest.mark.parametrize("dialect", DIALECTS.values(), ids=lambda dialect: dialect.version.decode())


def read(data: bytes, dialect: Dialect) -> MessageHead:
    """The head of the SEND that these bytes are."""
    return MessageHead.read(frame(data, dialect), dialect)


def frame(data: bytes, dialect: Dialect) -> Frame:
    """The one frame that these bytes are."""
    decoder = Decoder(dialect, CLIENT_COMMANDS, Limits())
    decoder.feed(data)
    (one,) = decoder.frames()
    return one


@dialects
def test_a_plain_head_is_kept_as_it_came(dialect: Dialect) -> None:
    """With order and repetitions, the same in every dialect; but receipt, transaction and destinations go."""
    head = read(b"SEND\nb:2\na:1\ndestination:/queue/a\na:3\ncontent-length:1\n\nx\0", dialect)
    assert head.destination == b"/queue/a"
    assert head.lines == b"b:2\na:1\na:3\ncontent-length:1\n\n"
    assert {head.written(each) for each in DIALECTS.values()} == {head.lines}
    lines = b"receipt:r\ntransaction:t\ndestination:/queue/a\nfoo:bar\ndestination:/queue/b\n"
    head = read(b"SEND\n%b\n\0" % lines, dialect)
    assert (head.receipt, head.transaction) == (b"r", b"t")
    assert head.lines == b"foo:bar\n\n"


@dialects
@pytest.mark.parametrize("name", RESERVED, ids=bytes.decode)
def test_a_publisher_cannot_speak_as_the_broker(name: bytes, dialect: Dialect) -> None:
    """Reserved headers are left out, from plain heads and from others, wherever they stand and however often."""
    forged = b"%b:forged\n" % name
    plain = read(b"SEND\n%bdestination:/queue/a\n%bfoo:bar\n%b\n\0" % (forged, forged, forged), dialect)
    assert plain.lines == b"foo:bar\n\n"
    other = read(b"SEND\r\n%bfoo:a:b\ndestination:/queue/a\n%b\n\0" % (forged, forged), dialect)
    assert other.lines is None
    assert other.written(V1_2) == b"foo:a\\cb\n\n"


def test_a_dead_letter_tells_where_it_came_from() -> None:
    """The header stands in front, whether the head is plain or not, and the old head stays as it was."""
    plain = read(b"SEND\ndestination:/queue/a\nfoo:bar\n\n\0", V1_2)
    moved = plain.moved(b"/queue/DLQ", b"from", b"/queue/a")
    assert (moved.destination, moved.lines) == (b"/queue/DLQ", b"from:/queue/a\nfoo:bar\n\n")
    assert plain.lines == b"foo:bar\n\n"
    other = read(b"SEND\ndestination:/queue/a\\cb\nfoo:bar\n\n\0", V1_2)
    assert (
        other.moved(b"/queue/DLQ", b"from", b"/queue/a:b").written(V1_2) == b"from:/queue/a\\cb\nfoo:bar\n\n"
    )
