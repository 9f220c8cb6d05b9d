"""Brokers of which one serves a session at a time: the order in which they are tried, what all sessions together know
about the health of each, and which sessions move to another one.
"""

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from enum import Enum
from math import inf
from operator import add
from typing import Final, NamedTuple, Protocol

from stomprelay.relay.model.profile import Profile


@dataclass(frozen=True)
class Checks:
    """When a broker is left out, and how it is probed. Times are in seconds.

    After `failures` failures in a row a broker is left out for `pause` seconds. The pause doubles with each further
    failure, up to `longest_pause`. `probe`: seconds between the relay's own CONNECTs; 0: none. `destination`: a probe
    also sends an empty message there.
    """

    failures: int = 1
    pause: float = 1.0
    longest_pause: float = 60.0
    probe: float = 0.0
    destination: str | None = None


def spread(time: float, chance: Callable[[], float], jitter: float = 0.2) -> float:
    """Return `time`, made longer or shorter at random. `jitter` 0.2: by up to a fifth of `time`."""
    return time * (1 - jitter + 2 * jitter * chance())


GRACE: Final = 5.0
"""Seconds after which sessions leave an unreachable broker that still serves sessions, with `Policy.TOGETHER`."""


class Others(Protocol):
    """What other processes of the relay know of a broker."""

    def tell(self, sessions: int, gone: bool) -> None:
        """Write how many sessions of this process the broker has, and whether it is `gone` for this process."""

    def sessions(self) -> int:
        """Return how many sessions of the other processes the broker has."""

    def gone(self) -> bool:
        """Return whether the broker is `gone` for another process."""


class Sight(NamedTuple):
    """A broker's state at one moment: its newest session, its answers and troubles, whether it was well."""

    joined: int
    answers: int
    troubles: int
    well: bool


