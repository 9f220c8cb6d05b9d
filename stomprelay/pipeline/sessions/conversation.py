"""One session's frames and events in order, and what follows for messages, outages and deliveries that wait.

What the journal does not have stays unknown: a delivery whose SUBSCRIBE was not seen has no mode, and an ACK that
names no known delivery has no effect.

`Conversations` runs in Spark's Python processes. It takes one session after another, from records sorted by session.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

import pyarrow as pa

from stomprelay.pipeline.read.runs import run_of
from stomprelay.pipeline.sessions import record as r
from stomprelay.pipeline.sessions import transfer as s
from stomprelay.pipeline.sessions.deliveries import Consumption
from stomprelay.pipeline.sessions.outages import SessionBrokers, SessionOutage
from stomprelay.pipeline.sessions.publishing import REFUSED, PendingReceipts, Transactions
from stomprelay.pipeline.sessions.waits import Wait
from stomprelay.pipeline.settings import TimeLimits
from stomprelay.pipeline.spark import arrow
from stomprelay.relay.model.move import Mark
from stomprelay.session.effects import Event

_SENT: Final = int(s.RowKind.SENT)
_DELIVERED: Final = int(s.RowKind.DELIVERED)
_NOTHING: Final = (None,) * len(s.FIELDS)
_AFTER_SENT: Final = _NOTHING[s.RECEIPT_NS :]
_BEFORE_DELIVERED: Final = _NOTHING[s.RECEIPT : s.SUBSCRIPTION]
_AFTER_DELIVERED: Final = _NOTHING[s.SETTLED_NS :]


_SCHEMA: Final = arrow.schema(s.FIELDS)


class Conversation:
    """One session. Call `take` with each record in order. `out` has the rows of transfers so far: copy them, then call
    `flush`. `dump` returns the state for the next batch. If a record is older than the previous record, it gets the
    time of the previous record.
    """

    def __init__(self, relay: str, name: str, limits: TimeLimits) -> None:
        self.relay = relay
        self.name = name
        self.out: list[s.Transfer] = []
        self._limits = limits
        self._client: str | None = None
        self._clock = 0
        self._ended: int | None = None
        self._gone = False
        self._whole = False
        self._legs: dict[str, int] = {}
        self._brokers = SessionBrokers()
        self._consumption = Consumption(self._tell, limits.stuck_after)
        self._receipts = PendingReceipts(limits.give_up, limits.linger)
        self._transactions = Transactions(self._tell)

    # What comes

    def take(self, record: r.Record) -> None:
        """Apply the next record, a frame or an event."""
        ns = record[r.NS]
        if ns < self._clock:
            ns = self._clock
        else:
            self._clock = ns
        if record[r.CLIENT]:
            self._client = record[r.CLIENT]
        said = _FRAMES.get(record[r.COMMAND])
        if said is not None:
            leg, number = record[r.BROKER] or "", record[r.NUMBER]
            if number and self._legs.get(leg) != number:
                self._whole = False
            self._legs[leg] = number + 1
            if record[r.RECEIPT] is not None and record[r.COMMAND] in _ASKING:
                self._receipts.ask(record[r.RECEIPT], ns, None)
            said(self, record, ns)
        elif record[r.EVENT] in _EVENTS:
            facts: dict[str, str] = json.loads(record[r.FACTS]) if record[r.FACTS] else {}
            _EVENTS[record[r.EVENT]](self, facts, ns)

    def _tell(self, transfer: s.Transfer) -> None:
        """If the row of this transfer was flushed before, add to `out` a row with what became known since."""
        if transfer[s.KIND] >= s.LATER:
            transfer[s.KIND] -= s.LATER
            self.out.append(transfer)

    def _begun(self, record: r.Record, ns: int, kind: int) -> tuple[Any, ...]:
        """Return the values of a SEND's or MESSAGE's row for the columns from `key` to `size`."""
        destination, size = record[r.DESTINATION], record[r.BODY_SIZE]
        key = s.key_of(record[r.TRACE], record[r.OWN], destination, size, record[r.DIGEST])
        place = record[r.SEGMENT : r.NUMBER + 1]
        return (key, ns, *place, kind, self.relay, self.name, self._client, destination, size)

    # Frames of brokers

    def _message(self, record: r.Record, ns: int) -> None:
        if self._gone or (record[r.COPY] and Mark.parse(record[r.COPY].encode())):
            return  # the client gets no copy of what went to another broker
        transfer: s.Transfer = [
            *self._begun(record, ns, _DELIVERED),
            *_BEFORE_DELIVERED,
            record[r.SUBSCRIPTION],
            None,
            record[r.UPSTREAM],
            record[r.BROKER],
            record[r.MESSAGE_ID],
            None,
            record[r.COPY],
            record[r.REDELIVERED] == "true",
            *_AFTER_DELIVERED,
        ]
        self.out.append(transfer)
        self._consumption.delivered(record, transfer, self._brokers, whole=self._whole)

    def _receipt(self, record: r.Record, ns: int) -> None:
        self._given(record[r.RECEIPT], record[r.BROKER], ns, len(self._brokers.live))

    def _given(self, receipt: str, broker: str | None, ns: int, brokers: int) -> None:
        """Record a RECEIPT. If it confirms a SEND, record the confirmation, too."""
        given = self._receipts.given(receipt, broker, ns, brokers)
        if given is not None:
            self._tell(given)

    def _error(self, record: r.Record, ns: int) -> None:
        if record[r.RECEIPT] is not None:
            self._receipts.refused(record[r.RECEIPT])

    # Frames of clients

    def _send(self, record: r.Record, ns: int) -> None:
        receipt, transaction = record[r.RECEIPT], record[r.TRANSACTION]
        values = (receipt, transaction, record[r.KEPT], *_AFTER_SENT)
        transfer: s.Transfer = [*self._begun(record, ns, _SENT), *values]
        self.out.append(transfer)
        if transaction is not None:
            self._transactions.sent(transaction, transfer)
        if receipt is not None:
            self._receipts.ask(receipt, ns, transfer)

    def _connect(self, record: r.Record, ns: int) -> None:
        self._whole = True

    def _answer(self, record: r.Record, ns: int) -> None:
        self._consumption.answered(record, ns, self._brokers, self._transactions, whole=self._whole)

    def _commit(self, record: r.Record, ns: int) -> None:
        name = record[r.TRANSACTION] or ""
        if self._transactions.commit(name, ns):
            self._consumption.committed(name, ns)
        else:
            self._consumption.aborted(name)

    def _abort(self, record: r.Record, ns: int) -> None:
        self._transactions.abort(record[r.TRANSACTION] or "", ns)
        self._consumption.aborted(record[r.TRANSACTION] or "")

    # What happens

    def _lost(self, facts: dict[str, str], ns: int, *, planned: bool = False) -> None:
        if "broker" in facts:
            loss = self._brokers.left(facts["broker"], facts, self._client, ns, planned=planned)
            self._consumption.lost(loss, ns, self._transactions)

    def _recovered(self, facts: dict[str, str], ns: int) -> None:
        if "lost" in facts:
            # Deliveries that came from the old broker during the move are lost, too.
            loss = self._brokers.recovered(facts["lost"], facts, self._client, ns)
            self._consumption.lost(loss, ns, self._transactions)

    def _erred(self, facts: dict[str, str], ns: int) -> None:
        if facts.get("message", "").startswith(REFUSED):
            self._transactions.refused(ns)

    def _vanished(self, facts: dict[str, str], ns: int) -> None:
        """Record that the client's connection ended. The relay may still deliver what the client sent."""
        self._gone = True
        self._consumption.ended(ns)
        if "delivering" not in facts:
            self._brokers.ended()
            self._transactions.ended(ns)
            self._ended = ns

    def run_ended(self, ns: int) -> bool:
        """Record that the relay's run ended at `ns`. Return whether the session ended with the run."""
        ends = self._ended is None
        if ends:
            self._vanished({}, max(ns, self._clock))
        return ends

    # What is written, and what is kept

    def flush(self) -> None:
        """Forget the rows in `out`, which the caller has copied. What becomes known later gets new rows."""
        self.out = []
        for transfers in (self._receipts, self._transactions, self._consumption):
            for transfer in transfers:
                if transfer[s.KIND] < s.LATER:
                    transfer[s.KIND] = (transfer[s.KIND] | 1) + s.LATER

    def outages(self) -> Iterator[SessionOutage]:
        """Yield the outages that are new or changed since the last call."""
        return self._brokers.told(self.relay, self.name)

    def waits(self, now: int, *, present: bool = True, over: bool = False) -> Iterator[Wait]:
        """Yield a `Wait` for deliveries that waited too long or, at `now` (ns), still wait too long. See
        `Consumption.waits`. Call this method once for each batch. `present`: the run of the relay still writes; `over`:
        no more records of the session will come.
        """
        who = self.relay, self.name, self._client
        return self._consumption.waits(*who, now, present=present, over=over)

    def over(self, now: int) -> bool:
        """Return whether the session ended and waits for no RECEIPT at `now` (ns), the newest time of the run."""
        if self._ended is None:
            return False
        return now > self._ended + self._limits.patience or not self._receipts

    def dump(self, now: int) -> str:
        """Return the state for `load`, as JSON, without what is too old at `now` (ns), the newest time of the run."""
        self._receipts.forget(now)
        consumption = self._consumption.dump(self._brokers, now - self._limits.give_up)
        values = [
            *(self.relay, self._client, self._clock, self._ended, self._gone, self._whole, self._legs),
            *(self._brokers.dump(), consumption, self._receipts.dump()),
            self._transactions.dump(now - self._limits.linger),
        ]
        return arrow.compact(values)

    @classmethod
    def load(cls, name: str, text: str, limits: TimeLimits) -> "Conversation":
        """Return the conversation whose state `dump` returned."""
        values = json.loads(text)
        self = cls(values[0], name, limits)
        _, self._client, self._clock, self._ended, self._gone, self._whole, self._legs, *rest = values
        brokers, consumption, awaited, transactions = rest
        self._brokers = SessionBrokers.load(brokers)
        self._consumption.load(consumption, self._brokers)
        self._receipts.load(awaited)
        self._transactions.load(transactions, {tuple(each[: s.KIND]): each for each in self._receipts})
        return self


