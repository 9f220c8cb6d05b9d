"""What is known about brokers and client libraries: the only place of these tests that tells them apart.

Every fact was observed on a direct connection between library and broker; the direct runs keep it true.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

VERSIONS = ("1.0", "1.1", "1.2")

Names = Mapping[str, str]

Nack = Literal["redelivered", "dropped", "refused", "ended"]
"""The message comes again; it is gone; the answer is ERROR; the answer is ERROR and the end of the session."""


@dataclass(frozen=True)
class BrokerFacts:
    """How a broker behaves on a connection of one version."""

    nack: Nack
    """What NACK of a message does that was sent without `persistent`."""

    wrong_password: str | None
    """The `message` of the ERROR for a wrong passcode; None: the broker asks for no password."""

    marks_redelivered: bool = True
    """Each message that comes again says `redelivered:true`; else some do."""

    keeps_abandoned: Literal["always", "with the relay", "never"] = "always"
    """When what a client has not acknowledged comes again though the client vanishes. It always does after DISCONNECT,
    which the relay says where it recognises that the broker needs it.
    """

    settles_late: bool = False
    """With `ack:auto` it settles a message after it wrote it; behind an UNSUBSCRIBE the last one may come again."""


@dataclass(frozen=True)
class LibraryFacts:
    """How a client library behaves, right or wrong."""

    name: str
    package: str
    versions: tuple[str, ...] = VERSIONS
    nack: tuple[str, ...] = ("1.1", "1.2")
    """The versions in which it offers NACK."""

    cannot_send: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By version: the header values (names of `VALUES`) that it refuses to send or writes wrongly."""

    misreads: Mapping[str, Names] = field(default_factory=dict)
    """By version: what it makes of certain header values; the key is the text as it should be read."""

    takes_receipts_itself: bool = False
    """It waits for each RECEIPT inside the request and never shows it."""

    hides_connected: bool = False
    """It does not show CONNECTED to its user."""

    unsubscribes_unconfirmed: bool = False
    """It does not show the RECEIPT of an UNSUBSCRIBE to its user."""

    transactions: bool = True
    """It has BEGIN, COMMIT and ABORT."""

    asks_for_silence: bool = False
    """It says `heart-beat:0,0` where it wants none, so that whoever answers says what they could do themselves."""


VALUES: Names = {
    "colon": "a:b",
    "backslash": "a\\b",
    "path": "C:\\new",
    "newline": "a\nb",
    "return": "a\rb",
    "non-ascii": "żółć ☃",
    "padded": "  a  ",
    "empty": "",
}
"""Header values that every bridge must carry, by a name for each."""

LEGAL: Mapping[str, tuple[str, ...]] = {
    "1.0": ("colon", "backslash", "path", "non-ascii"),
    "1.1": ("colon", "backslash", "path", "non-ascii", "newline", "padded", "empty"),
    "1.2": ("colon", "backslash", "path", "non-ascii", "newline", "padded", "empty", "return"),
}
"""The values that a client of each version can write by its specification."""

UNDELIVERABLE = "(undeliverable)"
"""In place of a value: sending it ends the connection or damages the frame."""

_ALTERED: Mapping[tuple[str, str, str], Names] = {
    # RabbitMQ decodes and encodes escapes in 1.0 too; it closes the connection at an undefined escape.
    ("rabbitmq", "1.0", "1.0"): {"colon": "a\\cb", "backslash": UNDELIVERABLE, "path": "C\\c\\new"},
    # ActiveMQ decodes escapes in 1.0 but does not encode them: \n comes out as a line break inside the head.
    ("activemq", "1.0", "1.0"): {"path": UNDELIVERABLE},
    # A broker's 1.0 takes off spaces, of both ends or of the front; a line break has no form there.
    ("activemq", "1.1", "1.0"): {"padded": "a", "newline": "a b"},
    ("activemq", "1.2", "1.0"): {"padded": "a", "newline": "a b"},
    ("rabbitmq", "1.1", "1.0"): {"padded": "a  "},
    ("rabbitmq", "1.2", "1.0"): {"padded": "a  "},
    ("artemis", "1.1", "1.0"): {"padded": "a  ", "newline": "a b"},
    ("artemis", "1.2", "1.0"): {"padded": "a  ", "newline": "a b"},
    ("memory", "1.1", "1.0"): {"padded": "a  ", "newline": "a b"},
    ("memory", "1.2", "1.0"): {"padded": "a  ", "newline": "a b"},
}

ALTERED: Mapping[tuple[str, str, str], Names] = {
    **_ALTERED,
    **{
        ("activemq_6", client, upstream): names
        for (broker, client, upstream), names in _ALTERED.items()
        if broker == "activemq"
    },
}
"""By broker, client's version and broker's version: the header values that arrive as another text."""

_DECODES_ALWAYS: Names = {"a\\cb": "a:b", "C:\\new": "C:\new", "C\\c\\new": "C:\new"}
_DECODES_TWICE: Names = {"C:\\new": "C:\new"}

