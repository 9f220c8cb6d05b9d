"""A session's search for a broker: which broker it tries next, and when; and whether its client is to blame that no
broker accepts it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from typing import Final, NamedTuple

from stomprelay.relay.model.group import Broker, Group, Reconnect, Sight, spread
from stomprelay.session.handshake import Offer

_ONCE: Final = Reconnect(attempts=0, startup_attempts=1)

SHORTEST: Final = 0.01
"""The shortest pause between two passes: none at all would be a loop wherever connections are refused at once."""

SETTLED: Final = 1.0
"""Seconds for which a broker found after a loss has to stay before the search counts as over."""

CLOSED: Final = "the broker closed the connection when it was sent CONNECT"
STRANGE: Final = "the broker did not answer CONNECT with CONNECTED"

PROOF: Final = 2
"""So many attempts must have ended at brokers that were well."""

REST: Final = 2.0
"""Seconds until the next attempt of a client whose CONNECT as many brokers turned away: a probe is due within one."""


class Attempt(NamedTuple):
    """Try this broker at this time; None: no broker may be tried at all, ask again when one was resumed."""

    broker: Broker | None
    at: float


@dataclass(slots=True, eq=False, repr=False)
class Suspicion:
    """The attempts of one client that no broker accepted yet: whether its CONNECT is the reason. RabbitMQ closes the
    connection for some logins without a word, like a broker that dies.

    The client is to blame when two attempts ended at brokers that were well before and after, and accepted other
    clients meanwhile (`Health.well_since`). After two attempts a pause leaves time for a probe, where no other client
    comes.

    Call `turned_away` when a broker ended one after CONNECT, then ask `proved`, and again before the next attempt,
    which has to wait `rest` seconds. `fault` describes the last one, for a client.
    """

    fault: str = ""
    _count: int = 0
    _attempts: tuple[tuple[Broker, Sight], ...] = ()

    def turned_away(self, broker: Broker, sight: Sight, fault: str) -> None:
        """A broker that was sent CONNECT did not take the session; `sight` is how it was when it was asked."""
        self._count += 1
        self.fault = fault
        if sight.well:
            self._attempts = (*self._attempts[-PROOF:], (broker, sight))

    @property
    def proved(self) -> bool:
        """Whether the client's CONNECT is to blame."""
        certain = (
            broker.health.answered_since(sight) and broker.health.well_since(sight)
            for broker, sight in self._attempts
        )
        return sum(certain) >= PROOF

    @property
    def rest(self) -> float:
        """The seconds until the next attempt, at least."""
        return REST if self._count >= PROOF else 0.0


