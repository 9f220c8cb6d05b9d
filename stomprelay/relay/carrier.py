"""A client's frames on their way to a broker that may be lost, so that they can be said to another one.

A carrier belongs to a session's place in one group and outlives the legs there. It keeps what is not confirmed in
its `Backlog`, asks for receipts of the relay's own where the upstream says `confirm`, and says everything again that
a new broker has to know: subscriptions first, then what was not confirmed, then open transactions.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Final

from stomprelay.relay.backlog import Backlog
from stomprelay.relay.bridge import Bridge
from stomprelay.relay.effects import Effect
from stomprelay.session.effects import Send
from stomprelay.session.leg import Leg
from stomprelay.session.session import Session
from stomprelay.session.subscriptions import Subscription
from stomprelay.session.transaction import Transaction
from stomprelay.wire.decoder import Decoder
from stomprelay.wire.errors import Refused, StompError
from stomprelay.wire.frame import Frame
from stomprelay.wire.limits import Limits
from stomprelay.wire.names import (
    ABORT,
    ACK,
    BEGIN,
    CLIENT_COMMANDS,
    COMMIT,
    DESTINATION,
    ID,
    NACK,
    RECEIPT_HEADER,
    SEND,
    SUBSCRIBE,
    TRANSACTION,
    UNSUBSCRIBE,
)

AGAIN: Final = b"relay-resent:true\n"
"""The header line of a SEND that a lost broker may have had already."""

_MARKED: Final = re.compile(rb"\n(?:%b|%b):" % (RECEIPT_HEADER, TRANSACTION))
_MOOT: Final = frozenset({ACK, NACK, UNSUBSCRIBE, ABORT})


@lru_cache
def _roomier(limits: Limits) -> Limits:
    """Limits for what the relay put into a client's frames beside all that the client may."""
    return replace(limits, headers=limits.headers + 2)


