"""What a refused peer is sent: an ERROR from us, or an answer in the peer's own protocol."""

from typing import Final, NamedTuple

from stomprelay.wire.dialect import Dialect, Headers
from stomprelay.wire.errors import StompError
from stomprelay.wire.frame import compose
from stomprelay.wire.names import CONTENT_LENGTH, CONTENT_TYPE, ERROR, MESSAGE_HEADER, RECEIPT_ID, VERSION


def complain(error: StompError, dialect: Dialect, supported: bytes | None = None) -> bytes:
    """Return the ERROR frame for an error, in the client's dialect. Its body is never empty, because Artemis's client
    needs a body. `supported`: the versions to name (STOMP 1.2, "Protocol Negotiation").
    """
    body = (error.explanation or error.message).encode()
    headers: Headers = [(MESSAGE_HEADER, error.message.encode())]
    if error.receipt is not None and dialect.speakable(error.receipt):
        headers.append((RECEIPT_ID, error.receipt))
    if supported is not None:
        headers.append((VERSION, supported))
    headers += [(CONTENT_TYPE, b"text/plain"), (CONTENT_LENGTH, b"%d" % len(body))]
    return compose(ERROR, headers, dialect, body)


def not_stomp(error: StompError) -> StompError:
    """Return the error for a client whose broker sent bytes that are not STOMP; `error` says why."""
    return StompError("the broker sent what is not STOMP", error.message)


METHODS: Final = (b"GET ", b"POST ", b"HEAD ", b"PUT ", b"DELETE ", b"OPTIONS ", b"PATCH ", b"PRI * ")
LONGEST: Final = max(map(len, METHODS))
"""The number of a connection's first bytes that `recognise` needs at most."""
_HINT: Final = b"This port speaks STOMP, not HTTP: use a STOMP client.\r\n"
_HTTP_ANSWER: Final = (
    b"HTTP/1.1 400 Bad Request\r\n"
    b"Content-Type: text/plain\r\n"
    b"Content-Length: %d\r\n"
    b"Connection: close\r\n"
    b"\r\n%b" % (len(_HINT), _HINT)
)


class Foreign(NamedTuple):
    """A peer that does not use STOMP: `what` it sent, for the log, and the answer in the peer's own protocol."""

    what: str
    answer: bytes


TLS: Final = Foreign("TLS hello on a plain listener", b"")
HTTP: Final = Foreign("HTTP request on a STOMP listener", _HTTP_ANSWER)


def recognise(data: bytes) -> Foreign | None:
    """Return the protocol that a connection's first bytes show, if it is known and not STOMP; otherwise None."""
    if data.startswith(b"\x16"):  # a handshake's first record
        return TLS
    if data.startswith(METHODS):
        return HTTP
    return None
