"""A client that sent CONNECT, joined to its brokers: CONNECTED, what it sends while there is no broker, and its beats.

Whole conversations across a loss are in `test_failover`; here is what only the client's connection decides.
"""

from stomprelay.session.effects import Event, How
from tests.playbook import SAY_HELLO, Playbook, listener, said_welcome
from tests.relay.failing import asked, found, movable, moves, started
from tests.relay.frames import OURS, RECEIPT, send


def test_connected_is_sent_once() -> None:
    """That of the second broker is not passed on; both are in the log."""
    with started() as play:
        moves(play)
        play.nobody_gets_more()
        assert play.noted(Event.CONNECTED).endswith("at tcp://a")
        assert play.noted(Event.RECOVERED).endswith("at tcp://b")
        assert (play.counters["sessions_connected"], play.counters["failovers"]) == (1, 1)


def test_what_the_next_broker_is_sent() -> None:
    """The same CONNECT; subscriptions as they were made; what is not confirmed; open transactions; the rest."""
    orders = [
        b"SUBSCRIBE\nid:1\ndestination:/topic/a\ndurable:true\nauto-delete:false\nx-odd:1\n\n\0",
        b"SUBSCRIBE\nid:0\ndestination:/temp-queue/b\nack:client\nselector:c = 1\n\n\0",
    ]
    transaction = b"BEGIN\ntransaction:t\n\n\0" + send(b"2", transaction="t")
    with Playbook(listener(movable())) as play:
        play.client_says(b"CONNECT\naccept-version:1.2\nhost:/\nclient-id:me\nlogin:a\npasscode:b\n\n\0")
        hello = play.broker_is_asked()
        assert b"\nclient-id:me\nlogin:a\npasscode:b\n" in hello
        play.broker_said(said_welcome(b"1.2"))
        play.client_said(b"".join(orders) + transaction + send(b"1", receipt="r"))
        play.broker_goes()
        play.client_says(send(b"3"))
        asked(play)
        play.broker_accepts()
        play.broker_gets(hello)
        play.broker_says(said_welcome(b"1.2"))
        again = send(b"1", receipt="r").replace(b"SEND\n", b"SEND\nrelay-resent:true\n")
        told = play.broker_reads().replace(b"\0\n", b"\0")
        assert told == b"".join(orders) + again + transaction + send(b"3")


def test_a_broker_that_was_paused_meanwhile_is_left_again() -> None:
    """An operator took it out while it was answering: the client has its answer, and goes on at one that is in."""
    with Playbook(listener(movable()), hello=SAY_HELLO[b"1.2"]) as play:
        play.opened[0].health.paused = True
        play.broker_welcomes()
        play.client_gets(b"CONNECTED\nversion:1.2\nsession:s-1\n\n\0")
        other = play.opened[1].uri
        play.broker_welcomes(at=other)
        play.broker_gets(b"DISCONNECT\nreceipt:%b\n\n\0\n" % (OURS % 1))
        play.client_says(send(b"1"))
        play.broker_gets(b"")
        play.broker_says(RECEIPT % (OURS % 1))
        assert play.brokers[0].closed is How.LINGER
        found(play)
        assert play.opened[1] is not play.opened[0]
        play.broker_gets(send(b"1"))
        play.both_stay()
