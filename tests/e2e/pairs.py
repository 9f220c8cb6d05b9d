"""What the relay makes of each feature between each two products: the tables of `docs/move.md`.

`python -m tests.e2e.pairs` writes them; `test_move_cells.py` plays each cell with real brokers.
"""

import re
from pathlib import Path
from typing import Final, NamedTuple

from stomprelay.relay.model.features import ACTIVEMQ, ARTEMIS, PRODUCTS, RABBITMQ

PAIRS: Final = [(clients, broker) for clients in PRODUCTS for broker in PRODUCTS if clients != broker]
"""The product that clients were written for, and the broker's."""
PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "move.md"
HEADING: Final = "## What is said otherwise, by product"
SAME, MAPPED, CHOSEN, REFUSED, OTHERWISE, NONE = "same", "mapped", "chosen", "refused", "otherwise", "-"
BY_DOCUMENTS: Final = "by the documents"
"""Begins a cell that no test can see."""
BY_BROKER: Final = " by the broker"
"""Behind `REFUSED`: no setting changes it."""

_TITLES: Final = {ACTIVEMQ: "ActiveMQ", ARTEMIS: "Artemis", RABBITMQ: "RabbitMQ"}


def quoted(text: str) -> list[str]:
    """Return what a cell has in backticks: what a client says, a feature, or lines of configuration."""
    return re.findall(r"`([^`]+)`", text)


class Row(NamedTuple):
    """A feature. `words`: how a client says it, by product. `cells`: what becomes of it, by pair: one of the words
    above, perhaps a colon, and what the broker reads (mapped), the setting (chosen), or the features to ignore
    (refused). `scene`: the function of the test that plays it; "": what no test can see.
    """

    scene: str
    title: str
    words: tuple[str, str, str]
    cells: tuple[str, str, str, str, str, str]

    def cell(self, clients: str, broker: str) -> str:
        """Return what becomes of it between two products."""
        return self.cells[PAIRS.index((clients, broker))]

    def verdict(self, clients: str, broker: str) -> str:
        """Return the word of the cell."""
        return self.cell(clients, broker).partition(":")[0].removesuffix(BY_BROKER)

    def said(self, product: str) -> list[str]:
        """Return what a client of this product says."""
        return quoted(self.words[PRODUCTS.index(product)])


def _added(*headers: tuple[str, str]) -> str:
    """Return the setting that adds headers to all frames for queues."""
    rows = [
        f'{{ on = ["SEND", "SUBSCRIBE"], header = "{name}", destination = "/queue/*", add = "{value}" }}'
        for name, value in headers
    ]
    return f"`map.headers = [{', '.join(rows)}]`"


_QUORUM: Final = f"chosen: {_added(('x-queue-type', 'quorum'))}"
_PRIORITIES: Final = f"chosen: {_added(('x-max-priority', '10'))}"
_DEAD: Final = (
    'chosen: `map.nack = "dead-letter"`, and where queues have no policy for dead letters '
    + _added(("x-dead-letter-exchange", ""), ("x-dead-letter-routing-key", "dead"))
)
_DISCARD, _REQUEUE = 'chosen: `map.nack = "discard"`', 'chosen: `map.nack = "requeue"`'
_FIRST: Final = "otherwise: only the first has redelivered:true"
_FILTER: Final = 'chosen: `map.filter = ["/topic/*"]`'
_SIZE: Final = "chosen: `map.message_size = 1024`"
_HOST: Final = 'chosen: `host = "/"`'
_ANY_NUMBER: Final = (
    '`map.headers = [{ on = "SUBSCRIBE", header = "consumer-window-size", destination = "*", add = "-1" }]`'
)

