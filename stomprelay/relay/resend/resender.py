"""A client's frames on their way to a broker that may be lost, so that they can be said to another one.

A resender belongs to a session's place in one group and outlives the legs there. It keeps what is not confirmed in
its `Unconfirmed`, asks for receipts of the relay's own where the upstream says `confirm`, and sends everything
again that a new broker has to know: subscriptions first, then what was not confirmed, then open transactions.
"""

import re
from collections.abc import Iterator
from typing import Final

from stomprelay.relay.bridge.bridge import Bridge
from stomprelay.relay.effects import Effect
from stomprelay.relay.forward import Pieces
from stomprelay.relay.resend.offline import Offline
from stomprelay.session.effects import Send
from stomprelay.session.leg import Leg
from stomprelay.session.session import Session
from stomprelay.session.subscriptions import Subscription
from stomprelay.wire.errors import Refused, StompError
from stomprelay.wire.frame import Frame
from stomprelay.wire.limits import Limits
from stomprelay.wire.names import (
    BEGIN,
    COMMIT,
    DESTINATION,
    ID,
    RECEIPT_HEADER,
    SEND,
    SUBSCRIBE,
    TRANSACTION,
    UNSUBSCRIBE,
)

AGAIN: Final = b"relay-resent:true\n"
"""The header line of a SEND that a lost broker may have had already."""

_MARKED: Final = re.compile(rb"\n(?:%b|%b):" % (RECEIPT_HEADER, TRANSACTION))


