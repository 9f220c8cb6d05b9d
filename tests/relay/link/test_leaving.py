"""How a session leaves a broker: hung up, at its end, or to move; and what would be lost with it.

What a move means for frames is told in test_planned_move.
"""

from math import inf

import pytest

from stomprelay.relay import inputs
from stomprelay.relay.effects import Open
from stomprelay.relay.flow import DisconnectState
from stomprelay.relay.link.states import Asking, Connected, Waiting
from stomprelay.session.effects import Close, Event, How, Note, Resume, Send
from stomprelay.session.leg import State
from stomprelay.wire.names import BEGIN, COMMIT, TRANSACTION
from tests.playbook import upstream
from tests.relay.link.scene import Scene, started

SEND = b"SEND\ndestination:/queue/a\n\nx\0"
ASKING = b"SEND\ndestination:/queue/a\nreceipt:r\n\nx\0"


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


def test_a_broker_that_did_not_confirm() -> None:
    """Others go on with it until a probe has found out how it is."""
    play = Scene()
    play.link.unconfirmed()
    play.seeks()
    play.finds()
    play.link.unconfirmed()
    health = play.over.brokers[0].health
    assert (health.up, health.failures, health.doubted) == (True, 0, True)


@pytest.mark.parametrize("how", list(How))
def test_hanging_up(how: How) -> None:
    """The leg ends in this way, once; the broker counts one session less."""
    play = started()
    leg, broker = play.leg, play.link.connection.broker
    assert broker.health.sessions == 1
    for effects in ([Close(leg, how)], []):
        play.link.hang_up(how)
        assert play.effects() == effects
        assert leg.closed
        assert play.link.broker is None
        assert play.link.before is broker
        assert broker.health.sessions == 0
    assert not play.link.fresh


def test_hanging_up_where_nothing_is() -> None:
    """Before the first attempt there is nothing to close, and what was closed is not closed again."""
    play = Scene()
    play.link.hang_up(How.ABORT)
    assert play.effects() == []
    play.seeks()
    play.effects()
    play.leg.enter(State.CLOSED)
    play.link.hang_up(How.ABORT)
    assert play.effects() == []
    assert play.link.asked is None


def test_hanging_up_forgets_a_move() -> None:
    """It was for the broker that is gone."""
    play = started()
    play.leaves()
    play.link.abandon()
    assert play.link.done
    play.link.hang_up(How.FLUSH)
    assert not any([play.link.moving, play.link.leaving, play.link.done])


@pytest.mark.parametrize("state", [Waiting, Asking, Connected])
def test_the_end(state: type[object]) -> None:
    """What there is of a leg is closed, nothing is due, and no broker waits for this session."""
    play = started(options={"initial_delay": 5.0})
    if state is not Connected:
        play.loses()
    if state is Asking:
        play.wakes()
    play.effects()
    assert type(play.link.state) is state
    leg = play.link.leg
    play.link.end()
    assert play.effects() == ([] if leg is None else [Close(leg, How.LINGER)])
    assert (leg is None) == (state is Waiting)
    assert play.link.ended
    assert play.link.until == inf
    assert [broker.health.coming for broker in play.over.brokers] == [0, 0]
    assert [broker.health.sessions for broker in play.over.brokers] == [0, 0]
    play.link.woke(inf)
    assert play.effects() == []


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
    assert play.link.until == play.search.deadline == 103.0
    assert play.leg.state is State.LEAVING
    assert play.leg.heartbeat.sent_at == 101.0
    assert play.over.brokers[0].health.sessions == 1
    play.link.received_receipt(b"s-receipt-2")
    assert not play.link.done
    play.link.received_receipt(b"s-receipt-1")
    assert play.link.done


def test_a_session_moves_at_its_quiet_moment() -> None:
    """Whoever carries frames asks after each of them."""
    play = started()
    play.session.observed(BEGIN, [(TRANSACTION, b"t")])
    play.leaves()
    play.is_taken()
    assert play.effects() == []
    assert play.link.moving
    assert play.link.up
    assert play.link.until == 105.0
    play.session.observed(COMMIT, [(TRANSACTION, b"t")])
    play.search._move(play.now)
    assert [type(each) for each in play.effects()] == [Note, Send, Resume]
    play.search._move(play.now)
    assert play.effects() == []


