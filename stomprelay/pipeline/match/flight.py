"""What a `SendOrder` knows of messages: one by one where it must, as runs of numbers where they only wait."""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from stomprelay.pipeline.schema import NACKED, RETURNED
from stomprelay.pipeline.sessions import transfer as s
from stomprelay.pipeline.settings import TimeLimits

COPIED: Final = "\0"
"""In place of a broker in `Flight.names`: the name is a `relay-copy`."""
_SLICES: Final = 256
"""What waits is counted by slices of `give_up`, and given up slice by slice."""

Place = tuple[str, int, int]
Subscriber = tuple[str | None, str | None]


@dataclass(slots=True, eq=False)
class Flight:
    """A message that is known one by one. `number`: its turn in the order, None before a broker can deliver it or
    without its SEND. `ends`: by recipient the turn of the last delivery and, if a broker has the message again, the
    outcome. `waiting`: the deliveries without an outcome. `turn` counts deliveries. `adopted`: the place of its SEND,
    if that is not its name.
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
        """Return the time in ns up to which a sign still counts as one of this message."""
        unconfirmed = self.unconfirmed and not self.aborted
        missing = any(back == RETURNED for _, back in self.ends.values()) if self.turn else not self.aborted
        if unconfirmed or self.waiting or missing:
            return self.last + limits.give_up
        if self.sent:
            return self.last + limits.linger
        return max(self.last + limits.linger, self.first + limits.patience)

    def was_sent(self, ns: int, *, unconfirmed: bool) -> None:
        """Record its SEND, at `ns`."""
        self.sent, self.unconfirmed, self.last = True, unconfirmed, max(self.last, ns)

    def became_available(self, number: int, ns: int) -> None:
        """Record that a broker can deliver it from `ns` on."""
        self.number, self.last = number, max(self.last, ns)

    def was_confirmed(self, ns: int) -> None:
        """Record the RECEIPT, at `ns`."""
        self.unconfirmed, self.last = False, max(self.last, ns)

    def was_aborted(self, ns: int) -> None:
        """Record that its transaction was aborted, at `ns`."""
        self.aborted, self.last = True, max(self.last, ns)

    def was_delivered(self, row: Sequence[Any], ns: int, place: Place) -> Subscriber | None:
        """Record a MESSAGE, at `ns`. Return its recipient."""
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
        """Record what became of the delivery at this place, at `ns`. Return its recipient."""
        self.last = max(self.last, ns)
        to, turn = self.waiting.pop(place)
        if self.ends[to][0] == turn:
            self.ends[to] = turn, _back(outcome)
        return to

    def dump(self) -> list[Any]:
        """Return its state as a list that JSON can hold; `load` reads it."""
        flags = self.sent | self.topic << 1 | self.unconfirmed << 2 | self.aborted << 3
        waiting = [[*place, to, turn] for place, (to, turn) in self.waiting.items()]
        return [
            *(flags, self.name, self.number, self.first, self.last, self.turn, self.session, self.relay),
            *(self.adopted, [*self.ends.items()], waiting, self.names),
        ]

    @classmethod
    def load(cls, values: list[Any]) -> "Flight":
        """Return what `dump` described."""
        flags, name, number, first, last, turn, session, relay, adopted, ends, waiting, names = values
        self = cls(name, first, topic=bool(flags & 2), sent=bool(flags & 1))
        self.unconfirmed, self.aborted = bool(flags & 4), bool(flags & 8)
        self.number, self.last, self.turn, self.session, self.relay = number, last, turn, session, relay
        self.adopted = None if adopted is None else (adopted[0], adopted[1], adopted[2])
        # An order of before topics came again has true and false here, and a flag for what was nacked.
        nacked = NACKED if flags & 16 else None
        said = {True: RETURNED, False: nacked}
        self.ends = {subscriber(who): (at, said.get(back, back)) for who, (at, back) in ends}
        self.waiting = {(each[0], each[1], each[2]): (subscriber(each[3]), each[4]) for each in waiting}
        self.names = [(broker, text) for broker, text in names]
        return self


def recipient(row: Sequence[Any], *, topic: bool) -> Subscriber | None:
    """Return whom a MESSAGE is for, as `Message.recipient` tells it: None for a queue's."""
    return (row[s.CLIENT], row[s.SUBSCRIPTION]) if topic else None


def _back(outcome: str | None) -> str | None:
    return outcome if outcome in (NACKED, RETURNED) else None


def subscriber(values: list[str | None] | None) -> Subscriber | None:
    """Return a recipient of which JSON made a list."""
    return None if values is None else (values[0], values[1])


class Waiting:
    """Undelivered messages in order, as runs `[since, number, count, ahead]`; a name is number + ahead."""

    def __init__(self, give_up: int, runs: Iterable[list[int]] = ()) -> None:
        self._give_up = give_up
        self._grain = max(give_up // _SLICES, 1)
        self.runs = deque(runs)

    def add(self, number: int, name: int, ns: int) -> None:
        """Add a message that is available from `ns` on."""
        since, ahead = ns - ns % self._grain, name - number
        if self.runs:
            last = self.runs[-1]
            if last[0] == since and last[1] + last[2] == number and last[3] == ahead:
                last[2] += 1
                return
        self.runs.append([since, number, 1, ahead])

    def take(self, ns: int) -> tuple[int, int] | None:
        """Remove the first that is not given up at `ns`. Return its number and name; None if there is none."""
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
        """Do the same with the one of this number, given up or not."""
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
        """Return the first that is not below `number` and not given up at `ns`."""
        self.expire(ns)
        found = None
        for _, first, count, _ in reversed(self.runs):
            if first + count <= number:
                break
            found = max(first, number)
        return found

    def from_time(self, ns: int) -> int | None:
        """Return the first that became available in the slice of `ns`, or later."""
        return next((run[1] for run in self.runs if run[0] + self._grain > ns), None)

    def expire(self, ns: int) -> None:
        """Remove those that are given up at `ns`."""
        while self.runs and ns > self.runs[0][0] + self._give_up:
            self.runs.popleft()

    @property
    def ahead(self) -> int:
        """Return what the last name is ahead of its number."""
        return self.runs[-1][3] if self.runs else 0

    @property
    def until(self) -> int:
        """Return the time in ns up to which the last of them counts; 0 without any."""
        return self.runs[-1][0] + self._give_up if self.runs else 0
