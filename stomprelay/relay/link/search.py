"""The brokers of one session, as they are sought, found, left and given up."""

from math import inf

from stomprelay.relay.effects import Effect
from stomprelay.relay.flow import DisconnectState, Flow
from stomprelay.relay.link.handshake import Accepted
from stomprelay.relay.link.link import Link, Stage
from stomprelay.relay.model.group import Broker
from stomprelay.relay.notes import lost, moved
from stomprelay.session.effects import Close, Event, How
from stomprelay.session.leg import Leg
from stomprelay.session.states import State
from stomprelay.wire.errors import StompError


class Search:
    """Tells the links of a flow what concerns them, until brokers accepted. Methods append their effects; those
    that answer a `StompError` tell why the session cannot go on.
    """

    __slots__ = ("_flow",)

    def __init__(self, flow: Flow) -> None:
        self._flow = flow

    def link(self, leg: Leg) -> Link | None:
        """The link whose leg this is."""
        return next((link for link in self._flow.links if link.leg is leg), None)

    @property
    def deadline(self) -> float:
        """When a link or its leg has to be looked at."""
        deadline = inf
        for link in self._flow.links:
            leg = link.leg
            deadline = min(deadline, link.until)
            if leg is not None and leg.state is State.CONNECTED:
                deadline = min(deadline, leg.heartbeat.deadline)
        return deadline

    def begin(self, links: list[Link], effects: list[Effect], now: float) -> StompError | None:
        """Look for brokers."""
        for link in links:
            link.seek(effects, now)
        return self.ended(links, effects, now)

    def connected(self, leg: Leg, effects: list[Effect], now: float) -> None:
        """A connection is there."""
        link = self.link(leg)
        if leg.closed or link is None:
            effects.append(Close(leg, How.ABORT))
        else:
            link.connected(leg, effects, now)

    def refused(self, leg: Leg, reason: str, effects: list[Effect], now: float) -> StompError | None:
        """A connection cannot be had."""
        link = self.link(leg)
        if leg.closed or link is None:
            return None
        link.refused(reason, effects, now)
        return self.ended([link], effects, now)

    def answered(self, link: Link, data: bytes, effects: list[Effect], now: float) -> Accepted | bytes | None:
        """A broker sent something before it was CONNECTED, see `Link`. What is not STOMP is as good as no answer
        where there may be another broker; elsewhere raises `StompError`.
        """
        try:
            return link.answered(data, effects, now)
        except StompError as error:
            if link.resender is None:
                raise
            link.refused(f"it answered CONNECT with what is not STOMP: {error.message}", effects, now)
            return None

    def woke(self, effects: list[Effect], now: float) -> StompError | None:
        """Attempts begin, or took too long; a session that was to leave its broker leaves it now."""
        due = [link for link in self._flow.links if now >= link.until]
        for link in due:
            if link.stage is Stage.UP:
                self._part(link, effects, now)
            else:
                link.woke(effects, now)
        return self.ended(due, effects, now)

    def reconsidered(self, effects: list[Effect], now: float) -> StompError | None:
        """A broker came back."""
        waiting = [link for link in self._flow.links if link.stage is Stage.SEARCHING]
        for link in waiting:
            link.reconsidered(effects, now)
        return self.ended(waiting, effects, now)

    def ended(self, links: list[Link], effects: list[Effect], now: float) -> StompError | None:
        """Some of these may have found no broker for good."""
        for link in links:
            if link.stage is Stage.ENDED:
                failure = self._flow.given_up(link, effects, now)
                if failure is not None:
                    return failure
        return None

    def lost(self, link: Link, reason: str, effects: list[Effect]) -> None:
        """A link lost its broker; one that was leaving it anyway is no news."""
        if link.stage is not Stage.PARTING and not link.parted:
            link.session.counters["brokers_lost"] += 1
            link.news = Event.RECOVERED
            effects.append(lost(link.broker, link.upstream, reason))

    def again(self, link: Link, effects: list[Effect], now: float) -> StompError | None:
        """A link that lost its broker, or left it, looks for the next one."""
        if link.stage is Stage.PARTING:
            link.move(effects, now)
        else:
            link.hang_up(How.ABORT, effects)
            link.seek(effects, now)
        return self.ended([link], effects, now)

    def leave(
        self, broker: Broker, effects: list[Effect], now: float, within: float, to: Broker | None
    ) -> None:
        """The session shall leave this broker; one that says disconnect leaves it anyway."""
        for link in self._flow.links:
            if link.broker is broker and self._flow.disconnect is DisconnectState.UNSAID:
                link.leave(now, within, to)
        self.move(effects, now)

    def move(self, effects: list[Effect], now: float) -> None:
        """Branches that are to leave their broker do so at a quiet moment, which may be now."""
        for link in self._flow.links:
            if link.moving and link.quiet:
                self._part(link, effects, now)

    @staticmethod
    def _part(link: Link, effects: list[Effect], now: float) -> None:
        effects.append(moved(link.broker, link.upstream))
        link.part(effects, now)
