"""Clients of one product at a broker of another one: what the broker reads, what comes back, and what is refused."""

import re
from dataclasses import replace
from typing import Any

import pytest

from stomprelay.relay.model.mapping import Addition, HeaderRow, MapSettings
from stomprelay.relay.model.profile import RABBITMQ
from tests.playbook import SAY_HELLO, Cut, Playbook, in_all_cuts, in_all_pairs, joined, listener, upstream
from tests.relay.failing import moves, started
from tests.relay.frames import RECEIPT, send

A, J, R = "activemq", "artemis", "rabbitmq"
WALL = 1_000_000
"""The time since 1970 in the scripts, in milliseconds."""


def moved(clients: str, broker: str, cut: Cut = Cut.WHOLE, **settings: Any) -> Playbook:
    """A client that was written for one product, at a broker of another one."""
    found = MapSettings(clients, **settings)
    return joined(b"1.2", b"1.2", cut=cut, product=broker, over=lambda each: replace(each, map=found))


def frame(command: str, *lines: str) -> bytes:
    """A frame without a body; a SEND or SUBSCRIBE without a destination has one of a queue."""
    placed = command in ("SEND", "SUBSCRIBE") and not any(each.startswith("destination:") for each in lines)
    ids = ["id:1"] if command in ("SUBSCRIBE", "UNSUBSCRIBE") else []
    return "\n".join(
        [command, *ids, *(["destination:/queue/q"] if placed else []), *lines, "", "\0"]
    ).encode()


SAID = [
    # expiry
    (A, R, "SEND", ["expires:1005000"], ["expiration:5000"]),
    (A, R, "SEND", ["expires:900000"], ["expiration:0"]),
    (A, R, "SEND", ["expires:0"], []),
    (A, R, "SEND", ["expires:never"], []),
    (A, J, "SEND", ["expires:1005000"], ["expires:1005000", "destination-type:ANYCAST"]),
    (R, A, "SEND", ["expiration:5000"], ["expires:1005000"]),
    (R, J, "SEND", ["expiration:5000"], ["expires:1005000", "destination-type:ANYCAST"]),
    # prefetch
    (A, R, "SUBSCRIBE", ["activemq.prefetchSize:7"], ["prefetch-count:7"]),
    (R, A, "SUBSCRIBE", ["prefetch-count:7"], ["activemq.prefetchSize:7"]),
    (A, J, "SUBSCRIBE", ["activemq.prefetchSize:7"], ["subscription-type:ANYCAST"]),
    (J, R, "SUBSCRIBE", ["consumer-window-size:4096"], []),
    (J, R, "SUBSCRIBE", ["consumer-window-size:0"], ["prefetch-count:1"]),
    # selectors
    (
        A,
        J,
        "SUBSCRIBE",
        ["selector:a > 1"],
        ["selector:convert_string_expressions\\ca > 1", "subscription-type:ANYCAST"],
    ),
    (J, A, "SUBSCRIBE", ["selector:a = '1'"], ["selector:a = '1'"]),
    (
        J,
        A,
        "SUBSCRIBE",
        ["selector:AMQDurable<>'NON_DURABLE' and a='AMQPriority' or b='DURABLE' or AMQPriority>5"],
        ["selector:JMSDeliveryMode<>'NON_PERSISTENT' and a='AMQPriority' or b='DURABLE' or JMSPriority>5"],
    ),
    # delays until a time
    (J, A, "SEND", ["AMQ_SCHEDULED_TIME:1005000"], ["AMQ_SCHEDULED_DELAY:5000"]),
    (J, A, "SEND", ["AMQ_SCHEDULED_DELAY:5000"], ["AMQ_SCHEDULED_DELAY:5000"]),
    # names
    (A, R, "SEND", ["destination:/queue/a/b"], ["destination:/queue/a%2Fb"]),
    (A, R, "SUBSCRIBE", ["destination:/topic/a.>"], ["destination:/topic/a.#"]),
    (A, R, "SUBSCRIBE", ["destination:/topic/a/*.>"], ["destination:/topic/a%2F*.#"]),
    (
        A,
        J,
        "SUBSCRIBE",
        ["destination:/topic/a.>"],
        ["destination:/topic/a.#", "subscription-type:MULTICAST"],
    ),
    (A, J, "SEND", ["destination:plain"], ["destination:plain", "destination-type:ANYCAST"]),
    (R, J, "SEND", ["destination:plain"], ["destination:plain", "destination-type:ANYCAST"]),
    (R, A, "SUBSCRIBE", ["destination:/topic/a.#"], ["destination:/topic/a.>"]),
    (R, A, "SEND", ["destination:/queue/a%2Fb"], ["destination:/queue/a/b"]),
    (R, J, "SEND", ["destination:/queue/a%2Fb"], ["destination:/queue/a/b", "destination-type:ANYCAST"]),
    (J, A, "SUBSCRIBE", ["destination:/topic/a.#"], ["destination:/topic/a.>"]),
    (J, A, "SUBSCRIBE", ["selector:convert_string_expressions\\ca > 1"], ["selector:a > 1"]),
    # users
    (A, R, "SEND", ["user-id:u"], ["x-user-id:u"]),
    (R, A, "SEND", ["user-id:u"], ["user-id:u"]),
    (R, A, "SEND", ["x-user-id:u"], ["x-user-id:u"]),
    # virtual topics
    (
        A,
        R,
        "SUBSCRIBE",
        ["destination:/queue/Consumer.c.VirtualTopic.t"],
        [
            "destination:/topic/VirtualTopic.t",
            "x-queue-name:Consumer.c.VirtualTopic.t",
            "durable:true",
            "auto-delete:false",
        ],
    ),
    # switches that are off, and transformations that no product knows
    (
        A,
        R,
        "SUBSCRIBE",
        ["activemq.noLocal:false", "browser:false"],
        ["activemq.noLocal:false", "browser:false"],
    ),
    (A, R, "SEND", ["transformation:own"], ["transformation:own"]),
    (R, A, "SUBSCRIBE", ["destination:/topic/a", "durable:false"], ["destination:/topic/a", "durable:false"]),
    (
        R,
        A,
        "SUBSCRIBE",
        ["x-queue-type:quorum", "exclusive:False"],
        ["x-queue-type:quorum", "exclusive:False"],
    ),
    # groups and delays
    (A, J, "SEND", ["JMSXGroupID:g"], ["JMSXGroupID:g", "destination-type:ANYCAST"]),
    # consumers
    (A, R, "SUBSCRIBE", ["activemq.priority:9"], ["x-priority:9"]),
    (A, J, "SUBSCRIBE", ["activemq.noLocal:true"], ["no-local:true", "subscription-type:ANYCAST"]),
    (
        A,
        J,
        "SUBSCRIBE",
        ["destination:/topic/t", "activemq.subscriptionName:s"],
        ["destination:/topic/t", "durable-subscription-name:s", "subscription-type:MULTICAST"],
    ),
]
"""Clients' product, broker's product, command, lines that the client says, and lines that the broker reads."""


