"""`[journal]` to what is written where."""

from typing import Any

import pytest

from stomprelay.config.config import read_journal as read
from stomprelay.config.table import ConfigError, Table
from stomprelay.journal.settings import ALL, NOTHING, BodyRule, JournalSettings, WhenFull


def journal(**values: Any) -> JournalSettings:
    """The settings of a table with these values, in a file of the folder /etc."""
    return read(Table("f", "/etc", values, ("journal",)))


def refusal(**values: Any) -> str:
    """What is said about such a table."""
    with pytest.raises(ConfigError) as error:
        journal(**values)
    return str(error.value)


def test_every_key() -> None:
    """In the units of the code; a relative folder is beside the file."""
    assert journal(
        directory="j",
        relay="eu-1",
        segment_size=1,
        segment_age=2,
        queue=3,
        when_full="block",
        flush_interval=0,
        sync_interval=0.5,
        bodies="all",
        redact=["token", "Authorization"],
        retain_age=60,
        retain_size=4,
        capture=[{"destination": "/queue/*", "bodies": 256}, {"destination": "/topic/*", "bodies": "none"}],
    ) == JournalSettings(
        "/etc/j",
        "eu-1",
        1,
        2.0,
        3,
        WhenFull.BLOCK,
        0.0,
        0.5,
        ALL,
        ("token", "Authorization"),
        60.0,
        4,
        (BodyRule("/queue/*", 256), BodyRule("/topic/*", NOTHING)),
    )


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"directroy": "x"}, 'directroy: unknown key; did you mean "directory"?'),
        ({"directory": ""}, "directory: must be a string that is not empty"),
        ({"segment_size": 0}, "segment_size: must be a positive whole number"),
        ({"segment_age": 0}, "segment_age: must be a positive number of seconds"),
        ({"flush_interval": -1}, "flush_interval: must be a number of seconds, 0 or more"),
        ({"when_full": "wait"}, 'when_full: must be one of drop, block, not "wait"'),
        ({"bodies": "some"}, 'bodies: must be "none", "all" or a number of bytes, not "some"'),
        ({"bodies": 0}, 'bodies: must be "none", "all" or a number of bytes, not 0'),
        ({"bodies": True}, "bodies: must be"),
        ({"redact": "token"}, "redact: must be a list of names of headers"),
        ({"redact": [""]}, 'redact: must be names of headers, and "" is none'),
        ({"redact": ["a\nb"]}, "redact: must be names of headers"),
        ({"retain_age": 0}, "retain_age: must be a positive number of seconds"),
        ({"capture": [{"destination": "/x"}]}, "capture[1].bodies: is missing"),
        ({"capture": [{"bodies": 1}]}, "capture[1].destination: is missing"),
        ({"capture": [{"destination": "/x", "bodies": 1, "body": 2}]}, "capture[1].body: unknown key"),
        ({"capture": {"destination": "/x"}}, "capture: must be tables"),
    ],
)
def test_mistakes_are_told_by_key(values: dict[str, Any], said: str) -> None:
    """In one line."""
    assert refusal(**values).startswith(f"f: journal.{said}")