ROWS: Final = (
    # The six cells of a row are in the order of PAIRS.
    Row(
        "slash",
        "a slash in a name",
        ("`/queue/a/b`", "`/queue/a/b`", "`/queue/a%2Fb`"),
        (SAME, MAPPED, SAME, MAPPED, MAPPED, MAPPED),
    ),
    Row(
        "plain",
        "a name without a prefix",
        (
            "`orders`, a queue",
            "`orders`, a topic, unless the broker has a queue of that name",
            "`orders`, a queue",
        ),
        (
            "mapped: `destination-type:ANYCAST`",
            SAME,
            "refused: `plain-names`",
            "refused: `plain-names`",
            SAME,
            "mapped: `destination-type:ANYCAST`",
        ),
    ),
    Row(
        "other_prefix",
        "a name with another prefix, or an empty name",
        ("`/other/x`, a queue", "`/other/x`, a topic", "ERROR"),
        (
            "mapped: `destination-type:ANYCAST`",
            f"{REFUSED}{BY_BROKER}",
            "otherwise: a queue",
            f"{REFUSED}{BY_BROKER}",
            *("otherwise: a queue",) * 2,
        ),
    ),
    Row(
        "reserved",
        "a queue whose name begins with `amq.`",
        ("`/queue/amq.x`", "`/queue/amq.x`", "ERROR, and the end"),
        (SAME, "refused: `reserved-names`", SAME, "refused: `reserved-names`", NONE, NONE),
    ),
    Row(
        "rest",
        "all topics below one",
        ("`/topic/a.>`", "`/topic/a.#`", "`/topic/a.#`"),
        (MAPPED, MAPPED, MAPPED, SAME, MAPPED, SAME),
    ),
    Row("word", "any one word of a topic", ("`/topic/a.*`",) * 3, (SAME,) * 6),
    Row(
        "all_topics",
        "all topics",
        ("`/topic/>`", "none that gives topics alone", "`/topic/#`"),
        ("refused: `all-topics`", MAPPED, NONE, NONE, MAPPED, "refused: `all-topics`"),
    ),
    Row(
        "queue_wildcards",
        "several queues by a pattern",
        ("`/queue/a.>`", "`/queue/a.#`", NONE),
        (*("refused: `queue-wildcards`",) * 4, NONE, NONE),
    ),
    Row(
        "composite",
        "several places in one frame",
        ("`/queue/a,/queue/b`", NONE, NONE),
        (*("refused: `composite-destinations`",) * 2, *(NONE,) * 4),
    ),
    Row(
        "options",
        "options behind a name",
        ("`/queue/a?consumer.exclusive=true`", NONE, NONE),
        (*("refused: `destination-options`",) * 2, *(NONE,) * 4),
    ),
    Row(
        "shared",
        "a topic's messages for several workers, also while they are away",
        (
            "`/queue/Consumer.A.VirtualTopic.T`",
            "`/topic/VirtualTopic.T::Consumer.A.VirtualTopic.T`",
            "`/topic/VirtualTopic.T` with `x-queue-name:Consumer.A.VirtualTopic.T`, `durable:true`, "
            "`auto-delete:false`",
        ),
        (
            'chosen: `map.ignore = ["virtual-topics"]`, and the address setting auto-delete-queues false at the broker',
            MAPPED,
            "refused: `qualified-names`",
            "refused: `qualified-names`",
            "refused: `topic-queues`, `durable-subscriptions`",
            "refused: `topic-queues`, `durable-subscriptions`",
        ),
    ),
    Row(
        "exchanges",
        "an exchange",
        (NONE, NONE, "`/exchange/amq.topic/a`"),
        (*(NONE,) * 4, *("refused: `exchanges`",) * 2),
    ),
    Row(
        "existing",
        "a queue that is there already",
        (NONE, NONE, "`/amq/queue/a`"),
        (*(NONE,) * 4, *("refused: `existing-queues`",) * 2),
    ),
    Row(
        "requests",
        "replies to a temporary queue",
        (
            "SUBSCRIBE to `/temp-queue/me`, and `reply-to:/temp-queue/me`",
            "`/temp-queue/me`, which all clients share; the relay makes one for each",
            "only `reply-to:/temp-queue/me`; no SUBSCRIBE",
        ),
        (
            "mapped: `reply-to:/queue/relay-temp.`",
            "mapped: `reply-to:/amq/queue/relay-temp.`, `exclusive:true`",
            "mapped: `reply-to:/queue/relay-temp.`",
            "mapped: `reply-to:/amq/queue/relay-temp.`, `exclusive:true`",
            "refused: `reply-subscriptions`",
            "refused: `reply-subscriptions`",
        ),
    ),
    Row(
        "topic_requests",
        "replies to a temporary topic",
        (
            "SUBSCRIBE to `/temp-topic/me`, and `reply-to:/temp-topic/me`",
            "`/temp-topic/me`, which all clients share; the relay makes a queue for each",
            NONE,
        ),
        (
            "mapped: `reply-to:/queue/relay-temp.`",
            "mapped: `reply-to:/amq/queue/relay-temp.`, `exclusive:true`",
            "mapped: `reply-to:/queue/relay-temp.`",
            "mapped: `reply-to:/amq/queue/relay-temp.`, `exclusive:true`",
            NONE,
            NONE,
        ),
    ),
    Row(
        "advisories",
        "what happens in the broker",
        ("`/topic/ActiveMQ.Advisory.Connection`, and others", NONE, NONE),
        (*("refused: `advisories`",) * 2, *(NONE,) * 4),
    ),
    Row(
        "reply_to",
        "`reply-to` with a queue",
        ("`reply-to:/queue/a/b`", "`reply-to:/queue/a/b`", "`reply-to:/queue/a%2Fb`"),
        (SAME, MAPPED, SAME, MAPPED, MAPPED, MAPPED),
    ),
    Row(
        "foreign_replies",
        "`reply-to` with any text",
        ("`reply-to:https://a.example/b`", "`reply-to:https://a.example/b`", NONE),
        (SAME, "refused: `foreign-replies`", SAME, "refused: `foreign-replies`", NONE, NONE),
    ),
    Row(
        "expiry",
        "a message that expires",
        (
            "`expires:`, in ms since 1970",
            "`expires:`, in ms since 1970",
            "`expiration:`, in ms from now on",
        ),
        (SAME, MAPPED, SAME, MAPPED, MAPPED, MAPPED),
    ),
    Row(
        "expired",
        "a message that has expired already, while a consumer waits",
        ("it does not come", "it does not come", "it comes"),
        (
            SAME,
            "otherwise: it comes",
            SAME,
            "otherwise: it comes",
            *(f"{OTHERWISE}, {BY_DOCUMENTS}: it does not come",) * 2,
        ),
    ),
    Row("persistent", "a message that outlives its broker", ("`persistent:true`",) * 3, (SAME,) * 6),
    Row(
        "priority",
        "a message's priority",
        (
            "`priority:9`; counts only if the broker is told so",
            "`priority:9`",
            "`priority:9`; counts only if the queue has x-max-priority",
        ),
        (SAME, SAME, "otherwise: set `prioritizedMessages` at the broker", _PRIORITIES, SAME, SAME),
    ),
    Row(
        "timestamp",
        "`timestamp` of a MESSAGE",
        ("the sender's, else the broker's", "the broker's", "the sender's, else none"),
        (
            "otherwise: the broker's before the sender's",
            SAME,
            SAME,
            "otherwise: only what the sender says",
            SAME,
            "otherwise: the broker's before the sender's",
        ),
    ),
    Row(
        "other_headers",
        "other headers",
        ("`correlation-id:c`, `type:t`, `foo:bar`",) * 3,
        (SAME,) * 6,
    ),
    Row(
        "unsaid",
        "what a MESSAGE says though its sender did not",
        (
            "expires, priority, timestamp",
            "the same; and persistent, redelivered, destination-type",
            "redelivered; and content-length, unless the body is empty",
        ),
        (
            "otherwise: it also says persistent, redelivered",
            "otherwise: only redelivered",
            "otherwise: persistent, redelivered only if they are true",
            "otherwise: only redelivered",
            "otherwise: redelivered only if it is true",
            SAME,
        ),
    ),
    Row(
        "asked",
        "`receipt` and `transaction` of a SEND",
        ("are not in its MESSAGE", "are in its MESSAGE", "are in its MESSAGE"),
        (
            *("otherwise: they are in its MESSAGE",) * 2,
            "otherwise: they are not in its MESSAGE",
            SAME,
            "otherwise: they are not in its MESSAGE",
            SAME,
        ),
    ),
    Row(
        "raw_colons",
        "a colon in a value that is not escaped, from 1.1 on",
        ("is kept", "is lost", "is kept"),
        (
            "otherwise: it is lost",
            SAME,
            *("otherwise: it is kept",) * 2,
            SAME,
            "otherwise: it is lost",
        ),
    ),
    Row(
        "transformations",
        "a body that the broker writes otherwise",
        ("`transformation:jms-map-json`, and others", NONE, NONE),
        (*("refused: `transformations`",) * 2, *(NONE,) * 4),
    ),
    Row("large_body", "a body of 1 MB, with NULs", ("",) * 3, (SAME,) * 6),
    Row(
        "delays",
        "a message that comes later",
        ("`AMQ_SCHEDULED_DELAY:`, in ms", "`AMQ_SCHEDULED_DELAY:`, in ms", NONE),
        (SAME, "refused: `delays`", SAME, "refused: `delays`", NONE, NONE),
    ),
    Row(
        "scheduled",
        "a message that comes at a time",
        (NONE, "`AMQ_SCHEDULED_TIME:`, in ms since 1970", NONE),
        (NONE, NONE, "mapped: `AMQ_SCHEDULED_DELAY:`", "refused: `delays`", NONE, NONE),
    ),
    Row(
        "schedules",
        "a message that comes again and again",
        ("`AMQ_SCHEDULED_REPEAT:1`, `_PERIOD`, `_CRON`", NONE, NONE),
        (*("refused: `schedules`",) * 2, *(NONE,) * 4),
    ),
    Row(
        "groups",
        "a group of messages for one consumer",
        ("`JMSXGroupID:g`", "`JMSXGroupID:g`; a MESSAGE calls it _AMQ_GROUP_ID", NONE),
        (SAME, "refused: `groups`", SAME, "refused: `groups`", NONE, NONE),
    ),
    Row(
        "selectors",
        "a selector that compares numbers",
        ("`selector:price > 10`", "`selector:convert_string_expressions:price > 10`", NONE),
        (MAPPED, _FILTER, MAPPED, _FILTER, NONE, NONE),
    ),
    Row(
        "selected",
        "a selector with JMS's names of headers",
        (
            "`selector:JMSPriority > 5`, and others",
            "`selector:convert_string_expressions:AMQPriority > 5`, and others",
            NONE,
        ),
        (MAPPED, "refused: `selectors`", MAPPED, "refused: `selectors`", NONE, NONE),
    ),
    Row(
        "hyphens",
        "a selector with a hyphen in a name",
        (NONE, "`selector:hyphenated_props:a-b = 'c'`", NONE),
        (NONE, NONE, "refused: `hyphenated-selectors`", "refused: `selectors`", NONE, NONE),
    ),
    Row(
        "prefetch",
        "how many messages a consumer may have",
        (
            "`activemq.prefetchSize:1`, messages",
            "`consumer-window-size:1024`, bytes",
            "`prefetch-count:1`, messages",
        ),
        (_SIZE, MAPPED, _SIZE, _SIZE, MAPPED, _SIZE),
    ),
    Row(
        "",
        "how many come before the first ACK, where the client does not say it",
        ("1000 messages", "10 KiB, as it is shipped", "any number"),
        (
            f"{CHOSEN}, {BY_DOCUMENTS}: {_ANY_NUMBER}",
            f"{OTHERWISE}, {BY_DOCUMENTS}: any number",
            *(f"{OTHERWISE}, {BY_DOCUMENTS}: more",) * 2,
            f"{OTHERWISE}, {BY_DOCUMENTS}: 1000 messages",
            f"{CHOSEN}, {BY_DOCUMENTS}: {_ANY_NUMBER}",
        ),
    ),
    Row(
        "durable",
        "a durable subscription",
        (
            "client-id in CONNECT, `activemq.subscriptionName:s`",
            "client-id in CONNECT, `durable-subscription-name:s`",
            "`durable:true`, `auto-delete:false`",
        ),
        (MAPPED, MAPPED, MAPPED, MAPPED, *("refused: `durable-subscriptions`",) * 2),
    ),
    Row(
        "durable_end",
        "the end of a durable subscription",
        (
            "UNSUBSCRIBE, and another one with `activemq.subscriptionName:s`",
            "UNSUBSCRIBE with `durable-subscription-name:s`",
            "UNSUBSCRIBE with `durable:true`, `auto-delete:false`",
        ),
        (
            MAPPED,
            *("refused: `durable-subscriptions`",) * 2,
            MAPPED,
            *("refused: `durable-subscriptions`",) * 2,
        ),
    ),
    Row(
        "durable_end_later",
        "the same from a connection that has not subscribed",
        (
            "UNSUBSCRIBE with `activemq.subscriptionName:s`",
            "UNSUBSCRIBE with `durable-subscription-name:s`",
            "ERROR",
        ),
        (
            MAPPED,
            *("refused: `durable-subscriptions`",) * 2,
            f"{REFUSED}{BY_BROKER}",
            NONE,
            NONE,
        ),
    ),
    Row(
        "user",
        "the sender's user",
        ("`user-id:guest`", "`user-id:guest`", "`user-id:guest`, which must be the login"),
        (SAME, "mapped: `x-user-id:guest`", SAME, "mapped: `x-user-id:guest`", SAME, SAME),
    ),
    Row(
        "durable_queue",
        "a durable subscription of a queue",
        ("ERROR", "is one like others", "is one like others"),
        (
            *("otherwise: it is one like others",) * 2,
            f"{REFUSED}{BY_BROKER}",
            MAPPED,
            SAME,
            SAME,
        ),
    ),
    Row(
        "durable_twice",
        "a second consumer of a durable subscription",
        ("ERROR", "both share it", "both share it"),
        (*("otherwise: both share it",) * 2, f"{REFUSED}{BY_BROKER}", MAPPED, NONE, NONE),
    ),
    Row(
        "no_local",
        "not what one sends oneself",
        ("`activemq.noLocal:true`", "`no-local:true`", NONE),
        (MAPPED, "refused: `no-local`", MAPPED, "refused: `no-local`", NONE, NONE),
    ),
    Row(
        "consumer_priority",
        "a consumer that comes first",
        ("`activemq.priority:10`", NONE, "`x-priority:10`; RabbitMQ 3.10 takes no notice"),
        (
            "refused: `consumer-priority`",
            "otherwise: RabbitMQ 3.10 takes no notice of it",
            NONE,
            NONE,
            MAPPED,
            "refused: `consumer-priority`",
        ),
    ),
    Row(
        "exclusive",
        "one consumer at a time",
        ("`activemq.exclusive:true`", NONE, NONE),
        (*("refused: `exclusive-consumers`",) * 2, *(NONE,) * 4),
    ),
    Row(
        "browsers",
        "looking at a queue",
        ("`browser:true`", NONE, NONE),
        (*("refused: `browsers`",) * 2, *(NONE,) * 4),
    ),
    Row(
        "retroactive",
        "earlier messages of a topic",
        ("`activemq.retroactive:true`", NONE, NONE),
        (*("refused: `retroactive`",) * 2, *(NONE,) * 4),
    ),
    Row(
        "arguments",
        "what a queue is to be",
        (NONE, NONE, "`x-max-length:5`, and others"),
        (*(NONE,) * 4, *("refused: `queue-arguments`",) * 2),
    ),
    Row(
        "quorum",
        "a quorum queue",
        (NONE, NONE, "`x-queue-type:quorum`"),
        (NONE, _QUORUM, NONE, _QUORUM, "otherwise: a queue like others", "otherwise: a queue like others"),
    ),
    Row(
        "nack_dead",
        "NACK, and the message is put aside",
        ("NACK of a persistent message", NONE, "NACK with `requeue:false`"),
        (REFUSED, _DEAD, NONE, NONE, "mapped: `NACK`", REFUSED),
    ),
    Row(
        "nack_back",
        "NACK, and the message comes again",
        (NONE, NONE, "NACK"),
        (NONE, _REQUEUE, NONE, _REQUEUE, REFUSED, REFUSED),
    ),
    Row(
        "nack_gone",
        "NACK, and the message is gone",
        ("NACK of a message that is not persistent", "NACK", "NACK with `requeue:false`"),
        (_DISCARD, _DISCARD, "mapped: `ACK`", "mapped: `ACK`", "mapped: `NACK`", _DISCARD),
    ),
    Row(
        "nack_several",
        "NACK with `ack:client`",
        ("is for one message", "is for all up to one", "is for all up to one"),
        (REFUSED, REFUSED, "mapped: `ACK`", "mapped: `ACK`", REFUSED, REFUSED),
    ),
    Row(
        "ack_in_transaction",
        "ACK in a transaction that is aborted",
        ("`transaction:t`", "is done all the same", "`transaction:t`"),
        (
            "refused: `transactional-acks`",
            SAME,
            *("otherwise: the message comes again",) * 2,
            SAME,
            "refused: `transactional-acks`",
        ),
    ),
    Row(
        "prefetch_in_transaction",
        "the next message, after an ACK in a transaction",
        (
            "comes, `activemq.prefetchSize:1` or not",
            NONE,
            "does not come before COMMIT, with `prefetch-count:1`",
        ),
        (
            "refused: `transactional-acks`",
            "otherwise: it does not come before COMMIT",
            NONE,
            NONE,
            "otherwise: it comes",
            "refused: `transactional-acks`",
        ),
    ),
    Row("transaction", "SEND in a transaction", ("`transaction:t`",) * 3, (SAME,) * 6),
    Row(
        "receipt_in_transaction",
        "RECEIPT of a SEND in a transaction",
        ("at once", "at once", "after COMMIT"),
        (
            SAME,
            "otherwise: it comes after COMMIT",
            SAME,
            "otherwise: it comes after COMMIT",
            "otherwise: it comes at once",
            "otherwise: it comes at once",
        ),
    ),
    Row("cumulative", "ACK of all messages up to one", ("`ack:client`",) * 3, (SAME,) * 6),
    Row(
        "cumulative_several",
        "the same with several subscriptions",
        ("each by itself", "each by itself", "all together"),
        (
            SAME,
            "refused: `cumulative-acks`",
            SAME,
            *("refused: `cumulative-acks`",) * 3,
        ),
    ),
    Row(
        "redelivered",
        "messages that were not acknowledged",
        (
            "come with redelivered:true",
            "come again, the first one with redelivered:true",
            "come with redelivered:true",
        ),
        (_FIRST, *(SAME,) * 4, _FIRST),
    ),
    Row(
        "host",
        "`host` of CONNECT",
        ("any text", "any text", "a virtual host, with names of its own"),
        (SAME, _HOST, SAME, _HOST, *("otherwise: any text, and all have the same names",) * 2),
    ),
    Row(
        "same_client",
        "a second CONNECT with the same `client-id`",
        ("ERROR", "both share durable subscriptions", "both share durable subscriptions"),
        (*("otherwise: it is accepted",) * 2, f"{REFUSED}{BY_BROKER}", SAME, NONE, NONE),
    ),
    Row(
        "same_id",
        "SUBSCRIBE with the `id` of another subscription",
        ("both get messages", "ERROR, and the end", "ERROR, and the end"),
        (
            *(f"{REFUSED}{BY_BROKER}",) * 2,
            "otherwise: both get messages",
            SAME,
            "otherwise: both get messages",
            SAME,
        ),
    ),
    Row(
        "other_mode",
        "`ack` with another word",
        ("is auto", "is auto", "ERROR"),
        (
            *(SAME, f"{REFUSED}{BY_BROKER}") * 2,
            *("otherwise: it is auto",) * 2,
        ),
    ),
    Row(
        "begin_twice",
        "BEGIN of a transaction that has begun",
        ("ERROR", "ERROR", "is accepted"),
        (
            *(SAME, "otherwise: it is accepted") * 2,
            *(f"{REFUSED}{BY_BROKER}",) * 2,
        ),
    ),
    Row(
        "no_id",
        "SUBSCRIBE without an `id`, from 1.1 on",
        ("ERROR", "is accepted", "is accepted"),
        (
            *("otherwise: it is accepted",) * 2,
            f"{REFUSED}{BY_BROKER}",
            SAME,
            f"{REFUSED}{BY_BROKER}",
            SAME,
        ),
    ),
    Row(
        "errors",
        "an ERROR, in words of the product's own",
        ("names the frame by `receipt-id`", "does not always name it", "does not name it"),
        (
            *("otherwise: it does not name the frame",) * 2,
            "otherwise: it names the frame",
            SAME,
            "otherwise: it names the frame",
            SAME,
        ),
    ),
    Row(
        "",
        "`request-id` of CONNECT; `session` is each product's own",
        ("is `response-id` of CONNECTED", "is `response-id` of CONNECTED", NONE),
        (*(f"{SAME}, {BY_DOCUMENTS}", f"{OTHERWISE}, {BY_DOCUMENTS}: no answer") * 2, NONE, NONE),
    ),
    Row(
        "",
        "messages that are on their way when their subscription ends",
        ("come, or go to others", "go to others", "go to others when the connection ends"),
        (
            *(
                f"{SAME}, {BY_DOCUMENTS}",
                f"{OTHERWISE}, {BY_DOCUMENTS}: they wait for the end of the connection",
            )
            * 2,
            *(f"{OTHERWISE}, {BY_DOCUMENTS}: they go to others at once",) * 2,
        ),
    ),
    Row(
        "",
        "ACK of a message whose subscription has ended",
        ("is accepted in 1.2, and the message comes again", "ERROR; in 1.2 also the end", "ERROR"),
        (
            *(f"{REFUSED}{BY_BROKER}, {BY_DOCUMENTS}",) * 2,
            *(f"{OTHERWISE}, {BY_DOCUMENTS}", f"{SAME}, {BY_DOCUMENTS}") * 2,
        ),
    ),
    Row(
        "",
        "ACK without `subscription`, in 1.1",
        ("ERROR", "ERROR", "is accepted"),
        (
            *(f"{SAME}, {BY_DOCUMENTS}", f"{OTHERWISE}, {BY_DOCUMENTS}: it is accepted") * 2,
            *(f"{REFUSED}{BY_BROKER}, {BY_DOCUMENTS}",) * 2,
        ),
    ),
    Row(
        "",
        "NACK in 1.0",
        ("ERROR", "ERROR", "is done"),
        (*(NONE,) * 4, *(f"{REFUSED}, {BY_DOCUMENTS}",) * 2),
    ),
    Row(
        "",
        "`message-id` of a SEND",
        ("is not noticed", "is not noticed", "ERROR"),
        (
            *(f"{SAME}, {BY_DOCUMENTS}: the relay leaves it out",) * 4,
            *(f"{OTHERWISE}, {BY_DOCUMENTS}: the relay leaves it out",) * 2,
        ),
    ),
    Row(
        "",
        "`content-length` of an ACK that has no body",
        ("is not noticed", NONE, NONE),
        (*(f"{OTHERWISE}, {BY_DOCUMENTS}: the relay waits for the body",) * 2, *(NONE,) * 4),
    ),
    Row(
        "",
        "a header that comes twice",
        ("the first counts", "the last counts, but in 1.2 the first", "the first counts"),
        (
            f"{OTHERWISE}, {BY_DOCUMENTS}",
            f"{SAME}, {BY_DOCUMENTS}",
            *(f"{OTHERWISE}, {BY_DOCUMENTS}",) * 2,
            f"{SAME}, {BY_DOCUMENTS}",
            f"{OTHERWISE}, {BY_DOCUMENTS}",
        ),
    ),
    Row(
        "",
        "blanks around a value, in 1.0",
        (
            "are not part of it",
            "those in front are not; one behind content-length stops the connection",
            "those in front are not",
        ),
        (f"{OTHERWISE}, {BY_DOCUMENTS}",) * 6,
    ),
    Row(
        "",
        "dead letters",
        (
            "`/queue/ActiveMQ.DLQ`, with `original-destination`",
            "the broker's dead-letter-address, often `/queue/DLQ`",
            "where x-dead-letter-exchange says, with `x-first-death-queue`",
        ),
        (
            f'{CHOSEN}, {BY_DOCUMENTS}: `map.names = [["/queue/ActiveMQ.DLQ", "/queue/DLQ"]]`',
            f'{CHOSEN}, {BY_DOCUMENTS}: `map.names = [["/queue/ActiveMQ.DLQ", "/queue/dead"]]`',
            f'{CHOSEN}, {BY_DOCUMENTS}: `map.names = [["/queue/DLQ", "/queue/ActiveMQ.DLQ"]]`',
            f'{CHOSEN}, {BY_DOCUMENTS}: `map.names = [["/queue/DLQ", "/queue/dead"]]`',
            *(f"{OTHERWISE}, {BY_DOCUMENTS}: the broker says where",) * 2,
        ),
    ),
    Row(
        "",
        "`JMSXUserID` of a MESSAGE",
        ("with populateJMSXUserID", "with populate-validated-user", NONE),
        (
            *(f"{SAME}, {BY_DOCUMENTS}", f"{OTHERWISE}, {BY_DOCUMENTS}: none") * 2,
            NONE,
            NONE,
        ),
    ),
    Row("passcode", "a wrong passcode", ("ERROR, and the end",) * 3, (SAME,) * 6),
    Row(
        "",
        "`message-id` of a message that comes again",
        ("the same", "another one for another consumer", "another one each time"),
        (
            *(f"{OTHERWISE}, {BY_DOCUMENTS}",) * 2,
            *(f"{SAME}, {BY_DOCUMENTS}", f"{OTHERWISE}, {BY_DOCUMENTS}"),
            *(f"{SAME}, {BY_DOCUMENTS}",) * 2,
        ),
    ),
    Row(
        "",
        "text or bytes, for clients of JMS",
        ("by `content-length` and `amq-msg-type`", "by `content-length`", "always bytes"),
        (
            f"{OTHERWISE}, {BY_DOCUMENTS}: without `amq-msg-type`",
            *(f"{OTHERWISE}, {BY_DOCUMENTS}: always bytes",),
            f"{SAME}, {BY_DOCUMENTS}",
            *(f"{OTHERWISE}, {BY_DOCUMENTS}: always bytes",),
            *(f"{OTHERWISE}, {BY_DOCUMENTS}: text without `content-length`",) * 2,
        ),
    ),
    Row(
        "",
        "the greatest frame, as brokers are shipped",
        ("100 MiB; newer ones 10 MiB", "any; 64 KiB over WebSocket", "4 MiB"),
        (f"{OTHERWISE}, {BY_DOCUMENTS}",) * 6,
    ),
    Row(
        "",
        "attempts before a message is put aside",
        ("as many as it takes", "10", "as many as it takes; quorum queues 20 from 4.0 on"),
        (f"{OTHERWISE}, {BY_DOCUMENTS}",) * 6,
    ),
)
"""All features. Tests hold the cells to what real brokers do."""


def tables() -> str:
    """Return the tables of the page."""
    titles = list(_TITLES.values())
    words = [["feature", *titles], ["---"] * 4, *[[row.title, *row.words] for row in ROWS]]
    heads = [f"{_TITLES[clients]} to {_TITLES[broker]}" for clients, broker in PAIRS]
    cells = [["feature", *heads], ["---"] * 7, *[[row.title, *row.cells] for row in ROWS]]
    return "\n\n".join(
        "\n".join("| " + " | ".join(each or NONE for each in line) + " |" for line in table)
        for table in (words, cells)
    )


def written(page: str) -> str:
    """Return the page with these tables."""
    before, heading, section = page.partition(HEADING)
    text, _, behind = section.partition("\n| feature ")
    rest = re.search(r"\n\n(?!\| )", behind)
    return f"{before}{heading}{text}\n{tables()}\n{behind[rest.start() + 1 :] if rest else ''}"


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
