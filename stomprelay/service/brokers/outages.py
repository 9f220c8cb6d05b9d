"""Brokers in trouble, for all sessions together: a line in the log when a broker is down and when it is back, and the
last outages for the dashboard.
"""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from stomprelay.relay.model.group import Broker
from stomprelay.service.brokers.brokers import Brokers
from stomprelay.service.connection.timers import Timed, Timers
from stomprelay.service.log import counted, logger
from stomprelay.session.effects import Event, Note
from stomprelay.wire.errors import visible

_log: Final = logger()

EVERY: Final = 1.0
"""Seconds between two checks of brokers in trouble, in which sessions may come back before a line is written."""
QUIET: Final = 10.0
"""Seconds after which a broker that is not down, and lost no more sessions, is no longer in trouble."""
LAST: Final = 50
LONGEST: Final = 200
"""The largest number of characters of a reason: a broker may have chosen the text."""

Place = tuple[str, str]


class Outage(NamedTuple):
    """A time of trouble with a broker, in seconds since 1970; `ended` is None while it lasts. `down`: the broker could
    not be reached. Of the sessions that `lost` it, some continued `elsewhere`, others `waited`. `failed`: the number of
    failed attempts; `reason`: of the last.
    """

    upstream: str
    broker: str
    began: float
    ended: float | None
    down: bool
    lost: int
    elsewhere: int
    waited: int
    failed: int
    reason: str

    def joined(self, other: "Outage") -> "Outage":
        """Return this outage and another one of the same broker, as another process saw it, as one."""
        over = self.ended is not None and other.ended is not None
        return Outage(
            self.upstream,
            self.broker,
            min(self.began, other.began),
            max(self.ended or 0.0, other.ended or 0.0) if over else None,
            self.down or other.down,
            self.lost + other.lost,
            self.elsewhere + other.elsewhere,
            self.waited + other.waited,
            self.failed + other.failed,
            self.reason or other.reason,
        )


@dataclass(slots=True, eq=False, repr=False)
class _Trouble:
    """A broker in trouble since `began`; `since` is the same in seconds since 1970. Counts as in `Outage`. `down`: the
    log says that it is down. `told`: how many losses and failures the log has reported.
    """

    began: float
    since: float
    answered: float
    until: float
    lost: int = 0
    failed: int = 0
    elsewhere: int = 0
    waited: int = 0
    told: int = 0
    down: bool = False
    reason: str = ""

    def hurt(self, reason: str, *, lost: bool) -> None:
        """Count a session that lost the broker, or an attempt to reach it that failed."""
        self.lost += lost
        self.failed += not lost
        self.reason = reason

    def news(self, brokers: Iterable[Broker], now: float) -> tuple[str, bool]:
        """Return the next line of the log ("" for none), and whether the trouble is over."""
        down = any(broker.health.up is False for broker in brokers)
        what = ""
        if down and not self.down:
            self.down, what = True, "is down"
        elif not down and self.down:
            return "", now >= self.answered + EVERY
        elif not down and (not self.told or now >= self.until):
            if self.lost + self.failed == self.told:
                return "", True
            what = "lost sessions" if self.lost else "refused sessions"
            what, self.until = f"{what} again" if self.told else what, now + QUIET
        if what:
            self.told = self.lost + self.failed
        return what, False

    def spell(self) -> str:
        """Return the effect on sessions, in words."""
        return (
            f"{counted(self.lost, 'session')} lost it, {self.elsewhere} went on elsewhere, "
            f"{self.waited} waited for it, {counted(self.failed, 'attempt')} failed"
        )

    def shown(self, place: Place, ended: float | None = None) -> Outage:
        """Return the outage for the dashboard, with this upstream and broker; `ended` if it is over."""
        counts = self.lost, self.elsewhere, self.waited, self.failed
        return Outage(*place, self.since, ended, self.down, *counts, _short(self.reason))


