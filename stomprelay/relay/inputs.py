"""The inputs of a session, as values for `Relay.handle`. Only bytes come in another way, by `Relay.received`."""

from dataclasses import dataclass

from stomprelay.relay.effects import Reason
from stomprelay.relay.model.group import Broker
from stomprelay.relay.model.listener import Listener
from stomprelay.relay.model.rules import AccessRules, Identity, Refusal
from stomprelay.relay.sample import Looks
from stomprelay.session.leg import Leg
from stomprelay.wire.errors import StompError


@dataclass(slots=True)
class OnLeg:
    """Something happened to the connection of a leg. The input has no effect if the leg is closed."""

    leg: Leg


@dataclass(slots=True)
class Opened:
    """A client connected. Pass the bytes that the client sends to `Relay.received`."""


@dataclass(slots=True)
class BrokerConnected:
    """The connection of an `Open` exists. `address`: the client's IP address, for brokers; None if it is unknown."""

    leg: Leg
    address: str | None = None


@dataclass(slots=True)
class NotConnected(OnLeg):
    """The connection of an `Open` failed. `tried` is False if this process could not even try to connect."""

    reason: str
    tried: bool = True


@dataclass(slots=True)
class Lost(OnLeg):
    """The connection of a leg ended without our `Close`."""

    reason: str


@dataclass(slots=True)
class HalfClosed:
    """The client sends nothing more, but may still read. `Lost` follows when its connection ends."""


@dataclass(slots=True)
class GaveWay(OnLeg):
    """Other sessions had their turn after a `GiveWay`: continue with the leg's waiting work."""


@dataclass(slots=True)
class Paused(OnLeg):
    """The relay does not read from the leg any more, because of back-pressure or a `Pause`."""


@dataclass(slots=True)
class Resumed(OnLeg):
    """The relay reads from the leg again."""


@dataclass(slots=True)
class Blocked(OnLeg):
    """A broker's connection cannot be written to for now. Report this only if the session is not `coupled`."""


@dataclass(slots=True)
class Unblocked(OnLeg):
    """A broker's connection can be written to again."""


@dataclass(slots=True)
class Woke:
    """The time of the last `Wake` has come."""


@dataclass(slots=True)
class Identified:
    """The answer to `Identify`: the client is identified, and its session may start or continue."""

    identity: Identity


@dataclass(slots=True)
class Unwanted:
    """The answer to `Identify`: the client is identified, but may not connect now. The client is sent this error."""

    error: StompError


@dataclass(slots=True)
class Unknown:
    """The answer to `Identify`: the client is not identified, is not allowed, or its new token is not valid."""

    refusal: Refusal


@dataclass(slots=True)
class StopBegan:
    """The service begins to stop: sessions end when all is delivered. Report `Stopped` if this takes too long."""


@dataclass(slots=True)
class Stopped:
    """The service stops: the session ends at once. The relay counts the SENDs that may be lost."""


@dataclass(slots=True)
class Killed:
    """End the session for this reason. Before the end, the relay delivers what it can, for one `disconnect_timeout` at
    most. A second `Killed` ends the session now.
    """

    why: Reason


@dataclass(slots=True)
class Leave:
    """Leave this broker for `target`, or for any other broker, at a quiet moment or after `within` seconds. With
    `may_stay` the session stays if there is no quiet moment in that time.
    """

    broker: Broker
    within: float
    target: Broker | None = None
    may_stay: bool = False


@dataclass(slots=True)
class Reconsidered:
    """A broker is up again: links that wait for their next attempt try at once."""


@dataclass(slots=True)
class Phased:
    """The phase of a move has changed, or the session has not followed it yet: follow it as far as possible now. If the
    session is older than the moves, it needs `listener`, which has them.
    """

    listener: Listener


@dataclass(slots=True)
class Ruled:
    """These are the listener's rules from now on. The session ends if they forbid one of its subscriptions."""

    rules: AccessRules | None


@dataclass(slots=True)
class Limited:
    """The listener's limits have changed. `address`: the address under which the limiter counts the client now."""

    address: str | None


@dataclass(slots=True)
class Watched:
    """Watch the session for a sample of its RECEIPTs and ACKs, unless the client has sent part of a frame. Report
    `Looked` once a second until `Relay.watched` is False.
    """

    looks: Looks


@dataclass(slots=True)
class Looked:
    """A second has passed while the session was watched. If the sample is over, the relay stops watching."""


Input = (
    OnLeg
    | Opened
    | BrokerConnected
    | HalfClosed
    | Woke
    | Identified
    | Unwanted
    | Unknown
    | StopBegan
    | Stopped
    | Killed
    | Leave
    | Reconsidered
    | Phased
    | Ruled
    | Limited
    | Watched
    | Looked
)
