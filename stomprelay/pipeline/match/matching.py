"""Transfers of one key, the messages to which they belong, and the rows of these messages.

All times are those of the journal. A record counts for a message only up to the time `MatchedMessage.until`, no matter
when the record is read. So the result does not depend on how the journal was cut into batches. `until` is the time up
to which all relays have been read. Records after `until` change only the open rows of this batch, and are applied
again in the next batch.

`Matchings` runs in Spark's Python processes. It takes one key after another, from rows sorted by key.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

import pyarrow as pa

from stomprelay.pipeline.schema import (
    ABORTED,
    ACKED,
    DELIVERED,
    MESSAGES,
    NACKED,
    RETURNED,
    UNCONFIRMED,
    UNDELIVERED,
)
from stomprelay.pipeline.sessions import transfer as s
from stomprelay.pipeline.sessions.conversation import SessionRow
from stomprelay.pipeline.sessions.transfer import is_topic
from stomprelay.pipeline.settings import TimeLimits
from stomprelay.pipeline.spark import arrow

_SENT, _ENDED, _DELIVERED, _SETTLED, _CONFIRMED = range(5)
"""What can happen to a message. Things that happen at the same time are applied in this order."""

_Happening = tuple[int, int, str, int, int, Any]
"""Time (ns), a number from the line above, the place of the SEND or MESSAGE (segment, position, number), a value."""


_FURTHER: Final = (
    ("what", "int"),
    ("hour", "string"),
    ("text", "string"),
    ("match", "string"),
    ("turn", "int"),
    ("due", "bigint"),
)
_NAMED: Final = (*((column.name, column.kind) for column in MESSAGES.columns), *_FURTHER)
DDL: Final = ", ".join(f"`{name}` {kind}" for name, kind in _NAMED)
"""Columns of the rows that `Matchings` yields: the columns of `messages`, then six more. `what` is the kind of the
row, `hour` the name of its hour, `text` the state, `match` the key of the transfers, `turn` the number of the row
among the rows of this key. `due` is the time (ns) after which the row must be read again.
"""


@dataclass(slots=True, eq=False)
class MatchedMessage:
    """One message. `sent` is the SEND, None if it was not seen; `deliveries` are the MESSAGEs in order. `first` and
    `last` are the times (ns) of the first and last record. `ends` has the last delivery to each recipient. `_open`
    counts the deliveries without an outcome, `_bad` the returned deliveries in `ends`.
    """

    first: int
    topic: bool = field(kw_only=True)
    last: int = 0
    sent: s.Transfer | None = None
    deliveries: list[s.Transfer] = field(default_factory=list)
    aborted: bool = False
    ends: dict[tuple[Any, ...], s.Transfer] = field(default_factory=dict)
    _open: int = 0
    _bad: int = 0

    def __post_init__(self) -> None:
        self.last = self.first

    def was_delivered(self, transfer: s.Transfer, ns: int) -> s.Transfer | None:
        """Record a MESSAGE. Return the previous delivery to the same recipient, or None."""
        self.deliveries.append(transfer)
        self.last = max(self.last, ns)
        to = self.recipient(transfer)
        before = self.ends.get(to)
        if before is not None and before[s.OUTCOME] == RETURNED:
            self._bad -= 1
        self.ends[to] = transfer
        if transfer[s.OUTCOME] is None:
            self._open += 1
        elif transfer[s.OUTCOME] == RETURNED:
            self._bad += 1
        return before

    def was_settled(self, delivery: s.Transfer, ns: int, settled: int | None, outcome: str) -> None:
        """Set a delivery's outcome if it has none. The outcome was reported at `settled` and took effect at `ns`."""
        self.last = max(self.last, ns)
        if delivery[s.OUTCOME] is not None:
            return
        delivery[s.SETTLED_NS], delivery[s.KNOWN_NS], delivery[s.OUTCOME] = settled, ns, outcome
        self._open -= 1
        if outcome == RETURNED and self.ends[self.recipient(delivery)] is delivery:
            self._bad += 1

    def recipient(self, delivery: s.Transfer) -> tuple[Any, ...]:
        """Return the recipient of a delivery as a key of `ends`: (client, subscription) for a topic, () for a queue."""
        return (delivery[s.CLIENT], delivery[s.SUBSCRIPTION]) if self.topic else ()

    # What is known

    @property
    def _unconfirmed(self) -> bool:
        sent = self.sent
        return sent is not None and sent[s.RECEIPT] is not None and sent[s.RECEIPT_NS] is None

    @property
    def settled(self) -> bool:
        """Return whether every expected RECEIPT, ACK and redelivery has come. A message without deliveries is settled
        only if it was aborted.
        """
        if self._unconfirmed and not self.aborted:
            return False
        return not self._open and not self._bad if self.deliveries else self.aborted

    def until(self, limits: TimeLimits) -> int:
        """Return the time in ns after which the message is final."""
        if not self.settled:
            return self.last + limits.give_up
        if self.sent is None:
            return max(self.last + limits.linger, self.first + limits.patience)
        return self.last + limits.linger

    @property
    def outcome(self) -> str:
        """Return the worst outcome of all recipients; from worst to best: `delivered`, `returned`, `nacked`, `acked`.
        Without deliveries, return `aborted`, `unconfirmed` or `undelivered`.
        """
        if not self.deliveries:
            if self.aborted:
                return ABORTED
            return UNCONFIRMED if self._unconfirmed else UNDELIVERED
        outcomes = {each[s.OUTCOME] for each in self.ends.values()}
        if None in outcomes:
            return DELIVERED
        return next(each for each in (RETURNED, NACKED, ACKED) if each in outcomes)

    @property
    def redelivered(self) -> int:
        """Return how many deliveries are repetitions: either the same subscription had got the message before, or the
        same recipient had nacked or returned it.
        """
        seen: set[tuple[Any, ...]] = set()
        returned: set[tuple[Any, ...]] = set()
        count = 0
        for each in self.deliveries:
            subscription, to = (each[s.SESSION], each[s.SUBSCRIPTION]), self.recipient(each)
            count += subscription in seen or to in returned
            seen.add(subscription)
            if each[s.OUTCOME] in (NACKED, RETURNED):
                returned.add(to)
        return count

    def row(self, key: str, method: str, *, final: bool) -> list[Any]:
        """Return the values of the message's row of `MESSAGES`. Times are in ns, durations in µs, `headers` is JSON."""
        sent, deliveries = self.sent, self.deliveries
        begun = deliveries[0] if sent is None else sent
        ns = begun[s.NS]
        relay, destination, size = begun[s.RELAY], begun[s.DESTINATION], begun[s.SIZE]
        producer = session = sent_ns = receipt = transaction = headers = receipt_us = delivery_us = ack_us = (
            None
        )
        if sent is not None:
            producer, session, sent_ns = sent[s.CLIENT], sent[s.SESSION], ns
            receipt, transaction, headers = sent[s.RECEIPT], sent[s.TRANSACTION], sent[s.HEADERS]
            if sent[s.RECEIPT_NS] is not None:
                receipt_us = max(sent[s.RECEIPT_NS] - ns, 0) // 1000
            if deliveries:
                delivery_us = max(min(each[s.NS] for each in deliveries) - ns, 0) // 1000
        for each in deliveries:
            if each[s.OUTCOME] == ACKED and each[s.MODE] is not None and each[s.MODE] != s.AUTO:
                ack_us = (each[s.SETTLED_NS] - each[s.NS]) // 1000
                break
        found = len(deliveries) > (sent is None)
        return [
            *(ns, relay, destination, producer, session, sent_ns, size, receipt, transaction, headers),
            *(s.carried(key), method if found else None, self.outcome, [_told(each) for each in deliveries]),
            *(self.redelivered if len(deliveries) > 1 else 0, receipt_us, delivery_us, ack_us, final),
            *(begun[s.SEGMENT], begun[s.POSITION], begun[s.NUMBER]),
        ]

    # From batch to batch

    def dump(self) -> list[Any]:
        """Return the state for `load`, as a list that JSON can hold."""
        return [
            None if self.sent is None else self.sent[1:],
            [each[1:] for each in self.deliveries],
            *(None, self.aborted, self.topic, self.first, self.last),
        ]

    @classmethod
    def load(cls, key: str, values: list[Any]) -> "MatchedMessage":
        """Return the message whose state `dump` returned. The state does not include `key`."""
        sent, deliveries, _, aborted, topic, first, last = values
        message = cls(first, topic=topic)
        message.aborted = aborted
        if sent is not None:
            message.sent = [key, *sent]
        for each in deliveries:
            message.was_delivered([key, *each], last)
        message.last = last
        return message


