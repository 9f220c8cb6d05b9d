"""What is known of a broker's health, by all sessions together.

A broker is up when it answered CONNECTED in time. One that failed is left out for a while, longer each time. When
that time is over one session (or probe) tries it, and the others wait for what it finds; see `Schedule` for who is
tried when all of them failed.

A broker that was sent a client's CONNECT and closed the connection has not failed: what the client said may be the
cause. It is doubted, until a probe, or the CONNECT of another client, shows how it is.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple


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


class Sight(NamedTuple):
    """How a broker was when a session began to ask it: how many it had answered, how often it had been in trouble,
    and whether it was known to be well.
    """

    answers: int
    troubles: int
    well: bool


class Health:
    """One broker's health. `chance` is a source of numbers from 0 up to 1.

    `up` is what was seen last: None when nothing was yet. `paused`: an operator took it out of service. `sessions`
    counts those that it serves, `coming` those that are on their way to it (schedules keep this one). `failures`
    counts those in a row, `out_until` is the end of the pause for them, 0 when there is none. `doubted`: a probe has to
    find out how it is, when its pause is over if it has one.
    """

    __slots__ = (
        "_answers",
        "_pause",
        "_slot",
        "_trial_until",
        "_troubled",
        "_troubles",
        "coming",
        "doubted",
        "failures",
        "out_until",
        "paused",
        "sessions",
        "up",
    )

    def __init__(self) -> None:
        self.up: bool | None = None
        self.paused = False
        self.sessions = 0
        self.coming = 0
        self.failures = 0
        self.out_until = 0.0
        self.doubted = False
        self._answers = 0
        self._troubles = 0
        self._troubled = False
        self._pause = 0.0
        self._trial_until = 0.0
        self._slot = 0.0

    def joined(self) -> None:
        """Count one more session that the broker serves."""
        self.sessions += 1

    def left(self) -> None:
        """Count one session less that the broker serves."""
        self.sessions -= 1

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
        self.out_until = self._pause = self._trial_until = 0.0

    def failed(self, checks: Checks, now: float, chance: Callable[[], float]) -> None:
        """It could not be reached, did not answer CONNECT in time, or fell silent.

        What a thousand sessions find out at once counts once: during a pause nothing counts, nor while an operator
        has taken the broker out of service.
        """
        self.up = self.doubted = False
        self._in_trouble()
        if self.paused or now < self.out_until:
            return
        self.failures += 1
        self._trial_until = 0.0
        over = self.failures - checks.failures
        if over >= 0:
            self._pause = spread(min(checks.pause * 2.0 ** min(over, 64), checks.longest_pause), chance)
            self.out_until = now + self._pause

    def lost(self) -> None:
        """A session that it served lost its connection, which may be the session's own fault."""
        self._in_trouble()

    def _in_trouble(self) -> None:
        self._troubles += 1
        self._troubled = True

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
        """Return how it is now; give it to `doubt`, `answered_since` and `well_since` later."""
        return Sight(self._answers, self._troubles, self.up is True and not self._troubled)

    def answered_since(self, sight: Sight) -> bool:
        """Return whether it answered anybody CONNECTED since then."""
        return self._answers != sight.answers

    def well_since(self, sight: Sight) -> bool:
        """Return whether it is certain that it was well all the time since then: it was known to be, has answered
        somebody again, and neither failed nor lost a session meanwhile.
        """
        return sight.well and self.answered_since(sight) and self._troubles == sight.troubles

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
