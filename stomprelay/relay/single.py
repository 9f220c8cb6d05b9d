"""Carries frames between a client and one broker at a time, in both directions."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import ClassVar, Literal

from stomprelay.relay.bridge import Bridges, Tracer, to_broker, to_client
from stomprelay.relay.counting import DestinationCounter, queue_frames, queue_runs
from stomprelay.relay.effects import NO_MORE, NOTHING, TURN, Joiner, Outbox, Pass, give_receipts
from stomprelay.relay.guard import Guard
from stomprelay.relay.link.link import (
    GOODBYE,
    Connected,
    Denied,
    DisconnectState,
    Link,
    broker_lost,
    not_to_be_had,
)
from stomprelay.relay.resend.resender import Resender
from stomprelay.relay.resend.unconfirmed import UNCONFIRMED, unknown_outcome
from stomprelay.session.leg import Leg, LegState
from stomprelay.session.session import Session
from stomprelay.wire.errors import StompError
from stomprelay.wire.frame import Frame
from stomprelay.wire.names import (
    DISCONNECT,
    ERROR,
    MESSAGE,
    RECEIPT_HEADER,
    RECEIPT_ID,
    SEND,
    SUBSCRIBE,
    UNSUBSCRIBE,
)
from stomprelay.wire.run import NOTHING_PASSES, Passing, Run

_FOR_NOBODY = frozenset({SUBSCRIBE, UNSUBSCRIBE})
"""Commands that a broker need not be sent any more when the client is gone."""


@dataclass(slots=True, eq=False, repr=False)
class Single:
    """A `Flow` with one link. The frames of each chunk are written as one `Send`. The flow is `coupled`: if one leg
    cannot be written to, the service does not read from the other leg.

    `guard` judges the client's frames, `tracer` marks them, `counter` counts them. `links` has the only link. If the
    session `survives` its broker, the link's resender sends the client's frames. `erred`: the broker sent an ERROR.
    """

    _client: Leg
    _link: Link
    _outbox: Outbox
    guard: Guard
    tracer: Tracer | None = None
    counter: DestinationCounter | None = None
    disconnect: DisconnectState = DisconnectState.NONE
    disconnect_receipt: bytes | None = None
    erred: bool = False
    _erred: bool = False
    _ends: bool = False
    _goodbye: bytes | None = None
    _frame: bytes = b""
    _from: tuple[tuple[bool, ...], Passing, Pass] | None = None
    _passing: tuple[Passing, Pass] | None = None
    _bridges: Bridges = field(init=False)  # of the frames that are carried now
    links: list[Link] = field(init=False)
    survives: bool = field(init=False)
    coupled: ClassVar[Literal[True]] = True
    _session: Session = field(init=False)
    _resender: Resender | None = field(init=False)

    def __post_init__(self) -> None:
        self.links = [self._link]
        self._session, self._resender = self._link.session, self._link.resender
        self.survives = self._resender is not None
        if self._resender is not None:
            self._session.kept.watch(self._resender.unconfirmed)

    @property
    def ready(self) -> bool:
        """Whether the link has a broker."""
        return self._link.up

    @property
    def flowing(self) -> bool:
        """Whether there is a broker that has been sent its whole line, and the session is not leaving it."""
        state, resender = self._link.state, self._resender
        if type(state) is not Connected or (resender is not None and resender.line is not None):
            return False
        return self._link.moving is None or not (self._link.departing and self._session.quiet)

    @property
    def _careful(self) -> bool:
        """Whether the broker has not been sent its whole line yet. A part of the line may wait for answers."""
        return self._resender is not None and self._resender.line is not None

    @property
    def full(self) -> bool:
        """Whether so much is unconfirmed that the client must not be read from."""
        resender = self._resender
        return resender is not None and resender.unconfirmed.size >= resender.unconfirmed.most

    @property
    def crowded(self) -> bool:
        """Whether, after the flow was `full`, the client must still not be read from."""
        resender = self._resender
        return resender is not None and 2 * resender.unconfirmed.size > resender.unconfirmed.most

    @property
    def safe(self) -> bool:
        """Whether no SEND awaits its receipt, except in open transactions."""
        session, resender = self._session, self._resender
        return len(session.receipts) == session.uncommitted if resender is None else resender.safe

    @property
    def settled(self) -> bool:
        """Whether the client sent DISCONNECT and has received everything that it is owed."""
        if self.disconnect is DisconnectState.SENT:
            return self.disconnect_receipt is None and self.safe
        return self.disconnect is DisconnectState.CONFIRMED

    @property
    def parting(self) -> bool:
        """Whether another flow can take the place of this one now: no frame waits, and no transaction is open."""
        link = self._link
        if self._resender is None or not self.flowing or link.moving is not None or link.done or self.erred:
            return False
        return self.disconnect is DisconnectState.NONE and not self._session.transactions

    def guarded(self, guard: Guard) -> None:
        """Let this guard judge the client's frames from now on. Call this again when the guard's rules have changed."""
        self.guard = guard
        self._passing = None

    # What passes without a look at each frame

    def passes(self) -> list[Pass]:
        """Return what may pass without the relay: frames that the relay need not look at. The list may be empty."""
        link = self._link
        if not link.up or link.moving is not None or self._careful or self.erred or link.connection.paused:
            return []
        if self.disconnect is not DisconnectState.NONE or self.tracer is not None:
            return []
        from_client = self._from_client(link.connection)
        if from_client is None:
            return []
        from_broker = self._from_broker(link.connection)[1]
        return [from_client[1], from_broker]

    def _from_client(self, connection: Connected) -> tuple[Passing, Pass] | None:
        """Return which frames of the client may pass through the relay in runs, and which may pass without the relay.
        Return None before the first frame of the session.
        """
        resender, session, bridges = self._resender, self._session, connection.bridges
        if self._passing is not None or self.disconnect is not DisconnectState.NONE:
            return self._passing
        if not (session.client_frames or session.broker_frames):
            return None
        if resender is None:
            passing = straight = to_broker(bridges, session, sends=True, unkept=session.pass_unproved)
        elif self._link.upstream.confirm:  # the resender adds something to SENDs
            alike = resender.unconfirmed.cumulative
            passing = to_broker(bridges, session, sends=True, parts=not alike, alike=alike)
            straight = to_broker(bridges, session, sends=False)
        else:
            unkept = resender.unconfirmed.pass_unkept
            passing = straight = to_broker(bridges, session, sends=True, unkept=unkept)
        if self.counter is not None:
            passing = queue_runs(passing, self._link.queue_sent)
            straight = queue_runs(straight, self._link.queue_sent)
        if self.guard.active:
            passing = self.guard.passing(passing)
            straight = self.guard.passing(straight)
        self._passing = passing, Pass(self._client, connection.leg, straight)
        return self._passing

    def _from_broker(self, connection: Connected) -> tuple[Passing, Pass]:
        """Return which frames of a broker may pass through the relay in runs, and which may pass without the relay."""
        session = self._session
        receipts = self._resender is None and self.disconnect is DisconnectState.NONE
        asks = self._resender is not None and self._link.upstream.confirm
        ours = self._resender.received_all if self._resender is not None and asks else None
        subscriptions = session.subscriptions
        kinds = subscriptions.acknowledging > 0, subscriptions.selecting > 0
        state = *kinds, receipts, connection.leg.decoder.trails
        found = self._from
        if found is None or found[0] != state:
            passing = straight = to_client(connection.bridges, session, receipts=receipts)
            if ours is not None:
                passing = to_client(connection.bridges, session, receipts=receipts, ours=ours)
            if self.counter is not None:
                passing = queue_runs(passing, self._link.queue_gave)
                straight = queue_runs(straight, self._link.queue_gave)
            found = self._from = state, passing, Pass(connection.leg, self._client, straight, state[-1])
        return found[1], found[2]

    # Frames of the client

    def to_broker(self, now: float, most: int = TURN) -> None:
        """Carry the frames that the client's leg has, at most `most`."""
        link, client, resender, tracer = self._link, self._client, self._resender, self.tracer
        connection = link.state
        assert isinstance(connection, Connected)
        broker, self._bridges = connection.leg, connection.bridges
        frames: Iterator[Frame | Run]
        if tracer is not None or client.gone:
            looked = client.decoder.frames()
            if self.guard.active:
                looked = self.guard.judged(looked, client.dialect)
            if tracer is not None and resender is not None:
                looked = tracer.frames(looked)
            frames = islice(looked, most)
        else:
            passing = self._from_client(connection)
            frames = client.decoder.runs(NOTHING_PASSES if passing is None else passing[0], most)
            if self.guard.active:
                frames = self.guard.judged(frames, client.dialect)
        if self.counter is not None:
            frames = self._counted(self.counter, frames, client)
        try:
            if resender is not None:
                self._resend(resender, frames, connection, now)
                return
            joiner = Joiner()
            try:
                joiner.carry(frames, self._upward if tracer is None else tracer.headed(self._upward))
            finally:
                self._session.client_sent(joiner.frames)
                connection.sent_frames += joiner.frames
                data = joiner.take()
                if data:
                    self._outbox.send(broker, data, now)
        finally:
            if self.disconnect is DisconnectState.SENT and broker.state is LegState.CONNECTED:
                broker.enter(LegState.LEAVING)
            if connection.paused:
                link.pace(crowded=self.crowded)

    def _upward(self, frame: Frame) -> bytes | None:
        """Return the new head of a client's frame if there is no resender; see `NewHead`."""
        session, bridge = self._session, self._bridges.to_broker
        if frame.command is not DISCONNECT:
            head = bridge.head(frame, session)
            # A SEND with a remembered head asks for no receipt.
            if frame.command is SEND and (
                (frame.memo is not None and frame.memo is session.memo) or frame.raw(RECEIPT_HEADER) is None
            ):
                session.unproved += 1
            return head
        self._disconnecting(frame)
        if self.safe:
            self.disconnect = DisconnectState.SENT
            return bridge.head(frame, session)
        self._frame = bridge.carry(frame, session)
        return NOTHING

    def _resend(
        self, resender: Resender, frames: Iterator[Frame | Run], connection: Connected, now: float
    ) -> None:
        """Send these frames of the client with the resender."""
        count = 0
        try:
            for frame in frames:
                if type(frame) is Run:
                    count += frame.count
                    resender.send(frame)
                    continue
                count += 1
                if frame.command is DISCONNECT:
                    self._disconnecting(frame)
                    break
                if not self._client.gone:
                    resender.send(frame)
                elif frame.command not in _FOR_NOBODY:
                    with suppress(StompError):  # later frames are still sent
                        resender.send(frame)
        finally:
            self._session.client_sent(count)
            connection.sent_frames += count
            resender.flush(now)
            if resender.unconfirmed.given:
                give_receipts(resender.unconfirmed.take_given(), self._client, self._outbox, now)
            if self.disconnect is DisconnectState.WAITING and self.safe:
                self.send_disconnect(now)

    def _counted(
        self, counter: DestinationCounter, frames: Iterator[Frame | Run], leg: Leg
    ) -> Iterator[Frame | Run]:
        """Yield these frames of a leg, after counting each by destination."""
        frames = queue_frames(frames, self._link.queue_sent if leg is self._client else self._link.queue_gave)
        return counter.counting(frames, self._session, leg.dialect)

    def _disconnecting(self, frame: Frame) -> None:
        """Keep the client's DISCONNECT until all earlier frames are safe."""
        self.disconnect_receipt = frame.header(RECEIPT_HEADER, self._client.dialect)
        self._client.enter(LegState.LEAVING)
        self.disconnect = DisconnectState.WAITING
        self._frame = frame.wire

    def finish(self, now: float) -> None:
        """The client will send no more: send DISCONNECT as soon as everything that it sent before is safe."""
        self._client.enter(LegState.LEAVING)
        self.disconnect = DisconnectState.WAITING
        self._goodbye = self._session.name + GOODBYE
        if self.safe and self._link.up:
            self.send_disconnect(now)

    def stop_messages(self) -> None:
        """From now on, send the client no MESSAGE and no RECEIPT for its DISCONNECT."""
        self._ends = True

    def send_disconnect(self, now: float) -> None:
        """Send the waiting DISCONNECT to the broker."""
        self.disconnect = DisconnectState.SENT
        connection, frame = self._link.connection, self._frame
        broker = connection.leg
        if self._goodbye is not None:
            frame = connection.bridges.to_broker.leave(self._goodbye, self._session)
        elif self._resender is not None:
            frame = self._resender.spelled(frame)
        broker.enter(LegState.LEAVING)
        self._outbox.send(broker, frame, now)

    # Frames of the broker

    def to_client(self, link: Link, now: float) -> None:
        """Carry the frames of the broker's leg to the client."""
        connection, session, joiner = link.state, self._session, Joiner()
        assert isinstance(connection, Connected)
        broker, self._bridges = connection.leg, connection.bridges
        self._erred = self.erred or self._ends
        passing = NOTHING_PASSES
        if not self._erred and (self._passing or self._from_client(connection)) is not None:
            passing = self._from_broker(connection)[0]
        frames = broker.decoder.runs(passing, TURN)
        if self.counter is not None:
            frames = self._counted(self.counter, frames, broker)
        try:
            joiner.carry(frames, self._downward)
            if self._resender is not None and self._resender.line is not None:
                self._resender.go_on(now)
                self._resender.flush(now)
        finally:
            session.broker_sent(joiner.frames)
            connection.received_frames += joiner.frames
            data = joiner.take(trails=broker.decoder.trails)
            if data:
                self._outbox.send(self._client, data, now)
            if session.own:
                own = session.take_own()
                if broker.state is LegState.CONNECTED:
                    self._outbox.send(broker, own, now)
            if self._resender is not None and self._resender.unconfirmed.committing.late:
                give_receipts(self._resender.unconfirmed.take_late(), self._client, self._outbox, now)
            if self.disconnect is DisconnectState.WAITING and self.safe and link.up:
                self.send_disconnect(now)
            if connection.paused or session.full:
                link.pace(crowded=self.crowded)

    def _downward(self, frame: Frame) -> bytes | None:
        """Return the new head of a broker's frame; see `NewHead`."""
        bridge = self._bridges.to_client
        if frame.command is MESSAGE:
            if self._ends:
                return NOTHING
            if self._erred:
                self.erred = False  # the broker goes on, so the ERROR is not why the session ends later
            return bridge.head(frame, self._session)
        receipt = self._session.asked(frame.header(RECEIPT_ID, self._bridges.broker))
        self._session.received(receipt)
        if frame.command is not ERROR:
            self._session.unproved = 0
            return bridge.head(frame, self._session) if self._receipt_passes(receipt) else NOTHING
        if not self._error_passes(frame, receipt):
            return NO_MORE if self._link.done else NOTHING
        ours = self._resender is not None and self._resender.unconfirmed.is_ours(receipt)
        if ours or (receipt is not None and receipt == self._goodbye):
            return bridge.without(frame, RECEIPT_ID, self._session)
        return bridge.head(frame, self._session)

    def _error_passes(self, frame: Frame, receipt: bytes | None) -> bool:
        counters, resender = self._session.counters, self._resender
        if resender is not None and self._link.connection.product.leaves(frame):
            counters["errors_withheld"] += 1  # the broker goes away, and the client need not know
            if receipt is not None:
                self._link.broker_leaves()
            return False
        self.erred = True
        counters["errors_passed"] += 1
        if resender is not None:
            resender.refused(receipt)
        return True

    def _receipt_passes(self, receipt: bytes | None) -> bool:
        if receipt is not None and receipt in (self.disconnect_receipt, self._goodbye):
            if self.disconnect is DisconnectState.CONFIRMED:
                return False  # ActiveMQ may answer DISCONNECT twice
            if self.disconnect is DisconnectState.SENT:
                self.disconnect = DisconnectState.CONFIRMED
                self._link.proved()
                return self._goodbye is None and not self._ends
        if self._resender is None or receipt is None:
            return True
        self._link.received_receipt(receipt)
        return self._resender.received(receipt)

    # Brokers come and go

    def connected(self, link: Link, now: float) -> None:
        """Send a new broker all that the session needs there. The first broker needs nothing."""
        resender = self._resender
        self._from = self._passing = None
        if resender is None:
            return
        self.erred = False
        try:
            resender.replay(subscriptions=self._receives, now=now)
        finally:
            resender.flush(now)
        give_receipts(resender.unconfirmed.take_given(), self._client, self._outbox, now)
        if self.disconnect is not DisconnectState.NONE:
            self.disconnect = DisconnectState.WAITING
            if self.safe:
                self.send_disconnect(now)

    def over(self, link: Link) -> bool:
        """Whether the session is over: the client got the broker's ERROR, or sent DISCONNECT and is owed nothing."""
        return self.settled or (self.erred and not self._client.gone)

    def lost(self, link: Link, now: float) -> None:
        """Keep frames for the next broker. Raises `StompError` without a resender, or if COMMIT is unsure."""
        if self._resender is None:
            raise broker_lost(link.upstream, self.disconnect_receipt)
        doubts = self._resender.lost(by=link.dropped_by, now=now)
        give_receipts(self._resender.unconfirmed.take_given(), self._client, self._outbox, now)
        for receipt in doubts:
            raise unknown_outcome(receipt)

    def review(self, link: Link, now: float) -> None:
        """Look for SENDs that the broker did not confirm in time, see `Resender.review`. Raises as `lost` does."""
        resender = self._resender
        assert resender is not None
        doubts = resender.review(now)
        resender.go_on(now)
        resender.flush(now)
        if self.disconnect is DisconnectState.WAITING and self.safe and link.up:
            self.send_disconnect(now)
        for receipt in doubts:
            raise unknown_outcome(receipt, UNCONFIRMED)

    def passed_over(self, link: Link, receipt: bytes) -> None:
        """The client gets an ERROR in place of this receipt, and the session goes on."""

    def given_up(self, link: Link, now: float) -> None:
        """Raise the `StompError` with which the session ends, because its only link found no broker."""
        raise not_to_be_had(link, self.disconnect_receipt)

    def denied(self, link: Link, error: Denied, now: float) -> bytes | None:
        """Return the broker's ERROR, because the client gets it unchanged."""
        return error.wire

    def unanswered(self) -> list[Link]:
        """Return the link if it has a broker, which it may be leaving; otherwise no link."""
        return [self._link] if self._link.up or self._link.leaving else []

    @property
    def lacking(self) -> list[Link]:
        """The link, if not everything that is kept for another broker is confirmed; otherwise no link."""
        return [self._link] if self._resender is not None and not self._resender.safe else []

    def write_off(self, link: Link) -> int:
        """Forget the SENDs that the link's brokers have not confirmed, and return how many may be lost."""
        return link.write_off()

    @property
    def _receives(self) -> bool:
        """Whether the client may still get anything except receipts."""
        return self.disconnect is DisconnectState.NONE and not (self._client.gone or self._ends)
