"""Sends a client's frames to a broker, and keeps them so that another broker can be sent them if this one is lost."""

import re
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, InitVar, dataclass, field, replace
from functools import lru_cache
from itertools import islice
from math import inf
from typing import Final

from stomprelay.relay.bridge import Bridge
from stomprelay.relay.effects import TURN, Joiner, Outbox
from stomprelay.relay.model.group import Broker, Health, Sight
from stomprelay.relay.resend.unconfirmed import Kept, Unconfirmed
from stomprelay.session.leg import Leg, LegState
from stomprelay.session.session import Session, Transaction
from stomprelay.session.subscriptions import Subscription
from stomprelay.wire.decoder import Decoder
from stomprelay.wire.dialect import Headers
from stomprelay.wire.errors import LimitError, Refused, StompError
from stomprelay.wire.frame import Frame, Limits
from stomprelay.wire.names import (
    ABORT,
    ACK,
    BEGIN,
    CLIENT_COMMANDS,
    COMMIT,
    DESTINATION,
    ID,
    NACK,
    PLACE,
    RECEIPT_HEADER,
    SEND,
    SUBSCRIBE,
    TRANSACTION,
    UNSUBSCRIBE,
)
from stomprelay.wire.run import Run

_WITHOUT_EFFECT: Final = frozenset({ACK, NACK, UNSUBSCRIBE, ABORT})
"""Commands that have no effect at a broker that was not there when they came."""

_LINE: Final = 256
"""Every header line of the relay's own has fewer bytes than this."""


@lru_cache
def _with_room(limits: Limits) -> Limits:
    """Return limits that leave room for the headers that the relay adds to a client's frames."""
    return replace(limits, headers=limits.headers + 2, header_line=max(limits.header_line, _LINE))


class Offline:
    """Keeps frames for the next broker: `most` bytes each in `unconfirmed` and in open transactions."""

    __slots__ = ("_limits", "_most", "_session", "unconfirmed")

    def __init__(self, session: Session, limits: Limits, most: int) -> None:
        self.unconfirmed = Unconfirmed(session.name, most)
        self._session = session
        self._limits = _with_room(limits)
        self._most = most

    def read(self, wire: bytes) -> Iterator[Frame]:
        """Read kept bytes again. Yield the client's frames in them. They are judged as they were when they came."""
        decoder = Decoder(self._session.dialect, CLIENT_COMMANDS, self._limits)
        decoder.feed(wire)
        return decoder.frames()

    def marks(self, frame: Frame) -> tuple[bytes | None, bytes | None]:
        """Return the receipt that a frame asks for, and the name of the transaction that it belongs to."""
        dialect = self._session.dialect
        return frame.header(RECEIPT_HEADER, dialect), frame.header(TRANSACTION, dialect)

    def keep(self, transaction: Transaction, frame: Frame) -> None:
        """Keep a frame of an open transaction. Raises `LimitError` if the client would have too many bytes kept."""
        try:
            self._session.keep(transaction, frame.wire, self._most)
        except LimitError as error:
            raise error.asked_for(self.marks(frame)[0]) from None

    def send(self, frame: Frame) -> None:
        """Keep a frame for the next broker. Raises `Refused` for the COMMIT of a transaction that is lost."""
        session, unconfirmed, command = self._session, self.unconfirmed, frame.command
        receipt, name = self.marks(frame)
        transaction = None if name is None else session.transactions.get(name)
        if command is ACK or command is NACK:
            session.lose("acks_stale")
            if transaction is not None:
                transaction.doomed = "it acknowledges messages of a broker that was lost"
        elif command is COMMIT and transaction is not None:
            if transaction.doomed is not None:
                raise Refused("the transaction cannot be committed", transaction.doomed, receipt=receipt)
            wire = b"".join([*transaction.frames, frame.wire])
            sends = len(transaction.frames) - 1
            confirmed_by = unconfirmed.ask() if receipt is None else receipt
            unconfirmed.keep(wire, confirmed_by, sent=False, sends=sends)
        elif command is SEND and transaction is not None:
            if receipt is not None:
                unconfirmed.owe(receipt)
            self._join(transaction, frame)
            return
        elif command is SEND or command is COMMIT:
            confirmed_by = unconfirmed.ask() if receipt is None else receipt
            unconfirmed.keep(frame.wire, confirmed_by, sent=False, sends=int(command is SEND))
        if command in Session.WATCHED:
            self._observe(frame, name)
        if receipt is not None:
            if command in _WITHOUT_EFFECT:
                unconfirmed.given.append(receipt)
            else:
                unconfirmed.owe(receipt)

    def _join(self, transaction: Transaction, frame: Frame) -> None:
        """Keep a SEND of a transaction. If the transaction gets too large, mark it as `doomed`: its COMMIT will fail.
        The client gets the RECEIPTs of the frames that are dropped.
        """
        before = transaction.frames
        self.keep(transaction, frame)
        if transaction.cut:
            dropped = [frame.wire] if before is transaction.frames else [*before[1:], frame.wire]
            transaction.doomed = "there was no broker, and it was too large to be kept"
            for each in self.read(b"".join(dropped)):
                self.give_up(each.header(RECEIPT_HEADER, self._session.dialect))

    def _observe(self, frame: Frame, name: bytes | None) -> None:
        session, command = self._session, frame.command
        ended = None if name is None else session.transactions.get(name)
        try:
            subscription = session.observed(command, frame.headers(session.dialect))
        except StompError as error:
            raise error.asked_for(self.marks(frame)[0]) from None
        if command is BEGIN and name is not None:
            self.keep(session.transactions[name], frame)
        elif command is ABORT and ended is not None:
            for each in self.read(b"".join(ended.frames)):
                self.give_up(each.header(RECEIPT_HEADER, session.dialect))
        elif command is UNSUBSCRIBE and subscription is not None:
            self.give_up(next((value for key, value in subscription.headers if key == RECEIPT_HEADER), None))

    def give_up(self, receipt: bytes | None) -> None:
        """Give the client this receipt, because no broker answers the frame that asked for it."""
        if receipt is not None and self.unconfirmed.settle(receipt):
            self.unconfirmed.given.append(receipt)


