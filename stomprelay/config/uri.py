"""How an upstream's brokers are written down: one address, or lists of them in ActiveMQ's notation.

    tcp://a:61613
    failover:(tcp://a:61613?weight=2,ssl://b:61614)?randomize=false&timeout=30000
    failover:tcp://a:61613,tcp://b:61613?randomize=false
    fanout:(failover:(tcp://a,tcp://b),tcp://c)?minAckCount=2

Here is the form alone; `Location` has the meaning. A backslash keeps the octet behind it from being punctuation, as
in Twisted's endpoint strings, in which it stays.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

from stomprelay.config.values import shown

Options = tuple[tuple[str, str], ...]
"""Names and values in their order, percent-escapes decoded."""

_DEPTH: Final = {"(": 1, ")": -1}
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
    """What a URI says. Raises `ValueError` for what is not written properly; no address is repeated in its text."""
    start = _LIST.match(text)
    if start is None:
        return Address(text)
    _balanced(text)
    scheme, rest = start[1].lower(), text[start.end() :].strip()
    if rest.startswith("("):
        return _in_parentheses(scheme, rest)
    parts, options = _cut(rest)
    if any(octet == "?" for _, octet, _ in _marks(options or "")):
        raise ValueError(f"an address with options needs parentheses around the list: {scheme}:(...)")
    return Several(scheme, _parts(scheme, parts), _options(options))


def _in_parentheses(scheme: str, text: str) -> Several:
    close = next(at for at, octet, depth in _marks(text) if octet == ")" and depth == 1)
    behind = text[close + 1 :].strip()
    if behind and not behind.startswith("?"):
        raise ValueError(f"must have nothing but ?option=value&... behind {scheme}:(...)")
    return Several(scheme, _parts(scheme, text[1:close]), _options(behind[1:] if behind else None))


def _parts(scheme: str, text: str) -> tuple[Address | Several, ...]:
    commas = [at for at, octet, depth in _marks(text) if octet == "," and depth == 0]
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
    """What stands before the options, and the options; None: there are none."""
    at = next((at for at, octet, depth in _marks(text) if octet == "?" and depth == 0), None)
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
    for _, octet, depth in _marks(text):
        after = depth + _DEPTH.get(octet, 0)
        if after < 0:
            raise ValueError("has a closing parenthesis that nothing opened")
    if after:
        raise ValueError("has a parenthesis that nothing closes")


def _marks(text: str) -> Iterator[tuple[int, str, int]]:
    """Each octet of punctuation: its place, itself, and how many parentheses are open before it."""
    depth = 0
    escaped = False
    for at, octet in enumerate(text):
        if escaped:
            escaped = False
        elif octet == "\\":
            escaped = True
        elif octet in "(),?":
            yield at, octet, depth
            depth += _DEPTH.get(octet, 0)
