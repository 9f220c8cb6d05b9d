"""SUBSCRIBE, MESSAGE, ACK, NACK, UNSUBSCRIBE and transactions through all nine pairs, and what bridging refuses."""

from typing import NamedTuple

import pytest

from stomprelay.relay.bridge.steps import steps_between
from stomprelay.session.states import EXPECTED, Side, State
from stomprelay.wire.dialect import DIALECTS
from tests.playbook import PAIRS, Cut, Playbook, in_all_cuts, in_all_pairs, joined
from tests.relay.failing import started


class Conversation(NamedTuple):
    """A subscription and one delivery of it. The client says what is in the first of two columns, the broker is
    told what is in the second; a MESSAGE goes the other way round.
    """

    subscribe: tuple[bytes, bytes]
    message: tuple[bytes, bytes]
    ack: tuple[bytes, bytes]
    unsubscribe: tuple[bytes, bytes]


# A 1.0 client names no subscription, a 1.0 broker tells none; ids have colons, and the ack value of 1.2 is not the
# message-id.
CONVERSATIONS = {
    (b"1.0", b"1.0"): Conversation(
        (
            b"SUBSCRIBE\ndestination:/queue/a\nack:client-individual\n\n\0",
            b"SUBSCRIBE\ndestination:/queue/a\nack:client-individual\n\n\0",
        ),
        (
            b"MESSAGE\ndestination:/queue/a\nmessage-id:ID:h-1:1\n\nhi\0",
            b"MESSAGE\ndestination:/queue/a\nmessage-id:ID:h-1:1\n\nhi\0",
        ),
        (
            b"ACK\nmessage-id:ID:h-1:1\nfoo:bar\n\n\0",
            b"ACK\nmessage-id:ID:h-1:1\nfoo:bar\n\n\0",
        ),
        (
            b"UNSUBSCRIBE\ndestination:/queue/a\n\n\0",
            b"UNSUBSCRIBE\ndestination:/queue/a\n\n\0",
        ),
    ),
    (b"1.0", b"1.1"): Conversation(
        (
            b"SUBSCRIBE\ndestination:/queue/a\nack:client-individual\n\n\0",
            b"SUBSCRIBE\nid:relay-1\ndestination:/queue/a\nack:client-individual\n\n\0",
        ),
        (
            b"MESSAGE\nsubscription:relay-1\ndestination:/queue/a\nmessage-id:ID\\ch-1\\c1\n\nhi\0",
            b"MESSAGE\ndestination:/queue/a\nmessage-id:ID:h-1:1\n\nhi\0",
        ),
        (
            b"ACK\nmessage-id:ID:h-1:1\nfoo:bar\n\n\0",
            b"ACK\nsubscription:relay-1\nmessage-id:ID\\ch-1\\c1\nfoo:bar\n\n\0",
        ),
        (
            b"UNSUBSCRIBE\ndestination:/queue/a\n\n\0",
            b"UNSUBSCRIBE\nid:relay-1\n\n\0",
        ),
    ),
    (b"1.0", b"1.2"): Conversation(
        (
            b"SUBSCRIBE\ndestination:/queue/a\nack:client-individual\n\n\0",
            b"SUBSCRIBE\nid:relay-1\ndestination:/queue/a\nack:client-individual\n\n\0",
        ),
        (
            b"MESSAGE\nack:ID\\ch-2\\c7\nsubscription:relay-1\ndestination:/queue/a\nmessage-id:ID\\ch-1\\c1\n\nhi\0",
            b"MESSAGE\ndestination:/queue/a\nmessage-id:ID:h-1:1\n\nhi\0",
        ),
        (
            b"ACK\nmessage-id:ID:h-1:1\nfoo:bar\n\n\0",
            b"ACK\nid:ID\\ch-2\\c7\nfoo:bar\n\n\0",
        ),
        (
            b"UNSUBSCRIBE\ndestination:/queue/a\n\n\0",
            b"UNSUBSCRIBE\nid:relay-1\n\n\0",
        ),
    ),
    (b"1.1", b"1.0"): Conversation(
        (
            b"SUBSCRIBE\nid:0\ndestination:/queue/a\nack:client-individual\n\n\0",
            b"SUBSCRIBE\nid:0\ndestination:/queue/a\nack:client-individual\n\n\0",
        ),
        (
            b"MESSAGE\ndestination:/queue/a\nmessage-id:ID:h-1:1\n\nhi\0",
            b"MESSAGE\nsubscription:0\ndestination:/queue/a\nmessage-id:ID\\ch-1\\c1\n\nhi\0",
        ),
        (
            b"ACK\nsubscription:0\nmessage-id:ID\\ch-1\\c1\nfoo:bar\n\n\0",
            b"ACK\nsubscription:0\nmessage-id:ID:h-1:1\nfoo:bar\n\n\0",
        ),
        (
            b"UNSUBSCRIBE\nid:0\n\n\0",
            b"UNSUBSCRIBE\nid:0\n\n\0",
        ),
    ),
    (b"1.1", b"1.1"): Conversation(
        (
            b"SUBSCRIBE\nid:0\ndestination:/queue/a\nack:client-individual\n\n\0",
            b"SUBSCRIBE\nid:0\ndestination:/queue/a\nack:client-individual\n\n\0",
        ),
        (
            b"MESSAGE\nsubscription:0\ndestination:/queue/a\nmessage-id:ID\\ch-1\\c1\n\nhi\0",
            b"MESSAGE\nsubscription:0\ndestination:/queue/a\nmessage-id:ID\\ch-1\\c1\n\nhi\0",
        ),
        (
            b"ACK\nsubscription:0\nmessage-id:ID\\ch-1\\c1\nfoo:bar\n\n\0",
            b"ACK\nsubscription:0\nmessage-id:ID\\ch-1\\c1\nfoo:bar\n\n\0",
        ),
        (
            b"UNSUBSCRIBE\nid:0\n\n\0",
            b"UNSUBSCRIBE\nid:0\n\n\0",
        ),
    ),
    (b"1.1", b"1.2"): Conversation(
        (
            b"SUBSCRIBE\nid:0\ndestination:/queue/a\nack:client-individual\n\n\0",
            b"SUBSCRIBE\nid:0\ndestination:/queue/a\nack:client-individual\n\n\0",
        ),
        (
            b"MESSAGE\nack:ID\\ch-2\\c7\nsubscription:0\ndestination:/queue/a\nmessage-id:ID\\ch-1\\c1\n\nhi\0",
            b"MESSAGE\nsubscription:0\ndestination:/queue/a\nmessage-id:ID\\ch-1\\c1\n\nhi\0",
        ),
        (
            b"ACK\nsubscription:0\nmessage-id:ID\\ch-1\\c1\nfoo:bar\n\n\0",
            b"ACK\nid:ID\\ch-2\\c7\nfoo:bar\n\n\0",
        ),
        (
            b"UNSUBSCRIBE\nid:0\n\n\0",
            b"UNSUBSCRIBE\nid:0\n\n\0",
        ),
    ),
    (b"1.2", b"1.0"): Conversation(
        (
            b"SUBSCRIBE\nid:0\ndestination:/queue/a\nack:client-individual\n\n\0",
            b"SUBSCRIBE\nid:0\ndestination:/queue/a\nack:client-individual\n\n\0",
        ),
        (
            b"MESSAGE\ndestination:/queue/a\nmessage-id:ID:h-1:1\n\nhi\0",
            b"MESSAGE\nsubscription:0\nack:relay-ack-1\ndestination:/queue/a\nmessage-id:ID\\ch-1\\c1\n\nhi\0",
        ),
        (
            b"ACK\nid:relay-ack-1\nfoo:bar\n\n\0",
            b"ACK\nsubscription:0\nmessage-id:ID:h-1:1\nfoo:bar\n\n\0",
        ),
        (
            b"UNSUBSCRIBE\nid:0\n\n\0",
            b"UNSUBSCRIBE\nid:0\n\n\0",
        ),
    ),
    (b"1.2", b"1.1"): Conversation(
        (
            b"SUBSCRIBE\nid:0\ndestination:/queue/a\nack:client-individual\n\n\0",
            b"SUBSCRIBE\nid:0\ndestination:/queue/a\nack:client-individual\n\n\0",
        ),
        (
            b"MESSAGE\nsubscription:0\ndestination:/queue/a\nmessage-id:ID\\ch-1\\c1\n\nhi\0",
            b"MESSAGE\nack:relay-ack-1\nsubscription:0\ndestination:/queue/a\nmessage-id:ID\\ch-1\\c1\n\nhi\0",
        ),
        (
            b"ACK\nid:relay-ack-1\nfoo:bar\n\n\0",
            b"ACK\nsubscription:0\nmessage-id:ID\\ch-1\\c1\nfoo:bar\n\n\0",
        ),
        (
            b"UNSUBSCRIBE\nid:0\n\n\0",
            b"UNSUBSCRIBE\nid:0\n\n\0",
        ),
    ),
    (b"1.2", b"1.2"): Conversation(
        (
            b"SUBSCRIBE\nid:0\ndestination:/queue/a\nack:client-individual\n\n\0",
            b"SUBSCRIBE\nid:0\ndestination:/queue/a\nack:client-individual\n\n\0",
        ),
        (
            b"MESSAGE\nack:ID\\ch-2\\c7\nsubscription:0\ndestination:/queue/a\nmessage-id:ID\\ch-1\\c1\n\nhi\0",
            b"MESSAGE\nack:ID\\ch-2\\c7\nsubscription:0\ndestination:/queue/a\nmessage-id:ID\\ch-1\\c1\n\nhi\0",
        ),
        (
            b"ACK\nid:ID\\ch-2\\c7\nfoo:bar\n\n\0",
            b"ACK\nid:ID\\ch-2\\c7\nfoo:bar\n\n\0",
        ),
        (
            b"UNSUBSCRIBE\nid:0\n\n\0",
            b"UNSUBSCRIBE\nid:0\n\n\0",
        ),
    ),
}


