"""Options as Spark hands them over: strings by name, without regard to case."""

import json
from collections.abc import Callable, Mapping
from typing import Final, TypeVar, overload

from stomprelay.config.table import nearest

T = TypeVar("T")
D = TypeVar("D")

HEADER: Final = "header."
"""Prefix of an option that gives a header."""

_SPELLED: Final = {
    name.lower(): name
    for name in (
        "activemq.dispatchAsync",
        "activemq.maximumPendingMessageLimit",
        "activemq.noLocal",
        "activemq.prefetchSize",
        "activemq.subcriptionName",
        "activemq.subscriptionName",
        "AMQ_SCHEDULED_CRON",
        "AMQ_SCHEDULED_DELAY",
        "AMQ_SCHEDULED_PERIOD",
        "AMQ_SCHEDULED_REPEAT",
        "JMSXGroupID",
        "JMSXGroupSeq",
        "JMSType",
    )
}
"""Brokers' headers in which case counts, by lower case, in which Spark passes names of options."""


class OptionError(ValueError):
    """An option that is missing or wrong; the text names it."""


class GivenOptions:
    """The options of one reader or writer. Call `only` first, to name misspelt ones; then `get` each."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._said = {name.lower(): value for name, value in options.items()}

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._said

    def only(self, names: str, foreign: Mapping[str, str]) -> None:
        """Raise `OptionError` for an option not in `names`, which have blanks between them. `foreign`: what to say of
        others; "x." is for all "x.…".
        """
        known = {name.lower(): name for name in names.split()}
        words = {name.lower(): said for name, said in foreign.items()}
        for name in self._said:
            if name in known or name.startswith(HEADER):
                continue
            told = words.get(name) or words.get(name.partition(".")[0] + ".")
            raise wrong(name, told or f"unknown option; {nearest(name, known.values())}")

    @overload
    def get(self, name: str, read: Callable[[str], T]) -> T | None: ...
    @overload
    def get(self, name: str, read: Callable[[str], T], default: D) -> T | D: ...
    def get(self, name: str, read: Callable[[str], T], default: D | None = None) -> T | D | None:
        """Return the option's value as `read` converts it, or `default` if it is not given. Raises
        `OptionError` where `read` raises `ValueError`.
        """
        if name not in self:
            return default
        try:
            return read(self._said[name.lower()].strip())
        except ValueError as error:
            raise wrong(name, str(error)) from None

    def either(self, name: str, other: str, read: Callable[[str], T]) -> T | None:
        """Return what `get` returns of an option that has two names. Raises `OptionError` where both are given."""
        if name in self and other in self:
            raise wrong(other, f"is another name for {name}: say one of them")
        return self.get(other if other in self else name, read)

    def headers(self) -> dict[bytes, bytes]:
        """Return the headers given as `header.NAME` and in the JSON object `headers`. Raises `OptionError`."""
        found = {
            _SPELLED.get(name := key.removeprefix(HEADER), name): value
            for key, value in self._said.items()
            if key.startswith(HEADER)
        }
        found |= self.get("headers", _object, {})
        return {name.encode(): value.encode() for name, value in found.items()}


def wrong(name: str, text: str) -> OptionError:
    """Return the error to raise about an option."""
    return OptionError(f'format "stomp", option {name}: {text}')


def text(value: str) -> str:
    """Return the value. Raises `ValueError` if it is empty."""
    if not value:
        raise ValueError("must not be empty")
    return value


def flag(value: str) -> bool:
    """Return whether the value is `true`. Raises `ValueError` unless it is `true` or `false`, in any case."""
    if value.lower() not in ("true", "false"):
        raise ValueError(f'must be true or false, not "{value}"')
    return value.lower() == "true"


def number(lowest: int) -> Callable[[str], int]:
    """Return a function that reads a whole number, `lowest` or more, or raises `ValueError`."""

    def read(value: str) -> int:
        if not (value.isascii() and value.isdigit() and len(value) < 19 and int(value) >= lowest):
            raise ValueError(f'must be a whole number, {lowest} or more, not "{value}"')
        return int(value)

    return read


def positive(value: str) -> float:
    """Return the value as a number above 0. Raises `ValueError`."""
    try:
        found = float(value)
    except ValueError:
        found = 0.0
    if not 0 < found < float("inf"):
        raise ValueError(f'must be a number above 0, not "{value}"')
    return found


def choice(*known: str) -> Callable[[str], str]:
    """Return a function that reads one of `known`, in any case, or raises `ValueError`."""

    def read(value: str) -> str:
        if value.lower() not in known:
            raise ValueError(f'must be one of {", ".join(known)}, not "{value}"')
        return value.lower()

    return read


def listed(value: str) -> tuple[str, ...]:
    """Return the texts of a list with commas or of a JSON array, each once. Raises `ValueError`."""
    if value.startswith("["):
        try:
            found = json.loads(value)
        except ValueError:
            raise ValueError("must be a JSON array of texts, or texts between commas") from None
        if not all(isinstance(each, str) for each in found):
            raise ValueError("must be a JSON array of texts")
        parts = [str(each) for each in found]
    else:
        parts = [part.strip() for part in value.split(",")]
    if not parts or "" in parts:
        raise ValueError("must name at least one, and none of them may be empty")
    return tuple(dict.fromkeys(parts))


def _object(value: str) -> dict[str, str]:
    try:
        found = json.loads(value)
    except ValueError:
        found = None
    if not isinstance(found, dict) or not all(isinstance(each, str) for each in found.values()):
        raise ValueError('must be a JSON object of texts, as in {"persistent": "true"}')
    return {str(name): str(each) for name, each in found.items()}
