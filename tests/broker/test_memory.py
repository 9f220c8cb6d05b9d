"""The account of what is kept."""

import pytest

from stomprelay.broker.bounds import Memory
from stomprelay.broker.message import Head, Message
from stomprelay.wire.errors import LimitError

LETTER = 1000


def message(size: int = LETTER) -> Message:
    """A message of this size, all told."""
    head = Head(b"/queue/a", b"\n", [])
    made = Message(b"b-1", head, b"\0" * (size - head.size))
    assert made.size == size
    return made


def test_a_message_counts_once() -> None:
    """However many places hold it; and not at all when the last let go."""
    memory, one = Memory(5000), message()
    memory.hold(one)
    memory.hold(one)
    assert memory.used == LETTER
    memory.release(one)
    assert memory.used == LETTER
    memory.release(one)
    assert memory.used == 0


def test_the_bound_is_told_before_it_is_passed() -> None:
    """Up to the bound messages are admitted, then refused, save those that are held anyway."""
    memory, one, two = Memory(2 * LETTER - 1), message(), message()
    memory.admit(one)
    memory.hold(one)
    assert not memory.fits(two)
    assert memory.fits(one)
    with pytest.raises(LimitError, match="the broker's memory is full"):
        memory.admit(two)
    memory.release(one)
    memory.admit(two)
