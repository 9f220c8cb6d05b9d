"""A client that said CONNECT, joined to its brokers: what it says while there is none, and how it is paced.

Whole conversations across a loss are in `test_failover`; here is what only the connection decides.
"""

import pytest

from stomprelay.session.effects import Event, How
from tests.playbook import SAY_HELLO, Cut, Playbook, in_all_cuts, in_cuts_of_halves, joined, listener
from tests.relay.failing import asked, found, movable, said_welcome, started


def send(body: bytes, headers: bytes = b"") -> bytes:
    """A SEND with more headers."""
    return b"SEND\ndestination:/queue/a\n%b\n%b\0" % (headers, body)


def receipt(name: bytes) -> bytes:
    """A RECEIPT."""
    return b"RECEIPT\nreceipt-id:%b\n\n\0" % name


def own(number: int) -> bytes:
    """A receipt id of the relay's own."""
    return b"relay-session-receipt-%d" % number


# While there is no broker


@in_all_cuts
def test_what_is_said_meanwhile_comes_in_order(cut: Cut) -> None:
    """Whole to the next broker, behind nothing and before what is said then, however it was cut."""
    with started(cut=cut) as play:
        play.broker_goes()
        for number in range(3):
            play.client_says(send(b"%d" % number))
        assert play.client.pauses == 1  # for CONNECT
        found(play)
        play.client_says(send(b"3"))
        assert play.broker_reads() == b"".join(send(b"%d" % number) for number in range(4))
        play.both_stay()


@pytest.mark.parametrize("at", range(1, len(send(b"hello"))))
def test_a_frame_that_was_cut_by_the_loss(at: int) -> None:
    """Its first half came before the broker went, its second half after: the next broker gets it whole."""
    frame = send(b"hello")
    with started() as play:
        play.client_says(frame[:at])
        play.broker_goes()
        play.client_says(frame[at:] + send(b"world"))
        found(play)
        play.broker_gets(frame + send(b"world"))


def test_a_broker_that_goes_while_it_is_told() -> None:
    """What it was given of what was held is said again, before the rest, and marked."""
    with started(confirm=True, product="activemq") as play:
        play.broker_goes()
        play.client_says(send(b"1"))
        found(play, product="activemq")
        play.broker_gets(b"SEND\nreceipt:%b\ndestination:/queue/a\n\n1\0" % own(1))
        play.broker_goes()
        play.client_says(send(b"2"))
        found(play, product="activemq")
        marked = b"relay-resent:true\n"
        again, new = play.broker_reads().split(b"\0")[:2]
        assert again == b"SEND\n%breceipt:%b\ndestination:/queue/a\n\n1" % (marked, own(2))
        assert new == b"SEND\nreceipt:%b\ndestination:/queue/a\n\n2" % own(3)


def test_a_goodbye_among_what_is_held() -> None:
    """The next broker gets what was said before it, then the disconnect when that is safe; what follows is ignored."""
    with started(confirm=True) as play:
        play.broker_goes()
        play.client_says(send(b"1") + b"DISCONNECT\nreceipt:bye\n\n\0")
        play.client_says(send(b"2"))
        found(play)
        play.broker_gets(b"SEND\nreceipt:%b\ndestination:/queue/a\n\n1\0" % own(1))
        play.broker_says(receipt(own(1)))
        play.broker_gets(b"DISCONNECT\nreceipt:bye\n\n\0")
        play.broker_says(receipt(b"bye"))
        play.client_gets(receipt(b"bye"))
        play.client_goes()
        play.client_is_closed(How.FLUSH)
        assert play.relay.over


@pytest.mark.parametrize("said_before", [True, False])
def test_a_goodbye_without_a_broker(said_before: bool) -> None:
    """It has its time from when there is one for it; the search has a time of its own."""
    disconnect = b"DISCONNECT\nreceipt:bye\n\n\0"
    with started() as play:
        if said_before:
            play.client_says(disconnect)
            play.broker_gets(disconnect)
            assert play.wake == play.now + 5.0
        play.broker_goes()
        if not said_before:
            play.client_says(disconnect)
        for _ in range(3):
            play.broker_refuses()
            asked(play)
        play.time_passes(8.0)
        assert play.client.closed is None
        found(play)
        play.broker_gets(disconnect)
        assert play.wake == play.now + 5.0


@in_cuts_of_halves
def test_an_error_among_what_is_held(cut: Cut) -> None:
    """The client is told when it is read; what was right before it has gone to the broker."""
    with started(cut=cut) as play:
        play.broker_goes()
        play.client_says(send(b"1") + b"SNED\n\n\0")
        assert play.client_reads() == b""
        found(play)
        play.broker_gets(send(b"1"))
        assert play.client_reads().startswith(b"ERROR\nmessage:")
        play.client_is_closed(How.LINGER)


