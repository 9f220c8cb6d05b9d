"""Frames between a client and the one broker that it has at a time, both ways, until one says goodbye."""

from contextlib import suppress

from stomprelay.relay.bridge.bridge import Bridge
from stomprelay.relay.bridge.negotiation import Pairing
from stomprelay.relay.bridge.tracing import Tracer
from stomprelay.relay.effects import Effect
from stomprelay.relay.flow import Goodbye
from stomprelay.relay.forward import carry, give
from stomprelay.relay.link.link import Branch
from stomprelay.relay.model.profile import leaves
from stomprelay.session.effects import Pause, Resume, Send
from stomprelay.session.leg import Leg
from stomprelay.session.states import State
from stomprelay.wire.errors import StompError
from stomprelay.wire.frame import Frame
from stomprelay.wire.names import (
    DISCONNECT,
    ERROR,
    MESSAGE,
    MESSAGE_HEADER,
    RECEIPT_HEADER,
    RECEIPT_ID,
    SUBSCRIBE,
    UNSUBSCRIBE,
)

_NOTHING = frozenset[bytes]()
_FOR_NOBODY = frozenset({SUBSCRIBE, UNSUBSCRIBE})
"""What a client that is gone need not have said."""


class Traffic:
    """A `Flow` with one branch: one `Send` a chunk, made of slices. `erred` tells that the broker sent an ERROR.

    Where the session survives its broker, what the client says goes by the branch's carrier; a `tracer` marks it first.
    """

    __slots__ = (
        "_branch",
        "_carrier",
        "_held",
        "_parting",
        "_tracer",
        "branches",
        "bye",
        "client",
        "deaf",
        "erred",
        "goodbye",
        "session",
    )

    def __init__(self, client: Leg, branch: Branch, tracer: Tracer | None = None) -> None:
        self.client = client
        self.session = branch.session
        self.branches = [branch]
        self.bye: bytes | None = None
        self.erred = self.deaf = self._held = False
        self.goodbye = Goodbye.UNSAID
        self._branch = branch
        self._carrier = branch.carrier
        self._parting = b""
        self._tracer = tracer

    @property
    def survives(self) -> bool:
        """Its branch has a carrier."""
        return self._carrier is not None

    @property
    def ready(self) -> bool:
        """There is a broker."""
        return self._branch.up

    @property
    def flowing(self) -> bool:
        """There is a broker, and the session does not wait for the last answers before it leaves it."""
        branch = self._branch
        return branch.up and not (branch.moving and branch.session.quiet)

    @property
    def full(self) -> bool:
        """Too much is unconfirmed."""
        return self._carrier is not None and self._carrier.backlog.full

    @property
    def crowded(self) -> bool:
        """Still much is unconfirmed."""
        return self._carrier is not None and self._carrier.backlog.crowded

    @property
    def safe(self) -> bool:
        """No SEND awaits its receipt."""
        return not self.session.receipts and (self._carrier is None or self._carrier.backlog.safe)

    @property
    def settled(self) -> bool:
        """The client said goodbye and is owed nothing."""
        if self.goodbye is Goodbye.SAID:
            return self.bye is None and self.safe
        return self.goodbye is Goodbye.CONFIRMED

    def opened(self) -> list[Branch]:
        """There is never another one."""
        return []

    def to_broker(self, effects: list[Effect], now: float) -> StompError | None:
        """Carry what the client's leg has."""
        broker, session = self._broker, self.session
        if self._carrier is not None:
            failure = self._say(effects, now)
        else:
            bridge = self._bridges.to_broker
            upward = self._upward if self._tracer is None else self._tracer.headed(self._upward)
            data, frames, failure = carry(self.client, bridge.untouched, lambda each: upward(each, bridge))
            session.tally["client_frames"] += frames
            if data:
                broker.heartbeat.said_at = now
                effects.append(Send(broker, data))
        if self.goodbye is Goodbye.SAID and broker.state is State.CONNECTED:
            broker.enter(State.LEAVING)
        # A broker whose receipts the client waits for is read from, whatever the client owes it.
        if self._held and (not session.crowded or self.crowded):
            self._held = False
            effects.append(Resume(broker))
        return failure

    def to_client(self, branch: Branch, effects: list[Effect], now: float) -> StompError | None:
        """Carry what the broker's leg has."""
        broker, session = self._broker, self.session
        bridge = self._bridges.to_client
        watchful = (erred := self.erred) or (bridge.tracked and session.subscriptions.acknowledging)
        untouched = _NOTHING if watchful else bridge.untouched
        data, frames, failure = carry(broker, untouched, lambda frame: self._downward(frame, bridge, erred))
        session.tally["broker_frames"] += frames
        if data and not self.deaf:
            self.client.heartbeat.said_at = now
            effects.append(Send(self.client, data))
        if self.goodbye is Goodbye.WAITING and self.safe:
            self.say_goodbye(effects, now)
        if session.full and not self._held and not self.crowded:
            self._held = True
            effects.append(Pause(broker))
        return failure

    def bound(self, branch: Branch, effects: list[Effect], now: float) -> StompError | None:
        """Tell a new broker all that it has to know; the first one has nothing to know yet."""
        carrier = self._carrier
        if carrier is None:
            return None
        self._held = self.erred = False
        try:
            carrier.replay(subscriptions=self._stays)
        except StompError as error:
            return error
        finally:
            carrier.flush(effects, now)
        if self.goodbye is not Goodbye.UNSAID:
            self.goodbye = Goodbye.WAITING
            if self.safe:
                self.say_goodbye(effects, now)
        return None

    def over(self, branch: Branch) -> bool:
        """It said ERROR, or the client said goodbye."""
        return self.erred or self.settled

    def lost(self, branch: Branch, effects: list[Effect], now: float) -> StompError | None:
        """Without a carrier the session goes with its broker."""
        if self._carrier is None:
            name = branch.upstream.name
            return StompError("connection to the broker was lost", f"upstream {name}", receipt=self.bye)
        failure = self._carrier.lost(subscriptions=self._stays)
        self._answer(effects, now)
        return failure

    def given_up(self, branch: Branch, effects: list[Effect], now: float) -> StompError | None:
        """The session goes with its only branch."""
        name = branch.upstream.name
        if self._carrier is None or branch.fresh:
            # The client is told which, not why: reasons hold addresses and certificates.
            return StompError("broker not available", f"upstream {name} did not connect")
        return StompError("no broker available", f"upstream {name}: {branch.verdict}", receipt=self.bye)

    def denied(self, branch: Branch, error: bytes, effects: list[Effect], now: float) -> bytes | None:
        """The client gets it in the broker's own words."""
        return error

    def unanswered(self) -> list[Branch]:
        """The branch, if it can have another broker."""
        return [self._branch] if self._carrier is not None and self._branch.up else []

    def say_goodbye(self, effects: list[Effect], now: float) -> None:
        """The DISCONNECT that waited goes to the broker."""
        self.goodbye = Goodbye.SAID
        broker, parting = self._broker, self._parting
        if self._carrier is not None:
            parting = self._carrier.spelled(parting)
        broker.enter(State.LEAVING)
        broker.heartbeat.said_at = now
        effects.append(Send(broker, parting))

    def blocked(self, leg: Leg) -> None:
        """The service couples the two legs."""

    def unblocked(self, leg: Leg, effects: list[Effect], now: float) -> StompError | None:
        """The service couples the two legs."""
        return None

    @property
    def _stays(self) -> bool:
        """Whether the client wants to hear more than receipts."""
        return self.goodbye is Goodbye.UNSAID and not self.deaf

    @property
    def _bridges(self) -> Pairing:
        pairing = self._branch.pairing
        assert pairing is not None
        return pairing

    @property
    def _broker(self) -> Leg:
        leg = self._branch.leg
        assert leg is not None
        return leg

    def _say(self, effects: list[Effect], now: float) -> StompError | None:
        """All complete frames of the client, by the carrier."""
        carrier, tracer, decoder = self._carrier, self._tracer, self.client.decoder
        assert carrier is not None
        failure = None
        count = 0
        try:
            for frame in decoder.frames() if tracer is None else tracer.frames(decoder):
                count += 1
                if frame.command is DISCONNECT:
                    self._left(frame)
                    break
                if not self.deaf:
                    carrier.say(frame)
                elif frame.command not in _FOR_NOBODY:
                    with suppress(StompError):  # the rest is worth as much
                        carrier.say(frame)
        except StompError as error:
            failure = error
        self.session.tally["client_frames"] += count
        carrier.flush(effects, now)
        self._answer(effects, now)
        if self.goodbye is Goodbye.WAITING and self.safe:
            self.say_goodbye(effects, now)
        return failure

    def _answer(self, effects: list[Effect], now: float) -> None:
        """Receipts that the relay gives in the place of a broker that is gone."""
        assert self._carrier is not None
        receipts = self._carrier.given()
        if not self.deaf:
            give(receipts, self.client, effects, now)

    def _left(self, frame: Frame) -> None:
        """DISCONNECT: it waits until all that was said before is safe."""
        self.bye = frame.header(RECEIPT_HEADER, self.client.dialect)
        self.client.enter(State.LEAVING)
        self.goodbye = Goodbye.WAITING
        self._parting = frame.wire

    def _upward(self, frame: Frame, bridge: Bridge) -> bytes | None:
        """What becomes of a client's frame, without a carrier; see `carry`."""
        if frame.command is not DISCONNECT:
            return bridge.head(frame, self.session)
        self._left(frame)
        if not self.session.receipts:
            self.goodbye = Goodbye.SAID
            return bridge.head(frame, self.session)
        self._parting = bridge.carry(frame, self.session)
        return b""

    def _downward(self, frame: Frame, bridge: Bridge, erred: bool) -> bytes | None:
        """What becomes of a broker's frame; see `carry`. `erred`: an ERROR came before this chunk."""
        if frame.command is MESSAGE:
            if erred:
                self.erred = False  # it goes on: the ERROR will not explain what happens later
        elif not self._watched(frame):
            return b""
        elif frame.command is ERROR and self._mine(frame):
            return bridge.without(frame, RECEIPT_ID, self.session)
        return bridge.head(frame, self.session)

    def _mine(self, error: Frame) -> bool:
        receipt = error.header(RECEIPT_ID, self._broker.dialect)
        return self._carrier is not None and self._carrier.backlog.mine(receipt)

    def _watched(self, frame: Frame) -> bool:
        """A frame that means something to the relay itself. Answers whether it passes."""
        session, carrier = self.session, self._carrier
        receipt = frame.header(RECEIPT_ID, self._broker.dialect)
        session.received(receipt)
        if frame.command is ERROR:
            if carrier is not None and receipt is None and leaves(frame.raw(MESSAGE_HEADER) or b""):
                session.tally["errors_withheld"] += 1  # it goes away, and the client need not know
                return False
            self.erred = True
            session.tally["errors_passed"] += 1
            if carrier is not None and receipt is not None:
                carrier.backlog.refused(receipt)
            return True
        if receipt is not None and receipt == self.bye:
            if self.goodbye is Goodbye.CONFIRMED:
                return False  # ActiveMQ may answer DISCONNECT twice
            if self.goodbye is Goodbye.SAID:
                self.goodbye = Goodbye.CONFIRMED
                return True
        if carrier is None or receipt is None:
            return True
        if receipt == self._branch.parting:
            self._branch.parted = True
        return carrier.backlog.received(receipt)