@dataclass(slots=True, eq=False, repr=False)
class Health:
    """What all sessions together know about one broker's health. `chance` returns numbers from 0 up to 1.

    A broker is up once it has answered CONNECT in time. A broker that failed is left out for a pause, which is longer
    after each failure. Then one session or probe tries the broker, and all others wait for the result. If a broker
    closes a connection after a client's CONNECT, or during a session, that client may be the reason; so the broker is
    only doubted until its next answer. Take a `Sight` when something suspect is sent; later `well_since` tells whether
    the broker was well in the meantime.

    `up`: the last result; None if there is none. `paused`: an operator took the broker out of service. `coming`: how
    many sessions are on their way to the broker. `failures`: how many there were in a row. `out_until`: when the pause
    ends; 0: no pause. `doubted`: a probe is needed. `others`: what other processes of the relay know about the broker.
    """

    up: bool | None = None
    paused: bool = False
    coming: int = 0
    failures: int = 0
    out_until: float = 0.0
    doubted: bool = False
    others: Others | None = None
    _down_since: float = inf
    _gone: bool = False
    _joined: int = 0
    _serving: dict[int, None] = field(default_factory=dict)
    _oldest: int = 1
    _answers: int = 0
    _troubles: int = 0
    _troubled: bool = False
    _pause: float = 0.0
    _trial_until: float = 0.0
    _slot: float = 0.0

    def pause(self) -> bool:
        """Take the broker out of service for an operator. Return whether it was in service until now."""
        before, self.paused = self.paused, True
        return not before

    def resume(self) -> bool:
        """Take the broker into service again. Return whether it was out of service until now."""
        before, self.paused = self.paused, False
        return before

    @property
    def sessions(self) -> int:
        """How many sessions of this process the broker serves."""
        return len(self._serving)

    def joined(self) -> int:
        """Count a new session at the broker. Return its number, for `left`."""
        self._joined += 1
        self._serving[self._joined] = None
        if self.others is not None:
            self.others.tell(len(self._serving), self._gone)
        return self._joined

    def left(self, number: int) -> None:
        """The session with this number has left the broker."""
        del self._serving[number]
        if self.others is not None:
            self.others.tell(len(self._serving), self._gone)

    def shared(self) -> int:
        """Return how many sessions all processes of the relay have at the broker."""
        return len(self._serving) if self.others is None else len(self._serving) + self.others.sessions()

    def gone(self, now: float) -> bool:
        """Return whether the broker's sessions must move: it fell silent, or was unreachable for `GRACE` seconds."""
        gone = now >= self._down_since + GRACE
        if gone is not self._gone:
            self._gone = gone
            if self.others is not None:
                self.others.tell(len(self._serving), self._gone)
        return gone or (self.others is not None and self.others.gone())

    def answered(self) -> None:
        """The broker answered with CONNECTED in time."""
        self.up = True
        self.doubted = self._troubled = False
        self._answers += 1
        self.failures = 0
        self._down_since = inf
        self.out_until = self._pause = self._trial_until = 0.0

    def failed(
        self, checks: Checks, now: float, chance: Callable[[], float], *, silent: bool = False
    ) -> None:
        """Record that the broker could not be reached, did not answer CONNECT in time, or fell `silent`. During a
        pause this counts as no further failure, so that many sessions count one failure only once.
        """
        self.up = self.doubted = False
        self._down_since = -inf if silent else min(self._down_since, now)
        self._troubles += 1
        if self.paused or now < self.out_until:
            return
        self.failures += 1
        self._trial_until = 0.0
        over = self.failures - checks.failures
        if over >= 0:
            self._pause = spread(min(checks.pause * 2.0 ** min(over, 64), checks.longest_pause), chance)
            self.out_until = now + self._pause

    def lost(self, *, suspect: bool) -> None:
        """A session lost its connection to the broker. `suspect`: the session may be the cause. The broker does not
        count as well until its next answer, but this is no failure.
        """
        self._troubled = True
        self._troubles += not suspect

    def doubt(self, since: Sight) -> None:
        """The broker closed after CONNECT, or did not confirm in time; perhaps because of the client. A probe is due,
        unless the broker has answered a CONNECT after the sight `since`.
        """
        if self._answers == since.answers:
            self.doubted = True

    def sight(self) -> Sight:
        """Return the broker's present state, for later calls of the methods below."""
        return Sight(self._joined, self._answers, self._troubles, self.up is True and not self._troubled)

    def unanswered(self, sight: Sight) -> Sight:
        """Return the sight with the present number of answers, so that earlier answers do not show the broker well."""
        return sight._replace(answers=self._answers)

    def answered_since(self, sight: Sight) -> bool:
        """Return whether the broker has answered any CONNECT since this sight."""
        return self._answers != sight.answers

    def well_since(self, sight: Sight) -> bool:
        """Return whether the broker was well since this sight. It was well if it still serves a session that is older
        than the sight. It was also well if it answered, did not fail, and ended no session except suspect ones.
        """
        return self._serves_since(sight) or (self.answered_since(sight) and self._troubles == sight.troubles)

    def disproved(self, sight: Sight) -> bool:
        """Return whether `well_since` can never become true for this sight."""
        return self._troubles != sight.troubles and not self._serves_since(sight)

    def _serves_since(self, sight: Sight) -> bool:
        # Taking the dict's first entry would be slow, because a dict goes through all entries deleted before it.
        while self._oldest <= self._joined and self._oldest not in self._serving:
            self._oldest += 1
        return self._oldest <= sight.joined

    def out(self, now: float) -> bool:
        """Whether the broker is left out now, because it failed, or because one session is trying it again."""
        return now < self.out_until or now < self._trial_until

    def trial(self, now: float) -> None:
        """A session tries the broker now. After a pause, no other session tries it until the result is known."""
        if self.up is False and not self.out(now):
            self._trial_until = now + self._pause

    def slot(self, rate: float, now: float) -> float:
        """Return when the next session may come back, at `rate` sessions a second. Each call uses one slot."""
        if not rate:
            return now
        at = max(now, self._slot)
        self._slot = at + 1 / rate
        return at


class Policy(Enum):
    """Which broker of a group serves the next session."""

    TOGETHER = "together"
    """The broker with the relay's sessions. If no broker has any: the first in the list that can serve a session."""
    FAILOVER = "failover"
    """The first in the list that can serve a session. With `randomize` in the URI, the list is in random order."""
    ROUND_ROBIN = "round-robin"
    """Each broker in turn; a broker with more weight more often."""
    RANDOM = "random"
    """A random broker; a broker with more weight more often."""
    LEAST_SESSIONS = "least-sessions"
    """The broker with the fewest sessions for its weight."""