def lines(wire: bytes) -> list[str]:
    """The header lines of the only frame, sorted; without the id and the usual destination."""
    head = wire.rstrip(b"\n\0").decode().split("\n")
    return sorted(each for each in head if each not in ("id:1", "destination:/queue/q"))


@pytest.mark.parametrize(("clients", "broker", "command", "said", "read"), SAID)
def test_what_a_broker_reads(
    clients: str, broker: str, command: str, said: list[str], read: list[str]
) -> None:
    """The broker is told in its own words what the client meant."""
    with moved(clients, broker) as play:
        play.client_says(frame(command, *said))
        assert lines(play.broker_reads()) == sorted([command, *read])


REFUSED = [
    (A, R, "SUBSCRIBE", ["selector:a > 1"], "selectors"),
    (J, R, "SUBSCRIBE", ["selector:a = 1"], "selectors"),
    (A, R, "SEND", ["AMQ_SCHEDULED_DELAY:5"], "delays"),
    (A, J, "SEND", ["AMQ_SCHEDULED_CRON:* * * * *"], "schedules"),
    (A, R, "SEND", ["JMSXGroupID:g"], "groups"),
    (A, R, "SEND", ["destination:/queue/a,/topic/b"], "composite-destinations"),
    (A, R, "SUBSCRIBE", ["destination:/queue/a.>"], "queue-wildcards"),
    (A, J, "SUBSCRIBE", ["destination:/queue/Consumer.c.VirtualTopic.t"], "virtual-topics"),
    (A, J, "SUBSCRIBE", ["destination:/topic/>"], "all-topics"),
    (R, J, "SUBSCRIBE", ["destination:/topic/#"], "all-topics"),
    (J, A, "SUBSCRIBE", ["destination:/queue/a.#"], "queue-wildcards"),
    (J, R, "SUBSCRIBE", ["destination:/topic/a::b"], "qualified-names"),
    (J, A, "SEND", ["destination:orders"], "plain-names"),
    (J, R, "SUBSCRIBE", ["destination:orders"], "plain-names"),
    (R, A, "SUBSCRIBE", ["destination:/topic/a", "x-queue-name:q"], "topic-queues"),
    (R, A, "SUBSCRIBE", ["exclusive:true"], "queue-arguments"),
    (R, J, "SEND", ["destination:/amq/queue/q"], "existing-queues"),
    (R, A, "SEND", ["reply-to:/temp-queue/me"], "reply-subscriptions"),
    (R, J, "SEND", ["reply-to:/temp-queue/me"], "reply-subscriptions"),
    (A, R, "SEND", ["reply-to:/remote-temp-queue/ID"], "foreign-replies"),
    (A, R, "SEND", ["reply-to:some/thing"], "foreign-replies"),
    (A, R, "SUBSCRIBE", ["destination:/queue/q?consumer.exclusive=true"], "destination-options"),
    (J, R, "SUBSCRIBE", ["activemq.noLocal:true"], "no-local"),
    (J, R, "SEND", ["AMQ_SCHEDULED_TIME:5"], "delays"),
    (J, A, "UNSUBSCRIBE", ["durable-subscriber-name:s"], "durable-subscriptions"),
    (A, R, "SEND", ["transformation:jms-map-json"], "transformations"),
    (A, J, "SUBSCRIBE", ["transformation:jms-xml"], "transformations"),
    (A, J, "SUBSCRIBE", ["destination:/topic/ActiveMQ.Advisory.Connection"], "advisories"),
    (A, R, "SEND", ["destination:/queue/amq.q"], "reserved-names"),
    (J, R, "SUBSCRIBE", ["destination:/queue/amq.q"], "reserved-names"),
    (R, A, "SUBSCRIBE", ["destination:/topic/a", "persistent:True"], "durable-subscriptions"),
    (R, A, "SEND", ["x-queue-type:stream"], "queue-arguments"),
    (J, A, "UNSUBSCRIBE", ["durable-subscription-name:s"], "durable-subscriptions"),
    (A, J, "SUBSCRIBE", ["activemq.exclusive:true"], "exclusive-consumers"),
    (A, J, "SUBSCRIBE", ["browser:true"], "browsers"),
    (A, R, "SUBSCRIBE", ["activemq.noLocal:true"], "no-local"),
    (R, A, "SEND", ["x-message-ttl:5"], "queue-arguments"),
    (R, A, "SUBSCRIBE", ["destination:/exchange/logs/a"], "exchanges"),
    (
        R,
        J,
        "SUBSCRIBE",
        ["destination:/topic/a", "durable:true", "auto-delete:false"],
        "durable-subscriptions",
    ),
]
"""Clients' product, broker's product, command, lines that the client says, and the feature that is refused."""


