"""How brokers depart from the versions they speak, and how they are told apart."""

from contextlib import suppress
from dataclasses import replace
from fnmatch import fnmatch

import pytest

from stomprelay.relay.model.profile import ACTIVEMQ, ARTEMIS, AUTO, GENERIC, RABBITMQ, Profile
from stomprelay.wire.decoder import Decoder
from stomprelay.wire.dialect import V1_2
from stomprelay.wire.errors import StompError
from stomprelay.wire.frame import Frame, Limits
from stomprelay.wire.names import BROKER_COMMANDS, CONNECTED, ERROR
from tests.playbook import PAIRS, Cut, in_all_cuts, joined
from tests.transcripts import recordings

OTHER_PAIRS = [each for each in PAIRS if each[0] != each[1]]


in_all_products = pytest.mark.parametrize("product", ["rabbitmq", "activemq", "artemis", "generic"])


# product, client's version, broker's version, the line a client says, what the broker is told
TOLD = [
    # RabbitMQ escapes and unescapes in every version, names too
    ("rabbitmq", b"1.2", b"1.0", b"foo:a\\cb\\\\c\\nd\\re", b"foo:a\\cb\\\\c\\nd\\re"),
    ("rabbitmq", b"1.2", b"1.0", b"f\\coo:a", b"f\\coo:a"),
    ("rabbitmq", b"1.1", b"1.0", b"foo:a\\nb", b"foo:a\\nb"),
    ("rabbitmq", b"1.2", b"1.1", b"foo:a\\r", b"foo:a\\r"),
    ("rabbitmq", b"1.0", b"1.1", b"foo:C:\\new", b"foo:C\\c\\\\new"),
    ("rabbitmq", b"1.0", b"1.2", b"foo:C:\\new", b"foo:C\\c\\\\new"),
    ("rabbitmq", b"1.0", b"1.2", b"foo:a\rb", b"foo:a\\rb"),
    ("rabbitmq", b"1.0", b"1.1", b"foo:a\rb", b"foo:a\\rb"),
    # ActiveMQ unescapes values on 1.0 too, where it would not escape an LF again, and leaves names alone
    ("activemq", b"1.2", b"1.0", b"foo:C\\c\\\\new", b"foo:C\\c\\\\new"),
    ("activemq", b"1.2", b"1.0", b"foo:a\\nb", b"foo:a b"),
    ("activemq", b"1.2", b"1.0", b"foo:a\\r", b"foo:a "),
    ("activemq", b"1.2", b"1.0", b"f\\coo:a", None),
    # so a name keeps the spelling that both versions have, as every other peer of the broker is told it
    ("activemq", b"1.2", b"1.1", b"f\\coo:a", b"f\\coo:a"),
    ("activemq", b"1.1", b"1.2", b"f\\coo:a\\\\b", b"f\\coo:a\\\\b"),
    ("activemq", b"1.1", b"1.2", b"f\\noo:a\rb", b"f\\noo:a\\rb"),
    ("activemq", b"1.2", b"1.1", b"f\\\\coo:a", b"f\\\\coo:a"),
    ("activemq", b"1.2", b"1.1", b"f\\coo\\r:a", None),
    ("activemq", b"1.0", b"1.1", b"f\\oo:C:\\new", b"f\\oo:C\\c\\\\new"),
    ("activemq", b"1.0", b"1.2", b"foo:C:\\new", b"foo:C\\c\\\\new"),
    # Artemis is taken at the specification's word
    ("artemis", b"1.2", b"1.0", b"foo:a\\cb", b"foo:a:b"),
    ("artemis", b"1.0", b"1.2", b"foo:C:\\new", b"foo:C\\c\\\\new"),
]


