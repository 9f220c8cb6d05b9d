"""What all sessions together know of a broker's health.

A broker is up when it answered CONNECTED in time. One that failed is left out, longer each time; then one session or
probe tries it while the others wait. One that closes a connection after a client's CONNECT, or during a session, is
only doubted until it answers again. A `Sight` is taken when something suspect is sent, and `Health.well_since` tells
later whether the broker was well.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Final, NamedTuple, Protocol


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


JITTER: Final = 0.2
"""The share by which a pause, or the time between two probes, is longer or shorter at random."""


def spread(time: float, chance: Callable[[], float], jitter: float = JITTER) -> float:
    """The time, made longer or shorter at random by up to a share of it."""
    return time * (1 - jitter + 2 * jitter * chance())


GRACE: Final = 5.0
"""Seconds that `Policy.TOGETHER` waits for a broker that cannot be reached and still serves sessions."""


class Others(Protocol):
    """What the other processes of the relay know of a broker."""

    def tell(self, sessions: int, gone: bool) -> None:
        """Tell them how many sessions this process has there, and whether it finds the broker gone."""

    def sessions(self) -> int:
        """Return how many sessions they have there."""

    def gone(self) -> bool:
        """Return whether one of them finds the broker gone."""


class Sight(NamedTuple):
    """A broker at a time: the number of its newest session, its answers and troubles, and whether it was well."""

    joined: int
    answers: int
    troubles: int
    well: bool


class Health:
    """One broker's health. `chance` returns numbers from 0 up to 1.

    `up`: what was seen last; None: nothing. `paused`: by an operator. `coming`: sessions on their way (schedules keep
    this). `failures`: in a row. `out_until`: the end of the pause; 0: none. `doubted`: a probe is needed. `others`:
    what other processes know of it.
    """

    __slots__ = (
        "_answers",
        "_down_since",
        "_gone",
        "_joined",
        "_oldest",
        "_pause",
        "_serving",
        "_slot",
        "_trial_until",
        "_troubled",
        "_troubles",
        "coming",
        "doubted",
        "failures",
        "others",
        "out_until",
        "paused",
        "up",
    )

    def __init__(self) -> None:
        self.up: bool | None = None
        self.paused = False
        self.coming = 0
        self.failures = 0
        self.out_until = 0.0
        self.doubted = False
        self.others: Others | None = None
        self._down_since = inf
        self._gone = False
        self._joined = 0
        self._serving: dict[int, None] = {}
        self._oldest = 1
        self._answers = 0
        self._troubles = 0
        self._troubled = False
        self._pause = 0.0
        self._trial_until = 0.0
        self._slot = 0.0

    def share(self, others: Others) -> None:
        """Share what is known of the broker with other processes of the relay from now on."""
        self.others = others

    @property
    def sessions(self) -> int:
        """How many sessions it serves."""
        return len(self._serving)

    def joined(self) -> int:
        """It serves one more session. Returns the number of that session, for `left`."""
        self._joined += 1
        self._serving[self._joined] = None
        self._tell()
        return self._joined

    def left(self, number: int) -> None:
        """It does not serve the session with this number any more."""
        del self._serving[number]
        self._tell()

    def _tell(self) -> None:
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
            self._tell()
        return gone or (self.others is not None and self.others.gone())

    def expect(self, sessions: int) -> None:
        """So many more sessions are on their way to it; -1 is one less."""
        self.coming += sessions

    def pause(self) -> None:
        """An operator takes it out of service."""
        self.paused = True

    def resume(self) -> None:
        """An operator takes it into service again."""
        self.paused = False

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
        """It could not be reached, did not answer CONNECT in time, or fell `silent`. Nothing counts during a pause, so
        that many sessions count one failure once.
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
        """A session that it served lost its connection; `suspect`: the session may be the cause. That leaves a doubt
        until its next answer, but is no trouble.
        """
        self._troubled = True
        self._troubles += not suspect

    def doubt(self, since: Sight) -> None:
        """It closed a connection on CONNECT, or did not confirm, perhaps through the client's fault. A probe is due,
        unless it answered somebody after `since`.
        """
        if self._answers == since.answers:
            self.doubted = True

    def probed(self) -> None:
        """A probe begins, which will show how it is."""
        self.doubted = False

    def sight(self) -> Sight:
        """Return how it is now; give it to the questions below later."""
        return Sight(self._joined, self._answers, self._troubles, self.up is True and not self._troubled)

    def unanswered(self, sight: Sight) -> Sight:
        """Return the sight without the answers until now: only later answers show that it was well."""
        return sight._replace(answers=self._answers)

    def answered_since(self, sight: Sight) -> bool:
        """Return whether it answered anybody CONNECTED since then."""
        return self._answers != sight.answers

    def well_since(self, sight: Sight) -> bool:
        """Return whether it was well since then: it still serves an older session, or has answered since, and did not
        fail or close an unsuspected session meanwhile.
        """
        return self._serves_since(sight) or (self.answered_since(sight) and self._troubles == sight.troubles)

    def disproved(self, sight: Sight) -> bool:
        """Return whether there will never be evidence that it was well all the time since then."""
        return self._troubles != sight.troubles and not self._serves_since(sight)

    def _serves_since(self, sight: Sight) -> bool:
        # Not the dict's first: a dict goes through all that was deleted in front of it.
        while self._oldest <= self._joined and self._oldest not in self._serving:
            self._oldest += 1
        return self._oldest <= sight.joined

    def out(self, now: float) -> bool:
        """Whether it is left out at this time: for having failed, or because another session is trying it again."""
        return now < self.out_until or now < self._trial_until

    def trial(self, now: float) -> None:
        """A session tries it now. After a pause the others leave it out until `answered` or `failed`."""
        if self.up is False and not self.out(now):
            self._trial_until = now + self._pause

    def slot(self, rate: float, now: float) -> float:
        """Return when the next session may come back to it, at so many a second. Each call takes one slot."""
        if not rate:
            return now
        at = max(now, self._slot)
        self._slot = at + 1 / rate
        return at
