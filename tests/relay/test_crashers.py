"""What rough worlds found, as the bytes that it came down to."""

import pytest

from tests.playbook import SAY_WELCOME, Playbook, listener
from tests.relay.failing import started
from tests.relay.frames import send, tell
from tests.relay.several import begun, fan_out, subscribed

HELLO = b"CONNECT\naccept-version:1.2\nhost:/\n\n\0"


@pytest.mark.parametrize("end", [b"COMMIT", b"ABORT"])
def test_an_empty_receipt_at_the_end_of_a_transaction(end: bytes) -> None:
    """An empty value is a value: the receipt is asked for, and comes."""
    play = started()
    play.client_says(b"BEGIN\ntransaction:t1\n\n\0" + end + b"\ntransaction:t1\nreceipt:\n\n\0")
    assert b"\nreceipt:\n" in play.broker_reads()
    play.broker_tells_client(b"RECEIPT\nreceipt-id:\n\n\0")
    play.both_stay()


def test_a_client_that_goes_while_its_only_broker_is_paused() -> None:
    """Nobody waits for an operator in the name of a client that is gone."""
    play = started(brokers=1, confirm=True)
    play.client_said(send(b"x"))
    play.opened[0].health.paused = True
    play.broker_goes()
    play.client_goes()
    play.time_passes(5.0)
    assert play.relay.over


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
    play.broker_welcomes(at="b")
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
