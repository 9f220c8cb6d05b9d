"""All brokers of a relay. This module has their states, and finds brokers by the names that an operator uses. It pauses
and resumes brokers, collects their outages, and runs checks once a second.
"""

import random
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import InitVar, dataclass, replace
from itertools import islice
from math import ceil, floor, inf
from typing import Any, ClassVar, Final, NamedTuple

from twisted.application.service import Service
from twisted.internet.task import LoopingCall

from stomprelay.config.address import host_and_port
from stomprelay.journal.schema import JournalEvent
from stomprelay.relay.effects import Open
from stomprelay.relay.inputs import Leave, Looked, Reconsidered, Watched
from stomprelay.relay.link.link import Link
from stomprelay.relay.link.probe import Probe
from stomprelay.relay.model.counters import LAG
from stomprelay.relay.model.group import Broker, Group, spread
from stomprelay.relay.model.upstream import Upstream
from stomprelay.relay.sample import Looks
from stomprelay.service.connection.protocol import Driver, LegProtocol
from stomprelay.service.connection.relay_driver import Endpoints, RelayDriver
from stomprelay.service.connection.runtime import Runtime, Timed, log_note
from stomprelay.service.journal.journal import Journal
from stomprelay.service.log import counted, logger
from stomprelay.session.effects import Event, Note
from stomprelay.wire.errors import visible

_log: Final = logger()

ALL: Final = "*"
UP: Final = "up"


class ConfiguredBroker(NamedTuple):
    """A broker with its group and its upstream."""

    upstream: Upstream
    group: Group
    broker: Broker

    def state(self, now: float) -> str:
        """Return the state: `paused`, `out` (for a while after failures), `up`, `down` or `unknown`."""
        health = self.broker.health
        if health.paused:
            return "paused"
        if health.out(now):
            return "out"
        if health.up is None:
            return "unknown"
        return UP if health.up else "down"


class Brokers:
    """Every broker of the upstreams in use, in the configuration's order. The same address may occur several times."""

    def __init__(self, upstreams: Sequence[Upstream]) -> None:
        self.change(upstreams)

    def change(self, upstreams: Sequence[Upstream]) -> None:
        """Use the brokers of these upstreams. Next call `change` of all objects that keep data of brokers."""
        self.upstreams = upstreams
        self.configured = [
            ConfiguredBroker(upstream, group, broker)
            for upstream in upstreams
            for group in upstream.groups
            for broker in group.brokers
        ]

    def __iter__(self) -> Iterator[ConfiguredBroker]:
        return iter(self.configured)

    def find(self, word: str) -> tuple[ConfiguredBroker, ...]:
        """Return the brokers whose address or `host:port` is `word`; return all brokers for `*`."""
        return tuple(each for each in self if word in (ALL, each.broker.uri, host_and_port(each.broker)))