def subscribed(client: bytes, broker: bytes, cut: Cut = Cut.WHOLE) -> Playbook:
    """A playbook in which the subscription of the pair's conversation is open."""
    play = joined(client, broker, cut=cut)
    said, told = CONVERSATIONS[client, broker].subscribe
    play.client_says(said)
    play.broker_gets(told)
    return play


@in_all_cuts
@in_all_pairs
def test_a_delivery_and_its_ack(client: bytes, broker: bytes, cut: Cut) -> None:
    """A subscription is opened, a message delivered and acknowledged, each under the names its leg knows."""
    conversation = CONVERSATIONS[client, broker]
    with subscribed(client, broker, cut) as play:
        play.broker_says(conversation.message[0])
        play.client_gets(conversation.message[1])
        play.client_says(conversation.ack[0])
        play.broker_gets(conversation.ack[1])
        play.client_says(conversation.unsubscribe[0])
        play.broker_gets(conversation.unsubscribe[1])
        play.both_stay()


@in_all_cuts
@in_all_pairs
def test_a_nack(client: bytes, broker: bytes, cut: Cut) -> None:
    """NACK goes as ACK does, but for a broker whose version has none; a 1.0 client's passes where it is taken."""
    conversation = CONVERSATIONS[client, broker]
    said, told = (frame.replace(b"ACK\n", b"NACK\n") for frame in conversation.ack)
    with subscribed(client, broker, cut) as play:
        play.broker_says(conversation.message[0])
        play.client_gets(conversation.message[1])
        play.client_says(said)
        if broker == b"1.0" != client:
            play.client_gets_error(b"NACK cannot be said to the broker")
            play.broker_is_closed()
        else:
            play.broker_gets(told)
            play.both_stay()


@in_all_cuts
@in_all_pairs
def test_a_delivery_in_auto_mode(client: bytes, broker: bytes, cut: Cut) -> None:
    """Without acknowledgement no ack header is made up, and none that a publisher made up gets across versions."""
    conversation = CONVERSATIONS[client, broker]
    auto = [frame.replace(b"ack:client-individual\n", b"") for frame in conversation.subscribe]
    message, delivered = (
        frame.replace(b"ack:ID\\ch-2\\c7\n", b"").replace(b"ack:relay-ack-1\n", b"")
        for frame in conversation.message
    )
    with joined(client, broker, cut=cut) as play:
        play.client_says(auto[0])
        play.broker_gets(auto[1])
        play.broker_says(message)
        play.client_gets(delivered)
        play.broker_says(message.replace(b"\n\nhi", b"\nack:forged\n\nhi"))
        if DIALECTS[client].delivery is DIALECTS[broker].delivery:
            play.client_gets(delivered.replace(b"\n\nhi", b"\nack:forged\n\nhi"))
        else:
            play.client_gets(delivered)


@in_all_cuts
@in_all_pairs
def test_receipts_on_every_frame(client: bytes, broker: bytes, cut: Cut) -> None:
    """`receipt` is asked for and answered under the client's own id, whatever it is made of."""
    conversation = CONVERSATIONS[client, broker]
    spelled = {b"1.0": b"r:1\\", b"1.1": b"r\\c1\\\\", b"1.2": b"r\\c1\\\\"}
    with subscribed(client, broker, cut) as play:
        play.broker_says(conversation.message[0])
        play.client_gets(conversation.message[1])
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
    with joined(client, broker, cut=cut) as play:
        play.client_says(b"SEND\ndestination:/queue/a\nreceipt:" + spelled[client] + b"\n\n\0")
        play.broker_gets(b"SEND\ndestination:/queue/a\nreceipt:" + spelled[broker] + b"\n\n\0")
        play.broker_says(b"ERROR\nreceipt-id:" + spelled[broker] + b"\nmessage:no such queue\n\nwhy\0")
        play.client_gets(b"ERROR\nreceipt-id:" + spelled[client] + b"\nmessage:no such queue\n\nwhy\0")
        play.both_stay()
        play.client_says(b"SEND\ndestination:/queue/b\n\n\0")
        play.broker_gets(b"SEND\ndestination:/queue/b\n\n\0")


# SUBSCRIBE

MODES = (b"auto", b"client", b"client-individual")


@pytest.mark.parametrize("mode", MODES, ids=bytes.decode)
@in_all_pairs
def test_ack_modes_pass(client: bytes, broker: bytes, mode: bytes) -> None:
    """Each ack mode is the broker's to honour, on 1.0 too: it is never turned into another."""
    told, said = CONVERSATIONS[client, broker].subscribe[1], CONVERSATIONS[client, broker].subscribe[0]
    with joined(client, broker) as play:
        play.client_says(said.replace(b"client-individual", mode))
        play.broker_gets(told.replace(b"client-individual", mode))


