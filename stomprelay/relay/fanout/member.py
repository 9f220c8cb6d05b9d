"""One group's link among several, and what waits for it while its broker cannot be written to."""

from collections import deque
from typing import NamedTuple

from stomprelay.relay.effects import Outbox
from stomprelay.relay.link.link import Link
from stomprelay.relay.resend.committing import unknown_outcome
from stomprelay.relay.resend.resender import Resender
from stomprelay.session.delivery import THING, Delivery
from stomprelay.session.effects import Pause, Resume
from stomprelay.session.leg import State
from stomprelay.session.session import Session
from stomprelay.wire.dialect import DeliveryNaming, Headers
from stomprelay.wire.errors import StompError
from stomprelay.wire.frame import Frame, compose
from stomprelay.wire.names import ID, MESSAGE_ID, SUBSCRIPTION, TRANSACTION


class CumulativeAck(NamedTuple):
    """An ACK or NACK that covers all deliveries of a subscription which are numbered below `order`."""

    command: bytes
    subscription: bytes
    order: int
    transaction: bytes | None


class Member:
    """A link with a resender, and what waits until its broker can be written to again, in the order in which it was
    sent. The resender keeps it when the broker is lost.

    `blocked`: the broker's connection takes no more. `disconnecting`: the broker was sent DISCONNECT. `erred`: its last
    frame was an ERROR that answers no request. `faults`: its errors since it last confirmed something. `given_up`: the
    group is left out for the rest of the session. `reason`: what went wrong last, in words for a client. `short`: it
    missed SENDs while it was `full`. `paused`: the broker is not read from, because the client owes too many ACKs.
    """

    __slots__ = (
        "_most",
        "_outbox",
        "_size",
        "_there",
        "_waiting",
        "blocked",
        "disconnecting",
        "erred",
        "faults",
        "given_up",
        "link",
        "paused",
        "reason",
        "resender",
        "session",
        "short",
    )

    def __init__(self, link: Link, resender: Resender, outbox: Outbox) -> None:
        self.link = link
        self.resender = resender
        self.session: Session = link.session
        self.paused = False
        self.disconnecting = False
        self.erred = False
        self.given_up = False
        self.faults = 0
        self.reason = ""
        self.short = False
        self._outbox = outbox
        self.blocked = False
        self._there = False
        self._waiting: deque[bytes | CumulativeAck] = deque()
        self._size = 0
        self._most = link.session.kept.room(link.upstream.resend_buffer)

    def __str__(self) -> str:
        return self.link.group.name

    @property
    def up(self) -> bool:
        """Whether it has a broker that it will not leave at once."""
        return self._there and self.link.up

    @property
    def writable(self) -> bool:
        """Whether its broker can be sent something now."""
        held = self.blocked or self.resender.careful or (self.link.departing and self.session.quiet)
        return self.up and not held

    @property
    def size(self) -> int:
        """The number of bytes that wait or are not confirmed."""
        return self.resender.unconfirmed.size + self._size

    @property
    def cost(self) -> int:
        """The number of bytes that all of it costs, receipt ids included."""
        return self.resender.unconfirmed.cost + self._size + THING * len(self._waiting)

    @property
    def full(self) -> bool:
        """Whether as much waits or is unconfirmed as may be."""
        return self.size >= self._most

    @property
    def crowded(self) -> bool:
        """Whether more than half of what may be waits or is unconfirmed."""
        return self.size * 2 > self._most

    @property
    def flooded(self) -> bool:
        """Whether so much waits, even without SENDs, that the broker is better taken for lost."""
        return self._size >= 2 * self._most

    @property
    def safe(self) -> bool:
        """Whether all SENDs and COMMITs that were sent to it have arrived, as far as receipts were asked for."""
        return not self._waiting and self.resender.safe and not self.session.receipts

    def write_off(self) -> int:
        """As `Link.write_off`, with the SENDs that wait."""
        waiting, self._waiting = self._waiting, deque()
        self._size = 0
        sends = sum(isinstance(each, bytes) and each.startswith(b"SEND") for each in waiting)
        return self.link.write_off() + sends

    # What is sent

    def send(self, frame: Frame) -> None:
        """Put in a client's frame. Raises `StompError` for one that cannot be sent."""
        if self._waits:
            self._waiting.append(frame.wire)
            self._size += frame.after - frame.start
        else:
            self._put(frame)

    def _put(self, frame: Frame) -> None:
        if self.link.broker is not None:
            self.link.connection.sent_frames += 1
        self.resender.send(frame)

    def compose(self, command: bytes, headers: Headers) -> None:
        """Put in a frame that the relay sends in the client's name. Raises as `send` does."""
        for frame in self.resender.read(compose(command, headers, self.session.dialect)):
            self.send(frame)

    def acknowledge(self, ack: CumulativeAck) -> bool:
        """A cumulative ACK or NACK of a later delivery of another broker. Returns whether it concerns this one."""
        if self._waits:
            last = self._waiting[-1] if self._waiting else None
            if isinstance(last, CumulativeAck) and last._replace(order=ack.order) == ack:
                self._waiting.pop()
            self._waiting.append(ack)
            return True
        subscription = self.session.subscriptions.delivered(ack.subscription, b"")
        delivery = None if subscription is None else self.session.ledger.latest(subscription, ack.order)
        if delivery is None:
            return False
        if delivery.lost:
            self.session.ledger.settled(delivery)
            return False
        self.compose(ack.command, self._named(delivery, ack.transaction))
        return True

    def _named(self, delivery: Delivery, transaction: bytes | None) -> Headers:
        """Return the headers of an ACK that name a delivery by its token, which needs no other header."""
        naming = self.session.dialect.delivery
        headers: Headers = [(ID if naming is DeliveryNaming.ACK else MESSAGE_ID, delivery.token)]
        if naming is DeliveryNaming.SUBSCRIPTION_AND_MESSAGE_ID:
            headers.insert(0, (SUBSCRIPTION, delivery.subscription.id))
        if transaction is not None:
            headers.append((TRANSACTION, transaction))
        return headers

    @property
    def _waits(self) -> bool:
        return bool(self._waiting) or (self._there and not self.writable)

    def flush(self, now: float) -> None:
        """Write what was put in; what waited comes first, if the broker can be written to. Raises as `send` does."""
        try:
            if self.resender.careful and self.up:
                self.resender.go_on(now)
            while self._waiting and self.writable:
                self._go_on()
        finally:
            self.resender.flush(now)

    def _go_on(self) -> None:
        first = self._waiting.popleft()
        rest, self._waiting = self._waiting, deque()
        try:
            if isinstance(first, CumulativeAck):
                self.acknowledge(first)
            else:
                self._size -= len(first)
                for frame in self.resender.read(first):
                    self._put(frame)
        finally:
            self._waiting = rest

    def send_disconnect(self, wire: bytes, now: float) -> None:
        """Write what was put in, then this DISCONNECT."""
        leg = self.link.connection.leg
        self.blocked = False
        self.flush(now)
        self.disconnecting = True
        leg.enter(State.LEAVING)
        self._outbox.send(leg, wire, now)

    # What its broker takes and gives

    def pause(self) -> None:
        """Stop reading from the broker, unless that is so."""
        if not self.paused:
            self.paused = True
            self._outbox.put(Pause(self.link.connection.leg))

    def resume(self) -> None:
        """Read from the broker again, if `pause` was called."""
        if self.paused and self.link.broker is not None:
            self.paused = False
            self._outbox.put(Resume(self.link.connection.leg))

    def confirmed(self) -> None:
        """The broker confirmed something: what it did wrong before counts no more."""
        self.faults = 0
        self.erred = False

    # Brokers come and go

    def connected(self) -> None:
        """Reset what belonged to the broker before: there is a new one."""
        self._there = True
        self.blocked = self.paused = self.disconnecting = False
        self.erred = False

    def lost(self, now: float) -> list[StompError]:
        """The broker is lost: what waited is kept for the next one. Returns what cannot be kept."""
        failures: list[StompError] = []
        for receipt in self.resender.lost(by=self.link.dropped_by, now=now):
            failures.append(unknown_outcome(receipt))
            if receipt is not None:
                self.resender.refused(receipt)
        waiting, self._waiting = self._waiting, deque()
        self._size = 0
        self._there = self.blocked = self.paused = self.disconnecting = False
        for each in waiting:
            if isinstance(each, bytes):
                for frame in self.resender.read(each):
                    try:
                        self.resender.send(frame)
                    except StompError as error:
                        failures.append(error)
        return failures
