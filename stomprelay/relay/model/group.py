"""Brokers of which one serves a session at a time: how they are tried, what all sessions together know of the health of
each, and which sessions move from one to another.
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
    """When a broker is left out, and how it is probed. Times in seconds.

    `failures` in a row put it out, for `pause` seconds; that doubles with each failure up to `longest_pause`. `probe`:
    seconds between the relay's own CONNECTs; 0: never. `destination`: where a probe also sends an empty message.
    """

    failures: int = 1
    pause: float = 1.0
    longest_pause: float = 60.0
    probe: float = 0.0
    destination: str | None = None


def spread(time: float, chance: Callable[[], float], jitter: float = 0.2) -> float:
    """Return the time, made longer or shorter at random by up to this share of it."""
    return time * (1 - jitter + 2 * jitter * chance())


GRACE: Final = 5.0
"""Seconds that `Policy.TOGETHER` waits for a broker that cannot be reached and still serves sessions."""


class Others(Protocol):
    """What other processes of the relay know of a broker."""

    def tell(self, sessions: int, gone: bool) -> None:
        """Write how many sessions of this process the broker has, and whether the broker is gone for this process."""

    def sessions(self) -> int:
        """Return how many sessions of the other processes the broker has."""

    def gone(self) -> bool:
        """Return whether another process cannot reach the broker."""


class Sight(NamedTuple):
    """How a broker was at one moment: the number of its newest session, how many answers and troubles were counted
    until then, and whether it was well.
    """

    joined: int
    answers: int
    troubles: int
    well: bool


@dataclass(slots=True, eq=False, repr=False)
class Health:
    """What all sessions together know of one broker's health. `chance` returns numbers from 0 up to 1.

    A broker is up once it answered CONNECT in time. A broker that failed is left out for a pause, which is longer after
    each failure; then one session or probe tries it, and the others wait for the result. A broker that closes a
    connection after a client's CONNECT, or during a session, may have done so because of that client: it is only
    doubted until its next answer. Take a `Sight` when something suspect is sent; `well_since` tells later whether the
    broker was well meanwhile.

    `up`: the last result; None: there is none. `paused`: by an operator. `coming`: how many sessions are on their way
    to it. `failures`: in a row. `out_until`: when the pause ends; 0: there is none. `doubted`: a probe is needed.
    `others`: what other processes of the relay know of it.
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
        """Take it out of service for an operator. Return whether it was in service until now."""
        before, self.paused = self.paused, True
        return not before

    def resume(self) -> bool:
        """Take it into service again. Return whether it was out of service until now."""
        before, self.paused = self.paused, False
        return before

    @property
    def sessions(self) -> int:
        """How many sessions it serves."""
        return len(self._serving)

    def joined(self) -> int:
        """Count one more session. Return its number, for `left`."""
        self._joined += 1
        self._serving[self._joined] = None
        if self.others is not None:
            self.others.tell(len(self._serving), self._gone)
        return self._joined

    def left(self, number: int) -> None:
        """Count the session with this number no more."""
        del self._serving[number]
        if self.others is not None:
            self.others.tell(len(self._serving), self._gone)

    def shared(self) -> int:
        """Return how many sessions all processes of the relay have there."""
        return len(self._serving) if self.others is None else len(self._serving) + self.others.sessions()

    def gone(self, now: float) -> bool:
        """Return whether its sessions have to go elsewhere: it fell silent, or was unreachable for `GRACE` seconds."""
        gone = now >= self._down_since + GRACE
        if gone is not self._gone:
            self._gone = gone
            if self.others is not None:
                self.others.tell(len(self._serving), self._gone)
        return gone or (self.others is not None and self.others.gone())

    def answered(self) -> None:
        """It answered CONNECTED in time."""
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
        pause nothing is counted, so many sessions count one failure only once.
        """
        self.up = self.doubted = False
        self._down_since = -inf if silent else min(self._down_since, now)
        self._troubled = True
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
        """A session lost its connection to the broker; `suspect`: the session may be the cause. The broker is doubted
        until its next answer, but not counted as failed.
        """
        self._troubled = True
        self._troubles += not suspect

    def doubt(self, since: Sight) -> None:
        """The broker closed a connection after CONNECT, or did not confirm; perhaps the client caused it. A probe is
        due, unless the broker answered anyone after `since`.
        """
        if self._answers == since.answers:
            self.doubted = True

    def sight(self) -> Sight:
        """Return the broker's present state; give it to the questions below later."""
        return Sight(self._joined, self._answers, self._troubles, self.up is True and not self._troubled)

    def unanswered(self, sight: Sight) -> Sight:
        """Return the sight without the answers until now, so that only later answers show that the broker was well."""
        return sight._replace(answers=self._answers)

    def answered_since(self, sight: Sight) -> bool:
        """Return whether the broker has answered any CONNECT since that moment."""
        return self._answers != sight.answers

    def well_since(self, sight: Sight) -> bool:
        """Return whether it was well since then: it still serves an older session, or has answered since, and did not
        fail or close an unsuspected session meanwhile.
        """
        return self._serves_since(sight) or (self.answered_since(sight) and self._troubles == sight.troubles)

    def disproved(self, sight: Sight) -> bool:
        """Return whether it can never be shown that the broker was well all the time since then."""
        return self._troubles != sight.troubles and not self._serves_since(sight)

    def _serves_since(self, sight: Sight) -> bool:
        # Not the dict's first: a dict goes through all that was deleted in front of it.
        while self._oldest <= self._joined and self._oldest not in self._serving:
            self._oldest += 1
        return self._oldest <= sight.joined

    def out(self, now: float) -> bool:
        """Whether the broker is left out now: because it failed, or because another session is trying it again."""
        return now < self.out_until or now < self._trial_until

    def trial(self, now: float) -> None:
        """A session tries the broker now. After a pause the others leave it out until `answered` or `failed`."""
        if self.up is False and not self.out(now):
            self._trial_until = now + self._pause

    def slot(self, rate: float, now: float) -> float:
        """Return when the next session may come back, at `rate` sessions a second. Each call takes one slot."""
        if not rate:
            return now
        at = max(now, self._slot)
        self._slot = at + 1 / rate
        return at


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
        """Return how many passes a search has, for a new client (`start`) or after a loss; negative: any number."""
        if not start:
            return self.attempts
        most = self.startup_attempts if self.startup_attempts >= 0 else self.attempts
        return most or 1