@pytest.mark.parametrize(("clients", "broker", "command", "said", "feature"), REFUSED)
def test_what_is_refused(clients: str, broker: str, command: str, said: list[str], feature: str) -> None:
    """What the broker cannot do is an ERROR that names it; with `ignore` the client may use it nevertheless."""
    with moved(clients, broker) as play:
        play.client_says(frame(command, *said, "receipt:r"))
        play.client_gets_error(f"{feature} are not possible at this broker".encode(), receipt=b"r")
        play.nobody_gets_more()
    with moved(clients, broker, ignore=frozenset({feature})) as play:
        play.client_says(frame(command, *said))
        assert play.broker_reads().startswith(command.encode())


@pytest.mark.parametrize(
    ("clients", "broker", "does", "told"),
    [
        (A, R, None, None),
        (A, J, None, None),
        (R, A, None, None),
        (R, J, None, None),
        (J, A, None, b"ACK\n"),
        (J, R, None, b"ACK\n"),
        (A, R, "dead-letter", b"NACK\nrequeue:false\n"),
        (A, R, "requeue", b"NACK\nrequeue:true\n"),
        (A, R, "discard", b"ACK\n"),
        (R, A, "dead-letter", b"NACK\n"),
        (R, J, "discard", b"NACK\n"),
        (A, J, "refuse", None),
    ],
)
def test_a_nack(clients: str, broker: str, does: str | None, told: bytes | None) -> None:
    """It does what was chosen; without a choice it is refused where the broker would do something else."""
    nack = {} if does is None else {broker: does}
    with moved(clients, broker, nack=nack, ignore=frozenset({"cumulative-acks"})) as play:
        play.client_says(frame("SUBSCRIBE", "ack:client-individual"))
        play.broker_reads()
        play.broker_says(b"MESSAGE\nsubscription:1\nmessage-id:m\nack:k\ndestination:/queue/q\n\nx\0")
        play.client_reads()
        play.client_says(frame("NACK", "id:k"))
        if told is None:
            play.client_gets_error(b"NACK is not possible at this broker")
        else:
            assert play.broker_reads() == told + b"id:k\n\n\0"


