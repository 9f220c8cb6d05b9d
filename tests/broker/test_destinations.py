"""Destinations by name, the dead letters, and what waits for COMMIT: all of it happens, or nothing."""

import pytest

from stomprelay.broker.destinations import DEAD_LETTERS, PendingTransaction
from stomprelay.session.subscriptions import INDIVIDUAL
from stomprelay.wire.errors import LimitError
from tests.broker.parts import AllDestinations, bodies


def test_a_topic_is_known_by_its_name() -> None:
    """What nobody is there for is gone, and leaves no trace; two consumers get a copy each."""
    place = AllDestinations()
    place.all.publish(place.message(b"/topic/a", b"1"))
    assert len(place.all) == 0
    first, second = place.joined(b"/topic/a"), place.joined(b"/topic/a")
    place.all.publish(place.message(b"/topic/a", b"2"))
    assert (bodies(first), bodies(second)) == ([b"2"], [b"2"])


def test_destinations_go_when_nobody_would_miss_them() -> None:
    """A queue with its last message and consumer, a topic with its last consumer."""
    place = AllDestinations()
    place.all.publish(place.message(b"/queue/a", b"1"))
    consumers = [place.joined(name, INDIVIDUAL) for name in (b"/queue/a", b"/topic/a", b"/queue/b")]
    assert place.all.kept == {b"/queue/a": 1, b"/topic/a": 0, b"/queue/b": 0}
    for consumer in consumers:
        place.left(consumer)
    assert place.all.kept == {b"/queue/a": 1}
    last = place.joined(b"/queue/a")
    place.left(last)
    assert (len(place.all), place.all.memory.used) == (0, 0)


def test_a_message_that_was_refused_leaves_no_queue() -> None:
    """Otherwise names alone would fill the memory."""
    place = AllDestinations(memory=1)
    with pytest.raises(LimitError):
        place.all.publish(place.message(b"/queue/a", b"1"))
    assert len(place.all) == 0


def test_room_is_seen_to_for_all_or_none() -> None:
    """Messages count by their destination, one that does not exist yet included; topics have room."""
    place = AllDestinations(queue_messages=2)
    place.all.publish(place.message(b"/queue/a", b"1"))
    place.all.require_room([place.message(b"/queue/a", b"2"), place.message(b"/queue/b", b"3")])
    place.all.require_room([place.message(b"/topic/a", b"2")] * 9)
    for name, count in ((b"/queue/a", 2), (b"/queue/b", 3)):
        with pytest.raises(LimitError, match="the queue is full"):
            place.all.require_room([place.message(name, b"2")] * count)
    assert place.all.kept == {b"/queue/a": 1}


def test_room_is_seen_to_in_bytes_too() -> None:
    """The sum of what would come counts."""
    place = AllDestinations(queue_bytes=3000)
    with pytest.raises(LimitError, match="the queue is full"):
        place.all.require_room([place.message(b"/queue/a", b"1", 1000)] * 2)


def test_what_has_room_is_added_without_a_question() -> None:
    """To a queue that exists or not, to a topic that has subscribers or not."""
    place = AllDestinations()
    consumer = place.joined(b"/topic/a")
    for name in (b"/queue/a", b"/queue/a", b"/topic/a", b"/topic/b"):
        place.all.add(place.message(name, b"1"))
    assert place.all.kept == {b"/topic/a": 0, b"/queue/a": 2}
    assert bodies(consumer) == [b"1"]


def test_beyond_the_dead_letters_there_is_nothing() -> None:
    """What is refused there is kept there."""
    place = AllDestinations(refusals=2)
    place.all.publish(place.message(DEAD_LETTERS, b"1"))
    consumer = place.joined(DEAD_LETTERS, INDIVIDUAL)
    place.refuse(consumer, 9)
    assert bodies(consumer) == [b"1"] * 10
    assert list(consumer.unsettled) == [b"b-1"]
    assert place.all.kept == {DEAD_LETTERS: 1}


def test_every_subscriber_of_a_topic_has_its_own_dead_letter() -> None:
    """One who refuses takes nothing from the other; both letters can be told apart."""
    place = AllDestinations(refusals=1)
    consumers = [place.joined(b"/topic/a", INDIVIDUAL) for _ in range(2)]
    place.all.publish(place.message(b"/topic/a", b"1"))
    for consumer in consumers:
        place.refuse(consumer, 1)
    reader = place.joined(DEAD_LETTERS, INDIVIDUAL)
    assert list(reader.unsettled) == [b"b-2", b"b-3"]


