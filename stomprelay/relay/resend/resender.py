"""A client's frames on their way to a broker that may be lost, so that they can be sent to another one.

A resender belongs to a session's link to one group and outlives the legs there. It keeps what is not confirmed in
`Unconfirmed`, asks for receipts of the relay's own where the upstream sets `confirm`, and sends everything again
that a new broker has to know: subscriptions first, then what was not confirmed, then open transactions.
"""

import re
from collections.abc import Iterator
from typing import Final

from stomprelay.relay.bridge.bridge import Bridge
from stomprelay.relay.effects import Outbox
from stomprelay.relay.forward import Joiner
from stomprelay.relay.resend.offline import Offline
from stomprelay.session.leg import Leg
from stomprelay.session.session import Session
from stomprelay.session.subscriptions import Subscription
from stomprelay.wire.errors import Refused
from stomprelay.wire.frame import Frame
from stomprelay.wire.head import Limits
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


def unknown_outcome(receipt: bytes | None) -> Refused:
    """Return the error that the client is sent about a COMMIT after which its broker was lost; see
    `Resender.lost`.
    """
    return Refused(
        "the outcome of a transaction is unknown", "its broker was lost after COMMIT", receipt=receipt
    )


class Resender:
    """Sends what a session's client sends to the broker that it has. `unconfirmed` is what is not confirmed.

    Give it a broker with `connected`, then `replay`; put frames in with `send` and write them with `flush`; call
    `lost` when the broker is lost. While there is none, `send` keeps what has to wait. After each of them give the
    client the receipts of `take_given`.
    """

    __slots__ = (
        "_batch",
        "_broker",
        "_confirm",
        "_joiner",
        "_last",
        "_offline",
        "_outbox",
        "_owing",
        "_plain",
        "session",
        "unconfirmed",
    )

    def __init__(self, session: Session, outbox: Outbox, limits: Limits, *, most: int, confirm: bool) -> None:
        self.session = session
        self._offline = Offline(session, limits, most)
        self.unconfirmed = self._offline.unconfirmed
        self._outbox = outbox
        self._confirm = confirm
        self._owing = True
        self._broker: tuple[Leg, Bridge] | None = None
        self._joiner = Joiner()
        self._plain: bytes | None = None
        self._batch: list[Frame] = []
        self._last: tuple[Frame, bytes | None, bytes] | None = None

    @property
    def quiet(self) -> bool:
        """Whether the broker could be left without a loss."""
        return self.session.quiet and self.unconfirmed.quiet

    def take_given(self) -> list[bytes]:
        """Return the receipts that the relay has to give the client, none of them twice."""
        return self.unconfirmed.take_given()

    # Brokers come and go

    def connected(self, leg: Leg, bridge: Bridge, *, cumulative: bool) -> None:
        """There is a broker. `cumulative`: what its receipts mean, see `Profile`."""
        self._broker = leg, bridge
        self.unconfirmed.connected(cumulative=cumulative)
        self.session.forget_head()
        self._plain = None

    def lost(self, *, subscriptions: bool = True) -> list[bytes | None]:
        """The broker is lost; `subscriptions` as for `replay`. Returns what cannot be made good: each COMMIT whose
        outcome is unknown, as the receipt that its client asked for with it, if any.
        """
        self._broker = None
        self._joiner.clear()
        self._batch = []
        self._last = None
        unconfirmed, session = self.unconfirmed, self.session
        session.counters["possibly_lost"] += unconfirmed.unproved
        session.lost_broker()
        for receipt in unconfirmed.lost(self._receipts(subscriptions)):
            session.received(receipt)
        return unconfirmed.take_doubts()

    def _receipts(self, subscriptions: bool) -> Iterator[bytes]:
        """Return those that the next broker will be asked for with subscriptions and open transactions."""
        for subscription in self.session.subscriptions if subscriptions else ():
            yield from (value for name, value in subscription.headers if name == RECEIPT_HEADER)
        for transaction in self.session.transactions.values():
            for frame in self.read(b"".join(transaction.frames)):
                receipt = frame.header(RECEIPT_HEADER, self.session.dialect)
                if receipt is not None:
                    yield receipt

    def replay(self, *, subscriptions: bool = True) -> None:
        """Put in for a new broker all that it has to know; write it with `flush`. Raises as `send` does."""
        _, bridge = self._connection
        if subscriptions:
            for subscription in self.session.subscriptions:
                self._subscribe(subscription, bridge)
        # What is kept may hold a whole transaction, and another one of its name may be open.
        self._owing = False
        try:
            with self.session.without_transactions() as opened:
                for kept in self.unconfirmed.take():
                    for frame in self.read(kept.wire):
                        self.session.counters["frames_resent"] += kept.sent
                        self._send(frame, bridge, AGAIN if kept.sent else b"")
                self._close()
        finally:
            self._owing = True
        for transaction in opened:
            for wire in transaction.frames:
                for frame in self.read(wire):
                    self._joiner.add(frame, bridge.head(frame, self.session))

    def _subscribe(self, subscription: Subscription, bridge: Bridge) -> None:
        headers = [
            (name, value)
            for name, value in subscription.headers
            if name != RECEIPT_HEADER or self.unconfirmed.owes(value)
        ]
        if bridge.target.named_subscriptions and not subscription.named:
            headers.insert(0, (ID, subscription.id))
        self._joiner.write(bridge.compose(SUBSCRIBE, headers, self.session))

    def unsubscribe(self) -> None:
        """Put in that no more messages are wanted; write it with `flush`."""
        _, bridge = self._connection
        named = bridge.target.named_subscriptions
        for each in self.session.subscriptions:
            header = (ID, each.id) if named or each.named else (DESTINATION, each.destination)
            self._joiner.write(bridge.compose(UNSUBSCRIBE, [header], self.session))

    @property
    def _connection(self) -> tuple[Leg, Bridge]:
        """The leg of the broker and the bridge to it. Raises `LookupError` while there is none."""
        if self._broker is None:
            raise LookupError("there is no broker")
        return self._broker

    def read(self, wire: bytes) -> Iterator[Frame]:
        """Return the client's frames in bytes that were kept, as they were read when they came."""
        return self._offline.read(wire)

    # Frames

    def send(self, frame: Frame) -> None:
        """Put in a client's frame for the broker or, while there is none, for the next. Raises `StompError` for one
        that cannot be sent.
        """
        if self._broker is None:
            self._offline.send(frame)
        else:
            self._send(frame, self._broker[1])

    def _send(self, frame: Frame, bridge: Bridge, extra: bytes = b"") -> None:
        if frame.command is not SEND:
            self._send_other(frame, bridge)
            return
        head = bridge.head(frame, self.session)
        memo = frame.memo
        if memo is None or memo is not self._plain:
            if _MARKED.search(frame.data, frame.head - 1, frame.body):
                self._send_marked(frame, head, extra)
                return
            self._plain = memo
        if not self._confirm:
            self.unconfirmed.pass_unkept()
        elif self.unconfirmed.cumulative:
            self._add(frame, head, extra)
            return
        else:
            receipt = self.unconfirmed.ask()
            self.unconfirmed.keep(frame.wire, receipt)
            extra = b"%breceipt:%b\n" % (extra, receipt)
        self._joiner.add(frame, head, extra)

    def _send_marked(self, frame: Frame, head: bytes | None, extra: bytes) -> None:
        """A SEND that asks for a receipt, or belongs to a transaction."""
        receipt, name = self._offline.marks(frame)
        if receipt is not None and self._owing:
            self.unconfirmed.owe(receipt)
        transaction = None if name is None else self.session.transactions.get(name)
        if transaction is not None:
            self._close()
            self._offline.keep(transaction, frame)
        elif receipt is not None:
            self._close(batch=False)
            self._batch.append(frame)
            self.unconfirmed.keep(self._batched(), receipt, sends=len(self._batch))
            self._batch = []
        elif self._confirm:
            self._close()
            receipt = self.unconfirmed.ask()
            self.unconfirmed.keep(frame.wire, receipt)
            extra = b"%breceipt:%b\n" % (extra, receipt)
        self._joiner.add(frame, head, extra)

    def _send_other(self, frame: Frame, bridge: Bridge) -> None:
        """Any frame but SEND."""
        self._close()
        session, unconfirmed, command = self.session, self.unconfirmed, frame.command
        receipt = name = None
        if _MARKED.search(frame.data, frame.head - 1, frame.body):
            receipt, name = self._offline.marks(frame)
        transaction = None if name is None else session.transactions.get(name)
        if command is COMMIT and transaction is not None and transaction.doomed is not None:
            raise Refused("the transaction cannot be committed", transaction.doomed, receipt=receipt)
        head = bridge.head(frame, session)
        extra = b""
        if head == b"":
            if receipt is not None:
                unconfirmed.give(receipt)
            return
        if receipt is not None and self._owing:
            unconfirmed.owe(receipt)
        if command is COMMIT:
            asked = receipt
            if asked is None:
                asked = unconfirmed.ask()
                extra = b"receipt:%b\n" % asked
            unconfirmed.commit(asked, ours=receipt is None)
        elif command is BEGIN and name is not None:
            self._offline.keep(session.transactions[name], frame)
        self._joiner.add(frame, head, extra)

    def spelled(self, wire: bytes) -> bytes:
        """Return a frame of the client as the broker is sent it; nothing is kept or asked for."""
        _, bridge = self._connection
        return b"".join([bridge.carry(frame, self.session) for frame in self.read(wire)])

    # Writing

    def flush(self, now: float) -> None:
        """Write what was put in since the last time, in one piece."""
        self._close()
        data = self._joiner.take()
        if self._broker is not None and data:
            self._outbox.send(self._broker[0], data, now)

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
            self.unconfirmed.keep(self._batched(), receipt, sends=len(self._batch))
            self._batch = []
            extra = b"%breceipt:%b\n" % (extra, receipt)
        self._joiner.add(frame, head, extra)

    def _batched(self) -> bytes:
        """Return the frames of the batch: one slice where nothing stood between them."""
        first, last = self._batch[0], self._batch[-1]
        wires = [each.wire for each in self._batch]
        return wires[0] if first is last else b"".join(wires)