@pytest.mark.parametrize(("clients", "broker"), [(A, R), (R, A), (R, J), (J, R)])
def test_cumulative_acks(clients: str, broker: str) -> None:
    """RabbitMQ counts the messages of all subscriptions together, others do not: a second subscription is refused."""
    with moved(clients, broker) as play:
        play.client_says(frame("SUBSCRIBE", "ack:client"))
        play.broker_reads()
        play.client_says(frame("SUBSCRIBE", "ack:client-individual", "receipt:r").replace(b"id:1", b"id:2"))
        play.client_gets_error(
            b"cumulative ACKs of several subscriptions are not possible at this broker", receipt=b"r"
        )
    with moved(clients, broker) as play:
        play.client_says(frame("SUBSCRIBE", "ack:client"))
        play.client_says(frame("UNSUBSCRIBE"))
        play.client_says(frame("SUBSCRIBE", "ack:client"))
        assert play.broker_reads().count(b"SUBSCRIBE") == 3


@in_all_pairs
def test_all_versions(client: bytes, broker: bytes) -> None:
    """The words of a product do not depend on the version."""
    found = MapSettings(A)
    with joined(client, broker, product=R, over=lambda each: replace(each, map=found)) as play:
        play.client_says(send(b"1", b"/queue/a/b", expires="1005000"))
        read = play.broker_reads()
        assert b"\nexpiration:5000\n" in read
        assert b"expires" not in read
        assert b"\ndestination:/queue/a%2Fb\n" in read


@in_all_cuts
def test_messages_come_back(cut: Cut) -> None:
    """A consumer of ActiveMQ reads at RabbitMQ what it would read at home."""
    with moved(A, R, cut) as play:
        play.client_says(frame("SUBSCRIBE", "destination:/queue/a/b"))
        play.broker_reads()
        told = b"MESSAGE\nsubscription:1\ndestination:/queue/a%%2Fb\nmessage-id:m\n%b\nx\0"
        heard = told.replace(b"a%%2Fb", b"a/b").replace(b"subscription:1\ndestination:/queue/a/b\n", b"")
        plain = heard % b"subscription:1\n"
        play.broker_says(told % b"" * 3)
        assert play.client_reads().count(b"destination:/queue/a/b\n") == 3
        play.broker_says(told % b"expiration:5000\n")
        read = play.client_reads()
        assert b"expires:1005000\n" in read
        assert b"expiration" not in read
        assert plain


@in_all_cuts
def test_routing_at_artemis(cut: Cut) -> None:
    """Without any move Artemis is told what is a queue; a client's own word counts, and other names have none."""
    with joined(b"1.2", b"1.2", cut=cut, product=J) as play:
        asked = b"destination-type:ANYCAST\n"
        play.client_tells_broker(
            send(b"1", b"/queue/q") * 3, b"SEND\n%bdestination:/queue/q\n\n1\0" % asked * 3
        )
        play.client_says(send(b"1", b"/topic/t") + send(b"2", b"/queue/q"))
        read = play.broker_reads()
        assert read.count(b"destination-type:MULTICAST\ndestination:/topic/t\n") == 1
        assert read.count(b"destination-type:ANYCAST\ndestination:/queue/q\n") == 1
        play.client_tells_broker(send(b"1", b"address") * 2, send(b"1", b"address") * 2)
        own = send(b"1", b"/queue/q", **{"destination-type": "MULTICAST"})
        play.client_tells_broker(own, own)
        play.client_tells_broker(
            frame("SUBSCRIBE"), b"SUBSCRIBE\nsubscription-type:ANYCAST\nid:1\ndestination:/queue/q\n\n\0"
        )