def test_a_session_without_a_quiet_moment_moves_when_its_time_is_over() -> None:
    """Its transaction ends with the broker that began it."""
    play = started()
    play.session.observed(BEGIN, [(TRANSACTION, b"t")])
    play.leaves(within=7.0)
    play.is_taken()
    assert play.search.deadline == play.now + 7.0
    play.wakes()
    assert play.link.leaving
    assert [type(each) for each in play.effects()] == [Note, Send, Resume]


def test_there_is_nothing_to_leave() -> None:
    """The session is elsewhere, searches, has a plain address, which is all that there is, or leaves anyway."""
    elsewhere, searching, plain, leaving = started(), Scene(), started(upstream()), started()
    searching.seeks()
    searching.effects()
    leaving.flow.disconnect = DisconnectState.WAITING
    for play, brokers in (
        (elsewhere, elsewhere.over.brokers[1:]),
        (searching, searching.over.brokers),
        (plain, plain.over.brokers),
        (leaving, leaving.over.brokers),
    ):
        until = play.link.until
        for broker in brokers:
            play.hears(inputs.Leave(broker, 5.0))
        assert play.effects() == []
        assert not play.link.moving
        assert play.link.until == until


def test_to_stay() -> None:
    """A client that leaves need not move; what was begun is finished."""
    play = started()
    play.link.stay()
    play.link.leave(play.now, 5.0, None)
    play.link.stay()
    assert [play.link.moving, play.link.until] == [False, inf]
    play.link.leave(play.now, 5.0, None)
    play.link.disconnect(play.now)
    play.link.stay()
    assert [play.link.moving, play.link.leaving] == [True, True]


@pytest.mark.parametrize("to", [None, 2], ids=["anywhere", "to the third"])
def test_to_move(to: int | None) -> None:
    """The next broker is asked first, one that is preferred alone; then the old leg ends, and that is no failover."""
    play = started(brokers=3)
    old = play.leg
    play.leaves(to=None if to is None else play.over.brokers[to])
    new = play.link.next_leg
    assert new is not None
    assert play.effects() == [Open(new, play.over.brokers[to or 1])]
    play.is_taken()
    play.effects()
    assert play.link.move(play.now) is not None
    assert play.effects() == [Close(old, How.LINGER)]
    assert play.counters["brokers_moved"] == 1
    assert not any([play.link.moving, play.link.leaving, play.link.recovering])
    assert play.leg is new
    assert [broker.health.sessions for broker in play.over.brokers] == [0, to is None, to is not None]
    assert play.link.until == inf


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
    play.link.move(play.now)
    assert not play.link.recovering


# Quiet, uncertain


def test_a_plain_address_is_never_quiet() -> None:
    """Nobody can leave it without the session."""
    assert not started(upstream()).link.quiet
    assert started(upstream(), resends=True).link.quiet


def test_uncertain_at_a_plain_address() -> None:
    """The SENDs whose receipts are owed."""
    play = started(upstream())
    for receipt in (b"1", b"2"):
        play.session.owed(receipt)
    assert play.link.uncertain == 2
    play.session.received(b"1")
    assert play.link.uncertain == 1


@pytest.mark.parametrize(("confirm", "after"), [(False, 1), (True, 3)])
def test_uncertain_where_the_session_survives(confirm: bool, after: int) -> None:
    """All that is kept, and what was sent without being kept and not shown to have been received."""
    play = started(confirm=confirm)
    play.client_sends(SEND + ASKING + SEND)
    assert play.link.uncertain == 3
    play.loses()
    assert play.link.uncertain == after
    play.client_sends(SEND)
    assert play.link.uncertain == after + 1
    play.finds()
    assert play.link.uncertain == after + 1
    play.resender.replay(subscriptions=True, now=play.now)
    assert play.link.uncertain == after + 1
    play.resender.unconfirmed.received(b"r")
    assert play.link.uncertain == (0 if not confirm else after)