class Resender:
    """Says what a session's client says to the broker that it has. `unconfirmed` is what is not confirmed.

    Give it a broker with `bound`, then `replay`; say frames with `say` and write them with `flush`; tell it when the
    broker is `lost`. While there is none, `say` keeps what has to wait. `answers` are receipts that the relay gives
    in a broker's place: `give` the client what is `given`.
    """

    __slots__ = (
        "_batch",
        "_bridge",
        "_confirm",
        "_last",
        "_leg",
        "_owing",
        "_pieces",
        "_plain",
        "_waiting",
        "answers",
        "session",
        "unconfirmed",
    )

    def __init__(self, session: Session, limits: Limits, *, most: int, confirm: bool) -> None:
        self.session = session
        self._waiting = Offline(session, limits, most)
        self.unconfirmed = self._waiting.unconfirmed
        self.answers = self._waiting.answers
        self._confirm = confirm
        self._owing = True
        self._leg: Leg | None = None
        self._bridge: Bridge | None = None
        self._pieces = Pieces()
        self._plain: bytes | None = None
        self._batch: list[Frame] = []
        self._last: tuple[Frame, bytes | None, bytes] | None = None

    @property
    def quiet(self) -> bool:
        """Whether a broker could be left without a trace."""
        return self.session.quiet and self.unconfirmed.quiet

    # Brokers come and go

    def bound(self, leg: Leg, bridge: Bridge, *, cumulative: bool) -> None:
        """There is a broker. `cumulative`: what its receipts mean, see `Profile`."""
        self._leg, self._bridge = leg, bridge
        self.unconfirmed.cumulative = cumulative
        self.session.memo = self._plain = None

    def lost(self, *, subscriptions: bool = True) -> StompError | None:
        """The broker is gone; `subscriptions` as for `replay`. Answers what cannot be made good: a COMMIT of which
        nobody knows what became.
        """
        self._leg = self._bridge = None
        self._forget()
        unconfirmed, session = self.unconfirmed, self.session
        session.counters["possibly_lost"] += unconfirmed.unproved
        unconfirmed.unproved = 0
        session.lost_broker()
        given = unconfirmed.lost(self._receipts(subscriptions))
        for receipt in given:
            session.received(receipt)
        self.answers += given
        doubt = unconfirmed.doubted()
        if doubt is None:
            return None
        return Refused(
            "the outcome of a transaction is unknown", "its broker was lost after COMMIT", receipt=doubt[0]
        )

    def _receipts(self, subscriptions: bool) -> Iterator[bytes]:
        """Those that the next broker will be asked for with subscriptions and open transactions."""
        for subscription in self.session.subscriptions if subscriptions else ():
            yield from (value for name, value in subscription.headers if name == RECEIPT_HEADER)
        for transaction in self.session.transactions.values():
            for frame in self.read(b"".join(transaction.frames)):
                receipt = frame.header(RECEIPT_HEADER, self.session.dialect)
                if receipt is not None:
                    yield receipt

    def replay(self, *, subscriptions: bool = True) -> None:
        """Say to a new broker what it has to know; write it with `flush`. Raises as `say` does."""
        if subscriptions:
            for subscription in self.session.subscriptions:
                self._subscribe(subscription)
        # What is kept may hold a whole transaction, and another one of its name may be open.
        session, opened = self.session, self.session.transactions
        session.transactions = {}
        self._owing = False
        try:
            for kept in self.unconfirmed.taken():
                for frame in self.read(kept.wire):
                    session.counters["frames_resent"] += kept.said
                    self._say(frame, AGAIN if kept.said else b"")
            self._close()
        finally:
            session.transactions = opened
            self._owing = True
        for transaction in list(opened.values()):
            for wire in transaction.frames:
                for frame in self.read(wire):
                    self._pieces.add(frame, self._headed(frame))

    def _subscribe(self, subscription: Subscription) -> None:
        bridge = self._bridge
        assert bridge is not None
        headers = [
            (name, value)
            for name, value in subscription.headers
            if name != RECEIPT_HEADER or self.unconfirmed.owes(value)
        ]
        if bridge.target.named_subscriptions and not subscription.named:
            headers.insert(0, (ID, subscription.id))
        self._pieces.write(bridge.compose(SUBSCRIBE, headers, self.session))

    def unsubscribe(self) -> None:
        """Say that no more messages are wanted; write it with `flush`."""
        bridge = self._bridge
        assert bridge is not None
        named = bridge.target.named_subscriptions
        for each in self.session.subscriptions:
            header = (ID, each.id) if named or each.named else (DESTINATION, each.destination)
            self._pieces.write(bridge.compose(UNSUBSCRIBE, [header], self.session))

    def read(self, wire: bytes) -> Iterator[Frame]:
        """The client's frames, as they were read when they came."""
        return self._waiting.read(wire)

    def given(self) -> list[bytes]:
        """The `answers`, none of them twice."""
        return self._waiting.given()

    # Frames

    def say(self, frame: Frame) -> None:
        """A client's frame, for the broker or, while there is none, for the next. Raises `StompError` for one that
        cannot be said.
        """
        if self._bridge is None:
            self._waiting.say(frame)
        else:
            self._say(frame)

    def _say(self, frame: Frame, extra: bytes = b"") -> None:
        if frame.command is not SEND:
            self._order(frame)
            return
        head = self._headed(frame)
        memo = frame.memo
        if memo is None or memo is not self._plain:
            if _MARKED.search(frame.data, frame.head - 1, frame.body):
                self._marked(frame, head, extra)
                return
            self._plain = memo
        if not self._confirm:
            self.unconfirmed.unproved += 1
        elif self.unconfirmed.cumulative:
            self._add(frame, head, extra)
            return
        else:
            receipt = self.unconfirmed.ask()
            self.unconfirmed.keep(frame.wire, receipt)
            extra = b"%breceipt:%b\n" % (extra, receipt)
        self._pieces.add(frame, head, extra)

    def _headed(self, frame: Frame) -> bytes | None:
        bridge = self._bridge
        assert bridge is not None
        return bridge.head(frame, self.session)

    def _marked(self, frame: Frame, head: bytes | None, extra: bytes) -> None:
        """A SEND that asks for a receipt, or belongs to a transaction."""
        receipt, name = self._waiting.marks(frame)
        if receipt is not None and self._owing:
            self.unconfirmed.owe(receipt)
        transaction = None if name is None else self.session.transactions.get(name)
        if transaction is not None:
            self._close()
            self._waiting.keep(transaction, frame)
        elif receipt is not None:
            self._close(batch=False)
            self._batch.append(frame)
            self.unconfirmed.keep(self._batched(), receipt)
            self._batch = []
        elif self._confirm:
            self._close()
            receipt = self.unconfirmed.ask()
            self.unconfirmed.keep(frame.wire, receipt)
            extra = b"%breceipt:%b\n" % (extra, receipt)
        self._pieces.add(frame, head, extra)

    def _order(self, frame: Frame) -> None:
        """Any frame but SEND."""
        self._close()
        session, unconfirmed, command = self.session, self.unconfirmed, frame.command
        receipt = name = None
        if _MARKED.search(frame.data, frame.head - 1, frame.body):
            receipt, name = self._waiting.marks(frame)
        transaction = None if name is None else session.transactions.get(name)
        if command is COMMIT and transaction is not None and transaction.doomed is not None:
            raise Refused("the transaction cannot be committed", transaction.doomed, receipt=receipt)
        head = self._headed(frame)
        extra = b""
        if head == b"":
            if receipt is not None:
                self.answers.append(receipt)
            return
        if receipt is not None and self._owing:
            unconfirmed.owe(receipt)
        if command is COMMIT:
            if receipt is None:
                extra = b"receipt:%b\n" % (asked := unconfirmed.ask())
            unconfirmed.commit(receipt or asked, ours=receipt is None)
        elif command is BEGIN and name is not None:
            self._waiting.keep(session.transactions[name], frame)
        self._pieces.add(frame, head, extra)

    def spelled(self, wire: bytes) -> bytes:
        """A frame of the client as the broker is told it, apart from all accounts."""
        assert self._bridge is not None
        return b"".join([self._bridge.carry(frame, self.session) for frame in self.read(wire)])

    # Writing

    def flush(self, effects: list[Effect], now: float) -> None:
        """Write what was said since the last time, in one piece."""
        self._close()
        data = self._pieces.take()
        if self._leg is not None and data:
            self._leg.heartbeat.said_at = now
            effects.append(Send(self._leg, data))

    def _forget(self) -> None:
        self._pieces.clear()
        self._batch = []
        self._last = None

    def _add(self, frame: Frame, head: bytes | None, extra: bytes) -> None:
        """One more SEND for the batch, whose last one will ask for the receipt: so each waits for the next."""
        self._close(batch=False)
        self._batch.append(frame)
        self._last = (frame, head, extra)

    def _close(self, *, batch: bool = True) -> None:
        """The SEND that waits goes out. With it the batch is complete, unless it goes on (not `batch`)."""
        if self._last is None:
            return
        frame, head, extra = self._last
        self._last = None
        if batch:
            receipt = self.unconfirmed.ask()
            self.unconfirmed.keep(self._batched(), receipt)
            self._batch = []
            extra = b"%breceipt:%b\n" % (extra, receipt)
        self._pieces.add(frame, head, extra)

    def _batched(self) -> bytes:
        """The frames of the batch: one slice where nothing stood between them."""
        first, last = self._batch[0], self._batch[-1]
        wires = [each.wire for each in self._batch]
        return wires[0] if first is last else b"".join(wires)
