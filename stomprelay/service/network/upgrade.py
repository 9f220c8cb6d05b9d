"""The handshake of a WebSocket (RFC 6455, section 4), from both ends: from a request over HTTP to the bytes that answer
it, and from what a broker answers to whether a WebSocket is open.

A request is read here, by the grammar of RFC 9112 without what no client sends: lines that end with LF alone, or go on in
the next one. h11 reads an answer; it is not for requests, since its patterns try blanks again and again, for seconds
where somebody sends enough of them. A request that is refused gets a status and words, and nothing behind it is read.
Bytes behind the request of a handshake are refused as well: no client sends any before the answer, and what stands there
may be a request that a proxy took for a body.
"""

import re
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus
from secrets import token_bytes
from typing import Final, NamedTuple

import h11
from wsproto.utilities import generate_accept_token

from stomprelay.relay.model.listener import ANY_ORIGIN, Web
from stomprelay.service.network.deflate import agree

_VERSION: Final = b"13"
_SWITCHING: Final = 101
_KEY: Final = 16
"""Bytes of a key, in base64."""
_PROTOCOLS: Final = {b"1.2": b"v12.stomp", b"1.1": b"v11.stomp", b"1.0": b"v10.stomp"}
"""The subprotocol of each version of STOMP, the best one first."""
_MOST_ANSWERED: Final = 16 * 1024
"""Bytes that the head of a broker's answer may have."""

_REQUEST: Final = re.compile(
    rb"([-!#$%&'*+.^_`|~0-9A-Za-z]++) ([\x21-\x7e]++) HTTP/([0-9]\.[0-9])\r\n"
    rb"(?:[-!#$%&'*+.^_`|~0-9A-Za-z]++:[ \t]*+(?:[^\x00\s]++(?:[ \t]++[^\x00\s]++)*+)?[ \t]*+\r\n)*+\r\n"
)
"""A request without a body. No byte is looked at more than a few times, whatever it does not fit."""
_END: Final = re.compile(rb"\n\r?\n")
"""The end of a head, also of one that is wrong, and is not waited for any longer."""

Fields = Mapping[bytes, Sequence[bytes]]
"""The values of headers, by their names in lower case."""


class Refusal(NamedTuple):
    """Why a request is not what opens a WebSocket here: the status, words for the client, header lines beside."""

    status: HTTPStatus
    why: str
    headers: bytes = b""

    @property
    def answer(self) -> bytes:
        """The response. Close the connection behind it."""
        body = f"{self.why}\r\n".encode()
        return (
            b"HTTP/1.1 %d %b\r\n%bContent-Type: text/plain\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%b"
            % (self.status, self.status.phrase.encode(), self.headers, len(body), body)
        )


class Accepted(NamedTuple):
    """A WebSocket is open once `answer` is written. `window`: see `Agreed.bits`; 0 where nothing is compressed."""

    answer: bytes
    window: int = 0


class Asked(NamedTuple):
    """A request over HTTP whose lines are right."""

    method: bytes
    target: bytes
    version: bytes
    fields: Fields


class Handshake:
    """Reads one request, of `most` bytes at most, for a listener whose clients may speak these versions of STOMP."""

    def __init__(self, web: Web, versions: Iterable[bytes], most: int) -> None:
        self._web = web
        self._versions = frozenset(versions)
        self._most = most
        self._came = bytearray()

    def received(self, data: bytes) -> Accepted | Refusal | None:
        """Return what the client is answered; None while the request is not complete."""
        came = self._came
        since = max(0, len(came) - 2)
        came += data
        found = _END.search(came, since)
        end = len(came) if found is None else found.end()
        if end > self._most:
            return Refusal(
                HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"A request may have {self._most} bytes."
            )
        if found is None:
            return None
        asked = _asked(bytes(came[:end]))
        if asked is None:
            return Refusal(HTTPStatus.BAD_REQUEST, "This is no request of HTTP/1.1 that is taken here.")
        refusal = self._refused(asked)
        if refusal is not None:
            return refusal
        if end < len(came):
            return Refusal(HTTPStatus.BAD_REQUEST, "Nothing may follow the request before it is answered.")
        return self._agreed(asked.fields)

    def _refused(self, asked: Asked) -> Refusal | None:
        """Return what is wrong with a request, whatever its subprotocols are."""
        web = self._web
        if asked.version != b"1.1":
            return Refusal(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED, "Use HTTP/1.1.")
        fields = asked.fields
        if len(fields.get(b"host", ())) != 1:
            return Refusal(HTTPStatus.BAD_REQUEST, "One Host is needed.")
        if asked.target.partition(b"?")[0] != web.path.encode():
            return Refusal(
                HTTPStatus.NOT_FOUND, "There is nothing here. STOMP over WebSocket has another path."
            )
        if asked.method != b"GET":
            return Refusal(HTTPStatus.METHOD_NOT_ALLOWED, "A WebSocket is opened by GET.", b"Allow: GET\r\n")
        if not _switches(fields):
            return _upgrade("Here is STOMP over WebSocket: ask for an upgrade to websocket.")
        if fields.get(b"sec-websocket-version") != [_VERSION]:
            return _upgrade("Use version 13 of WebSocket.")
        if b"content-length" in fields or b"transfer-encoding" in fields:
            return Refusal(HTTPStatus.BAD_REQUEST, "A handshake has no body.")
        keys = fields.get(b"sec-websocket-key", ())
        if len(keys) != 1 or not _is_key(keys[0]):
            return Refusal(HTTPStatus.BAD_REQUEST, "One Sec-WebSocket-Key is needed: 16 bytes in base64.")
        origins = fields.get(b"origin", ())
        if origins and not (len(origins) == 1 and _permitted(origins[0], web.origins)):
            return Refusal(
                HTTPStatus.FORBIDDEN, "Pages of this origin may not connect: it is not among the origins."
            )
        return None

    def _agreed(self, fields: Fields) -> Accepted | Refusal:
        offered = _listed(fields, b"sec-websocket-protocol")
        spoken = [name for version, name in _PROTOCOLS.items() if version in self._versions]
        chosen = next((name for name in spoken if name in offered), None)
        if offered and chosen is None:
            known = b", ".join(spoken).decode()
            return Refusal(HTTPStatus.BAD_REQUEST, f"None of these subprotocols is spoken here: use {known}.")
        token = generate_accept_token(fields[b"sec-websocket-key"][0])
        protocol = b"" if chosen is None else b"Sec-WebSocket-Protocol: %b\r\n" % chosen
        agreed = agree(_listed(fields, b"sec-websocket-extensions")) if self._web.compression else None
        return Accepted(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Accept: %b\r\n%b%b\r\n"
            % (token, protocol, b"" if agreed is None else agreed.header),
            0 if agreed is None else agreed.bits,
        )


