"""Finds the SEND of each MESSAGE by the order of sending, for messages whose headers do not identify the SEND.

Messages of one order look alike: they have the same destination and, as far as is known, the same body. The message
that was sent first is delivered first; on a topic this holds for each subscriber. A broker's message-id, `redelivered`
and the relay's `relay-copy` show that a message was delivered before.

A `SendOrder` keeps only what is needed to find the SENDs. Each SEND has a number. Messages that only wait are kept as
runs of numbers (`UndeliveredRuns`), so that any number of messages takes little memory. Messages that were delivered,
or that need more than a number, are kept one by one (`Flight`). `JournalOrders` runs in Spark's Python processes, key
by key. The rows that it yields have keys of single messages, so that many tasks can share the messages of one queue
afterwards.
"""

import json
from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any, Final

import pyarrow as pa

from stomprelay.pipeline.schema import NACKED, RETURNED
from stomprelay.pipeline.sessions import transfer as s
from stomprelay.pipeline.sessions.conversation import SessionRow
from stomprelay.pipeline.sessions.transfer import is_topic
from stomprelay.pipeline.settings import TimeLimits
from stomprelay.pipeline.spark import arrow

COPIED: Final = "\0"
"""This is used in place of a broker in `Flight.names`, if the name is a `relay-copy`."""

Place = tuple[str, int, int]
Subscriber = tuple[str | None, str | None]
TIMES: Final = 4096
"""The exact times of so many last SENDs to a topic are kept, to know which message a new subscription gets first."""
_ENDED, _DELIVERED, _SETTLED, _CONFIRMED = range(1, 5)
"""What can happen to a message. If the time is the same, a SEND (0) is applied first, then these kinds in order."""