@pytest.mark.parametrize(("product", "client", "broker", "said", "told"), TOLD)
def test_what_a_product_is_told(
    product: str, client: bytes, broker: bytes, said: bytes, told: bytes | None
) -> None:
    """A header reaches each product so that it understands what the client meant."""
    line = b"" if told is None else told + b"\n"
    with joined(client, broker, product=product) as play:
        play.client_says(b"SEND\ndestination:a\n" + said + b"\n\nx\0")
        play.broker_gets(b"SEND\ndestination:a\n" + line + b"\nx\0")


# product, client's version, broker's version, the line the broker says, what the client is told
HEARD = [
    ("rabbitmq", b"1.2", b"1.0", b"foo:a\\cb", b"foo:a\\cb"),
    ("rabbitmq", b"1.1", b"1.0", b"foo:a\\cb\\\\c\\nd", b"foo:a\\cb\\\\c\\nd"),
    ("rabbitmq", b"1.0", b"1.2", b"foo:a\\cb", b"foo:a:b"),
    ("rabbitmq", b"1.0", b"1.1", b"foo:a\\rb", b"foo:a\rb"),
    # its own ids are not escaped, whatever they hold
    ("rabbitmq", b"1.0", b"1.2", b"foo:T_i:1\\x@@s@@1", b"foo:T_i:1\\x@@s@@1"),
    ("rabbitmq", b"1.1", b"1.0", b"foo:T_i:1\\x@@s@@1", b"foo:T_i\\c1\\\\x@@s@@1"),
    ("activemq", b"1.2", b"1.0", b"foo:C:\\new", b"foo:C\\c\\\\new"),
    ("activemq", b"1.1", b"1.0", b"foo:a\\nb", b"foo:a\\\\nb"),
    ("activemq", b"1.0", b"1.2", b"foo:a\\cb\\\\t", b"foo:a:b\\t"),
    ("activemq", b"1.0", b"1.1", b"a\\cb:x", b"a\\cb:x"),
    ("activemq", b"1.2", b"1.1", b"a\\cb:x", b"a\\cb:x"),
    ("activemq", b"1.1", b"1.2", b"a\\cb\\\\:x", b"a\\cb\\\\:x"),
    # what is no spelling is a text, and is spelled
    ("activemq", b"1.2", b"1.1", b"a\\b:x", b"a\\\\b:x"),
    ("activemq", b"1.1", b"1.2", b"a\\rb:x", b"a\\\\rb:x"),
    ("activemq", b"1.2", b"1.0", b"a\\cb:x", b"a\\\\cb:x"),
    ("artemis", b"1.0", b"1.1", b"foo:a\\rb", b"foo:a\rb"),
]


@pytest.mark.parametrize(("product", "client", "broker", "said", "told"), HEARD)
def test_what_a_product_says(product: str, client: bytes, broker: bytes, said: bytes, told: bytes) -> None:
    """What a product wrote, escaped or not, reaches the client as it was meant."""
    with joined(client, broker, product=product) as play:
        play.broker_says(b"MESSAGE\nsubscription:/temp-queue/x\nmessage-id:1\n" + said + b"\n\nx\0")
        play.client_gets(b"MESSAGE\nsubscription:/temp-queue/x\nmessage-id:1\n" + told + b"\n\nx\0")


@pytest.mark.parametrize("name", [b"a\\cb", b"a\\nb", b"a\\\\b", b"a\\\\cb", b"\\c", b"\\\\\\\\c"], ids=repr)
def test_a_name_comes_back_as_its_publisher_spelled_it(name: bytes) -> None:
    """ActiveMQ delivers names as they came: the relay counts nothing as lost, and the client reads what it wrote."""
    for client, broker in ((b"1.1", b"1.2"), (b"1.2", b"1.1")):
        with joined(client, broker, product="activemq") as play:
            play.client_tells_broker(b"SEND\ndestination:/queue/a\n%b:v\n\nx\0" % name)
            play.broker_tells_client(b"MESSAGE\nsubscription:/temp-queue/x\nmessage-id:1\n%b:v\n\nx\0" % name)
            assert play.counters["loss_name"] == 0