@in_all_cuts
@pytest.mark.parametrize("mode", [b"", b"Auto", b"cumulative", b"client,auto"], ids=repr)
@in_all_pairs
def test_an_unknown_ack_mode(client: bytes, broker: bytes, mode: bytes, cut: Cut) -> None:
    """Between versions the relay refuses what it could not follow; between equals the broker judges."""
    said, told = (
        frame.replace(b"client-individual", mode) for frame in CONVERSATIONS[client, broker].subscribe
    )
    with joined(client, broker, cut=cut) as play:
        play.client_says(said.replace(b"\n\n", b"\nreceipt:s\n\n"))
        if client == broker:
            play.broker_gets(told.replace(b"\n\n", b"\nreceipt:s\n\n"))
        else:
            play.client_gets_error(b"SUBSCRIBE has an unknown ack mode", receipt=b"s")


@in_all_cuts
@pytest.mark.parametrize(("client", "broker"), PAIRS[3:], ids=lambda version: version.decode())
def test_a_subscribe_without_id_on_1_1_and_1_2(client: bytes, broker: bytes, cut: Cut) -> None:
    """`id` is required there: the relay refuses between versions, between equals the broker judges."""
    frame = b"SUBSCRIBE\ndestination:/queue/a\n\n\0"
    with joined(client, broker, cut=cut) as play:
        play.client_says(frame)
        if client == broker:
            play.broker_gets(frame)
        else:
            play.client_gets_error(b"SUBSCRIBE needs an id header")


@in_all_cuts
@in_all_pairs
def test_a_subscribe_without_destination(client: bytes, broker: bytes, cut: Cut) -> None:
    """The relay refuses it between versions, the broker between equals."""
    frame = b"SUBSCRIBE\nid:0\nreceipt:5\n\n\0"
    with joined(client, broker, cut=cut) as play:
        play.client_says(frame)
        if client == broker:
            play.broker_gets(frame)
        else:
            play.client_gets_error(b"SUBSCRIBE needs a destination header", receipt=b"5")


@in_all_cuts
@in_all_pairs
def test_a_repeated_subscription_id(client: bytes, broker: bytes, cut: Cut) -> None:
    """Two open subscriptions of one id could not be told apart between versions; between equals the broker judges."""
    first = b"SUBSCRIBE\nid:0\ndestination:/queue/a\n\n\0"
    second = b"SUBSCRIBE\nid:0\ndestination:/queue/b\n\n\0"
    with joined(client, broker, cut=cut) as play:
        play.client_says(first)
        play.broker_gets(first)
        play.client_says(second)
        if client == broker:
            play.broker_gets(second)
        else:
            play.client_gets_error(b"SUBSCRIBE repeats the id of an open subscription")


@in_all_cuts
@in_all_pairs
def test_a_subscription_id_is_free_after_unsubscribe(client: bytes, broker: bytes, cut: Cut) -> None:
    """An id can be used again once its subscription is closed."""
    with joined(client, broker, cut=cut) as play:
        for _ in range(3):
            for frame in (b"SUBSCRIBE\nid:0\ndestination:/queue/a\n\n\0", b"UNSUBSCRIBE\nid:0\n\n\0"):
                play.client_says(frame)
                play.broker_gets(frame)


@in_all_cuts
@in_all_pairs
def test_unknown_headers_of_subscribe_pass(client: bytes, broker: bytes, cut: Cut) -> None:
    """Prefetch, durability, selectors and browsing are said in each broker's own words, which pass as they came."""
    extras = (
        b"activemq.prefetchSize:10\nprefetch-count:10\nactivemq.subscriptionName:n\ndurable:true\n"
        b"auto-delete:false\npersistent:true\nx-queue-type:quorum\nselector:colour = 'red'\nbrowser:true\n"
    )
    said, told = (frame[:-2] + extras + b"\n\0" for frame in CONVERSATIONS[client, broker].subscribe)
    with joined(client, broker, cut=cut) as play:
        play.client_says(said)
        play.broker_gets(told)


@in_all_pairs
def test_ids_of_clients_are_kept(client: bytes, broker: bytes) -> None:
    """Brokers derive the names of durable queues from subscription ids, so a client's own id is never replaced."""
    spelled = {b"1.0": b"a:b", b"1.1": b"a\\cb", b"1.2": b"a\\cb"}
    with joined(client, broker) as play:
        play.client_says(b"SUBSCRIBE\nid:" + spelled[client] + b"\ndestination:/topic/t\ndurable:true\n\n\0")
        play.broker_gets(b"SUBSCRIBE\nid:" + spelled[broker] + b"\ndestination:/topic/t\ndurable:true\n\n\0")
        play.broker_says(
            b"MESSAGE\nsubscription:" + spelled[broker] + b"\ndestination:/topic/t\nmessage-id:1\n\n\0"
        )
        play.client_gets(
            b"MESSAGE\nsubscription:" + spelled[client] + b"\ndestination:/topic/t\nmessage-id:1\n\n\0"
        )
        play.client_says(b"UNSUBSCRIBE\nid:" + spelled[client] + b"\ndurable:true\n\n\0")
        play.broker_gets(b"UNSUBSCRIBE\nid:" + spelled[broker] + b"\ndurable:true\n\n\0")


@in_all_cuts
def test_a_1_0_client_that_names_its_subscription(cut: Cut) -> None:
    """An id that a 1.0 client gave is its own: it passes, and MESSAGE names it."""
    with joined(b"1.0", b"1.2", cut=cut) as play:
        play.client_says(b"SUBSCRIBE\ndestination:/queue/a\nid:mine\nack:client\n\n\0")
        play.broker_gets(b"SUBSCRIBE\ndestination:/queue/a\nid:mine\nack:client\n\n\0")
        play.broker_says(b"MESSAGE\nsubscription:mine\nack:k\nmessage-id:m\ndestination:/queue/a\n\n\0")
        play.client_gets(b"MESSAGE\nsubscription:mine\nmessage-id:m\ndestination:/queue/a\n\n\0")
        play.client_says(b"ACK\nmessage-id:m\nsubscription:mine\n\n\0")
        play.broker_gets(b"ACK\nid:k\n\n\0")
        play.client_says(b"UNSUBSCRIBE\nid:mine\n\n\0")
        play.broker_gets(b"UNSUBSCRIBE\nid:mine\n\n\0")


@in_all_cuts
def test_a_1_0_client_may_take_an_id_that_looks_like_ours(cut: Cut) -> None:
    """A subscription that the client named keeps its name, even one that begins as those of the relay do."""
    with joined(b"1.0", b"1.1", cut=cut) as play:
        play.client_says(b"SUBSCRIBE\nid:relay-x\ndestination:/queue/a\n\n\0")
        play.broker_gets(b"SUBSCRIBE\nid:relay-x\ndestination:/queue/a\n\n\0")
        play.broker_says(b"MESSAGE\nsubscription:relay-x\nmessage-id:1\ndestination:/queue/a\n\n\0")
        play.client_gets(b"MESSAGE\nsubscription:relay-x\nmessage-id:1\ndestination:/queue/a\n\n\0")


@pytest.mark.parametrize("broker", [b"1.1", b"1.2"], ids=bytes.decode)
def test_names_of_the_relay_never_meet_those_of_a_client(broker: bytes) -> None:
    """A subscription without id gets a name that no open subscription has."""
    with joined(b"1.0", broker) as play:
        play.client_says(b"SUBSCRIBE\nid:relay-1\ndestination:/queue/a\n\n\0")
        play.broker_gets(b"SUBSCRIBE\nid:relay-1\ndestination:/queue/a\n\n\0")
        play.client_says(b"SUBSCRIBE\ndestination:/queue/b\n\n\0")
        told = play.broker_reads()
        assert told.endswith(b"\ndestination:/queue/b\n\n\0")
        assert not told.startswith(b"SUBSCRIBE\nid:relay-1\n")


