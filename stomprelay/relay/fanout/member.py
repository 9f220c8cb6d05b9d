"""One link among several: what waits for it while its broker does not listen."""

from collections import deque
from typing import NamedTuple

from stomprelay.relay.effects import Effect
from stomprelay.relay.link.link import Link
from stomprelay.relay.resend.resender import Resender
from stomprelay.session.ledger import Delivery
from stomprelay.session.session import Session
from stomprelay.wire.dialect import Delivery as Naming
from stomprelay.wire.dialect import Headers
from stomprelay.wire.errors import Refused, StompError
from stomprelay.wire.frame import Frame, compose
from stomprelay.wire.names import ID, MESSAGE_ID, SUBSCRIPTION, TRANSACTION


class Cover(NamedTuple):
    """An ACK or NACK that covers all deliveries of a subscription which are numbered below `order`."""

    command: bytes
    subscription: bytes
    order: int
    transaction: bytes | None


class Member:
    """A link with a resender, and what was said to it while its broker was there but could not be told: its
    connection takes no more (`blocked`), or the session is about to leave it. That waits as the client spelled it, and
    is said in its order, or kept by the resender once the broker is lost.

    `told` is set when the broker was told DISCONNECT; `erred` when what it said last was an ERROR that answers nothing
    the client asked about, and `strikes` counts those since it confirmed anything. `out` tells that the group is given
    up for the rest of the session; `blame` says what was wrong last, in words that a client may read. `short` tells
    that it missed SENDs because it was `full`. `held` tells that the broker is not read from, because the client owes
    too many ACKs.
    """

    __slots__ = (
        "_most",
        "_octets",
        "_there",
        "_waiting",
        "blame",
        "blocked",
        "erred",
        "held",
        "link",
        "out",
        "resender",
        "session",
        "short",
        "strikes",
        "told",
    )

    def __init__(self, link: Link) -> None:
        assert link.resender is not None
        self.link = link
        self.resender: Resender = link.resender
        self.session: Session = link.session
        self.blocked = False
        self.held = False
        self.told = False
        self.erred = False
        self.out = False
        self.strikes = 0
        self.blame = ""
        self.short = False
        self._there = False
        self._waiting: deque[bytes | Cover] = deque()
        self._octets = 0
        self._most = link.upstream.resend_buffer

    def __str__(self) -> str:
        return self.link.group.name

    @property
    def up(self) -> bool:
        """Whether it has a broker that it will not leave at once."""
        return self._there and self.link.up

    @property
    def listens(self) -> bool:
        """Whether its broker can be told something now."""
        return self.up and not self.blocked and not (self.link.moving and self.session.quiet)

    @property
    def octets(self) -> int:
        """How much waits or is not confirmed."""
        return self.resender.unconfirmed.octets + self._octets

    @property
    def full(self) -> bool:
        """Whether as much waits or is unconfirmed as may be."""
        return self.octets >= self._most

    @property
    def crowded(self) -> bool:
        """Whether more than half of what may be waits or is unconfirmed."""
        return self.octets * 2 > self._most

    @property
    def flooded(self) -> bool:
        """Whether so much waits, even without SENDs, that the broker is better taken for lost."""
        return self._octets >= 2 * self._most

    @property
    def safe(self) -> bool:
        """Whether all SENDs and COMMITs that were said to it have arrived, as far as anybody asked to know."""
        return not self._waiting and self.resender.unconfirmed.safe and not self.session.receipts

    @property
    def uncertain(self) -> int:
        """How many SENDs may be lost if the session ended now."""
        waiting = sum(isinstance(each, bytes) and each.startswith(b"SEND") for each in self._waiting)
        return self.link.uncertain + waiting

    # What is said

    def say(self, frame: Frame) -> None:
        """A client's frame. Raises `StompError` for one that cannot be said."""
        if self._waits:
            self._waiting.append(frame.wire)
            self._octets += frame.after - frame.start
        else:
            self.resender.say(frame)

    def compose(self, command: bytes, headers: Headers) -> None:
        """A frame that the relay says in the client's name. Raises as `say` does."""
        for frame in self.resender.read(compose(command, headers, self.session.dialect)):
            self.say(frame)

    def cover(self, cover: Cover) -> bool:
        """A cumulative ACK or NACK of a later delivery of another broker. Answers whether it concerns this one."""
        if self._waits:
            last = self._waiting[-1] if self._waiting else None
            if isinstance(last, Cover) and last._replace(order=cover.order) == cover:
                self._waiting.pop()
            self._waiting.append(cover)
            return True
        delivery = self._covered(cover)
        if delivery is None:
            return False
        if delivery.lost:
            self.session.ledger.settled(delivery)
            return False
        self.compose(cover.command, self._named(delivery, cover.transaction))
        return True

    def _covered(self, cover: Cover) -> Delivery | None:
        subscription = self.session.subscriptions.delivered(cover.subscription, b"")
        if subscription is None or not subscription.unsettled:
            return None
        return self.session.ledger.latest(subscription, cover.order)

    def _named(self, delivery: Delivery, transaction: bytes | None) -> Headers:
        """By the token, which needs no other name beside it."""
        naming = self.session.dialect.delivery
        headers: Headers = [(ID if naming is Naming.ACK else MESSAGE_ID, delivery.token)]
        if naming is Naming.SUBSCRIPTION_AND_MESSAGE_ID:
            headers.insert(0, (SUBSCRIPTION, delivery.subscription.id))
        if transaction is not None:
            headers.append((TRANSACTION, transaction))
        return headers

    @property
    def _waits(self) -> bool:
        return bool(self._waiting) or (self._there and not self.listens)

    def flush(self, effects: list[Effect], now: float) -> None:
        """Write what was said; what waited is said first, if the broker listens by now. Raises as `say` does."""
        try:
            while self._waiting and self.listens:
                self._go_on()
        finally:
            self.resender.flush(effects, now)

    def _go_on(self) -> None:
        first = self._waiting.popleft()
        rest, self._waiting = self._waiting, deque()
        try:
            if isinstance(first, Cover):
                self.cover(first)
            else:
                self._octets -= len(first)
                for frame in self.resender.read(first):
                    self.resender.say(frame)
        finally:
            self._waiting = rest

    # Brokers come and go

    def bound(self) -> None:
        """There is a new broker."""
        self._there = True
        self.blocked = self.held = self.told = False
        self.erred = False

    def lost(self) -> list[StompError]:
        """The broker is gone: what waited is kept for the next one. Answers what cannot be kept."""
        failures: list[StompError] = []
        unconfirmed = self.resender.unconfirmed
        doubts = unconfirmed.doubts
        doubt = self.resender.lost()
        if doubt is not None:
            for receipt in doubts:
                named = None if unconfirmed.mine(receipt) else receipt
                failures.append(Refused(doubt.message, doubt.detail, receipt=named))
                unconfirmed.refused(receipt)
        waiting, self._waiting = self._waiting, deque()
        self._octets = 0
        self._there = self.blocked = self.held = self.told = False
        for each in waiting:
            if isinstance(each, bytes):
                for frame in self.resender.read(each):
                    try:
                        self.resender.say(frame)
                    except StompError as error:
                        failures.append(error)
        return failures
