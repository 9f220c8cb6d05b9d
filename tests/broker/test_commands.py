"""What a connected client's frames do, as scripts in literal bytes."""

from typing import Any

import pytest

from tests.broker.scene import Peer, Scene, header, in_every_version, in_named_versions

SEND_A = b"SEND\ndestination:/queue/a\n\n"

# Messages


def test_a_message_crosses_all_versions(scene: Scene) -> None:
    """The sender's escapes are read, the consumer's written; its own headers keep order and repetitions."""
    consumers = [scene.client(version) for version in (b"1.0", b"1.1", b"1.2")]
    for consumer in consumers:
        consumer.subscribes(b"/topic/a")
    sender = scene.client(b"1.2")
    sender.sends(
        b"SEND\ndestination:/topic/a\nz:1\\c2\na:\\r\\n\\\\\nz:3\ncontent-length:3\nreceipt:r\nmessage-id:forged\n\na\0b\0"
    )
    sender.receives(b"RECEIPT\nreceipt-id:r\n\n\0")
    start = b"MESSAGE\nsubscription:1\ndestination:/topic/a\nmessage-id:b-1\n"
    body = b"z:3\ncontent-length:3\n\na\0b\0"
    consumers[0].receives(start + b"z:1:2\na:\r \\\n" + body)
    consumers[1].receives(start + b"z:1\\c2\na:\r\\n\\\\\n" + body)
    consumers[2].receives(start + b"z:1\\c2\na:\\r\\n\\\\\n" + body)


def test_equal_heads_in_and_out_of_transactions(client: Peer) -> None:
    """A repeated head that names a transaction waits each time, and asks for its receipt each time."""
    client.subscribes(b"/queue/a")
    held = b"SEND\ndestination:/queue/a\ntransaction:t\nreceipt:r\n\n%d\0"
    client.sends(b"BEGIN\ntransaction:t\n\n\0" + held % 1 + held % 2 + SEND_A + b"3\0")
    frames = client.messages()
    assert frames[:2] == [b"RECEIPT\nreceipt-id:r\n\n"] * 2
    assert frames[2].endswith(b"\n\n3")
    client.sends(b"COMMIT\ntransaction:t\n\n\0")
    assert client.bodies() == [b"1", b"2"]


# SUBSCRIBE and UNSUBSCRIBE


@in_every_version
def test_the_receipt_comes_before_the_first_message(scene: Scene, version: bytes) -> None:
    """So a client knows its subscription before it hears of it."""
    client = scene.client(version)
    client.sends_to(b"/queue/a", b"1")
    client.subscribes(b"/queue/a", more=b"receipt:r\n")
    client.receives(
        b"RECEIPT\nreceipt-id:r\n\n\0MESSAGE\nsubscription:1\ndestination:/queue/a\nmessage-id:b-1\n\n1\0"
    )


def test_subscriptions_of_1_0_need_no_name(scene: Scene) -> None:
    """Several to one destination are told apart by age; MESSAGE then names none."""
    client = scene.client(b"1.0")
    subscribe = b"SUBSCRIBE\ndestination: /queue/a\n\n\0"
    client.sends(subscribe + subscribe)
    client.sends_to(b"/queue/a", b"1")
    client.receives(b"MESSAGE\ndestination:/queue/a\nmessage-id:b-1\n\n1\0")
    unsubscribe = b"UNSUBSCRIBE\ndestination:/queue/a\nreceipt:r\n\n\0"
    client.sends(unsubscribe)
    client.sends_to(b"/queue/a", b"2")
    assert client.messages()[-1].endswith(b"\n\n2")
    client.sends(unsubscribe)
    client.sends_to(b"/queue/a", b"3")
    client.receives(b"RECEIPT\nreceipt-id:r\n\n\0")
    client.sends(unsubscribe)
    client.receives_error(b"UNSUBSCRIBE names no open subscription", receipt=b"r")


