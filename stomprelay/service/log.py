"""The relay's own lines in Twisted's log, how much detail they have (`log_level`), and the log of a process that is
ours alone: text or JSON on standard error.
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

# Twisted's factories tell by their `repr` that they start and stop; which endpoint listens is told by its name.
Factory.noisy = False


def logger() -> Logger:
    """Return a logger whose lines reach the log where they are of the level that is set, or above it."""
    return Logger(_NAMESPACE, observer=_filtered)


def counted(count: int, thing: str) -> str:
    """Return so many things in words."""
    return f"{count} {thing}{'s'[: count != 1]}"


def heard(level: Any) -> bool:
    """Whether lines of this level reach the log."""
    return _heard[level]


def literal(line: str) -> str:
    """Return the form of a line in which nothing stands for a field."""
    return line.replace("{", "{{").replace("}", "}}") if "{" in line or "}" in line else line


def write(level: Any, form: str, **fields: object) -> None:
    """Write a line of this form, in which the fields stand by their names; a log that keeps events has them too.

    Twisted formats a line field by field, in Python, which for long ones takes longer than all that a session does: it
    is given a form without fields, and the event as its `Logger` makes it.
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


class SharedHeads:
    """In place of the `formatEvent` of an observer that writes lines to a file: what stands in front of one of our
    lines, its time and its system, is the same for all lines of a second, and formatted once.
    """

    def __init__(self, form: Callable[[LogEvent], str | None]) -> None:
        self._form = form
        self._second = -1
        self._heads: dict[Any, str] = {}

    def head(self, level: Any, at: float) -> str | None:
        """Return what stands in front of our lines; None where their whole text is not a head, the line and its end."""
        sample = {
            "log_logger": _unfiltered,
            "log_level": level,
            "log_namespace": _NAMESPACE,
            "log_source": None,
            "log_format": _MARK,
            "log_time": at,
        }
        head, mark, end = (self._form(sample) or "").partition(_MARK)
        return head if mark and end == "\n" else None

    def __call__(self, event: LogEvent) -> str | None:
        """Return the text of an event."""
        if event.get("log_logger") is not _unfiltered or "\n" in event["log_format"]:
            return self._form(event)
        at, level = event["log_time"], event["log_level"]
        if int(at) != self._second:
            self._second = int(at)
            self._heads.clear()
        head = self._heads.get(level)
        if head is None:
            head = self._heads[level] = self.head(level, at) or ""
        line: str = event["log_format"]
        if "}" in line:
            line = line.replace("{{", "{").replace("}}", "}")
        return f"{head}{line}\n"


def share_heads() -> None:
    """Let logs that are files spend less on our lines: on those that show whole seconds, as `twistd` has them. Call it
    when the log has begun.

    This relies on `LogPublisher._observers`, and the tests hold Twisted to it.
    """
    for observer in globalLogPublisher._observers:
        if isinstance(observer, FileLogObserver) and not isinstance(observer.formatEvent, SharedHeads):
            shared = SharedHeads(observer.formatEvent)
            head = shared.head(LogLevel.info, 0.0)
            if head is not None and head == shared.head(LogLevel.info, 0.5):
                observer.formatEvent = shared


def set_level(name: str) -> None:
    """Set the level of all lines of this process: debug, info, warn or error. It is info until then."""
    _level.setLogLevelForNamespace(_NAMESPACE, least := LogLevel.levelWithName(name))
    _heard.update((level, level >= least) for level in LogLevel.iterconstants())


# The log of a process that is ours alone

OWN: Final = ("time", "level", "message", "source", "traceback")
"""The names that each object of a JSON log has for itself; no field of ours is called so."""


def fields(event: LogEvent) -> dict[str, Any]:
    """Return what an event has by names of its own, as numbers, truth values and text."""
    if "isError" in event:
        return {}  # of Twisted's older log, where every event has the same names
    return {name: _plain(value) for name, value in event.items() if not name.startswith("log_")}


def _plain(value: object) -> object:
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)


def text_line(event: LogEvent) -> str | None:
    """Return an event as `twistd` writes it; None for one below the level that is set."""
    return formatEventAsClassicLogText(event) if heard(event.get("log_level", LogLevel.info)) else None


def json_line(event: LogEvent) -> str | None:
    """Return an event as a JSON object in a line, with its fields beside `OWN`; None for one below the level that is
    set. What is no ASCII is escaped.
    """
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
    """Begin to write what all of this process logs to standard error, in one of `FORMS`; what was logged before comes
    first. The level holds for everybody's lines, not for ours alone.
    """
    globalLogBeginner.beginLoggingTo([FileLogObserver(sys.stderr, FORMS[form])])
