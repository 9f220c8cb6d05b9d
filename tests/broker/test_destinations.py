"""Destinations by name, and the dead letters."""

import pytest

from stomprelay.broker.bounds import Bounds
from stomprelay.broker.destinations import DEAD_LETTERS, Destinations
from stomprelay.broker.message import Head, Message
from stomprelay.broker.output import Outbox
from stomprelay.broker.queue import Consumer
from stomprelay.session.subscriptions import AUTO, INDIVIDUAL
from stomprelay.wire.dialect import V1_2
from stomprelay.wire.errors import LimitError
from tests.broker.test_outbox import outbox
from tests.broker.test_queue import bodies


class Place:
    """Destinations, who was too slow for a topic, and how many dead letters were thrown away."""

    def __init__(self, **bounds: int) -> None:
        self.overran: list[Outbox] = []
        self.lost: list[int] = []
        self.all = Destinations(Bounds(**bounds), b"b", self.overran.append, self.lost.append)

    def message(self, destination: bytes, body: bytes, size: int = 0) -> Message:
        """A message to a destination."""
        return self.all.message(Head(destination, b"\n", []), body + b"\0" * (size + 1))

    def joined(self, destination: bytes, mode: bytes = AUTO, prefetch: int = 1000) -> Consumer:
        """A consumer that subscribed and may be served."""
        consumer = Consumer(b"1", None, destination, mode, prefetch, V1_2, outbox())
        self.all.joined(consumer)
        consumer.queue.revived(consumer)
        return consumer

    def left(self, consumer: Consumer) -> None:
        """A consumer that is gone, and nothing else."""
        self.all.left(consumer)
        consumer.queue.pump()
        self.all.tidy(consumer.queue)

    def refuse(self, consumer: Consumer, times: int) -> None:
        """The consumer refuses what it has, again and again."""
        for _ in range(times):
            self.all.refused(consumer.named(next(iter(consumer.unsettled))))
            consumer.queue.revived(consumer)


def test_ids_are_unique() -> None:
    """They begin with the broker's name."""
    place = Place()
    assert [place.message(b"a", b"").id for _ in range(3)] == [b"b-1", b"b-2", b"b-3"]


@pytest.mark.parametrize("name", [b"/queue/a", b"a", b"/exchange/a/b", b"topic", b"/topicality"])
def test_what_is_not_a_topic_is_a_queue(name: bytes) -> None:
    """What nobody is there for waits; two consumers share it."""
    place = Place()
    place.all.publish(place.message(name, b"1"))
    first, second = place.joined(name), place.joined(name)
    place.all.publish(place.message(name, b"2"))
    place.all.publish(place.message(name, b"3"))
    assert bodies(first) + bodies(second) == [b"1", b"2", b"3"]


def test_a_topic_is_known_by_its_name() -> None:
    """What nobody is there for is gone, and leaves no trace; two consumers get a copy each."""
    place = Place()
    place.all.publish(place.message(b"/topic/a", b"1"))
    assert len(place.all) == 0
    first, second = place.joined(b"/topic/a"), place.joined(b"/topic/a")
    place.all.publish(place.message(b"/topic/a", b"2"))
    assert (bodies(first), bodies(second)) == ([b"2"], [b"2"])


def test_destinations_go_when_nobody_would_miss_them() -> None:
    """A queue with its last message and consumer, a topic with its last consumer."""
    place = Place()
    place.all.publish(place.message(b"/queue/a", b"1"))
    consumers = [place.joined(name, INDIVIDUAL) for name in (b"/queue/a", b"/topic/a", b"/queue/b")]
    assert place.all.entries == {b"/queue/a": 1, b"/topic/a": 0, b"/queue/b": 0}
    for consumer in consumers:
        place.left(consumer)
    assert place.all.entries == {b"/queue/a": 1}
    last = place.joined(b"/queue/a")
    place.left(last)
    assert (len(place.all), place.all.memory.used) == (0, 0)


def test_a_message_that_was_refused_leaves_no_queue() -> None:
    """Otherwise names alone would fill the memory."""
    place = Place(memory=1)
    with pytest.raises(LimitError):
        place.all.publish(place.message(b"/queue/a", b"1"))
    assert len(place.all) == 0


