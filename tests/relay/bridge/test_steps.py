"""SUBSCRIBE, UNSUBSCRIBE, MESSAGE and SEND through all nine pairs, and what bridging refuses."""

import pytest

from stomprelay.wire.dialect import DIALECTS
from tests.playbook import PAIRS, Cut, in_all_cuts, in_all_pairs, joined
from tests.relay.bridge.conversation import BRIDGED, CONVERSATIONS, PLACE, subscribed


@pytest.mark.parametrize("place", [PLACE, b"destination:/topic/b\n"], ids=["its own", "another"])
@in_all_cuts
@in_all_pairs
def test_a_delivery_and_its_ack(client: bytes, broker: bytes, cut: Cut, place: bytes) -> None:
    """Each under the names its leg knows; `subscription` counts, whatever the destination (wildcards)."""
    conversation = CONVERSATIONS[client, broker]
    with subscribed(client, broker, cut) as play:
        play.broker_tells_client(*(frame.replace(PLACE, place) for frame in conversation.message))
        play.client_tells_broker(*conversation.ack)
        play.client_tells_broker(*conversation.unsubscribe)
        play.both_stay()


@in_all_pairs
def test_a_nack(client: bytes, broker: bytes) -> None:
    """NACK goes as ACK does, but for a broker whose version has none; a 1.0 client's passes where it is taken."""
    conversation = CONVERSATIONS[client, broker]
    said, told = (frame.replace(b"ACK\n", b"NACK\n") for frame in conversation.ack)
    with subscribed(client, broker) as play:
        play.broker_tells_client(conversation.message[0], conversation.message[1])
        play.client_says(said)
        if broker == b"1.0" != client:
            play.client_gets_error(b"NACK cannot be said to the broker")
            play.broker_is_closed()
        else:
            play.broker_gets(told)
            play.both_stay()


@in_all_cuts
@in_all_pairs
def test_receipts_on_every_frame(client: bytes, broker: bytes, cut: Cut) -> None:
    """`receipt` is asked for and answered under the client's own id, whatever it is made of."""
    conversation = CONVERSATIONS[client, broker]
    spelled = {b"1.0": b"r:1\\", b"1.1": b"r\\c1\\\\", b"1.2": b"r\\c1\\\\"}
    with subscribed(client, broker, cut) as play:
        play.broker_tells_client(conversation.message[0], conversation.message[1])
        turns = [
            (b"SEND\ndestination:/queue/a\n\n\0", b"SEND\ndestination:/queue/a\n\n\0"),
            (b"BEGIN\ntransaction:t\n\n\0", b"BEGIN\ntransaction:t\n\n\0"),
            (b"COMMIT\ntransaction:t\n\n\0", b"COMMIT\ntransaction:t\n\n\0"),
            (b"ABORT\ntransaction:u\n\n\0", b"ABORT\ntransaction:u\n\n\0"),
            conversation.ack,
            conversation.unsubscribe,
        ]
        for said, told in turns:
            play.client_says(said.replace(b"\n\n", b"\nreceipt:" + spelled[client] + b"\n\n"))
            play.broker_gets(told.replace(b"\n\n", b"\nreceipt:" + spelled[broker] + b"\n\n"))
            play.broker_says(b"RECEIPT\nreceipt-id:" + spelled[broker] + b"\n\n\0")
            play.client_gets(b"RECEIPT\nreceipt-id:" + spelled[client] + b"\n\n\0")


@in_all_cuts
@in_all_pairs
def test_an_error_of_the_broker_names_the_clients_receipt(client: bytes, broker: bytes, cut: Cut) -> None:
    """ERROR passes with its receipt-id respelled for the client, and the session goes on if the broker lets it."""
    spelled = {b"1.0": b"r:1", b"1.1": b"r\\c1", b"1.2": b"r\\c1"}
    send, error = (
        b"SEND\ndestination:/queue/a\nreceipt:%b\n\n\0",
        b"ERROR\nreceipt-id:%b\nmessage:no\n\nwhy\0",
    )
    with joined(client, broker, cut=cut) as play:
        for number in (1, 2):
            play.client_tells_broker(send % spelled[client], send % spelled[broker])
            play.broker_tells_client(error % spelled[broker], error % spelled[client])
            play.both_stay()
            assert play.counters["errors_passed"] == number


# SUBSCRIBE


SPECIFIC = (
    b"activemq.prefetchSize:10\nprefetch-count:10\nactivemq.subscriptionName:n\ndurable:true\n"
    b"auto-delete:false\npersistent:true\nx-queue-type:quorum\nselector:colour = 'red'\nbrowser:true\n"
)
"""Headers of prefetch, durability, selectors and browsing, which are each broker's own."""


@pytest.mark.parametrize(
    "line", [b"ack:auto\n", b"ack:client\n", b"ack:client-individual\n" + SPECIFIC], ids=repr
)
@in_all_pairs
def test_what_subscribe_asks_for_passes(client: bytes, broker: bytes, line: bytes) -> None:
    """It is the broker's to honour: an ack mode, on 1.0 too, and headers that the relay does not know."""
    said, told = (
        frame.replace(b"ack:client-individual\n", line) for frame in CONVERSATIONS[client, broker].subscribe
    )
    with joined(client, broker) as play:
        play.client_tells_broker(said, told)


