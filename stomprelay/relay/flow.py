"""What a relay needs of whatever joins its client to brokers, one of them or many."""

from collections.abc import Sequence
from enum import Enum
from typing import Final, Protocol

from stomprelay.relay.effects import Pass
from stomprelay.relay.forward import TURN
from stomprelay.relay.guard import Guard
from stomprelay.relay.link.link import Link
from stomprelay.relay.model.upstream import Upstream
from stomprelay.session.leg import Leg
from stomprelay.wire.errors import StompError

DISCONNECTING: Final = b"DISCONNECT\n\n\0"
"""The frame, in every version, by which brokers are left in the name of a client that is gone."""
GOODBYE: Final = b"-goodbye"
"""What follows the session's name in the receipt that the relay asks for with a DISCONNECT of its own."""
LOST: Final = "what has no receipt may be lost"
"""What a client is told of the SENDs that nobody confirmed."""


class DisconnectState(Enum):
    """How far a client's DISCONNECT has come."""

    NONE = "none"
    """The client has not sent it."""
    WAITING = "waiting"
    """It waits for the receipts that are owed for earlier SENDs: a broker may answer it before them."""
    SENT = "sent"
    """The broker was sent it."""
    CONFIRMED = "confirmed"
    """The receipt that it asked for was passed to the client."""


class Flow(Protocol):
    """Frames between a client and its brokers; effects go to the relay's outbox. Methods raise `StompError` when the
    session cannot go on. A client that is gone (`Leg.gone`) is sent nothing.
    """

    @property
    def links(self) -> list[Link]:
        """Its links, whose brokers are to be sought."""

    @property
    def coupled(self) -> bool:
        """Whether there is one broker at a time, which sets the client's pace and the client its."""

    @property
    def disconnect(self) -> DisconnectState:
        """The state of the client's DISCONNECT."""

    @property
    def disconnect_receipt(self) -> bytes | None:
        """The receipt that the client's DISCONNECT asked for; None where there is none."""

    def stop_messages(self) -> None:
        """Pass the client no MESSAGE nor DISCONNECT's RECEIPT any more, and read from brokers whatever it owes."""

    @property
    def erred(self) -> bool:
        """Whether the last frame that the client was passed was an ERROR."""

    @property
    def survives(self) -> bool:
        """Whether the session may outlive a broker, so that what the client sends may have to wait for the next."""

    @property
    def ready(self) -> bool:
        """Whether there are brokers enough to answer the client's CONNECT."""

    @property
    def flowing(self) -> bool:
        """Whether what the client sends may be read; otherwise it has to wait."""

    @property
    def full(self) -> bool:
        """Whether the client must not be read from, for too much is unconfirmed."""

    @property
    def crowded(self) -> bool:
        """Whether it is too early to read on from a client that was paused for being `full`."""

    @property
    def safe(self) -> bool:
        """Whether all that the client sent is where it shall be, as far as receipts were asked for."""

    @property
    def settled(self) -> bool:
        """Whether the client sent DISCONNECT and is owed nothing: a broker that closes now is not lost."""

    @property
    def guard(self) -> Guard:
        """What judges the client's frames."""

    def guarded(self, guard: Guard) -> None:
        """Have this guard judge the client's frames from now on. Call it also where the guard's rules have changed."""

    def passes(self) -> list[Pass]:
        """Return which frames of which leg may be sent straight on now, as far as the flow is concerned."""

    def opened(self) -> list[Link]:
        """Return the links that were added since the last call, and now have to seek their brokers."""

    def to_broker(self, now: float, most: int = TURN) -> None:
        """Carry `most` frames of the client, a turn's worth at most. Raises `StompError` for one that cannot be."""

    def to_client(self, link: Link, now: float) -> None:
        """Carry frames that the broker's leg of a link has, a turn's worth. Raises as `to_broker`."""

    def connected(self, link: Link, now: float) -> None:
        """A link has a broker: send it what it has to know. Raises `StompError` for what cannot be sent to it."""

    def take_refused(self) -> Sequence[StompError]:
        """Return new errors about frames that brokers closed connections for. The first must end the client's session;
        what else it sent is still delivered.
        """

    def over(self, link: Link) -> bool:
        """Whether the session ends when a link's broker closes now, because of what the two sent last."""

    def lost(self, link: Link, now: float) -> None:
        """A link lost its broker. Raises `StompError` where the session cannot survive that."""

    def given_up(self, link: Link, now: float) -> None:
        """A link found no broker any more. Raises `StompError` where the session cannot survive that."""

    def denied(self, link: Link, error: bytes, now: float) -> bytes | None:
        """A broker refused CONNECT. Returns the ERROR frame for the client if its session has to end."""

    def unanswered(self) -> list[Link]:
        """Return the links whose brokers owe an answer, where another broker may be asked in their place."""

    def write_off(self, link: Link) -> int:
        """Return how many SENDs may be lost at this link's broker, and forget them."""

    def send_disconnect(self, now: float) -> None:
        """Send on the DISCONNECT that is WAITING, whatever it waits for."""

    def finish(self, now: float) -> None:
        """The client sends no more: go on as after a DISCONNECT with the relay's receipt. Raises as `to_broker`."""

    def blocked(self, leg: Leg) -> None:
        """A broker's connection cannot take more for now."""

    def unblocked(self, leg: Leg, now: float) -> None:
        """A broker's connection can take more again. Raises as `to_broker`."""


def broker_lost(upstream: Upstream, receipt: bytes | None) -> StompError:
    """Return the error that a client is sent whose session ends with its broker."""
    detail = f"upstream {upstream.name}; connect again; {LOST}"
    return StompError("connection to the broker was lost", detail, receipt=receipt)


def not_to_be_had(link: Link, receipt: bytes | None) -> StompError:
    """Return the error for want of a link's broker, without the reason, which may have addresses in it."""
    name = link.upstream.name
    if link.unwelcome:
        return StompError(link.reason, f"upstream {name}", receipt=receipt)
    advice = "try again later; the relay's log says why"
    if link.fresh or not link.upstream.movable:
        return StompError(
            "broker not available", f"upstream {name} did not connect; {advice}", receipt=receipt
        )
    return StompError("no broker available", f"upstream {name}: {link.reason}; {advice}", receipt=receipt)
