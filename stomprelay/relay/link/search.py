"""The brokers of one session, as they are sought, found, left and given up."""

from math import inf

from stomprelay.relay.effects import Effect
from stomprelay.relay.flow import Flow, Goodbye
from stomprelay.relay.link.handshake import Bound
from stomprelay.relay.link.link import Branch, Stage
from stomprelay.relay.model.group import Broker
from stomprelay.relay.notes import lost, moved
from stomprelay.session.effects import Close, Event, How
from stomprelay.session.leg import Leg
from stomprelay.session.states import State
from stomprelay.wire.errors import StompError


class Search:
    """Tells the branches of a flow what concerns them, until brokers accepted. Methods append their effects; those
    that answer a `StompError` tell why the session cannot go on.
    """

    __slots__ = ("_flow",)

    def __init__(self, flow: Flow) -> None:
        self._flow = flow

    def branch(self, leg: Leg) -> Branch | None:
        """The branch whose leg this is."""
        return next((branch for branch in self._flow.branches if branch.leg is leg), None)

    @property
    def deadline(self) -> float:
        """When a branch or its leg has to be looked at."""
        deadline = inf
        for branch in self._flow.branches:
            leg = branch.leg
            deadline = min(deadline, branch.until)
            if leg is not None and leg.state is State.CONNECTED:
                deadline = min(deadline, leg.heartbeat.deadline)
        return deadline

    def begin(self, branches: list[Branch], effects: list[Effect], now: float) -> StompError | None:
        """Look for brokers."""
        for branch in branches:
            branch.seek(effects, now)
        return self.ended(branches, effects, now)

    def connected(self, leg: Leg, effects: list[Effect], now: float) -> None:
        """A connection is there."""
        branch = self.branch(leg)
        if leg.closed or branch is None:
            effects.append(Close(leg, How.ABORT))
        else:
            branch.connected(leg, effects, now)

    def refused(self, leg: Leg, reason: str, effects: list[Effect], now: float) -> StompError | None:
        """A connection cannot be had."""
        branch = self.branch(leg)
        if leg.closed or branch is None:
            return None
        branch.refused(reason, effects, now)
        return self.ended([branch], effects, now)

    def answered(
        self, branch: Branch, data: bytes, effects: list[Effect], now: float
    ) -> Bound | bytes | None:
        """A broker sent something before it was CONNECTED, see `Branch`. What is not STOMP is as good as no answer
        where there may be another broker; elsewhere raises `StompError`.
        """
        try:
            return branch.answered(data, effects, now)
        except StompError as error:
            if branch.carrier is None:
                raise
            branch.refused(f"it answered CONNECT with what is not STOMP: {error.message}", effects, now)
            return None

    def woke(self, effects: list[Effect], now: float) -> StompError | None:
        """Attempts begin, or took too long; a session that was to leave its broker leaves it now."""
        due = [branch for branch in self._flow.branches if now >= branch.until]
        for branch in due:
            if branch.stage is Stage.UP:
                self._part(branch, effects, now)
            else:
                branch.woke(effects, now)
        return self.ended(due, effects, now)

    def reconsidered(self, effects: list[Effect], now: float) -> StompError | None:
        """A broker came back."""
        waiting = [branch for branch in self._flow.branches if branch.stage is Stage.SEARCHING]
        for branch in waiting:
            branch.reconsidered(effects, now)
        return self.ended(waiting, effects, now)

    def ended(self, branches: list[Branch], effects: list[Effect], now: float) -> StompError | None:
        """Some of these may have found no broker for good."""
        for branch in branches:
            if branch.stage is Stage.ENDED:
                failure = self._flow.given_up(branch, effects, now)
                if failure is not None:
                    return failure
        return None

    def lost(self, branch: Branch, reason: str, effects: list[Effect]) -> None:
        """A branch lost its broker; one that was leaving it anyway is no news."""
        if branch.stage is not Stage.PARTING and not branch.parted:
            branch.session.tally["brokers_lost"] += 1
            branch.news = Event.RECOVERED
            effects.append(lost(branch.broker, branch.upstream, reason))

    def again(self, branch: Branch, effects: list[Effect], now: float) -> StompError | None:
        """A branch that lost its broker, or left it, looks for the next one."""
        if branch.stage is Stage.PARTING:
            branch.move(effects, now)
        else:
            branch.hang_up(How.ABORT, effects)
            branch.seek(effects, now)
        return self.ended([branch], effects, now)

    def leave(
        self, broker: Broker, effects: list[Effect], now: float, within: float, to: Broker | None
    ) -> None:
        """The session shall leave this broker; one that says goodbye leaves it anyway."""
        for branch in self._flow.branches:
            if branch.broker is broker and self._flow.goodbye is Goodbye.UNSAID:
                branch.leave(now, within, to)
        self.move(effects, now)

    def move(self, effects: list[Effect], now: float) -> None:
        """Branches that are to leave their broker do so at a quiet moment, which may be now."""
        for branch in self._flow.branches:
            if branch.moving and branch.quiet:
                self._part(branch, effects, now)

    @staticmethod
    def _part(branch: Branch, effects: list[Effect], now: float) -> None:
        effects.append(moved(branch.broker, branch.upstream))
        branch.part(effects, now)
