"""How a session leaves a broker: hung up, at its end, or to move; and what would be lost with it.

What a move means for frames is told in test_planned_move.
"""

from math import inf

from stomprelay.session.effects import Event, Note
from tests.relay.link.scene import Scene, started

# Ends


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


# Moving


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


def test_the_next_broker_after_a_loss_is_a_failover() -> None:
    """That lasts through the search, until the session is moved; what is lost while it leaves is no loss."""
    play = started()
    play.link.lost("went away")
    assert play.effects() == [
        Note(
            Event.LOST,
            "broker tcp://a went away",
            {"broker": "tcp://a", "upstream": "main", "reason": "went away"},
            detail=True,
        )
    ]
    play.loses()
    play.wakes()
    play.refuses()
    assert play.link.recovering
    play.finds()
    assert play.link.recovering
    play.leaves()
    play.is_taken()
    play.effects()
    play.link.lost("went away")
    assert play.effects() == []
    assert play.counters["brokers_lost"] == 1
    play.link.go_on(play.now)
    assert not play.link.recovering
