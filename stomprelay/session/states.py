"""What may come when.

A leg is one STOMP connection seen from the relay (or from the embedded broker): toward a client its side is
DOWNSTREAM, toward a broker UPSTREAM. Each leg runs through these states, never back:

    OPENING     downstream: the client has not said CONNECT; upstream: no answer to our CONNECT yet
    CONNECTING  downstream only: CONNECT was understood, the broker has not answered; nothing is read
    CONNECTED   frames flow
    LEAVING     DISCONNECT passed (downstream: whatever follows is ignored; upstream: the broker finishes)
    CLOSED      nothing more is read or written

Everything that decides which command may come in which state stands in this file.
"""

from enum import Enum
from typing import Final

from stomprelay.wire.names import BROKER_COMMANDS, CLIENT_COMMANDS, CONNECTED, ERROR, OPENING


class Side(Enum):
    """Whose connection it is: a client's (downstream) or a broker's (upstream)."""

    DOWNSTREAM = "client"
    UPSTREAM = "broker"


class State(Enum):
    """Where a leg is in its life; see the module."""

    OPENING = "opening"
    CONNECTING = "connecting"
    CONNECTED = "connected"
    LEAVING = "leaving"
    CLOSED = "closed"


_NOTHING: Final[frozenset[bytes]] = frozenset()

EXPECTED: Final = {
    (Side.DOWNSTREAM, State.OPENING): OPENING,
    (Side.DOWNSTREAM, State.CONNECTING): _NOTHING,
    (Side.DOWNSTREAM, State.CONNECTED): CLIENT_COMMANDS,
    (Side.DOWNSTREAM, State.LEAVING): CLIENT_COMMANDS,
    (Side.DOWNSTREAM, State.CLOSED): _NOTHING,
    (Side.UPSTREAM, State.OPENING): frozenset({CONNECTED, ERROR}),
    (Side.UPSTREAM, State.CONNECTING): _NOTHING,
    (Side.UPSTREAM, State.CONNECTED): BROKER_COMMANDS,
    (Side.UPSTREAM, State.LEAVING): BROKER_COMMANDS,
    (Side.UPSTREAM, State.CLOSED): _NOTHING,
}
"""The commands that may come on a leg, by side and state; any other costs the connection."""

NEXT: Final = {
    State.OPENING: frozenset({State.CONNECTING, State.CONNECTED, State.CLOSED}),
    State.CONNECTING: frozenset({State.CONNECTED, State.CLOSED}),
    State.CONNECTED: frozenset({State.LEAVING, State.CLOSED}),
    State.LEAVING: frozenset({State.CLOSED}),
    State.CLOSED: frozenset[State](),
}
"""The states that may follow a state."""
