"""Which sessions move to another broker while all is well, and how many at a time. The result depends only on where
sessions are; within a tolerance nothing moves.
"""

from collections.abc import Mapping
from math import ceil, inf
from typing import Final, NamedTuple

from stomprelay.relay.model.group import Broker, Group, Policy

TOLERANCE: Final = 0.1
"""The part of its share by which a broker may have too many sessions, or too few; one session at least."""


class Move(NamedTuple):
    """Ask so many `sessions` of `origin` to leave for `target`."""

    origin: Broker
    target: Broker
    sessions: int


class Allowance:
    """How many sessions may move by now, at `rate` a second (0: none). Unused moves are kept for one second."""

    __slots__ = ("_at", "_most", "_rate", "_saved")

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._most = float(ceil(rate))
        self._saved = self._most
        self._at = -inf

    def left(self, now: float) -> int:
        """So many may move now."""
        if now > self._at:
            self._saved = min(self._saved + (now - self._at) * self._rate, self._most) if self._rate else 0.0
            self._at = now
        return int(self._saved + 1e-9)  # tenths of seconds do not add up to whole ones

    def spend(self, count: int) -> None:
        """So many were asked to move."""
        self._saved -= count


def wanted(group: Group, broker: Broker) -> bool:
    """Whether sessions on other brokers go to this one when it is there: then a probe must find out that it is."""
    if group.reconnect is None or len(group.brokers) < 2:
        return False
    if group.policy is Policy.FAILOVER:
        return group.reconnect.priority_backup and broker is group.brokers[0]
    return True  # of sessions that are together, too: one may be on another broker


def moves(group: Group, placed: Mapping[Broker, int], most: int, now: float) -> list[Move]:
    """Return the moves to ask for now, of `most` sessions together. `placed`: sessions by broker, where one that was
    asked to move counts for its new broker. Brokers that are not known to be well are left out.
    """
    if most <= 0 or not any(wanted(group, each) for each in group.brokers):
        return []
    if group.policy is Policy.FAILOVER:
        return _homeward(group.brokers[0], group, placed, most, now)
    if group.together:
        home = group.home(now)
        return [] if home is None else _homeward(home, group, placed, most, now)
    return _levelled([each for each in group.brokers if _well(each, now)], placed, most)


def _well(broker: Broker, now: float) -> bool:
    health = broker.health
    return health.up is True and not health.paused and not health.out(now)


def _homeward(home: Broker, group: Group, placed: Mapping[Broker, int], most: int, now: float) -> list[Move]:
    """All sessions go to this broker. Those on one that is paused were asked to leave it when it was paused."""
    if not _well(home, now):
        return []
    found: list[Move] = []
    for broker in group.brokers:
        away = broker is not home and not broker.health.paused
        count = min(placed.get(broker, 0), most) if away else 0
        if count:
            found.append(Move(broker, home, count))
            most -= count
    return found


def _levelled(brokers: list[Broker], placed: Mapping[Broker, int], most: int) -> list[Move]:
    """From the one that has most above its share to the one that has most below it, one session after the other."""
    if len(brokers) < 2:
        return []
    share = sum(placed.get(each, 0) for each in brokers) / sum(each.weight for each in brokers)
    over = {each: placed.get(each, 0) - share * each.weight for each in brokers}
    tolerated = {each: max(1.0, TOLERANCE * share * each.weight) for each in brokers}
    counts: dict[tuple[Broker, Broker], int] = {}
    for _ in range(most):
        # Of what may be off, a hair is rounding.
        if all(abs(over[each]) <= tolerated[each] + 1e-9 for each in brokers):
            break
        origin, target = max(brokers, key=over.__getitem__), min(brokers, key=over.__getitem__)
        over[origin] -= 1
        over[target] += 1
        counts[origin, target] = counts.get((origin, target), 0) + 1
    return [Move(*way, count) for way, count in counts.items()]
