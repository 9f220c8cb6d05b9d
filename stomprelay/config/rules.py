"""`[[rule]]`: what clients may do."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from stomprelay.config.settings import SETTINGS
from stomprelay.config.table import Table
from stomprelay.config.values import references
from stomprelay.relay.model.listener import Listener
from stomprelay.relay.model.profile import naming
from stomprelay.relay.model.rules import USER, AccessRule, AccessRules

WHO: Final = ("user", "group", "certificate")
WHERE: Final = ("send", "subscribe")


@dataclass(frozen=True)
class RuleFor:
    """A rule and the names of the listeners that it applies to."""

    rule: AccessRule
    listeners: frozenset[str]


def read_rule(table: Table, listeners: Mapping[str, Listener]) -> RuleFor:
    """Return the rule in a table; `listeners` are what the file has, by name. Raises `ConfigError`."""
    found = table.read(SETTINGS["rule[N]"])
    if not any(key in table for key in WHERE):
        raise table.error(None, f"needs {' or '.join(WHERE)}: the destinations that it is about")
    _check_conditions(table, allow=found["allow"])
    names = table.get(
        "listener", references("listener", {name: name for name in listeners}), tuple(listeners)
    )
    rule = AccessRule(int(table.name), **found)
    for name in names:
        _check_who(table, rule, listeners[name])
    return RuleFor(rule, frozenset(names))


def _check_conditions(table: Table, *, allow: bool) -> None:
    for key, where in (("size", "send"), ("ack", "subscribe")):
        if key in table and where not in table:
            raise table.error(key, f"is about {where}, which the rule does not have")
    if "size" in table and not allow:
        raise table.error("size", 'is how large what a rule allows may be: it goes with action = "allow"')


def _check_who(table: Table, rule: AccessRule, listener: Listener) -> None:
    """Raise `ConfigError` where the relay does not know what the rule asks of a listener's clients."""
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


def ruled(listeners: Sequence[Listener], rules: Sequence[RuleFor]) -> tuple[Listener, ...]:
    """Return the listeners with their rules, in the file's order. With rules, the default is to deny."""
    return tuple(_ruled(each, rules) for each in listeners)


def _ruled(listener: Listener, rules: Sequence[RuleFor]) -> Listener:
    own = tuple(each.rule for each in rules if listener.name in each.listeners)
    if not own:
        return listener
    allow = listener.rules is not None and listener.rules.allow
    return replace(
        listener, rules=AccessRules(own, allow, naming([each.profile for each in listener.upstreams()]))
    )
