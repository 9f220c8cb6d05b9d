"""What the core asks of the service: plain values that a script can compare."""

import dataclasses
from typing import get_args

import pytest

from stomprelay.session import effects
from stomprelay.session.effects import Close, Effect, Event, GiveWay, How, Note, Pause, Resume, Send, Wake
from stomprelay.session.leg import Leg, Side
from stomprelay.wire.head import Limits

LEG, OTHER = Leg(Side.DOWNSTREAM, Limits()), Leg(Side.UPSTREAM, Limits())

CASES = [
    (Send(LEG, b"x"), Send(LEG, b"x"), Send(LEG, b"y")),
    (Send(LEG, b"x"), Send(LEG, b"x"), Send(OTHER, b"x")),
    (Close(LEG, How.LINGER), Close(LEG, How.LINGER), Close(LEG, How.ABORT)),
    (Pause(LEG), Pause(LEG), Pause(OTHER)),
    (Pause(LEG), Pause(LEG), Resume(LEG)),
    (Resume(LEG), Resume(LEG), Resume(OTHER)),
    (GiveWay(LEG), GiveWay(LEG), GiveWay(OTHER)),
    (Wake(1.0), Wake(1.0), Wake(2.0)),
    (Note(Event.ERROR, "x"), Note(Event.ERROR, "x"), Note(Event.LOST, "x")),
    (Note(Event.ERROR, "x", {"a": 1}), Note(Event.ERROR, "x", {"a": 1}), Note(Event.ERROR, "x", {"a": 2})),
    (Note(Event.ERROR, "x"), Note(Event.ERROR, "x", {}, quiet=False), Note(Event.ERROR, "x", quiet=True)),
]


@pytest.mark.parametrize(("effect", "same", "another"), CASES, ids=[type(case[0]).__name__ for case in CASES])
def test_effects_are_compared_by_what_they_ask(effect: Effect, same: Effect, another: Effect) -> None:
    """A test of the core is a list of them."""
    assert effect == same
    assert effect != another


def test_every_effect_is_one_of_the_union() -> None:
    """Whoever performs effects can be held to all of them by the type checker."""
    records = {value for value in vars(effects).values() if dataclasses.is_dataclass(value)}
    assert records == set(get_args(Effect))


def test_a_note_without_facts() -> None:
    """No two share them."""
    first, second = Note(Event.ERROR, "x"), Note(Event.ERROR, "y")
    assert first.facts == second.facts == {}
    assert first.facts is not second.facts


def test_a_repr_tells_no_secret() -> None:
    """An effect may end up in a log or a traceback; the CONNECT for a broker is one."""
    assert "secret" not in repr(Send(OTHER, b"CONNECT\nlogin:me\npasscode:secret\n\n\0"))


def test_events_and_ways_to_end_are_named_as_they_are_written() -> None:
    """Their values are what logs and metrics show."""
    for kind in (How, Event):
        assert [member.value for member in kind] == [member.name.lower() for member in kind]