def test_subscriptions_of_1_0_end_oldest_first() -> None:
    """Whatever the order in which they were served."""
    scene = Scene(burst=1)
    client = scene.client(b"1.0")
    client.subscribes(b"/topic/a", id=b"old")
    client.subscribes(b"/topic/a", id=b"new")
    client.stops_reading()
    scene.client().sends_to(b"/topic/a", b"1", b"2")
    client.reads_again()
    client.stops_reading()
    client.sends(b"UNSUBSCRIBE\ndestination:/topic/a\n\n\0")
    client.reads_again()
    scene.time_passes(0)
    client.reads()
    scene.client().sends_to(b"/topic/a", b"3")
    assert [header(frame, b"subscription") for frame in client.messages()] == [b"new"]


@in_every_version
def test_an_id_can_be_used_again_when_it_is_free(scene: Scene, version: bytes) -> None:
    """And not before."""
    client = scene.client(version)
    client.subscribes(b"/queue/a")
    client.sends(b"UNSUBSCRIBE\nid:1\nreceipt:u\n\n\0")
    client.subscribes(b"/queue/b")
    client.receives(b"RECEIPT\nreceipt-id:u\n\n\0")
    client.subscribes(b"/queue/c", more=b"receipt:r\n")
    client.receives_error(b"SUBSCRIBE repeats the id of an open subscription", receipt=b"r")
    assert len(scene.broker.destinations.kept) == 0


@pytest.mark.parametrize(
    ("frame", "message", "detail"),
    [
        (b"SUBSCRIBE\nid:1\n", b"SUBSCRIBE needs a destination header", b""),
        (b"SUBSCRIBE\nid:1\ndestination:\n", b"invalid destination", b"''"),
        (b"SUBSCRIBE\nid:1\ndestination:/topic/\n", b"invalid destination", b"/topic/"),
        (
            b"SUBSCRIBE\nid:1\ndestination:a\nack:server\n",
            b"SUBSCRIBE has an unknown ack mode",
            b"auto, client, client-individual",
        ),
        (b"SUBSCRIBE\nid:1\ndestination:a\nselector:x > 1\n", b"selectors are not supported", b""),
        (b"SUBSCRIBE\nid:1\ndestination:a\nbrowser:true\n", b"browsing is not supported", b""),
        (
            b"SUBSCRIBE\nid:1\ndestination:a\nprefetch-count:many\n",
            b"prefetch-count is not a number",
            b"many",
        ),
        (b"SUBSCRIBE\nid:1\ndestination:a\nprefetch-count:-1\n", b"prefetch-count is not a number", b"-1"),
        (b"UNSUBSCRIBE\nid:1\n", b"UNSUBSCRIBE names no open subscription", b""),
        (b"SEND\n", b"SEND needs a destination header", b""),
        (b"SEND\ndestination:/queue/\n", b"invalid destination", b"/queue/"),
        (b"SEND\ndestination:a\ntransaction:t\n", b"unknown transaction", b"'t'"),
        (b"BEGIN\n", b"BEGIN needs a transaction header", b""),
        (b"COMMIT\n", b"COMMIT needs a transaction header", b""),
        (b"ABORT\n", b"ABORT needs a transaction header", b""),
        (b"COMMIT\ntransaction:t\n", b"unknown transaction", b"'t'"),
        (b"ABORT\ntransaction:t\n", b"unknown transaction", b"'t'"),
        (b"ACK\n", b"ACK needs an id header", b""),
        (b"ACK\nmessage-id:b-1\nsubscription:1\n", b"ACK needs an id header", b""),
        (b"ACK\nid:1-b-1\n", b"ACK names no message that awaits one", b""),
        (b"ACK\nid:nonsense\n", b"ACK names no message that awaits one", b""),
        (b"NACK\nid:1-b-1\n", b"NACK names no message that awaits one", b""),
        (b"ACK\nid:1-b-1\ntransaction:t\n", b"unknown transaction", b"'t'"),
    ],
)
def test_what_cannot_be_followed_is_refused(
    scene: Scene, client: Peer, other: Peer, frame: bytes, message: bytes, detail: bytes
) -> None:
    """In one line, under the receipt's id; the frames before it count, those behind it do not."""
    other.subscribes(b"/queue/other")
    before, behind = b"SEND\ndestination:/queue/other\n\n1\0", b"SEND\ndestination:/queue/other\n\n2\0"
    client.sends(before + frame + b"receipt:r\n\n\0" + behind)
    client.receives_error(message, receipt=b"r", detail=detail)
    assert other.bodies() == [b"1"]
    assert other.closed is None
    other.is_lost()
    assert (len(scene.broker.connections), len(scene.broker.destinations.kept), scene.memory) == (0, 0, 0)


