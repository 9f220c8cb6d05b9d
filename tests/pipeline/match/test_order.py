"""Who is next."""

from typing import Any

import pytest

from stomprelay.pipeline.match.order import SendOrder, UndeliveredRuns
from stomprelay.pipeline.sessions import transfer as s
from stomprelay.pipeline.settings import TimeLimits

TERMS = TimeLimits(patience=600, linger=10, give_up=100)


class _Line:
    """An order, and the names of its messages in the order in which they were first seen."""

    def __init__(self, *, topic: bool = False, by_id: bool = False) -> None:
        self.order = SendOrder(TERMS, by_id=by_id)
        self.names: list[str] = []
        self.destination = "/topic/t" if topic else "/queue/q"
        self._places: dict[int, tuple[int, int]] = {}

    def _takes(self, kind: s.RowKind, ns: int, **values: Any) -> int:
        usual = {"key": "o", "segment": "g", "number": 0, "relay": "r", "destination": self.destination}
        known = {**usual, "ns": ns, "position": ns, "kind": int(kind), **values}
        name = self.order.take([known.get(each) for each, _ in s.FIELDS])
        if name not in self.names:
            self.names.append(name)
        return self.names.index(name)

    def sends(self, ns: int, relay: str = "r", **values: Any) -> int:
        return self._takes(s.RowKind.SENT, ns, relay=relay, **values)

    def gets(self, ns: int, session: str = "c", **values: Any) -> int:
        known = {"session": session, "client": session, "subscription": "1", "broker": "a", **values}
        found = self._takes(s.RowKind.DELIVERED, ns, **known)
        self._places[found] = (ns, 0)
        return found

    def answers(self, at: int, ns: int, outcome: str) -> None:
        place, number = self._places[at]
        more = {"position": place, "number": number, "known_ns": ns, "settled_ns": ns, "outcome": outcome}
        self._takes(s.RowKind.DELIVERED_MORE, place, **more)

    def goes_on(self, ns: int) -> bool:
        """In the next batch. Whether anything was left."""
        self.order.advance(ns, s.LATER)
        left = self.order.dump(ns)
        self.order = SendOrder(TERMS)
        if left is not None:
            self.order.load(left[0])
        return left is not None


def test_the_broker_knows_first_that_somebody_is_gone() -> None:
    """Then what another session has is given again; never what the same one has."""
    line = _Line()
    for ns in (1, 2):
        line.sends(ns)
    line.gets(10, "c")
    assert line.gets(11, "c", again=True) == 1
    line.goes_on(11)
    assert line.gets(12, "d", again=True) == 0


def test_a_topics_message_that_comes_again() -> None:
    """To the subscriber that nacked it, or a new session of one that went; nothing comes to another subscriber."""
    line = _Line(topic=True)
    for ns in (1, 2, 3):
        line.sends(ns)
    for consumer, ns in (("c", 10), ("c", 11), ("d", 12), ("d", 13)):
        found = line.gets(ns, consumer, since_ns=0, message_id=f"{consumer}{ns}")
        line.answers(found, 14, "nacked" if consumer == "c" else "acked")
    line.goes_on(14)
    assert line.gets(15, "c", since_ns=0, message_id="c15", again=True) == 0
    line.answers(0, 16, "returned")
    assert line.gets(17, "e", client="c", since_ns=17, message_id="e17", again=True) == 1
    assert line.gets(18, "e", client="c", since_ns=17, message_id="e18", again=True) == 0
    assert [line.gets(19, "d", since_ns=0), line.gets(20, "c", since_ns=0)] == [2, 2]
    line.answers(2, 21, "nacked")
    line.goes_on(21)
    assert [line.gets(22, "c", since_ns=0, message_id="c22"), line.gets(23, "d", since_ns=0)] == [2, 3]


def test_orphans() -> None:
    """A delivery before the SEND, by another relay's clock; by one relay's clock it is another message."""
    line = _Line()
    assert [line.gets(1), line.sends(2)] == [0, 1]
    assert line.sends(3, "other") == 0
    assert [line.gets(4), line.gets(5)] == [1, 2]
    assert line.sends(16, "other") == 3
    named = _Line(by_id=True)
    assert [named.gets(1), named.sends(50), named.gets(60)] == [0, 0, 0]


@pytest.mark.parametrize("end", ["acked", "nothing"])
def test_what_does_not_count_any_more_is_forgotten(end: str) -> None:
    """All names of it; an order of which nothing counts is no state."""
    line = _Line()
    line.sends(1)
    line.gets(2, message_id="m", copy="x")
    if end == "acked":
        line.answers(0, 3, end)
    assert line.goes_on(13)
    assert not line.goes_on(14 if end == "acked" else 103)
    assert [line.gets(104, message_id="m"), line.gets(105, copy="x"), line.gets(106, again=True)] == [1, 2, 3]


@pytest.mark.parametrize("topic", [False, True])
def test_a_send_of_which_more_may_come(topic: bool) -> None:
    """Its receipt, or the end of its transaction, in whatever batch: it is found by its place."""
    line = _Line(topic=topic)
    line.sends(1, receipt="r")
    line.sends(2, transaction="x")
    line.goes_on(2)
    assert line._takes(s.RowKind.SENT_MORE, 1, receipt_ns=3) == 0
    assert [line.gets(4, since_ns=0), line.gets(5, since_ns=0)] == [0, 2]
    assert line._takes(s.RowKind.SENT_MORE, 2, ended_ns=6) == 1
    line.goes_on(6)
    assert line.gets(7, since_ns=0) == 1


def test_a_transaction_that_is_undone_is_skipped() -> None:
    """Even after its COMMIT, which the relay refused."""
    line = _Line()
    line.sends(1, transaction="x", ended_ns=2)
    line.sends(3)
    line._takes(s.RowKind.SENT_MORE, 1, ended_ns=4, aborted=True)
    assert line.gets(5) == 1


def test_the_state_does_not_grow_with_what_waits() -> None:
    """Ten or ten thousand; who comes late finds the first."""
    sizes = []
    for count in (10, 10_000):
        line = _Line()
        for number in range(count):
            line._takes(s.RowKind.SENT, 1, number=number)
        line.order.advance(1, s.LATER)
        left = line.order.dump(1)
        assert left is not None
        sizes.append(len(left[0]))
    assert sizes[1] - sizes[0] < 10
    line.goes_on(1)
    assert [line.gets(2), line.gets(2)] == [0, 1]


def test_those_that_wait() -> None:
    """Runs of them, by time; they can be picked from within."""
    waiting = UndeliveredRuns(256 * 10)
    for number, ns in enumerate((100, 105, 119, 120)):
        waiting.add(number, number + 7, ns)
    assert len(waiting.runs) == 3
    assert (waiting.pick(1), waiting.pick(1), waiting.pick(9)) == ((1, 8), None, None)
    assert [waiting.from_number(number, 120) for number in range(5)] == [0, 2, 2, 3, None]
    assert [waiting.from_time(ns) for ns in (0, 109, 110, 120, 130)] == [0, 0, 2, 3, None]
    assert waiting.take(120) == (0, 7)
    assert waiting.take(2671) == (3, 10)
    assert (waiting.take(2671), waiting.until) == (None, 0)