STOMP_PY = LibraryFacts(
    "stomp.py",
    "PyPI package stomp.py",
    misreads={"1.0": _DECODES_ALWAYS},  # it decodes escapes in 1.0, where there are none
)
STOMPEST = LibraryFacts(
    "stompest",
    "PyPI package stompest",
    cannot_send={"1.0": ("non-ascii",)},  # its codec for 1.0 is ASCII
)
STOMP_GEM = LibraryFacts(
    "stomp-gem",
    "Debian package ruby-stomp",
    # It decodes escapes in 1.0 too, and one kind after the other: an escaped backslash before an n becomes
    # a line break.
    misreads={"1.0": {**_DECODES_ALWAYS, **_DECODES_TWICE}, "1.1": _DECODES_TWICE, "1.2": _DECODES_TWICE},
)
# Net::Stomp takes a body of one "0" for none, and does not send it; the scripts send no such body.
NET_STOMP = LibraryFacts("net-stomp", "Debian package libnet-stomp-perl", ("1.0",), nack=("1.0",))
# The extension wants an LF behind every NUL, as brokers write it: a frame that follows without one is lost to it.
PHP_STOMP = LibraryFacts(
    "php-stomp",
    "Debian packages php-stomp and php-cli",
    ("1.0",),
    # After ActiveMQ's ERROR for a NACK it now and then hands out an earlier message once more, relay or not.
    nack=(),
    takes_receipts_itself=True,
    hides_connected=True,
)
# Over TCP and over WebSocket it is the same library on another transport.
SPRING_TCP = LibraryFacts(
    "spring-tcp",
    "a JDK, and Spring's jars: make brokers",
    ("1.1", "1.2"),
    cannot_send={"1.1": ("padded",), "1.2": ("padded",)},  # it takes the spaces in front off
    unsubscribes_unconfirmed=True,
    transactions=False,
    asks_for_silence=True,
)
SPRING = replace(SPRING_TCP, name="spring")
LIBRARIES = (STOMP_PY, STOMPEST, STOMP_GEM, NET_STOMP, PHP_STOMP)

_RABBITMQ = BrokerFacts(nack="redelivered", wrong_password="Bad CONNECT")
_ACTIVEMQ = BrokerFacts(nack="dropped", wrong_password="User name [guest] or password is invalid.")
_ACTIVEMQ_1_0 = BrokerFacts(nack="refused", wrong_password="User name [guest] or password is invalid.")
_ARTEMIS = BrokerFacts(
    nack="dropped",
    wrong_password="Security Error occurred: User name [guest] or password is invalid",
    marks_redelivered=False,
    settles_late=True,
    # It closes the session of a client that vanishes from two threads at once. In one of some hundred cases the first
    # message that was not acknowledged is then under way to a consumer that is no more, until the broker restarts.
    keeps_abandoned="with the relay",
)
_ARTEMIS_1_0 = replace(_ARTEMIS, nack="ended", keeps_abandoned="never")
_MEMORY = BrokerFacts(nack="redelivered", wrong_password=None)
_MEMORY_1_0 = BrokerFacts(nack="ended", wrong_password=None)

BROKERS: Mapping[tuple[str, str], BrokerFacts] = {
    (broker, version): of_1_0 if version == "1.0" else later
    for broker, of_1_0, later in (
        ("rabbitmq", _RABBITMQ, _RABBITMQ),
        ("activemq", _ACTIVEMQ_1_0, _ACTIVEMQ),
        ("activemq_6", _ACTIVEMQ_1_0, _ACTIVEMQ),
        ("artemis", _ARTEMIS_1_0, _ARTEMIS),
        ("memory", _MEMORY_1_0, _MEMORY),
    )
    for version in VERSIONS
}
"""By broker and version of the connection to it."""


_WITHOUT_NACK = ("activemq", "activemq_6", "artemis", "memory")
NACK_REFUSED = {(broker, client, "1.0") for broker in _WITHOUT_NACK for client in ("1.1", "1.2")}
"""By broker, client's version and broker's version: the relay itself refuses NACK, for the broker has none."""


def nack(client: str, broker: str, upstream: str) -> Nack:
    """Return what NACK does on this way."""
    return "ended" if (broker, client, upstream) in NACK_REFUSED else BROKERS[broker, upstream].nack


def arrives(library: LibraryFacts, client: str, broker: str, upstream: str, name: str) -> str:
    """Return what `library` gives its user for the header value `name` on this way."""
    text = ALTERED.get((broker, client, upstream), {}).get(name, VALUES[name])
    return library.misreads.get(client, {}).get(text, text)


BROKER_NAMES = tuple(dict.fromkeys(name for name, _ in BROKERS))


def meets(broker: str, library: LibraryFacts) -> bool:
    """Return whether a library is tried with a broker: what tells libraries apart shows with the other brokers."""
    return library is STOMP_PY or broker not in ("activemq_6", "artemis")