class Pauses:
    """Takes brokers out of service, and into service again. Clients get heart-beats meanwhile, and no ERROR. Sessions
    complete their work and move to another broker of their group, or wait until a broker is resumed. Sessions of a
    plain address stay. The journal records each pause and resume.
    """

    def __init__(self, sessions: Iterable[RelayDriver], journal: Journal | None = None) -> None:
        self._sessions = sessions
        self._journal = journal

    def pause(self, brokers: Iterable[ConfiguredBroker], within: float | None = None) -> None:
        """Take brokers out of service, and return at once. Their sessions leave within `within` seconds. If `within` is
        None, they leave within the upstream's `drain_timeout`, and sessions that already have to leave are not asked
        again.
        """
        brokers = tuple(brokers)
        for each in brokers:
            if each.broker.health.pause():
                _log.info(
                    "upstream {upstream}: broker {broker} is paused, its sessions ({count}) {what}",
                    upstream=each.upstream.name,
                    broker=each.broker,
                    count=each.broker.health.sessions,
                    what="stay, for it has no other" if each.group.reconnect is None else "leave it",
                )
                self._record(JournalEvent.PAUSED, each)
        seconds = {each.broker: each.upstream.drain_timeout if within is None else within for each in brokers}
        self._leave(seconds, anew=within is not None)

    def _leave(self, seconds: Mapping[Broker, float], *, anew: bool) -> None:
        """Ask sessions to leave these brokers within so many seconds. `anew`: also sessions that were asked before."""
        for session in tuple(self._sessions):
            leaving = {
                link.broker
                for link in session.relay.links
                if anew or link.moving is None or link.moving.may_stay
            }
            for broker in leaving:
                if broker is not None and broker in seconds:
                    session.handle(Leave(broker, seconds[broker]))

    def remove(self, left: Iterable[tuple[Upstream, Broker]]) -> None:
        """Ask the sessions of removed brokers to leave. Sessions that wait try the remaining brokers at once."""
        seconds = {broker: upstream.drain_timeout for upstream, broker in left}
        for broker in seconds:
            broker.health.pause()
        self._leave(seconds, anew=False)
        self._wake()

    def resume(self, brokers: Iterable[ConfiguredBroker]) -> None:
        """Take these brokers into service again. Sessions that wait for a broker try at once to connect."""
        resumed = False
        for each in brokers:
            if each.broker.health.resume():
                resumed = True
                _log.info(
                    "upstream {upstream}: broker {broker} is resumed",
                    upstream=each.upstream.name,
                    broker=each.broker,
                )
                self._record(JournalEvent.RESUMED, each)
        if resumed:
            self._wake()

    def _wake(self) -> None:
        for session in tuple(self._sessions):
            session.handle(Reconsidered())

    def _record(self, event: JournalEvent, what: ConfiguredBroker) -> None:
        if self._journal is not None:
            upstream, broker = what.upstream.name, str(what.broker)
            facts = {"upstream": upstream, "broker": broker}
            self._journal.happened(event, f"{event.value}: {broker}", facts, upstream, broker)


EVERY: Final = 1.0
"""Seconds between two checks of all brokers, and between two checks of the brokers in trouble."""
QUIET: Final = 10.0
"""A broker that is not down is no longer in trouble after so many seconds without a lost session or failed attempt."""
LAST: Final = 50
LONGEST: Final = 200
"""The largest number of characters that are shown of a reason. The broker may have chosen the text."""

Place = tuple[str, str]


class Outage(NamedTuple):
    """A time of trouble with a broker. `began` and `ended` are in seconds since 1970; `ended` is None while the trouble
    lasts. `down`: the broker could not be reached. `lost`: how many sessions lost the broker. Of these sessions,
    `elsewhere` continued at another broker and `waited` waited for this broker. `failed`: the number of failed
    attempts. `reason`: the last failure.
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


@dataclass(slots=True, eq=False, repr=False)
class _Trouble:
    """A broker in trouble since `began`; `since` is the same moment in seconds since 1970. The counts have the same
    meaning as in `Outage`. `down`: the log says that the broker is down. `told`: how many losses and failures the log
    has reported.
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
        """Count a session that lost the broker (`lost`), or a failed attempt to reach the broker."""
        self.lost += lost
        self.failed += not lost
        self.reason = reason

    def survived(self, *, elsewhere: bool) -> None:
        """Count a session that lost the broker and continued: at this broker again, or `elsewhere`."""
        self.elsewhere += elsewhere
        self.waited += not elsewhere

    def heard(self, now: float) -> None:
        """Record an answer of the broker. If the trouble was logged as down, it ends `EVERY` seconds later."""
        self.answered = now

    def news(self, brokers: Iterable[Broker], now: float) -> tuple[str, bool]:
        """Return what the log has to report next ("" for nothing), and whether the trouble is over."""
        down = False in [broker.health.up for broker in brokers]
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
        """Return the outage for the dashboard, with this upstream and broker; `ended` is None while it lasts."""
        counts = self.lost, self.elsewhere, self.waited, self.failed
        return Outage(*place, self.since, ended, self.down, *counts, _short(self.reason))


