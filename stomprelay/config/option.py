"""The options of a URI, by the names that ActiveMQ gives them. Times there are milliseconds, ours are seconds."""

import re
from collections.abc import Callable, Mapping
from math import inf
from typing import Any, Final

from stomprelay.config.table import nearest
from stomprelay.config.uri import Options
from stomprelay.config.values import shown

_WHOLE: Final = re.compile(r"-?[0-9]{1,9}")
_NUMBER: Final = re.compile(r"[0-9]{1,9}(\.[0-9]{0,9})?|\.[0-9]{1,9}")
_FLAGS: Final = {"true": True, "false": False}

NEVER: Final = 10**9
"""The number of passes after which nothing is ever said."""

Reader = Callable[[str], object]


def _unfit(expected: str, value: str) -> ValueError:
    # What looks like an address with a user may hold a password.
    return ValueError(f"must be {expected}" + ("" if "@" in value else f", not {shown(value)}"))


def _whole(value: str) -> int | None:
    return int(value) if _WHOLE.fullmatch(value) else None


def flag(value: str) -> bool:
    """True or false."""
    if value not in _FLAGS:
        raise _unfit("true or false", value)
    return _FLAGS[value]


def count(value: str) -> int:
    """A positive whole number."""
    number = _whole(value)
    if number is None or number < 1:
        raise _unfit("a positive whole number", value)
    return number


def attempts(value: str) -> int:
    """A number of passes; -1 is without end."""
    number = _whole(value)
    if number is None or number < -1:
        raise _unfit("a whole number, or -1 for without end", value)
    return number


def warnings(value: str) -> int:
    """After how many passes the log is told; none, after `NEVER`."""
    number = _whole(value)
    if number is None:
        raise _unfit("a whole number, 0 for never", value)
    return number if number > 0 else NEVER


def delay(value: str) -> float:
    """A pause, which may be none."""
    number = _whole(value)
    if number is None or number < 0:
        raise _unfit("a whole number of milliseconds, 0 or more", value)
    return number / 1000


def longest(value: str) -> float:
    """A pause that is one."""
    number = _whole(value)
    if number is None or number < 1:
        raise _unfit("a positive whole number of milliseconds", value)
    return number / 1000


def timeout(value: str) -> float:
    """A time; -1 is for ever."""
    number = _whole(value)
    if number is None or (number < 1 and number != -1):
        raise _unfit("a positive whole number of milliseconds, or -1 for ever", value)
    return inf if number == -1 else number / 1000


def multiple(value: str) -> float:
    """By what a pause grows."""
    number = float(value) if _NUMBER.fullmatch(value) else 0.0
    if number < 1:
        raise _unfit("a number, 1 or more", value)
    return number


def share(value: str) -> float:
    """A part of a pause."""
    number = float(value) if _NUMBER.fullmatch(value) else inf
    if number > 1:
        raise _unfit("a number from 0 to 1", value)
    return number


RECONNECT: Final[Mapping[str, tuple[str, Reader]]] = {
    "initialReconnectDelay": ("initial_delay", delay),
    "maxReconnectDelay": ("longest_delay", longest),
    "useExponentialBackOff": ("exponential", flag),
    "backOffMultiplier": ("multiplier", multiple),
    "reconnectDelayExponent": ("multiplier", multiple),
    "reconnectDelayJitter": ("jitter", share),
    "maxReconnectAttempts": ("attempts", attempts),
    "startupMaxReconnectAttempts": ("startup_attempts", attempts),
    "timeout": ("timeout", timeout),
    "warnAfterReconnectAttempts": ("warn_after", warnings),
}
"""Option -> field of `Reconnect` and its reader: those that say something for one address, too."""

FAILOVER: Final[Mapping[str, tuple[str, Reader]]] = {
    "randomize": ("randomize", flag),
    "priorityBackup": ("priority_backup", flag),
    **RECONNECT,
}
FANOUT: Final[Mapping[str, tuple[str, Reader]]] = {
    "minAckCount": ("quorum", count),
    "fanOutQueues": ("fan_out_queues", flag),
    **RECONNECT,
}
BROKER: Final[Mapping[str, tuple[str, Reader]]] = {"weight": ("weight", count)}

_PLACES: Final = {"a broker's address": BROKER, "failover:(...)": FAILOVER, "fanout:(...)": FANOUT}


def read(options: Options, known: Mapping[str, tuple[str, Reader]]) -> dict[str, Any]:
    """The options by field. Raises `ValueError` with the name of one that is not known, or whose value is not fit."""
    fields: dict[str, Any] = {}
    names: dict[str, str] = {}
    for name, text in options:
        if name not in known:
            raise ValueError(f"option {shown(name)}: {_stranger(name, known)}")
        field, reader = known[name]
        try:
            value = reader(text)
        except ValueError as error:
            raise ValueError(f"option {shown(name)}: {error}") from None
        if field in fields and fields[field] != value:
            raise ValueError(f"option {shown(name)}: is {names[field]} by another name, which says otherwise")
        fields[field] = value
        names[field] = name
    return fields


def _stranger(name: str, known: Mapping[str, object]) -> str:
    """Why an option does not belong here."""
    for place, others in _PLACES.items():
        if name in others:
            return f"belongs to {place}"
    return f"there is no such option; {nearest(name, known)}"
