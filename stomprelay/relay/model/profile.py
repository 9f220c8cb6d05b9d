"""How a product departs from its STOMP versions, as facts. The sources are the recorded conversations that the tests
replay, and Artemis's message bundle.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from stomprelay.relay.model.names import NameMap
from stomprelay.wire.dialect import ESCAPES, V1_0, V1_1, V1_2, Dialect
from stomprelay.wire.frame import Frame
from stomprelay.wire.names import MESSAGE_HEADER, NACK

_ALL: Final = frozenset(ESCAPES)


def _by_version(*dialects: Dialect) -> dict[bytes, Dialect]:
    """Return the dialects by version. They accept every escape, so that whatever a broker writes reaches the client."""
    return {dialect.version: replace(dialect, strict=False) for dialect in dialects}


class Saying(NamedTuple):
    """An ERROR in a product's own words: patterns for its whole `message` and its whole body.

    A client can put bytes into an ERROR, because brokers quote what clients sent. The quoted bytes may even end the
    head. But then the product's own text still follows, up to the NUL. So a client cannot make both patterns match.
    """

    message: re.Pattern[bytes]
    body: re.Pattern[bytes]

    def said_by(self, error: Frame) -> bool:
        """Return whether an ERROR has only these words."""
        message = (error.raw(MESSAGE_HEADER) or b"").replace(b"\\c", b":")
        return self.message.fullmatch(message) is not None and self.body.fullmatch(error.payload) is not None


def _saying(message: bytes, body: bytes = rb"\s*") -> Saying:
    return Saying(re.compile(message), re.compile(body, re.DOTALL))


_LOST: Final = rb"(?:; what has no receipt may be lost)?"
_RELAY_LEAVES: Final = (
    # Another relay, or its built-in broker, may stand in front of the product that CONNECTED names.
    _saying(rb"the relay is stopping", rb"connect again" + _LOST),
    _saying(rb"the broker is stopping", rb"connect again later"),
    # Such a relay was frozen, and has not read yet what came meanwhile.
    _saying(rb"heart-beat missed", rb"nothing came for longer than was agreed" + _LOST),
)
_RELAY_UNABLE: Final = (
    _saying(
        rb"broker not available",
        rb"upstream [^\n]* did not connect(?:; try again later; the relay's log says why)?",
    ),
)
_RABBITMQ_LEAVES: Final = (
    # An operator closed the connection, or a user or virtual host was deleted. The text is the operator's.
    _saying(rb"connection_forced", rb"[^\n]*\n?"),
    _saying(
        rb"AMQP (?:channel|connection) died",
        rb"Reason: \{shutdown,\s*\{connection_closing,\s*\{server_initiated_close,\s*320,\s*<<.*>>\}\}\}",
    ),
)
_RABBITMQ_CROSSINGS: Final = (
    _saying(rb"Subscription not found", rb"(?:There is no current subscription with tag '.*'\.)?\s*"),
)
_ACTIVEMQ_LEAVES: Final = (
    # A broker that was stopped, but still has connections, answers every frame with this exception without a cause.
    _saying(
        rb"Broker has been stopped: [^\n]*",
        rb"org\.apache\.activemq\.broker\.BrokerStoppedException: Broker has been stopped: [^\n]*"
        rb"(?:\n\tat [^\n]*)*\n?",
    ),
    _saying(
        rb"Timer already cancelled\.",
        rb"java\.lang\.IllegalStateException: Timer already cancelled\.(?:\n\tat [^\n]*)*\n?",
    ),
)
_ARTEMIS_LEAVES: Final = (
    # The numbers are from its message bundle; before 2.7 they begin with 119.
    _saying(
        rb"AMQ(?:119|229)014: Did not receive data from [^ ]+ within the [0-9.,]+ms connection TTL\."
        rb" The connection will now be closed\."
    ),
    _saying(rb"AMQ(?:119|229)005: connections for [^ ]+ closed by management"),
    _saying(rb"AMQ(?:119|229)107: consumer connections for address .* closed by management"),
    _saying(rb"AMQ(?:119|229)108: connections for user .* closed by management"),
    _saying(rb"AMQ229120: connection with ID [^ ]+ closed by management"),
)
_ARTEMIS_UNABLE: Final = (
    _saying(rb"AMQ(?:119|229)034: Server not started"),
    _saying(rb"AMQ339009:? Exception getting session"),  # it stops
)


class Naming(NamedTuple):
    """The names that a product uses for one place, in addition to its first name: `/queue/NAME` or `/topic/NAME`.

    `spellings`: patterns of whole destinations, each with the first name of the place. `kin`: patterns of first names.
    Each comes with a first name of the other kind that means the same place. `bound`: the header of a SUBSCRIBE to a
    topic that names the subscription's queue. `dead_letters`: the two headers that name the exchange and the routing
    key for a queue's dead letters. `known`: whether the product is known. `maps`: which names of clients these names
    are, if the clients use others.
    """

    spellings: tuple[tuple[re.Pattern[str], str], ...] = ()
    kin: tuple[tuple[re.Pattern[str], str], ...] = ()
    bound: bytes | None = None
    dead_letters: tuple[bytes, bytes] | None = None
    known: bool = True
    maps: tuple[NameMap, ...] = ()

    def names(self, destination: str) -> list[str]:
        """Return a destination, and all first names of the place that it names; each name once."""
        found = {destination: None}
        for _ in range(_STEPS):
            before = len(found)
            found.update(dict.fromkeys(_expanded([*found], self.spellings)))
            found.update(
                {each.to_client(name.encode()).decode(): None for each in self.maps for name in [*found]}
            )
            if len(found) == before:
                break
        return [*found]

    def denied(self, glob: str) -> list[str]:
        """Return a denying glob, and all first names to deny with it, except names that have only wildcards."""
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
"""Matches a first name that has only wildcards after the prefix."""
_STEPS: Final = 3
"""How often names are looked up again among the spellings. No product needs more."""


def _spellings(*known: tuple[str, str]) -> tuple[tuple[re.Pattern[str], str], ...]:
    return tuple([(re.compile(pattern), name) for pattern, name in known])


_RABBITMQ_NAMES: Final = Naming(
    _spellings(
        (r"[^/]+", r"/queue/\g<0>"),
        (r"/(?:amq/|reply-)queue/(.+)", r"/queue/\1"),
        (r"/exchange/amq\.topic/(.+)", r"/topic/\1"),
        # The queue of a durable subscription, which may be somebody else's, and the copies of messages for tracing.
        (r"/queue/stomp-subscription-.*", r"/topic/#"),
        (r"/exchange/amq\.rabbitmq\.trace(?:/.*)?", r"/queue/#"),
        (r"/exchange/amq\.rabbitmq\.trace(?:/.*)?", r"/topic/#"),
    ),
    bound=b"x-queue-name",
    dead_letters=(b"x-dead-letter-exchange", b"x-dead-letter-routing-key"),
)
_ACTIVEMQ_NAMES: Final = Naming(
    _spellings(
        # A name may say itself whether it is a queue or a topic, whatever prefix it has.
        (r"(?:/(?:remote-temp-)?(?:queue|topic)/)? *((?:temp-)?(?:queue|topic)):// *(.+)", r"/\1/\2"),
        (r"/((?:remote-temp-)?(?:queue|topic))/ +(.+)", r"/\1/\2"),
        (r"(?!/(?:(?:remote-)?temp-)?(?:queue|topic)/) *(.+)", r"/queue/\1"),
        # A consumer's queue gets what is sent to the topic. If somebody reads from `Consumer.>`, the consumer's name
        # may have any number of words.
        (r"/queue/Consumer\.(?:.*\.)?(VirtualTopic\..+)", r"/topic/\1"),
    ),
)
_ARTEMIS_NAMES: Final = Naming(
    _spellings(
        # An acceptor with prefixes also takes addresses without a prefix. These are queues and topics at once.
        (r"(?!/).+", r"/queue/\g<0>"),
        (r"(?!/).+", r"/topic/\g<0>"),
        (r"jms\.(queue|topic)\.(.+)", r"/\1/\2"),
    ),
    # A queue and a topic of one name are one address with both ways of routing.
    kin=_spellings((r"/queue/(.+)", r"/topic/\1"), (r"/topic/(.+)", r"/queue/\1")),
)


def naming(namings: Iterable[Naming]) -> Naming:
    """Return a naming with all names that any of these products uses."""
    several = [*dict.fromkeys(namings)]
    return Naming(
        tuple([each for names in several for each in names.spellings]),
        tuple([each for names in several for each in names.kin]),
        next((each.bound for each in several if each.bound), None),
        next((each.dead_letters for each in several if each.dead_letters), None),
        all(each.known for each in several),
    )


ANY_NAMES: Final = naming((_RABBITMQ_NAMES, _ACTIVEMQ_NAMES, _ARTEMIS_NAMES))._replace(known=False)
"""All names that any product uses, for a broker whose product is not known."""


@dataclass(frozen=True, eq=False)
class Profile:
    """What one product does; `name` is the product's.

    `dialects`: the product's form of each version. `connect_escape`: the product unescapes CONNECT. `selectors`: the
    product applies `selector`. `cumulative`: a RECEIPT for a SEND means that earlier ones of its `PLACE` are safe.
    `commits_early`: the RECEIPT for COMMIT may come before those of the SENDs. `parts_silently`: over WebSocket there
    is no RECEIPT for DISCONNECT. `goodbyes`: the ERRORs when the product ends connections. `outages`: further ERRORs,
    in answer to CONNECT, when it serves nobody. `crossings`: the ERRORs for MESSAGEs that an UNSUBSCRIBE crosses.
    `marks_first`: of messages that come again, often only the first says `redelivered:true`. `naming`: the product's
    names for a place.
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
    crossings: tuple[Saying, ...] = ()
    marks_first: bool = False
    naming: Naming = ANY_NAMES

    def leaves(self, error: Frame) -> bool:
        """Return whether an ERROR says that the broker ends the connection for a reason of its own."""
        return any(each.said_by(error) for each in self.goodbyes)

    def crossed(self, error: Frame) -> bool:
        """Return whether an ERROR says only that a MESSAGE and an UNSUBSCRIBE crossed."""
        return any(each.said_by(error) for each in self.crossings)

    def unavailable(self, error: Frame) -> bool:
        """Return whether an ERROR to CONNECT says that the broker serves nobody now: another broker may be tried."""
        return self.leaves(error) or any(each.said_by(error) for each in self.outages)


