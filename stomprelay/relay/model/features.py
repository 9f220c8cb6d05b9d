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
    activemq: Said | None,
    artemis: Said | None,
    rabbitmq: Said | None,
    why: str = "",
    values: re.Pattern[bytes] | None = None,
) -> Feature:
    columns = zip(PRODUCTS, (activemq, artemis, rabbitmq), strict=True)
    said = {product: each for product, each in columns if each is not None}
    return Feature(name, commands, said, why, values)


def _ignored(name: str) -> str:
    return f"the broker takes no notice of {name}"


_SUBSCRIBING: Final = SUBSCRIBE, UNSUBSCRIBE
TRUE: Final = re.compile(rb"(?i:true)")
"""The values with which a switch is on."""

FEATURES: Final = (
    _feature(
        "expiry",
        (SEND,),
        Said(b"expires", Unit.EPOCH),
        Said(b"expires", Unit.EPOCH),
        Said(b"expiration", Unit.PERIOD),
    ),
    # RabbitMQ closes the connection if `user-id` is not the login.
    _feature("user-id", (SEND,), Said(b"user-id"), Said(b"user-id"), Said(b"x-user-id", used=False)),
    _feature(
        "prefetch",
        (SUBSCRIBE,),
        Said(b"activemq.prefetchSize", Unit.MESSAGES),
        Said(b"consumer-window-size", Unit.BYTES),
        Said(b"prefetch-count", Unit.MESSAGES),
    ),
    _feature(
        "durable-subscriptions",
        _SUBSCRIBING,
        Said(b"activemq.subscriptionName"),
        Said(b"durable-subscription-name"),
        None,
    ),
    # Artemis knows these names, too.
    *[
        _feature(
            "durable-subscriptions",
            _SUBSCRIBING,
            Said(b"activemq.subscriptionName", used=False),
            Said(each),
            None,
        )
        for each in (b"durable-subscriber-name", b"activemq.subscriptionName")
    ],
    _feature(
        "no-local",
        (SUBSCRIBE,),
        Said(b"activemq.noLocal", used=False),
        Said(b"activemq.noLocal"),
        None,
        "clients read what they send",
        TRUE,
    ),
    _feature(
        SELECTORS,
        (SUBSCRIBE,),
        Said(b"selector", Unit.CONVERTING),
        Said(b"selector", Unit.TYPED),
        None,
        "the broker delivers every message",
    ),
    _feature(
        "delays",
        (SEND,),
        Said(b"AMQ_SCHEDULED_DELAY"),
        Said(b"AMQ_SCHEDULED_DELAY"),
        None,
        "the broker delivers at once",
    ),
    *[
        _feature(
            "schedules",
            (SEND,),
            Said(b"AMQ_SCHEDULED_" + each),
            None,
            None,
            "the broker delivers once, at once",
        )
        for each in (b"PERIOD", b"REPEAT", b"CRON")
    ],
    _feature(
        "groups",
        (SEND,),
        Said(b"JMSXGroupID"),
        Said(b"JMSXGroupID"),
        None,
        "several consumers share a group",
    ),
    _feature(
        "no-local",
        (SUBSCRIBE,),
        Said(b"activemq.noLocal"),
        Said(b"no-local"),
        None,
        "clients read what they send",
        TRUE,
    ),
    _feature(
        "consumer-priority",
        (SUBSCRIBE,),
        Said(b"activemq.priority"),
        None,
        Said(b"x-priority"),
        "all consumers are alike",
    ),
    _feature(
        "exclusive-consumers",
        (SUBSCRIBE,),
        Said(b"activemq.exclusive"),
        None,
        None,
        "several consumers get messages",
        TRUE,
    ),
    _feature(
        "retroactive",
        (SUBSCRIBE,),
        Said(b"activemq.retroactive"),
        None,
        None,
        "earlier messages do not come",
        TRUE,
    ),
    _feature("browsers", (SUBSCRIBE,), Said(b"browser"), None, None, "the messages are consumed", TRUE),
    _feature(
        "transformations",
        (SEND, SUBSCRIBE),
        Said(b"transformation"),
        None,
        None,
        "bodies come as they were sent",
        re.compile(rb"jms-.+"),
    ),
    _feature(
        "transactional-acks",
        (ACK, NACK),
        Said(TRANSACTION),
        None,
        Said(TRANSACTION),
        "the broker settles at once, also if ABORT follows",
    ),
    *[
        _feature(
            "queue-arguments",
            (SEND, SUBSCRIBE),
            None,
            None,
            Said(each),
            "the queue has the broker's settings",
            values,
        )
        for each, values in (
            (b"x-message-ttl", None),
            (b"x-expires", None),
            (b"x-max-length", None),
            (b"x-max-length-bytes", None),
            (b"x-max-priority", None),
            (b"x-dead-letter-exchange", None),
            (b"x-dead-letter-routing-key", None),
            (b"x-queue-type", re.compile(rb"stream")),
            (b"exclusive", TRUE),
        )
    ],
    _feature(
        "topic-queues",
        (SUBSCRIBE,),
        None,
        None,
        Said(b"x-queue-name"),
        "each consumer gets every message, and none that came while it was away",
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


PLACES: Final = (
    Place(
        "composite-destinations",
        (SEND, SUBSCRIBE),
        ACTIVEMQ,
        re.compile(rb"[^,]+,.+", re.DOTALL),
        (ARTEMIS, RABBITMQ),
        "the list is taken for one name",
    ),
    Place(
        "destination-options",
        (SEND, SUBSCRIBE),
        ACTIVEMQ,
        re.compile(rb"[^?]+\?.+", re.DOTALL),
        (ARTEMIS, RABBITMQ),
        "the options are taken for a part of the name",
    ),
    Place(
        "advisories",
        (SUBSCRIBE,),
        ACTIVEMQ,
        re.compile(rb"/topic/ActiveMQ\.Advisory\..+", re.DOTALL),
        (ARTEMIS, RABBITMQ),
        "the broker tells nothing of what happens in it",
    ),
    *[
        Place(
            "reserved-names",
            (SEND, SUBSCRIBE),
            product,
            re.compile(rb"(?:/queue/)?amq\..+", re.DOTALL),
            (RABBITMQ,),
            "the broker closes the connection",
        )
        for product in (ACTIVEMQ, ARTEMIS)
    ],
    Place(
        "virtual-topics",
        (SUBSCRIBE,),
        ACTIVEMQ,
        re.compile(rb"/queue/Consumer\..+\.VirtualTopic\..+", re.DOTALL),
        (ARTEMIS,),
        "the broker removes the queue when it is empty and has no consumer, unless auto-delete-queues is false",
    ),
    Place(
        "all-topics",
        (SUBSCRIBE,),
        ACTIVEMQ,
        re.compile(rb"/topic/>"),
        (ARTEMIS,),
        "the broker delivers messages of its own, or none",
    ),
    Place(
        "all-topics",
        (SUBSCRIBE,),
        RABBITMQ,
        re.compile(rb"/topic/#"),
        (ARTEMIS,),
        "the broker delivers messages of its own, or none",
    ),
    *[
        Place(
            "queue-wildcards",
            (SUBSCRIBE,),
            product,
            re.compile(rb"/queue/(?:.*\.)?[*%b](?:\..*)?" % rest, re.DOTALL),
            tuple([each for each in PRODUCTS if each != product]),
            "the pattern is taken for one name",
        )
        for product, rest in ((ACTIVEMQ, b">"), (ARTEMIS, b"#"))
    ],
    Place(
        "qualified-names",
        (SEND, SUBSCRIBE),
        ARTEMIS,
        re.compile(rb".+::.+", re.DOTALL),
        (ACTIVEMQ, RABBITMQ),
        "the broker has no queues of topics",
    ),
    Place(
        "plain-names",
        (SEND, SUBSCRIBE),
        ARTEMIS,
        re.compile(rb"[^/].*", re.DOTALL),
        (ACTIVEMQ, RABBITMQ),
        "the broker takes a name without a prefix for a queue",
    ),
    Place(
        "exchanges",
        (SEND, SUBSCRIBE),
        RABBITMQ,
        re.compile(rb"/exchange/.+", re.DOTALL),
        (ACTIVEMQ, ARTEMIS),
        "the broker has no exchanges",
    ),
    Place(
        "existing-queues",
        (SEND, SUBSCRIBE),
        RABBITMQ,
        re.compile(rb"/(?:amq/queue|reply-queue)/.+", re.DOTALL),
        (ACTIVEMQ, ARTEMIS),
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
