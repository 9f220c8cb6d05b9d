"""The checks once a second: probes that are due, brokers that are up again, sessions that belong to another broker, and
samples of a few sessions.
"""

import random
from collections.abc import Callable, Iterable
from dataclasses import InitVar, dataclass, replace
from itertools import islice
from math import ceil, floor, inf
from typing import Any, ClassVar, Final, NamedTuple

from twisted.application.service import Service
from twisted.internet.task import LoopingCall

from stomprelay.relay.effects import Open
from stomprelay.relay.inputs import Leave, Looked, Reconsidered, Watched
from stomprelay.relay.link.link import Link
from stomprelay.relay.link.probe import Probe
from stomprelay.relay.model.group import Broker, Group, spread
from stomprelay.relay.model.histogram import LAG
from stomprelay.relay.model.upstream import Upstream
from stomprelay.relay.sample import Looks
from stomprelay.service.brokers.brokers import Brokers
from stomprelay.service.connection.protocol import Driver, LegProtocol
from stomprelay.service.connection.relay_driver import Endpoints, RelayDriver
from stomprelay.service.connection.repeats import log_note
from stomprelay.service.connection.runtime import Runtime
from stomprelay.service.journal.journal import Journal
from stomprelay.service.log import logger
from stomprelay.session.effects import Event, Note

_log: Final = logger()

EVERY: Final = 1.0
PATIENCE: Final = 2.5
"""Seconds in which a session that has to move for balance may become quiet; then other sessions are asked."""

WATCHED: Final = 16
_CANDIDATES: Final = 512
"""The largest number of sessions that are considered for watching in a second."""
_RECENT: Final = 2.0
"""A session is active if its client or broker sent something within so many seconds."""
_LOOKS: Final = 2000
"""Frames of watched sessions in a second: at a few microseconds each, no more than a hundredth of a processor."""
_SAVED: Final = 5 * _LOOKS
"""Frames of watched sessions in a row, if there were few before."""

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
        """Report the probe failed: the broker cannot be connected to."""
        self.perform(self._probe.refused(reason, self.runtime.seconds()))

    def prevented(self, protocol: LegProtocol, reason: str) -> None:
        """End the probe without a result: the broker could not be asked."""
        self.stop()

    def lost(self, protocol: LegProtocol, reason: str) -> None:
        """Report to the probe that the connection ended."""
        self.perform(self._probe.lost(reason, self.runtime.seconds()))

    def woke(self, now: float) -> None:
        """Report the probe failed where its time is over; the timer calls this."""
        self.perform(self._probe.woke(now))

    def end(self) -> None:
        """Stop the timer and call `ended`: the probe is over."""
        super().end()
        self._on_end(self)

    def _note(self, effect: Note) -> None:
        self.runtime.probed(effect)
        if effect.event is not Event.REFUSED:
            effect = replace(effect, detail=True)  # the log has it of all sessions together
        kind = f"upstream {self._upstream}: a probe"
        log_note(effect, _FORM, self.runtime.repeats, kind, upstream=self._upstream)
        if self._journal is not None:
            self._journal.noted(effect, self._upstream)

    def _open(self, effect: Open) -> None:
        self.connect(effect.leg, self._endpoints[effect.broker])

    effects: ClassVar[dict[type[Any], Callable[[Any, Any], None]]] = {**Driver.effects, Open: _open}


