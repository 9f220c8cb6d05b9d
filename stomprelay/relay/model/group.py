"""Brokers of which one serves a session at a time, and how they are tried."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from math import inf
from operator import add
from typing import Final, NamedTuple

from stomprelay.relay.model.health import Health
from stomprelay.relay.model.profile import Profile


class Policy(Enum):
    """Which broker of a group serves the next session."""

    TOGETHER = "together"
    """The one that has the sessions of this relay; where none has any, the first that can, in the order of the list."""
    FAILOVER = "failover"
    """The first that can, in the order of the list, or in a random order where the URI has `randomize`."""
    ROUND_ROBIN = "round-robin"
    """Each in its turn, by weight."""
    RANDOM = "random"
    """Any, by weight."""
    LEAST_SESSIONS = "least-sessions"
    """The one with the fewest sessions for its weight."""


@dataclass(frozen=True)
class Reconnect:
    """The options of a `failover:` URI.

    `randomize`: each session has its own order. `initial_delay`: before the first pass after a loss. `longest_delay`,
    `exponential`, `multiplier`: how pauses grow. `jitter`: the random share of a pause. `attempts`: passes after a
    loss; negative: without end. `startup_attempts`: passes for a new client, at least one; negative: as `attempts`.
    `priority_backup`: sessions prefer the first broker and return to it. `timeout`: seconds until the session is given
    up. `warn_after`: passes without success between two notes.
    """

    randomize: bool = True
    initial_delay: float = 0.01
    longest_delay: float = 30.0
    exponential: bool = True
    multiplier: float = 2.0
    jitter: float = 0.2
    attempts: int = -1
    startup_attempts: int = -1
    priority_backup: bool = False
    timeout: float = inf
    warn_after: int = 10

    def most(self, *, start: bool) -> int:
        """How many passes a search has, of a new client (`start`) or after a loss; negative is without end."""
        if not start:
            return self.attempts
        most = self.startup_attempts if self.startup_attempts >= 0 else self.attempts
        return most or 1


REMEMBERED: Final = 60.0
"""Seconds for which new sessions still go to a broker that all sessions have left, with `Policy.TOGETHER`."""


class BrokerTally(NamedTuple):
    """What was counted of a broker: frames and bytes of sessions, losses after which a session went on, SENDs to
    queues, and MESSAGEs from queues that did not go back.
    """

    sent_frames: int = 0
    sent_bytes: int = 0
    received_frames: int = 0
    received_bytes: int = 0
    failovers: int = 0
    queue_sends: int = 0
    queue_messages: int = 0

    @property
    def waiting(self) -> int:
        """About how many messages wait in its queues, by what passed the relay."""
        return max(self.queue_sends - self.queue_messages, 0)

    def plus(self, other: "BrokerTally") -> "BrokerTally":
        """Return the sum of both."""
        return BrokerTally._make(map(add, self, other))


class Broker:
    """One address, and what was learnt of it.

    `endpoint`: a Twisted client endpoint string, or `memory:` for the embedded broker. `path`: of a WebSocket.
    `versions`: those that it named when it refused ours. `profile`: its product. `tally`: counts of connections that
    ended.
    """

    __slots__ = ("endpoint", "health", "host", "path", "profile", "tally", "tls", "uri", "versions", "weight")

    def __init__(
        self,
        uri: str,
        endpoint: str,
        host: str = "",
        *,
        tls: bool = False,
        path: str | None = None,
        weight: int = 1,
    ) -> None:
        self.uri = uri
        self.endpoint = endpoint
        self.host = host
        self.tls = tls
        self.path = path
        self.weight = weight
        self.health = Health()
        self.tally = BrokerTally()
        self.versions: frozenset[bytes] | None = None
        self.profile: Profile | None = None

    def __str__(self) -> str:
        return self.uri

    def count(self, more: BrokerTally) -> None:
        """Count this too."""
        self.tally = self.tally.plus(more)

    def speaks(self, versions: frozenset[bytes] | None) -> None:
        """Record that the broker accepts these versions only; None: forget what is known of it."""
        self.versions = versions

    def learnt(self, profile: Profile) -> None:
        """Record the product that the broker was found to be."""
        self.profile = profile


class Group:
    """Brokers under one policy. `reconnect`: None for a plain address: one attempt. `name`: for texts to clients."""

    __slots__ = ("_home", "_home_at", "_turns", "brokers", "name", "policy", "reconnect")

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
        self._home: Broker | None = None
        self._home_at = -inf
        self._turns = dict.fromkeys(brokers, 0)

    def __str__(self) -> str:
        return ",".join(map(str, self.brokers))

    def take(self, like: "Group", brokers: tuple[Broker, ...]) -> None:
        """Have the brokers, weights and policy of `like` from now on. Sessions on other brokers keep them."""
        for broker, same in zip(brokers, like.brokers, strict=True):
            broker.weight = same.weight
        self.name, self.reconnect, self.policy = like.name, like.reconnect, like.policy
        self.brokers = brokers
        self._turns = {each: self._turns.get(each, 0) for each in brokers}

    @property
    def together(self) -> bool:
        """Whether all sessions are to be on one broker."""
        return self.policy is Policy.TOGETHER

    def home(self, now: float) -> Broker | None:
        """Return the broker with most sessions, where all are to be on one; None: the next session decides."""
        if not self.together:
            return None
        able = [each for each in self.brokers if not each.health.paused]
        able = [each for each in able if not each.health.gone(now)] or able
        home = max(able, key=lambda each: each.health.shared(), default=None)
        if home is None or not home.health.shared():
            return None
        self._home, self._home_at = home, now
        return home

    def order(self, now: float, chance: Callable[[], float], prefer: Broker | None = None) -> list[Broker]:
        """All brokers, in the order in which a session tries them. Takes a turn of the round-robin."""
        if prefer in self.brokers:
            return _first(prefer, self._listed(chance))
        match self.policy:
            case Policy.ROUND_ROBIN:
                return self._in_turn(now)
            case Policy.LEAST_SESSIONS:
                return sorted(self._shuffled(chance), key=_load)
            case Policy.RANDOM:
                return self._shuffled(chance)
            case Policy.TOGETHER:
                return self._together(now)
        order = self._listed(chance)
        if self.reconnect is not None and self.reconnect.priority_backup:
            return _first(self.brokers[0], order)
        return order

    def _together(self, now: float) -> list[Broker]:
        """Only the broker that has the sessions, which is waited for: one session alone would go elsewhere in vain."""
        home = self.home(now)
        if home is not None:
            return [home]
        last = self._home
        if last in self.brokers and last.health.up and now < self._home_at + REMEMBERED:
            return _first(last, list(self.brokers))
        return list(self.brokers)

    def _listed(self, chance: Callable[[], float]) -> list[Broker]:
        if self.reconnect is not None and self.reconnect.randomize and not self.together:
            return self._shuffled(chance)
        return list(self.brokers)

    def _shuffled(self, chance: Callable[[], float]) -> list[Broker]:
        """A random order in which heavy ones tend to come first (Efraimidis and Spirakis, weighted sampling)."""
        return sorted(self.brokers, key=lambda each: (1 - chance()) ** (1 / each.weight), reverse=True)

    def _in_turn(self, now: float) -> list[Broker]:
        """Smooth weighted round-robin: in a full turn each available broker comes first as often as it weighs."""
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
    """Return a broker's sessions, with those on their way and one more, divided by its weight."""
    health = broker.health
    return (health.sessions + health.coming + 1) / broker.weight


def alone(broker: Broker) -> tuple[Group, ...]:
    """Return the one group of an upstream that is a plain address."""
    return (Group(str(broker), (broker,)),)
