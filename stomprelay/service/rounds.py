"""What is looked after once a second, for all sessions together: that brokers are probed, that whoever waits for a
broker hears when it came back, and that sessions go where they belong.
"""

import random
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from twisted.application.service import Service
from twisted.internet.task import LoopingCall
from twisted.logger import Logger

from stomprelay.relay.link.link import Link
from stomprelay.relay.link.probe import Watch
from stomprelay.relay.model.balance import Allowance, moves
from stomprelay.relay.model.group import Broker, Group
from stomprelay.relay.model.upstream import Upstream
from stomprelay.service.perform import Stage
from stomprelay.service.probing import Probing
from stomprelay.service.relaying import Relaying
from stomprelay.service.roster import Roster
from stomprelay.service.ways import Ways

_log: Final = Logger("stomprelay")

EVERY: Final = 1.0
"""Seconds from one round to the next."""


class _Asked(NamedTuple):
    """A link that was asked to move."""

    link: Link
    origin: Broker
    target: Broker

    @property
    def pending(self) -> bool:
        """Whether it has not left yet."""
        return self.link.moving and self.link.broker is self.origin


class Rounds(Service):
    """Makes its rounds while the service runs, where there is anything to look after."""

    def __init__(
        self,
        stage: Stage,
        roster: Roster,
        sessions: Callable[[], Iterable[Relaying]],
        ways: Ways,
    ) -> None:
        self._stage = stage
        self._roster = roster
        self._sessions = sessions
        self._ways = ways
        now = stage.seconds()
        self._watches = [
            (upstream.name, Watch(upstream, group, broker, now, random.random))
            for upstream, group, broker in roster
        ]
        self._probing: set[Probing] = set()
        self._down: frozenset[Broker] = frozenset()
        self._allowances = [(upstream, Allowance(upstream.rebalance_rate)) for upstream in roster.upstreams]
        self._asked: list[_Asked] = []
        self._loop = LoopingCall(self.go)
        self._loop.clock = stage.reactor

    def startService(self) -> None:
        """Begin, unless every upstream is a plain address that is not probed."""
        super().startService()
        if any(each.movable or each.checks.probe for each in self._roster.upstreams):
            _ = self._loop.start(EVERY, now=False)

    def stop(self) -> None:
        """No more rounds, and no more probes."""
        if self._loop.running:
            self._loop.stop()
        for probing in tuple(self._probing):
            probing.stop()

    def stopService(self) -> None:
        """As `stop`."""
        super().stopService()
        self.stop()

    def go(self) -> None:
        """One round. What fails in it is logged, and is no reason to miss the next."""
        now = self._stage.seconds()
        for part in (self._probe, self._welcome, self._balance):
            try:
                part(now)
            except Exception:
                _log.failure("a round failed")

    def _probe(self, now: float) -> None:
        """Ask the brokers whose time has come."""
        for upstream, watch in self._watches:
            if watch.due(now):
                probing = Probing(self._stage, upstream, watch.probe(now), self._ways, self._probing.discard)
                self._probing.add(probing)
                probing.begin()

    def _welcome(self, now: float) -> None:
        """Of brokers that were down and are up whoever waits for one of their group is told."""
        brokers = {entry.broker for entry in self._roster}
        back = {broker for broker in self._down if broker.health.up}
        self._down = frozenset(broker for broker in brokers if broker.health.up is False)
        if not back:
            return
        for session in tuple(self._sessions()):
            if any(
                link.broker is None and not back.isdisjoint(link.group.brokers)
                for link in session.relay.links
            ):
                session.reconsider()

    def _balance(self, now: float) -> None:
        """Sessions that are on one broker and belong on another one move, if nothing of theirs is open."""
        self._asked = [each for each in self._asked if each.pending]
        for upstream, allowance in self._allowances:
            for group in upstream.groups:
                wanted: dict[Broker, list[Broker]] = {}
                for move in moves(group, self._placed(group), allowance.left(now), now):
                    wanted.setdefault(move.origin, []).extend([move.target] * move.sessions)
                if wanted:
                    allowance.spend(self._move(upstream, group, wanted))

    def _placed(self, group: Group) -> dict[Broker, int]:
        """How many sessions each broker has or will have, as far as that is known."""
        placed = {broker: broker.health.sessions + broker.health.coming for broker in group.brokers}
        for asked in self._asked:
            if asked.origin in placed:
                placed[asked.origin] -= 1
                placed[asked.target] += 1
        return placed

    def _move(self, upstream: Upstream, group: Group, wanted: dict[Broker, list[Broker]]) -> int:
        """Ask sessions on each of these brokers to go to the targets named for it. Answers how many there were."""
        count = 0
        for session in tuple(self._sessions()):
            for link in session.relay.links:
                if link.group is not group or link.moving or not link.quiet:
                    continue
                origin = link.broker
                if origin is None or not wanted.get(origin):
                    continue
                target = wanted[origin].pop()
                session.move(origin, upstream.drain_timeout, target)
                self._asked.append(_Asked(link, origin, target))
                count += 1
            if not any(wanted.values()):
                break
        return count