@dataclass(slots=True, eq=False, repr=False)
class Schedule:
    """The order and the times of a session's attempts in one group. As in ActiveMQ's failover transport, a pass tries
    every broker once, and pauses between passes grow. Brokers that failed come last; paused ones are not tried.

    Call `begin`, then do what `next` returns until a broker accepts or there is no next. When an attempt is due and
    does not `stand`, call `next` again. Call `reconsider` when a broker was resumed or came back, `found` when one
    accepted, `ended` when the session is over.

    `last`: the broker of the last attempt, or the one that the session moved to. `passes`: passes without success.
    `vain`: a note must be logged now that no broker was found in so many passes. `deadline`: when the session is given
    up, but see `kept`. `_rate` bounds the sessions a second that return. `offer`: what brokers are asked with.
    `suspicion`: there is one once a broker turned the client away.
    """

    _group: Group
    _rate: float
    _chance: Callable[[], float]
    offer: Offer
    suspicion: Suspicion | None = None
    last: Broker | None = None
    passes: int = 0
    vain: bool = False
    deadline: float = inf
    _options: Reconnect = _ONCE
    _start: bool = True
    _found_at: float = -inf
    _left: list[Broker] = field(default_factory=list)
    _late: bool = False
    _held: bool = False
    _ready_at: float = 0.0
    _delay: float = 0.0
    _most: int = 0
    _before: Broker | None = None
    _bound: Broker | None = None
    _target: Broker | None = None
    _slot: tuple[Broker | None, float] = (None, 0.0)

    def __post_init__(self) -> None:
        self._options = self._group.reconnect or _ONCE

    def begin(self, now: float, *, start: bool, prefer: Broker | None = None) -> None:
        """Begin a search: for a new client (`start`), or for one that lost or left its broker. A search whose broker
        was lost at once goes on. A session that was moved does not wait, and always has one pass.
        """
        if self._target is not None:
            self.ended()
        self._start = start
        sent = prefer is not None or (self.last is not None and self.last.health.paused)
        self._most = self._options.most(start=start) or int(sent)
        if not sent and now < self._found_at + SETTLED:
            self.passes = 0
            self._wait(now, max(self._delay, SHORTEST))
            self._left = self._pass(self._ready_at)
            return
        self._renew(now, prefer)
        self._late = not start
        if not start and not sent:
            self._wait(now, self._delay)

    def next(self, now: float) -> Attempt | None:
        """The next broker to try, at a time that is not over; None when the search is over without success."""
        if self._target is not None:
            self.ended()
        self.vain = False
        if self.kept():
            return Attempt(None, inf)
        if self._held:
            self._renew(now)
        if not self._most or now >= self.deadline:
            return None
        left = self._left
        for each in left:
            if each.health.paused:
                left = self._open()
                break
        if not left:
            if (
                self._bound is None
            ):  # the broker that has the sessions is waited for, which is no pass in vain
                self.passes += 1
                self.vain = self.passes % self._options.warn_after == 0
            if 0 < self._most <= self.passes:
                return None
            self._late = True
            self._wait(now, max(self._delay, SHORTEST))
            self._left = self._pass(self._ready_at)
            left = self._open()
        at = max(now, self._ready_at)
        broker = left[0]
        for each in left:
            if not each.health.out(at):
                broker = each
                break
        self._left.remove(broker)
        self._before, self.last = self.last, broker
        self._target = broker
        broker.health.coming += 1
        return Attempt(broker, at + self._turn(broker, now) if self._late else at)

    def stands(self, now: float) -> bool:
        """Whether the attempt of `next` is still worth it when its time has come. If not, call `next` again."""
        broker = self.last
        if broker is None:
            return False
        health = broker.health
        home = self._group.home(now) if self._group.together else None
        if home is not self._bound:
            self.last = self._before
            self._left = self._pass(now)
            return False
        if health.paused or (health.out(now) and any(not each.health.out(now) for each in self._open())):
            self._left.append(broker)
            self.last = self._before
            return False
        health.trial(now)
        return True

    def reconsider(self, now: float) -> None:
        """A broker was resumed or came back. `next` now waits for no pause, only for the session's turn."""
        if self._target is not None:
            self.last = self._before
        self.ended()
        self._ready_at = now
        self._late = True
        self._left = self._pass(now)

    def found(self, now: float) -> None:
        """A broker accepted, and counts the session among its own."""
        self.ended()
        self._found_at = -inf if self._start else now

    def ended(self) -> None:
        """The attempt is over, well or not: this session is not on its way to a broker any more."""
        if self._target is not None:
            self._target.health.coming -= 1
            self._target = None

    def verdict(self, now: float) -> str:
        """Why no broker is sought any more, in words that a client may read."""
        if now >= self.deadline:
            return f"none could be had within {self._options.timeout:g} s"
        return f"none could be had in {self.passes} attempt{'s'[: self.passes != 1]}"

    def kept(self) -> bool:
        """Whether an operator paused all brokers: the search is not given up then, and begins anew after it."""
        for each in self._group.brokers:
            if not each.health.paused:
                return False
        self._held = True
        self.deadline = inf
        return True

    def _renew(self, now: float, prefer: Broker | None = None) -> None:
        """All counts begin anew, with a pass that begins now."""
        self._held = False
        self._late = True
        self._ready_at = now
        self._delay = self._options.initial_delay
        self.deadline = now + self._options.timeout
        self.passes = 0
        self._left = self._pass(now, prefer)

    def _wait(self, now: float, delay: float) -> None:
        """The next pass begins after a delay, and the one after it, if delays grow, after a longer one."""
        options = self._options
        self._ready_at = now + spread(
            min(delay, max(options.longest_delay, SHORTEST)), self._chance, options.jitter
        )
        if options.exponential:
            self._delay = min(max(delay, SHORTEST) * options.multiplier, options.longest_delay)

    def _pass(self, now: float, prefer: Broker | None = None) -> list[Broker]:
        """Return the brokers to try in a pass, in order."""
        self._bound = self._group.home(now) if self._group.together else None
        order = self._group.order(now, self._chance, prefer)
        if self.last in order and self.last is not prefer:
            order.remove(self.last)
            order.append(self.last)
        return order

    def _open(self) -> list[Broker]:
        """Return the brokers that this pass may try and has not tried yet."""
        return [each for each in self._left if not each.health.paused]

    def _turn(self, broker: Broker, now: float) -> float:
        """Return the seconds until this session's turn, which `reconsider` does not change."""
        if self._slot[0] is not broker or self._slot[1] < now:
            self._slot = broker, broker.health.slot(self._rate, now)
        return self._slot[1] - now
