"""What clients of one product use, and what another product calls it: the facts from which the maps between products
are made. Tests ask real brokers for each fact (`tests/e2e/test_products.py`).
"""

import re
from enum import Enum
from typing import Final, NamedTuple

from stomprelay.relay.model.names import NameRow, Pattern
from stomprelay.wire.names import ACK, NACK, SEND, SUBSCRIBE, TRANSACTION, UNSUBSCRIBE

ACTIVEMQ, ARTEMIS, RABBITMQ = PRODUCTS = ("activemq", "artemis", "rabbitmq")
"""The products between which there are maps."""


class Unit(Enum):
    """What the value of a header means."""

    TEXT = "text"
    EPOCH = "milliseconds since 1970; 0: never"
    PERIOD = "milliseconds from now on"
    MESSAGES = "messages"
    BYTES = "bytes"
    CONVERTING = "a selector that compares text with numbers"
    TYPED = "a selector that compares text with numbers only behind CONVERSION"


SELECTORS: Final = "selectors"
CONVERSION: Final = b"convert_string_expressions:"
"""Begins a selector that compares text with numbers."""
SELECTED: Final = {
    b"JMSPriority": b"AMQPriority",
    b"JMSTimestamp": b"AMQTimestamp",
    b"JMSExpiration": b"AMQExpiration",
    b"JMSXGroupID": b"AMQGroupID",
    b"JMSDeliveryMode": b"AMQDurable",
    b"'PERSISTENT'": b"'DURABLE'",
    b"'NON_PERSISTENT'": b"'NON_DURABLE'",
}
"""Words of ACTIVEMQ's selectors that are others at ARTEMIS; the texts are values of the last name alone."""


class Said(NamedTuple):
    """A header in the words of one product. `used`: clients of the product mean this by it; else it is only where the
    relay puts what other clients say.
    """

    name: bytes
    unit: Unit = Unit.TEXT
    used: bool = True


class Feature(NamedTuple):
    """What clients use by a header of `commands`. `said`: the header, by product; a product that is missing has no such
    feature. `why`: what happens at such a product if the client is not refused. `values`: the values with which clients
    use it; None: with all.
    """

    name: str
    commands: tuple[bytes, ...]
    said: dict[str, Said]
    why: str = ""
    values: re.Pattern[bytes] | None = None


def _feature(
    name: str,
    commands: tuple[bytes, ...],
    why: str = "",
    values: re.Pattern[bytes] | None = None,
    **said: bytes | Said,
) -> Feature:
    """Return a feature of the products that are named; plain bytes are a header whose value all say alike."""
    headers = {product: Said(each) if isinstance(each, bytes) else each for product, each in said.items()}
    return Feature(name, commands, headers, why, values)


PREFETCH: Final = "prefetch"
WINDOWED: Final = {
    "artemis": (b"consumer-window-size", "only 10 KiB come before the first ACK, as the broker is shipped")
}
"""The products that deliver little before the first ACK: the header that asks for more, with the value -1 for any
number; and what a client sees.
"""
_SUBSCRIBING: Final = SUBSCRIBE, UNSUBSCRIBE
TRUE: Final = re.compile(rb"(?i:true)")
"""The values with which a switch is on."""

_AT_ONCE: Final = "the broker delivers at once"
_OWN_COPIES: Final = "clients read what they send"
_DURABLE: Final = Said(b"activemq.subscriptionName", used=False)
_QUEUE_ARGUMENTS: Final = {
    **dict.fromkeys(
        (b"x-message-ttl", b"x-expires", b"x-max-length", b"x-max-length-bytes", b"x-max-priority")
    ),
    **dict.fromkeys((b"x-dead-letter-exchange", b"x-dead-letter-routing-key")),
    b"x-queue-type": re.compile(rb"stream"),
    b"exclusive": TRUE,
}

