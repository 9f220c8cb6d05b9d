"""The states of a link with their data, and what it needs to look for a broker."""

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
    """What one attempt leaves for the next: the client's CONNECT, the schedule and the suspicion."""

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
    """A broker that has to connect or answer CONNECT by `deadline`. `sight`: how it was. `told`: CONNECT was sent."""

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
    """The broker to move to: asked at `at`, it has to answer by `deadline`; `accepted` is its answer. `told` and
    `sight` are as in `Asking`; `sight` is None until it is asked.
    """

    handshake: Handshake
    at: float
    deadline: float = 0.0
    sight: Sight | None = None
    told: bool = False
    accepted: Accepted | None = None


@dataclass(slots=True)
class Move:
    """The session leaves its broker once `next` accepts it: at a quiet moment, or at `leave_by`; with `may_stay` it
    stays then.

    `target`: the only broker to go to. `left`: brokers not asked yet. `refusal`: why the last one refused. `again`: no
    move for balance before this time.
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
    """The session stays for this `reason`. It need not move for balance before the time `again`."""

    reason: str
    again: float


@dataclass(slots=True)
class Connected:
    """Frames flow between the client and this broker.

    `move`: the move under way, or why there was none. `done`: the broker is to be left at once. `silent`: it did not
    answer. `place`: the session's number there. `sent_frames` and `received_frames` count the client's and the broker's
    frames; `tally` has them, and those of queues.
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
        """Uncount MESSAGEs that go back, and SENDs that go to the next broker. Returns the uncounted SENDs."""
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
    """No broker was found, for a `reason` that a client may read, or the session is over. `leg`: that of the last
    attempt, if it is still open. `unwelcome`: the client's CONNECT is the reason.
    """

    reason: str = ""
    leg: Leg | None = None
    unwelcome: bool = False