@in_all_products
def test_nack_toward_a_1_0_broker(product: str) -> None:
    """RabbitMQ takes it on 1.0 too, so it is sent it; toward the others it is refused, and never made an ACK."""
    for client, named in ((b"1.1", b"subscription:0\nmessage-id:T_0@@s@@1\n"), (b"1.2", b"id:relay-ack-1\n")):
        with joined(client, b"1.0", product=product) as play:
            play.client_said(b"SUBSCRIBE\nid:0\ndestination:/queue/a\nack:client-individual\n\n\0")
            play.broker_said(b"MESSAGE\nsubscription:0\nmessage-id:T_0@@s@@1\n\n\0")
            play.client_says(b"NACK\n" + named + b"requeue:false\n\n\0")
            if product == "rabbitmq":
                play.broker_gets(b"NACK\nsubscription:0\nmessage-id:T_0@@s@@1\nrequeue:false\n\n\0")
            else:
                play.client_gets_error(b"NACK cannot be said to the broker")
                play.broker_gets(b"")


@in_all_products
def test_a_selector_that_is_ignored_is_counted(product: str) -> None:
    """It passes to every broker, and counts where it means nothing (RabbitMQ); so do properties of queues."""
    frames = b"SUBSCRIBE\nid:0\ndestination:a\nselector:x > 1\n\n\0SUBSCRIBE\nid:1\ndestination:b\n\n\0"
    for client, broker in PAIRS:
        with joined(client, broker, product=product) as play:
            play.client_tells_broker(frames)
            assert play.counters["selector_ignored"] == (product == "rabbitmq")
    frame = (
        b"SEND\ndestination:a\npersistent:false\ndurable:false\nexpires:0\npriority:abc\ntimestamp:x\n"
        b"amq-msg-type:text\ntransformation:jms-map-json\nreply-to:/queue/x\n\n\0"
    )
    for client, broker in OTHER_PAIRS:
        with joined(client, broker, product=product) as play:
            play.client_tells_broker(frame)


@pytest.mark.parametrize(
    "name",
    [b"/queue/a/b", b"/queue/a%2Fb", b"/queue/a%25b", b"/amq/queue/x", b"FOO.BAR", b"/queue/a,/topic/b"],
    ids=bytes.decode,
)
def test_destinations_pass_as_they_came(name: bytes) -> None:
    """Each broker has names of its own for destinations; none is rewritten, encoded or checked."""
    sent = b"SEND\ndestination:%b\n\n\0" % name
    delivered = b"MESSAGE\nsubscription:0\nmessage-id:1\ndestination:%b\n\n\0" % name
    for client, broker in OTHER_PAIRS:
        with joined(client, broker, product="rabbitmq") as play:
            play.client_tells_broker(sent)
            play.broker_tells_client(delivered)


def test_an_ack_of_an_id_that_rabbitmq_did_not_escape() -> None:
    """Its message-ids hold the subscription's id as it is; the ACK names them so that it understands them again."""
    with joined(b"1.1", b"1.2", product="rabbitmq") as play:
        play.client_tells_broker(b"SUBSCRIBE\nid:i\\c1\ndestination:/queue/a\nack:client\n\n\0")
        play.broker_says(b"MESSAGE\nsubscription:i\\c1\nmessage-id:T_i:1@@s@@1\nack:T_i:1@@s@@1\n\n\0")
        play.client_gets(b"MESSAGE\nsubscription:i\\c1\nmessage-id:T_i:1@@s@@1\n\n\0")
        play.client_says(b"ACK\nsubscription:i\\c1\nmessage-id:T_i:1@@s@@1\n\n\0")
        play.broker_gets(b"ACK\nid:T_i\\c1@@s@@1\n\n\0")


