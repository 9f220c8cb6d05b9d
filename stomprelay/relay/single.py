"""Frames between a client and the one broker that it has at a time, both ways, until one says disconnect."""

from contextlib import suppress

from stomprelay.relay.bridge.bridge import Bridge
from stomprelay.relay.bridge.negotiation import Bridges
from stomprelay.relay.bridge.tracing import Tracer
from stomprelay.relay.effects import Effect
from stomprelay.relay.flow import DisconnectState
from stomprelay.relay.forward import carry, give
from stomprelay.relay.link.link import Link
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


class Single:
    """A `Flow` with one link: one `Send` a chunk, made of slices. `erred` tells that the broker sent an ERROR.

    Where the session survives its broker, what the client says goes by the link's resender; a `tracer` marks it first.
    """

    __slots__ = (
        "_held",
        "_link",
        "_parting",
        "_resender",
        "_tracer",
        "client",
        "deaf",
        "disconnect",
        "disconnect_receipt",
        "erred",
        "links",
        "session",
    )

    def __init__(self, client: Leg, link: Link, tracer: Tracer | None = None) -> None:
        self.client = client
        self.session = link.session
        self.links = [link]
        self.disconnect_receipt: bytes | None = None
        self.erred = self.deaf = self._held = False
        self.disconnect = DisconnectState.UNSAID
        self._link = link
        self._resender = link.resender
        self._parting = b""
        self._tracer = tracer

    @property
    def survives(self) -> bool:
        """Its link has a resender."""
        return self._resender is not None

    @property
    def ready(self) -> bool:
        """There is a broker."""
        return self._link.up

    @property
    def flowing(self) -> bool:
        """There is a broker, and the session does not wait for the last answers before it leaves it."""
        link = self._link
        return link.up and not (link.moving and link.session.quiet)

    @property
    def full(self) -> bool:
        """Too much is unconfirmed."""
        return self._resender is not None and self._resender.unconfirmed.full

    @property
    def crowded(self) -> bool:
        """Still much is unconfirmed."""
        return self._resender is not None and self._resender.unconfirmed.crowded

    @property
    def safe(self) -> bool:
        """No SEND awaits its receipt."""
        return not self.session.receipts and (self._resender is None or self._resender.unconfirmed.safe)

    @property
    def settled(self) -> bool:
        """The client said goodbye and is owed nothing."""
        if self.disconnect is DisconnectState.SAID:
            return self.disconnect_receipt is None and self.safe
        return self.disconnect is DisconnectState.CONFIRMED

    def opened(self) -> list[Link]:
        """There is never another one."""
        return []

    def to_broker(self, effects: list[Effect], now: float) -> StompError | None:
        """Carry what the client's leg has."""
        broker, session = self._broker, self.session
        if self._resender is not None:
            failure = self._say(effects, now)
        else:
            bridge = self._bridges.to_broker
            upward = self._upward if self._tracer is None else self._tracer.headed(self._upward)
            data, frames, failure = carry(self.client, bridge.untouched, lambda each: upward(each, bridge))
            session.counters["client_frames"] += frames
            if data:
                broker.heartbeat.said_at = now
                effects.append(Send(broker, data))
        if self.disconnect is DisconnectState.SAID and broker.state is State.CONNECTED:
            broker.enter(State.LEAVING)
        # A broker whose receipts the client waits for is read from, whatever the client owes it.
        if self._held and (not session.crowded or self.crowded):
            self._held = False
            effects.append(Resume(broker))
        return failure

    def to_client(self, link: Link, effects: list[Effect], now: float) -> StompError | None:
        """Carry what the broker's leg has."""
        broker, session = self._broker, self.session
        bridge = self._bridges.to_client
        watchful = (erred := self.erred) or (bridge.tracked and session.subscriptions.acknowledging)
        untouched = _NOTHING if watchful else bridge.untouched
        data, frames, failure = carry(broker, untouched, lambda frame: self._downward(frame, bridge, erred))
        session.counters["broker_frames"] += frames
        if data and not self.deaf:
            self.client.heartbeat.said_at = now
            effects.append(Send(self.client, data))
        if self.disconnect is DisconnectState.WAITING and self.safe:
            self.send_disconnect(effects, now)
        if session.full and not self._held and not self.crowded:
            self._held = True
            effects.append(Pause(broker))
        return failure

    def bound(self, link: Link, effects: list[Effect], now: float) -> StompError | None:
        """Tell a new broker all that it has to know; the first one has nothing to know yet."""
        resender = self._resender
        if resender is None:
            return None
        self._held = self.erred = False
        try:
            resender.replay(subscriptions=self._stays)
        except StompError as error:
            return error
        finally:
            resender.flush(effects, now)
        if self.disconnect is not DisconnectState.UNSAID:
            self.disconnect = DisconnectState.WAITING
            if self.safe:
                self.send_disconnect(effects, now)
        return None

    def over(self, link: Link) -> bool:
        """It said ERROR, or the client said goodbye."""
        return self.erred or self.settled

    def lost(self, link: Link, effects: list[Effect], now: float) -> StompError | None:
        """Without a resender the session goes with its broker."""
        if self._resender is None:
            name = link.upstream.name
            return StompError(
                "connection to the broker was lost", f"upstream {name}", receipt=self.disconnect_receipt
            )
        failure = self._resender.lost(subscriptions=self._stays)
        self._answer(effects, now)
        return failure

    def given_up(self, link: Link, effects: list[Effect], now: float) -> StompError | None:
        """The session goes with its only link."""
        name = link.upstream.name
        if self._resender is None or link.fresh:
            # The client is told which, not why: reasons hold addresses and certificates.
            return StompError("broker not available", f"upstream {name} did not connect")
        return StompError(
            "no broker available", f"upstream {name}: {link.verdict}", receipt=self.disconnect_receipt
        )

    def denied(self, link: Link, error: bytes, effects: list[Effect], now: float) -> bytes | None:
        """The client gets it in the broker's own words."""
        return error

    def unanswered(self) -> list[Link]:
        """The link, if it can have another broker."""
        return [self._link] if self._resender is not None and self._link.up else []

    def send_disconnect(self, effects: list[Effect], now: float) -> None:
        """The DISCONNECT that waited goes to the broker."""
        self.disconnect = DisconnectState.SAID
        broker, parting = self._broker, self._parting
        if self._resender is not None:
            parting = self._resender.spelled(parting)
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
        return self.disconnect is DisconnectState.UNSAID and not self.deaf

    @property
    def _bridges(self) -> Bridges:
        bridges = self._link.bridges
        assert bridges is not None
        return bridges

    @property
    def _broker(self) -> Leg:
        leg = self._link.leg
        assert leg is not None
        return leg

    def _say(self, effects: list[Effect], now: float) -> StompError | None:
        """All complete frames of the client, by the resender."""
        resender, tracer, decoder = self._resender, self._tracer, self.client.decoder
        assert resender is not None
        failure = None
        count = 0
        try:
            for frame in decoder.frames() if tracer is None else tracer.frames(decoder):
                count += 1
                if frame.command is DISCONNECT:
                    self._left(frame)
                    break
                if not self.deaf:
                    resender.say(frame)
                elif frame.command not in _FOR_NOBODY:
                    with suppress(StompError):  # the rest is worth as much
                        resender.say(frame)
        except StompError as error:
            failure = error
        self.session.counters["client_frames"] += count
        resender.flush(effects, now)
        self._answer(effects, now)
        if self.disconnect is DisconnectState.WAITING and self.safe:
            self.send_disconnect(effects, now)
        return failure

    def _answer(self, effects: list[Effect], now: float) -> None:
        """Receipts that the relay gives in the place of a broker that is gone."""
        assert self._resender is not None
        receipts = self._resender.given()
        if not self.deaf:
            give(receipts, self.client, effects, now)

    def _left(self, frame: Frame) -> None:
        """DISCONNECT: it waits until all that was said before is safe."""
        self.disconnect_receipt = frame.header(RECEIPT_HEADER, self.client.dialect)
        self.client.enter(State.LEAVING)
        self.disconnect = DisconnectState.WAITING
        self._parting = frame.wire

    def _upward(self, frame: Frame, bridge: Bridge) -> bytes | None:
        """What becomes of a client's frame, without a resender; see `carry`."""
        if frame.command is not DISCONNECT:
            return bridge.head(frame, self.session)
        self._left(frame)
        if not self.session.receipts:
            self.disconnect = DisconnectState.SAID
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
        return self._resender is not None and self._resender.unconfirmed.mine(receipt)

    def _watched(self, frame: Frame) -> bool:
        """A frame that means something to the relay itself. Answers whether it passes."""
        session, resender = self.session, self._resender
        receipt = frame.header(RECEIPT_ID, self._broker.dialect)
        session.received(receipt)
        if frame.command is ERROR:
            if resender is not None and receipt is None and leaves(frame.raw(MESSAGE_HEADER) or b""):
                session.counters["errors_withheld"] += 1  # it goes away, and the client need not know
                return False
            self.erred = True
            session.counters["errors_passed"] += 1
            if resender is not None and receipt is not None:
                resender.unconfirmed.refused(receipt)
            return True
        if receipt is not None and receipt == self.disconnect_receipt:
            if self.disconnect is DisconnectState.CONFIRMED:
                return False  # ActiveMQ may answer DISCONNECT twice
            if self.disconnect is DisconnectState.SAID:
                self.disconnect = DisconnectState.CONFIRMED
                return True
        if resender is None or receipt is None:
            return True
        if receipt == self._link.parting:
            self._link.parted = True
        return resender.unconfirmed.received(receipt)
