"""By which names the endpoints `admin` and `metrics` may be asked, from which web pages orders are taken, and the token
that `admin` may ask for.

A page of another site can have its own name point to this machine once it is loaded, and the browser then takes the
admin endpoint for that site and lets the page read everything (DNS rebinding). But it says the name in `Host`, and
that is none of ours.

A page of another site can also send a request without reading the response, and the browser adds the password that
somebody typed for us, or the certificate (CSRF). But it says where the page is from: in `Origin` with every POST, and
in `Sec-Fetch-Site` where it asks by TLS or this machine. No page can change either. Who says neither is no browser.
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
    """The names that are ours. `listed` is the setting `admin_hosts`: a name with a port is ours with that one, a name
    without with every port. Ours are also localhost, every loopback address and the address that a connection came
    to, with the port that it came to; with every port where the endpoint has none (a UNIX socket).
    """

    def __init__(self, listed: Iterable[Authority]) -> None:
        self._listed = frozenset(listed)

    def known(self, header: bytes, local: object, *, secure: bool) -> bool:
        """Whether the value of a `Host` header is ours. `local` is the address that the connection came to, as Twisted
        has it; `secure` whether by TLS, which says what the port is where the header has none.
        """
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
    """Whether a POST with these headers, whose one `Host` is ours, comes from our own page, or from no page at all. By
    `secure` it came by TLS; a proxy in front may have taken that away, which is believed where the browser says that
    the page and we are one site.
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
    """The secret that who asks has to say. Nothing but its digest is kept."""

    def __init__(self, token: bytes) -> None:
        self._digest = sha256(token).digest()

    def said(self, header: bytes) -> bool:
        """Whether the value of an `Authorization` header says it: as a bearer token, or as the password of any user,
        which is how browsers ask for it. It takes the same time whatever is said.
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
