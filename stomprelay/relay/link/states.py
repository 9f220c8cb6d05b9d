"""What a link is about: it waits, asks a broker, has one, leaves one, or is over; each with its data. And what it needs
to look for one.
"""

from dataclasses import dataclass, field

from stomprelay.relay.bridge.negotiation import Bridges
from stomprelay.relay.link.handshake import Accepted, Handshake
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
class Next:
    """Where a session that is to move goes: a broker is asked for CONNECTED before the one that it has is left.

    `left` are the brokers that were not asked yet. The last of the others is asked at the time `at`; then there is a
    `handshake`, which has to have an answer by `deadline`: `accepted`. `told`, `sight`: as `Asking` has them.
    """

    left: list[Broker]
    at: float = 0.0
    handshake: Handshake | None = None
    deadline: float = 0.0
    sight: Sight | None = None
    told: bool = False
    accepted: Accepted | None = None


@dataclass(slots=True)
class Connected:
    """Frames flow between the client and this broker.

    `product`: what it is, as far as that is known. `moving`: the session is to go to another broker at a quiet moment,
    to `target` if there is one, and at the time `leave_by` without such a moment; `may_stay`: there is no need, so
    without one it stays. `next`: where it goes; None where no other broker may be asked. `stays`: why the last broker
    that was asked did not take it; not before `again` is it to be asked to move for the sake of balance. `done`: the
    broker is to be left at once, for it confirmed that the session leaves, or went wrong. `silent`: it is left for not
    answering. `place`: the session's number there. `tally` counts frames of the client that were for it, and those that
    came from it, and `queue` the SENDs to queues and the MESSAGEs from queues among them.
    """

    leg: Leg
    broker: Broker
    bridges: Bridges
    product: Profile
    moving: bool = False
    target: Broker | None = None
    may_stay: bool = False
    leave_by: float = 0.0
    next: Next | None = None
    stays: str = ""
    again: float = 0.0
    done: bool = False
    silent: bool = False
    place: int = 0
    _sent: int = 0
    _received: int = 0
    queue: list[int] = field(default_factory=lambda: [0, 0])

    def count(self, frames: int, *, sent: bool) -> None:
        """Count frames of the client that were `sent` to it, or else came from it."""
        if sent:
            self._sent += frames
        else:
            self._received += frames

    def queue_sent(self, count: int) -> None:
        """Count so many SENDs to queues, fewer where that is negative."""
        self.queue[0] += count

    def queue_gave(self, count: int) -> None:
        """Count so many MESSAGEs from queues."""
        self.queue[1] += count

    def took_back(self, messages: int, sends: int) -> int:
        """So many MESSAGEs go back to the broker, unacknowledged, and so many SENDs go to the next one: they do not
        count any more. Returns how many of the SENDs count there.
        """
        again = min(sends, self.queue[0])
        self.queue[0] -= again
        self.queue[1] -= min(messages, self.queue[1])
        return again

    @property
    def carried(self) -> bool:
        """Whether anything was counted."""
        return self._sent > 0 or self._received > 0 or any(self.queue)

    @property
    def tally(self) -> BrokerTally:
        """What was counted since it was there."""
        return BrokerTally(
            sent_frames=self._sent,
            received_frames=self._received,
            queue_sends=self.queue[0],
            queue_messages=self.queue[1],
        )


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
