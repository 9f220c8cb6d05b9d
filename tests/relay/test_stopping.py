"""A relay that stops: sessions deliver what their clients sent, clients hear of it, and what is lost is counted."""

from math import inf

import pytest

from stomprelay.session.effects import Event, How
from tests.playbook import Playbook, joined
from tests.relay.failing import client_waits, over, started
from tests.relay.frames import SEND

ASKING = b"SEND\ndestination:/queue/a\nreceipt:%d\n\n%d\0"


def receipt(name: bytes) -> bytes:
    """A broker's RECEIPT."""
    return b"RECEIPT\nreceipt-id:" + name + b"\n\n\0"


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
        play.broker_says(receipt(b"relay-session-receipt-1"))
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
        data = play.client_reads()
        assert data.startswith(b"ERROR\nmessage:the relay is stopping\n")
        assert b"what has no receipt may be lost" in data
        play.client_is_closed()
        assert over(play)
        assert play.counters["possibly_lost"] == 50
        assert lost(play) == [50]
        assert play.noted(Event.DISCONNECTED) == "the relay stops; 50 SENDs may be lost"


def test_a_client_that_is_leaving() -> None:
    """Its DISCONNECT is confirmed as ever, and no ERROR follows."""
    with started(confirm=True) as play:
        play.client_said(SEND % b"1" + b"DISCONNECT\nreceipt:bye\n\n\0")
        play.relay_begins_to_stop()
        play.broker_says(receipt(b"relay-session-receipt-1"))
        play.broker_gets(b"DISCONNECT\nreceipt:bye\n\n\0")
        play.broker_tells_client(receipt(b"bye"))
        play.relay_stops()
        play.client_is_closed()
        assert over(play)
        assert play.counters["possibly_lost"] == play.counters["errors_sent"] == 0


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
def test_a_broker_that_gives_more_than_is_acknowledged(before: bool) -> None:
    """It is read from all the same when the relay stops: the receipts that the client awaits stand behind that."""
    message = b"MESSAGE\nsubscription:0\nmessage-id:%d\ndestination:/queue/a\n\n\0"
    with joined(b"1.2", b"1.1", unacknowledged=1) as play:
        play.client_said(
            b"SUBSCRIBE\nid:0\ndestination:/queue/a\nack:client-individual\n\n\0" + ASKING % (1, 1)
        )
        if not before:
            play.relay_begins_to_stop()
        play.broker_says(message % 1)
        play.broker_says(message % 2)
        assert play.broker.paused is before
        if before:
            play.relay_begins_to_stop()
        play.broker_says(receipt(b"1"))
        assert play.client_reads().partition(receipt(b"1"))[2].startswith(b"ERROR\n")


@pytest.mark.parametrize("survives", [False, True])
def test_a_session_that_is_killed(survives: bool) -> None:
    """What it has sent is delivered first; killed again, it ends at once, and what may be lost is counted."""
    with started() if survives else joined(b"1.2", b"1.2") as play:
        play.client_said(ASKING % (1, 1) + ASKING % (2, 2))
        play.operator_kills()
        play.both_stay()
        play.operator_kills()
        data = play.client_reads()
        assert data.startswith(b"ERROR\nmessage:the session was ended\n")
        assert b"by an operator of the relay; what has no receipt may be lost" in data
        play.client_is_closed(How.LINGER)
        play.broker_is_closed()
        assert over(play)
        assert play.counters["possibly_lost"] == 2
        assert play.noted(Event.DISCONNECTED) == "an operator ended the session; 2 SENDs may be lost"
        play.operator_kills()
        assert play.counters["possibly_lost"] == 2
