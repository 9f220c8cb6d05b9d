"""What an upstream's URI means: which groups of brokers, and what its options set."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from stomprelay.config import address, endpoint
from stomprelay.config.uri import (
    BROKER,
    FAILOVER,
    FANOUT,
    RECONNECT,
    Address,
    Several,
    parse,
    read_options,
)
from stomprelay.config.values import shown
from stomprelay.relay.model.group import Broker, Group, Policy, Reconnect

QUORUM: Final = 2
"""How many groups must confirm a SEND where there is no `minAckCount`: ActiveMQ's default."""

_OF_ALL: Final = frozenset({"quorum", "fan_out_queues"})
"""Options of `fanout:` about all its groups together."""


@dataclass(frozen=True)
class Place:
    """A group without a name. `listed`: a `failover:` list; `ordered`: with the option `randomize`; `chosen`: with an
    option that chooses the broker.
    """

    brokers: tuple[Broker, ...]
    reconnect: Reconnect | None = None
    listed: bool = False
    ordered: bool = False
    chosen: bool = False

    def default(self, *, connected: bool) -> Policy:
        """Return the policy where none is set: ActiveMQ's for its own options or where it makes no difference, else
        `TOGETHER`.
        """
        free = self.listed and len(self.brokers) > 1 and not (self.chosen or connected)
        weighed = any(each.weight != 1 for each in self.brokers)
        return Policy.TOGETHER if free and not weighed else Policy.FAILOVER


@dataclass(frozen=True)
class Location:
    """The groups of an upstream, of which `quorum` must confirm a SEND."""

    places: tuple[Place, ...]
    quorum: int = 1
    fan_out_queues: bool = True

    def groups(self, name: str, policy: Policy | None, *, connected: bool = False) -> tuple[Group, ...]:
        """Return the groups of the upstream of this name. Raises `ValueError` where the policy does not fit."""
        for each in self.places:
            _fits(policy or each.default(connected=connected), each)
        if policy not in (None, Policy.FAILOVER) and not any(each.listed for each in self.places):
            raise ValueError(f"{policy.value} needs brokers to choose from, as in failover:(tcp://a,tcp://b)")
        names = [name] if len(self.places) == 1 else [f"{name}-{at}" for at in range(1, len(self.places) + 1)]
        return tuple(
            Group(name, each.brokers, each.reconnect, policy or each.default(connected=connected))
            for name, each in zip(names, self.places, strict=True)
        )


def _fits(policy: Policy, place: Place) -> None:
    reconnect = place.reconnect
    if reconnect is None:
        return
    if policy is not Policy.FAILOVER:
        if place.ordered:
            raise ValueError(f"{policy.value} excludes the option randomize of the URI: say one of them")
        if reconnect.priority_backup:
            raise ValueError(f"{policy.value} excludes the option priorityBackup of the URI: say one of them")
    if policy is not Policy.TOGETHER and (policy is not Policy.FAILOVER or reconnect.randomize):
        return
    if any(each.weight != 1 for each in place.brokers):
        order = "" if policy is Policy.TOGETHER else " in the order of the list (randomize=false)"
        raise ValueError(f"{policy.value}{order} has no use for weights")


def locate(text: str) -> Location:
    """Return what a URI means: an address, `failover:(...)` or `fanout:(...)`. Raises `ValueError`."""
    found = parse(text)
    if isinstance(found, Address):
        return Location((Place((address.broker(found.text),)),))
    if found.scheme == "failover":
        location = Location((_failover(found),))
    elif found.scheme == "fanout":
        location = _fanout(found)
    else:
        raise ValueError(f"{found} stands within fanout:(...) only; a list to choose from is failover:(...)")
    _once(broker for place in location.places for broker in place.brokers)
    return location


def _failover(found: Several) -> Place:
    settings = read_options(found.options, FAILOVER)
    brokers = []
    for number, part in enumerate(found.parts, 1):
        if isinstance(part, Several):
            raise ValueError(f"{part} must not stand within failover:(...), which is a list of addresses")
        with _naming(f"address {number}"):
            address.broker(part.text)  # a mistake in it comes before one in its options
            brokers.append(address.broker(part.text, **read_options(part.options, BROKER)))
    chosen = "randomize" in settings or "priority_backup" in settings
    return Place(tuple(brokers), Reconnect(**settings), True, "randomize" in settings, chosen)


def _fanout(found: Several) -> Location:
    options = read_options(found.options, FANOUT)
    settings = {field: value for field, value in options.items() if field not in _OF_ALL}
    places = _places(found, settings)
    quorum = options.get("quorum", min(QUORUM, len(places)))
    if quorum > len(places):
        raise ValueError(f'option "minAckCount": must not be more than the number of groups, {len(places)}')
    return Location(places, quorum, options.get("fan_out_queues", Location.fan_out_queues))


def _places(found: Several, settings: Mapping[str, Any]) -> tuple[Place, ...]:
    """Return the groups in a `fanout:` or `static:` list; the settings are for those that are plain addresses."""
    places: list[Place] = []
    for number, part in enumerate(found.parts, 1):
        with _naming(f"group {number}"):
            places.extend(_group(part, found, settings))
    idle = [name for name, _ in found.options if name in RECONNECT]
    if idle and all(each.listed for each in places):
        raise ValueError(
            f"option {shown(idle[0])}: {found} has no address to hold for: say it of failover:(...)"
        )
    return tuple(places)


def _group(part: Address | Several, within: Several, settings: Mapping[str, Any]) -> tuple[Place, ...]:
    if isinstance(part, Address):
        if read_options(part.options, BROKER):
            raise ValueError('option "weight": there is no other broker to choose')
        return (Place((address.broker(part.text),), Reconnect(**settings)),)
    if part.scheme == "failover":
        return (_failover(part),)
    if part.scheme == "fanout" or within.scheme == "static":
        raise ValueError(f"{part} must not stand within {within}")
    return _places(part, {**settings, **read_options(part.options, RECONNECT)})


def _once(brokers: Iterable[Broker]) -> None:
    """Raise `ValueError` for a broker that is named twice, however its address is written."""
    seen: dict[object, Broker] = {}
    for broker in brokers:
        parts = endpoint.client(broker.endpoint)
        place = {
            name: value.lower() if name == "host" else value
            for name, value in parts.arguments.items()
            if parts.kind not in endpoint.CLIENTS or name in ("host", "port", "path")
        }
        first = seen.setdefault((parts.kind, broker.tls, broker.path, frozenset(place.items())), broker)
        if first is not broker:
            same = "" if str(first) == str(broker) else f", once as {first}"
            raise ValueError(f"must name each broker once, and names {broker} twice{same}")


@contextmanager
def _naming(place: str) -> Iterator[None]:
    """Put `place`, a part of the URI, in front of the text of a `ValueError` that the `with` block raises."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{place}: {error}") from None
