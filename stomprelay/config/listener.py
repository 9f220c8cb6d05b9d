"""`[listener.NAME]`: where clients connect, how they are treated; `[[route]]`: which upstream serves a destination."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from stomprelay.auth.settings import AuthSettings
from stomprelay.config import endpoint, rates
from stomprelay.config.rules import read_default
from stomprelay.config.table import ConfigError, Table
from stomprelay.config.values import (
    BEATS,
    LIMITS,
    choice,
    count,
    flag,
    limits,
    reference,
    references,
    seconds,
    seconds_or_none,
    shown,
    terms,
    text,
    versions,
)
from stomprelay.relay.model.listener import ANY_ORIGIN, Listener, LossPolicy, Match, Route, ServerTLS, Web
from stomprelay.relay.model.upstream import Upstream

ENDPOINT: Final = "tcp:61613:interface=127.0.0.1"
"""Where the relay listens by default."""

KEYS: Final = (
    "endpoint",
    "upstream",
    "versions",
    *BEATS,
    "loss",
    "require_utf8",
    "trace",
    "linger",
    "limits",
    "tls",
    "web",
    "auth",
    "rules_default",
)
LIMIT_KEYS: Final = (
    *LIMITS,
    "connect_timeout",
    "before_connect",
    "unacknowledged",
    "clients",
    "clients_per_address",
    "transactions",
    "subscriptions",
    "kept",
    "clients_per_user",
    *rates.KEYS,
)
WEB_KEYS: Final = ("path", "origins", "ping_interval", "message", "compression")
TLS_KEYS: Final = ("certificate", "key", "client_ca", "require_client_certificate")

_LOSSES: Final = {loss.value: loss for loss in LossPolicy}


def server_endpoint(value: object) -> str:
    """Return a Twisted server endpoint string, checked as far as `endpoint.server` can without Twisted. Raises
    `ValueError`.
    """
    string = text(value)
    endpoint.server(string)
    return string


_NO_AUTHS: Final[Mapping[str, AuthSettings]] = {}


def read(
    table: Table,
    upstreams: Mapping[str, Upstream],
    fallback: Upstream | None,
    auths: Mapping[str, AuthSettings] = _NO_AUTHS,
) -> Listener:
    """Return the listener in a table. `upstreams` are those of the file, by name; `fallback` is for a listener
    that names none; `auths` are what it may have as its `auth`, by name. Raises `ConfigError`.
    """
    table.only(KEYS)
    bounds = table.table("limits")
    bounds.only((*LIMIT_KEYS, *rates.TABLES))
    place = table.get("endpoint", server_endpoint, ENDPOINT)
    upstream = table.get("upstream", reference("upstream", upstreams), fallback)
    if upstream is None:
        raise table.error("upstream", f"is missing; there are {', '.join(upstreams)}")
    auth = table.get("auth", reference("auth", auths))
    return Listener(
        table.name,
        place,
        upstream,
        versions=table.get("versions", versions, Listener.versions),
        heart_beat=terms(table, Listener.heart_beat),
        limits=limits(bounds, Listener.limits),
        connect_timeout=bounds.get("connect_timeout", seconds, Listener.connect_timeout),
        before_connect=bounds.get("before_connect", count, Listener.before_connect),
        unacknowledged=bounds.get("unacknowledged", count, Listener.unacknowledged),
        transactions=bounds.get("transactions", count, Listener.transactions),
        subscriptions=bounds.get("subscriptions", count, Listener.subscriptions),
        kept=bounds.get("kept", count),
        linger=table.get("linger", seconds_or_none, Listener.linger),
        loss=table.get("loss", choice(_LOSSES), Listener.loss),
        require_utf8=table.get("require_utf8", flag, Listener.require_utf8),
        trace=table.get("trace", flag, Listener.trace),
        tls=read_tls(table.table("tls"), place) if "tls" in table else None,
        web=_web(table),
        auth=None if auth is None else auth.name,
        renew=None if auth is None or auth.renew is None else auth.renew.encode(),
        rules=read_default(table),
        clients=bounds.get("clients", count),
        clients_per_address=rates.per_address(bounds, place),
        clients_per_user=rates.per_user(bounds, identified=auth is not None),
        rates=rates.read(bounds, place, identified=auth is not None),
    )


def read_tls(table: Table, place: str) -> ServerTLS:
    """Return the TLS in a table, for the endpoint `place`. Raises `ConfigError`."""
    table.only(TLS_KEYS)
    if endpoint.server(place).own_tls:
        raise table.error(None, "the endpoint brings TLS of its own; with this table it has to be a tcp: one")
    certificate, key = table.path("certificate", text), table.path("key", text)
    if certificate is None or key is None:
        raise table.error("certificate" if certificate is None else "key", "is missing")
    client_ca = table.path("client_ca", text)
    required = table.get("require_client_certificate", flag, False)
    if required and client_ca is None:
        raise table.error("require_client_certificate", "needs client_ca, by which they are verified")
    return ServerTLS(certificate, key, client_ca, required)


_PATH: Final = re.compile(r"/[!$&-;=@-Z_a-z~%]*")
_ORIGIN: Final = re.compile(r"[a-z][a-z0-9+.-]*://(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(:[0-9]{1,5})?")


def _web(table: Table) -> Web | None:
    if isinstance(table.get("web", _flag_or_table, False), bool):
        return Web() if table.get("web", flag, False) else None
    web = table.table("web")
    web.only(WEB_KEYS)
    return Web(
        web.get("path", _path, Web.path),
        web.get("origins", _origins, Web.origins),
        web.get("ping_interval", seconds_or_none, Web.ping_interval),
        web.get("message", count, Web.message),
        web.get("compression", flag, Web.compression),
    )


def _flag_or_table(value: object) -> object:
    if not isinstance(value, bool | dict):
        raise ValueError("must be true or false, or a table")
    return value


def _path(value: object) -> str:
    if not isinstance(value, str) or not _PATH.fullmatch(value):
        raise ValueError(f"must be a path as in a URL, such as /ws, not {shown(value)}")
    return value


def _origins(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(
        isinstance(each, str) and (each == ANY_ORIGIN or _ORIGIN.fullmatch(each)) for each in value
    ):
        raise ValueError(
            "must be a list of origins as browsers send them, such as https://app.example.net, in lower case and "
            f"without a path, or {ANY_ORIGIN} for all, not {shown(value)}"
        )
    return tuple(value)


# Routes

PATTERNS: Final = tuple(match.value for match in Match)
ROUTE_KEYS: Final = (*PATTERNS, "upstream", "listener")


@dataclass(frozen=True)
class RouteRule:
    """A route and the names of the listeners that it applies to. `table` is where it is written."""

    route: Route
    listeners: frozenset[str]
    table: Table

    @property
    def key(self) -> str:
        """The key in its table that holds its pattern."""
        return self.route.match.value

    def repeated(self, earlier: "RouteRule") -> ConfigError:
        """Return the error for a route that is never reached, because an earlier one has the same pattern."""
        return self.table.error(self.key, f"is the same as in {earlier.table.place}, which comes before it")


def read_route(
    table: Table, upstreams: Mapping[str, Upstream], listeners: Mapping[str, Listener]
) -> RouteRule:
    """Return the route in a table. Both mappings are what the file has, by name. Raises `ConfigError`."""
    table.only(ROUTE_KEYS)
    patterns = [key for key in PATTERNS if key in table]
    if len(patterns) != 1:
        if patterns:
            raise table.error(patterns[1], f"excludes {patterns[0]}: a route has one pattern")
        raise table.error(None, f"needs a pattern: one of {', '.join(PATTERNS)}")
    pattern = table.required(patterns[0], text)
    upstream = table.required("upstream", reference("upstream", upstreams))
    names = {name: name for name in listeners}
    held = frozenset(table.get("listener", references("listener", names), tuple(names)))
    return RouteRule(Route(Match(patterns[0]), pattern, upstream), held, table)


def routed(listeners: Sequence[Listener], rules: Sequence[RouteRule]) -> tuple[Listener, ...]:
    """Return the listeners with their routes, in the order of the rules."""
    return tuple(replace(each, routes=_routes(each, rules)) for each in listeners)


def _routes(listener: Listener, rules: Sequence[RouteRule]) -> tuple[Route, ...]:
    own = [rule for rule in rules if listener.name in rule.listeners]
    first: dict[tuple[Match, str], RouteRule] = {}
    for rule in own:
        earlier = first.setdefault((rule.route.match, rule.route.pattern), rule)
        if earlier is not rule:
            raise rule.repeated(earlier)
    return tuple(rule.route for rule in own)
