"""Peers on a STOMP port that do not speak STOMP."""

import pytest

from stomprelay.session.refusal import HTTP, TLS, Foreign, recognise


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