@pytest.mark.parametrize("kind", ["queue", "topic"])
@pytest.mark.parametrize("broker", [J, R])
def test_temporary_queues(broker: str, kind: str) -> None:
    """The relay makes them: with a name of the session's own, which the client does not see, and others cannot read.
    Temporary topics are queues, too, with names of their own.
    """
    mine, me = {"queue": b".", "topic": b"-"}[kind], f"/temp-{kind}/me"
    reads = sends = b"/queue/relay-temp.relay-session%bme" % mine
    if broker == R:
        sends = b"/amq" + sends
    with moved(A, broker) as play:
        play.client_says(frame("SUBSCRIBE", f"destination:{me}"))
        read = play.broker_reads()
        assert b"\ndestination:%b\n" % reads in read
        assert b"MULTICAST" not in read
        assert (b"\nexclusive:true\n" in read) == (broker == R)
        play.client_says(send(b"1", b"/queue/work", **{"reply-to": me}))
        assert b"\nreply-to:%b\n" % sends in play.broker_reads()
        play.broker_says(b"MESSAGE\nsubscription:1\ndestination:%b\nmessage-id:m\n\nx\0" % reads)
        assert b"\ndestination:%b\n" % me.encode() in play.client_reads()
        request = b"MESSAGE\nsubscription:2\ndestination:/queue/work\nreply-to:%b\nmessage-id:m\n\nx\0"
        play.broker_says(request % sends.replace(b"relay-session", b"other"))
        other = b"/queue/relay-temp.other%bme" % mine
        assert b"\nreply-to:%b\n" % other in play.client_reads()
        play.client_says(send(b"1", other))
        assert b"\ndestination:%b\n" % sends.replace(b"relay-session", b"other") in play.broker_reads()
        play.client_says(frame("SUBSCRIBE", f"destination:{other.decode()}", "receipt:r"))
        play.client_gets_error(b"a private queue is read by its owner only", receipt=b"r")


@pytest.mark.parametrize("clients", [A, J])
def test_replies_to_any_text(clients: str) -> None:
    """RabbitMQ puts a prefix before a `reply-to` without one: the client reads what was written."""
    with moved(clients, R) as play:
        play.client_says(frame("SUBSCRIBE"))
        play.broker_reads()
        told = b"MESSAGE\nreply-to:%b\nsubscription:1\ndestination:/queue/q\nmessage-id:m\n\nx\0"
        play.broker_tells_client(told % b"/reply-queue/any text", told % b"any text")
        own = told % b"/reply-queue/amq.gen-q"
        play.broker_tells_client(own, own)


def test_a_nack_of_python() -> None:
    """RabbitMQ also knows how Python writes false."""
    with moved(R, A) as play:
        play.client_says(frame("SUBSCRIBE", "ack:client-individual"))
        play.broker_reads()
        play.client_tells_broker(frame("NACK", "id:k", "requeue:False"), b"NACK\nid:k\n\n\0")


@pytest.mark.parametrize("broker", [J, R])
def test_a_virtual_topic(broker: str) -> None:
    """MESSAGEs of a virtual topic's queue have the queue's name."""
    with moved(A, broker, ignore=frozenset({"virtual-topics"})) as play:
        play.client_says(frame("SUBSCRIBE", "destination:/queue/Consumer.c.VirtualTopic.t"))
        play.client_says(frame("SUBSCRIBE", "destination:/topic/VirtualTopic.t").replace(b"id:1", b"id:2"))
        play.broker_reads()
        told = b"MESSAGE\nsubscription:%b\ndestination:/topic/VirtualTopic.t\nmessage-id:m\n\nx\0"
        play.broker_says(told % b"1" + told % b"2")
        read = play.client_reads().split(b"\0")
        assert b"\ndestination:/queue/Consumer.c.VirtualTopic.t\n" in read[0]
        assert b"\ndestination:/topic/VirtualTopic.t\n" in read[1]


