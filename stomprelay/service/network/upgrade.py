"""The handshake of a WebSocket (RFC 6455, section 4), for both ends. `WebSocketHandshake` reads a client's request and
makes the answer; `WebSocketRequest` makes a request to a broker and reads the answer.

The grammar is that of RFC 9112, but lines that end with LF alone or continue in the next line are refused. The patterns
read each byte only once. Bytes behind a request are refused. A client sends nothing before it has the answer, so such
bytes may be a second request that a proxy took for a body.
"""

import re
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from secrets import token_bytes
from typing import Final, NamedTuple

from wsproto.utilities import generate_accept_token

from stomprelay.relay.model.listener import ANY_ORIGIN, Web
from stomprelay.service.network.deflate import agree

_VERSION: Final = b"13"
_SWITCHING: Final = 101
_KEY: Final = 16
"""The number of bytes of a key, before it is written in base64."""
_PROTOCOLS: Final = {b"1.2": b"v12.stomp", b"1.1": b"v11.stomp", b"1.0": b"v10.stomp"}
"""The subprotocol of each version of STOMP, the best one first."""
_MOST_ANSWERED: Final = 16 * 1024

_TOKEN: Final = rb"[-!#$%&'*+.^_`|~0-9A-Za-z]++"
_LINES: Final = rb"(?:%b:[ \t]*+(?:[^\x00\s]++(?:[ \t]++[^\x00\s]++)*+)?[ \t]*+\r\n)*+\r\n" % _TOKEN
_REQUEST: Final = re.compile(rb"(%b) ([\x21-\x7e]++) HTTP/([0-9]\.[0-9])\r\n%b" % (_TOKEN, _LINES))
_ANSWER: Final = re.compile(rb"HTTP/1\.[0-9] ([0-9]{3})(?: [^\x00\r\n]*+)?\r\n%b" % _LINES)
_END: Final = re.compile(rb"\n\r?\n")
"""Matches the end of a head, also if its lines end with LF alone: such a head is refused, without a further wait."""

Fields = Mapping[bytes, Sequence[bytes]]
"""The values of headers, by their names in lower case."""


class HttpRefusal(NamedTuple):
    """A refused request: the status, the text for the client, and further header lines."""

    status: HTTPStatus
    why: str
    headers: bytes = b""

    @property
    def answer(self) -> bytes:
        """The response. Close the connection after sending it."""
        body = f"{self.why}\r\n".encode()
        return (
            b"HTTP/1.1 %d %b\r\n%bContent-Type: text/plain\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%b"
            % (self.status, self.status.phrase.encode(), self.headers, len(body), body)
        )


class AcceptedUpgrade(NamedTuple):
    """A WebSocket that is open when `answer` is written. `window`: the logarithm of our window; 0: no compression."""

    answer: bytes
    window: int = 0


@dataclass(slots=True)
class _Heads:
    """Finds heads of HTTP, each of `most` bytes at most, in received bytes. `rest`: the bytes after the last head."""

    _most: int
    _seen: int = 0
    rest: bytearray = field(default_factory=bytearray)

    def received(self, data: bytes = b"") -> bytes | None:
        """Return the next head; None while it is incomplete; b"" if it is too large. Do not call this after b""."""
        self.rest += data
        found = _END.search(self.rest, max(0, self._seen - 2))
        self._seen = end = len(self.rest) if found is None else found.end()
        if end > self._most:
            return b""
        if found is None:
            return None
        head = bytes(self.rest[:end])
        del self.rest[:end]
        self._seen = 0
        return head