# How the client is paced


@in_all_cuts
def test_a_client_that_says_too_much_is_paused(cut: Cut) -> None:
    """At the bound, once; it goes on when all that was held is told."""
    frame = send(b"x" * 60)
    with started(cut=cut, resend_buffer=2 * len(frame)) as play:
        pauses = play.client.pauses
        play.broker_goes()
        play.client_says(frame)
        assert play.client.pauses == pauses
        play.client_says(frame)
        assert play.client.pauses == pauses + 1
        play.client_says(frame)
        assert play.client.unheard
        found(play)
        assert not play.client.paused
        assert play.client.pauses == pauses + 1
        play.broker_gets(frame * 3)


def test_a_client_is_read_from_when_all_is_told() -> None:
    """The last thing that is asked for when a broker was found is to read from the client again."""
    with started(resend_buffer=10) as play:
        play.broker_goes()
        play.client_says(send(b"1"))
        play.client_says(send(b"2"))
        assert play.client.unheard == [send(b"2")]
        found(play)
        play.broker_gets(send(b"1") + send(b"2"))
        assert play.client.unheard == []


def test_what_is_not_confirmed_paces_the_client() -> None:
    """With `confirm` it is paused when so much is unconfirmed, and goes on when half of that is."""
    frame = send(b"x" * 60)
    with started(confirm=True, resend_buffer=4 * len(frame)) as play:
        pauses = play.client.pauses
        play.client_says(frame * 3)
        assert play.client.pauses == pauses
        play.client_says(frame)
        assert play.client.pauses == pauses + 1
        play.broker_reads()
        play.broker_says(receipt(own(1)))
        assert play.client.paused
        play.broker_says(receipt(own(2)))
        assert not play.client.paused


def test_a_client_that_is_paused_for_one_broker_stays_so_for_the_next() -> None:
    """What is unconfirmed is told again, and is still unconfirmed."""
    frame = send(b"x" * 60)
    with started(confirm=True, resend_buffer=4 * len(frame)) as play:
        play.client_says(frame * 4)
        assert play.client.paused
        play.broker_reads()
        play.broker_goes()
        found(play)
        assert play.client.paused
        assert play.broker_reads().count(b"\0") == 4
        for number in range(5, 9):
            play.broker_says(receipt(own(number)))
        assert not play.client.paused


def test_what_is_held_for_a_broker_goes_no_faster_than_it_is_confirmed() -> None:
    """Chunks that were held fill the next broker's unconfirmed; the client waits for both."""
    frame = send(b"x" * 60)
    with started(confirm=True, resend_buffer=2 * len(frame)) as play:
        play.broker_goes()
        play.client_says(frame)
        play.client_says(frame)
        assert play.client.paused
        found(play)
        assert play.broker_reads().count(b"\0") == 2
        assert play.client.paused
        play.broker_says(receipt(own(1)))
        assert not play.client.paused


# The client goes


def test_a_client_that_goes_while_something_is_held() -> None:
    """It is delivered to the next broker, which is then left; the client's half frame is not."""
    with started() as play:
        play.broker_goes()
        play.client_says(send(b"1") + b"SEND\ndest")
        play.client_goes()
        assert not play.relay.over
        found(play)
        play.broker_gets(send(b"1"))
        play.broker_is_closed()
        assert play.relay.over


def test_a_client_that_goes_before_any_broker_was_there() -> None:
    """What it said with its CONNECT is delivered when there is one."""
    with Playbook(listener(movable())) as play:
        play.client_says(SAY_HELLO[b"1.2"] + send(b"1"))
        play.client_goes()
        play.broker_refuses()
        asked(play)
        play.broker_accepts()
        play.broker_reads()
        play.broker_says(said_welcome(b"1.2"))
        play.broker_gets(send(b"1"))
        play.broker_is_closed()
        assert play.relay.over


def test_who_is_gone_goes_once() -> None:
    """What is told of a leg that was closed concerns nobody."""
    with started() as play:
        play.client_goes()
        play.client_goes()
        play.broker_goes()
        play.client_says(send(b"1"), unasked=True)
        play.broker_says(receipt(b"1"), unasked=True)
        assert play.counters["clients_vanished"] == 1
        assert play.relay.over


# Brokers come and go


def test_connected_is_said_once() -> None:
    """The second broker's is the relay's to know; both are in the log."""
    with started() as play:
        play.broker_goes()
        found(play)
        play.nobody_gets_more()
        assert play.noted(Event.CONNECTED).endswith("at tcp://a")
        assert play.noted(Event.RECOVERED).endswith("at tcp://b")
        assert (play.counters["sessions_connected"], play.counters["failovers"]) == (1, 1)


