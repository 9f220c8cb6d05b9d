"""The forms of a broker's address in a configuration, and Twisted's endpoint strings. They are parsed without Twisted,
so that mistakes are found while the configuration is read.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from typing import Final, NamedTuple

from stomprelay.config.table import nearest
from stomprelay.config.values import shown
from stomprelay.config.values import text as read_text
from stomprelay.relay.model.group import Broker

MEMORY: Final = "memory:"
DEFAULT_PORT: Final = 61613

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
    """Return the broker at an address in one of `_FORMS`. Raises `ValueError`, which shows no address with a user."""
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
    """Return the text if it is a host name or an IP address, for certificates and resolvers. Raises `ValueError`."""
    if not _HOST.fullmatch(text):
        raise ValueError("must name a host, such as broker.example.net")
    if not text.isascii():
        try:
            text.encode("idna")
        except UnicodeError:
            raise ValueError("must name a host; this is no international name") from None
    return text


class Authority(NamedTuple):
    """A host (in lower case, or a short IP address) and its port, or None, as in a URL or a `Host` header."""

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
        # Without this argument, Twisted would not verify for which host the certificate is.
        return Broker(text, f"{text}:hostname={quoted(host)}", host, weight=weight)
    return Broker(text, text, host, weight=weight)


def host_and_port(broker: Broker) -> str | None:
    """Return a broker's `host:port`, or `[host]:port` for IPv6. Return None if its endpoint has no host or no port."""
    try:
        arguments = client(broker.endpoint).arguments
    except ValueError:
        return None
    host, port = arguments.get("host"), arguments.get("port")
    if not host or not port:
        return None
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def hosts(value: object) -> tuple[Authority, ...]:
    """Return the hosts in a list. A host may have a port. Raises `ValueError` for any other value."""
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
    """Return a certificate's name, after checking that it is an IP address or a host. Raises `ValueError`."""
    name = read_text(value)
    try:
        ip_address(name)
    except ValueError:
        return host_name(name)
    return name


# Twisted's endpoint strings

PORTS: Final = 65535

_ANY_URI: Final = re.compile(r"([A-Za-z][\w+.-]*)://(\[[0-9A-Fa-f:.]*\]|[^\s:/?#\[\]]*)(?::([0-9]{1,5}))?")
_ANYWHERE: Final = frozenset({"", "*", "0.0.0.0", "::"})
_COLON: Final = r"a colon within an argument is written \:"
_EQUALS: Final = r"an equals sign within an argument is written \="

_SERVERS: Final[Mapping[str, tuple[str, ...]]] = {
    "tcp": ("port", "interface", "backlog"),
    "tcp6": ("port", "backlog", "interface"),
    "ssl": (
        "port",
        "privateKey",
        "certKey",
        "sslmethod",
        "interface",
        "backlog",
        "extraCertChain",
        "dhParameters",
    ),
    "tls": ("path", "port", "backlog", "interface"),
    "unix": ("address", "mode", "backlog", "lockfile"),
    "systemd": ("domain", "index", "name"),
}
CLIENTS: Final[Mapping[str, tuple[str, ...]]] = {
    "tcp": ("host", "port", "timeout", "bindAddress"),
    "ssl": ("host", "port", "timeout", "bindAddress", "hostname", "certKey", "privateKey", "caCertsDir"),
    "tls": (
        "host",
        "port",
        "timeout",
        "bindAddress",
        "certificate",
        "privateKey",
        "trustRoots",
        "endpoint",
    ),
    "unix": ("path", "timeout", "lockfile"),
}
_NEEDED: Final = ("port", "host", "address", "path", "domain")
_INTERNET: Final = frozenset({"tcp", "tcp6", "ssl", "tls"})


@dataclass(frozen=True)
class Endpoint:
    """The parts of an endpoint string. `arguments`: the values by name. If the kind is unknown, values without a name
    are under their numbers "0", "1" and so on.
    """

    kind: str
    arguments: Mapping[str, str]

    @property
    def own_tls(self) -> bool:
        """Whether the endpoint string itself asks for TLS: `ssl:` or `tls:`."""
        return self.kind in ("ssl", "tls")


def quoted(argument: str) -> str:
    """Return an argument with the escapes that it needs in an endpoint string."""
    return argument.replace("\\", "\\\\").replace(":", "\\:")


def port(value: str, lowest: int = 1) -> int:
    """Return the number of a port. It must be from `lowest` to 65535, otherwise `ValueError` is raised."""
    if not (value.isascii() and value.isdigit() and len(value) <= 5 and lowest <= int(value) <= PORTS):
        raise ValueError(f'the port must be a number from {lowest} to {PORTS}, not "{value}"')
    return int(value)