_FRAMES: Final[dict[str | None, Callable[[Conversation, r.Record, int], None]]] = {
    "MESSAGE": Conversation._message,
    "RECEIPT": Conversation._receipt,
    "ERROR": Conversation._error,
    "CONNECTED": lambda self, record, ns: self._brokers.connected(record[r.BROKER] or ""),
    "SEND": Conversation._send,
    "ACK": Conversation._answer,
    "NACK": Conversation._answer,
    "CONNECT": Conversation._connect,
    "STOMP": Conversation._connect,
    "SUBSCRIBE": lambda self, record, ns: self._consumption.subscribe(record, ns),
    "UNSUBSCRIBE": lambda self, record, ns: self._consumption.unsubscribe(record),
    "BEGIN": lambda self, record, ns: self._transactions.begin(record[r.TRANSACTION] or ""),
    "COMMIT": Conversation._commit,
    "ABORT": Conversation._abort,
    # The session ends when its connection ends.
    "DISCONNECT": lambda self, record, ns: None,
}
_ASKING: Final = frozenset(
    {"SUBSCRIBE", "UNSUBSCRIBE", "ACK", "NACK", "BEGIN", "COMMIT", "ABORT", "DISCONNECT"}
)
"""The commands, besides SEND, that may ask for a receipt."""
_EVENTS: Final[dict[str | None, Callable[[Conversation, dict[str, str], int], None]]] = {
    Event.LOST.value: Conversation._lost,
    Event.MOVED.value: partial(Conversation._lost, planned=True),
    Event.RECOVERED.value: Conversation._recovered,
    # The relay gave the receipt itself, in place of a broker.
    Event.ANSWERED.value: lambda self, facts, ns: self._given(facts.get("receipt", ""), None, ns, 1),
    Event.ERROR.value: Conversation._erred,
    Event.VANISHED.value: Conversation._vanished,
    Event.DISCONNECTED.value: Conversation._vanished,
}
EVENTS: Final = frozenset(event for event in _EVENTS if event is not None)
"""The events that a `Conversation` uses."""