WINDOW: Final = 64
SHORT_LINE: Final = 8
"""A line of at most so many parts is sent part by part after its first loss."""
SOON: Final = 5.0
"""If a broker closes within so many seconds after it was sent a part, this part may be the cause."""
ENOUGH: Final = 2

AGAIN: Final = b"relay-resent:true\n"
"""The header line for a SEND that a lost broker may already have."""

_MARKED: Final = re.compile(rb"\n(?:%b|%b):" % (RECEIPT_HEADER, TRANSACTION))

Part = Subscription | Kept | tuple[Transaction, bytes]
"""What is sent again and has an answer of its own: a subscription, a kept entry, a frame of an open transaction."""


CLOSES: Final = "the broker closed the connection twice when it was sent"
SILENT: Final = "the broker did not confirm it in time"

CHECKS: Final = 3
"""How many checks in a row a SEND outlasts before it is refused. The answer to the last one, which is read just then,
proves that the relay has read all that the broker wrote before.
"""


class NotAccepted(Refused):
    """A SEND that no broker accepts. The client gets the ERROR, and its session goes on. RabbitMQ does not accept what
    a queue rejects: up to 4.2 it closes the connection, later versions do not answer.
    """

    def about(self, failure: Refused) -> "NotAccepted":
        """Return this error with the detail and the receipt of `failure`."""
        return NotAccepted(self.message, failure.detail, receipt=failure.receipt)


def _shown(command: bytes, name: bytes, receipt: bytes | None, why: str) -> str:
    """Return in words which frame an ERROR is about, and why the client gets it."""
    shown = f"{command.decode()} {name[:200].decode('utf-8', 'backslashreplace')}".rstrip()
    if receipt is not None:
        shown = f"{shown} (receipt {receipt[:200].decode('utf-8', 'backslashreplace')})"
    return f"{shown}: {why}"


class Strike:
    """Records that a connection ended while only one part was unanswered. `sight`: the broker's state when it was sent
    this part. `counts`: the part may be to blame, because the broker was well.
    """

    __slots__ = ("_health", "_sight", "counts")

    def __init__(self, health: Health, sight: Sight) -> None:
        self._health = health
        self._sight = health.unanswered(sight)
        self.counts = False

    def review(self) -> bool:
        """Look again at the broker's health until the strike `counts`. Return False if the strike can never count."""
        self.counts = self.counts or self._health.well_since(self._sight)
        return self.counts or not self._health.disproved(self._sight)


