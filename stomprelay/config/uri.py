"""How an upstream's URI is written: one address, or lists of addresses as in ActiveMQ, with ActiveMQ's options.

    tcp://a:61613
    failover:(tcp://a:61613?weight=2,ssl://b:61614)?randomize=false&timeout=30000
    failover:tcp://a:61613,tcp://b:61613?randomize=false
    fanout:(failover:(tcp://a,tcp://b),tcp://c)?minAckCount=2

After a backslash the next character is no punctuation, as in Twisted's endpoint strings; the backslash stays in the
text. Times in options are in milliseconds, and are returned in seconds. `parse` splits a URI into its parts. `locate`
returns the groups and brokers that the URI means.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote

from stomprelay.config import address
from stomprelay.config.table import nearest
from stomprelay.config.values import (
    OptionText,
    Reader,
    attempts,
    count,
    delay,
    flag,
    jitter,
    longest,
    multiple,
    shown,
    timeout,
    warnings,
)
from stomprelay.relay.model.group import Broker, Group, Policy, Reconnect

Options = tuple[tuple[str, str], ...]
"""The names and values of a URI's options, in their order, with percent-escapes decoded."""

_DEPTH: Final = {"(": 1, ")": -1}
_DEEPEST: Final = 8
"""The largest depth of nested parentheses. No list needs more than three."""
_LIST: Final = re.compile(r"(failover|fanout|static):(?://)?", re.IGNORECASE)


@dataclass(frozen=True)
class Address:
    """One broker. If the address is not in a list, `text` is the whole URI, and there are no options."""

    text: str
    options: Options = ()


@dataclass(frozen=True)
class Several:
    """A list of addresses. `scheme`: failover, fanout or static, in lower case."""

    scheme: str
    parts: tuple["Address | Several", ...]
    options: Options = ()

    def __str__(self) -> str:
        return f"{self.scheme}:(...)"


def parse(text: str) -> Address | Several:
    """Return the parts of a URI. Raises `ValueError`; the error's text shows no address."""
    start = _LIST.match(text)
    if start is None:
        return Address(text)
    _balanced(text)
    scheme, rest = start[1].lower(), text[start.end() :].strip()
    if rest.startswith("("):
        close = next(at for at, mark, depth in _marks(rest) if mark == ")" and depth == 1)
        behind = rest[close + 1 :].strip()
        if behind and not behind.startswith("?"):
            raise ValueError(f"must have nothing but ?option=value&... behind {scheme}:(...)")
        return Several(scheme, _parts(scheme, rest[1:close]), _options(behind[1:] if behind else None))
    parts, options = _cut(rest)
    if any(mark == "?" for _, mark, _ in _marks(options or "")):
        raise ValueError(f"an address with options needs parentheses around the list: {scheme}:(...)")
    return Several(scheme, _parts(scheme, parts), _options(options))


def _parts(scheme: str, text: str) -> tuple[Address | Several, ...]:
    commas = [at for at, mark, depth in _marks(text) if mark == "," and depth == 0]
    parts = [
        text[start:stop].strip()
        for start, stop in zip([0, *(at + 1 for at in commas)], [*commas, len(text)], strict=True)
    ]
    if parts == [""]:
        raise ValueError(f"{scheme}:(...) names no broker")
    if "" in parts:
        raise ValueError(f"{scheme}:(...) has a comma too many: there is no address behind it, or before it")
    return tuple(map(_part, parts))


def _part(text: str) -> Address | Several:
    start = _LIST.match(text)
    if start is None:
        place, options = _cut(text)
        return Address(place.strip(), _options(options))
    if not text[start.end() :].startswith("("):
        raise ValueError(f"within a list, {start[1].lower()}: needs parentheses: {start[1].lower()}:(...)")
    return parse(text)


def _cut(text: str) -> tuple[str, str | None]:
    at = next((at for at, mark, depth in _marks(text) if mark == "?" and depth == 0), None)
    return (text, None) if at is None else (text[:at], text[at + 1 :])


def _options(text: str | None) -> Options:
    if text is None:
        return ()
    options: dict[str, str] = {}
    for each in text.split("&"):
        name, equals, value = (unquote(part) for part in each.strip().partition("="))
        if not name or not equals:
            raise ValueError("must have its options as ?name=value&name=value")
        if name in options:
            raise ValueError(f"option {shown(name)} is said twice")
        options[name] = value
    return tuple(options.items())


def _balanced(text: str) -> None:
    after = 0
    for _, mark, depth in _marks(text):
        after = depth + _DEPTH.get(mark, 0)
        if after < 0:
            raise ValueError("has a closing parenthesis that nothing opened")
        if after > _DEEPEST:
            raise ValueError("has too many lists within each other")
    if after:
        raise ValueError("has a parenthesis that nothing closes")


