"""The line of all that a new broker has to know, which is sent it again: how, in which order, and how fast.

Subscriptions come first, then what was not confirmed, then the frames of open transactions. The line goes out a turn's
worth at a time or, after lines that cost brokers their connection, a few parts at a time: see `caution`.
"""

from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import Final

from stomprelay.relay.forward import TURN
from stomprelay.relay.model.group import Broker
from stomprelay.relay.resend.caution import Caution, poison
from stomprelay.relay.resend.offline import Offline
from stomprelay.relay.resend.sender import Sender
from stomprelay.relay.resend.unconfirmed import Kept
from stomprelay.session.session import Session, Transaction
from stomprelay.session.subscriptions import Subscription
from stomprelay.wire.errors import Refused
from stomprelay.wire.names import (
    ABORT,
    BEGIN,
    DESTINATION,
    ID,
    RECEIPT_HEADER,
    SUBSCRIBE,
    TRANSACTION,
    UNSUBSCRIBE,
)

Part = Subscription | Kept | tuple[Transaction, bytes]
"""What is sent again and answered by itself: a subscription, what was kept, a frame of an open transaction."""


_NO_SUBSCRIPTIONS: Final[deque[Subscription]] = deque(maxlen=0)
_NOTHING_INSIDE: Final[deque[tuple[Transaction, bytes]]] = deque(maxlen=0)
"""An empty deque has three quarters of a kilobyte, and few sessions ever lose their brokers."""


