"""What is known of a broker's health, by all sessions together.

A broker is up when it answered CONNECTED in time. One that failed is left out for a while, longer each time. When
that time is over one session (or probe) tries it, and the others wait for what it finds; see `Schedule` for who is
tried when all of them failed.

A broker that was sent a client's CONNECT and closed the connection has not failed: what the client said may be the
cause. It is doubted, until a probe, or the CONNECT of another client, shows how it is. Nor has one that closed the
connection of a session that it served.

Whoever suspects a client's CONNECT, or a frame, takes a `Sight` when it is sent and asks later whether the broker was
well since: `Health.well_since`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Final, NamedTuple, Protocol


@dataclass(frozen=True)
class Checks:
    """When a broker is left out, and how it is probed. Times in seconds.

    `failures`: so many in a row put it out. `pause`: for how long at first; it doubles with each further failure up
    to `longest_pause`, each time up to a fifth longer or shorter. `probe`: how often it is asked for CONNECTED by
    the relay itself; 0 is never. `destination`: where a probe also sends an empty message, whose receipt it awaits.
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
"""Seconds for which a broker that cannot be reached and still serves sessions is waited for, where all are to be
together; see `Policy.TOGETHER`.
"""


class Others(Protocol):
    """What the other processes of the relay know of a broker."""

    def tell(self, sessions: int, gone: bool) -> None:
        """Tell them how many sessions this process has there, and whether it finds the broker gone."""

    def sessions(self) -> int:
        """Return how many sessions they have there."""

    def gone(self) -> bool:
        """Return whether one of them finds the broker gone."""


class Sight(NamedTuple):
    """How a broker was at a time: the number of the session that had joined last, how many it had answered, how often
    it had been in trouble, and whether it was known to be well: it answered after its last trouble.
    """

    joined: int
    answers: int
    troubles: int
    well: bool


class Health:
    """One broker's health. `chance` is a source of numbers from 0 up to 1.

    `up` is what was seen last: None when nothing was yet. `paused`: an operator took it out of service. `coming`
    counts the sessions that are on their way to it (schedules keep this one). `failures`
    counts those in a row, `out_until` is the end of the pause for them, 0 when there is none. `doubted`: a probe has to
    find out how it is, when its pause is over if it has one. `others`: what other processes of the relay know of it.
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
        """Return whether its sessions have to go elsewhere, as one process of the relay found out: it fell silent, or
        could not be reached for `GRACE` seconds.
        """
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
        """It could not be reached, did not answer CONNECT in time, or fell `silent`.

        What a thousand sessions find out at once counts once: during a pause nothing counts, nor while an operator
        has taken the broker out of service.
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
        """A session that it served lost its connection. `suspect`: what that session did may be why. Such a loss leaves
        doubt about the broker until its next answer, but is no trouble that speaks for others: a crowd of clients that
        all send what brokers close connections for would shield each other.
        """
        self._troubled = True
        self._troubles += not suspect

    def doubt(self, since: Sight) -> None:
        """It did not answer a client as it should, which may be due to what the client sent: closed the connection on
        its CONNECT, or did not confirm what came later. `since` is from when it was asked. Nothing follows for other
        sessions but that a probe is due, unless it answered somebody meanwhile.
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
        """Return the sight as if what was answered until now had been answered before: only later answers show then
        that it was well.
        """
        return sight._replace(answers=self._answers)

    def answered_since(self, sight: Sight) -> bool:
        """Return whether it answered anybody CONNECTED since then."""
        return self._answers != sight.answers

    def well_since(self, sight: Sight) -> bool:
        """Return whether there is evidence that it was well all the time since then. It still serves a session that
        joined before, which one that died does not; or it has answered somebody since, and meanwhile neither failed
        nor closed the connection of a session that is not known to be why, as one does that is killed or cut off.
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
        """A session tries it now. Where its pause is just over the others leave it out for as long again, or until
        `answered` or `failed` is called.
        """
        if self.up is False and not self.out(now):
            self._trial_until = now + self._pause

    def slot(self, rate: float, now: float) -> float:
        """When the next session may come back to it, at so many a second; each call takes one slot.

        A slot that is not used is lost; the later ones keep their times.
        """
        if not rate:
            return now
        at = max(now, self._slot)
        self._slot = at + 1 / rate
        return at