class Outages(Timed):
    """Collects reports of sessions and probes about brokers. Call `stop` at the end. `clock`: ns since 1970."""

    __slots__ = ("_brokers", "_clock", "_last", "_troubles")

    def __init__(self, brokers: Brokers, runtime: Runtime, clock: Callable[[], int]) -> None:
        super().__init__(runtime)
        self._clock = clock
        self._last: deque[Outage] = deque(maxlen=LAST)
        self._brokers: dict[Place, list[Broker]] = {}
        self._troubles: dict[Place, _Trouble] = {}
        self.change(brokers)

    def change(self, brokers: Brokers) -> None:
        """Collect notes about these brokers from now on. Log the last news about other brokers, and forget them."""
        known, self._brokers = self._brokers, {}
        for each in brokers:
            self._brokers.setdefault((each.upstream.name, str(each.broker)), []).append(each.broker)
        for place in [each for each in self._troubles if each not in self._brokers]:
            self._look(place, self._troubles.pop(place), known[place], self.runtime.seconds())

    def noted(self, note: Note, probed: bool = False) -> None:
        """Count what a note says about a broker. A note of a probe (`probed`) concerns no session, so count no loss."""
        facts = note.facts
        if "broker" not in facts:
            return
        place = str(facts.get("upstream")), str(facts["broker"])
        if place not in self._brokers:
            return
        failed = note.event is Event.LOST or (note.event is Event.REFUSED and not probed)
        if note.event in (Event.CONNECTED, Event.RECOVERED):
            lost = str(facts.get("lost", ""))
            if (before := self._troubles.get((place[0], lost))) is not None:
                before.survived(elsewhere=place[1] != lost)
            if (here := self._troubles.get(place)) is not None:
                here.heard(self.runtime.seconds())
        elif failed and (probed or note.detail):
            now = self.runtime.seconds()
            if not self._troubles:
                self.set_timer(now + EVERY)
            if place not in self._troubles:
                self._troubles[place] = _Trouble(now, self.time, answered=now, until=now + QUIET)
            gone = note.event is Event.LOST and not probed
            self._troubles[place].hurt(str(facts.get("reason", "")), lost=gone)

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

    def woke(self, now: float) -> None:
        """Log news about brokers; the timer calls this."""
        for place, trouble in tuple(self._troubles.items()):
            if self._look(place, trouble, self._brokers[place], now):
                del self._troubles[place]
                self._last.append(trouble.shown(place, self.time))
        if self._troubles:
            self.set_timer(now + EVERY)

    def stop(self) -> None:
        """Log the remaining news, and stop the timer: the service ends."""
        now = self.runtime.seconds()
        for place, trouble in self._troubles.items():
            self._look(place, trouble, self._brokers[place], now)
        self._troubles.clear()
        self.stop_timer()

    def _look(self, place: Place, trouble: _Trouble, brokers: Iterable[Broker], now: float) -> bool:
        """Log news about a broker, which may be in several groups. Return whether its trouble is over."""
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


PATIENCE: Final = 2.5
"""A session that was asked to move for balance has so many seconds to become quiet. Then other sessions are asked."""

WATCHED: Final = 16
_CANDIDATES: Final = 512
"""The largest number of sessions that are considered for watching in a second."""
_RECENT: Final = 2.0
"""A session is active if its client or broker sent something within so many seconds."""
_LOOKS: Final = 2000
"""How many frames of watched sessions may be looked at for each second. A look takes a few microseconds, so all looks
together take at most a hundredth of a processor.
"""

LINGER: Final = 2.0
"""Seconds that a probed broker may take to close."""

_FORM: Final = "upstream {upstream}: {event}: {text}"