@dataclass(slots=True, eq=False)
class Flight:
    """A message that is kept by itself, not in a run. `number` is the place of the message in the order. It is None
    while no broker can deliver the message, and if the SEND was not seen. `turn` counts the deliveries. `ends` has for
    each recipient the turn of the last delivery, and `nacked` or `returned` if the broker has the message again, else
    None. `waiting` has the deliveries without an outcome, by place. `names` has the message-ids, each with the broker,
    and the `relay-copy`. `adopted` is the place of a SEND that was found after the first delivery. `first` and `last`
    are the times (ns) of the first and last record.
    """

    name: str
    first: int
    topic: bool = field(kw_only=True)
    sent: bool = field(kw_only=True)
    last: int = 0
    number: int | None = None
    unconfirmed: bool = False
    aborted: bool = False
    turn: int = 0
    session: str | None = None
    relay: str | None = None
    adopted: Place | None = None
    ends: dict[Subscriber | None, tuple[int, str | None]] = field(default_factory=dict)
    waiting: dict[Place, tuple[Subscriber | None, int]] = field(default_factory=dict)
    names: list[tuple[str | None, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.last = self.first

    def until(self, limits: TimeLimits) -> int:
        """Return the time in ns up to which a record still counts for this message."""
        unconfirmed = self.unconfirmed and not self.aborted
        missing = any(back == RETURNED for _, back in self.ends.values()) if self.turn else not self.aborted
        if unconfirmed or self.waiting or missing:
            return self.last + limits.give_up
        if self.sent:
            return self.last + limits.linger
        return max(self.last + limits.linger, self.first + limits.patience)

    def was_delivered(self, row: Sequence[Any], ns: int, place: Place) -> Subscriber | None:
        """Record a MESSAGE at `ns`. Return the recipient of the MESSAGE."""
        to = recipient(row, topic=self.topic)
        self.turn += 1
        self.last = max(self.last, ns)
        self.session = row[s.SESSION]
        if not self.sent:
            self.relay = self.relay or row[s.RELAY]
        settled = row[s.KNOWN_NS] == ns
        self.ends[to] = self.turn, _back(row[s.OUTCOME]) if settled else None
        if not settled:
            self.waiting[place] = to, self.turn
        if row[s.MESSAGE_ID] is not None:
            self.names.append((row[s.BROKER], row[s.MESSAGE_ID]))
        if row[s.COPY] is not None:
            self.names.append((COPIED, row[s.COPY]))
        return to

    def was_settled(self, ns: int, place: Place, outcome: str | None) -> Subscriber | None:
        """Record the outcome, at `ns`, of the delivery at this place. Return the recipient of the delivery."""
        self.last = max(self.last, ns)
        to, turn = self.waiting.pop(place)
        if self.ends[to][0] == turn:
            self.ends[to] = turn, _back(outcome)
        return to

    def dump(self) -> list[Any]:
        """Return the state for `load`, as a list that JSON can hold."""
        flags = self.sent | self.topic << 1 | self.unconfirmed << 2 | self.aborted << 3
        waiting = [[*place, to, turn] for place, (to, turn) in self.waiting.items()]
        return [
            *(flags, self.name, self.number, self.first, self.last, self.turn, self.session, self.relay),
            *(self.adopted, [*self.ends.items()], waiting, self.names),
        ]

    @classmethod
    def load(cls, values: list[Any]) -> "Flight":
        """Return the message whose state `dump` returned."""
        flags, name, number, first, last, turn, session, relay, adopted, ends, waiting, names = values
        self = cls(name, first, topic=bool(flags & 2), sent=bool(flags & 1))
        self.unconfirmed, self.aborted = bool(flags & 4), bool(flags & 8)
        self.number, self.last, self.turn, self.session, self.relay = number, last, turn, session, relay
        self.adopted = None if adopted is None else (adopted[0], adopted[1], adopted[2])
        # State of earlier releases has true or false here, and a flag for nacked messages.
        nacked = NACKED if flags & 16 else None
        said = {True: RETURNED, False: nacked}
        self.ends = {subscriber(who): (at, said.get(back, back)) for who, (at, back) in ends}
        self.waiting = {(each[0], each[1], each[2]): (subscriber(each[3]), each[4]) for each in waiting}
        self.names = [(broker, text) for broker, text in names]
        return self


def recipient(row: Sequence[Any], *, topic: bool) -> Subscriber | None:
    """Return the recipient of a MESSAGE: client and subscription for a topic, None for a queue."""
    return (row[s.CLIENT], row[s.SUBSCRIPTION]) if topic else None


def _back(outcome: str | None) -> str | None:
    return outcome if outcome in (NACKED, RETURNED) else None


def subscriber(values: list[str | None] | None) -> Subscriber | None:
    """Return the recipient that these values from JSON stand for."""
    return None if values is None else (values[0], values[1])


class UndeliveredRuns:
    """Undelivered messages in order, in runs `[since, number, count, ahead]`. A run has `count` messages with the
    numbers from `number` on, which are available from about `since` (ns) on. The name of a message is its number plus
    `ahead`.
    """

    def __init__(self, give_up: int, runs: Iterable[list[int]] = ()) -> None:
        self._give_up = give_up
        self._grain = max(give_up // 256, 1)  # messages are counted and given up by slices of time
        self.runs = deque(runs)

    def add(self, number: int, name: int, ns: int) -> None:
        """Add a message with this number and name, which is available from `ns` on."""
        since, ahead = ns - ns % self._grain, name - number
        if self.runs:
            last = self.runs[-1]
            if last[0] == since and last[1] + last[2] == number and last[3] == ahead:
                last[2] += 1
                return
        self.runs.append([since, number, 1, ahead])

    def take(self, ns: int) -> tuple[int, int] | None:
        """Remove the first message that is not given up at `ns`. Return its number and name, or None."""
        self.expire(ns)
        if not self.runs:
            return None
        run = self.runs[0]
        number = run[1]
        run[1] += 1
        run[2] -= 1
        if not run[2]:
            self.runs.popleft()
        return number, number + run[3]

    def pick(self, number: int) -> tuple[int, int] | None:
        """Remove the message of this number, even if it is given up. Return its number and name, or None."""
        for at in range(len(self.runs) - 1, -1, -1):
            since, first, count, ahead = self.runs[at]
            if first <= number:
                if number >= first + count:
                    return None
                behind = [since, number + 1, first + count - number - 1, ahead]
                if behind[2]:
                    self.runs.insert(at + 1, behind)
                self.runs[at][2] = number - first
                if number == first:
                    del self.runs[at]
                return number, number + ahead
        return None

    def from_number(self, number: int, ns: int) -> int | None:
        """Return the lowest number from `number` on whose message is not given up at `ns`; or None."""
        self.expire(ns)
        found = None
        for _, first, count, _ in reversed(self.runs):
            if first + count <= number:
                break
            found = max(first, number)
        return found

    def from_time(self, ns: int) -> int | None:
        """Find the first run whose messages may be available from `ns` or later. Return its lowest number; or None."""
        return next((run[1] for run in self.runs if run[0] + self._grain > ns), None)

    def expire(self, ns: int) -> None:
        """Remove messages that are given up at `ns`."""
        while self.runs and ns > self.runs[0][0] + self._give_up:
            self.runs.popleft()

    @property
    def ahead(self) -> int:
        """Return `ahead` of the last run; 0 if there is no run."""
        return self.runs[-1][3] if self.runs else 0

    @property
    def until(self) -> int:
        """Return the time in ns at which the last message is given up; 0 if there is no message."""
        return self.runs[-1][0] + self._give_up if self.runs else 0


class SendOrder:
    """The order of one key. Call `take` with each transfer, sorted by time, with SENDs before deliveries of the same
    time. At the end of a batch call `advance`, then `dump`. If `by_id`, the key is a publisher's id.
    """

    def __init__(self, limits: TimeLimits, *, by_id: bool = False) -> None:
        self._limits = limits
        self._by_id = by_id
        self._number = self._name = self._low = 0
        self._last: Flight | None = None
        self._waiting = UndeliveredRuns(limits.give_up)
        self._flights: dict[str, Flight] = {}
        self._by_number: dict[int, Flight] = {}
        self._places: dict[Place, Flight] = {}
        self._named: dict[tuple[str | None, str], Flight] = {}
        self._back: dict[Subscriber | None, deque[tuple[Flight, int]]] = {}
        self._flying: deque[tuple[Flight, int]] = deque()
        self._orphans: deque[Flight] = deque()
        self._recent: deque[Flight] = deque()
        self._reached: dict[Subscriber, int] = {}
        self._times: deque[int] = deque(maxlen=TIMES)
        self._unconfirmed: set[str] = set()
        self._happenings: list[tuple[int, int, Place, str, Any]] = []

    # What is seen

    def take(self, row: Sequence[Any]) -> str:
        """Return the name of the message to which a transfer belongs."""
        kind, ns = row[s.KIND], row[s.NS]
        place: Place = (row[s.SEGMENT], row[s.POSITION], row[s.NUMBER])
        if kind == s.RowKind.SENT:
            self.advance(ns)
            return self._was_sent(row, ns, place)
        if kind == s.RowKind.DELIVERED:
            self.advance(ns, _DELIVERED)
            return self._was_delivered(row, ns, place)
        flight = self._places.get(place)
        name = placed(place) if flight is None else flight.name
        self._more(row, place, name)
        return name

    def _more(self, row: Sequence[Any], place: Place, name: str) -> None:
        """Remember the end, the receipt and the outcome in this row. `advance` applies each when its time comes."""
        happenings = self._happenings
        if row[s.ENDED_NS] is not None:
            heappush(happenings, (row[s.ENDED_NS], _ENDED, place, name, bool(row[s.ABORTED])))
        if row[s.RECEIPT_NS] is not None:
            heappush(happenings, (row[s.RECEIPT_NS], _CONFIRMED, place, name, None))
        if row[s.KNOWN_NS] is not None:
            heappush(happenings, (row[s.KNOWN_NS], _SETTLED, place, name, row[s.OUTCOME]))

    def advance(self, ns: int, before: int = 0) -> None:
        """Apply what happened before `ns`, and what happened at `ns` if the number of its kind is below `before`."""
        happenings = self._happenings
        while happenings and happenings[0] < (ns, before):
            at, what, place, name, rest = heappop(happenings)
            flight = self._flights.get(name)
            if what == _CONFIRMED:
                self._unconfirmed.discard(name)
            if flight is None or at > flight.until(self._limits):
                continue
            if what == _CONFIRMED:
                flight.unconfirmed, flight.last = False, max(flight.last, at)
            elif what == _SETTLED:
                if self._places.pop(place, None) is not None:
                    self._is_back(flight, flight.was_settled(at, place, rest))
            elif rest:
                flight.aborted, flight.last = True, max(flight.last, at)
            else:
                self._is_available(flight, at)

    # Publishers

    def _was_sent(self, row: Sequence[Any], ns: int, place: Place) -> str:
        receipt, transaction = row[s.RECEIPT] is not None, row[s.TRANSACTION] is not None
        whole = not transaction and not (receipt and row[s.RECEIPT_NS] is None)
        flight = self._adopting(row, ns)
        if flight is not None:
            flight.sent, flight.unconfirmed, flight.adopted = True, receipt, place
            flight.last = max(flight.last, ns)
            self._places[place] = flight
        elif not whole:
            flight = self._flights[placed(place)] = Flight(placed(place), ns, topic=is_topic(row), sent=True)
            flight.unconfirmed = receipt
        if not self._number:
            # Numbers begin with the time, so that none is used again after the order was forgotten.
            self._number = self._name = self._low = ns
        if flight is not None:
            if not transaction:
                self._is_available(flight, ns)
            self._more(row, place, flight.name)
            return flight.name
        name = self._name
        self._name += 1
        self._wait(name, ns, topic=is_topic(row))
        if receipt:
            self._unconfirmed.add(str(name))
            self._more(row, place, str(name))
        return str(name)

    def _adopting(self, row: Sequence[Any], ns: int) -> Flight | None:
        """Return a message that was delivered without a SEND, if this SEND belongs to the message; or None. A SEND can
        be later than its delivery, because the clocks of two relays differ.
        """
        orphans = self._orphans
        while orphans:
            first = orphans[0]
            if first.sent or ns > first.until(self._limits):
                orphans.popleft()
                continue
            elsewhere = first.relay != row[s.RELAY] and ns - first.first <= self._limits.linger
            return orphans.popleft() if self._by_id or elsewhere else None
        return None

    def _is_available(self, flight: Flight, ns: int) -> None:
        """Record that a broker can deliver this message from `ns` on."""
        flight.number, flight.last = self._number, max(flight.last, ns)
        self._by_number[self._number] = flight
        if flight.turn:
            self._last = flight
            self._number += 1
            if flight.topic:
                self._times.append(ns)
        else:
            self._wait(self._number + self._waiting.ahead, ns, topic=flight.topic)

    def _wait(self, name: int, ns: int, *, topic: bool = False) -> None:
        self._waiting.add(self._number, name, ns)
        self._number += 1
        if topic:
            self._times.append(ns)

    # Consumers

    def _was_delivered(self, row: Sequence[Any], ns: int, place: Place) -> str:
        topic = is_topic(row)
        flight = self._known(row, ns)
        if flight is None:
            flight = self._of_topic(row, ns) if topic else self._of_queue(row, ns)
        if flight is None and self._by_id and self._last is not None and self._alive(self._last, ns):
            flight = self._last
        if flight is None:
            flight = self._flights[placed(place)] = Flight(placed(place), ns, topic=topic, sent=False)
            self._orphans.append(flight)
        if flight.number is not None and (self._last is None or flight.number >= (self._last.number or 0)):
            self._last = flight
        if not flight.turn:
            self._recent.append(flight)
        to = flight.was_delivered(row, ns, place)
        for name in flight.names[-2:]:
            self._named[name] = flight
        if topic and flight.number is not None:
            subscriber = (row[s.SESSION], row[s.SUBSCRIPTION])
            self._reached[subscriber] = max(flight.number, self._reached.get(subscriber, flight.number))
        if place in flight.waiting:
            self._places[place] = flight
            if not topic:
                self._flying.append((flight, flight.turn))
            self._more(row, place, flight.name)
        else:
            self._is_back(flight, to)
        self._forget_old(ns)
        return flight.name

    def _alive(self, flight: Flight, ns: int) -> bool:
        return not flight.aborted and ns <= flight.until(self._limits)

    def _known(self, row: Sequence[Any], ns: int) -> Flight | None:
        """Return the message that was delivered with this message-id and broker, or this `relay-copy`; or None."""
        found = None if row[s.MESSAGE_ID] is None else self._named.get((row[s.BROKER], row[s.MESSAGE_ID]))
        if found is None and row[s.COPY] is not None:
            found = self._named.get((COPIED, row[s.COPY]))
        return found if found is not None and self._alive(found, ns) else None

    def _of_queue(self, row: Sequence[Any], ns: int) -> Flight | None:
        if row[s.AGAIN]:
            found = self._again(None, ns) or self._lost_sight_of(row, ns)
            if found is not None:
                return found
        while (waiting := self._waiting.take(ns)) is not None:
            flight = self._flight(waiting, ns, topic=False)
            if not flight.aborted:
                return flight
        return self._again(None, ns)

    def _flight(self, waiting: tuple[int, int], ns: int, *, topic: bool) -> Flight:
        """Return the `Flight` of a message that no longer waits. `waiting` is the number and name of the message."""
        number, name = waiting
        flight = self._by_number.get(number)
        if flight is None:
            flight = self._flights[str(name)] = Flight(str(name), ns, topic=topic, sent=True)
            flight.unconfirmed = str(name) in self._unconfirmed
            flight.number = number
            if topic:
                self._by_number[number] = flight
        return flight

    def _is_back(self, flight: Flight, to: Subscriber | None) -> None:
        """If the last delivery to this recipient was nacked or returned, record that a broker has the message again."""
        turn, outcome = flight.ends[to]
        if outcome is not None:
            self._back.setdefault(to, deque()).append((flight, turn))

    def _again(self, to: Subscriber | None, ns: int) -> Flight | None:
        """Remove from `_back` and return the first message whose last delivery to `to` came back; or None."""
        back = self._back.get(to)
        while back:
            flight, turn = back.popleft()
            if turn == flight.ends[to][0] and self._alive(flight, ns):
                return flight
        self._back.pop(to, None)
        return None

    def _lost_sight_of(self, row: Sequence[Any], ns: int) -> Flight | None:
        """Return the message of the oldest delivery without outcome, if another session got that delivery; or None."""
        while self._flying:
            flight, turn = self._flying[0]
            if turn != flight.turn or not flight.waiting or not self._alive(flight, ns):
                self._flying.popleft()
                continue
            return None if flight.session == row[s.SESSION] else flight
        return None

    def _of_topic(self, row: Sequence[Any], ns: int) -> Flight | None:
        """Return the next message of the subscription. If there is no next message, or if the broker says that it
        delivers again, return a message that the subscriber nacked or returned. Return None if there is no such
        message.
        """
        to = recipient(row, topic=True)
        if row[s.AGAIN]:
            found = self._again(to, ns)
            if found is not None:
                return found
        reached = self._reached.get((row[s.SESSION], row[s.SUBSCRIPTION]))
        at = self._since(row[s.SINCE_NS] or 0) if reached is None else reached + 1
        found = self._from(at, ns)
        if found is None and reached is None:
            # Message and subscription came by different connections, and the broker had the subscription first.
            before = self._number - at
            if 0 <= before < len(self._times) and ns <= self._times[-1 - before] + self._limits.linger:
                found = self._at(at - 1, ns)
        return found or self._again(to, ns)

    def _since(self, ns: int) -> int:
        """Return the number of the first message that is available at `ns` or later, else the next number."""
        times = self._times
        if times and ns > times[0]:
            return self._number - len(times) + bisect_left(times, ns)
        waiting = self._waiting.from_time(ns)
        known = (number for number, flight in self._by_number.items() if flight.first >= ns)
        return min([*known, *([] if waiting is None else [waiting])], default=self._number)

    def _from(self, number: int, ns: int) -> Flight | None:
        """Return the first message from this number on that still exists at `ns`; None if there is none."""
        waiting = self._waiting.from_number(number, ns)
        runs = self._waiting.runs
        nowhere = runs[0][1] if runs else self._number
        while self._low < nowhere and self._low not in self._by_number:
            self._low += 1
        for each in range(max(number, self._low), self._number if waiting is None else waiting):
            flight = self._by_number.get(each)
            if flight is not None and self._alive(flight, ns):
                return flight
        return None if waiting is None else self._at(waiting, ns)

    def _at(self, number: int, ns: int) -> Flight | None:
        """Return the message of this number if a record at `ns` counts for it; or None."""
        flight = self._by_number.get(number)
        if flight is None or not flight.turn:
            waiting = self._waiting.pick(number)
            flight = None if waiting is None else self._flight(waiting, ns, topic=True)
        return flight if flight is not None and self._alive(flight, ns) else None

    # From batch to batch

    def _forget_old(self, ns: int) -> None:
        """Forget delivered messages whose time is over at `ns`. `dump` forgets the messages that are missed here."""
        recent = self._recent
        while recent and ns > recent[0].last + self._limits.linger:
            old = recent.popleft()
            if ns > old.until(self._limits):
                self._forget(old)

    def _forget(self, flight: Flight) -> None:
        self._flights.pop(flight.name, None)
        if flight.number is not None:
            self._by_number.pop(flight.number, None)
        if flight.adopted is not None:
            self._places.pop(flight.adopted, None)
        for place in flight.waiting:
            self._places.pop(place, None)
        for name in flight.names:
            if self._named.get(name) is flight:
                del self._named[name]

    def dump(self, until: int) -> tuple[str, int] | None:
        """Return the state at `until` (ns) as JSON, and the time (ns) up to which this state matters. Return None if
        there is nothing to keep.
        """
        for flight in [each for each in self._flights.values() if until > each.until(self._limits)]:
            self._forget(flight)
        self._waiting.expire(until)
        counts = max(
            (each.until(self._limits) for each in self._flights.values()), default=self._waiting.until
        )
        if not self._flights and not self._waiting.runs:
            return None
        first = self._waiting.runs[0][1] if self._waiting.runs else self._number
        first = min([first, *self._by_number])
        last = None if self._last is None or self._last.name not in self._flights else self._last.name
        flying = [[f.name, turn] for f, turn in self._flying if turn == f.turn and f.name in self._flights]
        back = [
            [flight.name, turn, to]
            for to, those in self._back.items()
            for flight, turn in those
            if turn == flight.ends[to][0] and flight.name in self._flights
        ]
        values = [
            *(self._number, self._name, first, last, [*self._waiting.runs]),
            [flight.dump() for flight in self._flights.values()],
            *(flying, back, [f.name for f in self._orphans if f.name in self._flights]),
            [[*who, number] for who, number in self._reached.items() if number >= first],
            [*self._times][first - self._number :] if first < self._number else [],
        ]
        return arrow.compact(values), max(counts, self._waiting.until)

    def load(self, text: str) -> None:
        """Restore the state that `dump` returned. Call it once, before any other method."""
        self._number, self._name, self._low, last, runs, flights, *rest = json.loads(text)
        flying, back, orphans, reached, times = rest
        self._waiting = UndeliveredRuns(self._limits.give_up, runs)
        for values in flights:
            flight = self._flights[values[1]] = Flight.load(values)
            if flight.number is not None and (flight.topic or not flight.turn):
                self._by_number[flight.number] = flight
            self._places.update(dict.fromkeys(flight.waiting, flight))
            if flight.adopted is not None:
                self._places[flight.adopted] = flight
            for name in flight.names:
                self._named[name] = flight
        self._last = None if last is None else self._flights[last]
        self._flying.extend((self._flights[name], turn) for name, turn in flying)
        for name, turn, *to in back:
            self._back.setdefault(subscriber(*to or [None]), deque()).append((self._flights[name], turn))
        self._orphans.extend(self._flights[name] for name in orphans)
        self._recent.extend(each for each in self._flights.values() if each.turn)
        self._reached = {(session, subscription): number for session, subscription, number in reached}
        self._times.extend(times)


def placed(place: Place) -> str:
    """Return the name of a message that is named by its place in the journal."""
    return f"{place[0]}/{place[1]}/{place[2]}"


# One key after another

_SCHEMA: Final = arrow.schema(s.FIELDS)
_KNOWN_AT: Final = (s.RECEIPT_NS, s.ENDED_NS, s.KNOWN_NS)
_AHEAD: Final = "a"
"""A text that begins with this letter holds a row. Any other text has the time (ns) up to which the state of the order
matters, a space, and this state.
"""


class _Current:
    """The key that is being read. `out` has rows that `end` yields: kept rows of the last batch, and new rows in place
    of rows for which `take` returned None.
    """

    def __init__(self, key: str, limits: TimeLimits, until: int) -> None:
        self.key = key
        self.out: list[s.Transfer] = []
        self._until = until
        self._limits = limits
        self._text: str | None = None
        self._order: SendOrder | None = None
        self._ahead: list[s.Transfer] = []
        self._waiting: list[s.Transfer] = []

    def restore(self, text: str) -> None:
        """Add one text of the state that the last batch left."""
        if text[0] != _AHEAD:
            self._text = text
            return
        self._waiting.append([self.key, *json.loads(text[1:])])
        self._waiting.sort(key=_phase, reverse=True)

    def _known(self) -> SendOrder:
        order = self._order
        if order is None:
            order = self._order = SendOrder(self._limits, by_id=self.key[0] == s.BY_ID)
            if self._text is not None:
                order.load(self._text.partition(" ")[2])
        return order

    def take(self, row: tuple[Any, ...]) -> str | None:
        """Return the new key of a row. If it is None, drop the row: `end` yields other rows in its place."""
        while self._waiting and _phase(self._waiting[-1]) <= _phase(row):
            self._again(self._waiting.pop())
        until = self._until
        if row[s.NS] > until or any((row[time] or 0) > until for time in _KNOWN_AT):
            self._split([*row])
            return None
        return f"{self.key}#{self._known().take(row)}"

    def _again(self, row: s.Transfer) -> None:
        key = self.take(tuple(row))
        if key is not None:
            self.out.append([key, *row[1:]])

    def _split(self, row: s.Transfer) -> None:
        """Keep the part of a row that is later than `until` for the next batch. Take the earlier part now."""
        if row[s.NS] > self._until:
            self._ahead.append(row)
            return
        later: s.Transfer = [None] * len(row)
        later[: s.KIND + 1] = row[: s.KIND + 1]
        later[s.KIND] |= 1
        for time, fields in s.PARTS:
            if (row[time] or 0) > self._until:
                for field in fields:
                    later[field], row[field] = row[field], None
        self._ahead.append(later)
        if row[s.KIND] != later[s.KIND] or any(row[time] is not None for time in _KNOWN_AT):
            row[s.KEY] = f"{self.key}#{self._known().take(row)}"
            self.out.append(row)

    def end(self) -> Iterator[s.Transfer]:
        """Yield the last rows of the batch: the state, rows in `out`, and rows after `until` with provisional keys."""
        while self._waiting:
            self._again(self._waiting.pop())
        until = self._until
        if self._order is None and self._text is not None and until <= int(self._text.partition(" ")[0]):
            yield s.saying(SessionRow.ORDER, self.key, self._text)
            yield from self._provisional()
            return
        order = self._known()
        order.advance(until, s.LATER)
        kept = order.dump(until)
        if kept is not None:
            yield s.saying(SessionRow.ORDER, self.key, f"{kept[1]} {kept[0]}")
        yield from self._provisional()

    def _provisional(self) -> Iterator[s.Transfer]:
        for row in self._ahead:
            yield s.saying(SessionRow.ORDER, self.key, _AHEAD + arrow.compact(row[1:]))
        yield from self.out
        self._ahead.sort(key=_phase)
        for row in self._ahead:
            yield [f"{self.key}#{self._known().take(row)}", *row[1:]]


def _phase(row: Any) -> tuple[Any, ...]:
    """Return the key by which `transfer.PHASED` sorts a row."""
    return (row[s.NS], row[s.KIND] >> 1, *row[s.SEGMENT : s.KIND], row[s.KIND])


@dataclass(frozen=True)
class JournalOrders:
    """Call it with rows of `transfer.FIELDS` sorted by `transfer.PHASED`, including the rows that the last batch kept
    for orders. It yields rows of the same fields. A row that belongs to an order gets the key of its message. Rows of
    the kind `SessionRow.ORDER` are added, with the state of the orders. All other rows are unchanged.
    """

    limits: TimeLimits
    until: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Take and yield batches of `transfer.FIELDS`, for `mapInArrow`. The yielded rows have keys of messages."""
        with arrow.uncollected():
            current: _Current | None = None
            for batch in batches:
                keys = batch.column(s.KEY).to_pylist()
                kinds = batch.column(s.KIND).to_pylist()
                if not any(
                    key is not None and key[0] != s.BY_TRACE and kind < SessionRow.STATE
                    for key, kind in zip(keys, kinds, strict=True)
                ):
                    yield batch
                    continue
                stay: list[bool] = []
                rows: list[s.Transfer] = []
                for at, row in enumerate(zip(*map(arrow.listed, batch.columns), strict=True)):
                    key = row[s.KEY]
                    if row[s.KIND] >= SessionRow.STATE or key[0] == s.BY_TRACE:
                        stay.append(True)
                        continue
                    if current is None or current.key != key:
                        if current is not None:
                            rows += current.end()
                        current = _Current(key, self.limits, self.until)
                    if row[s.KIND] == s.RowKind.KEPT:
                        current.restore(row[s.TEXT])
                        stay.append(False)
                        continue
                    name = current.take(row)
                    stay.append(name is not None)
                    if name is not None:
                        keys[at] = name
                named = batch.set_column(s.KEY, _SCHEMA.field(s.KEY), pa.array(keys, pa.string()))
                named = named.cast(_SCHEMA)
                yield named if all(stay) else named.filter(pa.array(stay, pa.bool_()))
                for some in arrow.chunks(rows):
                    yield arrow.batch(some, _SCHEMA)
            for some in arrow.chunks(current.end() if current is not None else ()):
                yield arrow.batch(some, _SCHEMA)
