"""One STOMP connection: its decoder, dialect, state and heart-beat, and which frames may come in which state.

A leg is one STOMP connection seen from the relay (or from the embedded broker): toward a client its side is
DOWNSTREAM, toward a broker UPSTREAM. Each leg runs through these states, never back:

    OPENING     downstream: the client has not sent CONNECT; upstream: no answer to our CONNECT yet
    CONNECTING  downstream only: CONNECT was understood, the broker has not answered; nothing is read
    CONNECTED   frames flow
    LEAVING     DISCONNECT passed (downstream: later bytes are ignored; upstream: the broker sends what is left)
    CLOSED      nothing more is read or written

Only this file decides which command may come in which state.
"""

from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from math import inf
from typing import Final

from stomprelay.wire.decoder import Decoder
from stomprelay.wire.dialect import V1_0, Dialect
from stomprelay.wire.errors import ProtocolError
from stomprelay.wire.frame import Limits
from stomprelay.wire.names import BROKER_COMMANDS, CLIENT_COMMANDS, CONNECTED, ERROR, OPENING

BEAT: Final = b"\n"
"""One LF. The relay sends no CR, because some brokers take a CR between frames for the start of a command."""

_SHARED: Final = 64
"""The number of different terms that are cached for all sessions. Nearly all clients ask for the same few."""


@dataclass(frozen=True)
class Terms:
    """One side's terms (STOMP 1.1 and 1.2, "Heart-beating"), in milliseconds; 0 means never. `idle`: the relay beats
    after this share of the interval. `tolerance`: a peer that is silent for this multiple of the interval counts as
    dead.
    """

    can_send: int = 0
    wants: int = 0
    idle: float = 0.5
    tolerance: float = 2.0

    @classmethod
    @lru_cache(_SHARED)
    def parse(cls, value: bytes) -> "Terms":
        """Return the terms in a `heart-beat` header. Raises `ProtocolError` if the header is not two numbers."""
        parts = [part.strip(b" ") for part in value.split(b",")]
        if len(parts) != 2 or not all(part.isdigit() and len(part) < 16 for part in parts):
            raise ProtocolError(
                "malformed heart-beat header", "two numbers of ms are expected, but it says", quoted=value
            )
        return cls(int(parts[0]), int(parts[1]))

    def __bytes__(self) -> bytes:
        """Return the value of a `heart-beat` header. The value has no blank, because brokers refuse blanks."""
        return b"%d,%d" % (self.can_send, self.wants)


NO_BEATS: Final = Terms()
"""The terms of a side that sends no beats and wants none."""


@lru_cache(_SHARED)
def _shared(send: float, expect: float) -> tuple[float, float]:
    return send, expect


@dataclass(slots=True, eq=False, repr=False)
class HeartBeat:
    """The beats of one leg. Times are in seconds. Set `sent_at` when bytes are written, and `received_at` when bytes
    come. Set `reading` to False while the peer is not read from; then the peer is not `dead` until `resumed` is
    called.
    """

    received_at: float = 0.0
    sent_at: float = 0.0
    reading: bool = True
    _intervals: tuple[float, float] = inf, inf

    def agree(self, ours: Terms, theirs: Terms, now: float) -> None:
        """Set both intervals from the terms of both sides. Then call `due` and `dead` at each `deadline`."""
        send = max(ours.can_send, theirs.wants) if ours.can_send and theirs.wants else 0
        expect = max(ours.wants, theirs.can_send) if ours.wants and theirs.can_send else 0
        self._intervals = _shared(
            send * ours.idle / 1000 if send else inf, expect * ours.tolerance / 1000 if expect else inf
        )
        self.received_at = self.sent_at = now

    def keep_alive(self, every: float, now: float) -> None:
        """After `every` seconds without a write, a beat becomes `due`, even if no heart-beats were agreed."""
        pause, limit = self._intervals
        self._intervals = min(pause, every), limit
        self.sent_at = now

    def resumed(self, now: float) -> None:
        """Record that the relay reads from the peer again. The peer's silence counts from `now`."""
        self.reading = True
        self.received_at = now

    def due(self, now: float) -> bool:
        """Whether a beat must be sent to the peer now. If so, send `BEAT` and set `sent_at`."""
        return now >= self.sent_at + self._intervals[0]

    def dead(self, now: float) -> bool:
        """Whether the peer sent nothing for longer than was agreed. While the peer is not read from, this is False."""
        return self.reading and now >= self.received_at + self._intervals[1]

    @property
    def deadline(self) -> float:
        """When to call `due` and `dead`, in seconds of the same clock; infinity if no heart-beats were agreed."""
        pause, limit = self._intervals
        beat, end = self.sent_at + pause, self.received_at + limit
        return end if self.reading and end < beat else beat