@in_all_cuts
@pytest.mark.parametrize("broker", [b"1.1", b"1.2"], ids=bytes.decode)
def test_names_made_for_1_0_subscriptions_differ(broker: bytes, cut: Cut) -> None:
    """Each subscription without id is told apart toward the broker, to the same destination too."""
    with joined(b"1.0", broker, cut=cut) as play:
        play.client_says(
            b"SUBSCRIBE\ndestination:/topic/t\n\n\0SUBSCRIBE\ndestination: /topic/t\nselector:x\n\n\0"
        )
        play.broker_gets(
            b"SUBSCRIBE\nid:relay-1\ndestination:/topic/t\n\n\0"
            b"SUBSCRIBE\nid:relay-2\ndestination:/topic/t\nselector:x\n\n\0",
        )


@in_all_cuts
@pytest.mark.parametrize("broker", [b"1.1", b"1.2"], ids=bytes.decode)
def test_unsubscribe_by_destination_takes_the_oldest(broker: bytes, cut: Cut) -> None:
    """A 1.0 UNSUBSCRIBE by destination closes one subscription at a time, the oldest first."""
    with joined(b"1.0", broker, cut=cut) as play:
        play.client_says(
            b"SUBSCRIBE\ndestination:/topic/t\n\n\0SUBSCRIBE\ndestination:/topic/u\n\n\0"
            b"SUBSCRIBE\ndestination:/topic/t\n\n\0",
        )
        play.broker_reads()
        play.client_says(b"UNSUBSCRIBE\ndestination: /topic/t\nfoo:bar\n\n\0")
        play.broker_gets(b"UNSUBSCRIBE\nid:relay-1\nfoo:bar\n\n\0")
        play.client_says(b"UNSUBSCRIBE\ndestination:/topic/t\n\n\0")
        play.broker_gets(b"UNSUBSCRIBE\nid:relay-3\n\n\0")
        play.client_says(b"UNSUBSCRIBE\ndestination:/topic/t\n\n\0")
        play.client_gets_error(b"UNSUBSCRIBE names no open subscription")


@in_all_cuts
@in_all_pairs
def test_an_unsubscribe_that_names_nothing(client: bytes, broker: bytes, cut: Cut) -> None:
    """The broker judges, but where the relay has to find the subscription and cannot."""
    frame = b"UNSUBSCRIBE\nid:none\nreceipt:u\n\n\0"
    with joined(client, broker, cut=cut) as play:
        play.client_says(frame)
        if DIALECTS[client].named_subscriptions == DIALECTS[broker].named_subscriptions:
            play.broker_gets(frame)
        else:
            play.client_gets_error(b"UNSUBSCRIBE names no open subscription", receipt=b"u")


@pytest.mark.parametrize("client", [b"1.0", b"1.1", b"1.2"], ids=bytes.decode)
def test_subscriptions_are_bounded(client: bytes) -> None:
    """No client can make the relay remember without end, not even where the broker judges the rest."""
    with joined(client, client) as play:
        one = b"SUBSCRIBE\nid:%d\ndestination:/queue/a\n\n\0"
        play.client_says(b"".join(one % n for n in range(65536)))
        assert play.broker_reads().count(b"\0") == 65536
        play.client_says(one % 65536)
        play.client_gets_error(b"too many subscriptions")


@pytest.mark.parametrize("client", [b"1.1", b"1.2"], ids=bytes.decode)
def test_a_subscription_id_that_1_0_cannot_say(client: bytes) -> None:
    """`subscription` MUST match the id of SUBSCRIBE: such a name is kept from the broker or refused, never changed."""
    with joined(client, b"1.0") as play:
        play.client_says(b"SUBSCRIBE\nid:a\\nb\ndestination:/queue/a\nack:client\n\n\0")
        told = play.broker_reads()
        if play.client.closed is not None:
            assert play.client_reads().startswith(b"ERROR\n")
            return
        id = told.split(b"\nid:")[1].split(b"\n")[0]
        play.broker_says(b"MESSAGE\nsubscription:" + id + b"\nmessage-id:1\ndestination:/queue/a\n\nhi\0")
        assert b"\nsubscription:a\\nb\n" in play.client_reads()


@pytest.mark.parametrize("client", [b"1.1", b"1.2"], ids=bytes.decode)
def test_a_receipt_that_1_0_cannot_say(client: bytes) -> None:
    """`receipt-id` is the value that the client gave: a changed one would be waited for in vain."""
    with joined(client, b"1.0") as play:
        play.client_says(b"SEND\ndestination:/queue/a\nreceipt:a\\nb\n\n\0")
        told = play.broker_reads()
        if play.client.closed is not None:
            assert play.client_reads().startswith(b"ERROR\n")
            return
        receipt = told.split(b"\nreceipt:")[1].split(b"\n")[0]
        play.broker_says(b"RECEIPT\nreceipt-id:" + receipt + b"\n\n\0")
        play.client_gets(b"RECEIPT\nreceipt-id:a\\nb\n\n\0")


# MESSAGE


@in_all_cuts
@pytest.mark.parametrize("client", [b"1.1", b"1.2"], ids=bytes.decode)
def test_a_1_0_broker_may_name_the_subscription(client: bytes, cut: Cut) -> None:
    """Most 1.0 brokers do when SUBSCRIBE had an id: then that name counts, whatever the destination is."""
    with joined(client, b"1.0", cut=cut) as play:
        play.client_says(
            b"SUBSCRIBE\nid:0\ndestination:/topic/*\n\n\0SUBSCRIBE\nid:1\ndestination:/topic/b\n\n\0"
        )
        play.broker_reads()
        play.broker_says(b"MESSAGE\ndestination:/topic/b\nsubscription:0\nmessage-id:1\n\n\0")
        play.client_gets(b"MESSAGE\ndestination:/topic/b\nsubscription:0\nmessage-id:1\n\n\0")


@in_all_cuts
@pytest.mark.parametrize("client", [b"1.1", b"1.2"], ids=bytes.decode)
def test_a_1_0_broker_that_names_none(client: bytes, cut: Cut) -> None:
    """Then the destination tells the subscription: the oldest of that destination that is open."""
    with joined(client, b"1.0", cut=cut) as play:
        play.client_says(
            b"SUBSCRIBE\nid:0\ndestination:/queue/a\n\n\0SUBSCRIBE\nid:1\ndestination:/queue/b\n\n\0"
            b"SUBSCRIBE\nid:2\ndestination:/queue/b\n\n\0",
        )
        play.broker_reads()
        play.broker_says(b"MESSAGE\ndestination:/queue/b\nmessage-id:1\n\n\0")
        play.client_gets(b"MESSAGE\nsubscription:1\ndestination:/queue/b\nmessage-id:1\n\n\0")
        play.client_says(b"UNSUBSCRIBE\nid:1\n\n\0")
        play.broker_reads()
        play.broker_says(b"MESSAGE\ndestination:/queue/b\nmessage-id:2\n\n\0")
        play.client_gets(b"MESSAGE\nsubscription:2\ndestination:/queue/b\nmessage-id:2\n\n\0")


