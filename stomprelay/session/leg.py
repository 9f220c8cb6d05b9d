"""One STOMP connection: what may come on it when, and its decoder, dialect, state and heart-beat.

A leg is one STOMP connection seen from the relay (or from the embedded broker): toward a client its side is
DOWNSTREAM, toward a broker UPSTREAM. Each leg runs through these states, never back:

    OPENING     downstream: the client has not sent CONNECT; upstream: no answer to our CONNECT yet
    CONNECTING  downstream only: CONNECT was understood, the broker has not answered; nothing is read
    CONNECTED   frames flow
    LEAVING     DISCONNECT passed (downstream: whatever follows is ignored; upstream: the broker finishes)
    CLOSED      nothing more is read or written

Everything that decides which command may come in which state stands in this file.
"""

from enum import Enum
from typing import Final

from stomprelay.session.heartbeat import HeartBeat
from stomprelay.wire.decoder import Decoder
from stomprelay.wire.dialect import V1_0, Dialect
from stomprelay.wire.frame import Limits
from stomprelay.wire.names import BROKER_COMMANDS, CLIENT_COMMANDS, CONNECTED, ERROR, OPENING


class Side(Enum):
    """The peer of a connection: a client (downstream) or a broker (upstream)."""

    DOWNSTREAM = "client"
    UPSTREAM = "broker"

    __hash__ = object.__hash__  # Enum's own is written in Python


class LegState(Enum):
    """Where a leg is in its life; see the module."""

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
"""The commands that may come on a leg, by side and state; for any other the connection is ended with an ERROR."""

NEXT: Final = {
    LegState.OPENING: frozenset({LegState.CONNECTING, LegState.CONNECTED, LegState.CLOSED}),
    LegState.CONNECTING: frozenset({LegState.CONNECTED, LegState.CLOSED}),
    LegState.CONNECTED: frozenset({LegState.LEAVING, LegState.CLOSED}),
    LegState.LEAVING: frozenset({LegState.CLOSED}),
    LegState.CLOSED: frozenset[LegState](),
}
"""The states that may follow a state."""


class Leg:
    """A connection to a client (`Side.DOWNSTREAM`) or to a broker (`Side.UPSTREAM`). It has no socket. Before CONNECT
    and CONNECTED its dialect is that of 1.0.

    `closed`: nothing may be written. `gone`: the connection has ended, but what came is still to be delivered.
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
        """Change to `state`; where a `dialect` is given, frames are read in it from the next one on."""
        assert state in NEXT[self.state], f"{self.state} -> {state}"
        self.state = state
        self.closed = state is LegState.CLOSED
        self.dialect = dialect or self.dialect
        self.decoder.expect(self.dialect, EXPECTED[self.side, state])
        if state is LegState.CLOSED:
            self.decoder.drop()

    @property
    def beating(self) -> bool:
        """Whether its heart-beats count. A client that sent DISCONNECT still gets beats until it is answered."""
        leaving = self.state is LegState.LEAVING and self.side is Side.DOWNSTREAM
        return leaving or self.state is LegState.CONNECTED