def _marks(text: str) -> Iterator[tuple[int, str, int]]:
    """For each punctuation character yield its index, the character, and how many parentheses are open before it."""
    depth = 0
    escaped = False
    for at, mark in enumerate(text):
        if escaped:
            escaped = False
        elif mark == "\\":
            escaped = True
        elif mark in "(),?":
            yield at, mark, depth
            depth += _DEPTH.get(mark, 0)


# What options mean

RECONNECT: Final[Mapping[str, tuple[str, Reader[object]]]] = {
    "initialReconnectDelay": ("initial_delay", delay),
    "maxReconnectDelay": ("longest_delay", longest),
    "useExponentialBackOff": ("exponential", flag),
    "backOffMultiplier": ("multiplier", multiple),
    "reconnectDelayExponent": ("multiplier", multiple),
    "reconnectDelayJitter": ("jitter", jitter),
    "maxReconnectAttempts": ("attempts", attempts),
    "startupMaxReconnectAttempts": ("startup_attempts", attempts),
    "timeout": ("timeout", timeout),
    "warnAfterReconnectAttempts": ("warn_after", warnings),
}
"""Option -> the field of `Reconnect` and the reader, for the options that also have a meaning for a single address."""

FAILOVER: Final[Mapping[str, tuple[str, Reader[object]]]] = {
    "randomize": ("randomize", flag),
    "priorityBackup": ("priority_backup", flag),
    **RECONNECT,
}
FANOUT: Final[Mapping[str, tuple[str, Reader[object]]]] = {
    "minAckCount": ("quorum", count),
    "fanOutQueues": ("fan_out_queues", flag),
    **RECONNECT,
}
BROKER: Final[Mapping[str, tuple[str, Reader[object]]]] = {"weight": ("weight", count)}

_OPTIONS: Final = {"a broker's address": BROKER, "failover:(...)": FAILOVER, "fanout:(...)": FANOUT}


def read_options(options: Options, known: Mapping[str, tuple[str, Reader[object]]]) -> dict[str, Any]:
    """Return the values of the options, by field. Raises `ValueError`, whose text names the wrong option."""
    fields: dict[str, Any] = {}
    names: dict[str, str] = {}
    for name, text in options:
        if name not in known:
            owner = next((each for each, others in _OPTIONS.items() if name in others), None)
            why = f"belongs to {owner}" if owner else f"there is no such option; {nearest(name, known)}"
            raise ValueError(f"option {shown(name)}: {why}")
        field, reader = known[name]
        try:
            value = reader(OptionText(text))
        except ValueError as error:
            raise ValueError(f"option {shown(name)}: {error}") from None
        if field in fields and fields[field] != value:
            raise ValueError(f"option {shown(name)}: is {names[field]} by another name, which says otherwise")
        fields[field] = value
        names[field] = name
    return fields


# What the whole means

QUORUM: Final = 2
"""How many groups must confirm a SEND if the URI has no `minAckCount`. ActiveMQ has the same default."""

_CHOOSING: Final = frozenset({"randomize", "priority_backup"})
_OF_ALL: Final = frozenset({"quorum", "fan_out_queues"})
"""The options of `fanout:` that are about all its groups together."""


@dataclass(frozen=True)
class UnnamedGroup:
    """A group without a name. `listed`: its URI is a `failover:` list. `chosen`: the options of this list by which
    ActiveMQ chooses the broker.
    """

    brokers: tuple[Broker, ...]
    reconnect: Reconnect | None = None
    listed: bool = False
    chosen: frozenset[str] = frozenset()

    def default(self, *, connected: bool) -> Policy:
        """Return the policy of a group that has no policy set. If the URI has ActiveMQ's own options, or if the policy
        makes no difference, it is `FAILOVER`, as in ActiveMQ. Otherwise it is `TOGETHER`.
        """
        free = self.listed and len(self.brokers) > 1 and not (self.chosen or connected)
        weighed = any(each.weight != 1 for each in self.brokers)
        return Policy.TOGETHER if free and not weighed else Policy.FAILOVER


@dataclass(frozen=True)
class Location:
    """The groups of an upstream. `quorum` of them must confirm a SEND."""

    places: tuple[UnnamedGroup, ...]
    quorum: int = 1
    fan_out_queues: bool = True

    def groups(self, name: str, policy: Policy | None, *, connected: bool = False) -> tuple[Group, ...]:
        """Return the groups for an upstream of this name. Raises `ValueError` if the policy does not fit."""
        for each in self.places:
            _fits(policy or each.default(connected=connected), each)
        if policy not in (None, Policy.FAILOVER) and not any(each.listed for each in self.places):
            raise ValueError(f"{policy.value} needs brokers to choose from, as in failover:(tcp://a,tcp://b)")
        names = [name] if len(self.places) == 1 else [f"{name}-{at}" for at in range(1, len(self.places) + 1)]
        return tuple(
            Group(name, each.brokers, each.reconnect, policy or each.default(connected=connected))
            for name, each in zip(names, self.places, strict=True)
        )