@pytest.mark.parametrize(
    ("version", "frame", "message"),
    [
        (b"1.0", b"NACK\nmessage-id:b-1\n", b"STOMP 1.0 has no NACK"),
        (b"1.0", b"ACK\nid:b-1\n", b"ACK needs a message-id header"),
        (b"1.0", b"ACK\nmessage-id:b-9\n", b"ACK names no message that awaits one"),
        (b"1.0", b"UNSUBSCRIBE\n", b"UNSUBSCRIBE needs an id or a destination header"),
        (b"1.1", b"SUBSCRIBE\ndestination:/queue/a\n", b"SUBSCRIBE needs an id header"),
        (b"1.1", b"UNSUBSCRIBE\ndestination:/queue/a\n", b"UNSUBSCRIBE needs an id header"),
        (b"1.1", b"ACK\nmessage-id:b-1\n", b"ACK needs a subscription header"),
        (b"1.1", b"ACK\nsubscription:1\n", b"ACK needs a message-id header"),
        (b"1.1", b"ACK\nsubscription:9\nmessage-id:b-1\n", b"ACK names no message that awaits one"),
        (b"1.1", b"NACK\nsubscription:1\nmessage-id:b-9\n", b"NACK names no message that awaits one"),
        (b"1.2", b"UNSUBSCRIBE\ndestination:/queue/a\n", b"UNSUBSCRIBE needs an id header"),
    ],
)
def test_each_version_has_its_own_demands(scene: Scene, version: bytes, frame: bytes, message: bytes) -> None:
    """How an ACK names its message, how an UNSUBSCRIBE its subscription, what NACK is."""
    client = scene.client(version)
    client.subscribes(b"/queue/a", b"client")
    client.sends_to(b"/queue/a", b"1")
    client.sends(frame + b"receipt:r\n\n\0")
    client.receives_error(message, receipt=b"r")
    assert scene.kept == {b"/queue/a": 1}


@pytest.mark.parametrize(
    "line", [b"selector:\n", b"browser:false\n", b"durable:true\n", b"prefetch-count:0\n"]
)
def test_what_asks_for_nothing_special_is_no_error(line: bytes) -> None:
    """An empty selector selects all; what a durable broker would do is not missed while the process lives."""
    client = Scene().client()
    client.subscribes(b"/queue/a", b"client", more=line)
    client.sends_to(b"/queue/a", b"1")
    assert client.bodies() == [b"1"]


def test_what_other_brokers_give_a_meaning() -> None:
    """It passes and has none: a name is a name, a header is a header."""
    client = Scene().client()
    client.subscribes(b"/queue/>")
    client.subscribes(b"/queue/*", id=b"2")
    lines = b"persistent:true\nexpires:1\npriority:9\nreply-to:/temp-queue/r\n"
    client.sends(b"SEND\ndestination:/queue/a\n%b\nx\0" % lines)
    assert client.bodies() == []
    client.subscribes(b"/queue/a", id=b"3")
    [message] = client.messages()
    assert message.endswith(b"\n%b\nx" % lines)


# ACK and NACK


