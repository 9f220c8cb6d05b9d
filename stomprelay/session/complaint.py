"""ERROR frames of our own making."""

from stomprelay.wire.dialect import Dialect, Headers
from stomprelay.wire.errors import StompError
from stomprelay.wire.frame import compose
from stomprelay.wire.names import CONTENT_LENGTH, CONTENT_TYPE, ERROR, MESSAGE_HEADER, RECEIPT_ID, VERSION


def complain(error: StompError, dialect: Dialect, supported: bytes | None = None) -> bytes:
    """The ERROR frame that tells a client what an error says, spelled in the client's dialect.

    `supported`: the versions to name when none was in common (STOMP 1.2, "Protocol Negotiation").
    """
    body = error.detail.encode()
    headers: Headers = [(MESSAGE_HEADER, error.message.encode())]
    if error.receipt is not None and dialect.speakable(error.receipt):
        headers.append((RECEIPT_ID, error.receipt))
    if supported is not None:
        headers.append((VERSION, supported))
    headers += [(CONTENT_TYPE, b"text/plain"), (CONTENT_LENGTH, b"%d" % len(body))]
    return compose(ERROR, headers, dialect, body)


def not_stomp(error: StompError) -> StompError:
    """What a client is told when it was its broker that went wrong."""
    return StompError("the broker sent what is not STOMP", error.message)
