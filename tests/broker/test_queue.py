"""Queues, topics and consumers: order, turns, redelivery, room."""

import pytest

from stomprelay.broker.message import Message, MessageHead
from stomprelay.broker.queue import QueuedMessage
from stomprelay.session.subscriptions import AUTO, CUMULATIVE, INDIVIDUAL
from stomprelay.wire.dialect import DIALECTS, V1_0, V1_1, V1_2, Dialect
from stomprelay.wire.errors import LimitError
from tests.broker.parts import MEMORY, OneTopic, bodies, consumer, joined, message, publish, queue

dialects = pytest.mark.parametrize("dialect", DIALECTS.values(), ids=lambda dialect: dialect.version.decode())


def queued(number: int) -> QueuedMessage:
    """An entry of that order, of a message with that number for id and body."""
    text = b"%d" % number
    return QueuedMessage(
        Message(b"m-" + text, MessageHead(b"/queue/a", b"foo:bar\n\n", []), text + b"\0"), number
    )


@pytest.mark.parametrize(
    ("dialect", "mode", "id", "expected"),
    [
        (V1_0, AUTO, None, b"MESSAGE\ndestination:/queue/a\nmessage-id:m-1\nfoo:bar\n\n1\0"),
        (V1_0, CUMULATIVE, None, b"MESSAGE\ndestination:/queue/a\nmessage-id:m-1\nfoo:bar\n\n1\0"),
        (V1_0, AUTO, b"s", b"MESSAGE\nsubscription:s\ndestination:/queue/a\nmessage-id:m-1\nfoo:bar\n\n1\0"),
        (V1_1, AUTO, b"s", b"MESSAGE\nsubscription:s\ndestination:/queue/a\nmessage-id:m-1\nfoo:bar\n\n1\0"),
        (
            V1_1,
            INDIVIDUAL,
            b"s",
            b"MESSAGE\nsubscription:s\ndestination:/queue/a\nmessage-id:m-1\nfoo:bar\n\n1\0",
        ),
        (V1_2, AUTO, b"s", b"MESSAGE\nsubscription:s\ndestination:/queue/a\nmessage-id:m-1\nfoo:bar\n\n1\0"),
        (
            V1_2,
            CUMULATIVE,
            b"s",
            b"MESSAGE\nsubscription:s\ndestination:/queue/a\nmessage-id:m-1\nack:7-m-1\nfoo:bar\n\n1\0",
        ),
    ],
)
def test_a_message_is_headed_for_its_consumer(
    dialect: Dialect, mode: bytes, id: bytes | None, expected: bytes
) -> None:
    """The subscription where it has a name, the `ack` header where the version and the mode want one."""
    one = consumer(dialect, mode, id)
    one.write(queued(1).message, False)
    assert one.buffer.drain() == expected


@dialects
def test_a_second_delivery_says_so(dialect: Dialect) -> None:
    """`redelivered` stands before the sender's own headers."""
    one = consumer(dialect)
    one.write(queued(1).message, True)
    assert b"\nmessage-id:m-1\nredelivered:true\nfoo:bar\n\n" in one.buffer.drain()


def test_the_window_bounds_what_awaits_an_ack() -> None:
    """And nothing else does, while the outbox is ready."""
    one = consumer(mode=INDIVIDUAL, prefetch=2)
    able = [one.able]
    for number in (1, 2):
        one.take(queued(number))
        able.append(one.able)
    one.acknowledged(b"m-1")
    able.append(one.able)
    one.buffer.paused()
    able.append(one.able)
    assert able == [True, True, False, True, False]


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
    slow.buffer.paused()
    publish(shared, 1, 2, 3)
    assert (bodies(slow), bodies(full), bodies(able)) == ([], [b"1"], [b"2", b"3"])
    able.buffer.paused()
    publish(shared, 4, 5)
    assert len(shared) == 2
    (one,) = full.acknowledged(b"1")
    shared.settled(one)
    shared.consumer_ready(full)
    assert bodies(full) == [b"4"]
    slow.buffer.resumed()
    slow.buffer.start_turn(1000)
    shared.consumer_ready(slow)
    assert bodies(slow) == [b"5"]


