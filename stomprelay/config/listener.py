"""`[listener.NAME]`: where clients connect, and how they are treated. `[[route]]`: which upstream serves a
destination. `[move.NAME]`: to which upstream a destination moves. `[[rule]]`: what clients may do.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from stomprelay.auth.settings import AuthSettings
from stomprelay.config.address import server
from stomprelay.config.settings import SETTINGS
from stomprelay.config.table import ConfigTable, built
from stomprelay.config.values import reference, references
from stomprelay.relay.model.features import PRODUCTS
from stomprelay.relay.model.listener import Listener, Match, Route, ServerTLS, Web
from stomprelay.relay.model.move import Move
from stomprelay.relay.model.profile import PROFILES, naming
from stomprelay.relay.model.rules import USER, AccessRule, AccessRules
from stomprelay.relay.model.upstream import Upstream

ENDPOINT: Final = "tcp:61613:interface=127.0.0.1"


def read(
    table: ConfigTable,
    upstreams: Mapping[str, Upstream],
    fallback: Upstream | None,
    auths: Mapping[str, AuthSettings],
) -> Listener:
    """Return the listener in a table. `fallback` is used if the table names no upstream. Raises `ConfigError`."""
    found = table.read(SETTINGS["listener.NAME"])
    place = found.setdefault("endpoint", ENDPOINT)
    upstream = table.get("upstream", reference("upstream", upstreams), fallback)
    if upstream is None:
        raise table.error("upstream", f"is missing; there are {', '.join(upstreams)}")
    auth = table.get("auth", reference("auth", auths))
    if "limits" in table:
        found |= _limits(table.table("limits"), place, identified=auth is not None)
    if "rules" in found:
        found["rules"] = AccessRules((), found["rules"])
    return Listener(
        table.name,
        upstream=upstream,
        tls=read_tls(table.table("tls"), place) if "tls" in table else None,
        web=_web(table),
        auth=None if auth is None else auth.name,
        renew=None if auth is None or auth.renew is None else auth.renew.encode(),
        **built(Listener, found),
    )


def _limits(bounds: ConfigTable, place: str, *, identified: bool) -> dict[str, Any]:
    """Return the values of a listener's `limits`, by field. Raises `ConfigError`, also for a key that has no effect."""
    found = bounds.read(SETTINGS["listener.NAME.limits"])
    for key in ("clients_per_address", "address"):
        if key in bounds and place.lower().startswith("haproxy:"):
            raise bounds.error(key, "has no effect on a haproxy: endpoint, where all come from the proxy")
    for key in ("clients_per_user", "user"):
        if key in bounds and not identified:
            raise bounds.error(key, "has no effect without auth, by which it is known who a client is")
    _check_rates(bounds, found)
    for scope in ("address", "user"):
        if scope in bounds:
            rates = bounds.table(scope).read(SETTINGS[f"listener.NAME.limits.{scope}"])
            _check_rates(bounds.table(scope), rates)
            found |= rates
    return found


def _check_rates(table: ConfigTable, found: Iterable[str]) -> None:
    """Raise `ConfigError` if a key needs a rate that the table lacks. `found`: the fields that the table has."""
    given = {field.rpartition(".")[2] for field in found}
    if "burst" in table and given.isdisjoint(("connects", "frames", "bytes")):
        raise table.error("burst", "has no effect without a rate: connects, frames or bytes")
    if "when_reached" in table and given.isdisjoint(("frames", "bytes")):
        raise table.error(
            "when_reached", "has no effect without frames or bytes; connects are always refused"
        )


def read_tls(table: ConfigTable, place: str) -> ServerTLS:
    """Return the TLS that a table describes, for the endpoint `place`. Raises `ConfigError`."""
    if server(place).own_tls:
        raise table.error(None, "the endpoint brings TLS of its own; with this table it has to be a tcp: one")
    tls = ServerTLS(**table.read(SETTINGS["listener.NAME.tls"]))
    if tls.require_client_certificate and tls.client_ca is None:
        raise table.error("require_client_certificate", "needs client_ca, by which they are verified")
    return tls


def _web(table: ConfigTable) -> Web | None:
    said = table.values.get("web", False)
    if isinstance(said, bool):
        return Web() if said else None
    if not isinstance(said, dict):
        raise table.error("web", "must be true or false, or a table")
    return Web(**table.table("web").read(SETTINGS["listener.NAME.web"]))


# Routes and moves

PATTERNS: Final = tuple(match.value for match in Match)


@dataclass(frozen=True)
class RouteRule:
    """A route, and the names of the listeners to which it applies. `table`: the route's table in the file."""

    route: Route
    listeners: frozenset[str]
    table: ConfigTable

    def __str__(self) -> str:
        name = self.table.name
        return f"route[{name}]" if self.route.move is None else f"move.{name}"


def read_route(
    table: ConfigTable, upstreams: Mapping[str, Upstream], listeners: Mapping[str, Listener]
) -> RouteRule:
    """Return the route in a table. `upstreams`, `listeners`: all in the file, by name. Raises `ConfigError`."""
    match, pattern = _pattern(table, "route[N]")
    upstream = table.required("upstream", reference("upstream", upstreams))
    return RouteRule(Route(match, pattern, upstream), _held(table, listeners), table)