@dataclass(slots=True, eq=False, repr=False)
class Caution:
    """How fast a session's lines are sent, and which of their parts are to blame for lost connections. `window`: how
    many parts may be unanswered at a time; 0: any number.

    The first line is sent in one piece. If the connection is lost soon after and the broker answered nothing, the next
    line is sent with at most `WINDOW` unanswered parts; after one more such loss, part by part. A part gets a strike if
    it was sent alone to a broker that had answered before, the broker closed within `SOON` seconds, and the broker is
    later found to have been well (`Health.well_since`). After `ENOUGH` strikes in a row the part is refused.

    Call `began` for each broker, `sent` for each part of the line, `answered` for each receipt, `through` at the end of
    the line, and `lost` when the broker is lost. The key of a part is the same at each broker. If a confirmed part is
    not sent to the next broker again, its key must have the type bytes. Only the answer to such a part is progress.
    """

    window: int = 0
    _broker: Broker | None = None
    _flight: dict[bytes, object] = field(default_factory=dict)
    _answered: bool = False
    _progress: bool = False
    _resent: int = 0
    _sent_at: float = 0.0
    _sight: Sight | None = None
    _suspect: object = None
    _strikes: list[Strike] = field(default_factory=list)

    @property
    def awaited(self) -> int:
        """How many parts are unanswered."""
        return len(self._flight)

    def began(self, broker: Broker | None, now: float) -> None:
        """Record that there is a broker, and a line to send to it."""
        self._broker = broker
        self._flight.clear()
        self._answered = self._progress = False
        self._resent = 0
        self._sent_at = now

    def resent(self, parts: int, now: float) -> None:
        """Record that so many parts of the line were sent at once. The answers to these parts are not awaited."""
        self._resent += parts
        self._sent_at = now

    def sent(self, receipt: bytes, key: object, now: float) -> None:
        """Record that a part of the line was sent. `receipt` answers it. A part without a `key` is never blamed."""
        self._flight[receipt] = key
        self._sent_at = now
        self._resent += 1
        if self._broker is not None:
            self._sight = self._broker.health.sight()

    def answered(self, receipt: bytes) -> None:
        """The broker sent this receipt."""
        self._answered = True
        if receipt in self._flight:
            key = self._flight.pop(receipt)
            # An answer to a subscription is no progress, because the next broker is sent the subscription again.
            self._progress = self._progress or isinstance(key, bytes)
            if key == self._suspect:
                self._acquit()

    def advances(self, receipt: bytes) -> bool:
        """Return whether the next broker is not asked again for this receipt, which comes now."""
        return isinstance(self._flight.get(receipt, b""), bytes)

    def erred(self) -> None:
        """The broker sent an ERROR without a receipt: it may answer any part, so no part is awaited any more."""
        for receipt in [*self._flight]:
            self.answered(receipt)

    def through(self) -> None:
        """Record that the whole line was sent and answered: the next line is sent as fast as possible."""
        self.window = 0
        self._acquit()

    def _acquit(self) -> None:
        self._suspect = None
        self._strikes = []

    def lost(self, broker: Broker | None, now: float) -> None:
        """The connection was lost. `broker`: the broker that closed it; None if no broker closed it."""
        flight, self._flight = self._flight, {}
        if broker is None or now > self._sent_at + SOON or not self._resent:
            return
        if self.window == 1:
            (key,) = flight.values() or (None,)
            if key is not None and self._answered and self._sight is not None:
                if key != self._suspect:
                    self._suspect = key
                    self._strikes = []
                self._strikes.append(Strike(broker.health, self._sight))
        elif not self.window:
            if not self._answered:
                self.window = 1 if self._resent <= SHORT_LINE else WINDOW
        elif not self._progress:
            self.window = 1

    def condemns(self, key: object) -> bool:
        """Whether this part of the line is to blame for lost connections, so that it must not be sent again."""
        if key != self._suspect or not self._strikes:
            return False
        self._strikes = [strike for strike in self._strikes if strike.review()]
        return sum(strike.counts for strike in self._strikes) >= ENOUGH