def _asked(head: bytes) -> Asked | None:
    """Return the request whose head this is; None where it is none."""
    found = _REQUEST.fullmatch(head)
    if found is None:
        return None
    parts = (line.partition(b":") for line in head.split(b"\r\n")[1:-2])
    fields = _fields((name.lower(), value.strip(b" \t")) for name, _, value in parts)
    return Asked(found[1], found[2], found[3], fields)


class Opened(NamedTuple):
    """The broker's end of a WebSocket is open, and sent these bytes on it."""

    rest: bytes


class Request:
    """Asks a server at `host`, as its URL has it, for the WebSocket at a path, to speak these versions of STOMP. Send
    `wire`.
    """

    def __init__(self, host: str, path: str, versions: Iterable[bytes]) -> None:
        key = b64encode(token_bytes(_KEY))
        spoken = frozenset(versions)
        self._token = generate_accept_token(key)
        self._offered = [name for version, name in _PROTOCOLS.items() if version in spoken]
        self._http = h11.Connection(h11.CLIENT, _MOST_ANSWERED)
        headers = [
            (b"Host", host.encode("ascii")),
            (b"Upgrade", b"websocket"),
            (b"Connection", b"Upgrade"),
            (b"Sec-WebSocket-Key", key),
            (b"Sec-WebSocket-Version", _VERSION),
            (b"Sec-WebSocket-Protocol", b", ".join(self._offered)),
        ]
        self.wire: bytes = self._http.send(h11.Request(method="GET", target=path, headers=headers)) or b""

    def received(self, data: bytes) -> Opened | str | None:
        """Return what the broker's answer means: a WebSocket, or why there is none, for the log; None while the answer
        is not complete. Nothing that the broker says is repeated but the number of a status.
        """
        try:
            self._http.receive_data(data)
            answer = self._http.next_event()
            while isinstance(answer, h11.InformationalResponse) and answer.status_code != _SWITCHING:
                answer = self._http.next_event()
        except h11.RemoteProtocolError:
            return "the peer does not speak HTTP/1.1"
        if isinstance(answer, h11.InformationalResponse):
            return self._wrong(_fields(answer.headers)) or Opened(self._http.trailing_data[0])
        return _declined(answer.status_code) if isinstance(answer, h11.Response) else None

    def _wrong(self, fields: Fields) -> str:
        """Return what is wrong with an answer that switches protocols; "" where nothing is."""
        if not _switches(fields):
            return "the peer switched to something other than WebSocket"
        if fields.get(b"sec-websocket-accept") != [self._token]:
            return "the peer answered another WebSocket's handshake"
        if fields.get(b"sec-websocket-extensions"):
            return "the peer speaks an extension of WebSocket that was not offered"
        if any(each not in self._offered for each in fields.get(b"sec-websocket-protocol", ())):
            return "the peer chose a subprotocol of WebSocket that was not offered"
        return ""


def _declined(status: int) -> str:
    """Return what a status means that opens no WebSocket."""
    try:
        return f"HTTP {status} {HTTPStatus(status).phrase}"
    except ValueError:
        return f"HTTP {status}"


def _upgrade(why: str) -> Refusal:
    headers = b"Upgrade: websocket\r\nSec-WebSocket-Version: %b\r\n" % _VERSION
    return Refusal(HTTPStatus.UPGRADE_REQUIRED, why, headers)


def _fields(headers: Iterable[tuple[bytes, bytes]]) -> Fields:
    fields: dict[bytes, list[bytes]] = {}
    for name, value in headers:
        fields.setdefault(name, []).append(value)
    return fields


def _listed(fields: Fields, name: bytes) -> list[bytes]:
    """Return what stands between the commas in all values of this name."""
    return [
        part for value in fields.get(name, ()) for each in value.split(b",") if (part := each.strip(b" \t"))
    ]


def _switches(fields: Fields) -> bool:
    """Return whether the sender wants a WebSocket, or takes part in one."""
    upgrade, connection = _listed(fields, b"upgrade"), _listed(fields, b"connection")
    return b"websocket" in map(bytes.lower, upgrade) and b"upgrade" in map(bytes.lower, connection)


def _is_key(value: bytes) -> bool:
    try:
        return len(b64decode(value, validate=True)) == _KEY
    except ValueError:
        return False


def _permitted(origin: bytes, origins: Iterable[str]) -> bool:
    """Return whether a browser may come from this origin, which it spells in lower case (RFC 6454, section 6.2)."""
    return any(each in (ANY_ORIGIN, origin.decode("latin-1")) for each in origins)