def test_room_is_seen_to_for_all_or_none() -> None:
    """Messages count by their destination, one that does not exist yet included; topics have room."""
    place = Place(queue_messages=2)
    place.all.publish(place.message(b"/queue/a", b"1"))
    place.all.require_room([place.message(b"/queue/a", b"2"), place.message(b"/queue/b", b"3")])
    place.all.require_room([place.message(b"/topic/a", b"2")] * 9)
    for name, count in ((b"/queue/a", 2), (b"/queue/b", 3)):
        with pytest.raises(LimitError, match="the queue is full"):
            place.all.require_room([place.message(name, b"2")] * count)
    assert place.all.entries == {b"/queue/a": 1}


def test_room_is_seen_to_in_octets_too() -> None:
    """The sum of what would come counts."""
    place = Place(queue_bytes=3000)
    with pytest.raises(LimitError, match="the queue is full"):
        place.all.require_room([place.message(b"/queue/a", b"1", 1000)] * 2)


def test_what_has_room_is_added_without_a_question() -> None:
    """To a queue that exists or not, to a topic that has subscribers or not."""
    place = Place()
    consumer = place.joined(b"/topic/a")
    for name in (b"/queue/a", b"/queue/a", b"/topic/a", b"/topic/b"):
        place.all.add(place.message(name, b"1"))
    assert place.all.entries == {b"/topic/a": 0, b"/queue/a": 2}
    assert bodies(consumer) == [b"1"]


def test_a_message_refused_too_often_is_a_dead_letter() -> None:
    """It is delivered `refusals` times, then moved with a header that says where from, under a new id."""
    place = Place(refusals=3)
    consumer = place.joined(b"/queue/a", INDIVIDUAL)
    place.all.publish(place.message(b"/queue/a", b"poison"))
    place.refuse(consumer, 3)
    assert bodies(consumer) == [b"poison"] * 3
    assert place.all.entries == {b"/queue/a": 0, DEAD_LETTERS: 1}
    reader = place.joined(DEAD_LETTERS)
    assert reader.outbox.drained() == (
        b"MESSAGE\ndestination:/queue/DLQ\nmessage-id:b-2\noriginal-destination:/queue/a\n\npoison\0"
    )
    assert place.all.memory.used == 0


def test_beyond_the_dead_letters_there_is_nothing() -> None:
    """What is refused there is kept there."""
    place = Place(refusals=2)
    place.all.publish(place.message(DEAD_LETTERS, b"1"))
    consumer = place.joined(DEAD_LETTERS, INDIVIDUAL)
    place.refuse(consumer, 9)
    assert bodies(consumer) == [b"1"] * 10
    assert list(consumer.unsettled) == [b"b-1"]
    assert place.all.entries == {DEAD_LETTERS: 1}


def test_every_subscriber_of_a_topic_has_its_own_dead_letter() -> None:
    """One who refuses takes nothing from the other; both letters can be told apart."""
    place = Place(refusals=1)
    consumers = [place.joined(b"/topic/a", INDIVIDUAL) for _ in range(2)]
    place.all.publish(place.message(b"/topic/a", b"1"))
    for consumer in consumers:
        place.refuse(consumer, 1)
    reader = place.joined(DEAD_LETTERS, INDIVIDUAL)
    assert list(reader.unsettled) == [b"b-2", b"b-3"]


def test_full_dead_letters_let_the_oldest_go() -> None:
    """And say how many were lost; nobody is disconnected for it."""
    place = Place(refusals=1, queue_messages=2)
    consumer = place.joined(b"/queue/a", INDIVIDUAL)
    for body in (b"1", b"2", b"3"):
        place.all.publish(place.message(b"/queue/a", body))
        place.refuse(consumer, 1)
    assert place.lost == [1]
    assert bodies(place.joined(DEAD_LETTERS)) == [b"2", b"3"]


def test_a_letter_too_large_to_keep_is_lost() -> None:
    """With all the letters that could not make room for it."""
    place = Place(refusals=1, memory=2000)
    place.all.publish(place.message(DEAD_LETTERS, b"old"))
    consumer = place.joined(b"/topic/a", INDIVIDUAL)
    other = place.joined(b"/topic/a", INDIVIDUAL)
    place.all.publish(place.message(b"/topic/a", b"1", 700))
    place.refuse(consumer, 1)
    assert place.lost == [2]
    place.left(other)
    assert place.all.entries == {b"/topic/a": 0}
    assert place.all.memory.used == 0
