"""ERROR frames of our own making, as their reader sees them; and peers on a STOMP port that do not speak STOMP."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stomprelay.session.leg import Leg, LegState, Side
from stomprelay.session.refusal import HTTP, TLS, Foreign, complain, recognise
from stomprelay.wire.dialect import DIALECTS, Dialect, Headers
from stomprelay.wire.errors import FrameError, Refused
from stomprelay.wire.frame import Limits
from stomprelay.wire.names import ERROR
from tests import strategies


def heard(wire: bytes, dialect: Dialect) -> tuple[Headers, bytes]:
    """The one frame of it, by a client's own strict reading."""
    client = Leg(Side.UPSTREAM, Limits())
    client.enter(LegState.CONNECTED, dialect)
    client.decoder.feed(wire)
    (frame,) = client.decoder.frames()
    assert frame.command == ERROR
    assert client.decoder.buffered == 0
    return frame.headers(dialect), frame.payload


@pytest.mark.parametrize(
    ("receipt", "in_1_0", "in_1_1", "in_1_2"),
    [
        (b"r1", b"r1", b"r1", b"r1"),
        (b"a:b\\c", b"a:b\\c", b"a:b\\c", b"a:b\\c"),
        (b"", b"", b"", b""),
        (b"a\nb", None, b"a\nb", b"a\nb"),
        (b"a\r", None, None, b"a\r"),
        (None, None, None, None),
    ],
    ids=repr,
)
def test_the_receipt_that_was_asked_for(
    receipt: bytes | None, in_1_0: bytes | None, in_1_1: bytes | None, in_1_2: bytes | None
) -> None:
    """STOMP 1.2, "ERROR": `receipt-id` tells which frame was wrong, where the version can spell it."""
    for dialect, expected in zip(DIALECTS.values(), [in_1_0, in_1_1, in_1_2], strict=True):
        headers, _ = heard(complain(Refused("no", receipt=receipt), dialect), dialect)
        assert dict(headers).get(b"receipt-id") == expected


@given(
    dialect=st.sampled_from(list(DIALECTS.values())),
    receipt=st.one_of(st.none(), strategies.octets),
    detail=st.text(st.characters(codec="utf-8"), max_size=40),
)
def test_nothing_can_break_the_frame(dialect: Dialect, receipt: bytes | None, detail: str) -> None:
    """What a client sent comes back in its ERROR: always one frame, its first header the reason."""
    headers, body = heard(complain(FrameError("wrong", detail, receipt=receipt), dialect), dialect)
    assert headers[0] == (b"message", b"wrong")
    assert body.decode() == (detail or "wrong")
    assert [name for name, _ in headers if name != b"receipt-id"] == [
        b"message",
        b"content-type",
        b"content-length",
    ]


@pytest.mark.parametrize(
    ("data", "foreign"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", TLS),
        (b"\x16", TLS),
        (b"GET / HTTP/1.1\r\nHost: mq\r\n\r\n", HTTP),
        (b"GET ", HTTP),
        (b"POST /api HTTP/1.1\r\n", HTTP),
        (b"HEAD / HTTP/1.0\r\n\r\n", HTTP),
        (b"PUT /x HTTP/1.1\r\n", HTTP),
        (b"DELETE /x HTTP/1.1\r\n", HTTP),
        (b"OPTIONS * HTTP/1.1\r\n", HTTP),
        (b"PATCH /x HTTP/1.1\r\n", HTTP),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", HTTP),
        (b"CONNECT\naccept-version:1.2\n\n\0", None),
        (b"CONNECT\r\n\r\n\0", None),
        (b"STOMP\n\n\0", None),
        (b"\nCONNECT\n\n\0", None),
        (b"\r\n", None),
        (b"C", None),
        (b"", None),
        (b"GETX", None),
        (b"get / http/1.1", None),
        (b"\x15\x03\x01", None),
        (b"SEND\n\nGET / HTTP/1.1\0", None),
    ],
    ids=lambda part: repr(part[:16]) if isinstance(part, bytes) else "",
)
def test_what_the_first_octets_are(data: bytes, foreign: Foreign | None) -> None:
    """A TLS hello and HTTP's methods are known; whatever may become STOMP is let through."""
    assert recognise(data) is foreign
