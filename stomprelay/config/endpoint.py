"""Parses Twisted's endpoint strings without Twisted, to find invalid ones while the configuration is read."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final

from stomprelay.config.table import nearest
from stomprelay.config.values import text as read_text

PORTS: Final = 65535
DEFAULT_PORT: Final = 61613

_URI: Final = re.compile(r"([A-Za-z][\w+.-]*)://(\[[0-9A-Fa-f:.]*\]|[^\s:/?#\[\]]*)(?::([0-9]{1,5}))?")
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
_OPTIONAL_PORT: Final = "tls"
_INTERNET: Final = frozenset({"tcp", "tcp6", "ssl", "tls"})
_OWN_TLS: Final = frozenset({"ssl", "tls"})


@dataclass(frozen=True)
class Endpoint:
    """The parts of an endpoint string. `arguments` have names if the kind is a known one."""

    kind: str
    arguments: Mapping[str, str]

    @property
    def own_tls(self) -> bool:
        """Whether the endpoint brings TLS of its own."""
        return self.kind in _OWN_TLS


def quoted(argument: str) -> str:
    """Return an argument escaped for an endpoint string."""
    return argument.replace("\\", "\\\\").replace(":", "\\:")


def port(value: str, lowest: int = 1) -> int:
    """Return the number of a port. Raises `ValueError` for anything but a number from `lowest` to 65535."""
    if not (value.isascii() and value.isdigit() and len(value) <= 5 and lowest <= int(value) <= PORTS):
        raise ValueError(f'the port must be a number from {lowest} to {PORTS}, not "{value}"')
    return int(value)


def server(text: str) -> Endpoint:
    """Return the parts of a server endpoint string. Raises `ValueError`."""
    if text.isdigit():
        raise ValueError(f'must be an endpoint such as "tcp:{text}", not a port alone')
    uri = _URI.match(text)
    if uri is not None and uri[1].lower() != "unix":
        raise ValueError(f'must be an endpoint such as "{_instead_of(uri)}", not a URI')
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


def _instead_of(uri: re.Match[str]) -> str:
    host = uri[2].strip("[]")
    kind = "tcp6" if ":" in host else "tcp"
    interface = "" if host in _ANYWHERE else f":interface={quoted(host)}"
    return f"{kind}:{uri[3] or DEFAULT_PORT}{interface}"


def server_endpoint(value: object) -> str:
    """Return a Twisted server endpoint string, checked without Twisted. Raises `ValueError`."""
    string = read_text(value)
    server(string)
    return string


def exposed(text: str) -> bool:
    """Whether other machines may reach a server endpoint: all but loopback and UNIX sockets."""
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
    """Return the parts of a client endpoint string. Raises `ValueError` for one that is not valid."""
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
        optional = name == "port" and kind == _OPTIONAL_PORT and kinds is _SERVERS
        if name in known and not optional and not arguments.get(name):
            raise ValueError(f"a {kind} endpoint needs its {name}")
    return Endpoint(kind, arguments)


def _parts(text: str) -> list[tuple[str | None, str]]:
    """Return the parts between colons, as (name or None, value). A backslash escapes the next character."""
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
