"""Measures how long a client waits for a RECEIPT, and a broker for an ACK: one sample of each, in one session. While
it is watched, every frame of the session goes through the relay.
"""

from dataclasses import InitVar, dataclass, field
from typing import Final

from stomprelay.relay.effects import Took
from stomprelay.relay.link.link import Link
from stomprelay.relay.model.counters import ACK as ACKNOWLEDGED
from stomprelay.relay.model.counters import RECEIPT as CONFIRMED
from stomprelay.relay.model.listener import Listener
from stomprelay.session.subscriptions import AUTO, CUMULATIVE, Subscription
from stomprelay.wire.decoder import Decoder
from stomprelay.wire.dialect import DeliveryNaming, Dialect
from stomprelay.wire.frame import Frame, Limits
from stomprelay.wire.names import (
    ACK,
    ACK_HEADER,
    BROKER_COMMANDS,
    CLIENT_COMMANDS,
    DESTINATION,
    ID,
    MESSAGE,
    MESSAGE_ID,
    NACK,
    RECEIPT,
    RECEIPT_HEADER,
    RECEIPT_ID,
    SEND,
    SUBSCRIPTION,
)

BEGIN: Final = 2.0
"""Seconds within which a SEND with receipt, or a MESSAGE that needs an ACK, must come to begin a sample."""
LONGEST: Final = 60.0
"""Seconds after which the watching ends. A sample that is still incomplete then counts as so long."""
MOST_BYTES: Final = 1024 * 1024
"""The most bytes of an incomplete frame. A session that sends a larger frame is not watched any more."""
_NAMES: Final = {
    DeliveryNaming.MESSAGE_ID: ((MESSAGE_ID,), (MESSAGE_ID,)),
    DeliveryNaming.SUBSCRIPTION_AND_MESSAGE_ID: ((SUBSCRIPTION, MESSAGE_ID), (SUBSCRIPTION, MESSAGE_ID)),
    DeliveryNaming.ACK: ((ACK_HEADER,), (ID,)),
}
"""For each way of naming deliveries: the headers that name a delivery in its MESSAGE, and those in its ACK."""

Name = tuple[bytes | None, ...]
"""The values that name a delivery."""


@dataclass(slots=True, eq=False)
class Looks:
    """How many frames may still be looked at for samples, in all sessions together. Each watched session adds some."""

    left: int

    def add(self, frames: int, most: int) -> None:
        """Allow `frames` more frames to be looked at, up to `most` in all."""
        self.left = min(self.left + frames, most)


@dataclass(eq=False, repr=False)
class Sample:
    """Watches a session from a moment at which no frame is incomplete. Give the sample all bytes that the client
    sends, and all bytes that the client is sent. `over`: stop watching.
    """

    _listener: Listener
    _links: list[Link]
    dialect: InitVar[Dialect]
    limits: InitVar[Limits]
    _looks: Looks
    _began: float
    _receipt: bytes | None = None
    _receipt_over: bool = False
    _ack_over: bool = False
    _upstream: str = ""
    _sent_at: float = 0.0
    _delivered_at: float = 0.0
    _acks: set[Name] = field(default_factory=set)
    _mode: bytes = b""
    _subscription: bytes | None = None

    def __post_init__(self, dialect: Dialect, limits: Limits) -> None:
        self._from_client = Decoder(dialect, CLIENT_COMMANDS, limits)
        self._to_client = Decoder(dialect, BROKER_COMMANDS, self._listener.upstream.limits)

    def over(self, now: float) -> bool:
        """Whether to stop watching: both samples are there, or the missing one cannot come, or a limit is reached."""
        unfit = self._looks.left <= 0 or self._from_client.buffered > MOST_BYTES
        if unfit or now > self._began + LONGEST:
            return True
        late = now > self._began + BEGIN
        receipt = self._receipt_over or (late and self._receipt is None)
        return receipt and (self._ack_over or (late and not self._acks))

    def given_up(self, now: float) -> list[Took]:
        """If the watching took too long, return the incomplete samples, with their time until now; otherwise none."""
        found: list[Took] = []
        if now <= self._began + LONGEST:
            return found
        if self._receipt is not None and not self._receipt_over:
            found.append(Took(CONFIRMED, self._upstream, now - self._sent_at))
        if self._acks and not self._ack_over:
            found.append(Took(ACKNOWLEDGED, self._listener.name, now - self._delivered_at))
        return found

    def from_client(self, data: bytes, now: float) -> list[Took]:
        """Record bytes that the client sent. Return the finished samples. Raises `StompError` for invalid bytes."""
        found: list[Took] = []
        self._from_client.feed(data)
        for frame in self._from_client.frames():
            self._looks.left -= 1
            if frame.command == SEND:
                self._sent(frame, now)
            elif frame.command in (ACK, NACK) and not self._ack_over and self._name(frame, 1) in self._acks:
                self._ack_over = True
                found.append(Took(ACKNOWLEDGED, self._listener.name, now - self._delivered_at))
        return found

    def to_client(self, data: bytes, now: float) -> list[Took]:
        """Record bytes that the client was sent. Returns and raises as `from_client` does."""
        found: list[Took] = []
        self._to_client.feed(data)
        for frame in self._to_client.frames():
            self._looks.left -= 1
            if frame.command == MESSAGE:
                self._delivered(frame, now)
            elif frame.command == RECEIPT and self._awaits(frame.header(RECEIPT_ID, self._to_client.dialect)):
                self._receipt_over = True
                found.append(Took(CONFIRMED, self._upstream, now - self._sent_at))
        return found

    def _awaits(self, receipt: bytes | None) -> bool:
        return self._receipt is not None and receipt == self._receipt and not self._receipt_over

    def _sent(self, frame: Frame, now: float) -> None:
        if self._receipt is not None:
            return
        dialect = self._from_client.dialect
        self._receipt = frame.header(RECEIPT_HEADER, dialect)
        self._sent_at = now
        self._upstream = self._listener.routed(frame.header(DESTINATION, dialect) or b"").name

    def _delivered(self, frame: Frame, now: float) -> None:
        """Begin the sample with a MESSAGE that needs an ACK. A cumulative ACK of a later MESSAGE ends it, too."""
        if self._ack_over or (self._acks and self._mode != CUMULATIVE):
            return
        id = frame.header(SUBSCRIPTION, self._to_client.dialect)
        if not self._acks:
            subscription = self._found(id, frame)
            if subscription is None or subscription.ack == AUTO:
                return
            self._mode, self._subscription, self._delivered_at = subscription.ack, id, now
        elif id != self._subscription:
            return
        self._acks.add(self._name(frame, 0))

    def _found(self, id: bytes | None, frame: Frame) -> Subscription | None:
        destination = frame.header(DESTINATION, self._to_client.dialect) or b""
        for link in self._links:
            found = link.session.subscriptions.delivered(id, destination)
            if found is not None:
                return found
        return None

    def _name(self, frame: Frame, side: int) -> Name:
        """Return the values by which a MESSAGE (`side` 0), or an ACK or NACK (`side` 1), names its delivery."""
        dialect = self._from_client.dialect
        return tuple([frame.header(name, dialect) for name in _NAMES[dialect.delivery][side]])