@in_all_cuts
def test_a_recorded_delivery_of_activemq_1_2_to_a_1_0_client(cut: Cut) -> None:
    """Ids lose their escapes, the ack header its place; the ACK finds the broker's own name for the delivery."""
    with joined(b"1.0", b"1.2", product="activemq", cut=cut) as play:
        play.client_says(
            b"SUBSCRIBE\ndestination:/queue/q\nack:client-individual\nactivemq.prefetchSize:10\n\n\0"
        )
        play.broker_gets(
            b"SUBSCRIBE\nid:relay-1\ndestination:/queue/q\nack:client-individual\nactivemq.prefetchSize:10\n\n\0"
        )
        play.broker_says(
            b"MESSAGE\nexpires:0\ndestination:/queue/q\nack:ID\\cvm-38391-1795218830726-2\\c13\n"
            b"subscription:relay-1\npriority:4\nmessage-id:ID\\cvm-38391-1795218830726-1\\c80\\c-1\\c1\\c1\n"
            b"timestamp:1795219066659\n\nm0\0"
        )
        play.client_gets(
            b"MESSAGE\nexpires:0\ndestination:/queue/q\npriority:4\n"
            b"message-id:ID:vm-38391-1795218830726-1:80:-1:1:1\ntimestamp:1795219066659\n\nm0\0"
        )
        play.client_says(b"ACK\nmessage-id:ID:vm-38391-1795218830726-1:80:-1:1:1\nreceipt:ra\n\n\0")
        play.broker_gets(b"ACK\nid:ID\\cvm-38391-1795218830726-2\\c13\nreceipt:ra\n\n\0")


def errors(data: bytes) -> list[Frame]:
    """The ERROR frames in what a broker wrote, up to what is not STOMP."""
    decoder = Decoder(replace(V1_2, strict=False), BROKER_COMMANDS | {CONNECTED}, Limits())
    decoder.feed(data)
    found: list[Frame] = []
    with suppress(StompError):
        found.extend(frame for frame in decoder.frames() if frame.command is ERROR)
    return found


def recorded(pattern: str) -> list[Frame]:
    """The ERRORs of these recordings, each of which has one at least."""
    found = [errors(each.received) for each in recordings() if fnmatch(each.name, pattern)]
    assert found
    assert all(found)
    return [frame for each in found for frame in each]


PRODUCTS = {each.name: each for each in (RABBITMQ, ACTIVEMQ, ARTEMIS, GENERIC, AUTO)}
in_all_profiles = pytest.mark.parametrize("profile", PRODUCTS.values(), ids=PRODUCTS)


ENDED = {
    "rabbitmq-stopped/forced/*": RABBITMQ,
    "activemq-stopped/gone/*": ACTIVEMQ,
    "artemis-stopped/management/A*": ARTEMIS,
    "artemis-stopped/management/M[12]": ARTEMIS,
    # silent for longer than it had promised, or for a minute
    "artemis-1.[12]/heartbeat/[AB]": ARTEMIS,
}


@pytest.mark.parametrize(("pattern", "product"), ENDED.items())
def test_a_recorded_broker_that_ends_the_connection(pattern: str, product: Profile) -> None:
    """It is understood by its own profile, and where the product is not known; the other products do not say such."""
    for frame in recorded(pattern):
        knowing = [name for name, each in PRODUCTS.items() if each.leaves(frame)]
        assert sorted(knowing) == sorted([product.name, "generic", "auto"])
        assert all(PRODUCTS[name].unavailable(frame) for name in knowing)


@in_all_profiles
def test_every_other_recorded_error_is_the_clients(profile: Profile) -> None:
    """Those that quote `shutdown`, `too many` and whole goodbyes of brokers among them."""
    others = [
        frame
        for each in recordings()
        if not any(fnmatch(each.name, pattern) for pattern in ENDED)
        for frame in errors(each.received)
    ]
    assert len(others) > 200
    assert [frame for frame in others if profile.leaves(frame) or profile.unavailable(frame)] == []
