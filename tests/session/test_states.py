"""What may come when: states x side x command, cell by cell."""

import pytest

from stomprelay.session.leg import Leg, LegState, Side
from stomprelay.wire.errors import ProtocolError
from stomprelay.wire.frame import Limits
from stomprelay.wire.names import BROKER_COMMANDS, CLIENT_COMMANDS, CONNECTED, OPENING

COMMANDS = sorted(OPENING | CLIENT_COMMANDS | {CONNECTED} | BROKER_COMMANDS)

CLIENT = b"SEND SUBSCRIBE UNSUBSCRIBE ACK NACK BEGIN COMMIT ABORT DISCONNECT"
MAY_COME = {
    (Side.DOWNSTREAM, LegState.OPENING): b"CONNECT STOMP",
    (Side.DOWNSTREAM, LegState.CONNECTING): b"",
    (Side.DOWNSTREAM, LegState.CONNECTED): CLIENT,
    (Side.DOWNSTREAM, LegState.LEAVING): CLIENT,
    (Side.DOWNSTREAM, LegState.CLOSED): b"",
    (Side.UPSTREAM, LegState.OPENING): b"CONNECTED ERROR",
    (Side.UPSTREAM, LegState.CONNECTING): b"",
    (Side.UPSTREAM, LegState.CONNECTED): b"MESSAGE RECEIPT ERROR",
    (Side.UPSTREAM, LegState.LEAVING): b"MESSAGE RECEIPT ERROR",
    (Side.UPSTREAM, LegState.CLOSED): b"",
}
PATH = {
    LegState.OPENING: (),
    LegState.CONNECTING: (LegState.CONNECTING,),
    LegState.CONNECTED: (LegState.CONNECTED,),
    LegState.LEAVING: (LegState.CONNECTED, LegState.LEAVING),
    LegState.CLOSED: (LegState.CLOSED,),
}
FOLLOWS = {
    LegState.OPENING: {LegState.CONNECTING, LegState.CONNECTED, LegState.CLOSED},
    LegState.CONNECTING: {LegState.CONNECTED, LegState.CLOSED},
    LegState.CONNECTED: {LegState.LEAVING, LegState.CLOSED},
    LegState.LEAVING: {LegState.CLOSED},
    LegState.CLOSED: set[LegState](),
}

cells = pytest.mark.parametrize(("side", "state"), MAY_COME, ids=lambda part: part.value)


def leg_in(side: Side, state: LegState) -> Leg:
    """A leg that came into the state by the shortest way."""
    leg = Leg(side, Limits())
    for step in PATH[state]:
        leg.enter(step)
    return leg


@pytest.mark.parametrize("command", COMMANDS, ids=bytes.decode)
@cells
def test_what_may_come(side: Side, state: LegState, command: bytes) -> None:
    """A command that may come is a frame; any other costs the connection, and is named."""
    leg = leg_in(side, state)
    leg.decoder.feed(command + b"\n\n\0")
    if command in MAY_COME[side, state].split():
        assert [frame.command for frame in leg.decoder.frames()] == [command]
    else:
        with pytest.raises(ProtocolError, match=rf"^{command.decode()} is not allowed here$"):
            list(leg.decoder.frames())


@pytest.mark.parametrize("after", LegState, ids=lambda state: state.value)
@pytest.mark.parametrize("before", LegState, ids=lambda state: state.value)
def test_what_follows(before: LegState, after: LegState) -> None:
    """From each state to each: forward only, and to CLOSED from everywhere but itself."""
    leg = leg_in(Side.DOWNSTREAM, before)
    if after in FOLLOWS[before]:
        leg.enter(after)
        assert leg.state is after
    else:
        with pytest.raises(AssertionError):
            leg.enter(after)
        assert leg.state is before
