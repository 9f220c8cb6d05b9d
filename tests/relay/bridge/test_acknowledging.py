"""ACK, NACK and transactions through all nine pairs: under which names deliveries are settled, and what is refused."""

import pytest

from tests.playbook import Cut, in_all_cuts, in_all_pairs, joined
from tests.relay.bridge.conversation import BRIDGED, CONVERSATIONS, subscribed

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
    """The headers with which a broker of this version is to be sent them."""
    if version == b"1.2":
        return b"id:k-" + subscription + b"-" + message + b"\n"
    if version == b"1.0" == client:
        return b"message-id:" + message + b"\n"
    return b"subscription:" + subscription + b"\nmessage-id:" + message + b"\n"


@in_all_pairs
def test_two_subscriptions_on_one_topic(client: bytes, broker: bytes) -> None:
    """Both are delivered one message under one message-id; each ACK settles one delivery, the oldest first."""
    with joined(client, broker) as play:
        play.client_said(TWO % (b"client-individual", b"client-individual"))
        play.broker_said(said_by_broker(broker, b"a", b"m1") + said_by_broker(broker, b"b", b"m1"))
        for count, subscription in ((1, b"a"), (2, b"b")):
            play.client_says(b"ACK\n" + named_by_client(client, broker, subscription, b"m1", count) + b"\n\0")
            play.broker_gets(b"ACK\n" + named_to_broker(broker, client, subscription, b"m1") + b"\n\0")
        play.both_stay()


@pytest.mark.parametrize(("client", "broker"), BRIDGED, ids=bytes.decode)
def test_a_cumulative_ack(client: bytes, broker: bytes) -> None:
    """It stands for all earlier deliveries of its subscription only, and an ABORT brings them back in order."""
    with joined(client, broker) as play:
        play.client_said(TWO % (b"client", b"client"))
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
    with joined(client, broker) as play:
        play.client_said(TWO % (b"client", b"client"))
        play.broker_said(b"".join(said_by_broker(broker, b"a", b"m%d" % n) for n in (1, 2, 3)))
        second = named_by_client(client, broker, b"a", b"m2", 2)
        play.client_said(
            b"BEGIN\ntransaction:t\n\n\0ACK\n" + second + b"transaction:t\n\n\0ABORT\ntransaction:t\n\n\0"
        )
        play.client_says(b"ACK\n" + second + b"\n\0")
        play.broker_gets(b"ACK\n" + named_to_broker(broker, client, b"a", b"m2") + b"\n\0")
        play.client_says(b"ACK\n" + named_by_client(client, broker, b"a", b"m3", 3) + b"\n\0")
        play.broker_gets(b"ACK\n" + named_to_broker(broker, client, b"a", b"m3") + b"\n\0")
        play.client_says(b"ACK\n" + named_by_client(client, broker, b"a", b"m1", 1) + b"\n\0")
        play.client_gets_error(b"ACK names no message that awaits one")


@pytest.mark.parametrize("command", [b"ACK", b"NACK"], ids=bytes.decode)
@in_all_pairs
def test_an_unknown_delivery(client: bytes, broker: bytes, command: bytes) -> None:
    """Between equals the broker judges; between versions it has no name for it: the client is sent an ERROR."""
    frame = command + b"\n" + named_by_client(client, broker, b"a", b"none", 99) + b"receipt:7\n\n\0"
    with subscribed(client, broker) as play:
        play.client_says(frame)
        if client == broker:
            play.broker_gets(frame)
        elif command == b"NACK" and broker == b"1.0":
            play.client_gets_error(b"NACK cannot be said to the broker", receipt=b"7")
        else:
            play.client_gets_error(command + b" names no message that awaits one", receipt=b"7")


