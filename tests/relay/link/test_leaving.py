"""How a session leaves a broker: hung up, at its end, or to move; and what would be lost with it.

What a move means for frames is told in test_planned_move.
"""

from math import inf

from tests.relay.link.scene import Scene, started


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
