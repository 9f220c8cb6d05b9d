"""The host names by which the endpoints `admin` and `metrics` may be asked, the web pages that may send a POST, and the
token of `admin`.

A page of another site can make its own host name point to this machine after the page was loaded. The browser then
takes the admin endpoint for that site and lets the page read everything (DNS rebinding). But the browser sends that
name in `Host`, and it is not one of the relay's names.

A page of another site can also send a request without reading the response, and the browser adds the password that the
user typed for the relay, or the certificate (CSRF). But the browser names the page's site: in `Origin` with every POST,
and in `Sec-Fetch-Site` for requests by TLS or to this machine. No page can change either header. A client that sends
neither is no browser.
"""

from base64 import b64decode
from collections.abc import Iterable
from hashlib import sha256
from hmac import compare_digest
from ipaddress import ip_address
from typing import Final

from twisted.internet.address import IPv4Address, IPv6Address
from twisted.web.http_headers import Headers

from stomprelay.config.address import Authority, authority

LOCAL: Final = "localhost"
_PLAIN: Final = 80
_TLS: Final = 443


class Hosts:
    """The host names of this relay: those of `admin_hosts` (with their port, or with every port), localhost, loopback
    addresses, and the address of the connection with its port.
    """

    def __init__(self, listed: Iterable[Authority]) -> None:
        self._listed = frozenset(listed)

    def known(self, header: bytes, local: object, *, secure: bool) -> bool:
        """Whether the value of a `Host` header is allowed. `local` is the relay's address of the connection."""
        try:
            asked = authority(header.decode("ascii"))
        except ValueError:
            return False
        if asked in self._listed or Authority(asked.host) in self._listed:
            return True
        if not isinstance(local, IPv4Address | IPv6Address):
            return _loopback(asked.host)
        port = asked.port or (_TLS if secure else _PLAIN)
        if port != local.port:
            return False
        return _loopback(asked.host) or asked.host == authority(_bracketed(local.host)).host


def own_page(headers: Headers, *, secure: bool) -> bool:
    """Whether a POST comes from the relay's own page, or from no page. `secure`: it came by TLS; a proxy may have
    removed TLS, then the browser must say that page and relay are one site.
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


def _bracketed(address: str) -> str:
    """Return the address of a socket as a URL has it, without the zone of an IPv6 address."""
    address = address.partition("%")[0]
    return f"[{address}]" if ":" in address else address


# The token


class Token:
    """The token that a client has to send. Only its digest is kept."""

    def __init__(self, token: bytes) -> None:
        self._digest = sha256(token).digest()

    def said(self, header: bytes) -> bool:
        """Whether an `Authorization` header has the token, as bearer token or password. Takes the same time for any
        value.
        """
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
