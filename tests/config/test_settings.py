"""The rows of the settings, and what becomes of the values that are read by them."""

import pytest

from stomprelay.config.settings import SETTINGS, built, field_keys
from stomprelay.config.table import ConfigError, Table
from stomprelay.relay.model.listener import Listener
from stomprelay.relay.model.upstream import Upstream
from stomprelay.session.heartbeat import Terms
from stomprelay.wire.head import Limits


def read(place: str, **values: object) -> dict[str, object]:
    """The values by their fields, from a table at this place."""
    return Table("f", "/", values).read(SETTINGS[place])


@pytest.mark.parametrize(
    ("values", "terms"),
    [
        ({"heart_beat": [5, 0]}, Terms(5, 0, 0.5, 2.5)),
        ({"heart_beat_idle": 1, "heart_beat_tolerance": 3}, Terms(10000, 10000, 1.0, 3.0)),
    ],
)
def test_heart_beats(values: dict[str, object], terms: Terms) -> None:
    """Each part of the heart-beats has its own key, and its own default."""
    assert built(Upstream, read("upstream.NAME", **values)) == {"heart_beat": terms}


def test_limits() -> None:
    """Each limit has its own key, and its own default."""
    found = read("listener.NAME.limits", headers=4, body=6, transactions=7)
    assert built(Listener, found) == {"limits": Limits(4, Limits.header_line, 6), "transactions": 7}
    assert built(Listener, read("listener.NAME.limits")) == {}


def test_a_wrong_limit_is_named() -> None:
    """The key is part of the error."""
    with pytest.raises(ConfigError, match=r"^f: header_line: must be a positive whole number, not 0$"):
        read("upstream.NAME.limits", header_line=0)


def test_a_key_that_is_required() -> None:
    """The error names it."""
    with pytest.raises(ConfigError, match=r"^f: action: is missing$"):
        read("rule[N]", send="/queue/a")


@pytest.mark.parametrize(
    ("table", "field", "key"),
    [
        ("", "admin_token", "admin_token_file"),
        ("", "memory", "limits.memory"),
        ("listener.NAME", "limits", "limits"),
        ("listener.NAME", "kept", "limits.kept"),
        ("upstream.NAME", "heart_beat", "heart_beat"),
        ("upstream.NAME", "checks", "health"),
        ("auth.NAME", "renew", "token.renew"),
    ],
)
def test_the_key_of_a_field(table: str, field: str, key: str) -> None:
    """What a reload names is the key of the file; a part of a record has the name of its table."""
    assert field_keys(table)[field] == key
