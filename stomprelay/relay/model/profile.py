"""How a product departs from the STOMP versions that it has. Every quirk is a fact here; none is a condition
elsewhere.

Sources: the recorded conversations with RabbitMQ 3.10.8 and ActiveMQ 5.17.2 that the tests replay, and Artemis'
protocol documentation.
"""

import re
from dataclasses import dataclass, field, replace
from typing import Final

from stomprelay.wire.dialect import ESCAPES, V1_0, V1_1, V1_2, Dialect
from stomprelay.wire.names import NACK

_ALL: Final = frozenset(ESCAPES)


def _lenient(dialect: Dialect) -> Dialect:
    """Brokers are read with every escape and without complaint: what they wrote reaches the client."""
    return replace(dialect, strict=False)


def _by_version(*dialects: Dialect) -> dict[bytes, Dialect]:
    return {dialect.version: _lenient(dialect) for dialect in dialects}


@dataclass(frozen=True, eq=False)
class Profile:
    """One product, known by its name.

    `dialects`: its way with each version. `connect_escape`: it unescapes the values of CONNECT. `selectors`: it
    honours `selector` on SUBSCRIBE. `cumulative`: a RECEIPT for a SEND shows that all SENDs before it on the same
    connection are safe as well; without it the specification promises no more than that they were received (STOMP
    1.2, "RECEIPT").
    """

    name: str
    dialects: dict[bytes, Dialect] = field(default_factory=lambda: _by_version(V1_0, V1_1, V1_2))
    connect_escape: bool = False
    selectors: bool = True
    cumulative: bool = False


GENERIC: Final = Profile("generic")
AUTO: Final = Profile("auto")
"""Not known before CONNECTED, from which `detect` finds the product."""

RABBITMQ: Final = Profile(
    "rabbitmq",
    # It escapes and unescapes in every version, 1.0 and the escape of CR included, and takes NACK on 1.0.
    # Each message is confirmed by its own queue and store, so that a later one may be safe before an earlier one.
    _by_version(
        replace(V1_0, reads=_ALL, writes=_ALL, commands=V1_0.commands | {NACK}),
        replace(V1_1, reads=_ALL, writes=_ALL),
        V1_2,
    ),
    connect_escape=True,
    selectors=False,
)
ACTIVEMQ: Final = Profile(
    "activemq",
    # It unescapes values on 1.0 too, yet does not escape there, so that an LF would reach consumers as a line's end;
    # header names it leaves alone everywhere.
    _by_version(
        replace(V1_0, writes=_ALL - {b"\r", b"\n"}, escaped_names=False),
        replace(V1_1, escaped_names=False),
        replace(V1_2, escaped_names=False),
    ),
    connect_escape=True,
    # One thread works through a connection's frames, and the receipt is written when the store has the message.
    cumulative=True,
)
ARTEMIS: Final = Profile(
    "artemis",
    # Answers wait for every operation on the journal that the connection began before.
    cumulative=True,
)

PROFILES: Final = {profile.name: profile for profile in (AUTO, GENERIC, RABBITMQ, ACTIVEMQ, ARTEMIS)}

_LEAVING: Final = (
    rb"connection.forced|shut(?:ting)? ?down|stopp(?:ed|ing)|is down"
    rb"|heart.?beat|did not receive data|connection.ttl"
)
_UNABLE: Final = (
    rb"unavailable|not available|not (?:yet )?(?:started|running|ready)|too many|limit (?:is )?(?:reached|exceeded)"
    rb"|time(?:d )?-?out"
)
_LEAVES: Final = re.compile(_LEAVING, re.IGNORECASE)
_UNAVAILABLE: Final = re.compile(b"%b|%b" % (_LEAVING, _UNABLE), re.IGNORECASE)


def unavailable(message: bytes) -> bool:
    """Whether the `message` of an ERROR that answers CONNECT means that this broker cannot serve any client now,
    so that another one may. All else is final: above all, credentials that it does not accept.
    """
    return _UNAVAILABLE.search(message) is not None


def leaves(message: bytes) -> bool:
    """Whether the `message` of a later ERROR means that the broker ends the connection, whatever the client sent."""
    return _LEAVES.search(message) is not None


_RABBITMQ_SESSION: Final = re.compile(rb"session-[\w-]{22}")


def detect(server: bytes, session: bytes) -> Profile:
    """The profile of a broker by its CONNECTED: the `server` header, or RabbitMQ's form of `session`."""
    product = server.partition(b"/")[0].lower()
    if product == b"rabbitmq" or (not product and _RABBITMQ_SESSION.fullmatch(session)):
        return RABBITMQ
    if b"artemis" in product:
        return ARTEMIS
    if product == b"activemq":
        return ACTIVEMQ
    return GENERIC