class ProbeDriver(Driver):
    """Drives one probe of a broker, from `begin` until `ended` is called. The result is logged and recorded."""

    __slots__ = ("_endpoints", "_journal", "_on_end", "_probe", "_upstream")

    def __init__(
        self,
        runtime: Runtime,
        upstream: str,
        probe: Probe,
        endpoints: Endpoints,
        ended: Callable[["ProbeDriver"], None],
        journal: Journal | None = None,
    ) -> None:
        super().__init__(runtime, LINGER)
        self._upstream = upstream
        self._probe = probe
        self._endpoints = endpoints
        self._on_end = ended
        self._journal = journal

    def begin(self) -> None:
        """Connect to the broker. The probe then continues until `ended` is called."""
        self.perform(self._probe.begin(self.runtime.seconds()))

    def stop(self) -> None:
        """End the probe without a result, because the service stops."""
        self.perform(self._probe.stopped())

    def connected(self, protocol: LegProtocol) -> None:
        """Send CONNECT: the connection is established."""
        self.perform(self._probe.connected(self.runtime.seconds()))

    def received(self, protocol: LegProtocol, data: bytes) -> None:
        """Give the probe the bytes that the broker sent: CONNECTED, a RECEIPT or an ERROR."""
        self.perform(self._probe.received(data, self.runtime.seconds()))

    def refused(self, protocol: LegProtocol, reason: str) -> None:
        """Report to the probe that the broker cannot be connected to: it has failed."""
        self.perform(self._probe.refused(reason, self.runtime.seconds()))

    def prevented(self, protocol: LegProtocol, reason: str) -> None:
        """End the probe without a result, because this process could not try to connect."""
        self.stop()

    def lost(self, protocol: LegProtocol, reason: str) -> None:
        """Report to the probe that the connection ended."""
        self.perform(self._probe.lost(reason, self.runtime.seconds()))

    def woke(self, now: float) -> None:
        """Report to the probe that time has passed. The probe fails if its own time is over. The timer calls this."""
        self.perform(self._probe.woke(now))

    def end(self) -> None:
        """Stop the timer and call `ended`: the probe is over."""
        super().end()
        self._on_end(self)

    def _note(self, effect: Note) -> None:
        self.runtime.noted(effect, True)
        if effect.event is not Event.REFUSED:
            effect = replace(effect, detail=True)  # `Outages` logs the losses of all sessions together
        kind = f"upstream {self._upstream}: a probe"
        log_note(effect, _FORM, self.runtime.repeats, kind, upstream=self._upstream)
        if self._journal is not None:
            self._journal.noted(effect, self._upstream)

    def _open(self, effect: Open) -> None:
        self.connect(effect.leg, self._endpoints[effect.broker])

    effects: ClassVar[dict[type[Any], Callable[[Any, Any], None]]] = {
        **Driver.effects,
        Note: _note,
        Open: _open,
    }


@dataclass(slots=True, eq=False, repr=False)
class Watch:
    """Decides when a broker is probed: every `Checks.probe` seconds; when the broker is doubted; when the broker is
    down and its time out of service is over; and when sessions wait for a group whose brokers are all down.

    Call `due` once a second; when it is True, begin the probe that `probe` returns.
    """

    _upstream: Upstream
    _group: Group
    _broker: Broker
    now: InitVar[float]
    _chance: Callable[[], float]
    _again: float = 0.0
    _at: float = inf
    _probe: Probe | None = None

    def __post_init__(self, now: float) -> None:
        self._again = now
        every = self._upstream.checks.probe
        if every:
            self._at = now + every * self._chance()  # the brokers of a list are not all probed at once

    def due(self, now: float) -> bool:
        """Return whether to probe the broker now. False if an operator paused the broker, or if a probe is running."""
        health = self._broker.health
        if health.paused or (self._probe is not None and not self._probe.leg.closed):
            return False
        back = health.up is False and self._group.wants(self._broker) and not health.out(now)
        doubted = health.doubted and now >= health.out_until
        wanted = back or doubted or (health.up is False and self._awaited())
        return (now >= self._again and wanted) or now >= self._at

    def _awaited(self) -> bool:
        """Return whether sessions wait for any broker of the group while all its brokers are down."""
        healths = [each.health for each in self._group.brokers]
        waiting = self._group.reconnect is not None and any(each.coming for each in healths)
        return waiting and not any(each.up is not False for each in healths)

    def probe(self, now: float) -> Probe:
        """Return the next probe; call its `begin`."""
        checks = self._upstream.checks
        self._at = now + spread(checks.probe, self._chance) if checks.probe else inf
        self._again = now + checks.pause
        told = self._probe is not None and self._probe.denied
        self._probe = Probe(self._upstream, self._broker, self._chance, told=told)
        return self._probe


