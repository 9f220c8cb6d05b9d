"""Which brokers are sent a client's ACK and NACK, and its receipts where the broker is gone."""

import pytest

from tests.playbook import Playbook, listener
from tests.relay.fanout.parts import member_of
from tests.relay.frames import ABORT, BEGIN, message, receipt, send, tell
from tests.relay.several import begun, comes_back, delivers, fan_out, fanned, subscribed

# One message


def test_an_ack_of_nothing() -> None:
    """A message that no broker delivered cannot be acknowledged."""
    play = subscribed(fanned(), ack="client-individual")
    play.client_errs(tell(b"ACK", id="z", receipt="k"), b"ACK names no message that awaits one", receipt=b"k")


def test_ack_values_of_two_brokers() -> None:
    """Where both give the same one the client gets another for the second, until the first is settled."""
    with subscribed(fanned(), ack="client-individual") as play:
        wire = message(b"", message_id="m", ack="7")
        play.broker_tells_client(wire, at="a")
        play.broker_says(wire, at="b")
        renamed = wire.replace(b"ack:7\n", b"").replace(b"MESSAGE\n", b"MESSAGE\nack:relay-ack-2\n")
        play.client_gets(renamed)
        play.client_tells_broker(tell(b"ACK", id="7"), at="a")
        play.broker_says(wire, at="a")
        play.client_gets(wire)  # the client knows that of b by another name
        play.client_says(tell(b"ACK", id="relay-ack-2") + tell(b"ACK", id="7"))
        play.broker_gets(tell(b"ACK", id="7"), at="a")
        play.broker_gets(tell(b"ACK", id="7"), at="b")
        play.broker_tells_client(wire, at="b")


@pytest.mark.parametrize("mode", ["client", "client-individual"])
def test_an_ack_value_that_an_open_transaction_holds(mode: str) -> None:
    """It stays taken, for ABORT brings it back: another broker's delivery of that value gets another one."""
    with subscribed(fanned(), ack=mode) as play:
        wire = message(b"", message_id="m", ack="7")
        play.broker_tells_client(wire, at="a")
        play.client_says(BEGIN + tell(b"ACK", id="7", transaction="t"))
        play.broker_says(wire, at="b")
        assert b"\nack:relay-ack-2\n" in play.client_reads()
        play.client_said(ABORT)
        play.client_tells_broker(tell(b"ACK", id="7"), at="a")
        play.client_tells_broker(tell(b"ACK", id="relay-ack-2"), tell(b"ACK", id="7"), at="b")


@pytest.mark.parametrize("client", [b"1.0", b"1.1"])
def test_a_message_id_that_a_lost_broker_gave_first(client: bytes) -> None:
    """It stays that delivery's: the other broker's of the same id, which the client knows by a token, still waits."""
    with begun(listener(fan_out(2)), client) as play:
        wire, named = alike(play, client)
        play.broker_goes(at="a")
        play.client_says(b"ACK\nmessage-id:7\n%breceipt:k\n\n\0" % named)
        play.client_gets(receipt("k"))
        play.broker_gets(b"", at="b")
        comes_back(play, "a", client)
        play.broker_reads(at="a")
        play.broker_says(wire, at="a")
        play.client_gets(wire)  # the client knows that of b by another name
        play.client_tells_broker(b"ACK\n%bmessage-id:7\n\n\0" % named, at="a")
        play.client_says(b"ACK\nmessage-id:relay-ack-2\n%b\n\0" % named)
        play.broker_gets(b"ACK\nmessage-id:7\n%b\n\0" % named, at="b")
        assert play.counters["acks_stale"] == 1


def alike(play: Playbook, client: bytes) -> tuple[bytes, bytes]:
    """Two brokers deliver one message-id on one subscription, a first. Return the MESSAGE, and what more ACKs say."""
    play.client_says(tell(b"SUBSCRIBE", id="1", destination="/queue/a", ack="client-individual"))
    wire = message(b"", message_id="7")
    for at in "ab":
        play.broker_reads(at=at)
        play.broker_says(wire, at=at)
    assert b"\nmessage-id:relay-ack-2\n" in play.client_reads()
    return wire, b"subscription:1\n" if client == b"1.1" else b""


# Cumulative ACKs


def cumulative() -> Playbook:
    """A client with a cumulative subscription, and a message of a and then one of b."""
    play = fanned(quorum=1)
    play.client_says(tell(b"SUBSCRIBE", id="1", destination="/queue/a", ack="client"))
    for at in "ab":
        play.broker_reads(at=at)
        play.broker_says(message(message_id=at, ack=at), at=at)
    play.client_reads()
    return play


