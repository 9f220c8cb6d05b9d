"""How far a client's DISCONNECT has come, and the errors of a session that loses its broker or brokers."""

from enum import Enum
from typing import Final

from stomprelay.relay.link.link import Ended, Link
from stomprelay.relay.model.upstream import Upstream
from stomprelay.wire.errors import StompError

DISCONNECTING: Final = b"DISCONNECT\n\n\0"
"""The frame, in every version, by which brokers are left in the name of a client that is gone."""
GOODBYE: Final = b"-goodbye"
"""What follows the session's name in the receipt that the relay asks for with a DISCONNECT of its own."""
LOST: Final = "what has no receipt may be lost"
"""What a client is told of the SENDs that nobody confirmed."""


class DisconnectState(Enum):
    """The progress of a client's DISCONNECT."""

    NONE = "none"
    """The client has not sent it."""
    WAITING = "waiting"
    """It waits for the receipts that are owed for earlier SENDs: a broker may answer it before them."""
    SENT = "sent"
    """The broker was sent it."""
    CONFIRMED = "confirmed"
    """The receipt that it asked for was passed to the client."""


def broker_lost(upstream: Upstream, receipt: bytes | None) -> StompError:
    """Return the ERROR for a client whose session ends with its broker."""
    detail = f"upstream {upstream.name}; connect again; {LOST}"
    return StompError("connection to the broker was lost", detail, receipt=receipt)


def not_to_be_had(link: Link, receipt: bytes | None) -> StompError:
    """Return the error for want of a link's broker, without the reason, which may have addresses in it."""
    name = link.upstream.name
    if isinstance(link.state, Ended) and link.state.unwelcome:
        return StompError(link.reason, f"upstream {name}", receipt=receipt)
    advice = "try again later; the relay's log says why"
    if link.fresh or not link.upstream.movable:
        return StompError(
            "broker not available", f"upstream {name} did not connect; {advice}", receipt=receipt
        )
    return StompError("no broker available", f"upstream {name}: {link.reason}; {advice}", receipt=receipt)
