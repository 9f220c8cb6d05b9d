"""A message's place in a queue."""

from heapq import heapify, heappop

from stomprelay.broker.message import Head, Message
from stomprelay.broker.queue import Entry


def test_the_oldest_comes_first() -> None:
    """Entries sort by their arrival in the queue, whatever became of them since."""
    message = Message(b"b-1", Head(b"/queue/a", b"\n", []), b"\0")
    entries = [Entry(message, order) for order in (3, 1, 2)]
    entries[1].redelivered = True
    entries[1].delivery = 9
    heapify(entries)
    assert [heappop(entries).order for _ in range(3)] == [1, 2, 3]


def test_nobody_had_a_new_entry() -> None:
    """It is neither redelivered nor refused."""
    entry = Entry(Message(b"b-1", Head(b"/queue/a", b"\n", []), b"\0"), 1)
    assert (entry.consumer, entry.redelivered, entry.refusals, entry.delivery) == (None, False, 0, 0)
