"""CONNECT and CONNECTED as values. Their headers are never escaped. The headers of one side pass to the other side in
their order. The relay replaces the versions and the heart-beats, and also the virtual host and the credentials if the
upstream has them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Final, NamedTuple

from stomprelay.session.leg import NO_BEATS, Terms
from stomprelay.session.refusal import LONGEST, Foreign, recognise
from stomprelay.wire.decoder import GAP, Decoder
from stomprelay.wire.dialect import DIALECTS, V1_0, Dialect, Headers, highest
from stomprelay.wire.errors import LimitError, ProtocolError, StompError
from stomprelay.wire.frame import Frame, compose_raw
from stomprelay.wire.names import (
    ACCEPT_VERSION,
    CONNECT,
    CONNECTED,
    CONTENT_LENGTH,
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


_SPELLED: Final = {
    each: each
    for number in range(len(DIALECTS))
    for each in map(frozenset, combinations(DIALECTS, number + 1))
}
"""All sets of versions. Sessions share these objects."""
_KNOWN: Final = frozenset(DIALECTS)
_TEXTS: Final = {each: b",".join(version for version in DIALECTS if version in each) for each in _SPELLED}
_NAMES: Final = {each: each for each in (ACCEPT_VERSION, HEART_BEAT, HOST, LOGIN, PASSCODE, RECEIPT_HEADER)}
"""Names of headers. Sessions share them, because a session keeps its offer as long as it may need another broker."""


_OPEN: Final = frozenset({ACCEPT_VERSION, HEART_BEAT, HOST, LOGIN, RECEIPT_HEADER, b"client-id"})
"""The headers of a CONNECT that anybody may see. All others may be secret."""

_TRIMMED: Final = bytes(range(33))
"""Octets around a header's name that some brokers do not count as part of the name."""


def _first(headers: Headers, name: bytes) -> bytes | None:
    for key, value in headers:
        if key == name:
            return value
    return None


def put(headers: Headers, values: Mapping[bytes, bytes | None]) -> Headers:
    """Return the headers with these values, each in its old place or at the end. The value None removes a header."""
    left = dict(values)
    result: Headers = []
    for name, old in headers:
        if name not in values:
            result.append((name, old))
        elif (value := left.pop(name, None)) is not None:
            result.append((name, value))
    result += [(name, value) for name, value in left.items() if value is not None]
    return result


def _without_body(frame: Frame) -> Headers:
    """Return the headers of a CONNECT or CONNECTED; without `content-length` if the frame has a body (of LFs)."""
    headers = frame.headers(V1_0)
    return put(headers, {CONTENT_LENGTH: None}) if frame.end > frame.body else headers


def versions(value: bytes) -> frozenset[bytes]:
    """Return the versions in the value of an `accept-version` or `version` header, stripped of blanks."""
    parts = value.split(b",")
    spelled = frozenset([part.strip(b" ") for part in parts] if b" " in value else parts)
    return _SPELLED.get(spelled, spelled)


_NEGOTIATING: Final = frozenset(version for version, dialect in DIALECTS.items() if dialect.negotiates)


def spell_versions(spoken: frozenset[bytes]) -> bytes:
    """Return these versions as a header value, lowest first. It has no blanks, because brokers do not strip them."""
    return _TEXTS.get(_KNOWN.intersection(spoken), b"")


@dataclass(frozen=True)
class Credentials:
    """The login and passcode that a broker gets in place of the client's own. No repr shows the passcode."""

    login: bytes
    passcode: bytes | None = field(default=None, repr=False)


class OwnHeader(NamedTuple):
    """A header that the relay adds to CONNECT. The value None means that CONNECT must not have this header."""

    name: bytes
    value: bytes | None


