"""The rows of the settings, and what becomes of the values that are read by them."""

import pytest

from stomprelay.config.settings import SETTINGS, built, field_keys
from stomprelay.config.table import Table
from stomprelay.relay.model.upstream import Upstream
from stomprelay.session.heartbeat import Terms


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