def test_an_ack_for_a_broker_that_is_blocked() -> None:
    """One that is cumulative waits, however many reach another broker; no UNSUBSCRIBE goes before it."""
    with cumulative() as play:
        play.broker_is_blocked(at="a")
        play.client_says(tell(b"ACK", id="b"))
        play.broker_said(message(message_id="b2", ack="b2"), at="b")
        play.client_tells_broker(tell(b"ACK", id="b2"), tell(b"ACK", id="b") + tell(b"ACK", id="b2"), at="b")
        assert len(member_of(play, 0)._waiting) == 1
        play.broker_is_unblocked(at="a")
        play.broker_gets(tell(b"ACK", id="a").replace(b"\0", b"\0\n"), at="a")
    with subscribed(fanned(quorum=1), ack="client-individual") as play:
        delivers(play, "b", 1)
        play.broker_is_blocked(at="b")
        play.client_says(tell(b"ACK", id="b1") + send(receipt="r"))
        play.client_goes()
        assert b"UNSUBSCRIBE" in play.broker_reads(at="a")
        play.broker_is_unblocked(at="b")
        assert play.broker_reads(at="b").startswith(tell(b"ACK", id="b1"))


def test_an_ack_of_what_a_lost_broker_gave_and_another_ack_covered() -> None:
    """It is dropped, and no ERROR: the client cannot know that its ACK of another group's message was enough."""
    with cumulative() as play:
        play.broker_tells_client(message(b"", message_id="1", ack="1"), at="a")
        play.broker_tells_client(message(b"", message_id="2", ack="2"), at="b")
        play.broker_goes(at="a")
        play.client_tells_broker(tell(b"ACK", id="2"), at="b")
        play.client_says(tell(b"ACK", id="1", receipt="k"))
        play.client_gets(receipt("k"))


def test_an_ack_of_what_was_covered_behind_a_loss() -> None:
    """It is dropped: an ACK for a lost broker's message was taken for another of its name, and covered more."""
    with begun(listener(fan_out(2)), b"1.0") as play:
        play.client_said(tell(b"SUBSCRIBE", id="0", destination="/queue/c", ack="client-individual"))
        wire = message(message_id="1")
        play.broker_said(wire.replace(b"subscription:1", b"subscription:0"), at="a")
        play.broker_goes(at="a")
        comes_back(play, "a", b"1.0")
        play.client_said(tell(b"SUBSCRIBE", id="1", destination="/queue/a", ack="client"))
        play.broker_said(message(message_id="b"), at="b")
        play.broker_said(wire, at="a")
        play.client_says(tell(b"ACK", message_id="1"))
        assert b"message-id:1\n" in play.broker_reads(at="a")
        assert b"message-id:b\n" in play.broker_reads(at="b")
        play.client_says(tell(b"ACK", message_id="b", receipt="k"))
        play.client_gets(receipt("k"))


def test_a_cumulative_ack_in_a_transaction() -> None:
    """Each broker commits its own part, and both have to confirm."""
    play = cumulative()
    play.client_says(
        BEGIN + tell(b"ACK", id="b", transaction="t") + tell(b"COMMIT", transaction="t", receipt="c")
    )
    ends = tell(b"COMMIT", transaction="t", receipt="c")
    wire = tell(b"ACK", id="a", transaction="t").replace(b"\0", b"\0\n")
    play.broker_gets(BEGIN + wire + ends, at="a")
    play.broker_gets(BEGIN + tell(b"ACK", id="b", transaction="t") + ends, at="b")
    play.broker_says(receipt("c"), at="b")
    play.client_gets(b"")
    play.broker_tells_client(receipt("c"), at="a")


@pytest.mark.parametrize(("client", "naming"), [(b"1.0", b""), (b"1.1", b"subscription:1\n")])
@pytest.mark.parametrize("broker", [b"1.0", b"1.1", b"1.2"])
def test_a_cumulative_ack_in_other_versions(client: bytes, naming: bytes, broker: bytes) -> None:
    """The broker is sent its own names, in its version."""
    with begun(listener(fan_out(2)), client, "ab", broker, client) as play:
        play.client_said(tell(b"SUBSCRIBE", id="1", destination="/queue/a", ack="client"))
        play.broker_says(message(message_id="a", ack="k"), at="a")
        play.broker_said(message(message_id="b"), at="b")
        play.client_says(b"ACK\n%bmessage-id:b\n\n\0" % naming)
        wire = play.broker_reads(at="a")
        assert wire.startswith(b"ACK\n")
        assert (b"\nid:k\n" if broker == b"1.2" else b"\nmessage-id:a\n") in wire
        assert broker != b"1.1" or b"\nsubscription:1\n" in wire
        assert b"relay-ack" not in wire
        play.broker_gets(b"ACK\n%bmessage-id:b\n\n\0" % naming, at="b")
