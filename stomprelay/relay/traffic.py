"""Frames between two connected legs, both ways, until one says goodbye."""

from stomprelay.relay.effects import Effect
from stomprelay.relay.pairing import Pairing
from stomprelay.session.effects import Pause, Resume, Send
from stomprelay.session.leg import Leg
from stomprelay.session.session import Session
from stomprelay.session.states import State
from stomprelay.wire.errors import StompError
from stomprelay.wire.frame import Frame
from stomprelay.wire.names import DISCONNECT, ERROR, RECEIPT, RECEIPT_HEADER, RECEIPT_ID


class Traffic:
    """What flows between a client and its broker: one `Send` a chunk, made of slices.

    `leaving` tells that the client said DISCONNECT; it goes on to the broker once the receipts that are owed for
    earlier SENDs have come, for a broker may answer it before them. `bye` is the receipt it asked for, None once
    that came (or was never asked for). `erred` tells that the broker sent an ERROR.
    """

    __slots__ = ("_held", "_pairing", "_parting", "broker", "bye", "client", "erred", "leaving", "session")

    def __init__(self, client: Leg, broker: Leg, session: Session, pairing: Pairing) -> None:
        self.client = client
        self.broker = broker
        self.session = session
        self.bye: bytes | None = None
        self.erred = False
        self.leaving = False
        self._pairing = pairing
        self._parting: bytes | None = None
        self._held = False

    @property
    def settled(self) -> bool:
        """Whether the client said goodbye and is owed nothing: a broker that closes now has done its duty."""
        return self.leaving and self.bye is None and not self.session.receipts

    def to_broker(self, effects: list[Effect], now: float) -> StompError | None:
        """Carry what the client's leg has; append the effects. Answers what was wrong, after what was right."""
        session = self.session
        carry = self._pairing.to_broker.carry
        pieces: list[bytes] = []
        count = 0
        failure = None
        try:
            for frame in self.client.decoder.frames():
                count += 1
                if frame.command is DISCONNECT:
                    self._left(frame, pieces)
                    break
                carry(frame, session, pieces)
        except StompError as error:
            failure = error
        session.tally["client_frames"] += count
        if pieces:
            self.broker.heartbeat.said_at = now
            effects.append(Send(self.broker, b"".join(pieces)))
        if self._held and not session.crowded:
            self._held = False
            effects.append(Resume(self.broker))
        return failure

    def _left(self, frame: Frame, pieces: list[bytes]) -> None:
        self.leaving = True
        self.bye = frame.header(RECEIPT_HEADER, self.client.dialect)
        self.client.enter(State.LEAVING)
        parting: list[bytes] = []
        self._pairing.to_broker.carry(frame, self.session, parting)
        if self.session.receipts:
            self._parting = b"".join(parting)
        else:
            self.broker.enter(State.LEAVING)
            pieces += parting

    def to_client(self, effects: list[Effect], now: float) -> StompError | None:
        """Carry what the broker's leg has; otherwise as `to_broker`."""
        session, broker = self.session, self.broker
        carry = self._pairing.to_client.carry
        pieces: list[bytes] = []
        count = 0
        failure = None
        try:
            for frame in broker.decoder.frames():
                count += 1
                if frame.command is RECEIPT:
                    if broker.state is State.LEAVING and self.bye is None:
                        continue  # nothing is owed any more: ActiveMQ may answer DISCONNECT twice
                    self._confirmed(frame, effects, now)
                elif frame.command is ERROR:
                    self.erred = True
                    session.tally["errors_passed"] += 1
                    session.received(frame.header(RECEIPT_ID, broker.dialect))
                carry(frame, session, pieces)
        except StompError as error:
            failure = error
        session.tally["broker_frames"] += count
        if pieces:
            self.client.heartbeat.said_at = now
            effects.append(Send(self.client, b"".join(pieces)))
        if session.full and not self._held:
            self._held = True
            effects.append(Pause(broker))
        return failure

    def _confirmed(self, frame: Frame, effects: list[Effect], now: float) -> None:
        receipt = frame.header(RECEIPT_ID, self.broker.dialect)
        self.session.received(receipt)
        if self._parting is None:
            if self.leaving and receipt == self.bye:
                self.bye = None
        elif not self.session.receipts:
            self.broker.enter(State.LEAVING)
            self.broker.heartbeat.said_at = now
            effects.append(Send(self.broker, self._parting))
            self._parting = None