def server(text: str) -> Endpoint:
    """Return the parts of a server endpoint string. Raises `ValueError`."""
    if text.isdigit():
        raise ValueError(f'must be an endpoint such as "tcp:{text}", not a port alone')
    uri = _ANY_URI.match(text)
    if uri is not None and uri[1].lower() != "unix":
        host = uri[2].strip("[]")
        kind = "tcp6" if ":" in host else "tcp"
        interface = "" if host in _ANYWHERE else f":interface={quoted(host)}"
        instead = f"{kind}:{uri[3] or DEFAULT_PORT}{interface}"
        raise ValueError(f'must be an endpoint such as "{instead}", not a URI')
    if text.lower().startswith("haproxy:"):
        text = text.partition(":")[2]
        if text.lower().startswith("haproxy:"):
            raise ValueError("must have haproxy: once")
        return server(text)
    endpoint = _read(text, _SERVERS)
    arguments = endpoint.arguments
    if ":" not in text and endpoint.kind not in {*_SERVERS, "stdio"}:
        raise ValueError(f'must be an endpoint such as "tcp:61613", not "{text}"')
    if endpoint.kind not in _SERVERS and len(arguments) == 1 and arguments.get("0", "").isdigit():
        raise ValueError(f'must be an endpoint such as "tcp:{arguments["0"]}:interface={endpoint.kind}"')
    if endpoint.kind in _SERVERS and "port" in arguments:
        port(arguments["port"], lowest=0)
    if endpoint.kind == "systemd" and ("index" in arguments) == ("name" in arguments):
        raise ValueError("a systemd endpoint needs either index or name")
    return endpoint


def server_endpoint(value: object) -> str:
    """Return a Twisted server endpoint string after checking it without Twisted. Raises `ValueError`."""
    string = read_text(value)
    server(string)
    return string


def exposed(text: str) -> bool:
    """Whether other machines may reach a server endpoint: True for all but loopback interfaces and UNIX sockets."""
    endpoint = server(text)
    if text.lower().startswith("haproxy:"):
        return True
    if endpoint.kind not in _INTERNET:
        own = endpoint.arguments.get("domain", "").lower() if endpoint.kind == "systemd" else endpoint.kind
        return own != "unix"
    interface = endpoint.arguments.get("interface", "")
    try:
        return not ip_address(interface).is_loopback
    except ValueError:
        return interface.lower() != "localhost"


def client(text: str) -> Endpoint:
    """Return the parts of a client endpoint string. Raises `ValueError` for an invalid string."""
    endpoint = _read(text, CLIENTS)
    if endpoint.kind in CLIENTS and "port" in endpoint.arguments:
        port(endpoint.arguments["port"])
    return endpoint


def _read(text: str, kinds: Mapping[str, tuple[str, ...]]) -> Endpoint:
    (_, kind), *parts = _parts(text)
    kind = kind.lower()
    known = kinds.get(kind)
    arguments: dict[str, str] = {}
    positional = [value for name, value in parts if name is None]
    named = {name: value for name, value in parts if name is not None}
    if known is None:
        return Endpoint(kind, named | {str(place): value for place, value in enumerate(positional)})
    free = [name for name in known if name not in named]
    if len(positional) > len(free):
        raise ValueError(f"has more arguments than a {kind} endpoint takes; {_COLON}")
    for name in named:
        if name not in known:
            advice = nearest(name, known) if name.isidentifier() else _EQUALS
            raise ValueError(f'a {kind} endpoint has no argument "{name}"; {advice}')
    arguments = dict(zip(free, positional, strict=False)) | named
    for name in _NEEDED:
        optional = name == "port" and kind == "tls" and kinds is _SERVERS
        if name in known and not optional and not arguments.get(name):
            raise ValueError(f"a {kind} endpoint needs its {name}")
    return Endpoint(kind, arguments)


def _parts(text: str) -> list[tuple[str | None, str]]:
    """Return the parts between colons as pairs of name (or None) and value. A backslash escapes the next character."""
    parts: list[tuple[str | None, str]] = []
    name: str | None = None
    value = ""
    characters = iter(text)
    for character in characters:
        if character == ":":
            parts.append((name, value))
            name, value = None, ""
        elif character == "=" and name is None:
            name, value = value, ""
        elif character == "\\":
            try:
                value += next(characters)
            except StopIteration:
                raise ValueError("ends in a backslash") from None
        else:
            value += character
    return [*parts, (name, value)]