@pytest.mark.parametrize("client", [b"1.1", b"1.2"], ids=bytes.decode)
def test_a_1_0_broker_that_names_none_on_a_wildcard(client: bytes) -> None:
    """1.1 and 1.2 want `subscription` on every MESSAGE; with one subscription open there is no doubt which."""
    with joined(client, b"1.0") as play:
        play.client_says(b"SUBSCRIBE\nid:0\ndestination:/topic/*\n\n\0")
        play.broker_reads()
        play.broker_says(b"MESSAGE\ndestination:/topic/b\nmessage-id:1\n\n\0")
        play.client_gets(b"MESSAGE\nsubscription:0\ndestination:/topic/b\nmessage-id:1\n\n\0")


@in_all_cuts
@in_all_pairs
def test_a_message_of_another_destination(client: bytes, broker: bytes, cut: Cut) -> None:
    """Wildcards and virtual topics deliver under other names: `subscription` counts, never the destination."""
    names = {(b"1.0", b"1.1"): b"relay-1", (b"1.0", b"1.2"): b"relay-1"}
    name = names.get((client, broker), b"0")
    with joined(client, broker, cut=cut) as play:
        given = b"" if (client, broker) in names else b"id:0\n"
        play.client_says(b"SUBSCRIBE\n" + given + b"destination:/topic/*\nack:client\n\n\0")
        play.broker_reads()
        ack = b"ack:k\n" if broker == b"1.2" else b""
        play.broker_says(
            b"MESSAGE\nsubscription:" + name + b"\nmessage-id:m\n" + ack + b"destination:/topic/b\n\nhi\0",
        )
        delivered = play.client_reads()
        assert delivered.endswith(b"destination:/topic/b\n\nhi\0")
        assert (b"\nsubscription:0\n" in delivered) == ((client, broker) not in names)
        play.client_says(
            {
                b"1.0": b"ACK\nmessage-id:m\n\n\0",
                b"1.1": b"ACK\nmessage-id:m\nsubscription:0\n\n\0",
                b"1.2": b"ACK\nid:k\n\n\0" if broker == b"1.2" else b"ACK\nid:relay-ack-1\n\n\0",
            }[client],
        )
        told = play.broker_reads()
        assert (b"\nid:k\n" if broker == b"1.2" else b"\nmessage-id:m\n") in told


@in_all_cuts
@in_all_pairs
def test_a_message_that_nobody_subscribed_to(client: bytes, broker: bytes, cut: Cut) -> None:
    """Replies to a temporary queue come for a subscription that the client never opened: they are delivered."""
    message = b"MESSAGE\nsubscription:/temp-queue/x\ndestination:/reply-queue/g\nmessage-id:1\n\nhi\0"
    with joined(client, broker, cut=cut) as play:
        play.broker_says(message)
        play.client_gets(message)


@in_all_cuts
@in_all_pairs
def test_a_message_after_unsubscribe_is_delivered(client: bytes, broker: bytes, cut: Cut) -> None:
    """In auto mode the broker has forgotten it already, so the relay must not."""
    name = b"relay-1" if client == b"1.0" != broker else b"0"
    given = b"" if client == b"1.0" != broker else b"id:0\n"
    with joined(client, broker, cut=cut) as play:
        play.client_says(b"SUBSCRIBE\n" + given + b"destination:/queue/a\n\n\0")
        play.client_says(
            b"UNSUBSCRIBE\ndestination:/queue/a\n\n\0" if client == b"1.0" else b"UNSUBSCRIBE\nid:0\n\n\0"
        )
        play.broker_reads()
        play.broker_says(b"MESSAGE\nsubscription:" + name + b"\ndestination:/queue/a\nmessage-id:1\n\nhi\0")
        delivered = play.client_reads()
        assert delivered.endswith(b"destination:/queue/a\nmessage-id:1\n\nhi\0")
        assert b"relay-1" not in delivered


BRIDGED = [pair for pair in PAIRS if DIALECTS[pair[0]].delivery is not DIALECTS[pair[1]].delivery]


@pytest.mark.parametrize(("client", "broker"), BRIDGED, ids=lambda version: version.decode())
def test_a_message_after_unsubscribe_can_be_acknowledged(client: bytes, broker: bytes) -> None:
    """What was on its way when the client unsubscribed is acknowledged as any other (1.2: MESSAGE MUST have `ack`)."""
    conversation = CONVERSATIONS[client, broker]
    name = b"" if broker != b"1.0" else b"subscription:0\n"
    with subscribed(client, broker) as play:
        play.client_says(conversation.unsubscribe[0])
        play.broker_gets(conversation.unsubscribe[1])
        play.broker_says(conversation.message[0].replace(b"MESSAGE\n", b"MESSAGE\n" + name))
        delivered = play.client_reads()
        assert client != b"1.2" or b"\nack:" in delivered
        play.client_says(conversation.ack[0])
        assert play.broker_reads().startswith(b"ACK\n")
        play.both_stay()


@in_all_cuts
@pytest.mark.parametrize(
    ("client", "broker"),
    [pair for pair in PAIRS if pair[1] != b"1.0"],
    ids=lambda version: version.decode(),
)
def test_a_repeated_subscription_header(client: bytes, broker: bytes, cut: Cut) -> None:
    """A publisher's own `subscription` comes behind the broker's, and the first counts."""
    with subscribed(client, broker, cut) as play:
        message, delivered = CONVERSATIONS[client, broker].message
        play.broker_says(message.replace(b"\n\nhi", b"\nsubscription:forged\n\nhi"))
        told = play.client_reads()
        if client == b"1.0" != broker:
            assert told == delivered  # both are gone
        else:
            assert told == delivered.replace(b"\n\nhi", b"\nsubscription:forged\n\nhi")


@in_all_cuts
@in_all_pairs
def test_receipt_and_transaction_of_a_publisher_pass(client: bytes, broker: bytes, cut: Cut) -> None:
    """Some brokers leave them on the MESSAGE; they pass as they came, and mean nothing to the relay."""
    with subscribed(client, broker, cut) as play:
        message, delivered = (
            frame.replace(b"\n\nhi", b"\nreceipt:1\ntransaction:t\n\nhi")
            for frame in CONVERSATIONS[client, broker].message
        )
        play.broker_says(message)
        play.client_gets(delivered)


@in_all_cuts
@pytest.mark.parametrize(("client", "broker"), BRIDGED, ids=lambda version: version.decode())
def test_a_message_without_message_id(client: bytes, broker: bytes, cut: Cut) -> None:
    """A MESSAGE to be acknowledged that nothing could name ends the session: the broker broke the protocol."""
    message = CONVERSATIONS[client, broker].message[0]
    with subscribed(client, broker, cut) as play:
        play.broker_says(message.replace(b"message-id:ID", b"x:ID"))
        play.client_gets_error(b"the broker sent what is not STOMP")
        play.broker_is_closed()


# ACK and NACK

# How the n-th message ("m1", "m2" ...) of subscription "a" or "b" is acknowledged by a client of each version; on
# 1.2 toward a broker of another version the relay's own token counts deliveries.
TWO = (
    b"SUBSCRIBE\nid:a\ndestination:/topic/t\nack:%b\n\n\0SUBSCRIBE\nid:b\ndestination:/topic/t\nack:%b\n\n\0"
)


def said_by_broker(version: bytes, subscription: bytes, message: bytes) -> bytes:
    """A MESSAGE as a broker of this version writes it."""
    ack = b"ack:k-" + subscription + b"-" + message + b"\n" if version == b"1.2" else b""
    return b"MESSAGE\nsubscription:" + subscription + b"\nmessage-id:" + message + b"\n" + ack + b"\nhi\0"


