"""How a product departs from its STOMP versions, as facts. The sources are the recorded conversations that the tests
replay, and Artemis's message bundle.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from stomprelay.wire.dialect import ESCAPES, V1_0, V1_1, V1_2, Dialect
from stomprelay.wire.frame import Frame
from stomprelay.wire.names import MESSAGE_HEADER, NACK

_ALL: Final = frozenset(ESCAPES)


def _by_version(*dialects: Dialect) -> dict[bytes, Dialect]:
    """Return the dialects, which accept every escape: what a broker wrote reaches the client."""
    return {dialect.version: replace(dialect, strict=False) for dialect in dialects}


class Saying(NamedTuple):
    """An ERROR in a product's own words: its whole `message` and its whole body.

    Brokers quote clients' bytes, which may even end the head, but the product's own text follows them up to the NUL. So
    no client can make up both parts in full.
    """

    message: re.Pattern[bytes]
    body: re.Pattern[bytes]

    def said_by(self, error: Frame) -> bool:
        """Return whether an ERROR consists of exactly these words."""
        message = (error.raw(MESSAGE_HEADER) or b"").replace(b"\\c", b":")
        return self.message.fullmatch(message) is not None and self.body.fullmatch(error.payload) is not None


def _saying(message: bytes, body: bytes = rb"\s*") -> Saying:
    return Saying(re.compile(message), re.compile(body, re.DOTALL))


_LOST: Final = rb"(?:; what has no receipt may be lost)?"
_RELAY_LEAVES: Final = (
    # Another relay like this one, or its built-in broker, in front of whatever product CONNECTED names.
    _saying(rb"the relay is stopping", rb"connect again" + _LOST),
    _saying(rb"the broker is stopping", rb"connect again later"),
    # It was frozen: what came meanwhile it had not read yet.
    _saying(rb"heart-beat missed", rb"nothing came for longer than was agreed" + _LOST),
)
_RELAY_UNABLE: Final = (
    _saying(
        rb"broker not available",
        rb"upstream [^\n]* did not connect(?:; try again later; the relay's log says why)?",
    ),
)
_RABBITMQ_LEAVES: Final = (
    # An operator, or the deletion of a user or a virtual host, closed the connection; the text is the operator's.
    _saying(rb"connection_forced", rb"[^\n]*\n?"),
    _saying(
        rb"AMQP (?:channel|connection) died",
        rb"Reason: \{shutdown,\s*\{connection_closing,\s*\{server_initiated_close,\s*320,\s*<<.*>>\}\}\}",
    ),
)
_ACTIVEMQ_LEAVES: Final = (
    # What is left of a broker that was stopped answers everything with this exception, which has no cause.
    _saying(
        rb"Broker has been stopped: [^\n]*",
        rb"org\.apache\.activemq\.broker\.BrokerStoppedException: Broker has been stopped: [^\n]*"
        rb"(?:\n\tat [^\n]*)*\n?",
    ),
)
_ARTEMIS_LEAVES: Final = (
    # The numbers are those of its message bundle, with 119 before 2.7.
    _saying(
        rb"AMQ(?:119|229)014: Did not receive data from [^ ]+ within the [0-9.,]+ms connection TTL\."
        rb" The connection will now be closed\."
    ),
    _saying(rb"AMQ(?:119|229)005: connections for [^ ]+ closed by management"),
    _saying(rb"AMQ(?:119|229)107: consumer connections for address .* closed by management"),
    _saying(rb"AMQ(?:119|229)108: connections for user .* closed by management"),
    _saying(rb"AMQ229120: connection with ID [^ ]+ closed by management"),
)
_ARTEMIS_UNABLE: Final = (_saying(rb"AMQ(?:119|229)034: Server not started"),)


class Naming(NamedTuple):
    """By which other names a product knows a place, beside the first one: `/queue/NAME` or `/topic/NAME`.

    `spellings`: whole destinations, with the first name of each. `kin`: first names, with the place of the other kind
    that is the same. `bound`: the header of a SUBSCRIBE to a topic that names its queue. `dead_letters`: the headers
    with a queue's exchange and routing key for dead letters. `known`: whether the product is known.
    """

    spellings: tuple[tuple[re.Pattern[str], str], ...] = ()
    kin: tuple[tuple[re.Pattern[str], str], ...] = ()
    bound: bytes | None = None
    dead_letters: tuple[bytes, bytes] | None = None
    known: bool = True

    def names(self, destination: str) -> list[str]:
        """Return a destination, and the first names of the place that it names, each once."""
        found = {destination: None}
        for _ in range(_STEPS):
            before = len(found)
            found.update(dict.fromkeys(_expanded([*found], self.spellings)))
            if len(found) == before:
                break
        return [*found]

    def denied(self, glob: str) -> list[str]:
        """Return a denying glob, and the first names that it denies, too, except names that are only a wildcard."""
        names = self.names(glob.replace("%2F", "/"))
        names += _expanded(names, self.kin)
        return [*dict.fromkeys([glob, *[each for each in names if not _NAMELESS.fullmatch(each)]])]


def _expanded(names: list[str], spellings: tuple[tuple[re.Pattern[str], str], ...]) -> list[str]:
    return [
        match.expand(name)
        for each in names
        for pattern, name in spellings
        if (match := pattern.fullmatch(each)) is not None
    ]


_NAMELESS: Final = re.compile(r"/(?:queue|topic)/[*?#]*")
"""A glob of first names that has nothing but wildcards where a name should be."""
_STEPS: Final = 3
"""How many spellings may stand one in another; no product has more."""


def _spellings(*known: tuple[str, str]) -> tuple[tuple[re.Pattern[str], str], ...]:
    return tuple([(re.compile(pattern), name) for pattern, name in known])


_RABBITMQ_NAMES: Final = Naming(
    _spellings(
        (r"[^/]+", r"/queue/\g<0>"),
        (r"/(?:amq/|reply-)queue/(.+)", r"/queue/\1"),
        (r"/exchange/amq\.topic/(.+)", r"/topic/\1"),
        # The queue of somebody's durable subscription, and what an operator who traces is told of every message.
        (r"/queue/stomp-subscription-.*", r"/topic/#"),
        (r"/exchange/amq\.rabbitmq\.trace(?:/.*)?", r"/queue/#"),
        (r"/exchange/amq\.rabbitmq\.trace(?:/.*)?", r"/topic/#"),
    ),
    bound=b"x-queue-name",
    dead_letters=(b"x-dead-letter-exchange", b"x-dead-letter-routing-key"),
)
_ACTIVEMQ_NAMES: Final = Naming(
    _spellings(
        # A name may say itself what it is, whatever stands before it.
        (r"(?:/(?:remote-temp-)?(?:queue|topic)/)? *((?:temp-)?(?:queue|topic)):// *(.+)", r"/\1/\2"),
        (r"/((?:remote-temp-)?(?:queue|topic))/ +(.+)", r"/\1/\2"),
        (r"(?!/(?:(?:remote-)?temp-)?(?:queue|topic)/) *(.+)", r"/queue/\1"),
        # What the topic was sent, for consumers that share it: so the broker has it without being told. Where somebody
        # reads from `Consumer.>`, their name may have any number of words.
        (r"/queue/Consumer\.(?:.*\.)?(VirtualTopic\..+)", r"/topic/\1"),
    ),
)
_ARTEMIS_NAMES: Final = Naming(
    _spellings(
        # An acceptor with prefixes takes addresses without one, too: they are queues and topics at once.
        (r"(?!/).+", r"/queue/\g<0>"),
        (r"(?!/).+", r"/topic/\g<0>"),
        (r"jms\.(queue|topic)\.(.+)", r"/\1/\2"),
    ),
    # They are one address, which has either way of routing.
    kin=_spellings((r"/queue/(.+)", r"/topic/\1"), (r"/topic/(.+)", r"/queue/\1")),
)


def naming(namings: Iterable[Naming]) -> Naming:
    """Return the names that any of these products uses."""
    several = [*dict.fromkeys(namings)]
    return Naming(
        tuple([each for names in several for each in names.spellings]),
        tuple([each for names in several for each in names.kin]),
        next((each.bound for each in several if each.bound), None),
        next((each.dead_letters for each in several if each.dead_letters), None),
        all(each.known for each in several),
    )


ANY_NAMES: Final = naming((_RABBITMQ_NAMES, _ACTIVEMQ_NAMES, _ARTEMIS_NAMES))._replace(known=False)
"""Where it is not known which product a broker is: the names that any of them has."""


@dataclass(frozen=True, eq=False)
class Profile:
    """One product, known by its name.

    `dialects`: its way with each version. `connect_escape`: it unescapes CONNECT. `selectors`: it honours `selector`.
    `cumulative`: a RECEIPT for a SEND means that all earlier SENDs are safe. `commits_early`: its RECEIPT for COMMIT
    does not wait for the SENDs' own. `parts_silently`: over WebSocket it gives no RECEIPT for DISCONNECT. `goodbyes`:
    its ERRORs when it ends a connection. `outages`: its other answers to CONNECT when it serves nobody. `naming`: its
    names for one place.
    """

    name: str
    dialects: dict[bytes, Dialect] = field(default_factory=lambda: _by_version(V1_0, V1_1, V1_2))
    connect_escape: bool = False
    selectors: bool = True
    cumulative: bool = False
    commits_early: bool = False
    parts_silently: bool = False
    goodbyes: tuple[Saying, ...] = ()
    outages: tuple[Saying, ...] = ()
    naming: Naming = ANY_NAMES

    def leaves(self, error: Frame) -> bool:
        """Return whether an ERROR says that the broker ends the connection for its own reasons."""
        return any(each.said_by(error) for each in self.goodbyes)

    def unavailable(self, error: Frame) -> bool:
        """Return whether an ERROR to CONNECT says that this broker serves no client now, so that another broker may be
        tried.
        """
        return self.leaves(error) or any(each.said_by(error) for each in self.outages)


_ANY_GOODBYE: Final = _RELAY_LEAVES + _RABBITMQ_LEAVES + _ACTIVEMQ_LEAVES + _ARTEMIS_LEAVES
_ANY_OUTAGE: Final = _RELAY_UNABLE + _ARTEMIS_UNABLE

GENERIC: Final = Profile("generic", goodbyes=_ANY_GOODBYE, outages=_ANY_OUTAGE)
AUTO: Final = Profile("auto", goodbyes=_ANY_GOODBYE, outages=_ANY_OUTAGE)
"""Not known before CONNECTED, from which `detect` finds the product."""

RABBITMQ: Final = Profile(
    "rabbitmq",
    # It escapes and unescapes in every version, 1.0 and the escape of CR included, and takes NACK on 1.0.
    # Each message is confirmed by its own queue and store, so that a later one may be safe before an earlier one.
    _by_version(
        replace(V1_0, reads=_ALL, writes=_ALL, trims_cr=True, commands=V1_0.commands | {NACK}),
        replace(V1_1, reads=_ALL, writes=_ALL, trims_cr=True),
        V1_2,
    ),
    connect_escape=True,
    selectors=False,
    # It publishes the messages of a transaction one by one at COMMIT and answers that at once.
    commits_early=True,
    parts_silently=True,
    naming=_RABBITMQ_NAMES,
    goodbyes=_RELAY_LEAVES + _RABBITMQ_LEAVES,
    outages=_RELAY_UNABLE,
)
ACTIVEMQ: Final = Profile(
    "activemq",
    # It unescapes values on 1.0 too, yet does not escape there, so that an LF would reach consumers as a line's end;
    # header names it leaves alone everywhere. Before 1.2 a CR at a line's end is none of the value; on 1.1 it
    # comes back all the same.
    _by_version(
        replace(V1_0, writes=_ALL - {b"\r", b"\n"}, escaped_names=False, trims_cr=True),
        replace(V1_1, escaped_names=False, trims_cr=True),
        replace(V1_2, escaped_names=False),
    ),
    connect_escape=True,
    # One thread works through a connection's frames, and the receipt is written when the store has the message.
    cumulative=True,
    naming=_ACTIVEMQ_NAMES,
    goodbyes=_RELAY_LEAVES + _ACTIVEMQ_LEAVES,
    outages=_RELAY_UNABLE,
)
ARTEMIS: Final = Profile(
    "artemis",
    # Answers wait for every operation on the journal that the connection began before. Its ways with escapes are the
    # specification's, but that it writes the one of CR on 1.1 as well, which every broker is read with.
    cumulative=True,
    naming=_ARTEMIS_NAMES,
    goodbyes=_RELAY_LEAVES + _ARTEMIS_LEAVES,
    outages=_RELAY_UNABLE + _ARTEMIS_UNABLE,
)


PROFILES: Final = {profile.name: profile for profile in (AUTO, GENERIC, RABBITMQ, ACTIVEMQ, ARTEMIS)}

_RABBITMQ_SESSION: Final = re.compile(rb"session-[\w-]{22}")


def detect(server: bytes, session: bytes) -> Profile:
    """Return the profile that CONNECTED shows: by its `server` header, or by RabbitMQ's form of `session`; otherwise a
    generic one.
    """
    product = server.partition(b"/")[0].lower()
    if product == b"rabbitmq" or (not product and _RABBITMQ_SESSION.fullmatch(session)):
        return RABBITMQ
    if b"artemis" in product:
        return ARTEMIS
    if product == b"activemq":
        return ACTIVEMQ
    return GENERIC