@dataclass(slots=True, eq=False, repr=False)
class Watch:
    """When a broker is probed: every `Checks.probe` seconds, when it is doubted, when its pause is over, and for
    sessions that wait for it or for its group.

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
            self._at = now + every * self._chance()  # brokers of one list are not all asked at once

    def due(self, now: float) -> bool:
        """Whether the broker is to be probed now: never one that an operator paused, nor twice at a time."""
        health = self._broker.health
        if health.paused or (self._probe is not None and not self._probe.leg.closed):
            return False
        back = health.up is False and self._group.wants(self._broker) and not health.out(now)
        doubted = health.doubted and now >= health.out_until
        wanted = back or doubted or (health.up is False and self._awaited())
        return (now >= self._again and wanted) or now >= self._at

    def _awaited(self) -> bool:
        """Return whether sessions wait for any broker of the group, and all are down."""
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
    """How many sessions may move by now, at `rate` a second (0: none). Unused moves are kept for one second."""

    _rate: float
    _most: float = 0.0
    _saved: float = 0.0
    _at: float = -inf

    def __post_init__(self) -> None:
        self._most = self._saved = float(ceil(self._rate))

    def left(self, now: float) -> int:
        """So many may move now."""
        if now > self._at:
            self._saved = min(self._saved + (now - self._at) * self._rate, self._most) if self._rate else 0.0
            self._at = now
        return int(self._saved + 1e-9)  # tenths of seconds do not add up to whole ones

    def spend(self, count: int) -> None:
        """So many were asked to move."""
        self._saved -= count


class _Asked(NamedTuple):
    """A link that was asked to move, and the broker that it should leave."""

    link: Link
    origin: Broker
    target: Broker

    @property
    def pending(self) -> bool:
        """Whether the link still uses the broker that it should leave."""
        return self.link.moving is not None and self.link.broker is self.origin


class Sampling:
    """Chooses sessions to watch. Call `tick` once a second. `sessions` is a live collection of all sessions."""

    def __init__(self, sessions: Iterable[RelayDriver]) -> None:
        self._sessions = sessions
        self._looks = Looks(_LOOKS)
        self._watched: list[RelayDriver] = []
        self._next = 0

    def tick(self, now: float) -> None:
        """Stop watching the sessions that were watched long enough, and watch others instead."""
        self._looks.add(_LOOKS, _SAVED)
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
            active_at = session.relay.active_at
            if active_at is None or now - active_at > _RECENT or session in self._watched:
                continue
            session.handle(Watched(self._looks))
            if session.watched:
                self._watched.append(session)
                if len(self._watched) >= WATCHED:
                    return


class PeriodicChecks(Service):
    """Runs the checks while the service runs, if there is anything to check. `sessions` is live. `watched`: readiness
    and times may be asked for.
    """

    def __init__(
        self,
        runtime: Runtime,
        brokers: Brokers,
        sessions: Iterable[RelayDriver],
        endpoints: Endpoints,
        journal: Journal | None = None,
        *,
        watched: bool = False,
    ) -> None:
        self._runtime = runtime
        self._brokers = brokers
        self._sessions = sessions
        self._sampling = Sampling(sessions)
        self._endpoints = endpoints
        self._journal = journal
        self._watches: list[tuple[str, Watch]] = []
        self._probes: set[ProbeDriver] = set()
        self._down: set[Broker] = set()
        self._balanced: list[tuple[Upstream, list[Group], Allowance]] = []
        self._asked: list[_Asked] = []
        self._due = 0.0
        loop = self._loop = LoopingCall(self.run)
        loop.clock = runtime.reactor
        self.change(watched=watched)

    def change(self, *, watched: bool) -> None:
        """Check these brokers from now on. Running probes continue to their end."""
        self._watched = watched
        now = self._runtime.seconds()
        self._watches = [
            (upstream.name, Watch(upstream, group, broker, now, random.random))
            for upstream, group, broker in self._brokers
        ]
        self._balanced = [
            (upstream, groups, Allowance(upstream.rebalance_rate))
            for upstream in self._brokers.upstreams
            if (groups := [each for each in upstream.groups if any(map(each.wants, each.brokers))])
        ]
        if self.running:
            self._begin()

    def startService(self) -> None:
        """Begin, unless every upstream is a plain address and nothing is watched."""
        super().startService()
        self._begin()

    def _begin(self) -> None:
        wanted = self._watched or any(each.movable or each.checks.probe for each in self._brokers.upstreams)
        if wanted and not self._loop.running:
            self._due = self._runtime.seconds() + EVERY
            _ = self._loop.start(EVERY, now=False)

    def stop(self) -> None:
        """Run no more checks, and end the probes."""
        if self._loop.running:
            self._loop.stop()
        for probe in tuple(self._probes):
            probe.stop()

    def stopService(self) -> None:
        """Run no more checks and end the probes; Twisted calls it when the service stops."""
        super().stopService()
        self.stop()

    def run(self) -> None:
        """Run all checks once. If a check fails, that is logged, and the others still run."""
        now = self._runtime.seconds()
        late = now - self._due
        self._runtime.tallies.times.record(LAG, "", late)
        # Those that were missed are left out.
        self._due += EVERY * max(1, floor(late / EVERY) + 1)
        for check in (self._probe_brokers, self._find_recovered, self._balance, self._measure):
            try:
                check(now)
            except Exception:
                _log.failure("a round failed")

    def _measure(self, now: float) -> None:
        """Take samples of times that would cost too much to measure for each frame, if they may be asked for."""
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
        recovered = {broker for broker in self._down if broker.health.up}
        self._down = {each.broker for each in self._brokers.configured if each.broker.health.up is False}
        if not recovered:
            return
        for session in tuple(self._sessions):
            if any(
                link.broker is None and not recovered.isdisjoint(link.group.brokers)
                for link in session.relay.links
            ):
                session.handle(Reconsidered())

    def _balance(self, now: float) -> None:
        self._asked = [each for each in self._asked if each.pending]
        for upstream, groups, allowance in self._balanced:
            for group in groups:
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
                if broker in placed:  # of another group; or taken out of this one since
                    placed[broker] += sessions
        return placed

    def _move(self, upstream: Upstream, group: Group, wanted: dict[Broker, list[Broker]]) -> int:
        """Ask sessions of these brokers to move to the listed targets, quiet sessions first. Return how many were
        asked.
        """
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
                    # Who stays apart from the others gets nothing of theirs.
                    may_stay = not quiet and not group.together
                    within = PATIENCE if may_stay else upstream.drain_timeout
                    session.handle(Leave(origin, within, target, may_stay))
                    self._asked.append(_Asked(link, origin, target))
                    count += 1
                if not any(wanted.values()):
                    return count
        return count
