"""A client's frames on their way to a broker that may be lost, so that they can be sent to another one.

A resender belongs to a session's link to one group and outlives the legs there. It keeps what is not confirmed in
`Unconfirmed`, asks for receipts of the relay's own where the upstream sets `confirm`, and sends everything again
that a new broker has to know: subscriptions first, then what was not confirmed, then open transactions.
"""

import re
from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import Final

from stomprelay.relay.bridge.bridge import Bridge
from stomprelay.relay.effects import Outbox
from stomprelay.relay.forward import TURN, Joiner
from stomprelay.relay.model.group import Broker
from stomprelay.relay.resend.caution import Caution, poison
from stomprelay.relay.resend.offline import Offline
from stomprelay.relay.resend.unconfirmed import Kept
from stomprelay.session.leg import Leg, State
from stomprelay.session.session import Session, Transaction
from stomprelay.session.subscriptions import Subscription
from stomprelay.wire.errors import Refused
from stomprelay.wire.frame import Frame
from stomprelay.wire.head import Limits
from stomprelay.wire.names import (
    ABORT,
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

Part = Subscription | Kept | tuple[Transaction, bytes]
"""What is sent again and answered by itself: a subscription, what was kept, a frame of an open transaction."""

_MARKED: Final = re.compile(rb"\n(?:%b|%b):" % (RECEIPT_HEADER, TRANSACTION))


class Resender:
    """Sends what a session's client sends to the broker that it has. `unconfirmed` is what is not confirmed.

    Give it a broker with `connected`, then `replay`; put frames in with `send` and write them with `flush`; call
    `lost` when the broker is lost. While there is none, `send` keeps what has to wait. After each of them give the
    client the receipts of `take_given`.
    """

    __slots__ = (
        "_at",
        "_batch",
        "_broker",
        "_caution",
        "_confirm",
        "_hasty",
        "_inside",
        "_joiner",
        "_last",
        "_leaving",
        "_offline",
        "_outbox",
        "_owing",
        "_plain",
        "_refused",
        "_subscriptions",
        "session",
        "unconfirmed",
    )

    def __init__(self, session: Session, outbox: Outbox, limits: Limits, *, most: int, confirm: bool) -> None:
        self.session = session
        self._offline = Offline(session, limits, session.kept.room(most))
        self.unconfirmed = self._offline.unconfirmed
        self._outbox = outbox
        self._confirm = confirm
        self._owing = True
        self._broker: tuple[Leg, Bridge] | None = None
        self._joiner = Joiner()
        self._plain: bytes | None = None
        self._batch: list[Frame] = []
        self._last: tuple[Frame, bytes | None, bytes] | None = None
        self._at: Broker | None = None
        self._caution = Caution()
        self._hasty = False
        self._leaving: deque[Subscription] = deque()
        self._subscriptions: deque[Subscription] = deque()
        self._inside: deque[tuple[Transaction, bytes]] = deque()
        self._refused: list[Refused] = []

    @property
    def quiet(self) -> bool:
        """Whether the broker could be left without a loss."""
        return self.session.quiet and self.safe and self.unconfirmed.quiet

    @property
    def safe(self) -> bool:
        """Whether nothing that must reach the broker is uncertain to have done so."""
        return self.unconfirmed.safe and not self.careful

    def received(self, receipt: bytes) -> bool:
        """A RECEIPT came. Returns whether it is the client's: asked for by it, and not given before."""
        self._caution.answered(receipt)
        return self.unconfirmed.received(receipt)

    def refused(self, receipt: bytes) -> None:
        """An ERROR came that names this receipt: what asked for it is answered for good."""
        self._caution.answered(receipt)
        self.unconfirmed.refused(receipt)

    def take_given(self) -> list[bytes]:
        """Return the receipts that the relay has to give the client, none of them twice."""
        return self.unconfirmed.take_given()

    # Brokers come and go

    def connected(
        self, leg: Leg, bridge: Bridge, broker: Broker, *, cumulative: bool, commits_early: bool
    ) -> None:
        """There is a broker. `cumulative`, `commits_early`: what its receipts mean, see `Profile`."""
        self._broker = leg, bridge
        self._at = broker
        self.unconfirmed.connected(cumulative=cumulative, commits_early=commits_early)
        self.session.forget_head()
        self._plain = None

    def lost(self, *, subscriptions: bool = True, by: Broker | None, now: float) -> list[bytes | None]:
        """The broker is lost; `subscriptions` as for `replay`, `by` is the broker if it closed the connection itself.
        Returns what cannot be made good: each COMMIT whose outcome is unknown, as the receipt that its client asked
        for with it, if any.
        """
        self._broker = None
        self._joiner.clear()
        self._batch = []
        self._last = None
        self._caution.lost(by, now)
        self._hasty = False
        self._leaving.clear()
        self._subscriptions.clear()
        self._inside.clear()
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

    def replay(self, *, subscriptions: bool, now: float) -> None:
        """Put in for a new broker all that it has to know; write it with `flush`. A long line is only begun, and so is
        one after lines that cost brokers their connection: see `careful`. Raises as `send` does.
        """
        if subscriptions:
            self._subscriptions.extend(self.session.subscriptions)
        opened = self.session.transactions.values()
        self._inside.extend((transaction, wire) for transaction in opened for wire in transaction.frames)
        taken = self.unconfirmed.take()
        self.unconfirmed.set_aside(taken)
        self.session.counters["frames_resent"] += sum(kept.sends for kept in taken if kept.sent)
        self._caution.began(self._at, now)
        self._hasty = not self._caution.careful
        if self._caution.alone and self._first() is not None:
            self._caution.sent(self._check(self._connection[1]), None, now)
        self.go_on(now)

    def _repeat(self, kept: Kept, bridge: Bridge) -> int:
        """Send again what was kept. Returns how many frames that are."""
        count = 0
        self._owing = False
        try:
            for frame in self.read(kept.wire):
                count += 1
                self._send(frame, bridge, AGAIN if kept.sent else b"")
        finally:
            self._owing = True
        return count

    def _repeat_inside(self, wire: bytes, bridge: Bridge) -> None:
        """Send again a frame of an open transaction."""
        for frame in self.read(wire):
            extra = b"" if frame.command is BEGIN else self._asking_inside(*self._offline.marks(frame))
            self._joiner.add(frame, bridge.head(frame, self.session), extra)

    def _asking_inside(self, receipt: bytes | None, name: bytes | None) -> bytes:
        """A SEND in a transaction passes. Returns the header line to put in front of it."""
        ours = self.unconfirmed.pass_inside(name or b"", receipt, confirm=self._confirm)
        return b"" if ours is None else b"receipt:%b\n" % ours

    # A line that is sent with care

    @property
    def careful(self) -> bool:
        """Whether part of what a new broker has to know waits until it answered another part or, where `hasty`, for
        the next turn: call `go_on` after each receipt and in each turn, and `send` nothing until then.
        """
        return self._broker is not None and (self._caution.careful or self.hasty)

    @property
    def cautious(self) -> bool:
        """Whether it waits for answers, because lines before this one cost brokers their connection."""
        return self._broker is not None and self._caution.careful

    @property
    def hasty(self) -> bool:
        """Whether the line is only too long for one turn."""
        return self._hasty or bool(self._leaving)

    def take_refused(self) -> list[Refused]:
        """Return the frames that were taken out of the line since the last call, as errors for the client."""
        refused, self._refused = self._refused, []
        return refused

    def _split(self) -> None:
        """Where one receipt confirms several SENDs that come next, have each confirmed by one of its own."""
        kept = self.unconfirmed.aside
        if kept is None or kept.sends <= 1 or kept.wire.startswith(BEGIN):
            return  # a transaction stays whole
        *others, last = self.read(kept.wire)
        parts = [Kept(frame.wire, self.unconfirmed.ask(), kept.sent) for frame in others]
        self.unconfirmed.take_aside()
        self.unconfirmed.set_aside([*parts, kept._replace(wire=last.wire, sends=1)], first=True)

    def go_on(self, now: float) -> None:
        """Send as much more of the line as may be sent now; write it with `flush`. Raises as `send` does."""
        caution, (leg, _) = self._caution, self._connection
        if leg.state is State.LEAVING:
            return  # nothing may come behind DISCONNECT
        if self.hasty:
            return self._hurry(now)
        while self.careful and caution.room:
            part = self._first()
            if part is None:
                if caution.idle:
                    caution.through()
                return
            key = part.wire if isinstance(part, Kept) else part  # its receipt is another one each time
            if caution.condemns(key):
                self._drop(part)
            else:
                caution.sent(self._say(part), key, now)

    def _hurry(self, now: float) -> None:
        """Send as much of the line as one turn has, which waits for no answers."""
        _, bridge = self._connection
        count = self._part(bridge)
        if not self._hasty:
            return
        while self._subscriptions and count < TURN:
            self._subscribe(self._subscriptions.popleft(), bridge)
            count += 1
        # What is kept may hold a whole transaction, and another one of its name may be open.
        with self.session.without_transactions():
            while self.unconfirmed.aside is not None and count < TURN:
                count += self._repeat(self.unconfirmed.take_aside(), bridge)
            self._close()
        while self._inside and count < TURN:
            self._repeat_inside(self._inside.popleft()[1], bridge)
            count += 1
        self._caution.resent(count, now)
        self._hasty = bool(self._subscriptions or self._inside or self.unconfirmed.aside)

    def _first(self) -> Part | None:
        """Return the first part of the line that was not sent yet."""
        if self._subscriptions:
            return self._subscriptions[0]
        self._split()
        return self.unconfirmed.aside or (self._inside[0] if self._inside else None)

    def _say(self, part: Part) -> bytes:
        """Send a part of the line. Returns the receipt that answers it."""
        _, bridge = self._connection
        self.unconfirmed.take_latest()
        if isinstance(part, Subscription):
            self._subscriptions.popleft()
            self._subscribe(part, bridge)
        elif isinstance(part, Kept):
            self.unconfirmed.take_aside()
            first = next(self.read(part.wire))
            if first.header(TRANSACTION, self.session.dialect) is not None:
                with self.session.without_transactions():
                    self._repeat(part, bridge)
            else:
                self._repeat(part, bridge)
            self._close()
        else:
            self._inside.popleft()
            self._repeat_inside(part[1], bridge)
        return self.unconfirmed.take_latest() or self._check(bridge)

    def _check(self, bridge: Bridge) -> bytes:
        """Ask the broker for a receipt that it gives when it has read all before, by an order without effect."""
        receipt = self.unconfirmed.ask()
        headers = [(TRANSACTION, receipt)]
        self._joiner.write(bridge.compose(BEGIN, [*headers, (RECEIPT_HEADER, receipt)], self.session))
        self._joiner.write(bridge.compose(ABORT, headers, self.session))
        return receipt

    def _drop(self, part: Part) -> None:
        """Take a part out of the line for good."""
        dialect = self.session.dialect
        if isinstance(part, Subscription):
            self._subscriptions.popleft()
            command, headers = SUBSCRIBE, part.headers
        else:
            if isinstance(part, Kept):
                self.unconfirmed.take_aside()
                wire = part.wire
            else:
                transaction, wire = part
                transaction.doom("a frame in it cost brokers their connection")
                while self._inside and self._inside[0][0] is transaction:
                    self._inside.popleft()
            first = next(self.read(wire))
            command, headers = first.command, first.headers(dialect)
        names = dict(reversed(headers))
        receipt = names.get(RECEIPT_HEADER)
        if receipt is not None:
            self.unconfirmed.renounce(receipt)
        self.session.counters["poison_refused"] += 1
        name = names.get(DESTINATION, names.get(TRANSACTION, b""))
        self._refused.append(poison(command, name, receipt))

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
        """Put in that no more messages are wanted; write it with `flush`. Much of it is only begun: see `careful`."""
        sent = len(self.session.subscriptions) - len(self._subscriptions)
        self._subscriptions.clear()
        self._leaving.extend(islice(self.session.subscriptions, sent))
        self._part(self._connection[1])

    def _part(self, bridge: Bridge) -> int:
        """Unsubscribe as many as one turn has. Returns how many that are."""
        named, count = bridge.target.named_subscriptions, 0
        while self._leaving and count < TURN:
            each = self._leaving.popleft()
            count += 1
            header = (ID, each.id) if named or each.named else (DESTINATION, each.destination)
            self._joiner.write(bridge.compose(UNSUBSCRIBE, [header], self.session))
        return count

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
            extra += self._asking_inside(receipt, name)
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
            unconfirmed.commit(asked, ours=receipt is None, name=name)
        elif command is ABORT and name is not None:
            unconfirmed.committing.aborted(name)
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