@dataclass(frozen=True)
class Reconnect:
    """The options of a `failover:` URI.

    `randomize`: each session has its own random order. `initial_delay`: seconds before the first pass after a loss.
    `longest_delay`, `exponential`, `multiplier`: how pauses grow. `jitter`: the random share of a pause. `attempts`:
    the number of passes after a loss; negative: no limit. `startup_attempts`: the number of passes for a new client,
    at least one; negative: as `attempts`. `priority_backup`: sessions prefer the first broker and return to it.
    `timeout`: seconds until the session is given up. `warn_after`: the number of passes without success between two
    notes.
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
        """Return how many passes a search may have, for a new client (`start`) or after a loss; negative: no limit."""
        if not start:
            return self.attempts
        most = self.startup_attempts if self.startup_attempts >= 0 else self.attempts
        return most or 1


TOLERANCE: Final = 0.1
"""A broker may have this part of its share more or less. A difference of one session is always allowed."""

REMEMBERED: Final = 60.0
"""With `Policy.TOGETHER`, seconds for which new sessions still prefer the broker that all sessions have left."""


class BrokerTally(NamedTuple):
    """The counts of a broker: frames and bytes of its sessions; losses after which a session continued; SENDs to
    queues; MESSAGEs from queues, except those that the broker will deliver again.
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
        """The estimated number of messages in the broker's queues, from what passed through the relay."""
        return max(self.queue_sends - self.queue_messages, 0)


@dataclass(slots=True, eq=False, repr=False)
class Broker:
    """One address, and what is known about it.

    `endpoint`: a Twisted client endpoint string, or `memory:` for the embedded broker. `path`: the path of a WebSocket.
    `versions`: the STOMP versions that the broker named when it refused the relay's versions. `profile`: its product.
    `tally`: the counts of its ended connections.
    """

    uri: str
    endpoint: str
    host: str = ""
    _: KW_ONLY
    tls: bool = False
    path: str | None = None
    weight: int = 1
    health: Health = field(default_factory=Health)
    tally: BrokerTally = field(default_factory=BrokerTally)
    versions: frozenset[bytes] | None = None
    profile: Profile | None = None

    def __str__(self) -> str:
        return self.uri

    def count(self, more: BrokerTally) -> None:
        """Add these counts to `tally`."""
        self.tally = BrokerTally._make(map(add, self.tally, more))


class Shift(NamedTuple):
    """A request: this many `sessions` of `origin` are to move to `target`."""

    origin: Broker
    target: Broker
    sessions: int


