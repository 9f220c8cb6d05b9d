"""Writes the relay's own lines to Twisted's log, if they have the level `log_level` or a higher one. For a process that
only runs the relay, it also writes the log to standard error, in text or JSON.
"""

import json
import math
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from time import time
from typing import Any, Final

from twisted.internet.protocol import Factory
from twisted.logger import (
    FileLogObserver,
    FilteringLogObserver,
    LogEvent,
    Logger,
    LogLevel,
    LogLevelFilterPredicate,
    formatEvent,
    formatEventAsClassicLogText,
    globalLogBeginner,
    globalLogPublisher,
)

_NAMESPACE: Final = "stomprelay"
_level: Final = LogLevelFilterPredicate(defaultLogLevel=LogLevel.info)
_filtered: Final = FilteringLogObserver(globalLogPublisher, [_level])
_unfiltered: Final = Logger(_NAMESPACE, observer=globalLogPublisher)
_heard: Final[dict[Any, bool]] = {level: level >= LogLevel.info for level in LogLevel.iterconstants()}
_MARK: Final = "<what is said>"
_heads: Final[dict[tuple[int, Any], str]] = {}
"""The beginnings of lines (time, level), by second and level."""

# Twisted's factories log their `repr` when they start and stop. The relay logs endpoints by their names instead.
Factory.noisy = False


def logger() -> Logger:
    """Return a logger whose lines are logged at the configured level or above."""
    return Logger(_NAMESPACE, observer=_filtered)


def counted(count: int, thing: str) -> str:
    """Return this number of things in words, as `1 session` or `2 sessions`."""
    return f"{count} {thing}{'s'[: count != 1]}"


def heard(level: Any) -> bool:
    """Return whether lines of this level are written to the log."""
    return _heard[level]


def literal(line: str) -> str:
    """Return this line with doubled braces. Formatting the result, without fields, gives the line again."""
    return line.replace("{", "{{").replace("}", "}}") if "{" in line or "}" in line else line


def write(level: Any, form: str, **fields: object) -> None:
    """Write a line with this form and these fields. The line is formatted at once, because Twisted's formatting takes
    longer than all that a session does.
    """
    if heard(level):
        event = fields
        event.update(
            log_logger=_unfiltered,
            log_level=level,
            log_namespace=_NAMESPACE,
            log_source=None,
            log_format=literal(form.format(**fields)),
            log_time=time(),
        )
        globalLogPublisher(event)


def set_level(name: str) -> None:
    """Set the level of all lines of this process: debug, info, warn or error. The first level is info."""
    _level.setLogLevelForNamespace(_NAMESPACE, least := LogLevel.levelWithName(name))
    _heard.update((level, level >= least) for level in LogLevel.iterconstants())


# The log of a process that only runs the relay

OWN: Final = ("time", "level", "message", "source", "traceback")
"""The names that each object of a JSON log contains. No field of the relay's own lines has one of these names."""


def fields(event: LogEvent) -> dict[str, Any]:
    """Return the fields of an event, as numbers, truth values and text."""
    if "isError" in event:
        return {}  # an event of Twisted's older log: all have the same names
    return {name: _plain(value) for name, value in event.items() if not name.startswith("log_")}


def _plain(value: object) -> object:
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)


def text_line(event: LogEvent) -> str | None:
    """Return an event as `twistd` writes it; None for an event below the level that is set. For lines of `write`, the
    beginning is formatted only once a second.
    """
    level = event.get("log_level", LogLevel.info)
    if not heard(level):
        return None
    if event.get("log_logger") is not _unfiltered or "\n" in event["log_format"]:
        return formatEventAsClassicLogText(event)
    place = int(event["log_time"]), level
    if place not in _heads:
        _heads.clear()
        line = formatEventAsClassicLogText({**event, "log_format": _MARK}) or ""
        _heads[place] = line.partition(_MARK)[0]
    text: str = event["log_format"]
    return f"{_heads[place]}{text.replace('{{', '{').replace('}}', '}')}\n"


def json_line(event: LogEvent) -> str | None:
    """Return an event as a line of JSON in ASCII; None for an event below the level that is set."""
    level = event.get("log_level", LogLevel.info)
    if not heard(level):
        return None
    said = {
        "time": datetime.fromtimestamp(event["log_time"], UTC).isoformat(timespec="milliseconds"),
        "level": level.name,
        "message": formatEvent(event),
        "source": event.get("log_namespace", ""),
    }
    if "log_failure" in event:
        said["traceback"] = event["log_failure"].getTraceback()
    return (
        json.dumps({**said, **{name: value for name, value in fields(event).items() if name not in said}})
        + "\n"
    )


FORMS: Final[dict[str, Callable[[LogEvent], str | None]]] = {"text": text_line, "json": json_line}


def begin(form: str) -> None:
    """Begin to write the log of this process to standard error, in one of `FORMS`. The level applies to all lines."""
    globalLogBeginner.beginLoggingTo([FileLogObserver(sys.stderr, FORMS[form])])