def _told(delivery: s.Transfer) -> tuple[Any, ...]:
    """Return a delivery as an element of the column `deliveries`; times are in ns."""
    return (
        delivery[s.NS],
        delivery[s.CLIENT],
        delivery[s.SESSION],
        delivery[s.SUBSCRIPTION],
        delivery[s.UPSTREAM],
        delivery[s.BROKER],
        delivery[s.MESSAGE_ID],
        delivery[s.MODE],
        delivery[s.SETTLED_NS],
        delivery[s.OUTCOME] or DELIVERED,
    )


class TransferMatching:
    """Matches the transfers of one key to messages. First call `saw` with each row of the key, beginning with the rows
    that the last batch kept. Then call `go` once, and `open` last. `go` sets `finals`, `kept`, `due` and `repeats`.
    `finals` has the final rows. `kept` has the state for the next batch, as texts in order. `due` is the time (ns) up
    to which this state is valid if no new row comes. `repeats` has the repeated deliveries (session, broker, time, time
    of the repetition).
    """

    def __init__(self, key: str, limits: TimeLimits) -> None:
        self._key = key
        self._limits = limits
        self._method = {s.BY_TRACE: "trace", s.BY_ID: "id"}.get(key[0], "order")
        self._messages: list[MatchedMessage] = []
        self._sent: dict[tuple[str, int, int], MatchedMessage] = {}
        self._deliveries: dict[tuple[str, int, int], tuple[MatchedMessage, s.Transfer]] = {}
        self._happenings: list[_Happening] = []
        self.kept: list[str] = []
        self.due = 0
        self.finals: list[list[Any]] = []
        self.repeats: list[tuple[str, str | None, int, int]] = []

    # What is seen

    def saw(self, row: s.Transfer) -> None:
        """Add one row of `transfer.FIELDS`. The row is changed here, so the caller must not use it again."""
        kind = row[s.KIND]
        if kind == s.RowKind.KEPT:
            self._keep(row[s.TEXT])
            return
        _, ns, *place = row[: s.KIND]
        happenings = self._happenings
        if kind <= s.RowKind.SENT_MORE:
            receipt, ended = row[s.RECEIPT_NS], row[s.ENDED_NS]
            if kind == s.RowKind.SENT:
                row[s.RECEIPT_NS] = row[s.ENDED_NS] = None
                happenings.append((ns, _SENT, *place, row))
            if ended is not None:
                happenings.append((ended, _ENDED, *place, bool(row[s.ABORTED])))
            if receipt is not None:
                happenings.append((receipt, _CONFIRMED, *place, None))
            return
        known, settled, outcome = row[s.KNOWN_NS], row[s.SETTLED_NS], row[s.OUTCOME]
        if kind == s.RowKind.DELIVERED:
            if known == ns:
                happenings.append((ns, _DELIVERED, *place, row))
                return
            row[s.KNOWN_NS] = row[s.SETTLED_NS] = row[s.OUTCOME] = None
            happenings.append((ns, _DELIVERED, *place, row))
        if known is not None:
            happenings.append((known, _SETTLED, *place, (settled, outcome)))

    def _keep(self, text: str) -> None:
        what, value = json.loads(text)
        if what == "message":
            message = MatchedMessage.load(self._key, value)
            self._messages.append(message)
            if message.sent is not None:
                self._sent[_place(message.sent)] = message
            for delivery in message.deliveries:
                self._deliveries[_place(delivery)] = message, delivery
        else:
            ns, happened, segment, position, number, rest = value
            self._happenings.append((ns, happened, segment, position, number, rest))

    # What follows

    def go(self, until: int) -> None:
        """Apply all rows that `saw` added. Call it once. Records after `until` (ns) change only what `open` yields."""
        happenings = self._happenings
        if len(happenings) > 1:
            happenings.sort(key=lambda each: each[:5])
        at = 0
        for happening in happenings:
            if happening[0] > until:
                break
            self._happened(happening)
            at += 1
        ahead = happenings[at:]
        self._sweep(until)
        self._dump(ahead)
        repeats, self.repeats = self.repeats, []
        for happening in ahead:
            self._happened(happening)
        self.repeats = repeats

    def _sweep(self, until: int) -> None:
        """Add the rows of messages that no later record can change to `finals`, and forget these messages."""
        left = []
        for message in self._messages:
            if until > message.until(self._limits):
                self.finals.append(message.row(self._key, self._method, final=True))
                if message.sent is not None:
                    del self._sent[_place(message.sent)]
                for delivery in message.deliveries:
                    del self._deliveries[_place(delivery)]
            else:
                left.append(message)
        self._messages = left

    def _dump(self, ahead: list[_Happening]) -> None:
        """Set `kept` and `due`. `ahead` are the happenings after `until`."""
        if not ahead:
            self.due = min((each.until(self._limits) for each in self._messages), default=0)
        kept = [["message", each.dump()] for each in self._messages]
        if self._key[0] == s.BY_TRACE:
            kept += [["ahead", happening] for happening in ahead]
        self.kept = [arrow.compact(each) for each in kept]

    def open(self) -> Iterator[list[Any]]:
        """Yield rows of `messages` for messages that are not final, with times in ns."""
        for message in self._messages:
            yield message.row(self._key, self._method, final=False)

    # What happened

    def _happened(self, happening: _Happening) -> None:
        ns, what, segment, position, number, rest = happening
        place = (segment, position, number)
        if what == _SENT:
            self._was_sent(ns, place, rest)
        elif what == _DELIVERED:
            self._was_delivered(ns, place, rest)
        elif what == _SETTLED:
            found = self._deliveries.get(place)
            if found is not None and ns <= found[0].until(self._limits):
                found[0].was_settled(found[1], ns, *rest)
        else:
            message = self._sent.get(place)
            if message is None or ns > message.until(self._limits):
                return
            message.last = max(message.last, ns)
            if what == _CONFIRMED and message.sent is not None:
                message.sent[s.RECEIPT_NS] = ns
            elif what == _ENDED and rest:
                message.aborted = True

    def _was_sent(self, ns: int, place: tuple[str, int, int], transfer: s.Transfer) -> None:
        unsent = (each for each in self._messages if each.sent is None and ns <= each.until(self._limits))
        message = next(unsent, None)
        if message is None:
            message = MatchedMessage(ns, topic=is_topic(transfer))
            self._messages.append(message)
        message.sent, message.last = transfer, max(message.last, ns)
        self._sent[place] = message

    def _was_delivered(self, ns: int, place: tuple[str, int, int], transfer: s.Transfer) -> None:
        present = (each for each in reversed(self._messages) if ns <= each.until(self._limits))
        message = next(present, None)
        if message is None:
            message = MatchedMessage(ns, topic=is_topic(transfer))
            self._messages.append(message)
        before = message.was_delivered(transfer, ns)
        self._deliveries[place] = message, transfer
        if before is not None:
            self.repeats.append((before[s.SESSION], before[s.BROKER], before[s.NS], ns))


