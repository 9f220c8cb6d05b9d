"""What a relay, or the embedded broker, asks of the service, in order. Imperative; `leg` says on which connection."""

from dataclasses import dataclass, field
from enum import Enum

from stomprelay.session.leg import Leg


class How(Enum):
    """How a connection ends."""

    FLUSH = "flush"
    """Write what is queued, then close."""
    LINGER = "linger"
    """Write what is queued, close our direction, read and discard until the peer closes or some time passed."""
    ABORT = "abort"
    """Close at once; the peer is taken for dead or mad."""


class Event(Enum):
    """What a `Note` tells."""

    CONNECTED = "connected"
    DISCONNECTED = "disconnected"
    ERROR = "error"
    FOREIGN = "foreign"
    IGNORED = "ignored"
    LOST = "lost"
    MOVED = "moved"
    RECOVERED = "recovered"
    REFUSED = "refused"
    RETRIED = "retried"
    VANISHED = "vanished"


@dataclass(slots=True)
class Send:
    """Write `data` to the leg: whole frames, or beats."""

    leg: Leg
    data: bytes = field(repr=False)  # a CONNECT holds a passcode


@dataclass(slots=True)
class Close:
    """End the leg's connection. Nothing it still receives concerns the relay; do not report it `lost`."""

    leg: Leg
    how: How


@dataclass(slots=True)
class Pause:
    """Stop reading from the leg until `Resume`."""

    leg: Leg


@dataclass(slots=True)
class Resume:
    """Read from the leg again, unless back-pressure forbids it."""

    leg: Leg


@dataclass(slots=True)
class Wake:
    """Call `woke` at this time, in place of the time asked for before; infinity means never."""

    at: float


@dataclass(slots=True)
class Note:
    """Something worth a log line: never a secret, never a body."""

    event: Event
    text: str


Effect = Send | Close | Pause | Resume | Wake | Note
"""Whatever a conversation may ask for; a relay also asks for connections to brokers."""
