"""A topic: everybody's copy, and nobody waits for the slow."""

import pytest

from stomprelay.broker.bounds import Memory
from stomprelay.broker.output import Outbox
from stomprelay.broker.queue import Consumer, Topic
from stomprelay.session.subscriptions import AUTO, INDIVIDUAL
from stomprelay.wire.dialect import V1_2
from stomprelay.wire.errors import LimitError
from tests.broker.test_outbox import outbox
from tests.broker.test_queue import bodies, message

MEMORY = 10_000


class Place:
    """A topic with its memory and those who were too slow for it."""

    def __init__(self, most: int = 3, most_octets: int = MEMORY) -> None:
        self.memory = Memory(MEMORY)
        self.overran: list[Outbox] = []
        self.topic = Topic(b"/topic/a", self.memory, most, most_octets, self.overran.append)

    def joined(self, mode: bytes = AUTO, prefetch: int = 1000) -> Consumer:
        """A consumer that subscribed and may be served."""
        consumer = Consumer(b"1", None, b"/topic/a", mode, prefetch, V1_2, outbox())
        self.topic.joined(consumer)
        consumer.queue.revived(consumer)
        return consumer


def test_everybody_gets_a_copy() -> None:
    """Who is subscribed when the message comes, and from then on only."""
    place = Place()
    first, second = place.joined(), place.joined(INDIVIDUAL)
    place.topic.publish(message(1))
    late = place.joined()
    place.topic.left(first)
    place.topic.publish(message(2))
    assert [bodies(each) for each in (first, second, late)] == [[b"1"], [b"1", b"2"], [b"2"]]


def test_copies_share_the_memory() -> None:
    """One message is kept however many wait for it, and goes with the last of them."""
    place = Place()
    consumers = [place.joined(INDIVIDUAL) for _ in range(3)]
    one = message(1)
    place.topic.publish(one)
    assert place.memory.used == one.size
    assert place.topic.entries == 3
    for consumer in consumers[:2]:
        (entry,) = consumer.named(b"1")
        consumer.queue.settled(entry)
    assert place.memory.used == one.size
    place.topic.left(consumers[2])
    assert (place.memory.used, place.topic.entries) == (0, 0)
    assert not place.topic.idle


def test_the_slow_have_so_much_patience_and_no_more() -> None:
    """Whoever is not able has messages wait for it up to the bound; one more and it is reported, no other."""
    place = Place(most=2)
    slow, quick = place.joined(), place.joined()
    slow.outbox.paused()
    for number in (1, 2, 3):
        place.topic.publish(message(number))
    assert place.overran == [slow.outbox]
    assert bodies(quick) == [b"1", b"2", b"3"]
    assert len(slow.queue) == 2


def test_the_slow_have_so_many_octets_and_no_more() -> None:
    """As with messages."""
    place = Place(most_octets=2000)
    slow = place.joined(INDIVIDUAL, 1)
    for number in (1, 2, 3):
        place.topic.publish(message(number, 1000))
    assert place.overran == [slow.outbox]


def test_without_memory_nobody_gets_it() -> None:
    """The publisher is told, and no subscriber has what another lacks."""
    place = Place()
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
    place = Place()
    quick = place.joined()
    hog = message(9, MEMORY)
    place.memory.hold(hog)
    place.topic.publish(message(1))
    assert bodies(quick) == [b"1"]


def test_it_is_idle_without_subscribers() -> None:
    """Messages that nobody is there for are nobody's."""
    place = Place()
    place.topic.publish(message(1))
    idle = [place.topic.idle]
    consumer = place.joined()
    idle.append(place.topic.idle)
    assert bodies(consumer) == []
    place.topic.left(consumer)
    idle.append(place.topic.idle)
    assert idle == [True, False, True]