@in_every_version
def test_auto_needs_no_ack(scene: Scene, version: bytes) -> None:
    """What was sent is gone; a client that leaves gives nothing back. An ACK would name nothing."""
    client = scene.client(version)
    client.subscribes(b"/queue/a")
    client.sends_to(b"/queue/a", b"1")
    (message,) = client.messages()
    assert b"\nack:" not in message
    assert scene.memory == 0
    if version != b"1.2":
        client.acknowledges(b"ACK", message)
        client.receives_error(b"ACK names no message that awaits one")


@in_every_version
def test_an_individual_ack_settles_one_message(scene: Scene, version: bytes) -> None:
    """The others go to the next consumer, in order, marked as redelivered."""
    client, other = scene.client(version), scene.client(version)
    client.subscribes(b"/queue/a", b"client-individual")
    client.sends_to(b"/queue/a", b"1", b"2", b"3")
    messages = client.messages()
    client.acknowledges(b"ACK", messages[1], b"receipt:r\n")
    client.receives(b"RECEIPT\nreceipt-id:r\n\n\0")
    other.subscribes(b"/queue/a", b"client-individual", id=b"x")
    client.is_lost()
    again = other.messages()
    assert [message.rpartition(b"\n")[2] for message in again] == [b"1", b"3"]
    assert all(header(message, b"redelivered") == b"true" for message in again)
    assert all(header(message, b"subscription") == b"x" for message in again)
    assert header(again[0], b"message-id") == header(messages[0], b"message-id")
    for message in again:
        other.acknowledges(b"ACK", message)
    assert (scene.memory, scene.kept) == (0, {b"/queue/a": 0})


@in_every_version
def test_a_cumulative_ack_settles_all_before_it(scene: Scene, version: bytes) -> None:
    """On its subscription only."""
    client, other = scene.client(version), scene.client()
    client.subscribes(b"/queue/a", b"client", id=b"1")
    client.subscribes(b"/queue/b", b"client", id=b"2")
    client.sends_to(b"/queue/b", b"b1")
    client.sends_to(b"/queue/a", b"a1", b"a2", b"a3")
    client.acknowledges(b"ACK", client.messages()[2])
    assert scene.kept == {b"/queue/a": 1, b"/queue/b": 1}
    client.sends(b"DISCONNECT\n\n\0")
    other.subscribes(b"/queue/a", id=b"1")
    other.subscribes(b"/queue/b", id=b"2")
    assert other.bodies() == [b"a3", b"b1"]


def test_one_message_on_two_subscriptions_of_1_1(scene: Scene) -> None:
    """The subscription says which delivery is meant."""
    client = scene.client(b"1.1")
    client.subscribes(b"/topic/a", b"client", id=b"1")
    client.subscribes(b"/topic/a", b"client", id=b"2")
    client.sends_to(b"/topic/a", b"x")
    first, second = client.messages()
    client.acknowledges(b"ACK", second)
    client.acknowledges(b"ACK", first)
    assert scene.memory == 0
    client.acknowledges(b"ACK", first)
    client.receives_error(b"ACK names no message that awaits one")


def test_one_message_on_two_subscriptions_of_1_0(scene: Scene) -> None:
    """An ACK without a subscription is about one of them at a time; with one, about that."""
    client = scene.client(b"1.0")
    for id in (b"1", b"2", b"3"):
        client.subscribes(b"/topic/a", b"client", id=id)
    client.sends_to(b"/topic/a", b"x")
    client.sends(b"ACK\nmessage-id:b-1\nsubscription:3\n\n\0")
    client.sends(b"ACK\nmessage-id:b-1\n\n\0" * 2)
    assert scene.memory == 0
    client.sends(b"ACK\nmessage-id:b-1\n\n\0")
    client.receives_error(b"ACK names no message that awaits one")


@in_named_versions
def test_a_nack_gives_the_message_to_the_next(scene: Scene, version: bytes) -> None:
    """To another consumer if there is one, else to the same again."""
    client, other = scene.client(version), scene.client(version)
    client.subscribes(b"/queue/a", b"client-individual")
    client.sends_to(b"/queue/a", b"1")
    (message,) = client.messages()
    client.acknowledges(b"NACK", message, b"receipt:r\n")
    receipt, message = client.messages()
    assert receipt == b"RECEIPT\nreceipt-id:r\n\n"
    assert header(message, b"redelivered") == b"true"
    other.subscribes(b"/queue/a", b"client-individual")
    client.acknowledges(b"NACK", message)
    assert client.reads() == b""
    (message,) = other.messages()
    other.acknowledges(b"ACK", message)
    assert scene.memory == 0


