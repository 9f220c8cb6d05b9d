"""What random conversations found (`make fuzz`), as the bytes that it came down to."""

import pytest

from stomprelay.relay.model.listener import Listener
from stomprelay.session.effects import Event
from tests.playbook import SAY_WELCOME, Playbook, listener
from tests.relay.failing import asked_to_leave, started
from tests.relay.several import begun, comes, fan_out, fanned, lasting, routed, send, subscribed, tell

HELLO = b"CONNECT\naccept-version:1.2\nhost:/\n\n\0"


def _ends(play: Playbook, within: float = 5.0) -> None:
    """The client goes, and its session is over in time."""
    if play.client.closed is None:
        play.client_goes()
    play.time_passes(within)
    assert play.relay.over
    assert all(peer.closed is not None for peer in play.brokers if peer.accepted)


@pytest.mark.parametrize("end", [b"COMMIT", b"ABORT"])
def test_an_empty_receipt_at_the_end_of_a_transaction(end: bytes) -> None:
    """An empty value is a value: the receipt is asked for, and comes."""
    play = started()
    play.client_says(b"BEGIN\ntransaction:t1\n\n\0" + end + b"\ntransaction:t1\nreceipt:\n\n\0")
    assert b"\nreceipt:\n" in play.broker_reads()
    play.broker_says(b"RECEIPT\nreceipt-id:\n\n\0")
    play.client_gets(b"RECEIPT\nreceipt-id:\n\n\0")
    play.both_stay()


@pytest.mark.parametrize("version", [b"1.0", b"1.1"])
def test_a_subscription_that_cannot_be_named_when_its_client_is_gone(version: bytes) -> None:
    """Its id ends in a CR, which passes as it came and cannot be written anew."""
    play = started(version)
    play.client_says(
        b"SUBSCRIBE\nid:s\r\ndestination:/queue/a\n\n\0SEND\ndestination:/queue/a\nreceipt:1\n\nx\0"
    )
    play.broker_reads()
    play.client_goes()
    play.broker_reads()
    _ends(play)


def test_a_client_that_goes_while_its_only_broker_is_paused() -> None:
    """Nobody waits for an operator in the name of a client that is gone."""
    play = started(brokers=1, confirm=True)
    play.client_says(send(b"x"))
    play.broker_reads()
    play.opened[0].health.paused = True
    play.broker_goes()
    _ends(play)


def test_the_same_ack_ids_at_both_groups() -> None:
    """An ACK settles the message that it names, also behind one that was held in a transaction that is aborted."""
    play = subscribed(fanned(), ack="client-individual")
    play.broker_says(b"MESSAGE\nsubscription:1\nmessage-id:m1\ndestination:/queue/a\nack:1\n\n\0", at="a")
    play.broker_says(b"MESSAGE\nsubscription:1\nmessage-id:m2\ndestination:/queue/a\nack:1\n\n\0", at="b")
    first, second = [
        line.removeprefix(b"ack:") for line in play.client_reads().split(b"\n") if line.startswith(b"ack:")
    ]
    assert first != second
    play.client_says(
        tell(b"BEGIN", transaction="t")
        + tell(b"ACK", id=first.decode(), transaction="t")
        + tell(b"ABORT", transaction="t")
        + tell(b"ACK", id=second.decode())
    )
    told = {at: play.broker_reads(at=at) for at in "ab"}
    assert told["b"].endswith(b"ACK\nid:1\n\n\0")
    assert not told["a"].endswith(b"ACK\nid:1\n\n\0")


def test_a_message_in_front_of_connected() -> None:
    """A broker that writes a MESSAGE before the client was answered, because another group was not there yet."""
    play = Playbook(listener(fan_out(2, quorum=2)))
    play.client_says(HELLO)
    play.broker_accepts(at="a")
    play.broker_says(SAY_WELCOME[b"1.2"], at="a")
    play.broker_says(
        b"MESSAGE\nsubscription:1\nmessage-id:m\ndestination:/queue/a\n\n\0RECEIPT\nreceipt-id:1\n\n\0",
        at="a",
    )
    play.client_gets(b"")
    comes(play, "b")
    assert play.client_reads().startswith(b"CONNECTED\n")
    play.broker_reads(at="a")
    play.both_stay()


def test_a_frame_that_is_refused_when_disconnect_takes_too_long() -> None:
    """What waits for a broker that takes no more is written before DISCONNECT; the client hears what is wrong in it."""
    play = subscribed(begun(listener(fan_out(2)), b"1.1", "ab", b"1.0", b"1.0"), ack="client-individual")
    play.broker_says(b"MESSAGE\nsubscription:1\nmessage-id:m\ndestination:/queue/a\n\n\0", at="a")
    assert b"\nmessage-id:m\n" in play.client_reads()
    play.broker_is_blocked(at="a")
    play.client_says(
        b"NACK\nmessage-id:m\nsubscription:1\n\n\0"
        + send(b"x", receipt="1")
        + tell(b"DISCONNECT", receipt="bye")
    )
    play.broker_reads(at="b")
    play.time_passes(5)
    play.client_gets_error(b"NACK cannot be said to the broker")
    play.broker_reads(at="a")


def test_a_broker_that_is_paused_while_the_session_disconnects() -> None:
    """The client says DISCONNECT, then a route's broker answers which an operator took out of service meanwhile."""
    play = begun(_two_upstreams(), b"1.2", "a")
    play.client_says(send(b"x", b"/queue/there.1") + tell(b"DISCONNECT", receipt="bye"))
    play.broker_accepts(at="b")
    play.broker_reads(at="b")
    play.opened[-1].health.paused = True
    play.broker_says(SAY_WELCOME[b"1.2"], at="b")
    assert [note for note in play.notes if note.event is Event.ERROR] == []
    for at in "ab":
        assert play.broker_reads(at=at).count(b"DISCONNECT\n") == 1
        play.broker_says(b"RECEIPT\nreceipt-id:bye\n\n\0", at=at)
    play.client_gets(b"RECEIPT\nreceipt-id:bye\n\n\0")
    _ends(play)


def _two_upstreams() -> Listener:
    return routed(lasting("main", "a"), lasting("there", "b"))


def test_a_message_behind_unsubscribe_keeps_its_name() -> None:
    """It was on its way when its subscription ended; another group's delivery of the same name gets one of ours."""
    play = fanned()
    play.client_says(
        tell(b"SUBSCRIBE", id="1", destination="/queue/a", ack="client-individual")
        + tell(b"UNSUBSCRIBE", id="1")
    )
    late = b"MESSAGE\nsubscription:1\nmessage-id:m1\ndestination:/queue/a\nack:7\n\n\0"
    play.broker_says(late, at="a")
    play.client_gets(late)
    play.client_says(tell(b"SUBSCRIBE", id="2", destination="/queue/a", ack="client-individual"))
    play.broker_says(late.replace(b"subscription:1", b"subscription:2"), at="b")
    assert b"\nack:relay-ack-" in play.client_reads()


def test_a_broker_that_is_left_when_it_confirmed_the_last_send() -> None:
    """It has its time to answer DISCONNECT from then on, and no more."""
    play = started(disconnect_timeout=2.0)
    play.client_says(send(b"x", receipt="1"))
    asked_to_leave(play, within=60.0)
    play.broker_says(b"RECEIPT\nreceipt-id:1\n\n\0")
    assert b"DISCONNECT\n" in play.broker_reads()
    assert play.wake == play.now + 2.0
