"""`[journal]` to what is written where."""

from typing import Any

import pytest

from stomprelay.config.config import read_journal as read
from stomprelay.config.table import ConfigError, ConfigTable
from stomprelay.journal.settings import JournalSettings


def journal(**values: Any) -> JournalSettings:
    """The settings of a table with these values, in a file of the folder /etc."""
    return read(ConfigTable("f", "/etc", values, ("journal",)))


def refusal(**values: Any) -> str:
    """What is said about such a table."""
    with pytest.raises(ConfigError) as error:
        journal(**values)
    return str(error.value)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"bodies": "some"}, 'bodies: must be "none", "all" or a number of bytes, not "some"'),
        ({"bodies": 0}, 'bodies: must be "none", "all" or a number of bytes, not 0'),
        ({"bodies": True}, "bodies: must be"),
        ({"redact": "token"}, "redact: must be a list of names of headers"),
        ({"redact": [""]}, 'redact: must be names of headers, and "" is none'),
        ({"redact": ["a\nb"]}, "redact: must be names of headers"),
        ({"capture": [{"destination": "/x"}]}, "capture[1].bodies: is missing"),
        ({"capture": [{"bodies": 1}]}, "capture[1].destination: is missing"),
        ({"capture": [{"destination": "/x", "bodies": 1, "body": 2}]}, "capture[1].body: unknown key"),
        ({"capture": {"destination": "/x"}}, "capture: must be tables"),
    ],
)
def test_mistakes_are_told_by_key(values: dict[str, Any], said: str) -> None:
    """In one line."""
    assert refusal(**values).startswith(f"f: journal.{said}")
