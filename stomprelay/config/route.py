"""`[[route]]`: which upstream serves a destination."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from stomprelay.config.table import ConfigError, Table
from stomprelay.config.values import reference, references, text
from stomprelay.relay.model.listener import Listener, Match, Route
from stomprelay.relay.model.upstream import Upstream

PATTERNS: Final = tuple(match.value for match in Match)
KEYS: Final = (*PATTERNS, "upstream", "listener")


@dataclass(frozen=True)
class Rule:
    """A route and the names of the listeners that it holds for. `table` is where it is written."""

    route: Route
    listeners: frozenset[str]
    table: Table

    @property
    def key(self) -> str:
        """The key of its pattern."""
        return self.route.match.value

    def repeated(self, earlier: "Rule") -> ConfigError:
        """What to raise about a rule that a route before it takes everything from."""
        return self.table.error(self.key, f"is the same as in {earlier.table.place}, which comes before it")


def read(table: Table, upstreams: Mapping[str, Upstream], listeners: Mapping[str, Listener]) -> Rule:
    """A route. Both mappings are what the file has, by name."""
    table.only(KEYS)
    said = [key for key in PATTERNS if key in table]
    if len(said) != 1:
        if said:
            raise table.error(said[1], f"excludes {said[0]}: a route has one pattern")
        raise table.error(None, f"needs a pattern: one of {', '.join(PATTERNS)}")
    pattern = table.required(said[0], text)
    upstream = table.required("upstream", reference("upstream", upstreams))
    names = {name: name for name in listeners}
    held = frozenset(table.get("listener", references("listener", names), tuple(names)))
    return Rule(Route(Match(said[0]), pattern, upstream), held, table)


def routed(listeners: Sequence[Listener], rules: Sequence[Rule]) -> tuple[Listener, ...]:
    """The listeners with their routes, in the order of the rules."""
    return tuple(replace(each, routes=_routes(each, rules)) for each in listeners)


def _routes(listener: Listener, rules: Sequence[Rule]) -> tuple[Route, ...]:
    own = [rule for rule in rules if listener.name in rule.listeners]
    first: dict[tuple[Match, str], Rule] = {}
    for rule in own:
        earlier = first.setdefault((rule.route.match, rule.route.pattern), rule)
        if earlier is not rule:
            raise rule.repeated(earlier)
    return tuple(rule.route for rule in own)
