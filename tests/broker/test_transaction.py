"""What waits for COMMIT: all of it happens, or nothing."""

import pytest

from stomprelay.broker.destinations import Transaction
from stomprelay.session.subscriptions import CUMULATIVE, INDIVIDUAL
from stomprelay.wire.errors import LimitError
from tests.broker.test_destinations import Place
from tests.broker.test_queue import bodies


def test_a_message_is_sent_when_it_is_committed() -> None:
    """And kept in the memory until then."""
    place = Place()
    consumer = place.joined(b"/queue/a")
    transaction = Transaction(place.all, 10)
    one, two = place.message(b"/queue/a", b"1"), place.message(b"/queue/a", b"2")
    transaction.sent(one)
    transaction.sent(two)
    assert bodies(consumer) == []
    assert place.all.memory.used == one.size + two.size
    transaction.committed()
    assert bodies(consumer) == [b"1", b"2"]
    assert place.all.memory.used == 0


def test_an_aborted_message_is_forgotten() -> None:
    """By everybody."""
    place = Place()
    transaction = Transaction(place.all, 10)
    transaction.sent(place.message(b"/queue/a", b"1"))
    transaction.aborted()
    assert (place.all.memory.used, len(place.all)) == (0, 0)


def test_an_ack_settles_when_it_is_committed() -> None:
    """Meanwhile the window is free for more."""
    place = Place()
    consumer = place.joined(b"/queue/a", INDIVIDUAL, 1)
    place.all.publish(place.message(b"/queue/a", b"1"))
    place.all.publish(place.message(b"/queue/a", b"2"))
    transaction = Transaction(place.all, 10)
    transaction.acknowledged(consumer.named(b"b-1"), refused=False)
    consumer.queue.revived(consumer)
    assert bodies(consumer) == [b"1", b"2"]
    assert place.all.entries == {b"/queue/a": 2}
    transaction.committed()
    assert place.all.entries == {b"/queue/a": 1}


def test_a_nack_redelivers_when_it_is_committed() -> None:
    """And not before."""
    place = Place()
    consumer = place.joined(b"/queue/a", CUMULATIVE)
    place.all.publish(place.message(b"/queue/a", b"1"))
    transaction = Transaction(place.all, 10)
    transaction.acknowledged(consumer.named(b"b-1"), refused=True)
    assert bodies(consumer) == [b"1"]
    transaction.committed()
    assert bodies(consumer) == [b"1"]


def test_an_aborted_ack_is_awaited_again() -> None:
    """In the old order, and the message is not delivered again while its consumer has it."""
    place = Place()
    consumer = place.joined(b"/queue/a", CUMULATIVE)
    for body in (b"1", b"2", b"3"):
        place.all.publish(place.message(b"/queue/a", body))
    transaction = Transaction(place.all, 10)
    transaction.acknowledged(consumer.named(b"b-1"), refused=False)
    transaction.acknowledged(consumer.named(b"b-2"), refused=True)
    transaction.aborted()
    assert list(consumer.unsettled) == [b"b-1", b"b-2", b"b-3"]
    assert bodies(consumer) == [b"1", b"2", b"3"]


def test_an_aborted_ack_of_one_who_left_goes_to_others() -> None:
    """As it would have without the transaction; a committed one stays settled."""
    for commit in (True, False):
        place = Place()
        consumer = place.joined(b"/queue/a", INDIVIDUAL)
        place.all.publish(place.message(b"/queue/a", b"1"))
        transaction = Transaction(place.all, 10)
        transaction.acknowledged(consumer.named(b"b-1"), refused=False)
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
    place = Place()
    consumer = place.joined(b"/queue/a", INDIVIDUAL)
    place.all.publish(place.message(b"/queue/a", b"1"))
    transaction = Transaction(place.all, 10)
    transaction.acknowledged(consumer.named(b"b-1"), refused=False)
    place.left(consumer)
    assert place.all.entries == {b"/queue/a": 1}
    transaction.committed()
    assert len(place.all) == 0


def test_what_has_no_room_stops_the_whole() -> None:
    """Nothing of it happened, and it can be aborted."""
    place = Place(queue_messages=1)
    other = place.joined(b"/queue/b")
    consumer = place.joined(b"/queue/c", INDIVIDUAL)
    place.all.publish(place.message(b"/queue/c", b"0"))
    transaction = Transaction(place.all, 10)
    transaction.acknowledged(consumer.named(b"b-1"), refused=False)
    transaction.sent(place.message(b"/queue/b", b"1"))
    transaction.sent(place.message(b"/queue/a", b"2"))
    transaction.sent(place.message(b"/queue/a", b"3"))
    with pytest.raises(LimitError, match="the queue is full"):
        transaction.committed()
    assert bodies(other) == []
    assert place.all.entries == {b"/queue/b": 0, b"/queue/c": 1}
    transaction.aborted()
    assert list(consumer.unsettled) == [b"b-1"]
    place.left(consumer)
    assert place.all.entries == {b"/queue/b": 0, b"/queue/c": 1}


def test_a_transaction_has_its_measure() -> None:
    """In frames and in memory; what was one too many has not happened."""
    place = Place()
    consumer = place.joined(b"/queue/a", INDIVIDUAL)
    for body in (b"1", b"2"):
        place.all.publish(place.message(b"/queue/a", body))
    transaction = Transaction(place.all, 1)
    transaction.acknowledged(consumer.named(b"b-1"), refused=False)
    with pytest.raises(LimitError, match="the transaction is too large"):
        transaction.acknowledged(consumer.named(b"b-2"), refused=False)
    with pytest.raises(LimitError, match="the transaction is too large"):
        transaction.sent(place.message(b"/queue/a", b"3"))
    assert list(consumer.unsettled) == [b"b-2"]
    small = Place(memory=1000)
    with pytest.raises(LimitError, match="memory is full"):
        Transaction(small.all, 1).sent(small.message(b"/queue/a", b"1", 1000))
    assert small.all.memory.used == 0