@dataclass(slots=True, eq=False, repr=False)
class Allowance:
    """Limits how many sessions move, to `rate` a second (0: no session moves). Unused moves are kept for one second."""

    _rate: float
    _most: float = 0.0
    _saved: float = 0.0
    _at: float = -inf

    def __post_init__(self) -> None:
        self._most = self._saved = float(ceil(self._rate))

    def left(self, now: float) -> int:
        """Return how many sessions may move now."""
        if now > self._at:
            self._saved = min(self._saved + (now - self._at) * self._rate, self._most) if self._rate else 0.0
            self._at = now
        return int(self._saved + 1e-9)  # tenths of seconds do not add up to whole ones

    def spend(self, count: int) -> None:
        """Subtract the number of sessions that were asked to move."""
        self._saved -= count


class _Asked(NamedTuple):
    """A link that was asked to move from the broker `origin` to the broker `target`."""

    link: Link
    origin: Broker
    target: Broker


class Sampling:
    """Chooses sessions to watch for samples. Call `tick` once a second. `sessions` always has all sessions."""

    def __init__(self, sessions: Iterable[RelayDriver]) -> None:
        self._sessions = sessions
        self._looks = Looks(_LOOKS)
        self._watched: list[RelayDriver] = []
        self._next = 0

    def tick(self, now: float) -> None:
        """Stop watching the sessions that were watched long enough, and watch other sessions instead."""
        self._looks.add(_LOOKS, 5 * _LOOKS)  # after a quiet time more frames at once
        for session in self._watched:
            session.handle(Looked())
        self._watched = [session for session in self._watched if session.watched]
        if self._looks.left <= 0 or len(self._watched) >= WATCHED:
            return
        candidates = tuple(islice(self._sessions, self._next, self._next + _CANDIDATES))
        if not candidates:
            self._next = 0  # the round is over; the next one begins in a second
        for session in candidates:
            self._next += 1
            conversation = session.relay.session
            if conversation is None or now - conversation.active_at > _RECENT or session in self._watched:
                continue
            session.handle(Watched(self._looks))
            if session.watched:
                self._watched.append(session)
                if len(self._watched) >= WATCHED:
                    return