@dataclass(slots=True)
class Offer:
    """What a client's CONNECT offers: its headers, its STOMP versions and its heart-beats."""

    headers: Headers = field(repr=False)
    versions: frozenset[bytes]
    terms: Terms | None
    """The terms in the `heart-beat` header; None if there is no such header."""
    credentials: Credentials | None = None
    """The credentials for brokers, if they differ from the upstream's and from those in CONNECT; otherwise None."""

    @classmethod
    def read(cls, frame: Frame) -> "Offer":
        """Return what a CONNECT or STOMP frame offers. Raises `ProtocolError` for a malformed `heart-beat` header."""
        headers = [(_NAMES.get(name, name), value) for name, value in _without_body(frame)]
        first = dict(reversed(headers))  # of several headers of one name
        accept, beat = first.get(ACCEPT_VERSION), first.get(HEART_BEAT)
        try:
            terms = Terms.parse(beat) if beat is not None else None
        except StompError as error:
            raise error.asked_for(first.get(RECEIPT_HEADER)) from None
        return cls(headers, versions(accept) if accept is not None else frozenset({V1_0.version}), terms)

    def first(self, name: bytes) -> bytes | None:
        """Return the first value of a header; None if CONNECT has no such header."""
        return _first(self.headers, name)

    def with_credentials(self, credentials: Credentials | None) -> "Offer":
        """Return the offer with these credentials for brokers; None: the credentials of the upstream."""
        return self if credentials is None else replace(self, credentials=credentials)

    def agree(self, spoken: frozenset[bytes]) -> Dialect:
        """Return the highest version in `spoken` that the client accepts. Raises `ProtocolError` if there is none."""
        dialect = highest(self.versions, spoken)
        if dialect is None:
            supported = spell_versions(spoken).decode()
            raise ProtocolError(
                "no common STOMP version",
                f"supported versions are {supported}",
                receipt=_first(self.headers, RECEIPT_HEADER),
            )
        return dialect

    def connect(
        self,
        asked: frozenset[bytes],
        terms: Terms,
        *,
        host: bytes | None = None,
        credentials: Credentials | None = None,
        added: OwnHeader | None = None,
    ) -> bytes:
        """Return the CONNECT frame for a broker: the client's headers, with the versions `asked` and the heart-beats
        `terms`.

        `host`, `credentials` and `added` replace the client's headers of these names, however the names are spelled. A
        passcode or `added` value that is None removes the header.
        """
        values: dict[bytes, bytes | None] = {RECEIPT_HEADER: None}
        above, names = not asked.isdisjoint(_NEGOTIATING), dict(self.headers)
        if above or ACCEPT_VERSION in names:
            values[ACCEPT_VERSION] = spell_versions(asked)
        ours: set[bytes] = set()
        if host is not None:
            values[HOST] = host
            ours.add(HOST)
        elif above and HOST not in names:
            values[HOST] = DEFAULT_HOST
        if self.beats(asked):
            values[HEART_BEAT] = bytes(terms)
        if credentials is not None:
            values[LOGIN] = credentials.login
            values[PASSCODE] = credentials.passcode
            ours.update((LOGIN, PASSCODE))
        if added is not None:
            values[added.name] = added.value
            ours.add(added.name.lower())
        headers = [
            each for each in self.headers if each[0] in values or each[0].strip(_TRIMMED).lower() not in ours
        ]
        return compose_raw(CONNECT, put(headers, values), end=b"\0")

    @property
    def secrets(self) -> list[bytes]:
        """The values that only the broker may see."""
        return [value for name, value in self.headers if name not in _OPEN]

    def has_value(self, value: bytes) -> bool:
        """Return whether this is the value of one of the client's headers."""
        return value in [each for _, each in self.headers]

    def beats(self, asked: frozenset[bytes]) -> bool:
        """Whether `connect` sends a `heart-beat` header: for 1.0 alone, only if the client's CONNECT has one."""
        return self.terms is not None or not asked.isdisjoint(_NEGOTIATING)

    def terms_toward(self, asked: frozenset[bytes], terms: Terms) -> Terms:
        """Return the terms for the broker. Without a `heart-beat` header in CONNECT, they expect no beats."""
        return terms if self.beats(asked) else replace(terms, wants=0)


def read_opening(decoder: Decoder, data: bytes, most: int) -> Offer | Foreign | None:
    """Return the CONNECT in a client's first bytes, or the foreign protocol; None if CONNECT is incomplete. Later
    bytes stay in the decoder. Raises `StompError` for other bytes, and for more than `most` bytes without a complete
    CONNECT (leading EOLs do not count).
    """
    begun = decoder.begun
    if begun or not decoder.buffered:
        foreign = recognise(begun + data[:LONGEST] if begun else data.lstrip(GAP)[:LONGEST])
        if foreign is not None:
            return foreign
    at = 0
    while at < len(data):
        stop = at + most + 1 - decoder.buffered
        decoder.feed(data[at:stop])
        at = stop
        for frame in decoder.frames():
            if at < len(data):
                decoder.feed(data[at:])
            return Offer.read(frame)
        if decoder.buffered > most:
            raise LimitError("too much before CONNECT", f"the limit is {most} bytes")
    return None


@dataclass(slots=True)
class Accord:
    """What CONNECTED says: the dialect of its version, the heart-beats, `server` and `session` (empty if absent)."""

    headers: Headers
    dialect: Dialect
    terms: Terms
    server: bytes
    session: bytes

    @classmethod
    def read(cls, frame: Frame) -> "Accord":
        """Return what CONNECTED says; a malformed `heart-beat` counts as absent. Raises `ProtocolError`."""
        headers = _without_body(frame)
        first = dict(reversed(headers))  # of several headers of one name
        version = (first.get(VERSION) or V1_0.version).strip(b" ")
        dialect = DIALECTS.get(version)
        if dialect is None:
            raise ProtocolError("the broker settled on an unknown STOMP version", repr(version[:16]))
        try:
            terms = Terms.parse(first.get(HEART_BEAT) or b"0,0")
        except ProtocolError:
            terms = NO_BEATS
        return cls(headers, dialect, terms, first.get(SERVER, b""), first.get(SESSION, b""))

    def connected(self, dialect: Dialect, terms: Terms | None, session: bytes) -> bytes:
        """Return the CONNECTED frame for the client: the broker's headers, with the version of `dialect` and our
        heart-beats.

        `terms`: None if the client sent no `heart-beat`. `session`: the value of this header if the broker sent none.
        """
        values: dict[bytes, bytes | None] = {}
        if dialect.negotiates or _first(self.headers, VERSION) is not None:
            values[VERSION] = dialect.version
        if terms is not None or _first(self.headers, HEART_BEAT) is not None:
            values[HEART_BEAT] = bytes(terms or NO_BEATS)
        if not self.session:
            values[SESSION] = session
        return compose_raw(CONNECTED, put(self.headers, values))