def _fits(policy: Policy, place: UnnamedGroup) -> None:
    reconnect = place.reconnect
    if reconnect is None:
        return
    if policy is not Policy.FAILOVER:
        if "randomize" in place.chosen:
            raise ValueError(f"{policy.value} excludes the option randomize of the URI: say one of them")
        if reconnect.priority_backup:
            raise ValueError(f"{policy.value} excludes the option priorityBackup of the URI: say one of them")
    if policy is not Policy.TOGETHER and (policy is not Policy.FAILOVER or reconnect.randomize):
        return
    if any(each.weight != 1 for each in place.brokers):
        order = "" if policy is Policy.TOGETHER else " in the order of the list (randomize=false)"
        raise ValueError(f"{policy.value}{order} has no use for weights")


def locate(text: str) -> Location:
    """Return the groups and brokers of an address, `failover:(...)` or `fanout:(...)`. Raises `ValueError`."""
    found = parse(text)
    if isinstance(found, Address):
        return Location((UnnamedGroup((address.broker(found.text),)),))
    if found.scheme == "failover":
        location = Location((_failover(found),))
    elif found.scheme == "fanout":
        location = _fanout(found)
    else:
        raise ValueError(f"{found} stands within fanout:(...) only; a list to choose from is failover:(...)")
    _once(broker for place in location.places for broker in place.brokers)
    return location


def _failover(found: Several) -> UnnamedGroup:
    settings = read_options(found.options, FAILOVER)
    brokers = []
    for number, part in enumerate(found.parts, 1):
        if isinstance(part, Several):
            raise ValueError(f"{part} must not stand within failover:(...), which is a list of addresses")
        with _naming(f"address {number}"):
            address.broker(part.text)  # a mistake in the address is reported before a mistake in its options
            brokers.append(address.broker(part.text, **read_options(part.options, BROKER)))
    return UnnamedGroup(tuple(brokers), Reconnect(**settings), True, _CHOOSING.intersection(settings))


def _fanout(found: Several) -> Location:
    options = read_options(found.options, FANOUT)
    settings = {field: value for field, value in options.items() if field not in _OF_ALL}
    places = _places(found, settings)
    quorum = options.get("quorum", min(QUORUM, len(places)))
    if quorum > len(places):
        raise ValueError(f'option "minAckCount": must not be more than the number of groups, {len(places)}')
    return Location(places, quorum, options.get("fan_out_queues", Location.fan_out_queues))


def _places(found: Several, settings: Mapping[str, Any]) -> tuple[UnnamedGroup, ...]:
    """Return the groups in a `fanout:` or `static:` list. `settings` apply to the plain addresses in the list."""
    places: list[UnnamedGroup] = []
    for number, part in enumerate(found.parts, 1):
        with _naming(f"group {number}"):
            places.extend(_group(part, found, settings))
    idle = [name for name, _ in found.options if name in RECONNECT]
    if idle and all(each.listed for each in places):
        raise ValueError(
            f"option {shown(idle[0])}: {found} has no address to hold for: say it of failover:(...)"
        )
    return tuple(places)


def _group(part: Address | Several, within: Several, settings: Mapping[str, Any]) -> tuple[UnnamedGroup, ...]:
    if isinstance(part, Address):
        if read_options(part.options, BROKER):
            raise ValueError('option "weight": there is no other broker to choose')
        return (UnnamedGroup((address.broker(part.text),), Reconnect(**settings)),)
    if part.scheme == "failover":
        return (_failover(part),)
    if part.scheme == "fanout" or within.scheme == "static":
        raise ValueError(f"{part} must not stand within {within}")
    return _places(part, {**settings, **read_options(part.options, RECONNECT)})


def _once(brokers: Iterable[Broker]) -> None:
    """Raise `ValueError` if a broker is named twice, even in different spellings."""
    seen: dict[object, Broker] = {}
    for broker in brokers:
        parts = address.client(broker.endpoint)
        place = {
            name: value.lower() if name == "host" else value
            for name, value in parts.arguments.items()
            if parts.kind not in address.CLIENTS or name in ("host", "port", "path")
        }
        first = seen.setdefault((parts.kind, broker.tls, broker.path, frozenset(place.items())), broker)
        if first is not broker:
            same = "" if str(first) == str(broker) else f", once as {first}"
            raise ValueError(f"must name each broker once, and names {broker} twice{same}")


@contextmanager
def _naming(place: str) -> Iterator[None]:
    """Run the `with` block. Put `place`, a part of the URI, in front of the text of a `ValueError` from the block."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{place}: {error}") from None