def _place(transfer: s.Transfer) -> tuple[str, int, int]:
    segment, position, number = transfer[s.POSITION - 1 : s.KIND]
    return segment, position, number


class MatchRow(IntEnum):
    """The kinds of the rows that `Matchings` yields: the values of the column `what`."""

    FINAL = 0
    OPEN = 1
    KEPT = 2
    """A row without a message; `text` is state for the next batch."""
    REPEAT = 3
    """A delivery that was repeated: `text` is a JSON list of the four values in `TransferMatching.repeats`."""
    FILE = 4
    """A file with final rows of an `hour`; `text` is the path of the file."""


SCHEMA: Final = arrow.schema(_NAMED)
"""The columns of `DDL`, as an Arrow schema."""
COLUMNS: Final = pa.schema([SCHEMA.field(name) for name in MESSAGES.names])
"""The columns of `messages` alone, as an Arrow schema."""
UNLIKE: Final = frozenset(
    {
        *(
            "seen_at",
            "sent_at",
            "receipt",
            "key",
            "receipt_us",
            "delivery_us",
            "ack_us",
            "position",
            "number",
        ),
        *(f"deliveries.list.element.{name}" for name in ("seen_at", "message_id", "settled_at")),
        *("text", "match", "turn", "due"),
    }
)
"""The columns of files whose values hardly repeat; see `NewFile`."""
NAMES: Final = SCHEMA.names
"""The columns of `DDL`."""
_WIDTH: Final = len(NAMES)
_HEADERS_AT, _DELIVERIES_AT = NAMES.index("headers"), NAMES.index("deliveries")
DELIVERIES: Final = SCHEMA.field("deliveries").type
_DELIVERY: Final = tuple(DELIVERIES.value_type)
_TIMES: Final = frozenset(at for at, field in enumerate(SCHEMA) if field.type == arrow.MICROSECONDS)
_WHAT, _HOUR, _TEXT, _MATCH, _TURN, _DUE = (NAMES.index(name) for name, _ in _FURTHER)


