"""How clients' frames are said to the brokers of one product, and back: names of places, headers, and what clients may
not use there.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import translate
from functools import cached_property, lru_cache
from typing import Final, NamedTuple

from stomprelay.relay.model.features import (
    ACTIVEMQ,
    ARTEMIS,
    CONVERSION,
    FEATURES,
    NACKS,
    PLACES,
    PRODUCTS,
    RABBITMQ,
    SELECTED,
    SELECTORS,
    TRUE,
    Unit,
    ready_names,
)
from stomprelay.relay.model.names import LONGEST, NO_NAMES, NameMap, NameRow, Pattern
from stomprelay.relay.model.selector import PARSED, First, selector
from stomprelay.session.session import Budget, Session
from stomprelay.session.subscriptions import AUTO, CUMULATIVE, Subscription
from stomprelay.wire.dialect import Headers
from stomprelay.wire.errors import Refused, visible
from stomprelay.wire.names import (
    ACK,
    ACK_HEADER,
    CLIENT_COMMANDS,
    DESTINATION,
    ID,
    MESSAGE,
    NACK,
    SELECTOR,
    SEND,
    SUBSCRIBE,
    UNSUBSCRIBE,
)

PLACED: Final = (DESTINATION, b"reply-to", b"original-destination")
"""The headers whose values name places."""
PLACING: Final = frozenset({SEND, SUBSCRIBE, UNSUBSCRIBE, MESSAGE})
"""The commands of frames with such headers."""
MAPPED: Final = PLACING | {ACK, NACK}
"""The commands of frames that a map may change."""

Value = Callable[[bytes, "BrokerMap", Session], bytes | None]
"""A function that returns the other side's value of a header; None: the header is left out."""


def _number(value: bytes) -> int | None:
    return int(value) if value.isdigit() and len(value) < 20 else None


def _period(value: bytes, _: "BrokerMap", session: Session) -> bytes | None:
    """Return the time that is left until a time since 1970; 0: it is over. None: a message does not expire."""
    at = _number(value)
    return None if not at else b"%d" % max(0, at - session.wall())


def _epoch(value: bytes, _: "BrokerMap", session: Session) -> bytes | None:
    period = _number(value)
    return None if period is None else b"%d" % (session.wall() + period)


def _size(value: bytes, spoken: "BrokerMap", _: Session) -> bytes | None:
    count, each = _number(value), spoken.message_size
    return None if count is None or each is None else b"%d" % (count * each)