def read_move(
    table: ConfigTable, upstreams: Mapping[str, Upstream], listeners: Mapping[str, Listener]
) -> RouteRule:
    """Return the move in a table, as a route. Arguments and errors are those of `read_route`."""
    match, pattern = _pattern(table, "move.NAME")
    upstream = table.required("to", reference("upstream", upstreams))
    if len(upstream.groups) > 1:
        raise table.error("to", f"must have one group; upstream.{upstream.name} is a fan-out")
    return RouteRule(Route(match, pattern, upstream, Move(table.name)), _held(table, listeners), table)


def _pattern(table: ConfigTable, kind: str) -> tuple[Match, str]:
    """Return the pattern in a table with these settings."""
    found = table.read(SETTINGS[kind])
    patterns = [key for key in PATTERNS if key in found]
    if len(patterns) != 1:
        if patterns:
            word = kind.partition("[")[0].partition(".")[0]
            raise table.error(patterns[1], f"excludes {patterns[0]}: a {word} has one pattern")
        raise table.error(None, f"needs a pattern: one of {', '.join(PATTERNS)}")
    return Match(patterns[0]), found[patterns[0]]


def _held(table: ConfigTable, listeners: Iterable[str]) -> frozenset[str]:
    """Return the names of the listeners to which a route, move or rule applies: without names in its table, all."""
    names = {name: name for name in listeners}
    return frozenset(table.get("listener", references("listener", names), tuple(names)))


def routed(listener: Listener, rules: Sequence[RouteRule]) -> Listener:
    """Return the listener with its routes and moves, in the file's order. Raises `ConfigError` if one is repeated."""
    own = [rule for rule in rules if listener.name in rule.listeners]
    first: dict[tuple[Match, str, bool], RouteRule] = {}
    for rule in own:
        route = rule.route
        earlier = first.setdefault((route.match, route.pattern, route.move is None), rule)
        if earlier is not rule:
            raise rule.table.error(route.match.value, f"is the same as in {earlier}, which comes before it")
    return replace(listener, routes=tuple(rule.route for rule in own))


# Rules

WHO: Final = ("user", "group", "certificate")
WHERE: Final = ("send", "subscribe")


def read_rule(table: ConfigTable, listeners: Mapping[str, Listener]) -> tuple[AccessRule, frozenset[str]]:
    """Return the rule in a table, and the names of the listeners to which it applies. `listeners`: all listeners of the
    file, by name. Raises `ConfigError`.
    """
    found = table.read(SETTINGS["rule[N]"])
    if not any(key in table for key in WHERE):
        raise table.error(None, f"needs {' or '.join(WHERE)}: the destinations that it is about")
    for key, where in (("size", "send"), ("ack", "subscribe")):
        if key in table and where not in table:
            raise table.error(key, f"is about {where}, which the rule does not have")
    if "size" in table and not found["allow"]:
        raise table.error("size", 'is how large what a rule allows may be: it goes with action = "allow"')
    names = _held(table, listeners)
    rule = AccessRule(int(table.name), **found)
    for name in names:
        _check_who(table, rule, listeners[name])
    return rule, names


def _check_who(table: ConfigTable, rule: AccessRule, listener: Listener) -> None:
    """Raise `ConfigError` if the rule needs a fact about clients that the relay does not know at this listener."""
    identified = listener.auth is not None
    for key in WHO:
        if key in table and not identified:
            raise table.error(key, f"is not known of clients of listener.{listener.name}, which has no auth")
    for key, patterns in zip(WHERE, (rule.send, rule.subscribe), strict=True):
        if not identified and any(USER in each for each in patterns):
            raise table.error(key, f"has {USER}, but listener.{listener.name} has no auth")
    tls = listener.tls
    if "certificate" in table and (tls is None or not tls.require_client_certificate):
        raise table.error(
            "certificate", f"needs listener.{listener.name}.tls with client_ca and require_client_certificate"
        )


def _products(upstream: Upstream) -> tuple[str, ...]:
    """Return the products that the brokers of an upstream may be."""
    return (upstream.profile.name,) if upstream.profile.name in PRODUCTS else PRODUCTS


def ruled(listener: Listener, rules: Sequence[tuple[AccessRule, frozenset[str]]]) -> Listener:
    """Return the listener with its rules, in the file's order. A listener with rules denies by default. `rules`: each
    rule with the names of the listeners to which it applies.
    """
    own = tuple(rule for rule, names in rules if listener.name in names)
    if not own:
        return listener
    allow = listener.rules is not None and listener.rules.allow
    upstreams = [*listener.upstreams()]
    spoken = [each.map.at(product) for each in upstreams for product in _products(each)]
    maps = tuple([each.names for each in spoken if each is not None and each.names.rows])
    profiles = [
        PROFILES[name] for each in upstreams for name in (each.profile.name, each.map.clients) if name
    ]
    names = naming(each.naming for each in profiles)._replace(maps=maps)
    return replace(listener, rules=AccessRules(own, allow, names))