@dataclass(slots=True, eq=False, repr=False)
class Sender:
    """Writes frames to the broker at `leg`, keeps them, and asks for receipts. `send`, `repeat`, `repeat_inside` and
    `compose` add frames; `flush` writes them.
    """

    leg: Leg
    bridge: Bridge
    session: Session
    offline: Offline
    unconfirmed: Unconfirmed
    _outbox: Outbox
    confirm: bool
    _owing: bool = True
    _joiner: Joiner = field(default_factory=Joiner)
    _plain: bytes | None = None
    _place: bytes = b""  # of the SEND before
    _batch: list[Frame | Run] = field(default_factory=list)
    _sends: int = 0
    _last: tuple[Frame | Run, bytes | None, bytes] | None = None

    @property
    def collects(self) -> bool:
        """Whether there are SENDs to keep whose common receipt is not asked for yet."""
        return bool(self._batch)

    # Frames

    def send(self, frame: Frame, extra: bytes = b"") -> None:
        """Add a frame. A SEND gets the header lines `extra` in front. Raises `StompError` if it cannot be sent."""
        if frame.command is not SEND:
            self._send_other(frame)
            return
        head = self.bridge.head(frame, self.session)
        memo = frame.memo
        if memo is None or memo is not self._plain:
            if _MARKED.search(frame.data, frame.head - 1, frame.body):
                self._send_marked(frame, head, extra)
                return
            self._plain = memo
        if not self.confirm:
            self.unconfirmed.pass_unkept()
        elif self.unconfirmed.cumulative:
            self._add(frame, head, extra)
            return
        else:
            receipt = self.unconfirmed.ask()
            self.unconfirmed.keep(frame.wire, receipt)
            extra = b"%breceipt:%b\n" % (extra, receipt)
        self._joiner.add(frame, head, extra)

    def send_run(self, run: Run) -> None:
        """Add a run that the session has recorded. Keep its SENDs. If each gets a receipt, the run needs `parts`."""
        if not self.confirm or run.command is not SEND:
            self.close()
            self._joiner.add(run, None)
        elif self.unconfirmed.cumulative:
            self._add(run, None, b"", run.count)
        else:
            receipts = self.unconfirmed.ask_each(run.count)
            self.unconfirmed.keep_run(run, receipts)
            self._joiner.write(self.bridge.asking(run, receipts))

    def _send_marked(self, frame: Frame, head: bytes | None, extra: bytes) -> None:
        """Add a SEND that asks for a receipt, or belongs to a transaction."""
        receipt, name = self.offline.marks(frame)
        if receipt is not None and self._owing:
            self.unconfirmed.owe(receipt)
        transaction = None if name is None else self.session.transactions.get(name)
        if transaction is not None:
            self.close()
            self.offline.keep(transaction, frame)
            extra += self._asking_inside(receipt, name)
        elif receipt is not None:
            self.close(batch=self.unconfirmed.cumulative and self._elsewhere(frame))
            self._batch.append(frame)
            self._sends += 1
            self._keep(receipt)
        elif self.confirm:
            self.close()
            receipt = self.unconfirmed.ask()
            self.unconfirmed.keep(frame.wire, receipt)
            extra = b"%breceipt:%b\n" % (extra, receipt)
        self._joiner.add(frame, head, extra)

    def _send_other(self, frame: Frame) -> None:
        """Add a frame other than SEND."""
        self.close()
        session, unconfirmed, command = self.session, self.unconfirmed, frame.command
        receipt = name = None
        if _MARKED.search(frame.data, frame.head - 1, frame.body):
            receipt, name = self.offline.marks(frame)
        transaction = None if name is None else session.transactions.get(name)
        if command is COMMIT and transaction is not None and transaction.doomed is not None:
            raise Refused("the transaction cannot be committed", transaction.doomed, receipt=receipt)
        head = self.bridge.head(frame, session)
        extra = b""
        if head == b"":
            if receipt is not None:
                unconfirmed.given.append(receipt)
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
            for each in unconfirmed.committing.aborted(name):
                self.offline.give_up(each)
        elif command is BEGIN and name is not None:
            self.offline.keep(session.transactions[name], frame)
        self._joiner.add(frame, head, extra)

    def _asking_inside(self, receipt: bytes | None, name: bytes | None) -> bytes:
        """Record a SEND in a transaction. Return the header line that asks for a receipt, or b"" if none is needed."""
        unconfirmed = self.unconfirmed
        if unconfirmed.commits_early and receipt is not None:
            unconfirmed.committing.asked(name or b"", receipt)
        elif unconfirmed.commits_early and self.confirm:
            return b"receipt:%b\n" % unconfirmed.committing.ask(name or b"", unconfirmed.ask)
        return b""

    # Frames that are sent again

    def repeat(self, kept: Kept) -> int:
        """Add kept frames again. Return how many frames they are. Raises as `send` does."""
        count = 0
        self._owing = False
        try:
            for frame in self.offline.read(kept.wire):
                count += 1
                self.send(frame, AGAIN if kept.sent else b"")
        except StompError:
            self.unconfirmed.settle(kept.receipt)  # nobody may give it now
            raise
        finally:
            self._owing = True
        return count

    def repeat_inside(self, wire: bytes) -> None:
        """Add a frame of an open transaction again. Raises as `send` does."""
        for frame in self.offline.read(wire):
            receipt, name = self.offline.marks(frame)
            if receipt is not None:
                self.unconfirmed.cover(receipt)
            extra = b"" if frame.command is BEGIN else self._asking_inside(receipt, name)
            try:
                head = self.bridge.head(frame, self.session)
            except StompError as error:
                if error.receipt is not None and not self.unconfirmed.owes(error.receipt):
                    error.receipt = None  # the client has it
                raise
            self._joiner.add(frame, head, extra)

    def compose(self, command: bytes, headers: Headers) -> None:
        """Add a frame of the relay's own."""
        self._joiner.write(self.bridge.compose(command, headers, self.session))

    def check(self) -> bytes:
        """Add an empty transaction. Return its receipt, which shows that the broker has read all earlier frames."""
        receipt = self.unconfirmed.ask()
        self.unconfirmed.cover(receipt)
        self.compose(BEGIN, [(TRANSACTION, receipt), (RECEIPT_HEADER, receipt)])
        self.compose(ABORT, [(TRANSACTION, receipt)])
        return receipt

    # Writing

    def flush(self, now: float) -> None:
        """Write all frames that were added since the last call, in one piece."""
        self.close()
        data = self._joiner.take()
        if data:
            self._outbox.send(self.leg, data, now)

    def _add(self, frame: Frame | Run, head: bytes | None, extra: bytes, sends: int = 1) -> None:
        """Add frames to the batch. They wait for the next frames: only the last SEND of a batch asks for a receipt."""
        self.close(batch=self._elsewhere(frame))
        self._batch.append(frame)
        self._sends += sends
        self._last = (frame, head, extra)

    def _elsewhere(self, frame: Frame | Run) -> bool:
        """Return whether a RECEIPT for this SEND does not show that the SEND before it is safe. ActiveMQ stores a SEND
        without `receipt` later. At once it confirms a SEND to a topic, and a SEND that is not persistent.
        """
        before = self._place
        if type(frame) is Run:
            self._place = frame.place
        else:
            self._place = b"".join([b"%b\n" % each for each in map(frame.raw, PLACE) if each is not None])
        return self._place != before

    def close(self, *, batch: bool = True) -> None:
        """Add the SEND that waits. If `batch` is True, this SEND ends the batch, and asks for the batch's receipt."""
        if self._last is None:
            return
        frame, head, extra = self._last
        self._last = None
        if batch:
            receipt = self.unconfirmed.ask()
            self._keep(receipt)
            extra = b"%breceipt:%b\n" % (extra, receipt)
        self._joiner.add(frame, head, extra)

    def _keep(self, receipt: bytes) -> None:
        """Keep the frames of the batch until this receipt confirms them. Then begin the next batch."""
        wire = b"".join([each.wire for each in self._batch])
        self.unconfirmed.keep(wire, receipt, sends=self._sends)
        self._batch = []
        self._sends = 0


