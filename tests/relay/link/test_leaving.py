"""How a session leaves a broker: hung up, at its end, or to move; and what would be lost with it.

What a move means for frames is told in test_planned_move.
"""

from math import inf

from stomprelay.session.effects import Event, Note, Resume, Send
from stomprelay.session.leg import LegState
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


def test_a_session_moves_at_once_where_it_is_quiet() -> None:
    """The broker is sent DISCONNECT with a receipt of the relay's own, and has a while to confirm."""
    play = started(disconnect_timeout=2.0)
    play.now += 1.0
    play.leaves()
    play.is_taken()
    assert play.effects() == [
        Note(Event.MOVED, "leaving broker tcp://a", {"broker": "tcp://a", "upstream": "main"}, detail=True),
        Send(play.leg, b"DISCONNECT\nreceipt:s-receipt-1\n\n\0\n"),
        Resume(play.leg),
    ]
    assert play.link.leaving
    assert not any([play.link.up, play.link.quiet, play.link.done])
    assert play.link.until == 103.0
    assert play.leg.state is LegState.LEAVING
    assert play.leg.heartbeat.sent_at == 101.0
    assert play.over.brokers[0].health.sessions == 1
    play.link.received_receipt(b"s-receipt-2")
    assert not play.link.done
    play.link.received_receipt(b"s-receipt-1")
    assert play.link.done


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
