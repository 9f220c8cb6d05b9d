"""Frames between a client and several brokers: groups of one upstream, upstreams by routes, or both."""

from collections.abc import Callable

from stomprelay.relay.bridge.tracing import Tracer
from stomprelay.relay.effects import Effect
from stomprelay.relay.fanout.disconnect import Disconnect
from stomprelay.relay.fanout.dispatch import Dispatch
from stomprelay.relay.fanout.member import Member
from stomprelay.relay.fanout.merge import Merge
from stomprelay.relay.fanout.quorum import Confirmation, Quorum
from stomprelay.relay.fanout.router import Router
from stomprelay.relay.flow import DisconnectState
from stomprelay.relay.link.link import Link
from stomprelay.relay.model.listener import Listener
from stomprelay.relay.model.upstream import Upstream
from stomprelay.session.complaint import complain
from stomprelay.session.effects import Pause, Resume
from stomprelay.session.leg import Leg
from stomprelay.session.session import Session
from stomprelay.wire.errors import Refused, StompError
from stomprelay.wire.names import DISCONNECT


class Fanout:
    """A `Flow` with several links. What the client says goes by a `Dispatch` to members, each of which waits for
    its own broker alone; what brokers say comes by a `Merge`. `links` makes those of an upstream.
    """

    __slots__ = (
        "_begun",
        "_client",
        "_disconnect",
        "_dispatch",
        "_merge",
        "_places",
        "_quorum",
        "_router",
        "_session",
        "_tracer",
        "links",
    )

    def __init__(
        self, client: Leg, listener: Listener, session: Session, links: Callable[[Upstream], list[Link]]
    ) -> None:
        self._client = client
        self._session = session
        self._tracer = Tracer(session.name) if listener.trace else None
        self._router = Router(listener, links)
        self._places = self._router.places
        self.links = self.opened()
        self._quorum = Quorum(client, session, self._router)
        self._dispatch = Dispatch(session, self._router, self._quorum.confirmations)
        self._disconnect = Disconnect(session, self._router, self._quorum)
        self._merge = Merge(client, session, self._quorum, self._disconnect)
        self._begun = False

    # What is asked of it

    @property
    def disconnect(self) -> DisconnectState:
        """How far the client's DISCONNECT is."""
        return self._disconnect.disconnect

    @property
    def disconnect_receipt(self) -> bytes | None:
        """The receipt that it asked for."""
        return self._disconnect.disconnect_receipt

    @property
    def erred(self) -> bool:
        """An ERROR was the last that passed."""
        return self._merge.erred

    @property
    def deaf(self) -> bool:
        """The client is gone, and only what it said is still to be delivered."""
        return self._quorum.deaf

    @deaf.setter
    def deaf(self, deaf: bool) -> None:
        self._quorum.deaf = deaf

    @property
    def survives(self) -> bool:
        """What the client says may have to wait, even where the loss of a broker ends the session."""
        return True

    @property
    def ready(self) -> bool:
        """A quorum of the listener's own upstream has brokers."""
        return self._router.main.ready

    @property
    def flowing(self) -> bool:
        """What the client says waits in members, so that what is for one broker does not wait for another."""
        return self._begun

    @property
    def full(self) -> bool:
        """In one upstream too few groups have room."""
        return any(target.full for target in self._router.targets)

    @property
    def crowded(self) -> bool:
        """In one upstream too few groups have much room."""
        return any(target.crowded for target in self._router.targets)

    @property
    def safe(self) -> bool:
        """Nothing that must not be lost is undecided, and a quorum has all of the rest."""
        return self._disconnect.safe

    @property
    def settled(self) -> bool:
        """The client said goodbye and is owed nothing."""
        return self._disconnect.settled

    def opened(self) -> list[Link]:
        """Those of upstreams that were not needed before, and those whose broker was left just now."""
        opened, self._router.opened = self._router.opened, []
        return opened

    # What comes

    def to_broker(self, effects: list[Effect], now: float) -> StompError | None:
        """Carry what the client's leg has."""
        failure = None
        count = 0
        tracer, decoder = self._tracer, self._client.decoder
        try:
            for frame in decoder.frames() if tracer is None else tracer.frames(decoder):
                count += 1
                if frame.command is DISCONNECT:
                    self._disconnect.came(frame, self._client)
                    break
                self._dispatch.say(frame, effects)
        except StompError as error:
            failure = error
        self._session.counters["client_frames"] += count
        if len(self.links) != len(self._places):
            self.links = list(self._places)
        for target, member in self._places.values():
            if member.flooded and target.upstream.movable:
                failure = self._quorum.leave(target, member, effects, now) or failure
        return self._go_on(effects, now) or failure

    def to_client(self, link: Link, effects: list[Effect], now: float) -> StompError | None:
        """Carry what the broker's leg of a link has."""
        target, member = self._places[link]
        leg = link.leg
        assert leg is not None
        failure = self._merge.pour(target, member, effects, now)
        if failure is not None and target.fans and not isinstance(failure, Refused):
            why = f"it sent what cannot be passed on: {failure.message}"
            failure = self._quorum.strike(target, member, why, effects, now)
        failure = failure or self._go_on(effects, now)
        # A broker whose receipts the client waits for is read from, whatever the client owes it.
        if member.session.full and not member.held and not leg.closed and not self.crowded:
            member.held = True
            effects.append(Pause(leg))
        return failure

    def bound(self, link: Link, effects: list[Effect], now: float) -> StompError | None:
        """Tell a new broker all that it has to know."""
        target, member = self._places[link]
        member.bound()
        self._begun = self._begun or self.ready
        try:
            member.resender.replay(subscriptions=self.disconnect is DisconnectState.UNSAID and not self.deaf)
        except StompError as error:
            if not target.fans:
                return error
            return self._quorum.give_up(target, member, f"{error.message} there", effects, now)
        finally:
            member.resender.flush(effects, now)
        return self._go_on(effects, now)

    def over(self, link: Link) -> bool:
        """It said ERROR and the client was told, or the client said goodbye."""
        return self.settled or (self.erred and self._places[link][1].erred)

    def lost(self, link: Link, effects: list[Effect], now: float) -> StompError | None:
        """Others go on; this one is sought anew."""
        target, member = self._places[link]
        failure = self._quorum.lost(target, member, effects, now)
        if not target.upstream.movable:
            return StompError(
                "connection to the broker was lost", f"upstream {target}", receipt=self.disconnect_receipt
            )
        return failure or self._go_on(effects, now)

    def given_up(self, link: Link, effects: list[Effect], now: float) -> StompError | None:
        """Others go on, if they are enough."""
        target, member = self._places[link]
        if target.fans:
            failure = self._quorum.give_up(target, member, link.verdict, effects, now)
            return failure or self._go_on(effects, now)
        if link.fresh or not target.upstream.movable:
            return StompError(
                "broker not available", f"upstream {target} did not connect", receipt=self.disconnect_receipt
            )
        return StompError(
            "no broker available", f"upstream {target}: {link.verdict}", receipt=self.disconnect_receipt
        )

    def denied(self, link: Link, error: bytes, effects: list[Effect], now: float) -> bytes | None:
        """Others go on, if they are enough. Otherwise a client that was not answered yet gets this ERROR."""
        target, member = self._places[link]
        failure = self._quorum.give_up(target, member, "it answered CONNECT with ERROR", effects, now)
        failure = failure or self._go_on(effects, now)
        if failure is None:
            return None
        return complain(failure, self._session.dialect) if self._begun and target.fans else error

    def unanswered(self) -> list[Link]:
        """Those that are in the way of a disconnect."""
        members = [
            member for target, member in self._places.values() if target.upstream.movable and member.up
        ]
        return [member.link for member in members if not member.safe or self._disconnect.awaits(member)]

    def send_disconnect(self, effects: list[Effect], now: float) -> None:
        """The DISCONNECT that waited goes to all brokers that are there."""
        self._disconnect.say(effects, now)

    def blocked(self, leg: Leg) -> None:
        """What is said to this broker waits for it, and for nobody else."""
        self._member(leg).blocked = True

    def unblocked(self, leg: Leg, effects: list[Effect], now: float) -> StompError | None:
        """What waited is said."""
        self._member(leg).blocked = False
        return self._go_on(effects, now)

    def _member(self, leg: Leg) -> Member:
        return next(member for link, (_, member) in self._places.items() if link.leg is leg)

    def _go_on(self, effects: list[Effect], now: float) -> StompError | None:
        """What was said is written, what was answered is told, and what waited for that happens."""
        decided: list[Confirmation[Member]] = []
        failure: StompError | None = None
        for _, member in self._places.values():
            try:
                member.flush(effects, now)
            except StompError as error:
                failure = failure or error
            decided += self._quorum.excused(member)
            if member.held and member.link.leg is not None and (not member.session.crowded or self.crowded):
                member.held = False
                effects.append(Resume(member.link.leg))
        failure = failure or self._quorum.announce(decided, effects, now)
        if failure is None:
            self._disconnect.go_on(effects, now)
        return failure