@pytest.mark.parametrize("broker", [b"1.0", b"1.1"], ids=bytes.decode)
def test_a_1_2_client_of_an_older_broker(broker: bytes) -> None:
    """It may ACK the 1.1 way; no `id` reaches the broker, nor a publisher's `ack` the client in place of ours."""
    with joined(b"1.2", broker) as play:
        play.client_said(TWO % (b"client-individual", b"client-individual"))
        play.broker_said(said_by_broker(broker, b"a", b"m1") + said_by_broker(broker, b"b", b"m1"))
        play.client_says(b"ACK\nmessage-id:m1\nsubscription:b\n\n\0")
        play.broker_gets(b"ACK\nsubscription:b\nmessage-id:m1\n\n\0")
        play.client_tells_broker(b"ACK\nmessage-id:m1\n\n\0", b"ACK\nsubscription:a\nmessage-id:m1\n\n\0")
    with subscribed(b"1.2", broker) as play:
        play.broker_said(CONVERSATIONS[b"1.2", broker].message[0])
        play.client_says(b"ACK\nid:relay-ack-1\nid:relay-ack-9\n\n\0")
        told = play.broker_reads()
        assert told.startswith(b"ACK\n")
        assert b"\nid:" not in told
    with subscribed(b"1.2", broker) as play:
        conversation = CONVERSATIONS[b"1.2", broker]
        play.broker_says(conversation.message[0].replace(b"\n\nhi", b"\nack:relay-ack-7\n\nhi"))
        play.client_gets(conversation.message[1])


@pytest.mark.parametrize("client", [b"1.0", b"1.1"], ids=bytes.decode)
def test_a_1_2_broker_that_gave_no_ack_header(client: bytes) -> None:
    """There is no name to send such a broker: the client is sent an ERROR that tells why."""
    with subscribed(client, b"1.2") as play:
        conversation = CONVERSATIONS[client, b"1.2"]
        play.broker_says(conversation.message[0].replace(b"ack:ID\\ch-2\\c7\n", b""))
        play.client_gets(conversation.message[1])
        play.client_errs(conversation.ack[0], b"ACK is not possible")


# Transactions


@pytest.mark.parametrize("client", [b"1.0", b"1.1"], ids=bytes.decode)
def test_tokens_are_harmless(client: bytes) -> None:
    """The names that the relay makes need no escape in any version and survive every client library."""
    with joined(b"1.2", b"1.1") as play:
        play.client_said(b"SUBSCRIBE\nid:0\ndestination:/queue/a\nack:client-individual\n\n\0")
        for n in range(1, 12):
            play.broker_says(b"MESSAGE\nsubscription:0\nmessage-id:%d\n\n\0" % n)
            play.client_gets(b"MESSAGE\nack:relay-ack-%d\nsubscription:0\nmessage-id:%d\n\n\0" % (n, n))
    with joined(client, b"1.2") as play:
        said, told = CONVERSATIONS[client, b"1.2"].subscribe
        play.client_tells_broker(said, told)
        assert set(told.split(b"id:")[1].split(b"\n")[0]) <= set(
            b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
        )


@in_all_cuts
@in_all_pairs
def test_a_transaction(client: bytes, broker: bytes, cut: Cut) -> None:
    """BEGIN, SEND, ACK and COMMIT pass under the client's name for the transaction."""
    spelled = {b"1.0": b"t:1", b"1.1": b"t\\c1", b"1.2": b"t\\c1"}
    conversation = CONVERSATIONS[client, broker]
    ours, theirs = b"transaction:" + spelled[client] + b"\n", b"transaction:" + spelled[broker] + b"\n"
    with subscribed(client, broker, cut) as play:
        play.broker_said(conversation.message[0])
        play.client_tells_broker(b"BEGIN\n" + ours + b"\n\0", b"BEGIN\n" + theirs + b"\n\0")
        play.client_says(b"SEND\ndestination:/queue/b\n" + ours + b"\nx\0")
        play.broker_gets(b"SEND\ndestination:/queue/b\n" + theirs + b"\nx\0")
        play.client_says(conversation.ack[0].replace(b"foo:bar\n", ours))
        play.broker_gets(conversation.ack[1].replace(b"foo:bar\n", theirs))
        play.client_tells_broker(b"COMMIT\n" + ours + b"\n\0", b"COMMIT\n" + theirs + b"\n\0")
        play.both_stay()


@in_all_pairs
def test_unknown_and_repeated_transactions_are_the_brokers(client: bytes, broker: bytes) -> None:
    """Bridging needs no knowledge of transaction names, so the broker judges them."""
    with joined(client, broker) as play:
        for frame in (
            b"COMMIT\ntransaction:none\n\n\0",
            b"ABORT\ntransaction:none\n\n\0",
            b"BEGIN\ntransaction:t\n\n\0",
            b"BEGIN\ntransaction:t\n\n\0",
            b"SEND\ndestination:/queue/a\ntransaction:none\n\nx\0",
        ):
            play.client_tells_broker(frame)
        play.both_stay()
