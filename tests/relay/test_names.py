"""Destinations that clients and brokers call by different names: what each side is told."""

from dataclasses import replace
from typing import Any

import pytest

from stomprelay.config.listener import ruled
from stomprelay.config.values import name_rows
from stomprelay.relay.model.mapping import MapSettings
from stomprelay.relay.model.names import NameMap
from stomprelay.relay.model.profile import RABBITMQ
from stomprelay.relay.model.rules import AccessRule, AccessRules
from tests.playbook import (
    CUTS,
    SAY_HELLO,
    Cut,
    Playbook,
    in_all_cuts,
    in_all_pairs,
    joined,
    listener,
    upstream,
)
from tests.relay.failing import moves, started
from tests.relay.frames import RECEIPT, send, tell

ROWS = name_rows(
    [
        ["/queue/orders", "/queue/shop.orders"],
        ["/topic/{rest}", "/topic/{rest:hash}"],
        ["/queue/{name}", "/queue/{name:percent}"],
    ]
)
NAMES, MAP = NameMap(ROWS), MapSettings(names=ROWS)
CLIENT, BROKER = b"/queue/a/b", b"/queue/a%2Fb"


def mapped(client: bytes = b"1.2", broker: bytes = b"1.2", cut: Cut = Cut.WHOLE, **settings: Any) -> Playbook:
    """A playbook with the rows, over a plain address."""
    return joined(client, broker, cut=cut, over=lambda each: replace(each, map=MAP, **settings))


def message(destination: bytes, more: bytes = b"") -> bytes:
    """A MESSAGE of subscription 1."""
    return b"MESSAGE\ndestination:%b\n%bsubscription:1\nmessage-id:m\n\nx\0" % (destination, more)


@pytest.mark.parametrize(
    ("client", "broker"),
    [
        (b"/queue/orders", b"/queue/shop.orders"),
        (b"/queue/a/b", b"/queue/a%2Fb"),
        (b"/queue/plain", b"/queue/plain"),
        (b"/topic/x.>", b"/topic/x.#"),
        (b"/topic/>", b"/topic/#"),
        (b"/topic/x>", b"/topic/x>"),
        (b"elsewhere", b"elsewhere"),
        (b"/queue/%b" % (b"n" * 300), b"/queue/%b" % (b"n" * 300)),
    ],
)
def test_names(client: bytes, broker: bytes) -> None:
    """Each name has one name on the other side, and comes back as it was."""
    assert (NAMES.to_broker(client), NAMES.to_client(broker)) == (broker, client)


@in_all_cuts
def test_sends(cut: Cut) -> None:
    """SENDs go to the broker's names, alone and many at once; what is not in the map passes as it came."""
    play = mapped(cut=cut)
    ask = tell(b"SEND", destination="/queue/a/b", receipt="r", reply_to="/queue/orders")
    play.client_tells_broker(send(b"1", CLIENT), send(b"1", BROKER))
    play.client_tells_broker(send(b"2", CLIENT) * 3, send(b"2", BROKER) * 3)
    mixed = send(b"3", CLIENT, x="y"), send(b"4", b"/queue/c"), send(b"5", b"/queue/orders")
    said = send(b"3", BROKER, x="y"), send(b"4", b"/queue/c"), send(b"5", b"/queue/shop.orders")
    play.client_tells_broker(b"".join(mixed), b"".join(said))
    asked = b"SEND\nreply-to:/queue/shop.orders\ndestination:/queue/a%2Fb\nreceipt:r\n\n\0"
    play.client_tells_broker(ask, asked)
    play.broker_tells_client(RECEIPT % b"r")


@in_all_pairs
def test_all_versions(client: bytes, broker: bytes) -> None:
    """What a client wrote comes back to it as it wrote it, and names the subscription, whatever the versions are."""
    play = mapped(client, broker)
    named = b"" if client == b"1.0" else b"id:1\n"
    play.client_says(b"SUBSCRIBE\n%bdestination:/queue/a/b\n\n\0" % named)
    assert b"\ndestination:/queue/a%2Fb\n" in play.broker_reads()
    play.client_says(send(b"1", CLIENT))
    assert b"\ndestination:/queue/a%2Fb\n" in play.broker_reads()
    play.broker_says(message(BROKER, b"reply-to:/queue/shop.orders\noriginal-destination:/queue/c%2Fd\n"))
    read = play.client_reads()
    assert b"\ndestination:/queue/a/b\n" in read
    assert b"\nreply-to:/queue/orders\n" in read
    assert b"\noriginal-destination:/queue/c/d\n" in read
    leave = b"destination:/queue/a/b\n" if client == b"1.0" else b"id:1\n"
    play.client_says(b"UNSUBSCRIBE\n%b\n\0" % leave)
    assert CLIENT not in play.broker_reads()


@in_all_cuts
def test_a_wildcard(cut: Cut) -> None:
    """A MESSAGE for a pattern has the name that a client would write."""
    play = mapped(cut=cut)
    play.client_tells_broker(
        b"SUBSCRIBE\nid:1\ndestination:/topic/x.>\n\n\0", b"SUBSCRIBE\ndestination:/topic/x.#\nid:1\n\n\0"
    )
    play.broker_tells_client(message(b"/topic/x.y"))


def test_the_next_broker() -> None:
    """It is sent subscriptions and unconfirmed SENDs by its own names."""
    play = started(confirm=True, map=MAP)
    play.client_tells_broker(
        b"SUBSCRIBE\nid:1\ndestination:/queue/a/b\n\n\0", b"SUBSCRIBE\ndestination:/queue/a%2Fb\nid:1\n\n\0"
    )
    play.client_says(send(b"1", CLIENT))
    assert b"destination:/queue/a%2Fb\n" in play.broker_reads()
    moves(play)
    again = play.broker_reads()
    assert again.startswith(b"SUBSCRIBE\ndestination:/queue/a%2Fb\nid:1\n\n\0")
    assert b"SEND\nrelay-resent:true\n" in again
    assert again.count(b"destination:/queue/a%2Fb\n") == 2


@pytest.mark.parametrize("name", [b"/queue/orders", b"/amq/queue/shop.orders", b"shop.orders"])
def test_a_rule(name: bytes) -> None:
    """It has the clients' names, and holds for all other names that the product has for the same place."""
    rule = AccessRule(1, allow=False, send=("/queue/orders",)), frozenset({"public"})
    front = listener(upstream(map=MAP, profile=RABBITMQ), rules=AccessRules((), True))
    play = Playbook(ruled(front, [rule]))
    play.client_says(SAY_HELLO[b"1.2"])
    play.broker_welcomes(b"1.2", "rabbitmq")
    play.client_reads()
    play.client_says(send(b"1", name, receipt="r"))
    play.client_gets_error(b"not allowed", receipt=b"r")


@pytest.mark.parametrize("cut", CUTS[:2])
@pytest.mark.parametrize("name", [b"/queue/shop.orders", b"/queue/a%2Fb"])
def test_a_name_of_the_broker(name: bytes, cut: Cut) -> None:
    """Who uses it for another place would share it with somebody else: it gets an ERROR."""
    play = mapped(cut=cut)
    play.client_says(send(b"1", name, receipt="r"))
    play.client_gets_error(b"a destination has no name at the broker", receipt=b"r")
