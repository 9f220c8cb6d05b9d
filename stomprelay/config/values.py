"""What a setting's value may be: readers from TOML values to what the code works with.

Each raises `ValueError` with a text that says what the value must be.
"""

import json
from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from stomprelay.config.table import nearest
from stomprelay.wire.dialect import DIALECTS

T = TypeVar("T")

_LONG: Final = 80
_ENDLESS: Final = 10**9
_MOST_HEADERS: Final = 10_000


def shown(value: object) -> str:
    """A value as an error shows it: in one line, cut where it is long."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _LONG else text[:_LONG] + "..."


def _unfit(expected: str, value: object) -> ValueError:
    return ValueError(f"must be {expected}, not {shown(value)}")


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) < _ENDLESS else None


def count(value: object) -> int:
    """A positive whole number."""
    number = _whole(value)
    if number is None or number < 1:
        raise _unfit("a positive whole number", value)
    return number


def headers(value: object) -> int:
    """How many header lines a frame may have."""
    number = _whole(value)
    if number is None or not 1 <= number <= _MOST_HEADERS:
        raise _unfit(f"a whole number from 1 to {_MOST_HEADERS}", value)
    return number


def seconds(value: object) -> float:
    """A time that is not nothing."""
    number = _number(value)
    if number is None or number <= 0:
        raise _unfit("a positive number of seconds", value)
    return number


def seconds_or_none(value: object) -> float:
    """A time, which may be 0."""
    number = _number(value)
    if number is None or number < 0:
        raise _unfit("a number of seconds, 0 or more", value)
    return number


def rate(value: object) -> float:
    """How many in a second."""
    number = _number(value)
    if number is None or number < 0:
        raise _unfit("a number for each second, 0 or more", value)
    return number


def share(value: object) -> float:
    """A part of an interval."""
    number = _number(value)
    if number is None or not 0 < number <= 1:
        raise _unfit("a number above 0 and up to 1", value)
    return number


def multiple(value: object) -> float:
    """A multiple of an interval."""
    number = _number(value)
    if number is None or number < 1:
        raise _unfit("a number, 1 or more", value)
    return number


def flag(value: object) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise _unfit("true or false", value)
    return value


def text(value: object) -> str:
    """A string that says something."""
    if not isinstance(value, str) or not value:
        raise _unfit("a string that is not empty", value)
    if "\0" in value:
        raise ValueError("must not contain NUL")
    return value


def destination(value: object) -> str:
    """A destination that every version of STOMP can say."""
    string = text(value)
    if "\n" in string or "\r" in string:
        raise ValueError("must not contain LF or CR")
    return string


def _connectable(value: bytes) -> bytes:
    """CONNECT has no escapes: these octets would end the header, or the frame."""
    if any(octet in value for octet in b"\n\r\0"):
        raise ValueError("must not contain LF, CR or NUL: CONNECT cannot say them")
    return value


def connect_value(value: object) -> bytes:
    """The value of a CONNECT header."""
    if not isinstance(value, str) or not value:
        raise _unfit("a string that is not empty", value)
    return _connectable(value.encode())


def passcode(value: object) -> bytes:
    """A passcode; what it is, no error shows."""
    if not isinstance(value, str):
        raise ValueError("must be a string")
    return _connectable(value.encode())


def passcode_content(content: bytes) -> bytes:
    """The passcode that a file holds, without the line end that editors leave behind it."""
    content = content.removesuffix(b"\n").removesuffix(b"\r")
    if not content:
        raise ValueError("the file is empty")
    return _connectable(content)


def heart_beat(value: object) -> tuple[int, int]:
    """How often one can send and wants to receive, in milliseconds."""
    numbers = [_whole(each) for each in value] if isinstance(value, list) else []
    match numbers:
        case [int() as can_send, int() as wants] if (
            min(can_send, wants) >= 0 and max(can_send, wants) < _ENDLESS
        ):
            return can_send, wants
    raise _unfit("two whole numbers of milliseconds, [can send, wants to receive], 0 for never", value)


def versions(value: object) -> frozenset[bytes]:
    """STOMP versions."""
    known = [version.decode() for version in DIALECTS]
    if not isinstance(value, list) or not value or any(each not in known for each in value):
        raise _unfit(f"a list of versions out of {', '.join(known)} (as strings)", value)
    return frozenset(each.encode() for each in value)


def choice(known: Mapping[str, T]) -> Callable[[object], T]:
    """A reader that takes one of the known words."""

    def read(value: object) -> T:
        if not isinstance(value, str) or value not in known:
            raise _unfit(f"one of {', '.join(known)}", value)
        return known[value]

    return read


def _article(noun: str) -> str:
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"


def reference(kind: str, known: Mapping[str, T]) -> Callable[[object], T]:
    """A reader that takes the name of something that the file defines."""

    def read(value: object) -> T:
        if not isinstance(value, str):
            raise _unfit(f"the name of {_article(kind)}", value)
        if value not in known:
            raise ValueError(f"no {kind} is called {shown(value)}; {nearest(value, known)}")
        return known[value]

    return read


def references(kind: str, known: Mapping[str, T]) -> Callable[[object], tuple[T, ...]]:
    """A reader that takes one such name, or a list of them."""
    one = reference(kind, known)

    def read(value: object) -> tuple[T, ...]:
        if not isinstance(value, list):
            return (one(value),)
        if not value:
            raise _unfit(f"the name of {_article(kind)}, or a list of names", value)
        return tuple(map(one, value))

    return read
