"""Peers on a STOMP port that do not speak STOMP: a TLS hello, an HTTP request."""

from typing import Final, NamedTuple

_TLS_HANDSHAKE: Final = 0x16
_METHODS: Final = (b"GET ", b"POST ", b"HEAD ", b"PUT ", b"DELETE ", b"OPTIONS ", b"PATCH ", b"PRI * ")
_HINT: Final = b"This port speaks STOMP, not HTTP: use a STOMP client.\r\n"
_HTTP_ANSWER: Final = (
    b"HTTP/1.1 400 Bad Request\r\n"
    b"Content-Type: text/plain\r\n"
    b"Content-Length: %d\r\n"
    b"Connection: close\r\n"
    b"\r\n%b" % (len(_HINT), _HINT)
)


class Foreign(NamedTuple):
    """What it was, for the log, and what it is answered in its own protocol."""

    what: str
    answer: bytes


TLS: Final = Foreign("TLS hello on a plain listener", b"")
HTTP: Final = Foreign("HTTP request on a STOMP listener", _HTTP_ANSWER)


def recognise(data: bytes) -> Foreign | None:
    """What the first octets of a connection are, when they are known not to be STOMP."""
    if data[:1] == bytes([_TLS_HANDSHAKE]):
        return TLS
    if data.startswith(_METHODS):
        return HTTP
    return None