@pytest.mark.parametrize("mode", [b"", b"Auto", b"cumulative", b"client,auto"], ids=repr)
@in_all_pairs
def test_an_unknown_ack_mode(client: bytes, broker: bytes, mode: bytes) -> None:
    """Between versions the relay refuses what it could not follow; between equals the broker judges."""
    said, told = (
        frame.replace(b"client-individual\n\n", mode + b"\nreceipt:s\n\n")
        for frame in CONVERSATIONS[client, broker].subscribe
    )
    with joined(client, broker) as play:
        play.client_says(said)
        if client == broker:
            play.broker_gets(told)
        else:
            play.client_gets_error(b"SUBSCRIBE has an unknown ack mode", receipt=b"s")


@pytest.mark.parametrize(("client", "broker"), PAIRS[3:], ids=bytes.decode)
def test_a_subscribe_without_id_on_1_1_and_1_2(client: bytes, broker: bytes) -> None:
    """`id` is required there: the relay refuses between versions, between equals the broker judges."""
    frame = b"SUBSCRIBE\ndestination:/queue/a\n\n\0"
    with joined(client, broker) as play:
        play.client_says(frame)
        if client == broker:
            play.broker_gets(frame)
        else:
            play.client_gets_error(b"SUBSCRIBE needs an id header")


@in_all_pairs
def test_a_repeated_subscription_id(client: bytes, broker: bytes) -> None:
    """Between versions it is refused, as is an UNSUBSCRIBE of none; between equals the broker judges."""
    first = b"SUBSCRIBE\nid:0\ndestination:/queue/a\n\n\0"
    second = b"SUBSCRIBE\nid:0\ndestination:/queue/b\n\n\0"
    with joined(client, broker) as play:
        play.client_tells_broker(first)
        play.client_says(second)
        if client == broker:
            play.broker_gets(second)
        else:
            play.client_gets_error(b"SUBSCRIBE repeats the id of an open subscription")
    frame = b"UNSUBSCRIBE\nid:none\nreceipt:u\n\n\0"
    with joined(client, broker) as play:
        play.client_says(frame)
        if DIALECTS[client].named_subscriptions == DIALECTS[broker].named_subscriptions:
            play.broker_gets(frame)
        else:
            play.client_gets_error(b"UNSUBSCRIBE names no open subscription", receipt=b"u")


@pytest.mark.parametrize("broker", [b"1.1", b"1.2"], ids=bytes.decode)
def test_unsubscribe_by_destination_takes_the_oldest(broker: bytes) -> None:
    """A 1.0 UNSUBSCRIBE by destination closes one subscription at a time, the oldest first."""
    with joined(b"1.0", broker) as play:
        play.client_said(
            b"SUBSCRIBE\ndestination:/topic/t\n\n\0SUBSCRIBE\ndestination:/topic/u\n\n\0"
            b"SUBSCRIBE\ndestination:/topic/t\n\n\0"
        )
        play.client_says(b"UNSUBSCRIBE\ndestination: /topic/t\nfoo:bar\n\n\0")
        play.broker_gets(b"UNSUBSCRIBE\nid:relay-1\nfoo:bar\n\n\0")
        play.client_tells_broker(b"UNSUBSCRIBE\ndestination:/topic/t\n\n\0", b"UNSUBSCRIBE\nid:relay-3\n\n\0")
        play.client_says(b"UNSUBSCRIBE\ndestination:/topic/t\n\n\0")
        play.client_gets_error(b"UNSUBSCRIBE names no open subscription")


# MESSAGE


@in_all_pairs
def test_a_message_that_the_client_did_not_subscribe_to(client: bytes, broker: bytes) -> None:
    """Replies to a temporary queue come for a subscription that the client never opened: they are delivered."""
    message = b"MESSAGE\nsubscription:/temp-queue/x\ndestination:/reply-queue/g\nmessage-id:1\n\nhi\0"
    with joined(client, broker) as play:
        play.broker_tells_client(message)


@pytest.mark.parametrize(("client", "broker"), BRIDGED, ids=bytes.decode)
def test_a_message_after_unsubscribe_can_be_acknowledged(client: bytes, broker: bytes) -> None:
    """What was on its way when the client unsubscribed is acknowledged as any other (1.2: MESSAGE MUST have `ack`)."""
    conversation = CONVERSATIONS[client, broker]
    name = b"" if broker != b"1.0" else b"subscription:0\n"
    with subscribed(client, broker) as play:
        play.client_tells_broker(conversation.unsubscribe[0], conversation.unsubscribe[1])
        play.broker_says(conversation.message[0].replace(b"MESSAGE\n", b"MESSAGE\n" + name))
        delivered = play.client_reads()
        assert client != b"1.2" or b"\nack:" in delivered
        play.client_says(conversation.ack[0])
        assert play.broker_reads().startswith(b"ACK\n")
        play.both_stay()


# SEND


@pytest.mark.parametrize(
    ("client", "broker"), [pair for pair in PAIRS if pair[1] != b"1.0"], ids=bytes.decode
)
def test_a_repeated_subscription_header(client: bytes, broker: bytes) -> None:
    """A publisher's own `subscription` comes behind the broker's, and the first counts."""
    with subscribed(client, broker) as play:
        message, delivered = CONVERSATIONS[client, broker].message
        play.broker_says(message.replace(b"\n\nhi", b"\nsubscription:forged\n\nhi"))
        told = play.client_reads()
        if client == b"1.0" != broker:
            assert told == delivered  # both are gone
        else:
            assert told == delivered.replace(b"\n\nhi", b"\nsubscription:forged\n\nhi")