@in_named_versions
def test_a_cumulative_nack_refuses_all_before_it(scene: Scene, version: bytes) -> None:
    """STOMP 1.2, "NACK"; they come again in their old order."""
    client = scene.client(version)
    client.subscribes(b"/queue/a", b"client")
    client.sends_to(b"/queue/a", b"1", b"2", b"3")
    client.acknowledges(b"NACK", client.messages()[1])
    assert client.bodies() == [b"1", b"2"]
    assert scene.kept == {b"/queue/a": 3}


@in_named_versions
def test_a_message_refused_too_often_is_a_dead_letter(version: bytes) -> None:
    """It is moved to `/queue/DLQ`, where anybody can read it, and bothers its queue no more."""
    scene = Scene(refusals=3)
    client, reader = scene.client(version), scene.client(b"1.0")
    client.subscribes(b"/queue/a", b"client")
    client.sends(b"SEND\ndestination:/queue/a\nfoo:bar\n\npoison\0")
    for _ in range(3):
        (message,) = client.messages()
        client.acknowledges(b"NACK", message)
    assert client.reads() == b""
    client.sends_to(b"/queue/a", b"next")
    assert client.bodies() == [b"next"]
    reader.sends(b"SUBSCRIBE\ndestination:/queue/DLQ\n\n\0")
    reader.receives(
        b"MESSAGE\ndestination:/queue/DLQ\nmessage-id:b-2\noriginal-destination:/queue/a\nfoo:bar\n\npoison\0"
    )


@in_every_version
def test_an_unsubscriber_gives_back_what_it_did_not_acknowledge(scene: Scene, version: bytes) -> None:
    """At once, to the others; what it ACKs afterwards is no longer its own."""
    client, other = scene.client(version), scene.client()
    client.subscribes(b"/queue/a", b"client")
    client.sends_to(b"/queue/a", b"1", b"2")
    messages = client.messages()
    other.subscribes(b"/queue/a")
    client.sends(b"UNSUBSCRIBE\nid:1\nreceipt:r\n\n\0")
    client.receives(b"RECEIPT\nreceipt-id:r\n\n\0")
    assert other.bodies() == [b"1", b"2"]
    client.acknowledges(b"ACK", messages[0])
    client.receives_error(b"ACK names no message that awaits one")


@pytest.mark.parametrize("name", [b"prefetch-count", b"activemq.prefetchSize"])
@pytest.mark.parametrize("ack", [b"client", b"client-individual"])
def test_a_consumer_gets_as_much_as_it_asked_for(client: Peer, other: Peer, name: bytes, ack: bytes) -> None:
    """The next message comes when one was settled; other consumers take theirs meanwhile."""
    client.subscribes(b"/queue/a", ack, more=b"%b:2\n" % name)
    client.sends_to(b"/queue/a", b"1", b"2", b"3", b"4", b"5")
    messages = client.messages()
    assert len(messages) == 2
    client.acknowledges(b"ACK", messages[0])
    assert client.bodies() == [b"3"]
    other.subscribes(b"/queue/a")
    assert other.bodies() == [b"4", b"5"]


def test_a_consumer_that_asks_for_nothing_has_a_window_too() -> None:
    """That of the bounds; in auto mode there is none."""
    scene = Scene(prefetch=2)
    client = scene.client()
    client.subscribes(b"/queue/a", b"client")
    client.subscribes(b"/queue/b", id=b"2", more=b"prefetch-count:1\n")
    client.sends_to(b"/queue/a", b"1", b"2", b"3")
    client.sends_to(b"/queue/b", b"4", b"5", b"6")
    assert client.bodies() == [b"1", b"2", b"4", b"5", b"6"]


