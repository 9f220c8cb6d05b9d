"""The checks once a second: probes that are due, brokers that are up again, sessions that belong to another broker, and
samples of a few sessions.
"""

import random
from collections.abc import Iterable
from itertools import islice
from math import floor
from typing import Final, NamedTuple

from twisted.application.service import Service
from twisted.internet.task import LoopingCall

from stomprelay.relay.inputs import Leave, Looked, Reconsidered, Watched
from stomprelay.relay.link.link import Link
from stomprelay.relay.link.probe import Watch
from stomprelay.relay.model.balance import Allowance, moves
from stomprelay.relay.model.group import Broker, Group
from stomprelay.relay.model.histogram import LAG
from stomprelay.relay.model.upstream import Upstream
from stomprelay.relay.sample import Looks
from stomprelay.service.brokers.brokers import Brokers
from stomprelay.service.brokers.probe import ProbeDriver
from stomprelay.service.connection.relay_driver import Endpoints, RelayDriver
from stomprelay.service.connection.runtime import Runtime
from stomprelay.service.journal.journal import Journal
from stomprelay.service.log import logger

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


class _Asked(NamedTuple):
    """A link whose session was asked to move, and the broker that it should leave."""

    link: Link
    origin: Broker
    target: Broker

    @property
    def pending(self) -> bool:
        """Whether the link still has the broker that it should leave."""
        return self.link.moving and self.link.broker is self.origin


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
        self._down: frozenset[Broker] = frozenset()
        self._allowances: list[tuple[Upstream, Allowance]] = []
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
        self._allowances = [
            (upstream, Allowance(upstream.rebalance_rate)) for upstream in self._brokers.upstreams
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
        """Run all checks once. A check that fails is logged; the others run."""
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
        brokers = {each.broker for each in self._brokers}
        recovered = {broker for broker in self._down if broker.health.up}
        self._down = frozenset(broker for broker in brokers if broker.health.up is False)
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
        for upstream, allowance in self._allowances:
            for group in upstream.groups:
                wanted: dict[Broker, list[Broker]] = {}
                for move in moves(group, self._placed(group), allowance.left(now), now):
                    wanted.setdefault(move.origin, []).extend([move.target] * move.sessions)
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