def named_by_client(version: bytes, broker: bytes, subscription: bytes, message: bytes, count: int) -> bytes:
    """The headers with which a client of this version acknowledges the `count`-th delivery."""
    if version == b"1.0":
        return b"message-id:" + message + b"\n"
    if version == b"1.1":
        return b"subscription:" + subscription + b"\nmessage-id:" + message + b"\n"
    if broker == b"1.2":
        return b"id:k-" + subscription + b"-" + message + b"\n"
    return b"id:relay-ack-%d\n" % count


def named_to_broker(version: bytes, client: bytes, subscription: bytes, message: bytes) -> bytes:
    """The headers with which a broker of this version is to be told."""
    if version == b"1.2":
        return b"id:k-" + subscription + b"-" + message + b"\n"
    if version == b"1.0" == client:
        return b"message-id:" + message + b"\n"
    return b"subscription:" + subscription + b"\nmessage-id:" + message + b"\n"


@in_all_cuts
@in_all_pairs
def test_two_subscriptions_on_one_topic(client: bytes, broker: bytes, cut: Cut) -> None:
    """Both are delivered one message under one message-id; each ACK settles one delivery, the oldest first."""
    with joined(client, broker, cut=cut) as play:
        play.client_says(TWO % (b"client-individual", b"client-individual"))
        play.broker_reads()
        play.broker_says(said_by_broker(broker, b"a", b"m1") + said_by_broker(broker, b"b", b"m1"))
        play.client_reads()
        for count, subscription in ((1, b"a"), (2, b"b")):
            play.client_says(b"ACK\n" + named_by_client(client, broker, subscription, b"m1", count) + b"\n\0")
            play.broker_gets(b"ACK\n" + named_to_broker(broker, client, subscription, b"m1") + b"\n\0")
        play.both_stay()


@in_all_cuts
@pytest.mark.parametrize(("client", "broker"), BRIDGED, ids=lambda version: version.decode())
def test_a_cumulative_ack_settles_its_own_subscription_only(client: bytes, broker: bytes, cut: Cut) -> None:
    """In mode `client` one ACK goes to the broker and stands for all earlier deliveries of that subscription."""
    with joined(client, broker, cut=cut) as play:
        play.client_says(TWO % (b"client", b"client"))
        play.broker_reads()
        for subscription, message in ((b"a", b"m1"), (b"b", b"m2"), (b"a", b"m3"), (b"a", b"m4")):
            play.broker_says(said_by_broker(broker, subscription, message))
        play.client_reads()
        play.client_says(b"ACK\n" + named_by_client(client, broker, b"a", b"m3", 3) + b"\n\0")
        play.broker_gets(b"ACK\n" + named_to_broker(broker, client, b"a", b"m3") + b"\n\0")
        # b's older delivery and a's newer one still await theirs
        play.client_says(b"ACK\n" + named_by_client(client, broker, b"b", b"m2", 2) + b"\n\0")
        play.broker_gets(b"ACK\n" + named_to_broker(broker, client, b"b", b"m2") + b"\n\0")
        play.client_says(b"ACK\n" + named_by_client(client, broker, b"a", b"m4", 4) + b"\n\0")
        play.broker_gets(b"ACK\n" + named_to_broker(broker, client, b"a", b"m4") + b"\n\0")
        # a's first went with its third
        play.client_says(b"ACK\n" + named_by_client(client, broker, b"a", b"m1", 1) + b"\n\0")
        play.client_gets_error(b"ACK names no message that awaits one")


@in_all_cuts
@pytest.mark.parametrize(("client", "broker"), BRIDGED, ids=lambda version: version.decode())
def test_individual_acks_in_any_order(client: bytes, broker: bytes, cut: Cut) -> None:
    """In mode `client-individual` each ACK settles one delivery and no other."""
    with joined(client, broker, cut=cut) as play:
        play.client_says(TWO % (b"client-individual", b"auto"))
        play.broker_reads()
        play.broker_says(b"".join(said_by_broker(broker, b"a", b"m%d" % n) for n in (1, 2, 3, 4)))
        play.client_reads()
        for n in (3, 1, 4, 2):
            play.client_says(b"ACK\n" + named_by_client(client, broker, b"a", b"m%d" % n, n) + b"\n\0")
            play.broker_gets(b"ACK\n" + named_to_broker(broker, client, b"a", b"m%d" % n) + b"\n\0")


@in_all_cuts
@pytest.mark.parametrize("command", [b"ACK", b"NACK"], ids=bytes.decode)
@in_all_pairs
def test_an_unknown_delivery(client: bytes, broker: bytes, command: bytes, cut: Cut) -> None:
    """Between equals the broker judges; between versions nothing could be told it, so the client is told."""
    frame = command + b"\n" + named_by_client(client, broker, b"a", b"none", 99) + b"receipt:7\n\n\0"
    with subscribed(client, broker, cut) as play:
        play.client_says(frame)
        if client == broker:
            play.broker_gets(frame)
        elif command == b"NACK" and broker == b"1.0":
            play.client_gets_error(b"NACK cannot be said to the broker", receipt=b"7")
        else:
            play.client_gets_error(command + b" names no message that awaits one", receipt=b"7")


@in_all_cuts
@pytest.mark.parametrize(("client", "broker"), BRIDGED, ids=lambda version: version.decode())
def test_an_ack_twice(client: bytes, broker: bytes, cut: Cut) -> None:
    """The second names nothing any more."""
    conversation = CONVERSATIONS[client, broker]
    with subscribed(client, broker, cut) as play:
        play.broker_says(conversation.message[0])
        play.client_gets(conversation.message[1])
        play.client_says(conversation.ack[0] * 2)
        play.broker_gets(conversation.ack[1])
        play.client_gets_error(b"ACK names no message that awaits one")


@in_all_cuts
@pytest.mark.parametrize(("client", "broker"), BRIDGED, ids=lambda version: version.decode())
def test_an_ack_in_auto_mode(client: bytes, broker: bytes, cut: Cut) -> None:
    """All brokers refuse it; between versions the relay does, for it keeps no account of such deliveries."""
    with joined(client, broker, cut=cut) as play:
        play.client_says(TWO % (b"auto", b"auto"))
        play.broker_reads()
        play.broker_says(said_by_broker(broker, b"a", b"m1"))
        play.client_reads()
        play.client_says(b"ACK\n" + named_by_client(client, broker, b"a", b"m1", 1) + b"\n\0")
        play.client_gets_error(b"ACK names no message that awaits one")


@in_all_cuts
@pytest.mark.parametrize(("client", "broker"), BRIDGED, ids=lambda version: version.decode())
def test_an_ack_that_names_nothing(client: bytes, broker: bytes, cut: Cut) -> None:
    """An ACK without any name is refused."""
    with subscribed(client, broker, cut) as play:
        play.client_says(b"ACK\nreceipt:1\n\n\0")
        play.client_gets_error(b"ACK names no message that awaits one", receipt=b"1")


@in_all_cuts
@pytest.mark.parametrize("broker", [b"1.0", b"1.1"], ids=bytes.decode)
def test_a_1_2_client_that_acknowledges_the_1_1_way(broker: bytes, cut: Cut) -> None:
    """Some libraries say message-id and subscription on 1.2 too: across versions they are understood."""
    with joined(b"1.2", broker, cut=cut) as play:
        play.client_says(TWO % (b"client-individual", b"client-individual"))
        play.broker_reads()
        play.broker_says(said_by_broker(broker, b"a", b"m1") + said_by_broker(broker, b"b", b"m1"))
        play.client_reads()
        play.client_says(b"ACK\nmessage-id:m1\nsubscription:b\n\n\0")
        play.broker_gets(b"ACK\nsubscription:b\nmessage-id:m1\n\n\0")
        play.client_says(b"ACK\nmessage-id:m1\n\n\0")
        play.broker_gets(b"ACK\nsubscription:a\nmessage-id:m1\n\n\0")


