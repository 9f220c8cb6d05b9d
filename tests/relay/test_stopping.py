"""A relay that stops: sessions deliver what their clients sent, clients hear of it, and what is lost is counted."""

from math import inf

import pytest

from stomprelay.session.effects import Event
from tests.playbook import Playbook, joined
from tests.relay.failing import client_waits, over, started
from tests.relay.frames import ASKING, RECEIPT, SEND


def lost(play: Playbook) -> list[object]:
    """What the journal has of losses at the session's end."""
    return [facts.get("possibly_lost", 0) for facts in play.facts(Event.DISCONNECTED)]


@pytest.mark.parametrize("survives", [False, True])
def test_a_session_that_owes_nothing_ends_at_once(survives: bool) -> None:
    """The client hears why, and nothing is lost."""
    with started() if survives else joined(b"1.2", b"1.2") as play:
        play.client_said(SEND % b"1")
        play.relay_begins_to_stop()
        play.client_gets_error(b"the relay is stopping")
        play.broker_is_closed()
        assert over(play)
        assert lost(play) == [0]
        assert play.noted(Event.DISCONNECTED) == "the relay stops"


def test_no_time_of_the_relays_ends_it() -> None:
    """How long it may take is the service's to say: nobody is woken to give up before."""
    with started(confirm=True) as play:
        play.client_said(SEND % b"1")
        play.relay_begins_to_stop()
        assert client_waits(play)
        play.alarm_rings_early()
        assert not over(play)
        assert play.relay._connection is not None
        assert play.relay._connection.shutdown.until == inf
        play.broker_says(RECEIPT % b"relay-session-receipt-1")
        play.client_gets_error(b"the relay is stopping")


@pytest.mark.parametrize("asks", [b"", b"receipt:r\n"], ids=["confirm", "receipts"])
def test_what_no_broker_took_is_counted(asks: bytes) -> None:
    """Fifty SENDs wait for a broker that does not come back: the session's end says so, and no receipt is given."""
    with started(confirm=not asks) as play:
        play.broker_goes()
        play.client_says(
            b"".join(SEND.replace(b"\n\n", b"\n" + asks + b"\n") % b"%d" % at for at in range(50))
        )
        play.relay_begins_to_stop()
        assert not over(play)
        play.relay_stops()
        play.client_gets_error(b"the relay is stopping", detail=b"what has no receipt may be lost")
        assert over(play)
        assert play.counters["possibly_lost"] == 50
        assert lost(play) == [50]
        assert play.noted(Event.DISCONNECTED) == "the relay stops; 50 SENDs may be lost"


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
def test_a_broker_that_gives_more_than_is_acknowledged(before: bool) -> None:
    """It is read from all the same when the relay stops: the receipts that the client awaits stand behind that."""
    message = b"MESSAGE\nsubscription:0\nmessage-id:%d\ndestination:/queue/a\n\n\0"
    with joined(b"1.2", b"1.1", unacknowledged=1) as play:
        play.client_said(
            b"SUBSCRIBE\nid:0\ndestination:/queue/a\nack:client-individual\n\n\0" + ASKING % (b"1", b"1")
        )
        if not before:
            play.relay_begins_to_stop()
        play.broker_says(message % 1)
        play.broker_says(message % 2)
        assert play.broker.paused is before
        if before:
            play.relay_begins_to_stop()
        play.broker_says(RECEIPT % b"1")
        assert play.client_reads().partition(RECEIPT % b"1")[2].startswith(b"ERROR\n")


@pytest.mark.parametrize("survives", [False, True])
def test_a_session_that_is_killed(survives: bool) -> None:
    """What it has sent is delivered first; killed again, it ends at once, and what may be lost is counted."""
    with started() if survives else joined(b"1.2", b"1.2") as play:
        play.client_said(ASKING % (b"1", b"1") + ASKING % (b"2", b"2"))
        play.operator_kills()
        play.both_stay()
        play.operator_kills()
        detail = b"by an operator of the relay; what has no receipt may be lost"
        play.client_gets_error(b"the session was ended", detail=detail)
        play.broker_is_closed()
        assert over(play)
        assert play.counters["possibly_lost"] == 2
        assert play.noted(Event.DISCONNECTED) == "an operator ended the session; 2 SENDs may be lost"
        play.operator_kills()
        assert play.counters["possibly_lost"] == 2
