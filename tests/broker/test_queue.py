"""A queue: order, turns, redelivery, room."""

import pytest

from stomprelay.broker.bounds import Memory
from stomprelay.broker.message import Head, Message
from stomprelay.broker.queue import Consumer, Queue
from stomprelay.session.subscriptions import AUTO, INDIVIDUAL
from stomprelay.wire.dialect import V1_2
from stomprelay.wire.errors import LimitError
from tests.broker.test_outbox import outbox

MEMORY = 10_000


def queue(most: int = 10, most_octets: int = MEMORY, *, private: bool = False) -> tuple[Queue, Memory]:
    """An empty queue and the memory it keeps account with."""
    memory = Memory(MEMORY)
    return Queue(b"/queue/a", memory, most, most_octets, private=private), memory


def message(number: int, size: int = 0) -> Message:
    """A message whose id and body are its number."""
    text = b"%d" % number
    return Message(text, Head(b"/queue/a", b"\n", []), text + b"\0" + b"\0" * size)


def joined(to: Queue, mode: bytes = AUTO, prefetch: int = 1000) -> Consumer:
    """A consumer that subscribed and may be served."""
    consumer = Consumer(b"1", None, b"/queue/a", mode, prefetch, V1_2, outbox())
    to.joined(consumer)
    to.revived(consumer)
    return consumer


def bodies(consumer: Consumer) -> list[bytes]:
    """What the consumer was sent since the last look."""
    return [frame.partition(b"\n\n")[2] for frame in consumer.outbox.drained().split(b"\0") if frame]


def publish(to: Queue, *numbers: int) -> None:
    """Messages of these numbers."""
    for number in numbers:
        to.publish(message(number))


def test_what_nobody_wants_yet_waits_in_order() -> None:
    """The first consumer gets it all, oldest first, and nothing is kept afterwards."""
    waiting, memory = queue()
    publish(waiting, 1, 2, 3)
    assert (len(waiting), waiting.entries) == (3, 3)
    assert waiting.octets == memory.used > 0
    assert bodies(joined(waiting)) == [b"1", b"2", b"3"]
    assert (len(waiting), waiting.entries, waiting.octets, memory.used) == (0, 0, 0, 0)


def test_consumers_take_turns() -> None:
    """Each message goes to one of them; who joins last has the last turn."""
    shared, memory = queue()
    first, second, third = joined(shared), joined(shared), joined(shared)
    publish(shared, *range(7))
    assert [bodies(each) for each in (first, second, third)] == [
        [b"0", b"3", b"6"],
        [b"1", b"4"],
        [b"2", b"5"],
    ]
    assert memory.used == 0


def test_who_is_not_able_is_passed_over() -> None:
    """By a full transport or a full window; its turn comes again when it is able."""
    shared, _ = queue()
    slow, full, able = joined(shared), joined(shared, INDIVIDUAL, 1), joined(shared)
    slow.outbox.paused()
    publish(shared, 1, 2, 3)
    assert (bodies(slow), bodies(full), bodies(able)) == ([], [b"1"], [b"2", b"3"])
    able.outbox.paused()
    publish(shared, 4, 5)
    assert len(shared) == 2
    (entry,) = full.named(b"1")
    shared.settled(entry)
    shared.revived(full)
    assert bodies(full) == [b"4"]
    slow.outbox.resumed()
    slow.outbox.began(1000)
    shared.revived(slow)
    assert bodies(slow) == [b"5"]


def test_reviving_twice_gives_no_second_turn() -> None:
    """A consumer stands in the line once."""
    shared, _ = queue()
    first, second = joined(shared), joined(shared)
    shared.revived(first)
    shared.revived(first)
    publish(shared, 1, 2, 3, 4)
    assert (bodies(first), bodies(second)) == ([b"1", b"3"], [b"2", b"4"])


def test_what_was_in_vain_comes_back_in_the_old_place() -> None:
    """Before what never was delivered, oldest first, whoever had it; and it says so."""
    shared, memory = queue()
    first, second = joined(shared, INDIVIDUAL, 2), joined(shared, INDIVIDUAL, 2)
    publish(shared, 1, 2, 3, 4, 5, 6)
    assert (bodies(first), bodies(second)) == ([b"1", b"3"], [b"2", b"4"])
    shared.left(second)
    shared.left(first)
    third = joined(shared)
    frames = third.outbox.drained().split(b"\0")[:-1]
    assert [frame.partition(b"\n\n")[2] for frame in frames] == [b"1", b"2", b"3", b"4", b"5", b"6"]
    assert [b"\nredelivered:true\n" in frame for frame in frames] == [True] * 4 + [False] * 2
    assert (shared.entries, shared.octets, memory.used) == (0, 0, 0)