@in_all_cuts
@pytest.mark.parametrize("broker", [b"1.0", b"1.1"], ids=bytes.decode)
def test_no_id_reaches_a_broker_below_1_2(broker: bytes, cut: Cut) -> None:
    """ActiveMQ looks at `id` first in every version and then knows no such delivery."""
    with subscribed(b"1.2", broker, cut) as play:
        play.broker_says(CONVERSATIONS[b"1.2", broker].message[0])
        play.client_reads()
        play.client_says(b"ACK\nid:relay-ack-1\nid:relay-ack-9\n\n\0")
        told = play.broker_reads()
        assert told.startswith(b"ACK\n")
        assert b"\nid:" not in told


@in_all_cuts
@pytest.mark.parametrize("client", [b"1.0", b"1.1"], ids=bytes.decode)
def test_a_1_2_broker_that_gave_no_ack_header(client: bytes, cut: Cut) -> None:
    """Nothing can be told such a broker: the client learns why."""
    with subscribed(client, b"1.2", cut) as play:
        conversation = CONVERSATIONS[client, b"1.2"]
        play.broker_says(conversation.message[0].replace(b"ack:ID\\ch-2\\c7\n", b""))
        play.client_gets(conversation.message[1])
        play.client_says(conversation.ack[0])
        play.client_gets_error(b"ACK is not possible")


@in_all_cuts
@pytest.mark.parametrize("client", [b"1.0", b"1.1"], ids=bytes.decode)
def test_of_two_ack_headers_the_first_is_the_brokers(client: bytes, cut: Cut) -> None:
    """RabbitMQ writes its own first and lets a publisher's follow: the first is used, neither is shown."""
    with subscribed(client, b"1.2", cut) as play:
        conversation = CONVERSATIONS[client, b"1.2"]
        play.broker_says(conversation.message[0].replace(b"\n\nhi", b"\nack:forged\n\nhi"))
        play.client_gets(conversation.message[1])
        play.client_says(conversation.ack[0])
        play.broker_gets(conversation.ack[1])


@in_all_cuts
@pytest.mark.parametrize("broker", [b"1.0", b"1.1"], ids=bytes.decode)
def test_a_publishers_ack_header_never_replaces_ours(broker: bytes, cut: Cut) -> None:
    """Below 1.2 an ack header is anybody's; the client gets the relay's and only that."""
    with subscribed(b"1.2", broker, cut) as play:
        conversation = CONVERSATIONS[b"1.2", broker]
        play.broker_says(conversation.message[0].replace(b"\n\nhi", b"\nack:relay-ack-7\n\nhi"))
        play.client_gets(conversation.message[1])


@in_all_cuts
@pytest.mark.parametrize("client", [b"1.0", b"1.1"], ids=bytes.decode)
def test_tokens_are_harmless(client: bytes, cut: Cut) -> None:
    """The names that the relay makes need no escape in any version and survive every client library."""
    with joined(b"1.2", b"1.1", cut=cut) as play:
        play.client_says(b"SUBSCRIBE\nid:0\ndestination:/queue/a\nack:client-individual\n\n\0")
        play.broker_reads()
        for n in range(1, 12):
            play.broker_says(b"MESSAGE\nsubscription:0\nmessage-id:%d\n\n\0" % n)
            play.client_gets(b"MESSAGE\nack:relay-ack-%d\nsubscription:0\nmessage-id:%d\n\n\0" % (n, n))
    with joined(client, b"1.2", cut=cut) as play:
        said, told = CONVERSATIONS[client, b"1.2"].subscribe
        play.client_says(said)
        play.broker_gets(told)
        assert set(told.split(b"id:")[1].split(b"\n")[0]) <= set(
            b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-",
        )


# Transactions


@in_all_cuts
@in_all_pairs
def test_a_transaction(client: bytes, broker: bytes, cut: Cut) -> None:
    """BEGIN, SEND, ACK and COMMIT pass under the client's name for the transaction."""
    spelled = {b"1.0": b"t:1", b"1.1": b"t\\c1", b"1.2": b"t\\c1"}
    conversation = CONVERSATIONS[client, broker]
    ours, theirs = b"transaction:" + spelled[client] + b"\n", b"transaction:" + spelled[broker] + b"\n"
    with subscribed(client, broker, cut) as play:
        play.broker_says(conversation.message[0])
        play.client_reads()
        play.client_says(b"BEGIN\n" + ours + b"\n\0")
        play.broker_gets(b"BEGIN\n" + theirs + b"\n\0")
        play.client_says(b"SEND\ndestination:/queue/b\n" + ours + b"\nx\0")
        play.broker_gets(b"SEND\ndestination:/queue/b\n" + theirs + b"\nx\0")
        play.client_says(conversation.ack[0].replace(b"foo:bar\n", ours))
        play.broker_gets(conversation.ack[1].replace(b"foo:bar\n", theirs))
        play.client_says(b"COMMIT\n" + ours + b"\n\0")
        play.broker_gets(b"COMMIT\n" + theirs + b"\n\0")
        play.both_stay()


@in_all_cuts
@pytest.mark.parametrize(("client", "broker"), BRIDGED, ids=lambda version: version.decode())
def test_an_abort_brings_deliveries_back(client: bytes, broker: bytes, cut: Cut) -> None:
    """An ACK in a transaction that is aborted did not happen: the delivery can be acknowledged again."""
    conversation = CONVERSATIONS[client, broker]
    said, told = (frame.replace(b"foo:bar\n", b"transaction:t\n") for frame in conversation.ack)
    with subscribed(client, broker, cut) as play:
        play.broker_says(conversation.message[0])
        play.client_reads()
        for _ in range(3):
            play.client_says(b"BEGIN\ntransaction:t\n\n\0" + said + b"ABORT\ntransaction:t\n\n\0")
            play.broker_gets(b"BEGIN\ntransaction:t\n\n\0" + told + b"ABORT\ntransaction:t\n\n\0")
        play.client_says(conversation.ack[0])
        play.broker_gets(conversation.ack[1])
        play.both_stay()


@in_all_cuts
@pytest.mark.parametrize(("client", "broker"), BRIDGED, ids=lambda version: version.decode())
def test_a_commit_settles_for_good(client: bytes, broker: bytes, cut: Cut) -> None:
    """After COMMIT the delivery is gone, and a later ABORT of that name brings nothing back."""
    conversation = CONVERSATIONS[client, broker]
    said, told = (frame.replace(b"foo:bar\n", b"transaction:t\n") for frame in conversation.ack)
    with subscribed(client, broker, cut) as play:
        play.broker_says(conversation.message[0])
        play.client_reads()
        for frame in (said, b"COMMIT\ntransaction:t\n\n\0", b"ABORT\ntransaction:t\n\n\0"):
            play.client_says(frame)
            play.broker_gets(frame if frame != said else told)
        play.client_says(conversation.ack[0])
        play.client_gets_error(b"ACK names no message that awaits one")


