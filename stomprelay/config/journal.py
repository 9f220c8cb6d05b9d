"""`[journal]`: where the relay records frames and events, and how much of them."""

from typing import Final

from stomprelay.config.table import Table
from stomprelay.config.values import choice, count, seconds, seconds_or_none, shown, text
from stomprelay.journal.settings import ALL, NOTHING, BodyRule, JournalSettings, WhenFull

KEYS: Final = (
    "directory",
    "relay",
    "segment_size",
    "segment_age",
    "queue",
    "when_full",
    "flush_interval",
    "sync_interval",
    "bodies",
    "redact",
    "retain_age",
    "retain_size",
    "capture",
)
CAPTURE_KEYS: Final = ("destination", "bodies")

_FULL: Final = {full.value: full for full in WhenFull}
_BODIES: Final = {"none": NOTHING, "all": ALL}


def directory(value: object) -> str:
    """Return the folder of the journal. Raises `ValueError` for anything but a path."""
    return text(value)


def bodies(value: object) -> int:
    """Return how many bytes of a body are recorded. Raises `ValueError` for a value that is not taken."""
    if isinstance(value, str) and value in _BODIES:
        return _BODIES[value]
    try:
        return count(value)
    except ValueError:
        raise ValueError(f'must be "none", "all" or a number of bytes, not {shown(value)}') from None


def spell_bodies(size: int) -> str:
    """Return in words how much of a body is recorded, for `size` in bytes."""
    return next((word for word, number in _BODIES.items() if number == size), f"the first {size} bytes")


def names(value: object) -> tuple[str, ...]:
    """Return names of headers, whose values are not recorded. Raises `ValueError` for anything but a list of
    names.
    """
    if not isinstance(value, list):
        raise ValueError(f"must be a list of names of headers, not {shown(value)}")
    for each in value:
        if not isinstance(each, str) or not each or any(mark in each for mark in "\n\r\0"):
            raise ValueError(f"must be names of headers, and {shown(each)} is none")
    return tuple(value)


def read(table: Table) -> JournalSettings:
    """Return the journal's settings. Raises `ConfigError`."""
    table.only(KEYS)
    return JournalSettings(
        directory=table.path("directory", directory),
        relay=table.get("relay", text),
        segment_size=table.get("segment_size", count, JournalSettings.segment_size),
        segment_age=table.get("segment_age", seconds, JournalSettings.segment_age),
        queue=table.get("queue", count, JournalSettings.queue),
        when_full=table.get("when_full", choice(_FULL), JournalSettings.when_full),
        flush_interval=table.get("flush_interval", seconds_or_none, JournalSettings.flush_interval),
        sync_interval=table.get("sync_interval", seconds_or_none, JournalSettings.sync_interval),
        bodies=table.get("bodies", bodies, JournalSettings.bodies),
        redact=table.get("redact", names, JournalSettings.redact),
        retain_age=table.get("retain_age", seconds),
        retain_size=table.get("retain_size", count),
        rules=tuple(map(_rule, table.array("capture"))),
    )


def _rule(table: Table) -> BodyRule:
    table.only(CAPTURE_KEYS)
    return BodyRule(table.required("destination", text), table.required("bodies", bodies))