@dataclass(slots=True, eq=False, repr=False)
class Line:
    """What a new broker must be sent before the client's next frame, in order: subscriptions, unconfirmed frames, open
    transactions. A `sender` writes the line, in turns or some parts at a time: see `Caution`.

    Call `begin`, then `go_on` until the line is `done`. `refused`: errors for the client, about parts that were
    removed. `hurries`: the line waits for no answers.
    """

    _sender: Sender
    _caution: Caution
    _refused: list[Refused]
    _: KW_ONLY
    hurries: bool
    _leaving: deque[Subscription] = field(default_factory=deque)
    _subscriptions: deque[Subscription] = field(default_factory=deque)
    _inside: deque[tuple[Transaction, bytes]] = field(default_factory=deque)

    @property
    def done(self) -> bool:
        """Whether the broker was sent the whole line, so that the client's next frame may follow."""
        return not (self.hurries or self._leaving or self._caution.window)

    @property
    def hasty(self) -> bool:
        """Whether the line is unfinished only because it is too long for one turn."""
        return self.hurries or bool(self._leaving)

    def begin(self, now: float, *, subscriptions: bool) -> None:
        """Fill the line: with subscriptions (if True), unconfirmed frames and open transactions."""
        session, unconfirmed, caution = self._sender.session, self._sender.unconfirmed, self._caution
        if subscriptions:
            self._subscriptions.extend(session.subscriptions)
        for transaction in session.transactions.values():
            self._inside.extend([(transaction, wire) for wire in transaction.frames])
        taken = unconfirmed.take()
        if taken:
            unconfirmed.set_aside(taken)
            session.counters["frames_resent"] += sum(kept.sends for kept in taken if kept.sent)
        if caution.window == 1 and self._first() is not None:
            caution.sent(self._sender.check(), None, now)

    def unsubscribe(self, *, subscribed: bool) -> None:
        """Add UNSUBSCRIBEs, as many as one turn allows. `subscribed`: the broker was sent the subscriptions."""
        sent = len(self._sender.session.subscriptions) - len(self._subscriptions)
        self._subscriptions.clear()
        if subscribed:
            self._leaving.extend(islice(self._sender.session.subscriptions, sent))
        self._leave()

    # Sending the line

    def go_on(self, now: float) -> None:
        """Add as many parts as may be sent now. Raises `StompError` for a part that cannot be sent."""
        if self.hurries or self._leaving:
            self._hurry(now)
        else:
            self._watch(now)

    def _hurry(self, now: float) -> None:
        """Add as many parts as one turn allows, without waiting for answers."""
        count = self._leave() if self._leaving else 0
        if not self.hurries:
            return
        sender, unconfirmed = self._sender, self._sender.unconfirmed
        while self._subscriptions and count < TURN:
            self._subscribe(self._subscriptions.popleft())
            count += 1
        # A kept entry may hold a whole transaction, and another transaction with the same name may be open.
        if unconfirmed.aside:
            with self._sender.session.without_transactions():
                while unconfirmed.aside and count < TURN:
                    count += sender.repeat(unconfirmed.take_aside())
                sender.close()
        while self._inside and count < TURN:
            sender.repeat_inside(self._inside.popleft()[1])
            count += 1
        self._caution.resent(count, now)
        self.hurries = bool(self._subscriptions or self._inside or unconfirmed.aside)

    def _watch(self, now: float) -> None:
        """Add as many parts as may be unanswered at a time. Remove parts that are to blame for lost connections."""
        caution = self._caution
        while caution.awaited < caution.window:
            part = self._first()
            if part is None:
                if not caution.awaited:
                    caution.through()
                return
            key = part.wire if isinstance(part, Kept) else part  # a kept part has another receipt each time
            if caution.condemns(key):
                self._drop(part)
            else:
                caution.sent(self._say(part), key, now)

    # Its parts

    def _first(self) -> Part | None:
        """Return the first part that was not sent yet."""
        if self._subscriptions:
            return self._subscriptions[0]
        unconfirmed = self._sender.unconfirmed
        kept = unconfirmed.aside[0] if unconfirmed.aside else None
        if kept is not None and kept.sends > 1 and not kept.wire.startswith(BEGIN):
            # Each of several SENDs gets its own receipt, but a transaction stays whole.
            *others, last = self._sender.offline.read(kept.wire)
            split = [Kept(frame.wire, unconfirmed.ask(), kept.sent) for frame in others]
            unconfirmed.take_aside()
            unconfirmed.set_aside([*split, kept._replace(wire=last.wire, sends=1)], first=True)
        parts = unconfirmed.aside or self._inside
        return parts[0] if parts else None

    def _say(self, part: Part) -> bytes:
        """Add the first part of the line to the bytes for the broker. Return the receipt that will confirm the part."""
        sender, unconfirmed = self._sender, self._sender.unconfirmed
        unconfirmed.take_latest()
        if isinstance(part, Subscription):
            self._subscriptions.popleft()
            self._subscribe(part)
        elif isinstance(part, Kept):
            unconfirmed.take_aside()
            first = next(self._sender.offline.read(part.wire))
            if first.header(TRANSACTION, self._sender.session.dialect) is not None:
                with self._sender.session.without_transactions():
                    sender.repeat(part)
            else:
                sender.repeat(part)
            sender.close()
        else:
            self._inside.popleft()
            sender.repeat_inside(part[1])
        return unconfirmed.take_latest() or sender.check()

    def _drop(self, part: Part) -> None:
        """Remove this part, the first one, from the line for good, and add an error for the client."""
        dialect = self._sender.session.dialect
        if isinstance(part, Subscription):
            self._subscriptions.popleft()
            command, headers = SUBSCRIBE, part.headers
        else:
            if isinstance(part, Kept):
                self._sender.unconfirmed.take_aside()
                wire = part.wire
            else:
                transaction, wire = part
                transaction.doomed = "a frame in it cost brokers their connection"
                while self._inside and self._inside[0][0] is transaction:
                    self._inside.popleft()
            first = next(self._sender.offline.read(wire))
            command, headers = first.command, first.headers(dialect)
        names = dict(reversed(headers))
        receipt = names.get(RECEIPT_HEADER)
        if receipt is not None and not self._sender.unconfirmed.settle(receipt):
            receipt = None  # the client has it
        self._sender.session.counters["poison_refused"] += 1
        name = names.get(DESTINATION, names.get(TRANSACTION, b""))
        shown = _shown(command, name, receipt, CLOSES)
        if command is SEND and isinstance(part, Kept):
            self._refused.append(NotAccepted("a message was not accepted", shown, receipt=receipt))
        else:
            self._refused.append(Refused("a frame cannot be delivered", shown, receipt=receipt))

    def _subscribe(self, subscription: Subscription) -> None:
        headers = [
            (name, value)
            for name, value in subscription.headers
            if name != RECEIPT_HEADER or self._sender.unconfirmed.owes(value)
        ]
        if self._sender.bridge.names_subscriptions and not subscription.named:
            headers.insert(0, (ID, subscription.id))
        self._sender.compose(SUBSCRIBE, headers)

    def _leave(self) -> int:
        """Send UNSUBSCRIBE for as many subscriptions as one turn allows. Return how many were sent."""
        named, count = self._sender.bridge.names_subscriptions, 0
        while self._leaving and count < TURN:
            each = self._leaving.popleft()
            count += 1
            header = (ID, each.id) if named or each.named else (DESTINATION, each.destination)
            self._sender.compose(UNSUBSCRIBE, [header])
        return count