def test_it_is_missed_while_anything_depends_on_it() -> None:
    """Messages that wait, messages that await an ACK, consumers."""
    shared, _ = queue()
    idle = [shared.idle]
    publish(shared, 1)
    idle.append(shared.idle)
    consumer = joined(shared, INDIVIDUAL)
    idle.append(shared.idle)
    (one,) = consumer.acknowledged(b"1")
    shared.left(consumer)
    idle.append(shared.idle)
    shared.settled(one)
    idle.append(shared.idle)
    assert idle == [True, False, False, False, True]


def test_so_many_messages_may_wait_and_no_more() -> None:
    """The one too many is refused and changes nothing; what is taken makes room."""
    shared, memory = queue(max_messages=2)
    publish(shared, 1, 2)
    used = memory.used
    with pytest.raises(LimitError, match="the queue is full"):
        publish(shared, 3)
    assert (len(shared), memory.used) == (2, used)
    consumer = joined(shared, INDIVIDUAL, 1)
    publish(shared, 3)
    assert bodies(consumer) == [b"1"]


def test_so_many_bytes_may_wait_and_no_more() -> None:
    """A single message may wait however large it is, for else it could never pass."""
    shared, _ = queue(max_bytes=1000)
    shared.publish(message(1, 5000))
    with pytest.raises(LimitError, match="the queue is full"):
        publish(shared, 2)
    joined(shared)
    publish(shared, 2)


def test_what_comes_back_needs_no_room() -> None:
    """A message that was accepted once is never refused."""
    shared, _ = queue(max_messages=1)
    consumer = joined(shared, INDIVIDUAL, 2)
    publish(shared, 1, 2, 3)
    shared.left(consumer)
    assert len(shared) == 3
    with pytest.raises(LimitError):
        publish(shared, 4)


def test_the_memory_is_shared() -> None:
    """A queue with room refuses what no memory is left for, unless nothing has to be kept."""
    shared, memory = queue()
    large = message(9, MEMORY - message(9).size - message(1).size)
    memory.hold(large)
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
    memory.release(large)
    assert memory.used == 0


def test_a_private_queue_dies_with_its_consumer() -> None:
    """What waits, what awaits its ACK and what comes back later is settled."""
    own, memory = queue(private=True)
    consumer = joined(own, INDIVIDUAL, 2)
    publish(own, 1, 2, 3)
    taken = consumer.acknowledged(b"1")
    own.left(consumer)
    assert own.kept == 1
    own.returned(taken)
    assert (own.kept, len(own), own.waiting_bytes, memory.used) == (0, 0, 0, 0)


def test_the_oldest_can_be_thrown_away() -> None:
    """Of those that wait, until none is left."""
    shared, memory = queue()
    publish(shared, 1, 2)
    assert shared.drop_oldest()
    assert len(shared) == 1
    assert shared.drop_oldest()
    assert not shared.drop_oldest()
    assert memory.used == 0


def test_the_slow_have_so_much_patience_and_no_more() -> None:
    """Whoever is not able has messages wait for it up to the bound; one more and it is reported, no other."""
    place = OneTopic(max_messages=2)
    slow, quick = place.joined(), place.joined()
    slow.buffer.paused()
    for number in (1, 2, 3):
        place.topic.publish(message(number))
    assert bodies(quick) == [b"1", b"2", b"3"]
    assert place.overran == [slow.buffer]
    assert len(slow.queue) == 2


def test_the_slow_have_so_many_bytes_and_no_more() -> None:
    """As with messages."""
    place = OneTopic(max_bytes=2000)
    slow = place.joined(INDIVIDUAL, 1)
    for number in (1, 2, 3):
        place.topic.publish(message(number, 1000))
    assert place.overran == [slow.buffer]


def test_without_memory_nobody_gets_it() -> None:
    """The publisher is told, and no subscriber has what another lacks."""
    place = OneTopic()
    keeper, quick = place.joined(INDIVIDUAL), place.joined()
    place.topic.publish(message(1, MEMORY - 600))
    with pytest.raises(LimitError, match="memory is full"):
        place.topic.publish(message(2))
    assert (bodies(keeper), bodies(quick)) == ([b"1"], [b"1"])
    place.topic.left(keeper)
    place.topic.publish(message(3))
    assert bodies(quick) == [b"3"]


def test_without_memory_what_need_not_be_kept_passes() -> None:
    """The full memory of others stops nobody who takes messages at once."""
    place = OneTopic()
    quick = place.joined()
    large = message(9, MEMORY)
    place.memory.hold(large)
    place.topic.publish(message(1))
    assert bodies(quick) == [b"1"]