FEATURES: Final = (
    _feature(
        "expiry",
        (SEND,),
        activemq=Said(b"expires", Unit.EPOCH),
        artemis=Said(b"expires", Unit.EPOCH),
        rabbitmq=Said(b"expiration", Unit.PERIOD),
    ),
    # RabbitMQ closes the connection if `user-id` is not the login.
    _feature(
        "user-id", (SEND,), activemq=b"user-id", artemis=b"user-id", rabbitmq=Said(b"x-user-id", used=False)
    ),
    _feature(
        PREFETCH,
        (SUBSCRIBE,),
        activemq=Said(b"activemq.prefetchSize", Unit.MESSAGES),
        artemis=Said(b"consumer-window-size", Unit.BYTES),
        rabbitmq=Said(b"prefetch-count", Unit.MESSAGES),
    ),
    _feature(
        "durable-subscriptions",
        _SUBSCRIBING,
        activemq=b"activemq.subscriptionName",
        artemis=b"durable-subscription-name",
    ),
    # Artemis knows these names, too.
    _feature("durable-subscriptions", _SUBSCRIBING, activemq=_DURABLE, artemis=b"durable-subscriber-name"),
    _feature("durable-subscriptions", _SUBSCRIBING, activemq=_DURABLE, artemis=b"activemq.subscriptionName"),
    _feature(
        "no-local",
        (SUBSCRIBE,),
        _OWN_COPIES,
        TRUE,
        activemq=Said(b"activemq.noLocal", used=False),
        artemis=b"activemq.noLocal",
    ),
    _feature(
        SELECTORS,
        (SUBSCRIBE,),
        "the broker delivers every message",
        activemq=Said(b"selector", Unit.CONVERTING),
        artemis=Said(b"selector", Unit.TYPED),
    ),
    _feature("delays", (SEND,), _AT_ONCE, activemq=b"AMQ_SCHEDULED_DELAY", artemis=b"AMQ_SCHEDULED_DELAY"),
    _feature(
        "delays",
        (SEND,),
        _AT_ONCE,
        activemq=Said(b"AMQ_SCHEDULED_DELAY", Unit.PERIOD, used=False),
        artemis=Said(b"AMQ_SCHEDULED_TIME", Unit.EPOCH),
    ),
    *[
        _feature("schedules", (SEND,), "the broker delivers once, at once", activemq=b"AMQ_SCHEDULED_" + each)
        for each in (b"PERIOD", b"REPEAT", b"CRON")
    ],
    _feature(
        "groups", (SEND,), "several consumers share a group", activemq=b"JMSXGroupID", artemis=b"JMSXGroupID"
    ),
    _feature("no-local", (SUBSCRIBE,), _OWN_COPIES, TRUE, activemq=b"activemq.noLocal", artemis=b"no-local"),
    _feature(
        "consumer-priority",
        (SUBSCRIBE,),
        "all consumers are alike",
        activemq=b"activemq.priority",
        rabbitmq=b"x-priority",
    ),
    _feature(
        "exclusive-consumers",
        (SUBSCRIBE,),
        "several consumers get messages",
        TRUE,
        activemq=b"activemq.exclusive",
    ),
    _feature(
        "retroactive", (SUBSCRIBE,), "earlier messages do not come", TRUE, activemq=b"activemq.retroactive"
    ),
    _feature("browsers", (SUBSCRIBE,), "the messages are consumed", TRUE, activemq=b"browser"),
    _feature(
        "transformations",
        (SEND, SUBSCRIBE),
        "bodies come as they were sent",
        re.compile(rb"jms-.+"),
        activemq=b"transformation",
    ),
    _feature(
        "transactional-acks",
        (ACK, NACK),
        "the broker settles at once, also if ABORT follows",
        activemq=TRANSACTION,
        rabbitmq=TRANSACTION,
    ),
    *[
        _feature(
            "queue-arguments", (SEND, SUBSCRIBE), "the queue has the broker's settings", values, rabbitmq=each
        )
        for each, values in _QUEUE_ARGUMENTS.items()
    ],
    _feature(
        "topic-queues",
        (SUBSCRIBE,),
        "each consumer gets every message, and none that came while it was away",
        rabbitmq=b"x-queue-name",
    ),
)
"""The features that headers say. Where a product lacks one that clients use, the frame is refused, or the header is
dropped, as the configuration chooses.
"""


