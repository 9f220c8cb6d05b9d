"""The heart-beats of all legs of one client."""

from collections.abc import Iterable

from stomprelay.relay.effects import Effect
from stomprelay.session.effects import Send
from stomprelay.session.heartbeat import BEAT
from stomprelay.session.leg import Leg
from stomprelay.session.states import Side, State


def beating(leg: Leg) -> bool:
    """Whether its heart-beats count."""
    return leg.state is State.CONNECTED or (leg.state is State.LEAVING and leg.side is Side.DOWNSTREAM)


def beaten(legs: Iterable[Leg | None], effects: list[Effect], now: float) -> Leg | None:
    """Say the beats that are due on the legs that are connected. Answers the first one whose peer is dead.

    A client that said DISCONNECT is owed beats until it is answered, but none of its own.
    """
    for leg in legs:
        if leg is None or not beating(leg):
            continue
        if leg.heartbeat.dead(now):
            return leg
        if leg.heartbeat.due(now):
            leg.heartbeat.said_at = now
            effects.append(Send(leg, BEAT))
    return None
