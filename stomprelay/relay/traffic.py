"""Frames between two connected legs, both ways, until one says goodbye."""

from enum import Enum

from stomprelay.relay.bridge import Bridge
from stomprelay.relay.effects import Effect
from stomprelay.relay.pairing import Pairing
from stomprelay.session.effects import Pause, Resume, Send
from stomprelay.session.leg import Leg
from stomprelay.session.session import Session
from stomprelay.session.states import State
from stomprelay.wire.errors import StompError
from stomprelay.wire.frame import Frame
from stomprelay.wire.names import DISCONNECT, ERROR, MESSAGE, RECEIPT, RECEIPT_HEADER, RECEIPT_ID

_WATCHED = frozenset({DISCONNECT, RECEIPT, ERROR})


class Goodbye(Enum):
    """How far a client's DISCONNECT has come."""

    UNSAID = "unsaid"
    WAITING = "waiting"
    """It waits for the receipts that are owed for earlier SENDs: a broker may answer it before them."""
    SAID = "said"
    """The broker was told."""
    CONFIRMED = "confirmed"
    """The receipt that it asked for was passed to the client."""


class Traffic:
    """What flows between a client and its broker: one `Send` a chunk, made of slices.

    `goodbye` tells how far the client's DISCONNECT is; while it is WAITING, `say_goodbye` sends it on regardless.
    `bye` is the receipt that it asked for, if any. `erred` tells that the broker sent an ERROR.
    """

    __slots__ = ("_held", "_pairing", "_parting", "broker", "bye", "client", "erred", "goodbye", "session")

    def __init__(self, client: Leg, broker: Leg, session: Session, pairing: Pairing) -> None:
        self.client = client
        self.broker = broker
        self.session = session
        self.bye: bytes | None = None
        self.erred = False
        self.goodbye = Goodbye.UNSAID
        self._pairing = pairing
        self._parting = b""
        self._held = False

    @property
    def settled(self) -> bool:
        """Whether the client said goodbye and is owed nothing: a broker that closes now has done its duty."""
        if self.goodbye is Goodbye.SAID:
            return self.bye is None and not self.session.receipts
        return self.goodbye is Goodbye.CONFIRMED

    def to_broker(self, effects: list[Effect], now: float) -> StompError | None:
        """Carry what the client's leg has; append the effects. Answers what was wrong, after what was right."""
        failure = self._carry(self.client, self.broker, self._pairing.to_broker, effects, now)
        if self.goodbye is Goodbye.SAID and self.broker.state is State.CONNECTED:
            self.broker.enter(State.LEAVING)
        if self._held and not self.session.crowded:
            self._held = False
            effects.append(Resume(self.broker))
        return failure

    def to_client(self, effects: list[Effect], now: float) -> StompError | None:
        """Carry what the broker's leg has; otherwise as `to_broker`."""
        failure = self._carry(self.broker, self.client, self._pairing.to_client, effects, now)
        if self.goodbye is Goodbye.WAITING and not self.session.receipts:
            self.say_goodbye(effects, now)
        if self.session.full and not self._held:
            self._held = True
            effects.append(Pause(self.broker))
        return failure

    def say_goodbye(self, effects: list[Effect], now: float) -> None:
        """The DISCONNECT that waited goes to the broker."""
        self.goodbye = Goodbye.SAID
        self.broker.enter(State.LEAVING)
        self.broker.heartbeat.said_at = now
        effects.append(Send(self.broker, self._parting))

    def _carry(
        self,
        source: Leg,
        target: Leg,
        bridge: Bridge,
        effects: list[Effect],
        now: float,
    ) -> StompError | None:
        """All complete frames of a leg as one `Send`. Neighbours that pass as they came stay one slice, and where
        the whole chunk does, it is not even copied.
        """
        session = self.session
        untouched = bridge.untouched
        erred = self.erred and source is self.broker
        if erred:
            untouched = frozenset()
        pieces: list[bytes] = []
        data = b""
        start = stop = count = 0
        failure = None
        try:
            for frame in source.decoder.frames():
                count += 1
                data = frame.data
                head = None
                if frame.command not in untouched:
                    if frame.command in _WATCHED and not self._watched(frame):
                        if frame.command is DISCONNECT:
                            break
                        continue
                    if erred and frame.command is MESSAGE:
                        self.erred = False  # it goes on: the ERROR will not explain what happens later
                    head = bridge.head(frame, session)
                if head is not None:
                    pieces += (data[start:stop], head)
                    start = frame.body
                elif frame.start != stop:
                    pieces.append(data[start:stop])
                    start = frame.start
                stop = frame.after
                if frame.command is DISCONNECT:
                    break
        except StompError as error:
            failure = error
        session.tally["client_frames" if source is self.client else "broker_frames"] += count
        pieces.append(data[start:stop])
        if stop:
            if source is self.broker and source.decoder.trails and stop == len(data) and data[-1] == 0:
                # It would come with the next chunk, too late for clients that wait for it.
                pieces.append(b"\n")
            target.heartbeat.said_at = now
            effects.append(Send(target, b"".join(pieces)))
        return failure

    def _watched(self, frame: Frame) -> bool:
        """A frame that means something to the relay itself. Answers whether it passes."""
        session = self.session
        if frame.command is DISCONNECT:
            self.bye = frame.header(RECEIPT_HEADER, self.client.dialect)
            self.client.enter(State.LEAVING)
            if not session.receipts:
                self.goodbye = Goodbye.SAID
                return True
            self.goodbye = Goodbye.WAITING
            self._parting = self._pairing.to_broker.carry(frame, session)
            return False
        receipt = frame.header(RECEIPT_ID, self.broker.dialect)
        session.received(receipt)
        if frame.command is ERROR:
            self.erred = True
            session.tally["errors_passed"] += 1
        elif receipt == self.bye and receipt is not None:
            if self.goodbye is Goodbye.CONFIRMED:
                return False  # ActiveMQ may answer DISCONNECT twice
            if self.goodbye is Goodbye.SAID:
                self.goodbye = Goodbye.CONFIRMED
        return True
