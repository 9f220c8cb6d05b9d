"""`[[rule]]`: what clients may do; `rules_default` of a listener: what counts where no rule does."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from stomprelay.config.table import Table
from stomprelay.config.values import choice, references, several, shown, size, text, texts
from stomprelay.relay.model.listener import Listener
from stomprelay.relay.model.profile import naming
from stomprelay.relay.model.rules import USER, AccessRule, AccessRules
from stomprelay.session.subscriptions import MODES

WHO: Final = ("user", "group", "certificate")
WHERE: Final = ("send", "subscribe")
KEYS: Final = ("action", *WHERE, *WHO, "ack", "headers", "size", "name", "listener")
DEFAULT: Final = "rules_default"
"""The key of a listener."""

_ACTIONS: Final = {"allow": True, "deny": False}
_HEADER: Final = re.compile(r"[^\s:]+(:[^\r\n]*)?")


def read_default(table: Table) -> AccessRules | None:
    """Return the rules of a listener of which no more is known than what counts where none does, by its table; None
    where it does not say so. Raises `ConfigError`.
    """
    allow = table.get(DEFAULT, choice(_ACTIONS))
    return None if allow is None else AccessRules((), allow)


@dataclass(frozen=True)
class RuleFor:
    """A rule and the names of the listeners that it applies to."""

    rule: AccessRule
    listeners: frozenset[str]


def read_rule(table: Table, listeners: Mapping[str, Listener]) -> RuleFor:
    """Return the rule in a table; `listeners` are what the file has, by name. Raises `ConfigError`."""
    table.only(KEYS)
    allow = table.required("action", choice(_ACTIONS))
    if not any(key in table for key in WHERE):
        raise table.error(None, f"needs {' or '.join(WHERE)}: the destinations that it is about")
    _check_conditions(table, allow=allow)
    names = table.get(
        "listener", references("listener", {name: name for name in listeners}), tuple(listeners)
    )
    rule = AccessRule(
        int(table.name),
        allow,
        send=table.get("send", texts, ()),
        subscribe=table.get("subscribe", texts, ()),
        name=table.get("name", _name, ""),
        users=table.get("user", texts, ()),
        groups=table.get("group", texts, ()),
        certificates=table.get("certificate", texts, ()),
        ack=table.get("ack", _modes, frozenset()),
        headers=table.get("headers", _headers, ()),
        size=table.get("size", size),
    )
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
    """Return the listeners with their rules, in the order of the file. A listener that has some, and does not say what
    counts where none does, denies what none allows.
    """
    return tuple(_ruled(each, rules) for each in listeners)


def _ruled(listener: Listener, rules: Sequence[RuleFor]) -> Listener:
    own = tuple(each.rule for each in rules if listener.name in each.listeners)
    if not own:
        return listener
    allow = listener.rules is not None and listener.rules.allow
    return replace(
        listener, rules=AccessRules(own, allow, naming([each.profile for each in listener.upstreams()]))
    )


# Values


def _name(value: object) -> str:
    found = text(value)
    if not found.isprintable():
        raise ValueError(f"must be printable, not {shown(value)}")
    return found


_some_modes: Final = several(
    choice({each.decode(): each for each in sorted(MODES)}), "an ack mode, or a list of such"
)


def _modes(value: object) -> frozenset[bytes]:
    return frozenset(_some_modes(value))


def _header(value: object) -> str:
    found = text(value)
    if not _HEADER.fullmatch(found):
        raise ValueError(f"must be a header's name, or name:value, not {shown(value)}")
    return found


_headers: Final = several(_header, "a header, or a list of such")
