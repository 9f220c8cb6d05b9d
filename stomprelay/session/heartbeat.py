"""One leg's heart-beats: what was agreed, and when the next is due.

Beats belong to a leg and are never carried to the other one. We beat when the leg was silent for a share of the
agreed interval, and give the peer up after a multiple of it; a peer that we do not read from is not dead.
"""

from dataclasses import dataclass
from math import inf
from typing import Final

from stomprelay.wire.errors import ProtocolError

BEAT: Final = b"\n"
"""One LF: brokers exist that take a CR between frames for the start of a command."""


@dataclass(frozen=True)
class Terms:
    """What one side brings to the negotiation (STOMP 1.1 and 1.2, "Heart-beating"), in milliseconds; 0 is never.

    `idle` is the share of the agreed interval after which we beat, `tolerance` the multiple of it after which a
    silent peer is dead.
    """

    can_send: int = 0
    wants: int = 0
    idle: float = 0.5
    tolerance: float = 2.0

    @classmethod
    def parse(cls, value: bytes) -> "Terms":
        """The terms in a `heart-beat` header. Raises `ProtocolError` when it is not two numbers."""
        parts = [part.strip(b" ") for part in value.split(b",")]
        if len(parts) != 2 or not all(part.isdigit() and len(part) < 16 for part in parts):
            raise ProtocolError(
                "malformed heart-beat header", f"it says {value[:32]!r}, not two numbers of ms"
            )
        return cls(int(parts[0]), int(parts[1]))

    def __bytes__(self) -> bytes:
        """As a header value: no blank after the comma, brokers refuse it."""
        return b"%d,%d" % (self.can_send, self.wants)


class HeartBeat:
    """The beats of one leg. All times are `now` of the caller's clock, in seconds."""

    __slots__ = ("_limit", "_pause", "reading", "received_at", "sent_at")

    def __init__(self) -> None:
        self._pause = inf
        self._limit = inf
        self.received_at = 0.0
        self.sent_at = 0.0
        self.reading = True

    def agree(self, ours: Terms, theirs: Terms, now: float) -> None:
        """Settle both intervals. From now on ask `deadline` and call `due` and `dead` when it has come."""
        send = max(ours.can_send, theirs.wants) if ours.can_send and theirs.wants else 0
        expect = max(ours.wants, theirs.can_send) if ours.wants and theirs.can_send else 0
        self._pause = send * ours.idle / 1000 if send else inf
        self._limit = expect * ours.tolerance / 1000 if expect else inf
        self.received_at = self.sent_at = now

    def sent(self, now: float) -> None:
        """Something was written to the peer: the next beat is due a pause later."""
        self.sent_at = now

    def received(self, now: float) -> None:
        """Bytes came from the peer, whatever they are: it is not dead."""
        self.received_at = now

    def keep_alive(self, every: float, now: float) -> None:
        """Beat after `every` seconds of our silence even though nothing was agreed."""
        self._pause = min(self._pause, every)
        self.sent_at = now

    def paused(self) -> None:
        """We stopped reading from the peer: its silence means nothing."""
        self.reading = False

    def resumed(self, now: float) -> None:
        """We read again: the peer's silence counts from now."""
        self.reading = True
        self.received_at = now

    def due(self, now: float) -> bool:
        """Whether a beat must go out."""
        return now >= self.sent_at + self._pause

    def dead(self, now: float) -> bool:
        """Whether the peer was silent for too long while we were reading."""
        return self.reading and now >= self.received_at + self._limit

    @property
    def deadline(self) -> float:
        """When to look again; infinity when nothing was agreed."""
        beat = self.sent_at + self._pause
        return min(beat, self.received_at + self._limit) if self.reading else beat