# Transactions


@in_every_version
def test_a_transaction_happens_at_commit(scene: Scene, version: bytes) -> None:
    """Messages and acknowledgements together; its frames' receipts come at once."""
    client, other = scene.client(version), scene.client()
    other.subscribes(b"/queue/b")
    client.subscribes(b"/queue/a", b"client")
    client.sends_to(b"/queue/a", b"1", b"2")
    messages = client.messages()
    client.sends(b"BEGIN\ntransaction:t\nreceipt:r1\n\n\0")
    client.sends(b"SEND\ndestination:/queue/b\ntransaction:t\nreceipt:r2\n\nx\0")
    client.acknowledges(b"ACK", messages[1], b"transaction:t\nreceipt:r3\n")
    assert client.messages() == [b"RECEIPT\nreceipt-id:r%d\n\n" % number for number in (1, 2, 3)]
    assert other.reads() == b""
    assert scene.kept[b"/queue/a"] == 2
    client.sends(b"COMMIT\ntransaction:t\nreceipt:r4\n\n\0")
    client.receives(b"RECEIPT\nreceipt-id:r4\n\n\0")
    other.receives(b"MESSAGE\nsubscription:1\ndestination:/queue/b\nmessage-id:b-3\n\nx\0")
    assert scene.memory == 0


@in_every_version
def test_an_aborted_transaction_never_was(scene: Scene, version: bytes) -> None:
    """What was acknowledged in it awaits its ACK again."""
    client = scene.client(version)
    client.subscribes(b"/queue/a", b"client")
    client.sends_to(b"/queue/a", b"1", b"2")
    messages = client.messages()
    client.sends(b"BEGIN\ntransaction:t\n\n\0")
    client.acknowledges(b"ACK", messages[1], b"transaction:t\n")
    before = scene.memory
    client.sends(b"SEND\ndestination:/queue/b\ntransaction:t\n\nx\0")
    assert scene.memory > before
    client.sends(b"ABORT\ntransaction:t\nreceipt:r\n\n\0")
    client.receives(b"RECEIPT\nreceipt-id:r\n\n\0")
    assert (scene.memory, scene.kept) == (before, {b"/queue/a": 2})
    client.acknowledges(b"ACK", messages[1])
    assert (scene.memory, client.closed) == (0, None)
    client.sends(b"COMMIT\ntransaction:t\nreceipt:r\n\n\0")
    client.receives_error(b"unknown transaction", receipt=b"r")


@in_every_version
@pytest.mark.parametrize("polite", [True, False], ids=["disconnect", "loss"])
def test_an_unfinished_transaction_is_aborted(scene: Scene, version: bytes, polite: bool) -> None:
    """By DISCONNECT or by the loss of the connection; another client may use its name meanwhile."""
    client, other = scene.client(version), scene.client(version)
    client.subscribes(b"/queue/a", b"client")
    client.sends_to(b"/queue/a", b"1", b"2", b"3")
    messages = client.messages()
    for each in (client, other):
        each.sends(b"BEGIN\ntransaction:t\n\n\0SEND\ndestination:/queue/b\ntransaction:t\n\nx\0")
    client.acknowledges(b"ACK", messages[1], b"transaction:t\n")
    if polite:
        client.sends(b"DISCONNECT\n\n\0")
    else:
        client.is_lost()
    assert scene.kept == {b"/queue/a": 3}
    other.sends(b"COMMIT\ntransaction:t\n\n\0")
    assert scene.kept == {b"/queue/a": 3, b"/queue/b": 1}
    other.subscribes(b"/queue/a")
    assert other.bodies() == [b"1", b"2", b"3"]


@in_every_version
def test_a_transaction_has_one_name(scene: Scene, version: bytes) -> None:
    """A second BEGIN of it is an error, which ends the first as well."""
    client = scene.client(version)
    begin = b"BEGIN\ntransaction:t\nreceipt:r\n\n\0"
    client.sends(begin)
    client.sends(b"SEND\ndestination:/queue/b\ntransaction:t\n\nx\0")
    client.reads()
    client.sends(begin)
    client.receives_error(b"BEGIN repeats the name of an open transaction", receipt=b"r")
    assert scene.memory == 0