_ANY_GOODBYE: Final = _RELAY_LEAVES + _RABBITMQ_LEAVES + _ACTIVEMQ_LEAVES + _ARTEMIS_LEAVES
_ANY_OUTAGE: Final = _RELAY_UNABLE + _ARTEMIS_UNABLE

GENERIC: Final = Profile("generic", goodbyes=_ANY_GOODBYE, outages=_ANY_OUTAGE)
AUTO: Final = Profile("auto", goodbyes=_ANY_GOODBYE, outages=_ANY_OUTAGE)
"""The product is not known until CONNECTED; then `detect` finds it."""

RABBITMQ: Final = Profile(
    "rabbitmq",
    # It escapes and unescapes all characters in every version, even in 1.0 and even CR, and accepts NACK on 1.0. Each
    # queue and store confirms its messages by itself, so a later message may be safe before an earlier one.
    _by_version(
        replace(V1_0, reads=_ALL, writes=_ALL, trims_cr=True, commands=V1_0.commands | {NACK}),
        replace(V1_1, reads=_ALL, writes=_ALL, trims_cr=True),
        V1_2,
    ),
    connect_escape=True,
    selectors=False,
    # At COMMIT it publishes the messages of the transaction one by one, and sends the RECEIPT before they are safe.
    commits_early=True,
    parts_silently=True,
    naming=_RABBITMQ_NAMES,
    goodbyes=_RELAY_LEAVES + _RABBITMQ_LEAVES,
    outages=_RELAY_UNABLE,
    crossings=_RABBITMQ_CROSSINGS,
)
ACTIVEMQ: Final = Profile(
    "activemq",
    # On 1.0 it unescapes values, but does not escape CR and LF; consumers would read an LF as a line's end. It never
    # escapes header names. Before 1.2 it does not count a CR at a line's end as part of the value.
    _by_version(
        replace(V1_0, writes=_ALL - {b"\r", b"\n"}, escaped_names=False, trims_cr=True),
        replace(V1_1, escaped_names=False, trims_cr=True),
        replace(V1_2, escaped_names=False),
    ),
    connect_escape=True,
    # One thread handles the frames of a connection, and sends the RECEIPT when the store has the message. A SEND that
    # asks for no receipt is stored later, before the next persistent SEND to a queue.
    cumulative=True,
    naming=_ACTIVEMQ_NAMES,
    goodbyes=_RELAY_LEAVES + _ACTIVEMQ_LEAVES,
    outages=_RELAY_UNABLE,
)
ARTEMIS: Final = Profile(
    "artemis",
    # An answer waits for all operations on the journal that the connection began before. It escapes as the
    # specification says, but also escapes CR on 1.1; all brokers are read with this escape.
    cumulative=True,
    marks_first=True,
    naming=_ARTEMIS_NAMES,
    goodbyes=_RELAY_LEAVES + _ARTEMIS_LEAVES,
    outages=_RELAY_UNABLE + _ARTEMIS_UNABLE,
)


PROFILES: Final = {profile.name: profile for profile in (AUTO, GENERIC, RABBITMQ, ACTIVEMQ, ARTEMIS)}

_RABBITMQ_SESSION: Final = re.compile(rb"session-[\w-]{22}")


def detect(server: bytes, session: bytes) -> Profile:
    """Return the profile that CONNECTED shows, by `server` or by RabbitMQ's form of `session`; else the generic one."""
    product = server.partition(b"/")[0].lower()
    if product == b"rabbitmq" or (not product and _RABBITMQ_SESSION.fullmatch(session)):
        return RABBITMQ
    if b"artemis" in product:
        return ARTEMIS
    if product == b"activemq":
        return ACTIVEMQ
    return GENERIC