def test_a_refused_subscribe_leaves_nothing() -> None:
    """A SUBSCRIBE that was refused is not made at the next broker, and its id is free."""
    with moved(A, R) as play:
        play.client_says(frame("SUBSCRIBE", "selector:a > 1"))
        play.client_gets_error(b"selectors are not possible at this broker")
        assert play.relay.session is not None
        assert not len(play.relay.session.subscriptions)


def test_receipts() -> None:
    """A SEND that asks for a receipt is mapped, too."""
    with moved(A, R) as play:
        play.client_says(send(b"1", b"/queue/a/b", receipt="r", expires="1005000"))
        assert b"expiration:5000\n" in play.broker_reads()
        play.broker_tells_client(RECEIPT % b"r")


def test_the_senders_own_id() -> None:
    """A MESSAGE has the trace of its SEND under a name that was chosen, and no other trace."""
    found = MapSettings(A, sender_id=b"x-sender-id")
    with joined(b"1.2", b"1.2", product=R, trace=True, over=lambda each: replace(each, map=found)) as play:
        play.client_says(frame("SUBSCRIBE") + send(b"1", b"/queue/q"))
        assert b"SEND\nrelay-trace:relay-session-1\n" in play.broker_reads()
        told = b"MESSAGE\nsubscription:1\ndestination:/queue/q\nmessage-id:m\n%b\nx\0"
        play.broker_says(told % b"relay-trace:relay-session-1\nrelay-trace:forged\n")
        play.client_gets(told % b"x-sender-id:relay-session-1\n")


def test_the_host_of_a_broker() -> None:
    """A broker may be sent another `host` than the others."""
    found = MapSettings(hosts={"tcp://broker:61613": b"/shop"})
    play = Playbook(listener(upstream(map=found)))
    play.client_says(SAY_HELLO[b"1.2"])
    play.broker_accepts()
    assert b"\nhost:/shop\n" in play.broker_reads()


def test_maps_of_several_upstreams() -> None:
    """Settings that are made from others, as a configuration makes them, have maps of their own."""
    first = MapSettings(A)
    assert first.at(J) is not None
    assert replace(first, clients=J).at(J) is not first.at(J)


def test_the_end_of_a_durable_subscription() -> None:
    """ActiveMQ's clients end it after its consumer, which RabbitMQ cannot do."""
    with moved(A, R) as play:
        play.client_says(frame("UNSUBSCRIBE", "activemq.subscriptionName:s", "receipt:r"))
        play.client_gets_error(b"durable-subscriptions are not possible at this broker", receipt=b"r")


@in_all_cuts
def test_receipts_of_the_relays_own(cut: Cut) -> None:
    """With `confirm` each SEND gets its receipt and its broker's name, alone and many at once."""
    play = started(cut=cut, confirm=True, profile=RABBITMQ, map=MapSettings(A))
    play.client_says(send(b"1", b"/queue/a/b") + send(b"2", b"/queue/plain") + send(b"3", b"/queue/a/b"))
    read = play.broker_reads()
    assert re.findall(rb"\nreceipt:relay-session-receipt-(\d)\n", read) == [b"1", b"2", b"3"]
    assert re.findall(rb"\ndestination:([^\n]*)", read) == [b"/queue/a%2Fb", b"/queue/plain", b"/queue/a%2Fb"]
    moves(play)
    assert re.findall(rb"\ndestination:([^\n]*)", play.broker_reads()).count(b"/queue/a%2Fb") == 2
    play.client_says(send(b"4", b"/queue/a/b") + send(b"5", b"/queue/a/b"))
    read = play.broker_reads()
    assert re.findall(rb"\nreceipt:relay-session-receipt-(\d)\n", read) == [b"7", b"8"]
    assert read.count(b"\ndestination:/queue/a%2Fb\n") == 2


def test_the_same_expiry_later() -> None:
    """Frames that look alike have less time left when they come later."""
    with moved(A, R) as play:
        wire = send(b"1", b"/queue/q", expires="1005000")
        play.client_says(wire)
        assert b"expiration:5000\n" in play.broker_reads()
        play.now += 2.0
        play.client_says(wire)
        assert b"expiration:3000\n" in play.broker_reads()