class Place(NamedTuple):
    """What clients of `product` use by the form of a destination, which `pattern` matches. The products in `lacking` do
    not have it. `why`: as in `Feature`.
    """

    name: str
    commands: tuple[bytes, ...]
    product: str
    pattern: re.Pattern[bytes]
    lacking: tuple[str, ...]
    why: str


def _place(
    name: str,
    product: str,
    pattern: bytes,
    why: str,
    commands: tuple[bytes, ...] = (SEND, SUBSCRIBE),
    lacking: tuple[str, ...] | None = None,
) -> Place:
    """Return what `pattern` means; without `lacking`, no other product has it."""
    others = tuple([each for each in PRODUCTS if each != product]) if lacking is None else lacking
    return Place(name, commands, product, re.compile(pattern, re.DOTALL), others, why)


_SUBSCRIBED: Final = (SUBSCRIBE,)
_LIKE_NAMES: Final = "the pattern is taken for one name"
_ALL_TOPICS: Final = "the broker delivers messages of its own, or none"

PLACES: Final = (
    _place("composite-destinations", ACTIVEMQ, rb"[^,]+,.+", "the list is taken for one name"),
    _place("destination-options", ACTIVEMQ, rb"[^?]+\?.+", "the options are taken for a part of the name"),
    _place(
        "advisories",
        ACTIVEMQ,
        rb"/topic/ActiveMQ\.Advisory\..+",
        "the broker tells nothing of what happens in it",
        _SUBSCRIBED,
    ),
    *[
        _place(
            "reserved-names",
            product,
            rb"(?:/queue/)?amq\..+",
            "the broker closes the connection",
            lacking=(RABBITMQ,),
        )
        for product in (ACTIVEMQ, ARTEMIS)
    ],
    _place(
        "virtual-topics",
        ACTIVEMQ,
        rb"/queue/Consumer\..+\.VirtualTopic\..+",
        "the broker removes the queue when it is empty and has no consumer, unless auto-delete-queues is false",
        _SUBSCRIBED,
        (ARTEMIS,),
    ),
    _place("all-topics", ACTIVEMQ, rb"/topic/>", _ALL_TOPICS, _SUBSCRIBED, (ARTEMIS,)),
    _place("all-topics", RABBITMQ, rb"/topic/#", _ALL_TOPICS, _SUBSCRIBED, (ARTEMIS,)),
    _place("queue-wildcards", ACTIVEMQ, rb"/queue/(?:.*\.)?[*>](?:\..*)?", _LIKE_NAMES, _SUBSCRIBED),
    _place("queue-wildcards", ARTEMIS, rb"/queue/(?:.*\.)?[*#](?:\..*)?", _LIKE_NAMES, _SUBSCRIBED),
    _place("qualified-names", ARTEMIS, rb".+::.+", "the broker has no queues of topics"),
    _place("plain-names", ARTEMIS, rb"[^/].*", "the broker takes a name without a prefix for a queue"),
    _place("exchanges", RABBITMQ, rb"/exchange/.+", "the broker has no exchanges"),
    _place(
        "existing-queues",
        RABBITMQ,
        rb"/(?:amq/queue|reply-queue)/.+",
        "the broker takes it for a name like others",
    ),
)
"""The features that destinations say."""

NACKS: Final = {
    ACTIVEMQ: {"dead-letter": NACK, "discard": ACK},
    ARTEMIS: {"discard": NACK},
    RABBITMQ: {"requeue": NACK, "dead-letter": NACK, "discard": ACK},
}
"""What a broker's product can do with a refused message, and the command with which it does so."""

_SPELLED: Final = {ACTIVEMQ: ("", ""), ARTEMIS: ("", ":hash"), RABBITMQ: (":percent", ":hash+percent")}
"""How a product spells the names of queues and of topics, as in `names.SPELLINGS`."""


def ready_names(clients: str, broker: str) -> list[NameRow]:
    """Return how the names of a product's clients are spelled for a broker."""
    return [
        NameRow(Pattern(f"/{kind}/{{name{ours}}}"), Pattern(f"/{kind}/{{name{theirs}}}"))
        for kind, ours, theirs in zip(("queue", "topic"), _SPELLED[clients], _SPELLED[broker], strict=True)
        if ours != theirs
    ]