# Bounds


@pytest.mark.parametrize(
    ("bounds", "fine", "frame", "message"),
    [
        (
            {"memory": 2000},
            2,
            SEND_A[:-1] + b"receipt:r\n\n" + b"x" * 300 + b"\0",
            b"the broker's memory is full",
        ),
        ({"queue_messages": 3}, 3, SEND_A[:-1] + b"receipt:r\n\n\0", b"the queue is full"),
        ({"queue_bytes": 1200}, 2, SEND_A[:-1] + b"receipt:r\n\n\0", b"the queue is full"),
    ],
    ids=["memory", "messages", "bytes"],
)
def test_a_sender_at_the_bound(bounds: dict[str, Any], fine: int, frame: bytes, message: bytes) -> None:
    """With the receipt's id; what was accepted is kept, and nobody else is disturbed."""
    scene = Scene(**bounds)
    sender, other = scene.client(), scene.client()
    for _ in range(fine):
        sender.sends(frame)
    assert sender.messages() == [b"RECEIPT\nreceipt-id:r\n\n"] * fine
    sender.sends(frame)
    sender.receives_error(message, receipt=b"r")
    assert other.closed is None
    other.subscribes(b"/queue/a")
    assert len(other.messages()) == fine
    other.sends(frame)
    assert len(other.messages()) == 2
    assert scene.memory == 0


@pytest.mark.parametrize(
    ("bound", "frame", "message"),
    [
        (
            "subscriptions",
            b"SUBSCRIBE\nid:%d\ndestination:/queue/a\nreceipt:r\n\n\0",
            b"too many subscriptions",
        ),
        ("transactions", b"BEGIN\ntransaction:%d\nreceipt:r\n\n\0", b"too many open transactions"),
        (
            "transaction_frames",
            b"SEND\ndestination:/queue/%d\ntransaction:t\nreceipt:r\n\n\0",
            b"the transaction is too large",
        ),
    ],
)
def test_each_connection_has_its_bounds(bound: str, frame: bytes, message: bytes) -> None:
    """Subscriptions, transactions, frames of one; what it held goes with it."""
    bounds: dict[str, Any] = {bound: 2}
    scene = Scene(**bounds)
    client = scene.client()
    client.sends(b"BEGIN\ntransaction:t\n\n\0" if bound == "transaction_frames" else b"\n")
    client.sends(frame % 1)
    client.sends(frame % 2)
    assert client.messages() == [b"RECEIPT\nreceipt-id:r\n\n"] * 2
    client.sends(frame % 3)
    client.receives_error(message, receipt=b"r", detail=b"the limit is 2")
    assert (len(scene.broker.destinations.kept), scene.memory) == (0, 0)


# DISCONNECT


@in_every_version
def test_receipts_come_for_every_frame(scene: Scene, version: bytes) -> None:
    """In the order of the frames, in the client's own spelling."""
    client = scene.client(version)
    raw = b"a:b" if version == b"1.0" else b"a\\cb"
    frames = [
        b"BEGIN\ntransaction:t\n",
        b"SUBSCRIBE\nid:1\ndestination:/queue/x\nack:client\n",
        b"SEND\ndestination:/queue/a\n",
        b"ABORT\ntransaction:t\n",
        b"BEGIN\ntransaction:t\n",
        b"COMMIT\ntransaction:t\n",
        b"UNSUBSCRIBE\nid:1\n",
        b"DISCONNECT\n",
    ]
    client.sends(b"".join([b"%breceipt:%b%d\n\n\0" % (frame, raw, at) for at, frame in enumerate(frames)]))
    client.receives(b"".join([b"RECEIPT\nreceipt-id:%b%d\n\n\0" % (raw, at) for at in range(len(frames))]))