class Carrier:
    """Says what a session's client says to the broker that it has. `backlog` is what is not confirmed.

    Give it a broker with `bound`, then `replay`; say frames with `say` and write them with `flush`; tell it when the
    broker is `lost`. While there is none, `say` keeps what has to wait. `answers` are receipts that the relay gives
    in a broker's place: pass them to the client and empty the list.
    """

    __slots__ = (
        "_batch",
        "_bridge",
        "_confirm",
        "_data",
        "_last",
        "_leg",
        "_limits",
        "_most",
        "_owing",
        "_pieces",
        "_plain",
        "_start",
        "_stop",
        "answers",
        "backlog",
        "session",
    )

    def __init__(self, session: Session, limits: Limits, *, most: int, confirm: bool) -> None:
        self.session = session
        self.backlog = Backlog(session.name, most)
        self.answers: list[bytes] = []
        self._confirm = confirm
        self._limits = _roomier(limits)
        self._most = most
        self._owing = True
        self._leg: Leg | None = None
        self._bridge: Bridge | None = None
        self._pieces: list[bytes] = []
        self._data = b""
        self._start = self._stop = 0
        self._plain: bytes | None = None
        self._batch: list[Frame] = []
        self._last: tuple[Frame, bytes | None, bytes] | None = None

    @property
    def quiet(self) -> bool:
        """Whether a broker could be left without a trace."""
        return self.session.quiet and self.backlog.quiet

    # Brokers come and go

    def bound(self, leg: Leg, bridge: Bridge, *, cumulative: bool) -> None:
        """There is a broker. `cumulative`: what its receipts mean, see `Profile`."""
        self._leg, self._bridge = leg, bridge
        self.backlog.cumulative = cumulative
        self.session.memo = self._plain = None

    def lost(self) -> StompError | None:
        """The broker is gone. Answers what cannot be made good: a COMMIT of which nobody knows what became."""
        self._leg = self._bridge = None
        self._forget_pieces()
        backlog, session = self.backlog, self.session
        session.tally["possibly_lost"] += backlog.unproved
        backlog.unproved = 0
        session.lost_broker()
        self.answers += backlog.lost(self._receipts())
        doubt = backlog.doubted()
        if doubt is None:
            return None
        return Refused(
            "the outcome of a transaction is unknown", "its broker was lost after COMMIT", receipt=doubt[0]
        )

    def _receipts(self) -> Iterator[bytes]:
        """Those that the next broker will be asked for with subscriptions and open transactions."""
        for subscription in self.session.subscriptions:
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
            for kept in self.backlog.taken():
                for frame in self.read(kept.wire):
                    session.tally["frames_resent"] += kept.said
                    self._say(frame, AGAIN if kept.said else b"")
            self._close()
        finally:
            session.transactions = opened
            self._owing = True
        for transaction in list(opened.values()):
            for wire in transaction.frames:
                for frame in self.read(wire):
                    self._append(frame, self._headed(frame))

    def _subscribe(self, subscription: Subscription) -> None:
        bridge = self._bridge
        assert bridge is not None
        headers = [
            (name, value)
            for name, value in subscription.headers
            if name != RECEIPT_HEADER or self.backlog.owes(value)
        ]
        if bridge.target.named_subscriptions and not subscription.named:
            headers.insert(0, (ID, subscription.id))
        self._write(bridge.compose(SUBSCRIBE, headers, self.session))

    def unsubscribe(self) -> None:
        """Say that no more messages are wanted; write it with `flush`."""
        bridge = self._bridge
        assert bridge is not None
        named = bridge.target.named_subscriptions
        for each in self.session.subscriptions:
            header = (ID, each.id) if named or each.named else (DESTINATION, each.destination)
            self._write(bridge.compose(UNSUBSCRIBE, [header], self.session))

    def read(self, wire: bytes) -> Iterator[Frame]:
        """The client's frames, as they were read when they came."""
        decoder = Decoder(self.session.dialect, CLIENT_COMMANDS, self._limits)
        decoder.feed(wire)
        return decoder.frames()

    # Frames

    def say(self, frame: Frame) -> None:
        """A client's frame, for the broker or, while there is none, for the next. Raises `StompError` for one that
        cannot be said.
        """
        if self._bridge is None:
            self._wait(frame)
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
            self.backlog.unproved += 1
        elif self.backlog.cumulative:
            self._add(frame, head, extra)
            return
        else:
            receipt = self.backlog.ask()
            self.backlog.keep(frame.wire, receipt)
            extra = b"%breceipt:%b\n" % (extra, receipt)
        self._append(frame, head, extra)

    def _headed(self, frame: Frame) -> bytes | None:
        bridge = self._bridge
        assert bridge is not None
        return bridge.head(frame, self.session)

    def _marked(self, frame: Frame, head: bytes | None, extra: bytes) -> None:
        """A SEND that asks for a receipt, or belongs to a transaction."""
        receipt, name = self._marks(frame)
        if receipt is not None and self._owing:
            self.backlog.owe(receipt)
        transaction = None if name is None else self.session.transactions.get(name)
        if transaction is not None:
            self._close()
            self._keep(transaction, frame)
        elif receipt is not None:
            self._close(batch=False)
            self._batch.append(frame)
            self.backlog.keep(self._batched(), receipt)
            self._batch = []
        elif self._confirm:
            self._close()
            receipt = self.backlog.ask()
            self.backlog.keep(frame.wire, receipt)
            extra = b"%breceipt:%b\n" % (extra, receipt)
        self._append(frame, head, extra)

    def _keep(self, transaction: Transaction, frame: Frame) -> None:
        """All open transactions together may keep as many octets as everything else that is not confirmed."""
        others = sum(each.octets for each in self.session.transactions.values())
        transaction.keep(frame.wire, self._most - others)

    def _marks(self, frame: Frame) -> tuple[bytes | None, bytes | None]:
        dialect = self.session.dialect
        return frame.header(RECEIPT_HEADER, dialect), frame.header(TRANSACTION, dialect)

    def _order(self, frame: Frame) -> None:
        """Any frame but SEND."""
        self._close()
        session, backlog, command = self.session, self.backlog, frame.command
        receipt = name = None
        if _MARKED.search(frame.data, frame.head - 1, frame.body):
            receipt, name = self._marks(frame)
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
            backlog.owe(receipt)
        if command is COMMIT:
            if receipt is None:
                extra = b"receipt:%b\n" % (asked := backlog.ask())
            backlog.commit(receipt or asked, ours=receipt is None)
        elif command is BEGIN and name is not None:
            self._keep(session.transactions[name], frame)
        self._append(frame, head, extra)

    def _wait(self, frame: Frame) -> None:
        """There is no broker: what is only an order to it is remembered, all else is kept to be said."""
        session, backlog, command = self.session, self.backlog, frame.command
        receipt, name = self._marks(frame)
        transaction = None if name is None else session.transactions.get(name)
        if command is ACK or command is NACK:
            session.lose("acks_stale")
            if transaction is not None:
                transaction.doomed = "it acknowledges messages of a broker that was lost"
        elif command is COMMIT and transaction is not None:
            if transaction.doomed is not None:
                raise Refused("the transaction cannot be committed", transaction.doomed, receipt=receipt)
            backlog.keep(b"".join([*transaction.frames, frame.wire]), receipt or backlog.ask(), said=False)
        elif command is SEND and transaction is not None:
            self._keep(transaction, frame)
            if transaction.cut:
                transaction.doomed = "there was no broker, and it was too large to be kept"
        elif command is SEND or command is COMMIT:
            backlog.keep(frame.wire, receipt or backlog.ask(), said=False)
        if command in Session.WATCHED:
            self._observe(frame, name)
        if receipt is not None:
            if command in _MOOT:
                self.answers.append(receipt)
            else:
                backlog.owe(receipt)

    def _observe(self, frame: Frame, name: bytes | None) -> None:
        session, command = self.session, frame.command
        ended = session.transactions.get(name or b"")
        subscription = session.observed(command, frame.headers(session.dialect))
        if command is BEGIN and name is not None:
            self._keep(session.transactions[name], frame)
        elif command is ABORT and ended is not None:
            for each in self.read(b"".join(ended.frames)):
                self._pay(each.header(RECEIPT_HEADER, session.dialect))
        elif command is UNSUBSCRIBE and subscription is not None:
            self._pay(next((value for key, value in subscription.headers if key == RECEIPT_HEADER), None))

    def _pay(self, receipt: bytes | None) -> None:
        """No broker will be told of what asked for this receipt."""
        if receipt is not None and self.backlog.owes(receipt):
            self.backlog.refused(receipt)
            self.answers.append(receipt)

    def spelled(self, wire: bytes) -> bytes:
        """A frame of the client as the broker is told it, apart from all accounts."""
        assert self._bridge is not None
        return b"".join([self._bridge.carry(frame, self.session) for frame in self.read(wire)])

    # Writing

    def flush(self, effects: list[Effect], now: float) -> None:
        """Write what was said since the last time, in one piece."""
        self._close()
        leg, pieces = self._leg, self._pieces
        if self._stop:
            pieces.append(self._data[self._start : self._stop])
        if leg is not None and pieces:
            leg.heartbeat.said_at = now
            effects.append(Send(leg, b"".join(pieces)))
        self._forget_pieces()

    def _forget_pieces(self) -> None:
        self._pieces = []
        self._batch = []
        self._last = None
        self._data = b""
        self._start = self._stop = 0

    def _write(self, wire: bytes) -> None:
        self._pieces += (self._data[self._start : self._stop], wire)
        self._start = self._stop

    def _append(self, frame: Frame, head: bytes | None, extra: bytes = b"") -> None:
        """A frame with the header lines of `extra` put in front. Neighbours that pass as they came stay one slice."""
        data = self._data
        if frame.data is not data or frame.start != self._stop:
            if self._stop > self._start:
                self._pieces.append(data[self._start : self._stop])
            data = self._data = frame.data
            self._start = frame.start
        if head is not None:
            if extra:
                at = head.find(b"\n") + 1
                head = head[:at] + extra + head[at:]
            self._pieces += (data[self._start : frame.start], head)
            self._start = frame.body
        elif extra:
            self._pieces += (data[self._start : frame.head], extra)
            self._start = frame.head
        self._stop = frame.after

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
            receipt = self.backlog.ask()
            self.backlog.keep(self._batched(), receipt)
            self._batch = []
            extra = b"%breceipt:%b\n" % (extra, receipt)
        self._append(frame, head, extra)

    def _batched(self) -> bytes:
        """The frames of the batch: one slice where nothing stood between them."""
        first, last = self._batch[0], self._batch[-1]
        wires = [each.wire for each in self._batch]
        return wires[0] if first is last else b"".join(wires)