def _count(value: bytes, spoken: "BrokerMap", _: Session) -> bytes | None:
    size, each = _number(value), spoken.message_size
    if size == 0:
        return b"1"  # one at a time
    return None if size is None or each is None else b"%d" % max(1, size // each)


_WORD: Final = re.compile(rb"((?:JMSDeliveryMode|AMQDurable)\s*(?:=|<>)\s*)?('(?:[^']|'')*')|[\w$]+")
_BACK_SELECTED: Final = {theirs: ours for ours, theirs in SELECTED.items()}


def _reworded(selector: bytes, words: Mapping[bytes, bytes]) -> bytes:
    def said(found: re.Match[bytes]) -> bytes:
        name, text = found.groups()
        if name is not None:
            return _reworded(name, words) + words.get(text, text)
        return found[0] if text is not None else words.get(found[0], found[0])

    return _WORD.sub(said, selector)


def _typed(value: bytes, _: "BrokerMap", __: Session) -> bytes:
    return CONVERSION + _reworded(value.removeprefix(CONVERSION), SELECTED)


def _converting(value: bytes, _: "BrokerMap", __: Session) -> bytes:
    return _reworded(value.removeprefix(CONVERSION), _BACK_SELECTED)


def _same(value: bytes, _: "BrokerMap", __: Session) -> bytes:
    return value


def _left_out(_: bytes, __: "BrokerMap", ___: Session) -> None:
    return None


FUNCTIONS: Final[dict[str, Value]] = {"same": _same, "period": _period, "epoch": _epoch}
"""The functions that a configuration may name."""
LEFT_OUT: Final[Value] = _left_out
VALUES: Final[dict[tuple[Unit, Unit], Value]] = {
    (Unit.EPOCH, Unit.PERIOD): _period,
    (Unit.PERIOD, Unit.EPOCH): _epoch,
    (Unit.MESSAGES, Unit.BYTES): _size,
    (Unit.BYTES, Unit.MESSAGES): _count,
    (Unit.CONVERTING, Unit.TYPED): _typed,
    (Unit.TYPED, Unit.CONVERTING): _converting,
}
"""The functions from one unit to another. Other values stay as they are."""


class HeaderRow(NamedTuple):
    """Frames with one of `commands` have the header `becomes`, with the value that `value` returns, in place of `name`.
    `product`: the brokers for which the row is; None: for all.
    """

    commands: tuple[bytes, ...]
    name: bytes
    becomes: bytes
    value: Value = _same
    product: str | None = None

    @property
    def lines(self) -> tuple[bytes, ...]:
        """The lines to look at, as in `Rule.unless`. An expiry of 0 stays, so that most MESSAGEs need no look."""
        if self.value is _period and MESSAGE in self.commands:
            return tuple([b"%b:%d" % (self.name, digit) for digit in range(1, 10)])
        return (self.name,)


class Addition(NamedTuple):
    """Frames with one of `commands` and a destination of the client's that `places` matches get a header, unless the
    client sent it.
    """

    commands: tuple[bytes, ...]
    places: re.Pattern[bytes]
    name: bytes
    value: bytes
    product: str | None = None


class Lack(NamedTuple):
    """Clients may not use this, because the broker does not have it: a header, perhaps only with `values`, or a form of
    destinations, or both.
    """

    commands: tuple[bytes, ...]
    feature: str
    why: str
    header: bytes = b""
    places: re.Pattern[bytes] | None = None
    values: re.Pattern[bytes] | None = None

    def used(self, first: First) -> bool:
        """Return whether a frame uses it."""
        value = first(self.header) if self.header else b""
        if value is None or (self.values is not None and self.values.fullmatch(value) is None):
            return False
        return self.places is None or self.places.fullmatch(first(DESTINATION) or b"") is not None

    def takes(self, place: bytes) -> bool:
        """Return whether each frame with this destination uses it."""
        return not self.header and self.places is not None and self.places.fullmatch(place) is not None


class Change(NamedTuple):
    """What becomes of a frame: headers that go, headers that come in front, another command."""

    drop: tuple[bytes, ...] = ()
    add: tuple[tuple[bytes, bytes], ...] = ()
    command: bytes | None = None


AS_IT_IS: Final = Change()


class SubscriptionRow(NamedTuple):
    """A destination that the broker has in other words for SUBSCRIBE alone: `broker`, with more `headers` and without
    those of an `Addition`. Its MESSAGEs, with the destination `told`, get the client's name by their subscription.
    """

    client: Pattern
    broker: Pattern
    told: Pattern
    headers: tuple[tuple[bytes, Pattern], ...] = ()


class Private(NamedTuple):
    """How a product spells the private queues of sessions: in SEND and `reply-to`, and in SUBSCRIBE with `headers`."""

    sends: bytes
    reads: bytes
    headers: tuple[tuple[bytes, bytes], ...] = ()


_QUEUE: Final = b"/queue/"
_OWN: Final = b"relay-temp."
"""Begins the names of private queues, behind the prefix; then come the session, one of `_KINDS`, the client's name."""
_KINDS: Final = {b".": b"queue", b"-": b"topic"}
_TEMPORARY: Final = re.compile(rb"/temp-(queue|topic)/(.+)", re.DOTALL)
_FOREIGN: Final = re.compile(rb"/(?:queue|amq/queue|reply-queue)/relay-temp\.(.+)", re.DOTALL)

_REPLIED: Final = re.compile(rb"/reply-queue/((?!amq\.).+)", re.DOTALL)
"""How RABBITMQ gives back a `reply-to` without a prefix. Names that begin with amq. are its own."""

PRIVATE: Final = {
    ACTIVEMQ: Private(_QUEUE, _QUEUE),
    ARTEMIS: Private(_QUEUE, _QUEUE),
    # `/amq/queue/` does not make the queue, so the arguments of its owner's SUBSCRIBE stay.
    RABBITMQ: Private(b"/amq/queue/", _QUEUE, ((b"exclusive", b"true"),)),
}


@dataclass(frozen=True, eq=False)
class BrokerMap:
    """How frames of `clients` are said to the brokers of one `product`, and back.

    `names`: of places. `rows`, `additions`: headers of frames for the broker. `back`: headers of MESSAGEs. `lacks`:
    what clients may not use. `nack`: what a NACK does; None: as the broker does. `private`: the names of sessions'
    queues, if the relay makes temporary queues. `subscribed`: destinations that SUBSCRIBE says otherwise. `separate`: a
    cumulative ACK means other messages than at `clients`, if a client has several such subscriptions. `message_size`:
    how many bytes a message has, where one product counts messages and the other bytes; None: it is not known.
    `stripped`: headers that MESSAGEs lose, because the relay added them to SENDs. `sender_id`: the header in which
    MESSAGEs have the trace of their SEND; None: they have none. `durable`: the headers that name a durable
    subscription, if the broker needs a queue of its own for it. `filter`: the clients' destinations whose selectors the
    relay applies; None: it applies none.
    """

    product: str
    clients: str | None = None
    names: NameMap = NO_NAMES
    rows: tuple[HeaderRow, ...] = ()
    back: tuple[HeaderRow, ...] = ()
    additions: tuple[Addition, ...] = ()
    lacks: tuple[Lack, ...] = ()
    nack: str | None = None
    private: Private | None = None
    subscribed: tuple[SubscriptionRow, ...] = ()
    separate: bool = False
    message_size: int | None = None
    stripped: tuple[bytes, ...] = ()
    sender_id: bytes | None = None
    durable: tuple[bytes, ...] = ()
    filter: re.Pattern[bytes] | None = None

    # Names

    def to_broker(self, name: bytes, session: Session, command: bytes = SEND) -> bytes:
        """Return the broker's name for a client's, in a frame of this command. Raises `Refused` if there is none."""
        private = self.private
        if private is not None:
            prefix = private.reads if command in _SUBSCRIBING else private.sends
            own = _TEMPORARY.fullmatch(name)
            if own is not None:
                mark = b"." if own[1] == b"queue" else b"-"
                return b"%b%b%b%b%b" % (prefix, _OWN, session.name, mark, own[2])
            if _OWN in name and command is SUBSCRIBE:
                raise Refused("a private queue is read by its owner only", "it is", quoted=name)
            if name.startswith(_QUEUE + _OWN):
                return prefix + name[len(_QUEUE) :]
        return self.names.to_broker(name)

    def to_client(self, name: bytes, session: Session) -> bytes:
        """Return the client's name for a broker's."""
        if self.private is not None:
            found = _FOREIGN.fullmatch(name)
            if found is not None:
                length = len(session.name)
                kind = (
                    _KINDS.get(found[1][length : length + 1]) if found[1].startswith(session.name) else None
                )
                if kind is None:
                    return b"%b%b%b" % (_QUEUE, _OWN, found[1])
                return b"/temp-%b/%b" % (kind, found[1][length + 1 :])
        found = _REPLIED.fullmatch(name) if self.clients not in (None, RABBITMQ) else None
        return self.names.to_client(name) if found is None else found[1]

    def own(self, name: bytes) -> bool:
        """Whether the other side's name depends on the session."""
        return self.private is not None and (b"/temp-" in name or _OWN in name)

    def subscriptions(self, name: bytes) -> bool:
        """Whether a MESSAGE with this broker's name has the name that its subscription has."""
        return any(row.told.read(name) is not None for row in self.subscribed)

    @cached_property
    def summary(self) -> str:
        """What the map does, for a line of the log."""
        routed = any(each.name == _ROUTE for each in self.additions)
        facts = [
            *([f"clients are of {self.clients}"] if self.clients is not None else []),
            *(["destinations are routed by prefix"] if routed else []),
        ]
        return f" ({', '.join(facts)})" if facts else ""

    def subscribes(self, name: bytes) -> bool:
        """Whether SUBSCRIBE to a client's destination is said otherwise."""
        return any(row.client.read(name) is not None for row in self.subscribed)

    @property
    def identifies(self) -> bool:
        """Whether the broker needs an id of each subscription, also in STOMP 1.0: a durable one must have it."""
        return self.product == RABBITMQ and self.clients is not None

    @property
    def changes(self) -> bool:
        """Whether the map changes any frame."""
        said = self.names.rows or self.rows or self.additions or self.lacks or self.nack or self.private
        return bool(said) or self.separate or bool(self.subscribed) or self.sender_id is not None

    # Headers

    @cached_property
    def _added(self) -> Callable[[bytes, bytes], tuple[tuple[bytes, bytes], ...]]:
        return lru_cache(1024)(self._find_added)

    def _find_added(self, command: bytes, place: bytes) -> tuple[tuple[bytes, bytes], ...]:
        return tuple(
            (each.name, each.value)
            for each in self.additions
            if command in each.commands and each.places.fullmatch(place) is not None
        )

    def added(self, command: bytes, place: bytes) -> tuple[tuple[bytes, bytes], ...]:
        """Return the headers that a frame for a client's destination gets, unless the client sent them."""
        if not self.additions:
            return ()
        return (self._added if len(place) <= LONGEST else self._find_added)(command, place)

    @cached_property
    def _by_command(self) -> dict[bytes, tuple[tuple[HeaderRow, ...], tuple[Lack, ...]]]:
        return {
            command: (
                tuple([each for each in (*self.rows, *self.back) if command in each.commands]),
                tuple([each for each in self.lacks if command in each.commands]),
            )
            for command in (*CLIENT_COMMANDS, MESSAGE)
        }

    def touched(self, command: bytes) -> tuple[bytes, ...]:
        """Return the headers, as in `Rule.unless`, with which a frame of this command must be looked at by itself."""
        rows, lacks = self._by_command[command]
        added = [each.name for each in self.additions if command in each.commands]
        lines = [line for row in rows for line in row.lines]
        return tuple(dict.fromkeys([*lines, *[each.header for each in lacks if each.header], *added]))

    def refuses(self, command: bytes, place: bytes) -> bool:
        """Whether frames of this command with a client's destination are refused for its form."""
        return any(each.takes(place) for each in self._by_command[command][1])

    def change(self, command: bytes, first: First, session: Session, *, known: bool = False) -> Change:
        """Return what becomes of a client's frame, without the names of places. Raises `Refused`. `known`: the session
        has the subscription already.
        """
        _, lacks = self._by_command[command]
        for lack in lacks:
            if lack.used(first):
                raise Refused(f"{lack.feature} are not possible at this broker", lack.why)
        if command is NACK and self.nack is not None:
            return self._nack(first, session)
        drop, add = self._headers(command, first, session)
        place = first(DESTINATION)
        if place is not None and not (command is SUBSCRIBE and self.subscribes(place)):
            add += [each for each in self.added(command, place) if first(each[0]) is None]
        if command is SUBSCRIBE:
            said = first(SELECTOR)
            if said is not None and self.applies(place or b""):
                selector(said, self.clients or "")  # raises `Refused` for one that the relay cannot apply
            self._judge_acks(first(ACK_HEADER), session, known=known)
            if self.private is not None and place is not None and _TEMPORARY.fullmatch(place):
                add += self.private.headers
        for row in self.subscribed if command in _SUBSCRIBING else ():
            values = row.client.read(place or b"")
            if values is not None:
                drop.append(DESTINATION)
                add.append((DESTINATION, row.broker.said(values)))
                if command is SUBSCRIBE:
                    add += [(name, pattern.said(values)) for name, pattern in row.headers]
        for header in self.durable if command in _SUBSCRIBING else ():
            self._durable(header, drop, add, first, session)
        return Change(tuple(drop), tuple(add))

    def applies(self, place: bytes) -> bool:
        """Whether the relay applies the selectors of subscriptions to a client's destination."""
        return self.filter is not None and self.filter.fullmatch(place) is not None

    def wanted(self, subscription: Subscription, first: First, kept: Budget) -> bool:
        """Return whether the client wants a MESSAGE with these headers, which are said as it knows them. The test of an
        open subscription is `kept` for its next MESSAGEs, if there is room.
        """
        said, test = subscription.selector, subscription.test
        if said is None or not self.applies(subscription.destination):
            return True
        if test is None:
            test, cost = selector(said, self.clients or ""), PARSED * len(said)
            if subscription.open and kept.size + cost <= kept.most:
                kept.take(cost)
                subscription.cost += cost
                subscription.test = test
        return test(first)

    def change_back(self, first: First, session: Session) -> Change:
        """Return what becomes of a broker's MESSAGE, without the names of places."""
        drop, add = self._headers(MESSAGE, first, session)
        drop += [each for each in self.stripped if first(each) is not None]
        return Change(tuple(drop), tuple(add))

    def _headers(
        self, command: bytes, first: First, session: Session
    ) -> tuple[list[bytes], list[tuple[bytes, bytes]]]:
        drop: list[bytes] = []
        add: list[tuple[bytes, bytes]] = []
        for row in self._by_command[command][0]:
            said = first(row.name)
            if said is not None:
                drop += (row.name, row.becomes)
                value = row.value(said, self, session)
                if value is not None:
                    add.append((row.becomes, value))
        return drop, add

    def _nack(self, first: First, session: Session) -> Change:
        """Return the frame with which the broker does what a NACK is to do. Raises `Refused`."""
        wanted = self.nack
        if self.separate and session.subscriptions.cumulative and ACTIVEMQ in (self.clients, self.product):
            raise Refused(
                "NACK is not possible at this broker", "it would refuse other messages with ack:client"
            )
        if self.clients == RABBITMQ and first(_REQUEUE) in _NOT_AGAIN and wanted == REFUSE:
            wanted = DEAD_LETTER
        command = NACKS[self.product].get(wanted or REFUSE)
        if command is None:
            raise Refused(
                "NACK is not possible at this broker", f"it cannot {_DOES[self.clients]} the message"
            )
        if self.product != RABBITMQ or command is not NACK:
            return Change((_REQUEUE,), (), command)
        return Change((_REQUEUE,), ((_REQUEUE, b"true" if wanted == REQUEUE else b"false"),))

    def _judge_acks(self, mode: bytes | None, session: Session, *, known: bool) -> None:
        """Raise `Refused` if an ACK of one subscription would settle messages of another one, or fewer than at home."""
        if self.separate and mode not in (None, AUTO):
            beside = session.subscriptions.acknowledged - known
            if beside > 0 and (mode == CUMULATIVE or session.subscriptions.cumulative):
                why = "the broker counts the messages of all subscriptions together, or of each by itself"
                raise Refused("cumulative ACKs of several subscriptions are not possible at this broker", why)

    @staticmethod
    def _durable(
        header: bytes, drop: list[bytes], add: list[tuple[bytes, bytes]], first: First, session: Session
    ) -> None:
        """Add what a durable subscription is at RABBITMQ: a queue named by the client and the subscription."""
        name = first(header)
        if name is None:
            return
        if not session.client_id:
            raise Refused("durable subscriptions need a client-id", "CONNECT had none")
        drop.append(header)
        add += [
            (b"durable", b"true"),
            (b"auto-delete", b"false"),
            # RabbitMQ's own queues for subscriptions begin so; rules deny them to other clients.
            (b"x-queue-name", b"stomp-subscription-%b.%b" % (session.client_id, name)),
        ]


REFUSE, REQUEUE, DEAD_LETTER, DISCARD = NACKING = "refuse", "requeue", "dead-letter", "discard"
_REQUEUE: Final = b"requeue"
_NOT_AGAIN: Final = b"false", b"False"
_SUBSCRIBING: Final = frozenset({SUBSCRIBE, UNSUBSCRIBE})
_DOES: Final = {None: "refuse", ACTIVEMQ: "put aside", ARTEMIS: "drop", RABBITMQ: "give back"}
"""What a NACK does to a message, in the words of the ERROR."""
REPLIES: Final = "foreign-replies"
SUBSCRIBED: Final = "reply-subscriptions"
"""RabbitMQ makes a subscription for a temporary queue in `reply-to`, without a SUBSCRIBE."""
_UNKNOWN_REPLIES: Final = re.compile(
    rb"/(?!(?:queue|topic|temp-queue|temp-topic|amq/queue|exchange|reply-queue)/).*|[^/]+/.*", re.DOTALL
)
_TOPICS: Final = re.compile(rb"/(?:topic|exchange)/.+", re.DOTALL)
HYPHENS: Final = "hyphenated-selectors"
_HYPHENATED: Final = re.compile(rb"(?:(?:no_)?%b)*hyphenated_props:.*" % CONVERSION, re.DOTALL)
DURABLE: Final = "durable-subscriptions"
_UNENDED: Final = {
    (ARTEMIS, ACTIVEMQ): "the broker ends a durable subscription only after its consumer",
    (ACTIVEMQ, RABBITMQ): "the broker ends a durable subscription only together with its consumer",
}
"""Why clients of a product cannot end a durable subscription at a broker, by both products."""
_ACTIVEMQS: Final = b"activemq.subscriptionName"
_DURABLE: Final[dict[str | None, tuple[bytes, ...]]] = {
    ACTIVEMQ: (_ACTIVEMQS,),
    ARTEMIS: (b"durable-subscription-name", b"durable-subscriber-name", _ACTIVEMQS),
}


def durable(headers: Headers, client_id: bytes, place: bytes) -> str:
    """Return a durable subscription to a place by the client's name and its own, for an operator; "" for another one.
    `headers`: those of SUBSCRIBE, or of the UNSUBSCRIBE that ends it, in the words of any product.
    """
    first = dict(reversed(headers)).get
    name = next((said for each in _DURABLE[ARTEMIS] if (said := first(each)) is not None), None)
    if name is None and b"true" in (first(b"durable"), first(b"persistent")):
        name = b"%b on %b" % (first(ID) or b"", place)  # at RabbitMQ it has no name of its own
    if name is None or place.startswith(b"/queue/"):
        return ""
    return visible((b"%b: %b" % (client_id, name))[:_LONGEST].decode("utf-8", "backslashreplace"))


_LONGEST: Final = 256
_CONSUMER: Final = Pattern("/queue/Consumer.{consumer}.VirtualTopic.{topic}")
_TOPIC: Final = Pattern("/topic/VirtualTopic.{topic}")
_VIRTUAL: Final = {
    ARTEMIS: SubscriptionRow(
        _CONSUMER,
        Pattern("/topic/VirtualTopic.{topic}::Consumer.{consumer}.VirtualTopic.{topic}"),
        _TOPIC,
        ((b"subscription-type", Pattern("MULTICAST")),),
    ),
    RABBITMQ: SubscriptionRow(
        _CONSUMER,
        _TOPIC,
        _TOPIC,
        (
            (b"x-queue-name", Pattern("Consumer.{consumer}.VirtualTopic.{topic}")),
            (b"durable", Pattern("true")),
            (b"auto-delete", Pattern("false")),
        ),
    ),
}
"""The queues of virtual topics, by the broker's product."""


_ROUTE: Final = b"destination-type"


def _routing(clients: str | None, *, private: bool) -> tuple[Addition, ...]:
    """Return the headers with which Artemis routes by prefix. Without them it sends a message of a queue to every
    consumer, and drops it if there is none. `private`: the relay makes queues of all temporary places.
    """
    topics = rb"/topic/.+" if private else rb"/(?:temp-)?topic/.+"
    # For clients of these a name without a prefix is a queue.
    some = rb"" if clients in (ACTIVEMQ, RABBITMQ) else rb"/(?:temp-)?(?:queue|topic)/"
    queues = rb"(?!%b)%b.+" % (topics, some)
    return tuple(
        Addition((command,), re.compile(pattern, re.DOTALL), header, value)
        for pattern, value in ((queues, b"ANYCAST"), (topics, b"MULTICAST"))
        for command, header in ((SEND, _ROUTE), (SUBSCRIBE, b"subscription-type"))
    )


@dataclass(frozen=True)
class MapSettings:
    """What an upstream's `map` says. `clients`: the product for which the clients were written; it chooses the ready
    map. `names`, `headers`: the user's own rows, which come first; each may be for one product only. `ignore`: the
    features that clients may use although the broker lacks them. `nack`: what a NACK is to do, by product. `temporary`:
    whether the relay makes temporary queues; None: where the broker's product has none as the clients know them.
    `filter`: globs of the destinations whose selectors the relay applies where the broker has none. `route`: whether
    the relay tells Artemis which destinations are queues. `message_size`, `sender_id`: see
    `BrokerMap`. `hosts`: the `host` of CONNECT by the broker's URI, in place of the upstream's.
    """

    clients: str | None = None
    names: tuple[NameRow, ...] = ()
    headers: tuple[HeaderRow | Addition, ...] = ()
    ignore: frozenset[str] = frozenset()
    filter: tuple[str, ...] = ()
    nack: Mapping[str, str] = field(default_factory=dict)
    temporary: bool | None = None
    route: bool = True
    message_size: int | None = None
    sender_id: bytes | None = None
    hosts: Mapping[str, bytes] = field(default_factory=dict)
    _made: dict[str, BrokerMap | None] = field(default_factory=dict, init=False, repr=False, compare=False)

    def at(self, product: str) -> BrokerMap | None:
        """Return the map for brokers of a product; None if frames pass as they are. The same map comes each time."""
        if product not in self._made:
            made = self._for(product)
            self._made[product] = made if made.changes else None
        return self._made[product]

    def _for(self, product: str) -> BrokerMap:
        clients = self.clients if product in PRODUCTS and product != self.clients else None
        rows = [each for each in self.headers if each.product in (None, product)]
        changed = [each for each in rows if isinstance(each, HeaderRow)]
        added = [each for each in rows if isinstance(each, Addition)]
        names = [each for each in self.names if each.product in (None, product)]
        routed = [_ROUTE] if product == ARTEMIS and clients is not None else []
        lacks: list[Lack] = []
        temporary = self.temporary
        filtered = None
        if self.filter and clients in _SELECTING and product not in _SELECTING:
            filtered = re.compile(b"|".join([translate(each).encode() for each in self.filter]))
        if clients is not None:
            ready, lacks = _rows(clients, product, self.ignore, filtered)
            changed += ready
            names += ready_names(clients, product)
        if temporary is None:
            temporary = product == ARTEMIS or clients is not None
        return BrokerMap(
            product,
            clients,
            NameMap(tuple(names)),
            tuple(changed),
            tuple(_reversed(changed)),
            (*added, *(_routing(clients, private=temporary) if product == ARTEMIS and self.route else ())),
            tuple(lacks),
            self.nack.get(product) or (clients and _EXACT.get((clients, product), REFUSE)),
            PRIVATE.get(product) if temporary else None,
            (_VIRTUAL[product],) if clients == ACTIVEMQ and product in _VIRTUAL else (),
            clients is not None and RABBITMQ in (clients, product) and "cumulative-acks" not in self.ignore,
            self.message_size,
            tuple(dict.fromkeys([*[each.name for each in added], *routed])),
            self.sender_id,
            _DURABLE.get(clients, ()) if product == RABBITMQ and DURABLE not in self.ignore else (),
            filtered,
        )


_SELECTING: Final = next(each.said for each in FEATURES if each.name == SELECTORS)
"""The products that apply selectors."""


def _rows(
    clients: str, product: str, ignore: frozenset[str], filtered: re.Pattern[bytes] | None
) -> tuple[list[HeaderRow], list[Lack]]:
    """Return the headers that a product says otherwise, and what it lacks. `filtered`: see `BrokerMap.filter`."""
    rows, lacks = [], []
    for feature in FEATURES:
        ours, theirs = feature.said.get(clients), feature.said.get(product)
        if ours is None or not ours.used:
            continue
        if theirs is not None:
            value = VALUES.get((ours.unit, theirs.unit), _same)
            if ours.name != theirs.name or value is not _same:
                rows.append(HeaderRow(feature.commands, ours.name, theirs.name, value))
            continue
        applied = filtered if feature.name == SELECTORS else None
        if feature.name in ignore or applied is not None:
            rows.append(HeaderRow(feature.commands, ours.name, ours.name, LEFT_OUT))
        if feature.name not in ignore and feature.name != DURABLE:
            others = applied and re.compile(rb"(?!%b).*" % applied.pattern, re.DOTALL)
            lacks.append(Lack(feature.commands, feature.name, feature.why, ours.name, others, feature.values))
    if clients == RABBITMQ and DURABLE not in ignore:
        why = "the broker knows a subscription by client-id and name"
        lacks += [
            Lack((SUBSCRIBE,), DURABLE, why, each, _TOPICS, TRUE) for each in (b"durable", b"persistent")
        ]
    if clients == RABBITMQ and SUBSCRIBED not in ignore:
        why = "the broker delivers replies to subscribers alone"
        lacks.append(Lack((SEND,), SUBSCRIBED, why, PLACED[1], values=_TEMPORARY))
    if product == RABBITMQ and REPLIES not in ignore:
        why = "the broker would drop the frame, because it does not know the form of reply-to"
        lacks.append(Lack((SEND,), REPLIES, why, PLACED[1], values=_UNKNOWN_REPLIES))
    if (clients, product) in _UNENDED and DURABLE not in ignore:
        why = _UNENDED[clients, product]
        lacks += [Lack((UNSUBSCRIBE,), DURABLE, why, each) for each in _DURABLE[clients]]
    if (clients, product) == (ARTEMIS, ACTIVEMQ) and HYPHENS not in ignore:
        why = "the broker knows no hyphenated_props:, and reads a hyphen in a name as a minus"
        lacks.append(Lack((SUBSCRIBE,), HYPHENS, why, SELECTOR, values=_HYPHENATED))
    for place in PLACES:
        if place.product == clients and product in place.lacking and place.name not in ignore:
            lacks.append(Lack(place.commands, place.name, place.why, places=place.pattern))
    return rows, lacks


_BACK: Final[dict[Value, Value]] = {_period: _epoch, _epoch: _period}


def _reversed(rows: Iterable[HeaderRow]) -> Iterable[HeaderRow]:
    """Return the rows for MESSAGEs, in which a broker repeats the headers of SENDs."""
    for each in rows:
        if SEND in each.commands and each.name != each.becomes:
            yield HeaderRow((MESSAGE,), each.becomes, each.name, _BACK.get(each.value, each.value))
        elif MESSAGE in each.commands:
            yield each


_EXACT: Final = {(ARTEMIS, ACTIVEMQ): DISCARD, (ARTEMIS, RABBITMQ): DISCARD}
"""What a NACK is to do where it can be said at another product, by the clients' and the broker's product."""


IGNORED: Final = frozenset(
    {
        DURABLE,
        HYPHENS,
        REPLIES,
        SUBSCRIBED,
        "cumulative-acks",
        *[each.name for each in FEATURES],
        *[each.name for each in PLACES],
    }
)
"""The features that may be named in `MapSettings.ignore`."""
