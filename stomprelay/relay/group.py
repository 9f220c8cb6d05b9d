"""Brokers of which one serves a session at a time."""

from collections.abc import Callable

from stomprelay.relay.health import Health
from stomprelay.relay.profile import Profile
from stomprelay.relay.reconnect import Policy, Reconnect


class Broker:
    """One address, and what was learnt of it.

    `endpoint` is a Twisted client endpoint string, or `memory:` for the embedded broker; `tls` is set where the
    address asks for TLS. `weight` is its share of the sessions, beside its neighbours'. `versions` is what it said
    it speaks when it refused ours; `profile` what it turned out to be.
    """

    __slots__ = ("endpoint", "health", "host", "profile", "tls", "uri", "versions", "weight")

    def __init__(
        self, uri: str, endpoint: str, host: str = "", *, tls: bool = False, weight: int = 1
    ) -> None:
        self.uri = uri
        self.endpoint = endpoint
        self.host = host
        self.tls = tls
        self.weight = weight
        self.health = Health()
        self.versions: frozenset[bytes] | None = None
        self.profile: Profile | None = None

    def __str__(self) -> str:
        return self.uri


class Group:
    """Brokers under one policy. `reconnect` is None for a plain address: one attempt, and the session ends with it.

    `name` is what clients are told of it. All sessions share a group: it remembers whose turn it is.
    """

    __slots__ = ("_turns", "brokers", "name", "policy", "reconnect")

    def __init__(
        self,
        name: str,
        brokers: tuple[Broker, ...],
        reconnect: Reconnect | None = None,
        policy: Policy = Policy.FAILOVER,
    ) -> None:
        self.name = name
        self.brokers = brokers
        self.reconnect = reconnect
        self.policy = policy
        self._turns = dict.fromkeys(brokers, 0)

    def __str__(self) -> str:
        return ",".join(map(str, self.brokers))

    def order(self, now: float, chance: Callable[[], float], prefer: Broker | None = None) -> list[Broker]:
        """All brokers, in the order in which a session tries them. With round-robin this takes a turn, except where
        one is preferred and comes first.
        """
        if prefer in self.brokers:
            return _first(prefer, self._listed(chance))
        match self.policy:
            case Policy.ROUND_ROBIN:
                return self._in_turn(now)
            case Policy.LEAST_SESSIONS:
                return sorted(self._shuffled(chance), key=_load)
            case Policy.RANDOM:
                return self._shuffled(chance)
        order = self._listed(chance)
        if self.reconnect is not None and self.reconnect.priority_backup:
            return _first(self.brokers[0], order)
        return order

    def _listed(self, chance: Callable[[], float]) -> list[Broker]:
        if self.reconnect is not None and self.reconnect.randomize:
            return self._shuffled(chance)
        return list(self.brokers)

    def _shuffled(self, chance: Callable[[], float]) -> list[Broker]:
        """A random order in which heavy ones tend to come first (Efraimidis and Spirakis, weighted sampling)."""
        return sorted(self.brokers, key=lambda each: (1 - chance()) ** (1 / each.weight), reverse=True)

    def _in_turn(self, now: float) -> list[Broker]:
        """Smooth weighted round-robin: in a full turn each comes first as often as it weighs, well spread.

        Those that are out of service take no turn: it would go to their neighbour in the list.
        """
        kept = [each for each in self.brokers if not each.health.paused] or self.brokers
        able = [each for each in kept if not each.health.out(now)] or kept
        for each in able:
            self._turns[each] += each.weight
        first = max(able, key=self._turns.__getitem__)
        self._turns[first] -= sum(each.weight for each in able)
        at = self.brokers.index(first)
        return [*self.brokers[at:], *self.brokers[:at]]


def _first(broker: Broker, order: list[Broker]) -> list[Broker]:
    return [broker, *(each for each in order if each is not broker)]


def _load(broker: Broker) -> float:
    """How full a broker is once one more has come to it."""
    health = broker.health
    return (health.sessions + health.coming + 1) / broker.weight


def alone(broker: Broker) -> tuple[Group, ...]:
    """The groups of an upstream that is a plain address."""
    return (Group(str(broker), (broker,)),)
