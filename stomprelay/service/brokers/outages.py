"""What the log has of brokers in trouble: one line when one is down, and one when it is back, for all sessions.

What each session has to do with it are details of the log, and events of the journal.
"""

from collections.abc import Callable, Iterable
from typing import Final

from stomprelay.relay.model.group import Broker
from stomprelay.service.brokers.brokers import Brokers
from stomprelay.service.connection.timers import Timed, Timers
from stomprelay.service.log import counted, logger, one_line
from stomprelay.session.effects import Event, Note

_log: Final = logger()

EVERY: Final = 1.0
"""Seconds between two looks at brokers in trouble; and so long sessions have to come back before a line is written."""
QUIET: Final = 10.0
"""Seconds after which a broker that is not down, and lost no more sessions, is in trouble no more."""

Place = tuple[str, str]
"""The names of an upstream and of a broker in it."""


class _Trouble:
    """One broker since its first trouble, at `began`. `lost` counts sessions that lost it; of those, `elsewhere` went
    on at another broker and `waited` at this one. `failed` counts attempts to reach it. `down`: the log has it that it
    is down. `told` is how many losses and failures the log has.
    """

    __slots__ = (
        "answered",
        "began",
        "down",
        "elsewhere",
        "failed",
        "lost",
        "reason",
        "told",
        "until",
        "waited",
    )

    def __init__(self, now: float) -> None:
        self.began = now
        self.until = now + QUIET
        self.answered = now
        self.lost = self.failed = self.elsewhere = self.waited = self.told = 0
        self.down = False
        self.reason = ""

    def spell(self) -> str:
        """Return what became of the sessions, in words."""
        return (
            f"{counted(self.lost, 'session')} lost it, {self.elsewhere} went on elsewhere, "
            f"{self.waited} waited for it, {counted(self.failed, 'attempt')} failed"
        )


class Outages(Timed):
    """Gathers what sessions and probes note of brokers; call `noted` with all of it, and `stop` at the end. A timer
    runs only while a broker is in trouble.
    """

    __slots__ = ("_brokers", "_seconds", "_timers", "_troubles")

    def __init__(self, brokers: Brokers, timers: Timers, seconds: Callable[[], float]) -> None:
        super().__init__()
        self._timers = timers
        self._seconds = seconds
        self._brokers: dict[Place, list[Broker]] = {}
        self._troubles: dict[Place, _Trouble] = {}
        self.change(brokers)

    def change(self, brokers: Brokers) -> None:
        """Gather what is noted of these brokers. What is known of others is written, and forgotten."""
        known, self._brokers = self._brokers, {}
        for each in brokers:
            self._brokers.setdefault((each.upstream.name, str(each.broker)), []).append(each.broker)
        for place in [each for each in self._troubles if each not in self._brokers]:
            self._look(place, self._troubles.pop(place), known[place], self._seconds())

    def noted(self, note: Note) -> None:
        """Count what a note of a session or of a probe tells of a broker."""
        facts = note.facts
        place = str(facts.get("upstream")), str(facts.get("broker"))
        if place not in self._brokers:
            return
        if note.event in (Event.CONNECTED, Event.RECOVERED):
            self._found(place, str(facts.get("lost", "")))
        elif note.detail and note.event in (Event.LOST, Event.REFUSED):
            trouble = self._trouble(place)
            trouble.lost += note.event is Event.LOST
            trouble.failed += note.event is Event.REFUSED
            trouble.reason = str(facts.get("reason", ""))

    def probed(self, note: Note) -> None:
        """Note what a probe found out of a broker: it lost no session by that."""
        place = str(note.facts.get("upstream")), str(note.facts.get("broker"))
        if place in self._brokers and note.event is Event.LOST:
            trouble = self._trouble(place)
            trouble.failed += 1
            trouble.reason = str(note.facts.get("reason", ""))
        elif note.event is Event.CONNECTED:
            self._found(place, "")

    def _trouble(self, place: Place) -> _Trouble:
        if not self._troubles:
            self._timers.set(self, self._seconds() + EVERY)
        if place not in self._troubles:
            self._troubles[place] = _Trouble(self._seconds())
        return self._troubles[place]

    def _found(self, place: Place, lost: str) -> None:
        before = self._troubles.get((place[0], lost))
        if before is not None:
            before.waited += place[1] == lost
            before.elsewhere += place[1] != lost
        here = self._troubles.get(place)
        if here is not None:
            here.answered = self._seconds()

    def woke(self, now: float) -> None:
        """Write what is new; the timer calls this."""
        for place, trouble in tuple(self._troubles.items()):
            if self._look(place, trouble, self._brokers[place], now):
                del self._troubles[place]
        if self._troubles:
            self._timers.set(self, now + EVERY)

    def stop(self) -> None:
        """Write what is not written yet, and leave no timer: the service ends."""
        now = self._seconds()
        for place, trouble in self._troubles.items():
            self._look(place, trouble, self._brokers[place], now)
        self._troubles.clear()
        self._timers.forget(self)

    def _look(self, place: Place, trouble: _Trouble, brokers: Iterable[Broker], now: float) -> bool:
        """Write what is new of a broker, which several groups may have. Returns whether it is in trouble no more."""
        down = any(broker.health.up is False for broker in brokers)
        if down and not trouble.down:
            trouble.down = True
            self._write(place, trouble, "is down")
        elif not down and trouble.down:
            if now < trouble.answered + EVERY:
                return False
            _log.info(
                "upstream {upstream}: broker {broker} is back after {seconds:.1f} s: {what}",
                upstream=place[0],
                broker=place[1],
                seconds=trouble.answered - trouble.began,
                what=trouble.spell(),
            )
            return True
        elif not down and (not trouble.told or now >= trouble.until):
            more = trouble.lost + trouble.failed - trouble.told
            if more:
                what = "lost sessions" if trouble.lost else "refused sessions"
                self._write(place, trouble, f"{what} again" if trouble.told else what)
                trouble.until = now + QUIET
            return not more
        return False

    def _write(self, place: Place, trouble: _Trouble, what: str) -> None:
        trouble.told = trouble.lost + trouble.failed
        _log.warn(
            "upstream {upstream}: broker {broker} {what}: {reason} ({so_far} lost it so far)",
            upstream=place[0],
            broker=place[1],
            what=what,
            reason=one_line(trouble.reason),
            so_far=counted(trouble.lost, "session"),
        )
