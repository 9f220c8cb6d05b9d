"""What a link is about: it waits, asks a broker, has one, leaves one, or is over; each with its data. And what it needs
to look for one.
"""

from dataclasses import dataclass, field
from typing import ClassVar

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

    leg: ClassVar[None] = None
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

    @property
    def leg(self) -> Leg:
        """The leg to the broker that is asked."""
        return self.handshake.leg


@dataclass(slots=True)
class Next:
    """The broker that a session is to move to: it is asked at the time `at`, by `handshake`, and has to answer by
    `deadline`: `accepted`. `told`, `sight`: as `Asking` has them; `sight` is None until it is asked.
    """

    handshake: Handshake
    at: float
    deadline: float = 0.0
    sight: Sight | None = None
    told: bool = False
    accepted: Accepted | None = None


@dataclass(slots=True)
class Move:
    """The session is to leave its broker, once `next` has accepted it: at a quiet moment, or at the time `leave_by`
    without such a moment; `may_stay`: then it stays.

    It goes to `target` if there is one. `left` are the brokers that were not asked yet; where none may be asked, there
    is no `next`. `refusal`: why the last broker that was asked did not take the session; it need not be asked to move
    for the sake of balance until the time `again`.
    """

    target: Broker | None
    may_stay: bool
    leave_by: float
    left: list[Broker] = field(default_factory=list)
    next: Next | None = None
    refusal: str = ""
    again: float = 0.0


@dataclass(slots=True)
class Staying:
    """The session was to leave its broker and has it still: no other one took it, for this reason. It need not be asked
    for the sake of balance until the time `again`.
    """

    reason: str
    again: float


@dataclass(slots=True)
class Connected:
    """Frames flow between the client and this broker.

    `product`: what it is, as far as that is known. `move`: that the session is to go to another broker, or why it did
    not. `done`: the broker is to be left at once, for it confirmed that the session leaves, or went wrong. `silent`: it
    is left for not answering. `place`: the session's number there. `sent_frames` counts
    the client's that were for it, `received_frames` those that came from it; `tally` has SENDs to queues and MESSAGEs
    from queues beside them.
    """

    leg: Leg
    broker: Broker
    bridges: Bridges
    product: Profile
    move: Move | Staying | None = None
    done: bool = False
    silent: bool = False
    place: int = 0
    sent_frames: int = 0
    received_frames: int = 0
    _queue_sends: int = 0
    _queue_messages: int = 0

    def queue_sent(self, count: int) -> None:
        """Count so many SENDs to queues, fewer where that is negative."""
        self._queue_sends += count

    def queue_gave(self, count: int) -> None:
        """Count so many MESSAGEs from queues."""
        self._queue_messages += count

    def took_back(self, messages: int, sends: int) -> int:
        """So many MESSAGEs go back to the broker, unacknowledged, and so many SENDs go to the next one: they do not
        count any more. Returns how many of the SENDs count there.
        """
        again = min(sends, self._queue_sends)
        self._queue_sends -= again
        self._queue_messages -= min(messages, self._queue_messages)
        return again

    @property
    def carried(self) -> bool:
        """Whether anything was counted."""
        return any((self.sent_frames, self.received_frames, self._queue_sends, self._queue_messages))

    @property
    def tally(self) -> BrokerTally:
        """What was counted since it was there."""
        return BrokerTally(
            sent_frames=self.sent_frames,
            received_frames=self.received_frames,
            queue_sends=self._queue_sends,
            queue_messages=self._queue_messages,
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
