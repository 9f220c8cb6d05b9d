"""Where a broker is, in each way in which an upstream may be named."""

import re
from ipaddress import IPv6Address, ip_address
from typing import Final, NamedTuple

from stomprelay.config.endpoint import DEFAULT_PORT, client, port, quoted
from stomprelay.config.values import shown
from stomprelay.config.values import text as read_text
from stomprelay.relay.model.group import Broker

MEMORY: Final = "memory:"

_SCHEMES: Final = {
    "tcp": (DEFAULT_PORT, False),
    "stomp": (DEFAULT_PORT, False),
    "ssl": (61614, True),
    "stomp+ssl": (61614, True),
    "ws": (80, False),
    "wss": (443, True),
}
"""URI scheme -> its default port, and whether TLS is used."""

_WEBSOCKET: Final = frozenset({"ws", "wss"})
_NOT_ENDPOINTS: Final = frozenset({"memory", "stomp", "stomp+ssl", *_WEBSOCKET})
_SEVERAL: Final = re.compile(r"(failover|fanout):", re.IGNORECASE)
_URI: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
_KIND: Final = re.compile(r"\w[\w+.-]*")
_FORMS: Final = (
    "tcp://host:port, ssl://host:port, ws://host:port/path, wss://host:port/path, memory: or a Twisted client"
    " endpoint"
)
_NAME: Final = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*")
_PATH: Final = re.compile(r"/[A-Za-z0-9._~!$&'*+;=:%/-]*")
_HOST: Final = re.compile(r"[^\s\x00-\x1f\x7f:/?#\[\]%]+")


def broker(text: str, weight: int = 1) -> Broker:
    """Return the broker at an address in one of `_FORMS`. Raises `ValueError`; one with a user in it is not shown."""
    if text == MEMORY:
        return Broker(text, text, weight=weight)
    if several := _SEVERAL.match(text):
        raise ValueError(f"must be one broker's address ({_FORMS}), not {several[1]}:(...)")
    if "@" in text and not text.startswith("unix:"):
        raise ValueError("must not hold a user or a password: that is what login and passcode_file are for")
    uri = _URI.fullmatch(text)
    return _by_endpoint(text, weight) if uri is None else _by_uri(text, uri[1], uri[2], weight)


def _by_uri(text: str, scheme: str, rest: str, weight: int) -> Broker:
    if scheme.lower() not in _SCHEMES:
        raise ValueError(f"must be {_FORMS}; {scheme}:// is none of them")
    default, tls = _SCHEMES[scheme.lower()]
    authority = re.split("[/?#]", rest, maxsplit=1)[0]
    path = None
    if scheme.lower() in _WEBSOCKET:
        path = rest[len(authority) :] or "/"
        if not _PATH.fullmatch(path):
            raise ValueError("must end with a path, such as /ws: letters, digits, and no options behind it")
    elif rest not in (authority, authority + "/"):
        raise ValueError("must end with the port: a broker's address takes no path and no options")
    host, number = _host_and_port(authority)
    endpoint = f"tcp:host={quoted(host)}:port={default if number is None else port(number)}"
    return Broker(text, endpoint, host, tls=tls, path=path, weight=weight)


def _host_and_port(authority: str) -> tuple[str, str | None]:
    if authority.startswith("["):
        host, bracket, rest = authority[1:].partition("]")
        try:
            IPv6Address(host)
        except ValueError:
            raise ValueError("must have an IPv6 address between its brackets") from None
        if not bracket or (rest and not rest.startswith(":")):
            raise ValueError("must have nothing but a port after the brackets")
        return host, rest[1:] if rest else None
    host, colon, number = authority.partition(":")
    if ":" in number:
        raise ValueError("must have brackets around an IPv6 address, as in tcp://[::1]:61613")
    return host_name(host), number if colon else None


def host_name(text: str) -> str:
    """Return a host name or an IP address, as certificates and resolvers need it. Raises `ValueError`."""
    if not _HOST.fullmatch(text):
        raise ValueError("must name a host, such as broker.example.net")
    if not text.isascii():
        try:
            text.encode("idna")
        except UnicodeError:
            raise ValueError("must name a host; this is no international name") from None
    return text


class Authority(NamedTuple):
    """The host, in small letters or as a short IP address, and perhaps the port in a URL or a `Host` header."""

    host: str
    port: int | None = None

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port is None else f"{host}:{self.port}"


def authority(text: str) -> Authority:
    """Return the parts of `host`, `host:port`, `[::1]` or `[::1]:port`. Raises `ValueError` for any other text."""
    host, number = _host_and_port(text)
    host = host.lower().removesuffix(".")
    try:
        found = ip_address(host)
        host = str(getattr(found, "ipv4_mapped", None) or found)
    except ValueError:
        if not _NAME.fullmatch(host):
            raise ValueError("must name a host, such as relay.example.net") from None
    return Authority(host, None if number is None else port(number))


def _by_endpoint(text: str, weight: int) -> Broker:
    kind, colon, rest = text.partition(":")
    if not colon or rest.isdigit():
        raise ValueError(f"must be {_FORMS}; a host and a port are tcp://host:port")
    if kind.lower() in _NOT_ENDPOINTS or not _KIND.fullmatch(kind):
        raise ValueError(f"must be {_FORMS}")
    endpoint = client(text)
    host = endpoint.arguments.get("host", "")
    if endpoint.kind == "ssl" and "hostname" not in endpoint.arguments:
        # Without it, Twisted would not verify whose certificate it is shown.
        return Broker(text, f"{text}:hostname={quoted(host)}", host, weight=weight)
    return Broker(text, text, host, weight=weight)


def host_and_port(broker: Broker) -> str | None:
    """Return a broker's `host:port`, `[host]:port` for IPv6; None for an endpoint without host and port."""
    try:
        arguments = client(broker.endpoint).arguments
    except ValueError:
        return None
    host, port = arguments.get("host"), arguments.get("port")
    if not host or not port:
        return None
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def hosts(value: object) -> tuple[Authority, ...]:
    """Return the names in a list of them. Raises `ValueError` for anything but hosts, each perhaps with a port."""
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise ValueError(f'must be a list of hosts such as ["relay.example.net"], not {shown(value)}')
    found = []
    for each in value:
        try:
            found.append(authority(each))
        except ValueError as error:
            raise ValueError(f"{shown(each)} {error}") from None
    return tuple(found)


def certificate_name(value: object) -> str:
    """Return the name that a certificate must be for: an IP address or a host. Raises `ValueError`."""
    name = read_text(value)
    try:
        ip_address(name)
    except ValueError:
        return host_name(name)
    return name
