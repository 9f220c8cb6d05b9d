"""What a link is about: it waits, asks a broker, has one, leaves one, or is over; each with its data. And what it needs
to look for one.
"""

from dataclasses import dataclass, field

from stomprelay.relay.bridge.negotiation import Bridges
from stomprelay.relay.link.handshake import Handshake
from stomprelay.relay.link.schedule import Schedule
from stomprelay.relay.link.suspicion import Suspicion
from stomprelay.relay.model.group import Broker, BrokerTally
from stomprelay.relay.model.health import Sight
from stomprelay.relay.model.profile import Profile
from stomprelay.session.handshake import Offer
from stomprelay.session.leg import Leg


@dataclass(slots=True)
class Attempts:
    """What leads from one attempt to the next: the CONNECT of the client, whose turn is next, and what became of those
    before.
    """

    offer: Offer
    schedule: Schedule
    suspicion: Suspicion = field(default_factory=Suspicion)


@dataclass(slots=True)
class Waiting:
    """It waits for the time of its next attempt, at `broker`; without one, until an operator resumes a broker."""

    broker: Broker | None = None


@dataclass(slots=True)
class Asking:
    """A broker was asked for its connection, or for CONNECTED, which has to come by `deadline`. `sight` is how it was
    then; `told`: it was sent CONNECT.
    """

    handshake: Handshake
    deadline: float
    sight: Sight
    told: bool = False


@dataclass(slots=True)
class Connected:
    """Frames flow between the client and this broker.

    `product`: what it is, as far as that is known. `moving`: the session is to go to another broker at a quiet moment,
    to `target` if it can; `may_stay`: there is no need, so without a quiet moment in time it stays. `done`: the broker
    is to be left at once, for it confirmed that the session leaves, or went wrong. `silent`: it is left for not
    answering. `place`: the session's number there. `tally` counts frames of the client that were for it, and those that
    came from it.
    """

    leg: Leg
    broker: Broker
    bridges: Bridges
    product: Profile
    moving: bool = False
    target: Broker | None = None
    may_stay: bool = False
    done: bool = False
    silent: bool = False
    place: int = 0
    _sent: int = 0
    _received: int = 0

    def count(self, frames: int, *, sent: bool) -> None:
        """Count frames of the client that were `sent` to it, or else came from it."""
        if sent:
            self._sent += frames
        else:
            self._received += frames

    @property
    def carried(self) -> bool:
        """Whether anything was counted."""
        return self._sent > 0 or self._received > 0

    @property
    def tally(self) -> BrokerTally:
        """What was counted since it was there."""
        return BrokerTally(sent_frames=self._sent, received_frames=self._received)


@dataclass(slots=True, kw_only=True)
class Leaving(Connected):
    """The broker was sent DISCONNECT with `receipt` because the session moves: what it still sends is the client's."""

    receipt: bytes


@dataclass(slots=True)
class Ended:
    """No broker could be had, for a `reason` in words that a client may read; or the session is over. `leg` is that of
    the last attempt, where nothing follows that would need it closed. `unwelcome`: what the client said in CONNECT is
    the reason.
    """

    reason: str = ""
    leg: Leg | None = None
    unwelcome: bool = False
