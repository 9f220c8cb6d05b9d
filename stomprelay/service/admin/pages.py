"""Answers requests to the admin endpoints: finds the page or the action of a path, and checks whether it is allowed.

The owner of another site can let the site's host name point to this machine after a browser has loaded a page. The
browser then lets the page read everything from the admin endpoint (DNS rebinding). But the browser sends the site's
host name in `Host`, and the relay refuses requests for this name.

A page of another site can also send a request without reading the response, and the browser adds the password that the
user typed for the relay, or the certificate (CSRF). But the browser names the page's site: in `Origin` with every POST,
and in `Sec-Fetch-Site` for requests by TLS or to this machine. No page can change either header. A client that sends
neither header is no browser.
"""

import json
from base64 import b64decode
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from hmac import compare_digest
from importlib import resources
from ipaddress import ip_address
from typing import Any, Final, NamedTuple

from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure
from twisted.web.http_headers import Headers
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET

from stomprelay.config.address import Authority, authority
from stomprelay.service.admin.server import LONGEST_BODY
from stomprelay.service.admin.sessions import BadRequest, Unavailable
from stomprelay.service.connection.runtime import Repeats
from stomprelay.service.log import logger

_log: Final = logger()

FILES: Final = {
    b"/": ("dashboard.html", "text/html; charset=utf-8"),
    b"/dashboard.css": ("dashboard.css", "text/css; charset=utf-8"),
    b"/drawing.js": ("drawing.js", "text/javascript; charset=utf-8"),
    b"/dashboard.js": ("dashboard.js", "text/javascript; charset=utf-8"),
    b"/icon.svg": ("icon.svg", "image/svg+xml"),
}

PROBES: Final = frozenset({b"/livez", b"/readyz", b"/healthz"})
"""The pages that need no token: machines without a token read them, and they reveal little."""
JSON: Final = "application/json"
LOCAL: Final = "localhost"
SHARED: Final = 0.5
"""Seconds for which one copy of a shared page is sent to everybody."""
_GUARDS: Final = {
    b"x-content-type-options": b"nosniff",
    b"x-frame-options": b"DENY",
    b"content-security-policy": b"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    b"img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    b"require-trusted-types-for 'script'; trusted-types 'none'",
    b"cross-origin-resource-policy": b"same-origin",
    b"referrer-policy": b"no-referrer",
}
"""Headers of every response: no page of another site may show, run or embed a response."""


class Response(NamedTuple):
    """The response to a request."""

    text: str
    kind: str = "text/plain; charset=utf-8"
    status: int = 200


class Asked(NamedTuple):
    """What a page gets of a GET: the `arguments` in the URL, and the value of the header `Accept`."""

    arguments: Mapping[bytes, list[bytes]] = {}
    accept: str = ""


Answer = Response | Deferred[Response]
Page = Callable[[Asked], Answer]
Action = Callable[[bytes], Answer]
"""Carries out the body of a POST, and returns the response."""


def file(name: str, kind: str) -> Page:
    """Return a page whose response is the file of this name in the folder `page`, with this content type."""
    place = resources.files("stomprelay.service.admin").joinpath("page", name)
    return lambda _: Response(place.read_text(encoding="utf-8"), kind)


def refusal(status: int, reason: str) -> Response:
    """Return the JSON response to a refused POST, with this status and reason."""
    return Response(json.dumps({"error": reason}) + "\n", JSON, status)


Upgrade = Callable[[Any], Response | None]
"""Takes over the connection of a GET and returns None, or returns a refusal. It checks a ticket, not the token."""


class SharedPage:
    """A page that is made once for all requests within a short time; `seconds` is the clock."""

    def __init__(self, page: Page, seconds: Callable[[], float]) -> None:
        self._page = page
        self._seconds = seconds
        self._made: Response | None = None
        self._until = 0.0
        self._waiting: list[Deferred[Response]] | None = None

    def __call__(self, asked: Asked) -> Answer:
        """Return the copy of the page that is less than `SHARED` seconds old; make a new one if there is none."""
        if self._waiting is not None:
            self._waiting.append(Deferred())
            return self._waiting[-1]
        if self._made is not None and self._seconds() < self._until:
            return self._made
        found = self._page(asked)
        if isinstance(found, Response):
            return self._keep(found)
        self._waiting = []
        return found.addCallback(self._keep).addBoth(self._tell)

    def _keep(self, made: Response) -> Response:
        self._made, self._until = made, self._seconds() + SHARED
        return made

    def _tell(self, made: Response | Failure) -> Response | Failure:
        waiting, self._waiting = self._waiting or [], None
        for each in waiting:
            each.callback(made)
        return made


class Hosts:
    """The host names of this relay: localhost, loopback addresses, the address of the connection with its port, and the
    names in `admin_hosts`. A name in `admin_hosts` without a port is allowed with every port.
    """

    def __init__(self, listed: Iterable[Authority]) -> None:
        self._listed = frozenset(listed)

    def known(self, header: bytes, local: object, *, secure: bool) -> bool:
        """Whether the value of a `Host` header is allowed. `local` is the relay's own address on this connection."""
        try:
            asked = authority(header.decode("ascii"))
        except ValueError:
            return False
        if asked in self._listed or Authority(asked.host) in self._listed:
            return True
        if not isinstance(local, IPv4Address | IPv6Address):
            return _loopback(asked.host)
        port = asked.port or (443 if secure else 80)
        if port != local.port:
            return False
        own = local.host.partition("%")[0]  # without the zone of an IPv6 address
        return _loopback(asked.host) or asked.host == authority(f"[{own}]" if ":" in own else own).host