def test_what_the_next_broker_is_told() -> None:
    """The same CONNECT; subscriptions as they were made; what is not confirmed; open transactions; what was said
    meanwhile. So durable subscriptions keep their names, and temporary queues are made anew where they were named.
    """
    orders = [
        b"SUBSCRIBE\nid:1\ndestination:/topic/a\ndurable:true\nauto-delete:false\nx-odd:1\n\n\0",
        b"SUBSCRIBE\nid:0\ndestination:/temp-queue/b\nack:client\nselector:c = 1\n\n\0",
    ]
    transaction = b"BEGIN\ntransaction:t\n\n\0" + send(b"2", b"transaction:t\n")
    with Playbook(listener(movable())) as play:
        play.client_says(b"CONNECT\naccept-version:1.2\nhost:/\nclient-id:me\nlogin:a\npasscode:b\n\n\0")
        play.broker_accepts()
        hello = play.broker_reads()
        assert b"\nclient-id:me\nlogin:a\npasscode:b\n" in hello
        play.broker_says(said_welcome(b"1.2"))
        play.client_reads()
        play.client_says(b"".join(orders) + transaction + send(b"1", b"receipt:r\n"))
        play.broker_reads()
        play.broker_goes()
        play.client_says(send(b"3"))
        asked(play)
        play.broker_accepts()
        play.broker_gets(hello)
        play.broker_says(said_welcome(b"1.2"))
        again = send(b"1", b"receipt:r\n").replace(b"SEND\n", b"SEND\nrelay-resent:true\n")
        told = play.broker_reads().replace(b"\0\n", b"\0")
        assert told == b"".join(orders) + again + transaction + send(b"3")


def test_a_broker_that_says_it_stops() -> None:
    """The client need not know. An ERROR that answers something, or explains something else, is the client's."""
    with started() as play:
        play.broker_says(b"ERROR\nmessage:the broker is stopping\n\n\0")
        play.broker_goes()
        found(play)
        play.both_stay()
        assert play.counters["errors_withheld"] == 1
        play.broker_says(b"ERROR\nmessage:the broker is stopping\nreceipt-id:1\n\n\0")
        assert play.client_reads().startswith(b"ERROR\n")
        play.broker_goes()
        play.client_is_closed(How.LINGER)


def test_a_broker_that_was_paused_meanwhile_is_left_again() -> None:
    """An operator took it out while it was answering: the client has its answer, and goes on at one that is in."""
    with Playbook(listener(movable())) as play:
        play.client_says(SAY_HELLO[b"1.2"])
        play.opened[0].health.paused = True
        play.broker_accepts()
        play.broker_reads()
        play.broker_says(said_welcome(b"1.2"))
        play.client_gets(b"CONNECTED\nversion:1.2\nsession:s-1\n\n\0")
        play.broker_gets(b"DISCONNECT\nreceipt:%b\n\n\0\n" % own(1))
        play.client_says(send(b"1"))
        play.broker_gets(b"")
        play.broker_says(receipt(own(1)))
        assert play.brokers[0].closed is How.FLUSH
        found(play)
        assert play.opened[1] is not play.opened[0]
        play.broker_gets(send(b"1"))
        play.both_stay()


def test_a_client_that_is_given_up() -> None:
    """One that was connected is counted; one that never was is only told."""
    with started(options={"attempts": 1}) as play:
        play.broker_goes()
        for _ in range(2):
            asked(play)
            play.broker_refuses()
        play.client_gets_error(b"no broker available")
        assert play.counters["sessions_given_up"] == 1
    with Playbook(listener(movable(options={"startup_attempts": 1}))) as play:
        play.client_says(SAY_HELLO[b"1.2"])
        play.broker_refuses()
        play.broker_refuses()
        play.client_gets_error(b"broker not available")
        assert play.counters["sessions_given_up"] == 0


def test_octets_are_counted_on_every_leg() -> None:
    """Those that are held as well, when they come."""
    with started() as play:
        before = play.counters["client_bytes"]
        play.broker_goes()
        play.client_says(send(b"1"))
        assert play.counters["client_bytes"] == before + len(send(b"1"))
        found(play)
        play.broker_reads()
        assert play.counters["client_bytes"] == before + len(send(b"1"))


def test_one_broker_at_a_time_sets_the_pace() -> None:
    """Before CONNECT there is none to set it."""
    assert not Playbook(listener(movable())).relay.coupled
    assert started().relay.coupled
    assert joined(b"1.2", b"1.2").relay.coupled
