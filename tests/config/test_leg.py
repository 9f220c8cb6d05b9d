"""What listeners and upstreams have in common."""

import pytest

from stomprelay.config.leg import limits, terms
from stomprelay.config.table import ConfigError, Table
from stomprelay.session.heartbeat import Terms
from stomprelay.wire.limits import Limits


def table(**values: object) -> Table:
    """A table with these values."""
    return Table("f", "/", values)


def test_terms() -> None:
    """Each part of the heart-beats has its own key, and its own default."""
    default = Terms(1, 2, 0.3, 4.0)
    assert terms(table(), default) == default
    assert terms(table(heart_beat=[5, 0]), default) == Terms(5, 0, 0.3, 4.0)
    assert terms(table(heart_beat_idle=1, heart_beat_tolerance=3), default) == Terms(1, 2, 1.0, 3.0)


def test_limits() -> None:
    """Each limit has its own key, and its own default."""
    default = Limits(1, 2, 3)
    assert limits(table(), default) == default
    assert limits(table(headers=4, header_line=5, body=6), default) == Limits(4, 5, 6)


def test_a_wrong_limit_is_named() -> None:
    """The key is part of the error."""
    with pytest.raises(ConfigError, match=r"^f: header_line: must be a positive whole number, not 0$"):
        limits(table(header_line=0), Limits())
