"""The bounds as settings."""

from dataclasses import fields

from stomprelay.broker.bounds import DEFAULTS, Bounds
from stomprelay.wire.limits import Limits


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