class Outages(Timed):
    """Collects what sessions and probes report about brokers; call `stop` at the end. `clock`: nanoseconds
    since 1970.
    """

    __slots__ = ("_brokers", "_clock", "_last", "_seconds", "_timers", "_troubles")

    def __init__(
        self, brokers: Brokers, timers: Timers, seconds: Callable[[], float], clock: Callable[[], int]
    ) -> None:
        super().__init__()
        self._clock = clock
        self._last: deque[Outage] = deque(maxlen=LAST)
        self._timers = timers
        self._seconds = seconds
        self._brokers: dict[Place, list[Broker]] = {}
        self._troubles: dict[Place, _Trouble] = {}
        self.change(brokers)

    def change(self, brokers: Brokers) -> None:
        """Collect notes about these brokers from now on. Notes about others are logged, and forgotten."""
        known, self._brokers = self._brokers, {}
        for each in brokers:
            self._brokers.setdefault((each.upstream.name, str(each.broker)), []).append(each.broker)
        for place in [each for each in self._troubles if each not in self._brokers]:
            self._look(place, self._troubles.pop(place), known[place], self._seconds())

    def noted(self, note: Note) -> None:
        """Count a note of a session or of a probe about a broker."""
        facts = note.facts
        if "broker" not in facts:
            return
        place = str(facts.get("upstream")), str(facts["broker"])
        if place not in self._brokers:
            return
        if note.event in (Event.CONNECTED, Event.RECOVERED):
            self._found(place, str(facts.get("lost", "")))
        elif note.detail and note.event in (Event.LOST, Event.REFUSED):
            self._trouble(place).hurt(str(facts.get("reason", "")), lost=note.event is Event.LOST)

    def probed(self, note: Note) -> None:
        """Record the result of a probe. A failed probe loses no session."""
        place = str(note.facts.get("upstream")), str(note.facts.get("broker"))
        if place in self._brokers and note.event is Event.LOST:
            self._trouble(place).hurt(str(note.facts.get("reason", "")), lost=False)
        elif note.event is Event.CONNECTED:
            self._found(place, "")

    def _trouble(self, place: Place) -> _Trouble:
        if not self._troubles:
            self._timers.set(self, self._seconds() + EVERY)
        if place not in self._troubles:
            now = self._seconds()
            self._troubles[place] = _Trouble(now, self.time, answered=now, until=now + QUIET)
        return self._troubles[place]

    @property
    def time(self) -> float:
        """Return the time in seconds since 1970."""
        return self._clock() / 1e9

    def shown(self) -> tuple[Outage, ...]:
        """Return the last `LAST` ended outages and the current ones."""
        return *self._last, *(trouble.shown(place) for place, trouble in self._troubles.items())

    def reason(self, upstream: str, broker: str) -> str:
        """Return the reason of a broker's trouble, possibly in the broker's own words; "" if there is none."""
        trouble = self._troubles.get((upstream, broker))
        return "" if trouble is None else _short(trouble.reason)

    def _found(self, place: Place, lost: str) -> None:
        if not self._troubles:
            return
        before = self._troubles.get((place[0], lost))
        if before is not None:
            before.waited += place[1] == lost
            before.elsewhere += place[1] != lost
        here = self._troubles.get(place)
        if here is not None:
            here.answered = self._seconds()

    def woke(self, now: float) -> None:
        """Log news about brokers; the timer calls this."""
        for place, trouble in tuple(self._troubles.items()):
            if self._look(place, trouble, self._brokers[place], now):
                del self._troubles[place]
                self._last.append(trouble.shown(place, self.time))
        if self._troubles:
            self._timers.set(self, now + EVERY)

    def stop(self) -> None:
        """Log the remaining news, and stop the timer: the service ends."""
        now = self._seconds()
        for place, trouble in self._troubles.items():
            self._look(place, trouble, self._brokers[place], now)
        self._troubles.clear()
        self._timers.forget(self)

    def _look(self, place: Place, trouble: _Trouble, brokers: Iterable[Broker], now: float) -> bool:
        """Log news about a broker, which several groups may have. Returns whether its trouble is over."""
        what, over = trouble.news(brokers, now)
        if over and trouble.down:
            _log.info(
                "upstream {upstream}: broker {broker} is back after {seconds:.1f} s: {what}",
                upstream=place[0],
                broker=place[1],
                seconds=trouble.answered - trouble.began,
                what=trouble.spell(),
            )
        elif what:
            _log.warn(
                "upstream {upstream}: broker {broker} {what}: {reason} ({so_far} lost it so far)",
                upstream=place[0],
                broker=place[1],
                what=what,
                reason=visible(trouble.reason),
                so_far=counted(trouble.lost, "session"),
            )
        return over


def _short(reason: str) -> str:
    text = visible(reason)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
