"""Frames between a client and several brokers: groups of one upstream, upstreams by routes, or both."""

from collections.abc import Callable, Sequence
from itertools import islice

from stomprelay.relay.bridge.bridge import Tracer
from stomprelay.relay.counting import DestinationCounter
from stomprelay.relay.effects import Outbox, Pass
from stomprelay.relay.fanout.disconnect import Disconnect
from stomprelay.relay.fanout.dispatch import Dispatch
from stomprelay.relay.fanout.member import Member
from stomprelay.relay.fanout.merge import Merge
from stomprelay.relay.fanout.quorum import Confirmation, Quorum
from stomprelay.relay.fanout.router import Router
from stomprelay.relay.flow import DisconnectState, broker_lost, not_to_be_had
from stomprelay.relay.forward import TURN
from stomprelay.relay.guard import Guard
from stomprelay.relay.link.link import Link
from stomprelay.relay.model.listener import Listener
from stomprelay.relay.model.upstream import Upstream
from stomprelay.session.delivery import THING
from stomprelay.session.leg import Leg
from stomprelay.session.refusal import complain
from stomprelay.session.session import Session
from stomprelay.wire.errors import Refused, StompError
from stomprelay.wire.names import DISCONNECT


class Fanout:
    """A `Flow` with several links, which `links` makes. `guard` judges the client's frames, `counter` counts them."""

    __slots__ = (
        "_client",
        "_counter",
        "_disconnect",
        "_dispatch",
        "_merge",
        "_places",
        "_quorum",
        "_router",
        "_session",
        "_started",
        "_tracer",
        "guard",
        "links",
    )

    coupled = False
    """What is for one broker does not wait for another: the service reports each by `blocked` and `unblocked`."""

    def __init__(
        self,
        client: Leg,
        listener: Listener,
        session: Session,
        outbox: Outbox,
        links: Callable[[Upstream], list[Link]],
        guard: Guard,
        counter: DestinationCounter | None = None,
    ) -> None:
        self._client = client
        self._session = session
        self.guard = guard
        self._counter = counter
        self._tracer = Tracer(session.name) if listener.trace else None
        self._router = Router(listener, outbox, links)
        self._places = self._router.places
        self.links = self.opened()
        self._quorum = Quorum(client, session, outbox, self._router)
        self._dispatch = Dispatch(session, outbox, self._router, self._quorum.confirmations)
        self._disconnect = Disconnect(session, self._router, self._quorum)
        self._merge = Merge(client, session, outbox, self._quorum, self._disconnect, counter)
        self._started = False
        session.kept.watch(self)

    @property
    def cost(self) -> int:
        """What waits for members, or for their answers, in bytes."""
        waits = sum(member.cost for _, member in self._places.values())
        return waits + THING * self._quorum.confirmations.asked

    def guarded(self, guard: Guard) -> None:
        """Have this guard judge the client's frames from now on."""
        self.guard = guard

    # What is asked of it

    @property
    def disconnect(self) -> DisconnectState:
        """The state of the client's DISCONNECT."""
        return self._disconnect.state

    @property
    def disconnect_receipt(self) -> bytes | None:
        """The receipt that the client's DISCONNECT asked for; None where there is none."""
        return self._disconnect.receipt

    @property
    def erred(self) -> bool:
        """Whether the last frame that the client was sent was an ERROR."""
        return self._merge.erred

    @property
    def survives(self) -> bool:
        """What the client sends may have to wait, even where the loss of a broker ends the session."""
        return True

    @property
    def ready(self) -> bool:
        """Whether a quorum of the listener's own upstream has brokers."""
        return self._router.main.ready

    @property
    def flowing(self) -> bool:
        """What the client sends waits in members, so that what is for one broker does not wait for another."""
        return self._started

    @property
    def full(self) -> bool:
        """Whether in one upstream too few groups have room for more frames."""
        return any(target.full for target in self._router.targets)

    @property
    def crowded(self) -> bool:
        """Whether in one upstream too few groups have room enough to read on after `full`."""
        return any(target.crowded for target in self._router.targets)

    @property
    def safe(self) -> bool:
        """Whether nothing that must not be lost is undecided, and a quorum has all other frames."""
        return self._disconnect.safe

    @property
    def settled(self) -> bool:
        """Whether the client sent DISCONNECT and is owed nothing."""
        return self._disconnect.settled

    def passes(self) -> list[Pass]:
        """Return none: each frame is looked at."""
        return []

    def opened(self) -> list[Link]:
        """Return those of upstreams that were not needed before, and those whose broker was left just now."""
        return self._router.take_opened()

    # What comes

    def to_broker(self, now: float, most: int = TURN) -> None:
        """Carry the frames that the client's leg has, a turn's worth and `most` at most."""
        count = 0
        frames = self._client.decoder.frames()
        if self.guard.active:
            frames = self.guard.judged(frames, self._client.dialect)
        if self._tracer is not None:
            frames = self._tracer.frames(frames)
        try:
            for frame in islice(frames, min(most, max(1, TURN // len(self._places)))):
                if self._counter is not None:
                    self._counter.passed(frame, self._session, self._client.dialect, 1)
                count += 1
                if frame.command is DISCONNECT:
                    self._disconnect.received(frame, self._client)
                    break
                self._dispatch.send(frame)
        finally:
            self._session.client_sent(count)
            if len(self.links) != len(self._places):
                self.links = list(self._places)
            self._leave_flooded(now)

    def _leave_flooded(self, now: float) -> None:
        """Leave brokers for which too much waits, then write what was put in."""
        failure = None
        for target, member in self._places.values():
            if member.flooded and target.upstream.movable:
                try:
                    self._quorum.leave(target, member, now)
                except StompError as error:
                    failure = error
        self._go_on(now)
        if failure is not None:
            raise failure

    def to_client(self, link: Link, now: float) -> None:
        """Carry the frames that the broker's leg of a link has."""
        target, member = self._places[link]
        leg = link.connection.leg
        try:
            try:
                self._merge.forward(target, member, now)
            except StompError as error:
                if not target.fans or isinstance(error, Refused):
                    raise
                self._quorum.fault(target, member, f"it sent what cannot be passed on: {error.message}", now)
            self._go_on(now)
        finally:
            # A broker whose receipts the client waits for is read from, whatever the client owes it.
            needed = self.crowded or member.resender.careful or self._merge.ends
            if member.session.full and not leg.closed and not needed:
                member.pause()

    def connected(self, link: Link, now: float) -> None:
        """Send a new broker the subscriptions, transactions and unconfirmed frames that it needs."""
        target, member = self._places[link]
        member.connected()
        self._started = self._started or self.ready
        receives = self.disconnect is DisconnectState.NONE and not (self._client.gone or self._merge.ends)
        try:
            member.resender.replay(subscriptions=receives, now=now)
        except StompError as error:
            if not target.fans:
                raise
            self._quorum.give_up(target, member, f"{error.message} there", now)
            return
        finally:
            member.resender.flush(now)
        self._go_on(now)

    def take_refused(self) -> Sequence[StompError]:
        """Return those of upstreams of one group; what other groups may still deliver is the quorum's matter."""
        alone = [member for target, member in self._places.values() if not target.fans]
        return [error for member in alone for error in member.resender.take_refused()]

    def over(self, link: Link) -> bool:
        """Whether the session ends with this link: its broker's ERROR was passed on, or the flow is `settled`."""
        return self.settled or (self.erred and self._router.member(link).erred)

    def lost(self, link: Link, now: float) -> None:
        """The link seeks another broker. Raises `StompError` where the session cannot survive the loss."""
        target, member = self._places[link]
        try:
            self._quorum.lost(target, member, now)
        finally:
            if not target.upstream.movable:
                raise broker_lost(target.upstream, self.disconnect_receipt)
        self._go_on(now)

    def given_up(self, link: Link, now: float) -> None:
        """The link found no broker. Raises `StompError` where the others are too few for the quorum."""
        target, member = self._places[link]
        if not target.fans:
            raise not_to_be_had(link, self.disconnect_receipt)
        self._quorum.give_up(target, member, link.reason, now)
        self._go_on(now)

    def denied(self, link: Link, error: bytes, now: float) -> bytes | None:
        """A broker refused CONNECT. Returns the ERROR frame for the client where the others are not enough."""
        target, member = self._places[link]
        try:
            self._quorum.give_up(target, member, "it answered CONNECT with ERROR", now)
            self._go_on(now)
        except StompError as failure:
            return complain(failure, self._session.dialect) if self._started and target.fans else error
        return None

    def unanswered(self) -> list[Link]:
        """Return the links without whose answer DISCONNECT cannot be sent or confirmed, also where they leave."""
        members = [
            member
            for target, member in self._places.values()
            if target.upstream.movable and (member.up or member.link.leaving)
        ]
        return [member.link for member in members if not member.safe or self._disconnect.awaits(member)]

    def write_off(self, link: Link) -> int:
        """Return how many SENDs a group has not confirmed, or was not sent yet, and await nothing of it any more."""
        member = self._router.member(link)
        self._quorum.do_without(member)
        return member.write_off()

    def finish(self, now: float) -> None:
        """Send DISCONNECT when all that was sent before is safe: the client will send no more."""
        self._disconnect.finish(self._client)
        self._go_on(now)

    def stop_messages(self) -> None:
        """Pass the client no more MESSAGEs, nor a RECEIPT for its DISCONNECT; read from brokers whatever it owes."""
        self._merge.ends = True
        for _, member in self._places.values():
            member.resume()

    def send_disconnect(self, now: float) -> None:
        """Send the DISCONNECT that waited to all connected brokers."""
        self._disconnect.send(now)

    def blocked(self, leg: Leg) -> None:
        """Keep what is sent to this broker until `unblocked`; the others go on."""
        self._member(leg).blocked = True

    def unblocked(self, leg: Leg, now: float) -> None:
        """Send what waited for this broker."""
        self._member(leg).blocked = False
        self._go_on(now)

    def _member(self, leg: Leg) -> Member:
        return next(member for link, (_, member) in self._places.items() if link.leg is leg)

    def _go_on(self, now: float) -> None:
        """Write what was put in, give the client its receipts, and send the DISCONNECT that waited for them."""
        decided: list[Confirmation[Member]] = []
        failures: list[StompError] = []
        for target, member in self._places.values():
            try:
                member.flush(now)
                if target.fans:
                    self._quorum.poisoned(target, member, now)
            except StompError as error:
                failures.append(error)
            decided += self._quorum.released(member)
            if member.paused and (not member.session.crowded or self.crowded):
                member.resume()
        for failure in failures:
            raise failure
        self._quorum.announce(decided, now)
        self._disconnect.go_on(now)