def own_page(headers: Headers, *, secure: bool) -> bool:
    """Return whether a POST comes from the relay's own page, or from no page. `secure`: the POST came by TLS. Without
    TLS, a page with https is also accepted if the browser says that page and relay are one site, because a proxy may
    have removed TLS.
    """
    hosts, origins, sites = (
        headers.getRawHeaders(name, []) for name in (b"host", b"origin", b"sec-fetch-site")
    )
    if not origins and not sites:
        return True
    if len(origins) != 1 or len(hosts) != 1 or sites not in ([], [b"same-origin"]):
        return False
    schemes = (b"https",) if secure else (b"http", b"https") if sites else (b"http",)
    return origins[0] in [b"%b://%b" % (scheme, hosts[0]) for scheme in schemes]


def _loopback(host: str) -> bool:
    if host == LOCAL:
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


class Token:
    """The token that a client has to send. Only a digest of the token is kept."""

    def __init__(self, token: bytes) -> None:
        self._digest = sha256(token).digest()

    def said(self, header: bytes) -> bool:
        """Whether an `Authorization` header has the token, as bearer or password. Each value takes the same time."""
        scheme, _, said = header.strip().partition(b" ")
        said = said.strip()
        if scheme.lower() == b"basic":
            try:
                _, _, said = b64decode(said, validate=True).partition(b":")
            except ValueError:
                return False
        elif scheme.lower() != b"bearer":
            return False
        return compare_digest(sha256(said).digest(), self._digest)


@dataclass(eq=False, repr=False)
class AdminPages(Resource):
    """All pages by path; `find` returns a path's action. All but `PROBES` need `token`. `repeats` limits the log."""

    isLeaf = True

    _pages: Mapping[bytes, Page]
    _find: Callable[[bytes], Action | None]
    _hosts: Hosts
    _token: Token | None
    _repeats: Repeats
    _upgrades: Mapping[bytes, Upgrade] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__init__()

    def render(self, request: Any) -> Any:
        """Respond to a request if its `Host` is allowed and the request has the token; otherwise refuse it."""
        try:
            response = self._response(request)
        except BadRequest as error:
            response = refusal(400, str(error))
        if response is None:
            return NOT_DONE_YET
        if isinstance(response, Response):
            return _begun(request, response)
        gone: list[Failure] = []
        request.notifyFinish().addErrback(gone.append)

        def respond(found: Response) -> None:
            if not gone:
                request.write(_begun(request, found))
                request.finish()

        _ = response.addErrback(_failed).addCallback(respond)
        return NOT_DONE_YET

    def _response(self, request: Any) -> Answer | None:
        page, action = self._pages.get(request.path), self._find(request.path)
        upgrade = self._upgrades.get(request.path)
        if upgrade is not None:
            return self._misdirected(request) or upgrade(request)
        refused = self._misdirected(request) or self._unauthorized(request)
        if refused is not None:
            return refused
        if page is not None and request.method in (b"GET", b"HEAD"):
            accept = request.getHeader(b"accept") or b""
            return page(Asked(request.args, accept.decode("latin-1")))
        if action is not None and request.method == b"POST":
            return _post(request, action)
        if page is not None:
            request.setHeader(b"allow", b"GET, HEAD")
            return Response("GET only\n", status=405)
        if action is not None:
            request.setHeader(b"allow", b"POST")
            return refusal(405, "POST only")
        return Response("not found\n", status=404)

    def _misdirected(self, request: Any) -> Response | None:
        """Return the refusal of a request with another host name, or None. With HTTP/1.0 `Host` may be missing."""
        named = request.requestHeaders.getRawHeaders(b"host", [])
        if len(named) != 1:
            fine = not named and request.clientproto == b"HTTP/1.0"
            return None if fine else Response("there must be one Host\n", status=400)
        if self._hosts.known(named[0], request.getHost(), secure=request.isSecure()):
            return None
        return Response("this host is not the relay's: name it in admin_hosts\n", status=421)

    def _unauthorized(self, request: Any) -> Response | None:
        """Return the refusal of a request without the token; None if the request has it or does not need it."""
        if self._token is None or request.path in PROBES:
            return None
        said = request.getHeader(b"authorization")
        if said is not None and self._token.said(said):
            return None
        if said is not None and self._repeats.passes("admin: wrong token"):
            address = getattr(request.getClientAddress(), "host", "a local socket")
            _log.warn("admin: a request from {address} sent a wrong token", address=address)
        request.setHeader(b"www-authenticate", b'Basic realm="stomprelay", charset="UTF-8"')
        return refusal(401, "this needs the token of admin_token_file, as a bearer token or as a password")


def _begun(request: Any, response: Response) -> bytes:
    body = response.text.encode("utf-8")
    request.setResponseCode(response.status, b"Misdirected Request" if response.status == 421 else None)
    request.setHeader(b"content-type", response.kind.encode("ascii"))
    request.setHeader(b"content-length", b"%d" % len(body))
    request.setHeader(b"cache-control", b"no-store")
    for name, value in _GUARDS.items():
        request.setHeader(name, value)
    return b"" if request.method == b"HEAD" else body


def _failed(failure: Failure) -> Response:
    if failure.check(Unavailable):
        return refusal(503, failure.getErrorMessage())
    _log.failure("a request could not be responded to", failure)
    return refusal(500, "the relay failed; see its log")


def _post(request: Any, action: Action) -> Answer:
    """Return the response of `action`, or a refusal if a web page of another site could have sent the request."""
    if not own_page(request.requestHeaders, secure=request.isSecure()):
        return refusal(403, "not from a web page but the relay's own")
    kind = request.getHeader(b"content-type") or b""
    if kind.partition(b";")[0].strip().lower() != JSON.encode("ascii"):
        return refusal(415, f"the content-type must be {JSON}")
    if request.excess:
        return refusal(413, f"the body must not be longer than {LONGEST_BODY} bytes")
    return action(request.content.read())