@dataclass(slots=True, eq=False, repr=False)
class Check:
    """Finds out whether the broker has read everything before it. `receipt`: shows that it has. `number`: of the checks
    of the same SENDs. `answered`: the receipt came.
    """

    receipt: bytes
    number: int = 1
    answered: bool = False

    @property
    def decides(self) -> bool:
        """Whether the last check is answered."""
        return self.answered and self.number == CHECKS


@dataclass(slots=True, eq=False, repr=False)
class Resender:
    """Sends a client's frames to one broker after the other in a group. `unconfirmed`: the frames that are not
    confirmed. `line`: what the broker must be sent first. While there is a line, call `go_on` after each receipt or
    (`Line.hasty`) in the next turn, and do not call `send`.

    Call `connected` and `replay` for a broker, `send` and `flush` for frames (without a broker `send` keeps them), and
    `lost` when the broker is lost. After each call, give the client the receipts of `Unconfirmed.take_given`. Call
    `review` at `review_at`; `patience`: how long a broker may take to confirm a SEND, or 0: any time.
    """

    session: Session
    _outbox: Outbox
    limits: InitVar[Limits]
    _: KW_ONLY
    most: InitVar[int]
    confirm: bool
    patience: float = 0.0
    review_at: float = inf
    unconfirmed: Unconfirmed = field(init=False)
    refused_frames: list[Refused] = field(default_factory=list)
    line: Line | None = None
    offline: Offline = field(init=False)
    _caution: Caution = field(default_factory=Caution)
    _at: Broker | None = None
    _sender: Sender | None = None
    _subscribes: bool = True
    _check: Check | None = None

    def __post_init__(self, limits: Limits, most: int) -> None:
        self.offline = Offline(self.session, limits, self.session.kept.room(most))
        self.unconfirmed = self.offline.unconfirmed

    @property
    def quiet(self) -> bool:
        """Whether leaving the broker loses nothing: nothing is open, unacknowledged or unconfirmed there."""
        return self.session.quiet and self.safe and not self.unconfirmed.owed_receipts

    @property
    def safe(self) -> bool:
        """Whether everything that must reach the broker is known to have reached it."""
        collects = self._sender is not None and self._sender.collects
        return self.line is None and self.unconfirmed.safe and not collects

    # Receipts

    def received(self, receipt: bytes) -> bool:
        """Record a RECEIPT. Return whether it passes: the client asked for it and does not have it yet."""
        self._caution.answered(receipt)
        if self._check is not None and receipt == self._check.receipt:
            self._check.answered = True
            if self._check.decides:
                self.review_at = inf  # `watches` sets it to now
        return self.unconfirmed.received(receipt)

    def received_all(self, receipts: list[bytes]) -> bool:
        """Record RECEIPTs that are all the relay's own, and return True. If False, call `received` with each."""
        if self.line is not None or not self.unconfirmed.received_all(receipts):
            return False
        self._caution.answered(receipts[-1])
        return True

    def advances(self, receipt: bytes) -> bool:
        """Return whether this RECEIPT, which comes now, confirms more than the relay asks each next broker for."""
        checks = self._check is not None and receipt == self._check.receipt
        return self._caution.advances(receipt) and not checks

    def refused(self, receipt: bytes | None) -> None:
        """Record an ERROR. The frame that asked for this receipt, if the ERROR names one, gets no other answer."""
        if receipt is None:
            self._caution.erred()
            self.unconfirmed.committing.erred()
        else:
            self._caution.answered(receipt)
            self.unconfirmed.refused(receipt)

    # Receipts that do not come

    def watches(self, now: float) -> bool:
        """Begin to wait for receipts, if any are awaited. Return whether this set `review_at`."""
        if self.review_at < inf or not self.patience:
            return False
        if not self.unconfirmed.size and self.unconfirmed.committing.safe:
            return False
        decides = self._check is not None and self._check.decides
        self.review_at = now if decides else now + self.patience / 2
        return True

    def review(self, now: float) -> list[bytes | None]:
        """Refuse the SENDs that the broker did not confirm in time, although it has read later frames (`take_refused`).
        A broker that reads nothing at present has more time, and one that the relay does not read from. Then `go_on`
        and `flush`. Return receipts as `lost` does.
        """
        self.review_at = inf
        unconfirmed, sender, check, doubts = self.unconfirmed, self._sender, self._check, []
        if check is None or check.answered:
            number = 1 if check is None else check.number + 1
            if number > CHECKS:
                number = 1
                for kept in unconfirmed.overdue():
                    self._pass_over(kept)
                doubts = unconfirmed.committing.overdue()
                unconfirmed.doubt(doubts)
            self._check = None
            if sender is not None and sender.leg.state is not LegState.LEAVING and not self.safe:
                if number == 1:
                    unconfirmed.mark()
                self._check = Check(sender.check(), number)
        self.watches(now)
        return doubts

    def _pass_over(self, kept: Kept) -> None:
        """Refuse kept SENDs: no broker is sent them again."""
        dialect = self.session.dialect
        for frame in self.offline.read(kept.wire):
            receipt, _ = self.offline.marks(frame)
            if receipt is not None and not self.unconfirmed.owes(receipt):
                receipt = None  # the client has it
            self.session.counters["sends_overdue"] += 1
            shown = _shown(frame.command, frame.header(DESTINATION, dialect) or b"", receipt, SILENT)
            self.refused_frames.append(NotAccepted("a message was not accepted", shown, receipt=receipt))
        self.refused(kept.receipt)

    # Brokers come and go

    def connected(
        self, leg: Leg, bridge: Bridge, broker: Broker, *, cumulative: bool, commits_early: bool
    ) -> None:
        """There is a broker. `cumulative`, `commits_early`: what the broker's receipts mean, see `Profile`."""
        self._at = broker
        self.unconfirmed.cumulative = cumulative
        self.unconfirmed.commits_early = commits_early
        self.session.memo = None  # the new broker may need another head
        self._sender = Sender(
            leg, bridge, self.session, self.offline, self.unconfirmed, self._outbox, self.confirm
        )

    def lost(self, *, by: Broker | None, now: float) -> list[bytes | None]:
        """The broker is lost. `by`: the broker, if it closed the connection itself. Frames that were not written are
        dropped. Return the receipts of COMMITs whose outcome is unknown, with None for a COMMIT without a receipt.
        """
        if self._sender is not None:
            self._sender.close()  # what was not written is kept, too
        self._sender = self.line = self._check = None
        self._caution.lost(by, now)
        unconfirmed, session = self.unconfirmed, self.session
        session.counters["possibly_lost"] += unconfirmed.unproved
        session.lost_broker()
        return unconfirmed.lost(self._asked_again())

    def _asked_again(self) -> Iterator[bytes]:
        """Yield the receipts of subscriptions and open transactions: the next broker will be asked for them again."""
        yield from self._subscribed()
        for transaction in self.session.transactions.values():
            for frame in self.offline.read(b"".join(transaction.frames)):
                receipt = frame.header(RECEIPT_HEADER, self.session.dialect)
                if receipt is not None:
                    yield receipt

    def _subscribed(self) -> Iterator[bytes]:
        for subscription in self.session.subscriptions:
            yield from (value for name, value in subscription.headers if name == RECEIPT_HEADER)

    # What a new broker must be sent

    def replay(self, *, subscriptions: bool, now: float) -> None:
        """Add all that a new broker must be sent, or its first part (see `line`). Then `flush`. Raises like `send`.
        Without `subscriptions` the client gets the receipts that it is owed for them.
        """
        self._caution.began(self._at, now)
        self._subscribes = subscriptions
        for receipt in () if subscriptions else self._subscribed():
            self.offline.give_up(receipt)
        self.line = Line(self._there, self._caution, self.refused_frames, hurries=not self._caution.window)
        self.line.begin(now, subscriptions=subscriptions)
        self.go_on(now)

    @property
    def _there(self) -> Sender:
        """Return the sender to the present broker. Raises `LookupError` without a broker."""
        if self._sender is None:
            raise LookupError("there is no broker")
        return self._sender

    def go_on(self, now: float) -> None:
        """Add as much of the line as may be sent now; then call `flush` to write this. Raises as `send` does."""
        line, sender = self.line, self._sender
        if line is not None and sender is not None and sender.leg.state is not LegState.LEAVING:
            line.go_on(now)  # nothing may follow DISCONNECT
            if line.done:
                self.line = None

    @property
    def suspect(self) -> bool:
        """Whether the broker, if it closes now, may do so because of a frame: not all are answered. Many clients of one
        queue that rejects lose their connections at the same time.
        """
        unconfirmed = self.unconfirmed
        waits = self.line is not None or unconfirmed.size or unconfirmed.unproved
        return bool(waits) or not unconfirmed.committing.safe

    def take_refused(self) -> Sequence[Refused]:
        """Return the errors for the client about parts that were removed from the line since the last call."""
        refused = self.refused_frames[:]
        self.refused_frames.clear()
        return refused

    def unsubscribe(self) -> None:
        """Add UNSUBSCRIBEs for all subscriptions, or for the first ones (see `line`). Then call `flush`."""
        line = self.line or Line(self._there, self._caution, self.refused_frames, hurries=False)
        line.unsubscribe(subscribed=self._subscribes)
        self.line = None if line.done else line

    # Frames

    def send(self, frame: Frame | Run) -> None:
        """Add a frame, or a run if there is a broker. Raises `StompError` for a frame that cannot be sent."""
        if type(frame) is Run:
            self._there.send_run(frame)
        elif self._sender is None or not (self._subscribes or frame.command is not UNSUBSCRIBE):
            self.offline.send(frame)  # the broker is not there, or was not told of the subscription
        else:
            self._sender.send(frame)

    def flush(self, now: float) -> None:
        """Write all frames that were added since the last call, in one piece."""
        if self._sender is not None:
            self._sender.flush(now)

    def spelled(self, wire: bytes) -> bytes:
        """Return a client's frame in the broker's spelling. The frame is not kept, and no receipt is asked for."""
        bridge = self._there.bridge
        return b"".join([bridge.carry(frame, self.session) for frame in self.offline.read(wire)])
