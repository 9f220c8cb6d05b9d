"""How an upstream's URI is written: one address, or lists of them in ActiveMQ's notation, with ActiveMQ's options.

    tcp://a:61613
    failover:(tcp://a:61613?weight=2,ssl://b:61614)?randomize=false&timeout=30000
    failover:tcp://a:61613,tcp://b:61613?randomize=false
    fanout:(failover:(tcp://a,tcp://b),tcp://c)?minAckCount=2

This is the form alone; `location` has the meaning. A backslash keeps the character behind it from being punctuation, as
in Twisted's endpoint strings, in which it stays. Times in options are milliseconds, ours are seconds.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote

from stomprelay.config.table import nearest
from stomprelay.config.values import (
    OptionText,
    Reader,
    attempts,
    count,
    delay,
    flag,
    jitter,
    longest,
    multiple,
    shown,
    timeout,
    warnings,
)

Options = tuple[tuple[str, str], ...]
"""The names and values of a URI's options in their order, percent-escapes decoded."""

_DEPTH: Final = {"(": 1, ")": -1}
_DEEPEST: Final = 8
"""Parentheses within each other; no list needs more than three."""
_LIST: Final = re.compile(r"(failover|fanout|static):(?://)?", re.IGNORECASE)


@dataclass(frozen=True)
class Address:
    """One broker. Alone, it is the text as it came, and has no options."""

    text: str
    options: Options = ()


@dataclass(frozen=True)
class Several:
    """A list under one scheme (failover, fanout or static), which is written in small letters here."""

    scheme: str
    parts: tuple["Address | Several", ...]
    options: Options = ()

    def __str__(self) -> str:
        return f"{self.scheme}:(...)"


def parse(text: str) -> Address | Several:
    """Return the parts of a URI. Raises `ValueError`, whose text has no address."""
    start = _LIST.match(text)
    if start is None:
        return Address(text)
    _balanced(text)
    scheme, rest = start[1].lower(), text[start.end() :].strip()
    if rest.startswith("("):
        return _in_parentheses(scheme, rest)
    parts, options = _cut(rest)
    if any(mark == "?" for _, mark, _ in _marks(options or "")):
        raise ValueError(f"an address with options needs parentheses around the list: {scheme}:(...)")
    return Several(scheme, _parts(scheme, parts), _options(options))


def _in_parentheses(scheme: str, text: str) -> Several:
    close = next(at for at, mark, depth in _marks(text) if mark == ")" and depth == 1)
    behind = text[close + 1 :].strip()
    if behind and not behind.startswith("?"):
        raise ValueError(f"must have nothing but ?option=value&... behind {scheme}:(...)")
    return Several(scheme, _parts(scheme, text[1:close]), _options(behind[1:] if behind else None))


def _parts(scheme: str, text: str) -> tuple[Address | Several, ...]:
    commas = [at for at, mark, depth in _marks(text) if mark == "," and depth == 0]
    parts = [
        text[start:stop].strip()
        for start, stop in zip([0, *(at + 1 for at in commas)], [*commas, len(text)], strict=True)
    ]
    if parts == [""]:
        raise ValueError(f"{scheme}:(...) names no broker")
    if "" in parts:
        raise ValueError(f"{scheme}:(...) has a comma too many: there is no address behind it, or before it")
    return tuple(map(_part, parts))


def _part(text: str) -> Address | Several:
    start = _LIST.match(text)
    if start is None:
        address, options = _cut(text)
        return Address(address.strip(), _options(options))
    if not text[start.end() :].startswith("("):
        raise ValueError(f"within a list, {start[1].lower()}: needs parentheses: {start[1].lower()}:(...)")
    return parse(text)


def _cut(text: str) -> tuple[str, str | None]:
    at = next((at for at, mark, depth in _marks(text) if mark == "?" and depth == 0), None)
    return (text, None) if at is None else (text[:at], text[at + 1 :])


def _options(text: str | None) -> Options:
    if text is None:
        return ()
    options: dict[str, str] = {}
    for each in text.split("&"):
        name, equals, value = (unquote(part) for part in each.strip().partition("="))
        if not name or not equals:
            raise ValueError("must have its options as ?name=value&name=value")
        if name in options:
            raise ValueError(f"option {shown(name)} is said twice")
        options[name] = value
    return tuple(options.items())


def _balanced(text: str) -> None:
    after = 0
    for _, mark, depth in _marks(text):
        after = depth + _DEPTH.get(mark, 0)
        if after < 0:
            raise ValueError("has a closing parenthesis that nothing opened")
        if after > _DEEPEST:
            raise ValueError("has too many lists within each other")
    if after:
        raise ValueError("has a parenthesis that nothing closes")


def _marks(text: str) -> Iterator[tuple[int, str, int]]:
    """Yield each character of punctuation: its index, itself, and how many parentheses are open before it."""
    depth = 0
    escaped = False
    for at, mark in enumerate(text):
        if escaped:
            escaped = False
        elif mark == "\\":
            escaped = True
        elif mark in "(),?":
            yield at, mark, depth
            depth += _DEPTH.get(mark, 0)


# What options mean

RECONNECT: Final[Mapping[str, tuple[str, Reader[object]]]] = {
    "initialReconnectDelay": ("initial_delay", delay),
    "maxReconnectDelay": ("longest_delay", longest),
    "useExponentialBackOff": ("exponential", flag),
    "backOffMultiplier": ("multiplier", multiple),
    "reconnectDelayExponent": ("multiplier", multiple),
    "reconnectDelayJitter": ("jitter", jitter),
    "maxReconnectAttempts": ("attempts", attempts),
    "startupMaxReconnectAttempts": ("startup_attempts", attempts),
    "timeout": ("timeout", timeout),
    "warnAfterReconnectAttempts": ("warn_after", warnings),
}
"""Option -> field of `Reconnect` and its reader: those that also have a meaning for a single address."""

FAILOVER: Final[Mapping[str, tuple[str, Reader[object]]]] = {
    "randomize": ("randomize", flag),
    "priorityBackup": ("priority_backup", flag),
    **RECONNECT,
}
FANOUT: Final[Mapping[str, tuple[str, Reader[object]]]] = {
    "minAckCount": ("quorum", count),
    "fanOutQueues": ("fan_out_queues", flag),
    **RECONNECT,
}
BROKER: Final[Mapping[str, tuple[str, Reader[object]]]] = {"weight": ("weight", count)}

_OPTIONS: Final = {"a broker's address": BROKER, "failover:(...)": FAILOVER, "fanout:(...)": FANOUT}


def read_options(options: Options, known: Mapping[str, tuple[str, Reader[object]]]) -> dict[str, Any]:
    """Return the values of the options by field. Raises `ValueError`, which names the option."""
    fields: dict[str, Any] = {}
    names: dict[str, str] = {}
    for name, text in options:
        if name not in known:
            raise ValueError(f"option {shown(name)}: {_why_unknown(name, known)}")
        field, reader = known[name]
        try:
            value = reader(OptionText(text))
        except ValueError as error:
            raise ValueError(f"option {shown(name)}: {error}") from None
        if field in fields and fields[field] != value:
            raise ValueError(f"option {shown(name)}: is {names[field]} by another name, which says otherwise")
        fields[field] = value
        names[field] = name
    return fields


def _why_unknown(name: str, known: Mapping[str, object]) -> str:
    for place, others in _OPTIONS.items():
        if name in others:
            return f"belongs to {place}"
    return f"there is no such option; {nearest(name, known)}"