@in_all_cuts
@pytest.mark.parametrize(("client", "broker"), BRIDGED, ids=lambda version: version.decode())
def test_an_abort_brings_cumulative_acks_back_in_order(client: bytes, broker: bytes, cut: Cut) -> None:
    """All that one ACK settled comes back, and one cumulative ACK settles it all again."""
    with joined(client, broker, cut=cut) as play:
        play.client_says(TWO % (b"client", b"client"))
        play.broker_reads()
        play.broker_says(b"".join(said_by_broker(broker, b"a", b"m%d" % n) for n in (1, 2, 3)))
        play.client_reads()
        second = named_by_client(client, broker, b"a", b"m2", 2)
        play.client_says(
            b"BEGIN\ntransaction:t\n\n\0ACK\n" + second + b"transaction:t\n\n\0ABORT\ntransaction:t\n\n\0"
        )
        play.broker_reads()
        play.client_says(b"ACK\n" + second + b"\n\0")
        play.broker_gets(b"ACK\n" + named_to_broker(broker, client, b"a", b"m2") + b"\n\0")
        play.client_says(b"ACK\n" + named_by_client(client, broker, b"a", b"m3", 3) + b"\n\0")
        play.broker_gets(b"ACK\n" + named_to_broker(broker, client, b"a", b"m3") + b"\n\0")
        play.client_says(b"ACK\n" + named_by_client(client, broker, b"a", b"m1", 1) + b"\n\0")
        play.client_gets_error(b"ACK names no message that awaits one")


@pytest.mark.parametrize("broker", [b"1.1", b"1.2"], ids=bytes.decode)
def test_an_abort_brings_the_oldest_back_first(broker: bytes) -> None:
    """A 1.0 client names but the message: of two deliveries of it the older is meant, after an ABORT as before."""
    with joined(b"1.0", broker) as play:
        play.client_says(TWO % (b"client-individual", b"client-individual"))
        play.broker_reads()
        play.broker_says(said_by_broker(broker, b"a", b"m1") + said_by_broker(broker, b"b", b"m1"))
        play.client_reads()
        play.client_says(
            b"BEGIN\ntransaction:t\n\n\0ACK\nmessage-id:m1\ntransaction:t\n\n\0ABORT\ntransaction:t\n\n\0"
        )
        play.broker_reads()
        play.client_says(b"ACK\nmessage-id:m1\n\n\0")
        play.broker_gets(b"ACK\n" + named_to_broker(broker, b"1.0", b"a", b"m1") + b"\n\0")


@in_all_cuts
@in_all_pairs
def test_unknown_and_repeated_transactions_are_the_brokers(client: bytes, broker: bytes, cut: Cut) -> None:
    """Bridging needs no knowledge of transaction names, so the broker judges them."""
    with joined(client, broker, cut=cut) as play:
        for frame in (
            b"COMMIT\ntransaction:none\n\n\0",
            b"ABORT\ntransaction:none\n\n\0",
            b"BEGIN\ntransaction:t\n\n\0",
            b"BEGIN\ntransaction:t\n\n\0",
            b"SEND\ndestination:/queue/a\ntransaction:none\n\nx\0",
        ):
            play.client_says(frame)
            play.broker_gets(frame)
        play.both_stay()


def test_open_transactions_are_bounded() -> None:
    """A client that begins without end is told so; how many is as many as it may owe ACKs."""
    with joined(b"1.2", b"1.2", unacknowledged=3) as play:
        for n in range(3):
            play.client_says(b"BEGIN\ntransaction:%d\n\n\0" % n)
            play.broker_gets(b"BEGIN\ntransaction:%d\n\n\0" % n)
        play.client_says(b"BEGIN\ntransaction:3\nreceipt:b\n\n\0")
        play.client_gets_error(b"too many open transactions", receipt=b"b")


# The table of steps


@pytest.mark.parametrize(("client", "broker"), PAIRS, ids=lambda version: version.decode())
def test_every_command_of_a_client_has_its_place(client: bytes, broker: bytes) -> None:
    """A command either needs no step, or has one, or cannot be said to the broker: nothing else is in the table."""
    edits = steps_between(DIALECTS[client], DIALECTS[broker])
    commands = EXPECTED[Side.DOWNSTREAM, State.CONNECTED] | EXPECTED[Side.UPSTREAM, State.CONNECTED]
    assert set(edits) <= commands
    assert (b"ACK" in edits) == (DIALECTS[client].delivery is not DIALECTS[broker].delivery)
    same = steps_between(DIALECTS[client], DIALECTS[client])
    assert set(same) == {b"SEND", b"SUBSCRIBE", b"UNSUBSCRIBE", b"BEGIN", b"COMMIT", b"ABORT"}


# Sessions that may move to another broker keep account of deliveries whatever the versions.


@in_all_cuts
@pytest.mark.parametrize("version", DIALECTS, ids=bytes.decode)
@pytest.mark.parametrize("mode", [b"auto", b"client", b"client-individual"], ids=bytes.decode)
def test_account_is_kept_without_a_trace(version: bytes, mode: bytes, cut: Cut) -> None:
    """Where both sides speak one version, all octets of MESSAGEs, ACKs and NACKs pass as they came."""
    with started(version, cut=cut) as play:
        subscribe = b"SUBSCRIBE\r\n" if version == b"1.2" else b"SUBSCRIBE\n"
        subscribe += b"id:1\ndestination:/queue/a\nack:" + mode + b"\nx:a b \n\n\0"
        play.client_says(subscribe)
        play.broker_gets(subscribe)
        ack = b"ack:k\\c1\n" if version == b"1.2" else b""
        message = (
            b"MESSAGE\nsubscription:1\nmessage-id:m 1\n" + ack + b"destination:/queue/a\nx: \xff\nx:2\n\nb\0"
        )
        play.broker_says(message)
        play.client_gets(message)
        if mode != b"auto":
            named = {
                b"1.0": b"message-id:m 1\n",
                b"1.1": b"subscription:1\nmessage-id:m 1\n",
                b"1.2": b"id:k\\c1\n",
            }
            said = b"ACK\nfoo:bar\n" + named[version] + b"foo: baz\n\n\0"
            play.client_says(said)
            play.broker_gets(said)
        session = play.relay.session
        assert session is not None
        assert len(session.ledger) == 0
        play.both_stay()


@in_all_cuts
@pytest.mark.parametrize("version", DIALECTS, ids=bytes.decode)
def test_what_names_no_delivery_passes_all_the_same(version: bytes, cut: Cut) -> None:
    """As long as no broker was lost the broker judges: the relay knows no more than it."""
    with started(version, cut=cut) as play:
        said = b"ACK\nmessage-id:unknown\nsubscription:1\nid:unknown\n\n\0"
        play.client_says(said)
        play.broker_gets(said)
        message = b"MESSAGE\nmessage-id:m\ndestination:/queue/unknown\n\nx\0"
        play.broker_says(message)
        play.client_gets(message)
        play.both_stay()


@in_all_pairs
def test_without_acknowledging_subscriptions_nothing_is_kept(client: bytes, broker: bytes) -> None:
    """In auto mode there is nothing to keep account of."""
    with started(client, broker) as play:
        play.client_says(b"SUBSCRIBE\nid:1\ndestination:/queue/a\n\n\0")
        play.broker_reads()
        for n in range(5):
            play.broker_says(b"MESSAGE\nsubscription:1\nmessage-id:%d\ndestination:/queue/a\n\nx\0" % n)
        assert play.client_reads().count(b"\0") == 5
        session = play.relay.session
        assert session is not None
        assert len(session.ledger) == 0
        assert session.quiet