@dataclass(frozen=True)
class Matchings:
    """Call it with rows of `transfer.FIELDS` sorted by `transfer.SORTED`. The rows that the last batch kept must be
    among these rows. It yields rows of `DDL`. `until` is the time in ns up to which all relays have been read.
    """

    limits: TimeLimits
    until: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Take batches of `transfer.FIELDS` and yield batches of `DDL`, as `mapInArrow` requires."""
        with arrow.uncollected():
            keys = groupby(arrow.rows(batches), itemgetter(s.KEY))
            rows = (row for key, transfers in keys for row in self._matched(key, transfers))
            for some in arrow.chunks(rows):
                yield rows_of(some)

    def _matched(self, key: str, transfers: Iterator[tuple[Any, ...]]) -> Iterator[list[Any]]:
        """Yield the rows of `DDL` for the rows of one key. A row that is no transfer keeps its kind, text and key."""
        matching = TransferMatching(key, self.limits)
        for transfer in transfers:
            if transfer[s.KIND] >= SessionRow.STATE:
                yield other(transfer[s.KIND], transfer[s.TEXT], key)
            else:
                matching.saw([*transfer])
        matching.go(self.until)
        for row in matching.finals:
            yield [*row, int(MatchRow.FINAL), arrow.hour(row[0]), None, None, None, None]
        for repeat in matching.repeats:
            yield other(MatchRow.REPEAT, json.dumps(repeat))
        kept, turn = matching.kept, -1
        for turn, row in enumerate(matching.open()):
            text = kept[turn] if turn < len(kept) else None
            yield [*row, int(MatchRow.OPEN), arrow.hour(row[0]), text, key, turn, matching.due]
        for number in range(turn + 1, len(kept)):
            yield other(MatchRow.KEPT, kept[number], key, number)


def other(
    what: int, text: str, key: str | None = None, turn: int = 0, *, hour: str | None = None
) -> list[Any]:
    """Return a row of `DDL` that is no message. Only these columns are set, and `due` is 0."""
    row: list[Any] = [None] * _WIDTH
    row[_WHAT], row[_TEXT], row[_MATCH], row[_TURN], row[_DUE] = int(what), text, key, turn, 0
    row[_HOUR] = hour
    return row


def rows_of(rows: list[list[Any]]) -> pa.RecordBatch:
    """Return rows of `DDL` as one Arrow batch. In `rows`, times are ns, headers are JSON, deliveries are tuples."""
    arrays = []
    for at, values in enumerate(zip(*rows, strict=True)):
        if at == _DELIVERIES_AT:
            arrays.append(_deliveries(values))
        elif at == _HEADERS_AT:
            headers = [each and [*json.loads(each).items()] for each in values]
            arrays.append(pa.array(headers, arrow.MAP))
        elif at in _TIMES:
            arrays.append(arrow.times(values))
        else:
            arrays.append(pa.array(values, SCHEMA.field(at).type))
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def _deliveries(lists: Any) -> pa.Array:
    ends = [0]
    every: list[tuple[Any, ...]] = []
    for each in lists:
        every += each or ()
        ends.append(len(every))
    columns = zip(*every, strict=True) if every else ((),) * len(_DELIVERY)
    arrays = [
        arrow.times(values) if field.type == arrow.MICROSECONDS else pa.array(values, field.type)
        for values, field in zip(columns, _DELIVERY, strict=True)
    ]
    structs = pa.StructArray.from_arrays(arrays, fields=list(_DELIVERY))
    return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), structs, type=DELIVERIES)
