"""The bounds as settings, and the count of what is kept."""

from dataclasses import fields

import pytest

from stomprelay.broker.bounds import DEFAULTS, Bounds, Memory
from stomprelay.broker.message import Message, MessageHead
from stomprelay.wire.errors import LimitError
from stomprelay.wire.frame import Limits


def test_every_bound_is_a_positive_number() -> None:
    """The configuration reads each as a count or as seconds, by the type of its default."""
    for field in fields(Bounds):
        assert type(field.default) in {int, float}
        assert getattr(DEFAULTS, field.name) > 0


def test_frames_are_bounded_as_on_any_listener() -> None:
    """Who says nothing of frames gets the decoder's own limits; who does is obeyed."""
    assert DEFAULTS.limits == Limits()
    assert Bounds(headers=3, header_line=4, body=5).limits == Limits(3, 4, 5)


def test_one_place_cannot_take_all_the_memory() -> None:
    """A full queue, or a slow subscriber, leaves room for the others."""
    assert DEFAULTS.topic_bytes < DEFAULTS.queue_bytes < DEFAULTS.memory
    assert DEFAULTS.body < DEFAULTS.queue_bytes


SIZE = 1000


def message(size: int = SIZE) -> Message:
    """A message of this size, all told."""
    head = MessageHead(b"/queue/a", b"\n", [])
    made = Message(b"b-1", head, b"\0" * (size - head.size))
    assert made.size == size
    return made


def test_a_message_counts_once() -> None:
    """However many places hold it; and not at all when the last let go."""
    memory, one = Memory(5000), message()
    memory.hold(one)
    memory.hold(one)
    assert memory.used == SIZE
    memory.release(one)
    assert memory.used == SIZE
    memory.release(one)
    assert memory.used == 0


def test_the_bound_is_told_before_it_is_passed() -> None:
    """Up to the bound messages are admitted, then refused, save those that are held anyway."""
    memory, one, two = Memory(2 * SIZE - 1), message(), message()
    memory.admit(one)
    memory.hold(one)
    assert not memory.fits(two)
    assert memory.fits(one)
    with pytest.raises(LimitError, match="the broker's memory is full"):
        memory.admit(two)
    memory.release(one)
    memory.admit(two)
