"""The beats of a client's leg and of its brokers' legs, looked at together."""

from math import inf

import pytest

from stomprelay.relay.client import beaten, beating
from stomprelay.relay.effects import Effect
from stomprelay.session.effects import Send
from stomprelay.session.heartbeat import Terms
from stomprelay.session.leg import Leg
from stomprelay.session.states import Side, State
from stomprelay.wire.dialect import V1_2
from stomprelay.wire.limits import Limits

HOURLY = Terms(3_600_000, 3_600_000)


def leg(
    side: Side = Side.UPSTREAM, *, ours: Terms = Terms(1000, 1000), theirs: Terms = Terms(1000, 1000)
) -> Leg:
    """A leg that is connected since 0, with a beat each second, either way."""
    made = Leg(side, Limits())
    made.enter(State.CONNECTED, V1_2)
    made.heartbeat.agree(ours, theirs, 0.0)
    return made


def told(*legs: Leg | None, now: float) -> tuple[list[Effect], Leg | None]:
    """What they say now, and whose peer is dead."""
    effects: list[Effect] = []
    return effects, beaten(legs, effects, now)


def test_who_is_silent_for_half_the_interval_beats() -> None:
    """Every leg on its own, and once: the beat is something said."""
    client, broker = leg(Side.DOWNSTREAM), leg()
    assert told(client, broker, now=0.4) == ([], None)
    client.heartbeat.sent_at = 0.4
    assert told(client, broker, now=0.5) == ([Send(broker, b"\n")], None)
    assert told(client, broker, now=0.5) == ([], None)
    assert told(client, broker, now=0.9) == ([Send(client, b"\n")], None)
    assert told(client, broker, now=1.0) == ([Send(broker, b"\n")], None)


def test_a_client_has_its_beats_while_there_is_no_broker() -> None:
    """A place without a leg is passed over."""
    client = leg(Side.DOWNSTREAM)
    assert told(client, None, None, now=0.5) == ([Send(client, b"\n")], None)


def test_nothing_was_agreed() -> None:
    """Nobody beats, nobody dies."""
    silent = leg(ours=Terms(1000, 1000), theirs=Terms(0, 0))
    assert told(silent, now=1e9) == ([], None)


def test_a_peer_that_is_silent_for_twice_the_interval_is_dead() -> None:
    """Heard at the very last moment it is not; a dead peer gets no beat."""
    client, broker = leg(Side.DOWNSTREAM), leg()
    client.heartbeat.received_at = 0.1
    effects, dead = told(client, broker, now=2.0)
    assert dead is broker
    assert effects == [Send(client, b"\n")]


def test_the_first_of_the_dead() -> None:
    """The client's death is the session's: it is looked at first. Who stands behind is looked at the next time."""
    client, one, other = leg(Side.DOWNSTREAM), leg(), leg()
    assert told(client, one, other, now=2.0) == ([], client)
    client.heartbeat.received_at = client.heartbeat.sent_at = 2.0
    assert told(client, one, other, now=2.0) == ([], one)


def test_whom_we_do_not_read_from_is_not_dead() -> None:
    """A client that was paused for saying too much has its beats, and its time anew when it is read again."""
    client = leg(Side.DOWNSTREAM)
    client.heartbeat.paused()
    assert told(client, now=50.0) == ([Send(client, b"\n")], None)
    client.heartbeat.resumed(51.0)
    assert told(client, now=52.9) == ([Send(client, b"\n")], None)
    assert told(client, now=53.0) == ([], client)


def in_state(side: Side, state: State) -> Leg:
    """A leg with beats that has come so far."""
    made = Leg(side, Limits())
    if state is State.LEAVING:
        made.enter(State.CONNECTED)
    if state is not State.OPENING:
        made.enter(state)
    made.heartbeat.agree(Terms(1000, 1000), Terms(1000, 1000), 0.0)
    return made


@pytest.mark.parametrize(
    ("side", "state"),
    [
        (Side.UPSTREAM, State.OPENING),
        (Side.UPSTREAM, State.LEAVING),
        (Side.UPSTREAM, State.CLOSED),
        (Side.DOWNSTREAM, State.OPENING),
        (Side.DOWNSTREAM, State.CONNECTING),
        (Side.DOWNSTREAM, State.CLOSED),
    ],
)
def test_a_leg_that_has_no_beats(side: Side, state: State) -> None:
    """Before CONNECTED nothing may be written, after DISCONNECT a broker expects nothing, a closed leg is no leg."""
    one, other = in_state(side, state), leg()
    other.heartbeat.received_at = 99.0
    assert not beating(one)
    assert beating(other)
    assert told(one, other, now=100.0) == ([Send(other, b"\n")], None)


def test_a_client_that_waits_for_the_end_of_its_goodbye() -> None:
    """It has its beats until then; that it says nothing any more is told to its leg by whoever read DISCONNECT."""
    client = in_state(Side.DOWNSTREAM, State.LEAVING)
    client.heartbeat.paused()
    assert beating(client)
    assert told(client, now=100.0) == ([Send(client, b"\n")], None)


def test_what_is_due_is_what_the_deadline_said() -> None:
    """Woken at the deadline of a leg there is something to do, and afterwards the deadline lies ahead."""
    client = leg(Side.DOWNSTREAM, theirs=HOURLY)
    now = client.heartbeat.deadline
    assert now < inf
    effects, dead = told(client, now=now)
    assert effects == [Send(client, b"\n")]
    assert dead is None
    assert client.heartbeat.deadline > now