def test_full_dead_letters_let_the_oldest_go() -> None:
    """And say how many were lost; nobody is disconnected for it."""
    place = AllDestinations(refusals=1, queue_messages=2)
    consumer = place.joined(b"/queue/a", INDIVIDUAL)
    for body in (b"1", b"2", b"3"):
        place.all.publish(place.message(b"/queue/a", body))
        place.refuse(consumer, 1)
    assert place.lost == [1]
    assert bodies(place.joined(DEAD_LETTERS)) == [b"2", b"3"]


def test_a_letter_too_large_to_keep_is_lost() -> None:
    """With all the letters that could not make room for it."""
    place = AllDestinations(refusals=1, memory=2000)
    place.all.publish(place.message(DEAD_LETTERS, b"old"))
    consumer = place.joined(b"/topic/a", INDIVIDUAL)
    other = place.joined(b"/topic/a", INDIVIDUAL)
    place.all.publish(place.message(b"/topic/a", b"1", 700))
    place.refuse(consumer, 1)
    assert place.lost == [2]
    place.left(other)
    assert place.all.kept == {b"/topic/a": 0}
    assert place.all.memory.used == 0


def test_an_aborted_ack_of_one_who_left_goes_to_others() -> None:
    """As it would have without the transaction; a committed one stays settled."""
    for commit in (True, False):
        place = AllDestinations()
        consumer = place.joined(b"/queue/a", INDIVIDUAL)
        place.all.publish(place.message(b"/queue/a", b"1"))
        transaction = PendingTransaction(place.all, 10)
        transaction.acknowledged(consumer, consumer.acknowledged(b"b-1"), refused=False)
        place.left(consumer)
        other = place.joined(b"/queue/a")
        assert bodies(other) == []
        if commit:
            transaction.committed()
        else:
            transaction.aborted()
        assert bodies(other) == ([] if commit else [b"1"])
        place.left(other)
        assert (len(place.all), place.all.memory.used) == (0, 0)


def test_a_queue_that_was_kept_for_a_transaction_goes_with_it() -> None:
    """When nobody else would miss it."""
    place = AllDestinations()
    consumer = place.joined(b"/queue/a", INDIVIDUAL)
    place.all.publish(place.message(b"/queue/a", b"1"))
    transaction = PendingTransaction(place.all, 10)
    transaction.acknowledged(consumer, consumer.acknowledged(b"b-1"), refused=False)
    place.left(consumer)
    assert place.all.kept == {b"/queue/a": 1}
    transaction.committed()
    assert len(place.all) == 0


def test_what_has_no_room_stops_the_whole() -> None:
    """Nothing of it happened, and it can be aborted."""
    place = AllDestinations(queue_messages=1)
    other = place.joined(b"/queue/b")
    consumer = place.joined(b"/queue/c", INDIVIDUAL)
    place.all.publish(place.message(b"/queue/c", b"0"))
    transaction = PendingTransaction(place.all, 10)
    transaction.acknowledged(consumer, consumer.acknowledged(b"b-1"), refused=False)
    transaction.sent(place.message(b"/queue/b", b"1"))
    transaction.sent(place.message(b"/queue/a", b"2"))
    transaction.sent(place.message(b"/queue/a", b"3"))
    with pytest.raises(LimitError, match="the queue is full"):
        transaction.committed()
    assert bodies(other) == []
    assert place.all.kept == {b"/queue/b": 0, b"/queue/c": 1}
    transaction.aborted()
    assert list(consumer.unsettled) == [b"b-1"]
    place.left(consumer)
    assert place.all.kept == {b"/queue/b": 0, b"/queue/c": 1}


def test_a_transaction_has_its_measure() -> None:
    """In frames and in memory; what was one too many has not happened."""
    place = AllDestinations()
    consumer = place.joined(b"/queue/a", INDIVIDUAL)
    for body in (b"1", b"2"):
        place.all.publish(place.message(b"/queue/a", body))
    transaction = PendingTransaction(place.all, 1)
    transaction.acknowledged(consumer, consumer.acknowledged(b"b-1"), refused=False)
    with pytest.raises(LimitError, match="the transaction is too large"):
        transaction.acknowledged(consumer, consumer.acknowledged(b"b-2"), refused=False)
    with pytest.raises(LimitError, match="the transaction is too large"):
        transaction.sent(place.message(b"/queue/a", b"3"))
    assert list(consumer.unsettled) == [b"b-2"]
    small = AllDestinations(memory=1000)
    with pytest.raises(LimitError, match="memory is full"):
        PendingTransaction(small.all, 1).sent(small.message(b"/queue/a", b"1", 1000))
    assert small.all.memory.used == 0
