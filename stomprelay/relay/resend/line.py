"""All that a new broker has to know, in order: subscriptions, what was not confirmed, open transactions. It goes out by
turns, or a few parts at a time: see `caution`.
"""

from collections import deque
from itertools import islice

from stomprelay.relay.forward import TURN
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


class Line:
    """What a broker has to be sent before the client's next frame; a `sender` writes it.

    Call `begin`, then `go_on` until it is `done`. `refused`: frames that were taken out, as errors for the client.
    `hurries`: it waits for no answers.
    """

    __slots__ = (
        "_caution",
        "_hurries",
        "_inside",
        "_leaving",
        "_offline",
        "_refused",
        "_sender",
        "_session",
        "_subscriptions",
        "_unconfirmed",
    )

    def __init__(
        self,
        session: Session,
        offline: Offline,
        sender: Sender,
        caution: Caution,
        refused: list[Refused],
        *,
        hurries: bool,
    ) -> None:
        self._session = session
        self._offline = offline
        self._unconfirmed = offline.unconfirmed
        self._sender = sender
        self._caution = caution
        self._refused = refused
        self._hurries = hurries
        self._leaving: deque[Subscription] = deque()
        self._subscriptions: deque[Subscription] = deque()
        self._inside: deque[tuple[Transaction, bytes]] = deque()

    @property
    def done(self) -> bool:
        """Whether the broker has all of it, so that the client's next frame may follow."""
        return not (self._hurries or self._leaving or self._caution.window)

    @property
    def hasty(self) -> bool:
        """Whether it is only too long for one turn."""
        return self._hurries or bool(self._leaving)

    def begin(self, now: float, *, subscriptions: bool) -> None:
        """Put all of it into the line, with or without the subscriptions."""
        session, unconfirmed, caution = self._session, self._unconfirmed, self._caution
        if subscriptions:
            self._subscriptions.extend(session.subscriptions)
        for transaction in session.transactions.values():
            self._inside.extend([(transaction, wire) for wire in transaction.frames])
        taken = unconfirmed.take()
        if taken:
            unconfirmed.set_aside(taken)
            session.counters["frames_resent"] += sum(kept.sends for kept in taken if kept.sent)
        if caution.window == 1 and self._first() is not None:
            caution.sent(self._check(), None, now)

    def unsubscribe(self, *, subscribed: bool) -> None:
        """Put in (or begin) UNSUBSCRIBEs for all. `subscribed`: the broker was sent the subscriptions."""
        sent = len(self._session.subscriptions) - len(self._subscriptions)
        self._subscriptions.clear()
        if subscribed:
            self._leaving.extend(islice(self._session.subscriptions, sent))
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
        if not self._hurries:
            return
        sender, unconfirmed = self._sender, self._unconfirmed
        while self._subscriptions and count < TURN:
            self._subscribe(self._subscriptions.popleft())
            count += 1
        # What is kept may hold a whole transaction, and another one of its name may be open.
        kept = unconfirmed.aside is not None
        if kept:
            with self._session.without_transactions():
                while unconfirmed.aside is not None and count < TURN:
                    count += sender.repeat(unconfirmed.take_aside())
                sender.close()
        while self._inside and count < TURN:
            sender.repeat_inside(self._inside.popleft()[1])
            count += 1
        self._caution.resent(count, now)
        self._hurries = bool(self._subscriptions or self._inside or unconfirmed.aside)

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
        self._refused.append(poison(command, name, receipt))

    def _subscribe(self, subscription: Subscription) -> None:
        headers = [
            (name, value)
            for name, value in subscription.headers
            if name != RECEIPT_HEADER or self._unconfirmed.owes(value)
        ]
        if self._sender.names_subscriptions and not subscription.named:
            headers.insert(0, (ID, subscription.id))
        self._sender.compose(SUBSCRIBE, headers)

    def _leave(self) -> int:
        """Unsubscribe as many as one turn has. Returns how many that are."""
        if not self._leaving:
            return 0
        named, count = self._sender.names_subscriptions, 0
        while self._leaving and count < TURN:
            each = self._leaving.popleft()
            count += 1
            header = (ID, each.id) if named or each.named else (DESTINATION, each.destination)
            self._sender.compose(UNSUBSCRIBE, [header])
        return count
