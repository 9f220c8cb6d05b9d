"""What one leg takes, as a record; the decoder's tests hold it to every number."""

import dataclasses

import pytest

from stomprelay.wire.head import Limits


def test_the_limits_that_nobody_set() -> None:
    """The documented defaults: 128 header lines, 10 KiB a line, 16 MiB of body."""
    assert dataclasses.asdict(Limits()) == {"headers": 128, "header_line": 10240, "body": 16777216}


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(Limits)])
def test_one_limit_can_be_set_alone(name: str) -> None:
    """The others keep their defaults."""
    changed = dataclasses.replace(Limits(), **{name: 7})
    assert {key for key, value in dataclasses.asdict(changed).items() if value == 7} == {name}
    assert dataclasses.replace(changed, **{name: getattr(Limits(), name)}) == Limits()


def test_limits_are_shared_between_legs() -> None:
    """So nobody can change them under a connection, and equal ones are one key."""
    limits = Limits(headers=1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        limits.headers = 2  # type: ignore[misc]
    assert len({Limits(), Limits(), limits}) == 2
