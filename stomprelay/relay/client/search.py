"""The brokers of one session, as they are sought, found, left and given up."""

from math import inf

from stomprelay.relay.effects import Outbox, Took
from stomprelay.relay.flow import DisconnectState, Flow
from stomprelay.relay.link.handshake import Accepted
from stomprelay.relay.link.link import Link
from stomprelay.relay.link.suspicion import STRANGE
from stomprelay.relay.model.group import Broker, BrokerTally
from stomprelay.relay.model.histogram import SILENCE
from stomprelay.relay.notes import lost
from stomprelay.session.effects import Close, How
from stomprelay.session.leg import Leg, State
from stomprelay.wire.errors import StompError


class Search:
    """Gives each input to the links of a flow that it concerns. Methods raise `StompError` with the reason for
    which the session cannot go on.
    """

    __slots__ = ("_flow", "_outbox")

    def __init__(self, flow: Flow, outbox: Outbox) -> None:
        self._flow = flow
        self._outbox = outbox

    def link(self, leg: Leg) -> Link | None:
        """Return the link that has this leg; None where there is none."""
        for link in self._flow.links:
            if link.leg is leg:
                return link
        return None

    def arriving(self, leg: Leg) -> Link | None:
        """Return the link that has this leg to the broker that it is to move to; None where there is none."""
        for link in self._flow.links:
            if link.next_leg is leg:
                return link
        return None

    @property
    def deadline(self) -> float:
        """The time at which a link or its leg is due next, in seconds."""
        deadline = inf
        for link in self._flow.links:
            deadline = min(deadline, link.until)
            for leg in (link.leg, link.next_leg):
                if leg is not None and leg.state is State.CONNECTED:
                    deadline = min(deadline, leg.heartbeat.deadline)
        return deadline

    def begin(self, links: list[Link], now: float) -> None:
        """Look for brokers for these. Raises as `ended`."""
        for link in links:
            link.seek(now)
        self.ended(links, now)

    def connected(self, leg: Leg, now: float, address: str | None = None) -> None:
        """The connection of a leg is established: its link sends CONNECT; one that no link needs any more is
        closed.
        """
        link = self.link(leg) or self.arriving(leg)
        if leg.closed or link is None:
            self._outbox.put(Close(leg, How.ABORT))
        else:
            link.connected(leg, now, address)

    def refused(self, leg: Leg, reason: str, now: float) -> None:
        """The connection of a leg failed: the link tries the next broker. Raises as `ended`."""
        link = self.link(leg)
        if not leg.closed and link is not None:
            link.refused(reason, now)
            self.ended([link], now)

    def prevented(self, leg: Leg, reason: str, now: float) -> None:
        """The connection of a leg could not be tried: the link tries the next broker. Raises as `ended`."""
        link = self.link(leg)
        if not leg.closed and link is not None:
            link.prevented(reason, now)
            self.ended([link], now)

    def answered(self, link: Link, data: bytes, now: float) -> Accepted | bytes | None:
        """A broker sent something before it was CONNECTED, see `Link`. What is not STOMP is as good as no answer
        where there may be another broker; elsewhere raises `StompError`.
        """
        try:
            return link.answered(data, now)
        except StompError as error:
            if link.resender is None:
                raise
            link.refused(f"it answered CONNECT with what is not STOMP: {error.message}", now, STRANGE)
            return None

    def woke(self, now: float) -> None:
        """Begin the attempts that are due, end those that took too long, and leave brokers whose time to be left
        is over. Raises as `ended`.
        """
        due = [link for link in self._flow.links if now >= link.until]
        for link in due:
            link.woke(now)
        self.ended(due, now)

    def reconsidered(self, now: float) -> None:
        """A broker came back. Raises as `ended`."""
        waiting = [link for link in self._flow.links if link.waiting]
        for link in waiting:
            link.reconsidered(now)
        self.ended(waiting, now)

    def ended(self, links: list[Link], now: float) -> None:
        """Some of these may have found no broker for good. Raises `StompError` where the session cannot do without."""
        for link in links:
            if link.ended:
                self._flow.given_up(link, now)

    def lost(self, link: Link, reason: str) -> None:
        """A link lost its broker; nothing is logged for one that was leaving it anyway."""
        if not link.leaving and not link.done:
            link.session.counters["brokers_lost"] += 1
            link.lost()
            self._outbox.put(lost(link.broker, link.upstream, reason))

    def found(self, link: Link, now: float) -> None:
        """A link has a broker: count a failover where that is one, and how long it took."""
        if link.recovering:
            link.session.counters["failovers"] += 1
            self._outbox.put(Took(SILENCE, link.upstream.name, now - link.seeks_since))
            if link.before is not None:
                link.before.count(BrokerTally(failovers=1))

    def again(self, link: Link, now: float) -> Accepted | None:
        """A link that lost its broker, or left it, goes on with one that has accepted the session meanwhile: then what
        that accepted is returned. Otherwise it looks for the next one. Raises as `ended`.
        """
        accepted = link.move(now) if link.leaving else link.go_on(How.ABORT, now)
        self.ended([link], now)
        return accepted

    def leave(
        self, broker: Broker, now: float, within: float, to: Broker | None, *, may_stay: bool = False
    ) -> None:
        """Have the links leave this broker for `to`, when nothing is open there or after `within` seconds; with
        `may_stay` they stay then. Does nothing once the client sent DISCONNECT.
        """
        for link in self._flow.links:
            if link.broker is broker and self._flow.disconnect is DisconnectState.NONE:
                link.leave(now, within, to, may_stay=may_stay)
        self.move(now)

    def move(self, now: float) -> bool:
        """Links that are to leave their broker do so at a quiet moment, which may be now. Returns whether one does,
        which has its time to answer from now on.
        """
        leaving = [link for link in self._flow.links if link.departing and link.leaves(now)]
        for link in leaving:
            link.disconnect(now)
        return bool(leaving)
