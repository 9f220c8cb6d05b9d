"""The text of `stomprelay check`: what would run with a configuration. Each setting that has a value has a line, under
the name that it has in a file. Further lines say in words what follows from settings. The text has no secret.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from enum import Enum
from math import inf
from operator import attrgetter
from typing import Any, Final

from stomprelay.auth.settings import AuthSettings
from stomprelay.config import values
from stomprelay.config.address import MEMORY
from stomprelay.config.admin import UNENCRYPTED, unencrypted
from stomprelay.config.config import Config
from stomprelay.config.settings import SETTINGS, held
from stomprelay.config.table import Setting
from stomprelay.config.upstream import PARTS
from stomprelay.config.values import BODIES, shown
from stomprelay.relay.model.group import Group, Policy
from stomprelay.relay.model.listener import Listener, Match
from stomprelay.relay.model.mapping import LEFT_OUT, Addition, HeaderRow
from stomprelay.relay.model.profile import Profile
from stomprelay.relay.model.rates import Rates
from stomprelay.relay.model.rules import AccessRules
from stomprelay.relay.model.upstream import Upstream

_PATTERNS: Final = {Match.EXACT: "is", Match.PREFIX: "begins with", Match.GLOB: "is like"}
_CHOICES: Final = {
    Policy.TOGETHER: "together: the one that has the others; else the first that can, in the order of the list",
    Policy.FAILOVER: "the first that can, in the order of the list",
    Policy.ROUND_ROBIN: "round-robin: each in its turn, by weight",
    Policy.RANDOM: "random: any, by weight",
    Policy.LEAST_SESSIONS: "least-sessions: the one with the fewest sessions for its weight",
}
_ANY_ORDER: Final = "the first that can, in a random order for each session"
ADVICE: Final = (
    "rules that deny are advice: no `profile` says which product it is, and it may know more names"
)
Fact = tuple[str, str]


def summary(config: Config) -> str:
    """Return the configuration as text, one line for each fact, without a line end after the last line."""
    blocks: list[str] = []
    for listener in config.listeners:
        blocks += _blocks("listener.NAME", listener, listener.name, _listener(listener))
    for upstream in config.upstreams:
        blocks += _blocks("upstream.NAME", upstream, upstream.name, _upstream(upstream))
    for auth in config.auths:
        blocks += _blocks("auth.NAME", auth, auth.name, _auth(auth))
    if any(broker.endpoint == MEMORY for each in config.upstreams for broker in each.brokers):
        blocks += _blocks("broker", config.broker)
    if config.journal.directory is not None:
        captures = [
            ("capture", f"{_bodies(each.bodies)} of {shown(each.destination)}")
            for each in config.journal.rules
        ]
        blocks += _blocks("journal", config.journal, further=captures)
    return "\n".join([*blocks, *_blocks("", config, further=_admin(config))])


def _blocks(table: str, owner: Any, name: str = "", further: Sequence[Fact] = ()) -> Iterator[str]:
    """Yield a block for a table, and for each table in it that has values. `further`: more lines for the table."""
    blocks: dict[str, list[Fact]] = {table: []}
    for place, key, row, found in held(table, owner):
        # A key without a reader may be a secret.
        said_as_it_is = row.read is not None and key not in _IN_WORDS and not _idle(owner, table, place, row)
        if said_as_it_is and any(value not in (None, (), {}, frozenset()) for value in found):
            said = ", ".join(_READ[key](each) if key in _READ else _spelled(each) for each in found)
            blocks.setdefault(place, []).append((key, said))
    blocks[table] += further
    for place, facts in blocks.items():
        if facts:
            width = max(len(key) for key, _ in facts)
            title = place.replace("NAME", name) or "relay"
            yield "\n".join([title, *(f"  {key:{width}}  {value}" for key, value in facts)])


def _idle(owner: Any, table: str, place: str, row: Setting) -> bool:
    """Return whether a row has no effect: sessions end with their broker, or nothing is limited in this scope."""
    above = SETTINGS[table].get(place.removeprefix(f"{table}."), row)
    if row.moving or above.moving:
        return not owner.movable
    scope = row.field.rpartition(".")[0] if isinstance(row.field, str) else ""
    return scope.startswith("rates.") and attrgetter(scope)(owner) == Rates()


def _spelled(value: Any) -> str:
    match value:
        case bool():
            return str(value).lower()
        case float():
            return "without end" if value == inf else f"{value:.12g}"
        case bytes():
            return value.decode("utf-8", "backslashreplace")
        case values.NEVER:
            return "never"
        case Enum() | Profile():
            return str(value.value if isinstance(value, Enum) else value.name)
        case Mapping():
            return ", ".join(f"{_spelled(key)} = {_spelled(each)}" for key, each in value.items())
        case frozenset():
            return ", ".join(sorted(map(_spelled, value)))
        case HeaderRow():
            after = "is left out" if value.value is LEFT_OUT else f"becomes {_spelled(value.becomes)}"
            return f"{_spelled(value.name)} of {_spelled(value.commands)} {after}"
        case Addition():
            return f"{_spelled(value.name)} of {_spelled(value.commands)} is {_spelled(value.value)}"
        case tuple() if type(value) is tuple:
            return ", ".join(map(_spelled, value))
    return str(value)


def _bodies(size: int) -> str:
    return next((word for word, number in BODIES.items() if number == size), str(size))


_READ: Final[Mapping[str, Callable[[Any], str]]] = {
    "bodies": _bodies,
    "when_reached": lambda refuse: "refuse" if refuse else "pause",
}
"""For some keys, what returns the text in a file for the value."""
_IN_WORDS: Final = frozenset({"rules_default", "renew", "policy"})
"""Keys whose values are not in a field of that name: other lines say more."""


def _admin(config: Config) -> list[Fact]:
    facts = [("admin_token_file", "needed, but for probes")] if config.admin_token is not None else []
    if config.admin is not None and facts and unencrypted(config.admin, config.admin_tls):
        facts.append(("warning", UNENCRYPTED))
    return facts


def _listener(listener: Listener) -> list[Fact]:
    facts = [("upstream", listener.upstream.name)]
    for each in listener.routes:
        way = f"to {each.upstream.name} if the destination {_PATTERNS[each.match]} {shown(each.pattern)}"
        facts.append(("route" if each.move is None else f"move {each.move.name}", way))
    return [*facts, ("auth", listener.auth or "the brokers decide"), ("rules", _rules(listener.rules))]


def _rules(rules: AccessRules | None) -> str:
    if rules is None:
        return "none: clients may do what their brokers let them"
    word = "allowed" if rules.allow else "denied"
    advice = f"; {ADVICE}" if rules.advisory else ""
    return f"{len(rules.rules) or 'none'}, and what none matches is {word}{advice}"


def _auth(auth: AuthSettings) -> list[Fact]:
    users = [("users", str(len(auth.users.entries)))] if auth.users is not None else []
    return [*users, ("logins", f"of {len(auth.logins)} users")]


def _upstream(upstream: Upstream) -> list[Fact]:
    facts = []
    if len(upstream.groups) > 1:
        queues = "" if upstream.fan_out_queues else "; one to a queue goes to the first group alone"
        most = len(upstream.groups)
        text = f"a SEND goes to all groups, and {upstream.quorum} of {most} must have it{queues}"
        facts.append(("fan-out", text))
    for group in upstream.groups:
        facts.append((f"group {group.name}", choice(group)))
        for broker in group.brokers:
            facts.append(
                ("broker", f"{broker.uri}; weight {broker.weight}" if broker.weight != 1 else broker.uri)
            )
        if group.reconnect is not None:
            options = [f"{name} {_spelled(value)}" for name, value in asdict(group.reconnect).items()]
            facts.append(("reconnecting", ", ".join(options).replace("_", " ")))
    for group in upstream.parts:
        facts.append(("warning", PARTS.format(group=group.name, choice=choice(group))))
    if upstream.credentials is not None:
        secret = "without a passcode" if upstream.credentials.passcode is None else "with a passcode"
        facts.append(("login", f"{_spelled(upstream.credentials.login)}, {secret}"))
    return facts


def choice(group: Group) -> str:
    """Return in words how a group chooses the broker for a session."""
    if len(group.brokers) == 1:
        return "one broker"
    random = group.policy is Policy.FAILOVER and group.reconnect is not None and group.reconnect.randomize
    text = _ANY_ORDER if random else _CHOICES[group.policy]
    if group.reconnect is not None and group.reconnect.priority_backup:
        text += f"; back to {group.brokers[0]} when it is there again"
    return text