class SessionRow(IntEnum):
    """The `kind` of a row of `transfer.FIELDS` that is no transfer. `text` has JSON, `key` is the session."""

    STATE = 20
    """The state of the conversation, for the next batch."""
    OUTAGE = 21
    WAIT = 22
    ORDER = 23
    """The state of a `SendOrder`, for the next batch. The `key` is the key of the order, not a session."""


@dataclass(frozen=True)
class Conversations:
    """Call it with rows of `record.FIELDS` sorted by `record.SORTED`. The state of a session from the last batch comes
    before the session's records. It yields transfers, and rows of `SessionRow`.

    The times are in ns, and the dictionaries have them by the name of the run. `newest`: the time up to which a run was
    read. `gone`: the same time for a run that was forgotten in this batch. `ended`: when a run ended. `present`: the
    runs that still write.
    """

    limits: TimeLimits
    newest: dict[str, int]
    present: frozenset[str]
    gone: dict[str, int] = field(default_factory=dict)
    ended: dict[str, int] = field(default_factory=dict)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Take batches of records and yield batches of `transfer.FIELDS`, as `mapInArrow` requires."""
        with arrow.uncollected():
            sessions = groupby(arrow.rows(batches), itemgetter(r.SESSION))
            rows = (row for name, records in sessions for row in self._followed(name, records))
            for some in arrow.chunks(rows):
                yield arrow.batch(some, _SCHEMA)

    def _followed(self, name: str, records: Iterator[r.Record]) -> Iterator[s.Transfer]:
        """Yield the rows of one session, from its records in this batch and its state from the last batch."""
        first = next(records)
        text: str | None = None
        if first[r.TURN] == r.SAID:
            text = str(first[r.TEXT])
            run, state = text.split("\n", 1)
            conversation = Conversation.load(name, state, self.limits)
        else:
            run = run_of(first[r.SEGMENT])
            conversation = Conversation(first[r.RELAY], name, self.limits)
            conversation.take(first)
        changed = text is None
        for record in records:
            changed = True
            conversation.take(record)
            if len(conversation.out) >= arrow.ROWS:
                yield from map(list, conversation.out)
                conversation.flush()
        if run in self.ended:
            changed = conversation.run_ended(self.ended[run]) or changed
        yield from conversation.out
        for outage in conversation.outages():
            yield s.saying(SessionRow.OUTAGE, name, json.dumps(outage))
        now = self.newest.get(run)
        over = now is None or conversation.over(now)
        until = self.gone.get(run, 0) if now is None else now
        for wait in conversation.waits(until, present=run in self.present, over=over):
            yield s.saying(SessionRow.WAIT, name, json.dumps(wait))
        if now is not None and not over:
            same = None if changed else text
            yield s.saying(SessionRow.STATE, name, same or f"{run}\n{conversation.dump(now)}")
