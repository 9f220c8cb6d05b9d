"""The relay's own lines in Twisted's log, and how much detail they have: `log_level`."""

from typing import Any, Final

from twisted.logger import FilteringLogObserver, Logger, LogLevel, LogLevelFilterPredicate, globalLogPublisher

_NAMESPACE: Final = "stomprelay"
_level: Final = LogLevelFilterPredicate(defaultLogLevel=LogLevel.info)
_filtered: Final = FilteringLogObserver(globalLogPublisher, [_level])
_unfiltered: Final = Logger(_NAMESPACE, observer=globalLogPublisher)


def logger() -> Logger:
    """Return a logger whose lines reach the log where they are of the level that is set, or above it."""
    return Logger(_NAMESPACE, observer=_filtered)


def one_line(text: str) -> str:
    """Return text that may hold words of a peer as one line: control characters are escaped, so that nobody can begin
    another line of the log, or move the cursor of whoever reads it.
    """
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def counted(count: int, thing: str) -> str:
    """Return so many things in words."""
    return f"{count} {thing}{'s'[: count != 1]}"


def heard(level: Any) -> bool:
    """Whether lines of this level reach the log."""
    return bool(level >= _level.logLevelForNamespace(_NAMESPACE))


def write(level: Any, form: str, **fields: object) -> None:
    """Write a line of this form, in which the fields stand by their names; a log that keeps events has them too.

    Twisted formats a line field by field, in Python, which for long ones takes longer than all that a session does: it
    is given a form without fields. That the line is heard has been decided then.
    """
    if heard(level):
        line = form.format(**fields)
        _unfiltered.emit(level, line.replace("{", "{{").replace("}", "}}"), **fields)


def set_level(name: str) -> None:
    """Set the level of all lines of this process: debug, info, warn or error. It is info until then."""
    _level.setLogLevelForNamespace(_NAMESPACE, LogLevel.levelWithName(name))
