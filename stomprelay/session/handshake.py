"""CONNECT and CONNECTED as values. Their heads are never escaped, so everything here is raw octets.

What a client said passes to the broker as it came, in its order; only the headers that each leg settles for
itself are put in place: versions, heart-beats, and, where an upstream maps them, virtual host and credentials.
"""

from dataclasses import dataclass, field, replace
from typing import Final

from stomprelay.session.heartbeat import Terms
from stomprelay.wire.dialect import DIALECTS, V1_0, Dialect, Headers, highest
from stomprelay.wire.errors import ProtocolError
from stomprelay.wire.frame import Frame, compose_raw
from stomprelay.wire.names import (
    ACCEPT_VERSION,
    CONNECT,
    CONNECTED,
    HEART_BEAT,
    HOST,
    LOGIN,
    PASSCODE,
    RECEIPT_HEADER,
    SERVER,
    SESSION,
    VERSION,
)

DEFAULT_HOST: Final = b"/"
"""The virtual host for a client that names none: RabbitMQ's default; ActiveMQ and Artemis ignore the header."""


def _first(headers: Headers, name: bytes) -> bytes | None:
    return next((value for key, value in headers if key == name), None)


def put(headers: Headers, name: bytes, value: bytes | None) -> Headers:
    """The headers with `name` set in place (at the end where it is new), or gone when `value` is None."""
    result: Headers = []
    for key, old in headers:
        if key != name:
            result.append((key, old))
        elif value is not None:
            result.append((key, value))
            value = None
    if value is not None:
        result.append((name, value))
    return result


def versions(value: bytes) -> frozenset[bytes]:
    """The versions in an `accept-version` or `version` header; blanks around them do not count."""
    return frozenset(part.strip(b" ") for part in value.split(b","))


def _negotiate(asked: frozenset[bytes]) -> bool:
    return any(DIALECTS[version].negotiates for version in asked)


def spell_versions(spoken: frozenset[bytes]) -> bytes:
    """As a header value, lowest first, without blanks: brokers do not strip them."""
    return b",".join(version for version in DIALECTS if version in spoken)


@dataclass(frozen=True)
class Credentials:
    """What a leg authenticates with instead of the client's own. Never in a repr."""

    login: bytes
    passcode: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Offer:
    """A client's CONNECT: what it can speak and how often it can beat."""

    headers: Headers = field(repr=False)
    versions: frozenset[bytes]
    terms: Terms | None
    """None when it did not speak of heart-beats."""

    @classmethod
    def read(cls, frame: Frame) -> "Offer":
        """What a CONNECT or STOMP frame offers. Raises `ProtocolError` for a malformed heart-beat."""
        headers = frame.headers(V1_0)
        accept = _first(headers, ACCEPT_VERSION)
        beat = _first(headers, HEART_BEAT)
        return cls(
            headers,
            versions(accept) if accept is not None else frozenset({V1_0.version}),
            Terms.parse(beat) if beat is not None else None,
        )

    def agree(self, spoken: frozenset[bytes]) -> Dialect:
        """The highest version in common. Raises `ProtocolError` when there is none."""
        dialect = highest(self.versions, spoken)
        if dialect is None:
            supported = spell_versions(spoken).decode()
            raise ProtocolError("no common STOMP version", f"supported versions are {supported}")
        return dialect

    def connect(
        self,
        asked: frozenset[bytes],
        terms: Terms,
        *,
        host: bytes | None = None,
        credentials: Credentials | None = None,
    ) -> bytes:
        """The CONNECT frame for a broker: this offer, asking for `asked` versions and offering `terms`.

        `host` and `credentials` replace the client's own. `STOMP` becomes `CONNECT`, which every broker knows.
        """
        headers = put(self.headers, RECEIPT_HEADER, None)
        above = _negotiate(asked)
        if above or _first(headers, ACCEPT_VERSION) is not None:
            headers = put(headers, ACCEPT_VERSION, spell_versions(asked))
        if host is not None:
            headers = put(headers, HOST, host)
        elif above and _first(headers, HOST) is None:
            headers = put(headers, HOST, DEFAULT_HOST)
        if self.beats(asked):
            headers = put(headers, HEART_BEAT, bytes(terms))
        if credentials is not None:
            headers = put(headers, LOGIN, credentials.login)
            headers = put(headers, PASSCODE, credentials.passcode)
        return compose_raw(CONNECT, headers, end=b"\0")

    def beats(self, asked: frozenset[bytes]) -> bool:
        """Whether `connect` speaks of heart-beats: a strict 1.0 pair has never heard of them."""
        return _negotiate(asked) or self.terms is not None

    def terms_toward(self, asked: frozenset[bytes], terms: Terms) -> Terms:
        """The terms the broker was given: where none were spoken of, it may still demand our beats."""
        return terms if self.beats(asked) else replace(terms, wants=0)


@dataclass(frozen=True)
class Accord:
    """A broker's CONNECTED: the version it settled on, its beats and what it says of itself."""

    headers: Headers
    dialect: Dialect
    terms: Terms
    server: bytes
    session: bytes

    @classmethod
    def read(cls, frame: Frame) -> "Accord":
        """What a CONNECTED frame settles. Raises `ProtocolError` for a version that we do not speak.

        Heart-beats that a broker spells badly count as none.
        """
        headers = frame.headers(V1_0)
        version = (_first(headers, VERSION) or V1_0.version).strip(b" ")
        dialect = DIALECTS.get(version)
        if dialect is None:
            raise ProtocolError("the broker settled on an unknown STOMP version", repr(version[:16]))
        try:
            terms = Terms.parse(_first(headers, HEART_BEAT) or b"0,0")
        except ProtocolError:
            terms = Terms()
        return cls(headers, dialect, terms, _first(headers, SERVER) or b"", _first(headers, SESSION) or b"")

    def connected(self, dialect: Dialect, terms: Terms | None, session: bytes) -> bytes:
        """The CONNECTED frame for the client: this accord, in its version and with our own heart-beats.

        `terms` is None for a client that did not speak of heart-beats; `session` names the session where the
        broker did not.
        """
        headers = self.headers
        if dialect.negotiates or _first(headers, VERSION) is not None:
            headers = put(headers, VERSION, dialect.version)
        if terms is not None or _first(headers, HEART_BEAT) is not None:
            headers = put(headers, HEART_BEAT, bytes(terms or Terms()))
        if not self.session:
            headers = put(headers, SESSION, session)
        return compose_raw(CONNECTED, headers)