def test_one_who_leaves_is_not_served() -> None:
    """Its turn goes to the others."""
    shared, _ = queue()
    first, second = joined(shared), joined(shared)
    shared.left(first)
    publish(shared, 1, 2)
    assert (bodies(first), bodies(second)) == ([], [b"1", b"2"])
    assert first.closed


def test_one_who_refuses_lets_the_others_go_first() -> None:
    """Whoever's turn it would have been."""
    shared, _ = queue()
    first, second = joined(shared), joined(shared)
    shared.stepped_back(first)
    publish(shared, 1, 2)
    assert (bodies(first), bodies(second)) == ([b"2"], [b"1"])
    shared.left(second)
    shared.stepped_back(first)
    publish(shared, 3)
    assert bodies(first) == [b"3"]


def test_it_is_missed_while_anything_depends_on_it() -> None:
    """Messages that wait, messages that await an ACK, consumers."""
    shared, _ = queue()
    idle = [shared.idle]
    publish(shared, 1)
    idle.append(shared.idle)
    consumer = joined(shared, INDIVIDUAL)
    idle.append(shared.idle)
    (entry,) = consumer.named(b"1")
    shared.left(consumer)
    idle.append(shared.idle)
    shared.settled(entry)
    idle.append(shared.idle)
    assert idle == [True, False, False, False, True]


def test_so_many_messages_may_wait_and_no_more() -> None:
    """The one too many is refused and changes nothing; what is taken makes room."""
    shared, memory = queue(most=2)
    publish(shared, 1, 2)
    used = memory.used
    with pytest.raises(LimitError, match="the queue is full"):
        publish(shared, 3)
    assert (len(shared), memory.used) == (2, used)
    consumer = joined(shared, INDIVIDUAL, 1)
    publish(shared, 3)
    assert bodies(consumer) == [b"1"]


def test_so_many_octets_may_wait_and_no_more() -> None:
    """A single message may wait however large it is, for else it could never pass."""
    shared, _ = queue(most_octets=1000)
    shared.publish(message(1, 5000))
    with pytest.raises(LimitError, match="the queue is full"):
        publish(shared, 2)
    joined(shared)
    publish(shared, 2)


def test_what_comes_back_needs_no_room() -> None:
    """A message that was accepted once is never refused."""
    shared, _ = queue(most=1)
    consumer = joined(shared, INDIVIDUAL, 2)
    publish(shared, 1, 2, 3)
    shared.left(consumer)
    assert len(shared) == 3
    with pytest.raises(LimitError):
        publish(shared, 4)


def test_the_memory_is_shared() -> None:
    """A queue with room refuses what no memory is left for, unless nothing has to be kept."""
    shared, memory = queue()
    hog = message(9, MEMORY - message(9).size - message(1).size)
    memory.hold(hog)
    publish(shared, 1)
    with pytest.raises(LimitError, match="memory is full"):
        publish(shared, 2)
    consumer = joined(shared, INDIVIDUAL)
    with pytest.raises(LimitError, match="memory is full"):
        publish(shared, 2)
    shared.left(consumer)
    quick = joined(shared)
    publish(shared, 2, 3)
    assert bodies(quick) == [b"1", b"2", b"3"]
    memory.release(hog)
    assert memory.used == 0


def test_a_private_queue_dies_with_its_consumer() -> None:
    """What waits, what awaits its ACK and what comes back later is settled."""
    own, memory = queue(private=True)
    consumer = joined(own, INDIVIDUAL, 2)
    publish(own, 1, 2, 3)
    taken = consumer.named(b"1")
    own.left(consumer)
    assert own.entries == 1
    own.returned(taken)
    assert (own.entries, len(own), own.octets, memory.used) == (0, 0, 0, 0)


def test_the_oldest_can_be_thrown_away() -> None:
    """Of those that wait, until none is left."""
    shared, memory = queue()
    publish(shared, 1, 2)
    assert shared.evicted()
    assert len(shared) == 1
    assert shared.evicted()
    assert not shared.evicted()
    assert memory.used == 0
