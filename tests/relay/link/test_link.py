"""A session's link to one group: which broker it asks and when, what comes of it, and how it leaves.

Schedules are told in test_schedule, handshakes in test_handshake, what a loss means for frames in test_failover.
"""

from math import inf

import pytest

from stomprelay.relay import inputs
from stomprelay.relay.effects import Open
from stomprelay.relay.link.link import Ended, Waiting
from stomprelay.session.effects import Close, How, Note
from stomprelay.session.leg import Leg, Side
from stomprelay.wire.errors import StompError
from tests.playbook import upstream
from tests.relay.link.scene import Scene, started


def test_a_connection_that_nobody_waits_for() -> None:
    """One that comes too late, was never asked for, or is there already: it is closed, and is sent nothing."""
    play = Scene()
    play.seeks()
    late, stranger = play.leg, Leg(Side.UPSTREAM, play.over.limits)
    play.refuses()
    play.effects()
    for leg in (late, stranger):
        play.hears(inputs.BrokerConnected(leg))
        assert play.effects() == [Close(leg, How.ABORT)]
    play.link.connected(late, play.now)
    assert play.effects() == [Close(late, How.ABORT)]
    play.finds()
    play.accepts()
    assert play.effects() == [Close(play.leg, How.ABORT)]


def test_a_plain_address_that_is_paused_while_it_is_asked() -> None:
    """The connection that did not answer is closed, and another one is asked for when the broker is resumed."""
    play = Scene(upstream(connect_timeout=3.0))
    (only,) = play.over.brokers
    play.seeks()
    play.accepts()
    leg = play.leg
    only.health.paused = True
    play.effects()
    play.wakes()
    note, *effects = play.effects()
    assert isinstance(note, Note)
    assert effects == [Close(leg, How.ABORT)]
    assert play.link.state == Waiting(None)
    only.health.paused = False
    play.hears(inputs.Reconsidered())
    assert play.effects() == [Open(play.leg, only)]


def test_the_time_is_over_while_a_broker_is_asked() -> None:
    """The session is given up at that time; the broker has done nothing wrong."""
    play = Scene(options={"timeout": 2.5}, connect_timeout=3.0)
    play.seeks()
    leg = play.leg
    play.accepts()
    assert play.link.until == 102.5
    play.effects()
    with pytest.raises(StompError):
        play.wakes()
    assert play.effects() == [Close(leg, How.ABORT)]
    assert play.link.state == Ended("none could be had within 2.5 s")
    assert play.link.until == inf
    first = play.over.brokers[0]
    assert (first.health.up, first.health.failures, first.health.coming) == (None, 0, 0)


def test_a_broker_that_fell_silent() -> None:
    """It is no better for others: they leave it out for a while."""
    play = Scene()
    play.link.fell_silent(play.now)
    play.seeks()
    play.link.fell_silent(play.now)
    assert [broker.health.failures for broker in play.over.brokers] == [0, 0]
    play.finds()
    play.link.fell_silent(play.now)
    health = play.over.brokers[0].health
    assert (health.up, health.failures, health.out_until) == (False, 1, 101.0)


def test_to_stay() -> None:
    """A client that leaves need not move; what was begun is finished."""
    play = started()
    play.link.stay()
    play.link.leave(play.now, 5.0, None)
    play.link.stay()
    assert (play.link.moving, play.link.until) == (None, inf)
    play.link.leave(play.now, 5.0, None)
    play.link.disconnect(play.now)
    play.link.stay()
    assert play.link.moving is not None
    assert play.link.leaving