@dataclass(eq=False, repr=False)
class PeriodicChecks(Service):
    """Runs the checks while the service runs, if there is anything to check. `sessions` always has all sessions.
    `watched`: the endpoint `admin` or `metrics` is configured. Then the checks run, and times are measured.
    """

    _runtime: Runtime
    _brokers: Brokers
    _sessions: Iterable[RelayDriver]
    _endpoints: Endpoints
    _journal: Journal | None = None
    watched: InitVar[bool] = False
    _due: float = 0.0

    def __post_init__(self, watched: bool) -> None:
        self._sampling = Sampling(self._sessions)
        self._probes: set[ProbeDriver] = set()
        self._down: set[Broker] = set()
        self._asked: list[_Asked] = []
        loop = self._loop = LoopingCall(self.run)
        loop.clock = self._runtime.reactor
        self.change(watched=watched)

    def change(self, *, watched: bool) -> None:
        """Check the brokers that are configured now. Running probes continue to their end."""
        self._watched = watched
        now = self._runtime.seconds()
        self._watches = [
            (upstream.name, Watch(upstream, group, broker, now, random.random))
            for upstream, group, broker in self._brokers.configured
        ]
        self._balanced = [(each, Allowance(each.rebalance_rate)) for each in self._brokers.upstreams]
        if self.running:
            self._begin()

    def startService(self) -> None:
        """Begin the checks if `watched` is True, or if an upstream is `movable` or has probes."""
        super().startService()
        self._begin()

    def _begin(self) -> None:
        if self._loop.running:
            return
        if self._watched or any(each.movable or each.checks.probe for each in self._brokers.upstreams):
            self._due = self._runtime.seconds() + EVERY
            _ = self._loop.start(EVERY, now=False)

    def stopService(self) -> None:
        """Run no more checks, and end the probes."""
        super().stopService()
        if self._loop.running:
            self._loop.stop()
        for probe in tuple(self._probes):
            probe.stop()

    def run(self) -> None:
        """Run all checks once. If a check fails, the failure is logged, and the other checks still run."""
        now = self._runtime.seconds()
        late = now - self._due
        self._runtime.tallies.times.record(LAG, "", late)
        # Checks that were missed are not made up for.
        self._due += EVERY * max(1, floor(late / EVERY) + 1)
        for check in (self._probe_brokers, self._find_recovered, self._balance, self._measure):
            try:
                check(now)
            except Exception:
                _log.failure("a round failed")

    def _measure(self, now: float) -> None:
        """Take samples of times, if an endpoint may be asked for them. Measuring each frame would cost too much."""
        if self._watched:
            self._sampling.tick(now)
            self._runtime.tallies.tick()

    def _probe_brokers(self, now: float) -> None:
        for upstream, watch in self._watches:
            if watch.due(now):
                probe = ProbeDriver(
                    self._runtime,
                    upstream,
                    watch.probe(now),
                    self._endpoints,
                    self._probes.discard,
                    self._journal,
                )
                self._probes.add(probe)
                probe.begin()

    def _find_recovered(self, now: float) -> None:
        """Let sessions that wait for a broker of a group try at once when one of its brokers is up again."""
        before = self._down
        self._down = {each.broker for each in self._brokers.configured if each.broker.health.up is False}
        if not before:
            return
        recovered = {broker for broker in before if broker.health.up}
        if not recovered:
            return
        for session in tuple(self._sessions):
            if any(
                link.broker is None and not recovered.isdisjoint(link.group.brokers)
                for link in session.relay.links
            ):
                session.handle(Reconsidered())

    def _balance(self, now: float) -> None:
        self._asked = [
            each for each in self._asked if each.link.moving is not None and each.link.broker is each.origin
        ]
        for upstream, allowance in self._balanced:
            for group in upstream.groups:
                if not group.balanced:
                    continue
                wanted: dict[Broker, list[Broker]] = {}
                for shift in group.shifts(self._placed(group), allowance.left(now), now):
                    wanted.setdefault(shift.origin, []).extend([shift.target] * shift.sessions)
                if wanted:
                    allowance.spend(self._move(upstream, group, wanted))

    def _placed(self, group: Group) -> dict[Broker, int]:
        """Return the number of sessions that each broker of a group has, or will have after the requested moves."""
        placed = {broker: broker.health.sessions + broker.health.coming for broker in group.brokers}
        for asked in self._asked:
            for broker, sessions in ((asked.origin, -1), (asked.target, 1)):
                if broker in placed:  # else it is of another group, or was removed
                    placed[broker] += sessions
        return placed

    def _move(self, upstream: Upstream, group: Group, wanted: dict[Broker, list[Broker]]) -> int:
        """Ask sessions of these brokers to move to the targets, quiet sessions first. Return how many were asked."""
        count, now = 0, self._runtime.seconds()
        for quiet in (True, False):
            for session in tuple(self._sessions):
                for link in session.relay.links:
                    if link.group is not group or link.quiet is not quiet or not link.movable(now):
                        continue
                    origin = link.broker
                    if origin is None or not wanted.get(origin):
                        continue
                    target = wanted[origin].pop()
                    # A session that stays alone at its broker gets no messages of the other sessions.
                    may_stay = not quiet and not group.together
                    within = PATIENCE if may_stay else upstream.drain_timeout
                    session.handle(Leave(origin, within, target, may_stay))
                    self._asked.append(_Asked(link, origin, target))
                    count += 1
                if not any(wanted.values()):
                    return count
        return count
