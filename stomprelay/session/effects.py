"""What a relay or the embedded broker asks of the service, in order. Names are imperative. `leg` is the connection."""

from collections.abc import Mapping
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
    """Close at once and drop what is queued: the peer is dead, or does not follow the protocol."""


class Event(Enum):
    """The events that a `Note` can report; the values stand in the log and in the journal."""

    ANSWERED = "answered"
    CONNECTED = "connected"
    DISCONNECTED = "disconnected"
    ERROR = "error"
    FOREIGN = "foreign"
    IGNORED = "ignored"
    LIMITED = "limited"
    LOST = "lost"
    MOVED = "moved"
    RECOVERED = "recovered"
    REFUSED = "refused"
    RETRIED = "retried"
    VANISHED = "vanished"

    __hash__ = object.__hash__  # Enum's own is written in Python


@dataclass(slots=True)
class Send:
    """Write `data` to the leg: whole frames, or heart-beats."""

    leg: Leg
    data: bytes = field(repr=False)  # a CONNECT holds a passcode


@dataclass(slots=True)
class Close:
    """End the leg's connection. Ignore bytes that the leg still receives, and do not report the connection's end."""

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
class GiveWay:
    """The leg has more work than one turn allows. Stop reading from the leg, serve other connections first, then
    report that the leg gave way.
    """

    leg: Leg


@dataclass(slots=True)
class Wake:
    """Wake the conversation at this time (`woke`), instead of the time of the last `Wake`. Infinity: never."""

    at: float


Fact = str | int
"""A value of a note's facts."""


@dataclass(slots=True)
class Note:
    """A line for the log and an event for the journal, with `facts` by name. `quiet`: only for the journal. `detail`:
    only in a detailed log. A note contains no secret and no body.
    """

    event: Event
    text: str
    facts: Mapping[str, Fact] = field(default_factory=dict)
    quiet: bool = False
    detail: bool = False


Effect = Send | Close | Pause | Resume | GiveWay | Wake | Note
"""The effects that every conversation may use. A relay has further ones: `relay.effects`."""