TOLERANCE: Final = 0.1
"""A broker may have more or fewer sessions than its share by this part of it, and by one session in any case."""

REMEMBERED: Final = 60.0
"""Seconds for which new sessions still go to a broker that all sessions have left, with `Policy.TOGETHER`."""


class BrokerTally(NamedTuple):
    """The counts of a broker: frames and bytes of its sessions; losses after which a session continued; SENDs to
    queues; and MESSAGEs from queues that were not returned.
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
        """The estimated number of messages in its queues, from what passed the relay."""
        return max(self.queue_sends - self.queue_messages, 0)

    def plus(self, other: "BrokerTally") -> "BrokerTally":
        """Return the sum of both."""
        return BrokerTally._make(map(add, self, other))


@dataclass(slots=True, eq=False, repr=False)
class Broker:
    """One address, and what was learnt of it.

    `endpoint`: a Twisted client endpoint string, or `memory:` for the embedded broker. `path`: of a WebSocket.
    `versions`: those that it named when it refused ours. `profile`: its product. `tally`: counts of connections that
    ended.
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
        """Count this too."""
        self.tally = BrokerTally._make(map(add, self.tally, more))


class Shift(NamedTuple):
    """Ask so many `sessions` of `origin` to leave for `target`."""

    origin: Broker
    target: Broker
    sessions: int


@dataclass(slots=True, eq=False, repr=False)
class Group:
    """Brokers under one policy. `reconnect`: None for a plain address: one attempt. `name`: for texts to clients.
    `together`: all sessions are to be on one broker. `balanced`: sessions move to another broker while all is well.
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
        """Use the brokers, weights and policy of `like` from now on. Sessions on other brokers stay there."""
        for broker, same in zip(brokers, like.brokers, strict=True):
            broker.weight = same.weight
        self.name, self.reconnect = like.name, like.reconnect
        self.policy, self.together = like.policy, like.together
        self.brokers = brokers
        self.balanced = any(map(self.wants, brokers))
        self._turns = {each: self._turns.get(each, 0) for each in brokers}

    def home(self, now: float) -> Broker | None:
        """Return the broker that has most sessions, if all sessions are to be on one; None if no broker has any."""
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
        """Return all brokers in the order in which a session tries them. Uses up one turn of the round-robin."""
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
        """Return only the broker that has the sessions, because a session on another broker would be alone there."""
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
        """Return the brokers in random order; those with more weight tend to come first (weighted sampling by
        Efraimidis and Spirakis).
        """
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

    # Which sessions move to another broker while all is well

    def wants(self, broker: Broker) -> bool:
        """Return whether sessions on other brokers go to this one when it is up, so that a probe has to find out."""
        if self.reconnect is None or len(self.brokers) < 2:
            return False
        if self.policy is Policy.FAILOVER:
            return self.reconnect.priority_backup and broker is self.brokers[0]
        return True  # with `together`, too: a session may be on another broker

    def shifts(self, placed: Mapping[Broker, int], most: int, now: float) -> list[Shift]:
        """Return the sessions that are to move now, at most `most` in all. `placed`: sessions by broker; a session
        that was already asked to move counts for its new broker. Brokers that may not be well are left out. Within a
        tolerance nothing moves.
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
    """Return a broker's sessions, plus those on their way and one more, divided by its weight."""
    health = broker.health
    return (health.sessions + health.coming + 1) / broker.weight


def alone(broker: Broker) -> tuple[Group, ...]:
    """Return the single group of an upstream that is a plain address."""
    return (Group(str(broker), (broker,)),)


def _well(broker: Broker, now: float) -> bool:
    health = broker.health
    return health.up is True and not health.paused and not health.out(now)


def _homeward(home: Broker, group: Group, placed: Mapping[Broker, int], most: int, now: float) -> list[Shift]:
    """Move all sessions to this broker. Sessions of a paused broker are left out: they were asked when it was
    paused.
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
    """Move sessions one by one, from the broker that has most above its share to the broker that has most below it."""
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
    return [Shift(*way, count) for way, count in counts.items()]
