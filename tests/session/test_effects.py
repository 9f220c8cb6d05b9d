"""What the core asks of the service: plain values that a script can compare."""

import dataclasses
from typing import get_args

from stomprelay.session import effects
from stomprelay.session.effects import Effect, Event, How, Send
from stomprelay.session.leg import Leg, Side
from stomprelay.wire.frame import Limits

LEG, OTHER = Leg(Side.DOWNSTREAM, Limits()), Leg(Side.UPSTREAM, Limits())


def test_every_effect_is_one_of_the_union() -> None:
    """Whoever performs effects can be held to all of them by the type checker."""
    records = {value for value in vars(effects).values() if dataclasses.is_dataclass(value)}
    assert records == set(get_args(Effect))


def test_a_repr_tells_no_secret() -> None:
    """An effect may end up in a log or a traceback; the CONNECT for a broker is one."""
    assert "secret" not in repr(Send(OTHER, b"CONNECT\nlogin:me\npasscode:secret\n\n\0"))


def test_events_and_ways_to_end_are_named_as_they_are_written() -> None:
    """Their values are what logs and metrics show."""
    for kind in (How, Event):
        assert [member.value for member in kind] == [member.name.lower() for member in kind]