class Line:
    """What a broker still has to be sent before the client's next frame. It is put in by a `sender`, which writes it.

    Call `begin` when there is a broker, `go_on` while it is not `done`, `answered` for each receipt, and `lost` when
    the broker is lost. What was not confirmed waits where `Unconfirmed` sets it aside; the rest waits here. `refused`
    has the frames that were taken out of the line, as errors for the client.
    """

    __slots__ = (
        "_caution",
        "_hasty",
        "_inside",
        "_leaving",
        "_offline",
        "_sender",
        "_session",
        "_subscribes",
        "_subscriptions",
        "_unconfirmed",
        "refused",
    )

    def __init__(self, session: Session, offline: Offline, sender: Sender) -> None:
        self._session = session
        self._offline = offline
        self._unconfirmed = offline.unconfirmed
        self._sender = sender
        self._caution = Caution()
        self._hasty = False
        self._leaving = _NO_SUBSCRIPTIONS
        self._subscribes = True
        self._subscriptions = _NO_SUBSCRIPTIONS
        self._inside = _NOTHING_INSIDE
        self.refused: list[Refused] = []

    @property
    def done(self) -> bool:
        """Whether the broker that is there has all of it, so that the client's next frame may follow."""
        return not (self._hasty or self._leaving or self._caution.window)

    @property
    def cautious(self) -> bool:
        """Whether it waits for answers, because lines before this one cost brokers their connection."""
        return self._caution.careful

    @property
    def hasty(self) -> bool:
        """Whether it is only too long for one turn."""
        return self._hasty or bool(self._leaving)

    # Brokers come and go

    def begin(self, broker: Broker | None, now: float, *, subscriptions: bool) -> None:
        """There is a broker, which has to know all of it, with or without the subscriptions. Then call `go_on`."""
        session, unconfirmed, caution = self._session, self._unconfirmed, self._caution
        self._subscribes = subscriptions
        if subscriptions:
            self._subscriptions = deque(session.subscriptions) if session.subscriptions else _NO_SUBSCRIPTIONS
        if session.transactions:
            opened = session.transactions.values()
            self._inside = deque((transaction, wire) for transaction in opened for wire in transaction.frames)
        taken = unconfirmed.take()
        unconfirmed.set_aside(taken)
        session.counters["frames_resent"] += sum(kept.sends for kept in taken if kept.sent)
        caution.began(broker, now)
        self._hasty = not caution.careful
        if caution.alone and self._first() is not None:
            caution.sent(self._check(), None, now)

    def answered(self, receipt: bytes) -> None:
        """The broker answered with this receipt."""
        self._caution.answered(receipt)

    def lost(self, by: Broker | None, now: float) -> None:
        """The broker is lost; `by` is the broker if it closed the connection itself."""
        self._caution.lost(by, now)
        self._hasty = False
        self._leaving = self._subscriptions = _NO_SUBSCRIPTIONS
        self._inside = _NOTHING_INSIDE

    def receipts(self, *, subscriptions: bool) -> Iterator[bytes]:
        """Return those that the next broker will be asked for with subscriptions and open transactions."""
        for subscription in self._session.subscriptions if subscriptions else ():
            yield from (value for name, value in subscription.headers if name == RECEIPT_HEADER)
        for transaction in self._session.transactions.values():
            for frame in self._offline.read(b"".join(transaction.frames)):
                receipt = frame.header(RECEIPT_HEADER, self._session.dialect)
                if receipt is not None:
                    yield receipt

    def unsubscribe(self) -> None:
        """Put in that no more messages are wanted; where that is more than a turn has, it is only begun."""
        sent = len(self._session.subscriptions) - len(self._subscriptions)
        self._subscriptions = _NO_SUBSCRIPTIONS
        if sent and self._subscribes:
            self._leaving = deque([*self._leaving, *islice(self._session.subscriptions, sent)])
        self._leave()

    # How it goes out

    def go_on(self, now: float) -> None:
        """Put in as much more of it as may be sent now. Raises `StompError` for what cannot be sent."""
        if self.hasty:
            self._hurry(now)
        else:
            self._watch(now)

    def _hurry(self, now: float) -> None:
        """Put in as much as one turn has, which waits for no answers."""
        count = self._leave()
        if not self._hasty:
            return
        sender, unconfirmed = self._sender, self._unconfirmed
        while self._subscriptions and count < TURN:
            self._subscribe(self._subscriptions.popleft())
            count += 1
        # What is kept may hold a whole transaction, and another one of its name may be open.
        with self._session.without_transactions():
            while unconfirmed.aside is not None and count < TURN:
                count += sender.repeat(unconfirmed.take_aside())
            sender.close()
        while self._inside and count < TURN:
            sender.repeat_inside(self._inside.popleft()[1])
            count += 1
        self._caution.resent(count, now)
        self._hasty = bool(self._subscriptions or self._inside or unconfirmed.aside)

    def _watch(self, now: float) -> None:
        """Put in as many parts as may await their answers together; leave out those that are to blame."""
        caution = self._caution
        while caution.room:
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

    # Its parts

    def _first(self) -> Part | None:
        """Return the first part that was not sent yet."""
        if self._subscriptions:
            return self._subscriptions[0]
        self._split()
        return self._unconfirmed.aside or (self._inside[0] if self._inside else None)

    def _split(self) -> None:
        """Where one receipt confirms several SENDs that come next, have each confirmed by one of its own."""
        unconfirmed = self._unconfirmed
        kept = unconfirmed.aside
        if kept is None or kept.sends <= 1 or kept.wire.startswith(BEGIN):
            return  # a transaction stays whole
        *others, last = self._offline.read(kept.wire)
        parts = [Kept(frame.wire, unconfirmed.ask(), kept.sent) for frame in others]
        unconfirmed.take_aside()
        unconfirmed.set_aside([*parts, kept._replace(wire=last.wire, sends=1)], first=True)

    def _say(self, part: Part) -> bytes:
        """Put in the first part, which is this one. Returns the receipt that answers it."""
        sender, unconfirmed = self._sender, self._unconfirmed
        unconfirmed.take_latest()
        if isinstance(part, Subscription):
            self._subscriptions.popleft()
            self._subscribe(part)
        elif isinstance(part, Kept):
            unconfirmed.take_aside()
            first = next(self._offline.read(part.wire))
            if first.header(TRANSACTION, self._session.dialect) is not None:
                with self._session.without_transactions():
                    sender.repeat(part)
            else:
                sender.repeat(part)
            sender.close()
        else:
            self._inside.popleft()
            sender.repeat_inside(part[1])
        return unconfirmed.take_latest() or self._check()

    def _check(self) -> bytes:
        """Ask the broker for a receipt that it gives when it has read all before, by an order without effect."""
        receipt = self._unconfirmed.ask()
        headers = [(TRANSACTION, receipt)]
        self._sender.compose(BEGIN, [*headers, (RECEIPT_HEADER, receipt)])
        self._sender.compose(ABORT, headers)
        return receipt

    def _drop(self, part: Part) -> None:
        """Take the first part, which is this one, out of the line for good."""
        dialect = self._session.dialect
        if isinstance(part, Subscription):
            self._subscriptions.popleft()
            command, headers = SUBSCRIBE, part.headers
        else:
            if isinstance(part, Kept):
                self._unconfirmed.take_aside()
                wire = part.wire
            else:
                transaction, wire = part
                transaction.doom("a frame in it cost brokers their connection")
                while self._inside and self._inside[0][0] is transaction:
                    self._inside.popleft()
            first = next(self._offline.read(wire))
            command, headers = first.command, first.headers(dialect)
        names = dict(reversed(headers))
        receipt = names.get(RECEIPT_HEADER)
        if receipt is not None:
            self._unconfirmed.renounce(receipt)
        self._session.counters["poison_refused"] += 1
        name = names.get(DESTINATION, names.get(TRANSACTION, b""))
        self.refused.append(poison(command, name, receipt))

    def _subscribe(self, subscription: Subscription) -> None:
        headers = [
            (name, value)
            for name, value in subscription.headers
            if name != RECEIPT_HEADER or self._unconfirmed.owes(value)
        ]
        if self._named and not subscription.named:
            headers.insert(0, (ID, subscription.id))
        self._sender.compose(SUBSCRIBE, headers)

    @property
    def _named(self) -> bool:
        """Whether the broker has to be told an id of each subscription, also of those that the client gave none."""
        _, bridge = self._sender.connection
        return bridge.judges and bridge.target.named_subscriptions

    def _leave(self) -> int:
        """Unsubscribe as many as one turn has. Returns how many that are."""
        named, count = self._named, 0
        while self._leaving and count < TURN:
            each = self._leaving.popleft()
            count += 1
            header = (ID, each.id) if named or each.named else (DESTINATION, each.destination)
            self._sender.compose(UNSUBSCRIBE, [header])
        return count
