"""What may come when: states x side x command, cell by cell."""

import pytest

from stomprelay.session.leg import Leg, Side, State
from stomprelay.wire.errors import ProtocolError
from stomprelay.wire.frame import Limits
from stomprelay.wire.names import BROKER_COMMANDS, CLIENT_COMMANDS, CONNECTED, OPENING

COMMANDS = sorted(OPENING | CLIENT_COMMANDS | {CONNECTED} | BROKER_COMMANDS)

CLIENT = b"SEND SUBSCRIBE UNSUBSCRIBE ACK NACK BEGIN COMMIT ABORT DISCONNECT"
MAY_COME = {
    (Side.DOWNSTREAM, State.OPENING): b"CONNECT STOMP",
    (Side.DOWNSTREAM, State.CONNECTING): b"",
    (Side.DOWNSTREAM, State.CONNECTED): CLIENT,
    (Side.DOWNSTREAM, State.LEAVING): CLIENT,
    (Side.DOWNSTREAM, State.CLOSED): b"",
    (Side.UPSTREAM, State.OPENING): b"CONNECTED ERROR",
    (Side.UPSTREAM, State.CONNECTING): b"",
    (Side.UPSTREAM, State.CONNECTED): b"MESSAGE RECEIPT ERROR",
    (Side.UPSTREAM, State.LEAVING): b"MESSAGE RECEIPT ERROR",
    (Side.UPSTREAM, State.CLOSED): b"",
}
PATH = {
    State.OPENING: (),
    State.CONNECTING: (State.CONNECTING,),
    State.CONNECTED: (State.CONNECTED,),
    State.LEAVING: (State.CONNECTED, State.LEAVING),
    State.CLOSED: (State.CLOSED,),
}
FOLLOWS = {
    State.OPENING: {State.CONNECTING, State.CONNECTED, State.CLOSED},
    State.CONNECTING: {State.CONNECTED, State.CLOSED},
    State.CONNECTED: {State.LEAVING, State.CLOSED},
    State.LEAVING: {State.CLOSED},
    State.CLOSED: set[State](),
}

cells = pytest.mark.parametrize(("side", "state"), MAY_COME, ids=lambda part: part.value)


def leg_in(side: Side, state: State) -> Leg:
    """A leg that came into the state by the shortest way."""
    leg = Leg(side, Limits())
    for step in PATH[state]:
        leg.enter(step)
    return leg


@pytest.mark.parametrize("command", COMMANDS, ids=bytes.decode)
@cells
def test_what_may_come(side: Side, state: State, command: bytes) -> None:
    """A command that may come is a frame; any other costs the connection, and is named."""
    leg = leg_in(side, state)
    leg.decoder.feed(command + b"\n\n\0")
    if command in MAY_COME[side, state].split():
        assert [frame.command for frame in leg.decoder.frames()] == [command]
    else:
        with pytest.raises(ProtocolError, match=rf"^{command.decode()} is not allowed here$"):
            list(leg.decoder.frames())


@pytest.mark.parametrize("after", State, ids=lambda state: state.value)
@pytest.mark.parametrize("before", State, ids=lambda state: state.value)
def test_what_follows(before: State, after: State) -> None:
    """From each state to each: forward only, and to CLOSED from everywhere but itself."""
    leg = leg_in(Side.DOWNSTREAM, before)
    if after in FOLLOWS[before]:
        leg.enter(after)
        assert leg.state is after
    else:
        with pytest.raises(AssertionError):
            leg.enter(after)
        assert leg.state is before