class Side(Enum):
    """The peer of a connection: a client (downstream) or a broker (upstream)."""

    DOWNSTREAM = "client"
    UPSTREAM = "broker"

    __hash__ = object.__hash__  # Enum's own is written in Python


class LegState(Enum):
    """The state of a leg. The docstring of this module explains the states."""

    OPENING = "opening"
    CONNECTING = "connecting"
    CONNECTED = "connected"
    LEAVING = "leaving"
    CLOSED = "closed"

    __hash__ = object.__hash__


_NOTHING: Final[frozenset[bytes]] = frozenset()

EXPECTED: Final = {
    (Side.DOWNSTREAM, LegState.OPENING): OPENING,
    (Side.DOWNSTREAM, LegState.CONNECTING): _NOTHING,
    (Side.DOWNSTREAM, LegState.CONNECTED): CLIENT_COMMANDS,
    (Side.DOWNSTREAM, LegState.LEAVING): CLIENT_COMMANDS,
    (Side.DOWNSTREAM, LegState.CLOSED): _NOTHING,
    (Side.UPSTREAM, LegState.OPENING): frozenset({CONNECTED, ERROR}),
    (Side.UPSTREAM, LegState.CONNECTING): _NOTHING,
    (Side.UPSTREAM, LegState.CONNECTED): BROKER_COMMANDS,
    (Side.UPSTREAM, LegState.LEAVING): BROKER_COMMANDS,
    (Side.UPSTREAM, LegState.CLOSED): _NOTHING,
}
"""The commands that may come on a leg, by side and state. Any other command ends the connection with an ERROR."""

NEXT: Final = {
    LegState.OPENING: frozenset({LegState.CONNECTING, LegState.CONNECTED, LegState.CLOSED}),
    LegState.CONNECTING: frozenset({LegState.CONNECTED, LegState.CLOSED}),
    LegState.CONNECTED: frozenset({LegState.LEAVING, LegState.CLOSED}),
    LegState.LEAVING: frozenset({LegState.CLOSED}),
    LegState.CLOSED: frozenset[LegState](),
}
"""For each state: the states that may follow."""


class Leg:
    """A connection to a client (`Side.DOWNSTREAM`) or to a broker (`Side.UPSTREAM`). It has no socket. Its dialect is
    that of 1.0 before CONNECT and CONNECTED.

    `closed`: nothing may be written. `gone`: the connection has ended, and the bytes that came are still to be
    delivered.
    """

    __slots__ = ("closed", "decoder", "dialect", "gone", "heartbeat", "side", "state")

    def __init__(self, side: Side, limits: Limits, dialect: Dialect = V1_0) -> None:
        self.side = side
        self.state = LegState.OPENING
        self.dialect = dialect
        self.heartbeat = HeartBeat()
        self.gone = self.closed = False
        self.decoder = Decoder(dialect, EXPECTED[side, self.state], limits)

    def enter(self, state: LegState, dialect: Dialect | None = None) -> None:
        """Change to `state`. If a `dialect` is given, later frames are read in that dialect."""
        assert state in NEXT[self.state], f"{self.state} -> {state}"
        self.state = state
        self.closed = state is LegState.CLOSED
        self.dialect = dialect or self.dialect
        self.decoder.expect(self.dialect, EXPECTED[self.side, state])
        if state is LegState.CLOSED:
            self.decoder.drop()

    @property
    def beating(self) -> bool:
        """Whether heart-beats count on this leg: while CONNECTED, and on a client's leg also while LEAVING."""
        leaving = self.state is LegState.LEAVING and self.side is Side.DOWNSTREAM
        return leaving or self.state is LegState.CONNECTED