@dataclass(slots=True, eq=False, repr=False)
class Group:
    """Brokers under one policy. `reconnect`: None for a plain address, which is tried once. `name`: for texts to
    clients. `together`: all sessions should be on one broker. `balanced`: sessions may move although their broker is
    well.
    """

    name: str
    brokers: tuple[Broker, ...]
    reconnect: Reconnect | None = None
    policy: Policy = Policy.FAILOVER
    together: bool = False
    balanced: bool = False
    _home: Broker | None = None
    _home_at: float = -inf
    _turns: dict[Broker, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.together = self.policy is Policy.TOGETHER
        self.balanced = any(map(self.wants, self.brokers))
        self._turns = dict.fromkeys(self.brokers, 0)

    def __str__(self) -> str:
        return ",".join(map(str, self.brokers))

    def take(self, like: "Group", brokers: tuple[Broker, ...]) -> None:
        """Use the brokers, weights and policy of `like` from now on. Sessions on removed brokers stay there."""
        for broker, same in zip(brokers, like.brokers, strict=True):
            broker.weight = same.weight
        self.name, self.reconnect = like.name, like.reconnect
        self.policy, self.together = like.policy, like.together
        self.brokers = brokers
        self.balanced = any(map(self.wants, brokers))
        self._turns = {each: self._turns.get(each, 0) for each in brokers}

    def home(self, now: float) -> Broker | None:
        """If all sessions should be on one broker, return the broker that has the most sessions. Return None if they
        need not be on one broker, or if there are no sessions.
        """
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
        """Return the brokers to try, in a session's order. One call uses one turn of the round-robin."""
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
        """Return the brokers to try: only the one with the sessions, if any, because elsewhere a session is alone."""
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
        """Return the brokers in random order; those with more weight tend to come first (Efraimidis and Spirakis)."""
        return sorted(self.brokers, key=lambda each: (1 - chance()) ** (1 / each.weight), reverse=True)

    def _in_turn(self, now: float) -> list[Broker]:
        """Smooth weighted round-robin: in a full round, each available broker comes first `weight` times."""
        kept = [each for each in self.brokers if not each.health.paused] or self.brokers
        able = [each for each in kept if not each.health.out(now)] or kept
        for each in able:
            self._turns[each] += each.weight
        first = max(able, key=self._turns.__getitem__)
        self._turns[first] -= sum(each.weight for each in able)
        at = self.brokers.index(first)
        return [*self.brokers[at:], *self.brokers[:at]]

    # Moves while all brokers are well

    def wants(self, broker: Broker) -> bool:
        """Return whether sessions move to this broker when it comes up again. If so, it needs probes."""
        if self.reconnect is None or len(self.brokers) < 2:
            return False
        if self.policy is Policy.FAILOVER:
            return self.reconnect.priority_backup and broker is self.brokers[0]
        return True  # with `together`, too: a session may be on another broker

    def shifts(self, placed: Mapping[Broker, int], most: int, now: float) -> list[Shift]:
        """Return which sessions should move now, at most `most` in all. `placed`: the number of sessions of each
        broker; a session that was already asked to move counts for its new broker. Brokers that may not be well are
        left out. Differences within `TOLERANCE` move nothing.
        """
        if most <= 0 or not self.balanced:
            return []
        if self.policy is Policy.FAILOVER:
            return _homeward(self.brokers[0], self, placed, most, now)
        if self.together:
            home = self.home(now)
            return [] if home is None else _homeward(home, self, placed, most, now)
        return _levelled([each for each in self.brokers if _well(each, now)], placed, most)


def _first(broker: Broker, order: list[Broker]) -> list[Broker]:
    return [broker, *(each for each in order if each is not broker)]


def _load(broker: Broker) -> float:
    """Return a broker's load: its sessions, the sessions on their way to it, and one more, divided by its weight."""
    health = broker.health
    return (health.sessions + health.coming + 1) / broker.weight


def alone(broker: Broker) -> tuple[Group, ...]:
    """Return the single group of an upstream that is a plain address."""
    return (Group(str(broker), (broker,)),)


def _well(broker: Broker, now: float) -> bool:
    health = broker.health
    return health.up is True and not health.paused and not health.out(now)


def _homeward(home: Broker, group: Group, placed: Mapping[Broker, int], most: int, now: float) -> list[Shift]:
    """Return the moves of sessions from all other brokers to `home`, at most `most` sessions. Paused brokers are left
    out: their sessions were told to move when the broker was paused.
    """
    if not _well(home, now):
        return []
    found: list[Shift] = []
    for broker in group.brokers:
        away = broker is not home and not broker.health.paused
        count = min(placed.get(broker, 0), most) if away else 0
        if count:
            found.append(Shift(broker, home, count))
            most -= count
    return found


def _levelled(brokers: list[Broker], placed: Mapping[Broker, int], most: int) -> list[Shift]:
    """Return moves of sessions, each from the broker farthest above its share to that farthest below."""
    if len(brokers) < 2:
        return []
    share = sum(placed.get(each, 0) for each in brokers) / sum(each.weight for each in brokers)
    over = {each: placed.get(each, 0) - share * each.weight for each in brokers}
    tolerated = {each: max(1.0, TOLERANCE * share * each.weight) for each in brokers}
    counts: dict[tuple[Broker, Broker], int] = {}
    for _ in range(most):
        # Allow a very small difference for rounding.
        if all(abs(over[each]) <= tolerated[each] + 1e-9 for each in brokers):
            break
        origin, target = max(brokers, key=over.__getitem__), min(brokers, key=over.__getitem__)
        over[origin] -= 1
        over[target] += 1
        counts[origin, target] = counts.get((origin, target), 0) + 1
    return [Shift(*way, count) for way, count in counts.items()]