def test_the_end_of_a_virtual_topics_subscription() -> None:
    """UNSUBSCRIBE by destination ends what SUBSCRIBE began, and removes no queue. RabbitMQ wants an id, which a client
    of 1.0 need not have, and does not see.
    """
    found, place = MapSettings(A), b"destination:/queue/Consumer.c.VirtualTopic.t\n"
    with joined(b"1.0", b"1.0", product=R, over=lambda each: replace(each, map=found)) as play:
        play.client_says(b"SUBSCRIBE\n%b\n\0" % place)
        read = play.broker_reads()
        assert b"\ndestination:/topic/VirtualTopic.t\n" in read
        assert b"\nid:relay-1\n" in read
        told = b"destination:/topic/VirtualTopic.t\nmessage-id:m\n\nx\0"
        play.broker_says(b"MESSAGE\nsubscription:relay-1\n" + told)
        play.client_gets(b"MESSAGE\n%bmessage-id:m\n\nx\0" % place)
        play.client_says(b"SUBSCRIBE\ndestination:/queue/q\n\n\0")
        assert b"\nid:relay-2\n" in play.broker_reads()
        told = b"MESSAGE\n%bdestination:/queue/q\nmessage-id:m\n\nx\0" * 3
        play.broker_tells_client(told.replace(b"%b", b"subscription:relay-2\n"), told.replace(b"%b", b""))
        play.client_tells_broker(b"UNSUBSCRIBE\n%b\n\0" % place, b"UNSUBSCRIBE\nid:relay-1\n\n\0")


def test_a_nack_of_one_message_only() -> None:
    """At RabbitMQ a NACK with ack:client covers earlier messages, at ActiveMQ it does not."""
    with moved(A, R, nack={R: "dead-letter"}) as play:
        play.client_says(frame("SUBSCRIBE", "ack:client"))
        play.broker_reads()
        play.client_says(frame("NACK", "id:k"))
        play.client_gets_error(b"NACK is not possible at this broker")


def test_durable_subscriptions_at_rabbitmq() -> None:
    """They are queues, named by client-id and subscription; without client-id they are refused, or not durable."""
    found = MapSettings(A)
    hello = b"client-id:c\n"
    with joined(b"1.2", b"1.2", product=R, over=lambda each: replace(each, map=found), hello=hello) as play:
        play.client_says(frame("SUBSCRIBE", "destination:/topic/t", "activemq.subscriptionName:s"))
        assert b"\nx-queue-name:stomp-subscription-c.s\n" in play.broker_reads()
    found = MapSettings(J)
    with joined(b"1.2", b"1.2", product=R, over=lambda each: replace(each, map=found), hello=hello) as play:
        play.client_says(frame("SUBSCRIBE", "destination:/topic/t", "durable-subscriber-name:s"))
        assert b"\nx-queue-name:stomp-subscription-c.s\n" in play.broker_reads()
    with moved(J, A) as play:
        play.client_says(frame("SUBSCRIBE", "durable-subscriber-name:s"))
        assert lines(play.broker_reads()) == ["SUBSCRIBE", "activemq.subscriptionName:s"]
    with moved(A, R) as play:
        play.client_says(frame("SUBSCRIBE", "destination:/topic/t", "activemq.subscriptionName:s"))
        play.client_gets_error(b"durable subscriptions need a client-id")
    with moved(A, R, ignore=frozenset({"durable-subscriptions"})) as play:
        play.client_says(frame("SUBSCRIBE", "destination:/topic/t", "activemq.subscriptionName:s"))
        assert lines(play.broker_reads()) == ["SUBSCRIBE", "destination:/topic/t"]


@in_all_cuts
def test_many_rows_for_headers(cut: Cut) -> None:
    """More rows than frames in runs may have: each frame is looked at."""
    dropped = [HeaderRow((b"SEND",), b"old-%d" % number, b"new-%d" % number) for number in range(30)]
    added = [Addition((b"SEND",), re.compile(b".*"), b"more-%d" % number, b"1") for number in range(18)]
    for rows in (dropped, added):
        with moved(A, R, cut, headers=tuple(rows)) as play:
            play.client_says(frame("SUBSCRIBE", "ack:client-individual"))
            play.broker_reads()
            play.client_says(send(b"1", b"/queue/q", **{"old-7": "x"}) + send(b"2", b"/queue/q") * 3)
            read = play.broker_reads()
            assert read.count(b"SEND\n") == 4
            assert read.count(b"\nnew-7:x\n") == (rows is dropped)
            assert read.count(b"\nmore-17:1\n") == 4 * (rows is added)