class WebSocketHandshake:
    """Reads one request, of `most` bytes at most, for a listener whose clients may speak these versions of STOMP."""

    def __init__(self, web: Web, versions: Iterable[bytes], most: int) -> None:
        self._web = web
        self._versions = frozenset(versions)
        self._heads = _Heads(most)

    def received(self, data: bytes) -> AcceptedUpgrade | HttpRefusal | None:
        """Return the answer to the client; None while the request is incomplete."""
        head = self._heads.received(data)
        if head is None:
            return None
        if not head:
            return HttpRefusal(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "The request is too large.")
        request = _REQUEST.fullmatch(head)
        if request is None:
            return HttpRefusal(HTTPStatus.BAD_REQUEST, "This is no request of HTTP/1.1 that is taken here.")
        fields = _fields(head)
        refusal = self._refused(request, fields)
        if refusal is not None:
            return refusal
        if self._heads.rest:
            return HttpRefusal(
                HTTPStatus.BAD_REQUEST, "Nothing may follow the request before it is answered."
            )
        return self._agreed(fields)

    def _refused(self, request: re.Match[bytes], fields: Fields) -> HttpRefusal | None:
        """Return what is wrong with a request, apart from its subprotocols."""
        web = self._web
        method, target, version = request.groups()
        if version != b"1.1":
            return HttpRefusal(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED, "Use HTTP/1.1.")
        if len(fields.get(b"host", ())) != 1:
            return HttpRefusal(HTTPStatus.BAD_REQUEST, "One Host is needed.")
        if target.partition(b"?")[0] != web.path.encode():
            return HttpRefusal(
                HTTPStatus.NOT_FOUND, "There is nothing here. STOMP over WebSocket has another path."
            )
        if method != b"GET":
            return HttpRefusal(
                HTTPStatus.METHOD_NOT_ALLOWED, "A WebSocket is opened by GET.", b"Allow: GET\r\n"
            )
        if not _switches(fields):
            return _upgrade("Here is STOMP over WebSocket: ask for an upgrade to websocket.")
        if fields.get(b"sec-websocket-version") != [_VERSION]:
            return _upgrade("Use version 13 of WebSocket.")
        if b"content-length" in fields or b"transfer-encoding" in fields:
            return HttpRefusal(HTTPStatus.BAD_REQUEST, "A handshake has no body.")
        keys = fields.get(b"sec-websocket-key", ())
        if len(keys) != 1 or not _is_key(keys[0]):
            return HttpRefusal(HTTPStatus.BAD_REQUEST, "One Sec-WebSocket-Key is needed: 16 bytes in base64.")
        origins = fields.get(b"origin", ())
        # Browsers spell their origin in lower case (RFC 6454, section 6.2).
        if origins and not (
            len(origins) == 1 and {ANY_ORIGIN, origins[0].decode("latin-1")} & {*web.origins}
        ):
            return HttpRefusal(
                HTTPStatus.FORBIDDEN, "Pages of this origin may not connect: it is not among the origins."
            )
        return None

    def _agreed(self, fields: Fields) -> AcceptedUpgrade | HttpRefusal:
        offered = _listed(fields, b"sec-websocket-protocol")
        spoken = [name for version, name in _PROTOCOLS.items() if version in self._versions]
        chosen = next((name for name in spoken if name in offered), None)
        if offered and chosen is None:
            known = b", ".join(spoken).decode()
            return HttpRefusal(
                HTTPStatus.BAD_REQUEST, f"None of these subprotocols is spoken here: use {known}."
            )
        token = generate_accept_token(fields[b"sec-websocket-key"][0])
        protocol = b"" if chosen is None else b"Sec-WebSocket-Protocol: %b\r\n" % chosen
        offers = _listed(fields, b"sec-websocket-extensions") if self._web.compression else []
        extension, window = agree(offers)
        return AcceptedUpgrade(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Accept: %b\r\n%b%b\r\n" % (token, protocol, extension),
            window,
        )


class WebSocketRequest:
    """Asks a server at `host` for the WebSocket at a path, for these versions of STOMP. First send `wire`."""

    def __init__(self, host: str, path: str, versions: Iterable[bytes]) -> None:
        key = b64encode(token_bytes(_KEY))
        spoken = frozenset(versions)
        self._token = generate_accept_token(key)
        self._offered = [name for version, name in _PROTOCOLS.items() if version in spoken]
        self._heads = _Heads(_MOST_ANSWERED)
        self.wire = (
            b"GET %b HTTP/1.1\r\nHost: %b\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: %b\r\n"
            b"Sec-WebSocket-Version: %b\r\nSec-WebSocket-Protocol: %b\r\n\r\n"
            % (path.encode("ascii"), host.encode("ascii"), key, _VERSION, b", ".join(self._offered))
        )

    def received(self, data: bytes) -> bytes | str | None:
        """Return None while the answer is incomplete. If the WebSocket is open now, return its first bytes. If the
        server refuses it, return the reason as text. This text has only the status of the server's answer.
        """
        head = self._heads.received(data)
        while head is not None:
            answer = _ANSWER.fullmatch(head)
            if answer is None:
                return "the peer does not speak HTTP/1.1"
            status = int(answer[1])
            if status == _SWITCHING:
                return self._wrong(_fields(head)) or bytes(self._heads.rest)
            if not 100 <= status < 200:
                known = status in [*HTTPStatus]
                return f"HTTP {status} {HTTPStatus(status).phrase}" if known else f"HTTP {status}"
            head = self._heads.received()
        return None

    def _wrong(self, fields: Fields) -> str:
        """Return what is wrong with an answer that switches protocols; "" if nothing is."""
        if not _switches(fields):
            return "the peer switched to something other than WebSocket"
        if fields.get(b"sec-websocket-accept") != [self._token]:
            return "the peer answered another WebSocket's handshake"
        if fields.get(b"sec-websocket-extensions"):
            return "the peer speaks an extension of WebSocket that was not offered"
        if any(each not in self._offered for each in fields.get(b"sec-websocket-protocol", ())):
            return "the peer chose a subprotocol of WebSocket that was not offered"
        return ""


def _upgrade(why: str) -> HttpRefusal:
    headers = b"Upgrade: websocket\r\nSec-WebSocket-Version: %b\r\n" % _VERSION
    return HttpRefusal(HTTPStatus.UPGRADE_REQUIRED, why, headers)


def _fields(head: bytes) -> Fields:
    fields: dict[bytes, list[bytes]] = {}
    for line in head.split(b"\r\n")[1:-2]:
        name, _, value = line.partition(b":")
        fields.setdefault(name.lower(), []).append(value.strip(b" \t"))
    return fields


def _listed(fields: Fields, name: bytes) -> list[bytes]:
    """Return the comma-separated items in all values of this name."""
    return [
        part for value in fields.get(name, ()) for each in value.split(b",") if (part := each.strip(b" \t"))
    ]


def _switches(fields: Fields) -> bool:
    upgrade, connection = _listed(fields, b"upgrade"), _listed(fields, b"connection")
    return b"websocket" in map(bytes.lower, upgrade) and b"upgrade" in map(bytes.lower, connection)


def _is_key(value: bytes) -> bool:
    try:
        return len(b64decode(value, validate=True)) == _KEY
    except ValueError:
        return False
