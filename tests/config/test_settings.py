"""The rows of the settings, and what becomes of the values that are read by them."""

import pytest

from stomprelay.config.settings import field_keys


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
