"""What a setting's value may be: the readers of values in a TOML file, and of options in a URI.

A reader takes the value and returns what the code works with. It raises `ValueError` with a text that begins with
"must" and states what the value must be; the caller adds the key.
"""

import json
import os
import re
from argparse import ArgumentTypeError
from collections.abc import Callable, Mapping
from enum import Enum
from fnmatch import translate
from ipaddress import ip_address
from math import inf
from typing import Final, NamedTuple, TypeVar
from urllib.parse import urlsplit

from stomprelay.config.table import nearest
from stomprelay.journal.settings import ALL, NOTHING
from stomprelay.relay.model.features import NACKS, PRODUCTS
from stomprelay.relay.model.listener import ANY_ORIGIN
from stomprelay.relay.model.mapping import (
    FUNCTIONS,
    IGNORED,
    LEFT_OUT,
    NACKING,
    REFUSE,
    Addition,
    HeaderRow,
)
from stomprelay.relay.model.names import PARTED, SPELLINGS, NameMap, NameRow, Pattern
from stomprelay.session.subscriptions import MODES
from stomprelay.wire.dialect import DIALECTS
from stomprelay.wire.names import CONNECT_HEADERS, MESSAGE, SEND, SUBSCRIBE, UNSUBSCRIBE

T = TypeVar("T")
V = TypeVar("V")
E = TypeVar("E", bound=Enum)

Reader = Callable[[object], T]

_LONG: Final = 80
_ENDLESS: Final = 10**9
_LARGEST: Final = 2**63
"""The bound of whole numbers in TOML; Python's parser also accepts larger numbers."""
_MOST_HEADERS: Final = 10_000
_WHOLE: Final = re.compile(r"-?[0-9]{1,9}")
_NUMBER: Final = re.compile(r"[0-9]{1,9}(\.[0-9]{0,9})?|\.[0-9]{1,9}")
_FLAGS: Final = {"true": True, "false": False}
_HEADER: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")

NEVER: Final = 10**9
"""The value of `warnings` for "never": a number of passes that no search reaches."""


class OptionText(NamedTuple):
    """The value of an option in a URI. It is always text: the readers of numbers and flags parse it."""

    text: str


def shown(value: object) -> str:
    """Return a value as errors show it: on one line, and shortened if it is long."""
    try:
        text = json.dumps(value, ensure_ascii=False, default=str)
    except (RecursionError, ValueError):  # deeper than the stack, or a number of thousands of digits
        return "a value that is too large to be shown"
    return text if len(text) <= _LONG else text[:_LONG] + "..."


def _unfit(expected: str, value: object) -> ValueError:
    if isinstance(value, OptionText):
        value = value.text
        if "@" in value:  # the value looks like an address with a user, and may contain a password
            return ValueError(f"must be {expected}")
    return ValueError(f"must be {expected}, not {shown(value)}")


def _whole(value: object) -> int | None:
    if isinstance(value, OptionText):
        return int(value.text) if _WHOLE.fullmatch(value.text) else None
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if abs(value) < _LARGEST else None


def _number(value: object) -> float | None:
    if isinstance(value, OptionText):
        return float(value.text) if _NUMBER.fullmatch(value.text) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) < _ENDLESS else None


def _string(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _reader(
    parse: Callable[[object], T | None], fits: Callable[[T], object], expected: str, convert: Callable[[T], V]
) -> Reader[V]:
    def read(value: object) -> V:
        parsed = parse(value)
        if parsed is None or not fits(parsed):
            raise _unfit(expected, value)
        return convert(parsed)

    return read


def _int(fits: Callable[[int], bool], expected: str) -> Reader[int]:
    return _reader(_whole, fits, expected, int)


def _float(fits: Callable[[float], bool], expected: str) -> Reader[float]:
    return _reader(_number, fits, expected, float)


def _milliseconds(fits: Callable[[int], bool], expected: str) -> Reader[float]:
    """Return a reader that takes milliseconds and returns seconds. For -1 it returns infinity, if `fits` accepts -1."""
    return _reader(_whole, fits, expected, lambda number: inf if number == -1 else number / 1000)


def argument(read: Reader[T]) -> Callable[[str], T]:
    """Return `read` as a `type` of argparse, for an option of the command line that is a number."""

    def given(value: str) -> T:
        try:
            return read(OptionText(value))
        except ValueError as error:
            raise ArgumentTypeError(str(error)) from None

    return given


# Numbers of both

count: Final = _int(lambda number: number >= 1, "a positive whole number")
multiple: Final = _float(lambda number: number >= 1, "a number, 1 or more")

# Numbers of a file

headers: Final = _int(
    lambda number: 1 <= number <= _MOST_HEADERS, f"a whole number from 1 to {_MOST_HEADERS}"
)
size: Final = _int(lambda number: number >= 0, "a whole number of bytes, 0 or more")
seconds: Final = _float(lambda number: number > 0, "a positive number of seconds")
seconds_or_none: Final = _float(lambda number: number >= 0, "a number of seconds, 0 or more")
rate: Final = _float(lambda number: number >= 0, "a number for each second, 0 or more")
per_second: Final = _float(lambda number: number > 0, "a positive number for each second")
share: Final = _float(lambda number: 0 < number <= 1, "a number above 0 and up to 1")

# Numbers of a URI

attempts: Final = _int(lambda number: number >= -1, "a whole number, or -1 for without end")
delay: Final = _milliseconds(lambda number: number >= 0, "a whole number of milliseconds, 0 or more")
longest: Final = _milliseconds(lambda number: number >= 1, "a positive whole number of milliseconds")
timeout: Final = _milliseconds(
    lambda number: number >= 1 or number == -1, "a positive whole number of milliseconds, or -1 for ever"
)
jitter: Final = _float(lambda number: 0 <= number <= 1, "a number from 0 to 1")
warnings: Final = _reader(
    _whole, lambda _: True, "a whole number, 0 for never", lambda number: number if number > 0 else NEVER
)


def flag(value: object) -> bool:
    """Return True or False. In a URI the values are the words `true` and `false`."""
    if isinstance(value, OptionText) and value.text in _FLAGS:
        return _FLAGS[value.text]
    if not isinstance(value, bool):
        raise _unfit("true or false", value)
    return value


# Texts


def text(value: object) -> str:
    """Return a string that is not empty."""
    if not isinstance(value, str) or not value:
        raise _unfit("a string that is not empty", value)
    if "\0" in value:
        raise ValueError("must not contain NUL")
    return value


def destination(value: object) -> str:
    """Return a destination that every version of STOMP can express."""
    string = text(value)
    if "\n" in string or "\r" in string:
        raise ValueError("must not contain LF or CR")
    return string


def _connectable(value: bytes) -> bytes:
    """Return the bytes if they can be in a CONNECT, which has no escapes. Raises `ValueError`."""
    if any(byte in value for byte in b"\n\r\0"):
        raise ValueError("must not contain LF, CR or NUL: CONNECT cannot say them")
    return value


connect_value: Final = _reader(
    _string, bool, "a string that is not empty", lambda value: _connectable(value.encode())
)


def header_name(value: object) -> bytes:
    """Return the name of a header for CONNECT, as bytes. Raises `ValueError`, also for a header that STOMP defines."""
    if not isinstance(value, str) or not _HEADER.fullmatch(value):
        raise _unfit("a header's name, such as x-forwarded-for", value)
    name = value.encode()
    if name.lower() in CONNECT_HEADERS:
        raise ValueError(f"must not be {value}, which has a meaning in STOMP")
    return name


def passcode(value: object) -> bytes:
    """Return a passcode, as bytes. No error shows the passcode."""
    if not isinstance(value, str):
        raise ValueError("must be a string")
    return _connectable(value.encode())


def passcode_content(content: bytes) -> bytes:
    """Return the passcode in the content of a file, without the last line end."""
    content = content.removesuffix(b"\n").removesuffix(b"\r")
    if not content:
        raise ValueError("the file is empty")
    return _connectable(content)


# Lists and choices


def heart_beat(value: object) -> tuple[int, int]:
    """Return in milliseconds how often the relay can send heart-beats, and how often it wants heart-beats."""
    numbers = [_whole(each) for each in value] if isinstance(value, list) else []
    match numbers:
        case [int() as can_send, int() as wants] if (
            min(can_send, wants) >= 0 and max(can_send, wants) < _ENDLESS
        ):
            return can_send, wants
    raise _unfit("two whole numbers of milliseconds, [can send, wants to receive], 0 for never", value)


def versions(value: object) -> frozenset[bytes]:
    """Return the STOMP versions in a list, as bytes. The relay must support each of them."""
    known = [version.decode() for version in DIALECTS]
    if not isinstance(value, list) or not value or any(each not in known for each in value):
        raise _unfit(f"a list of versions out of {', '.join(known)} (as strings)", value)
    return frozenset(each.encode() for each in value)


def choice(known: Mapping[str, T]) -> Reader[T]:
    """Return a reader that accepts one of the words in `known`, and returns the word's value in `known`."""

    def read(value: object) -> T:
        if not isinstance(value, str) or value not in known:
            raise _unfit(f"one of {', '.join(known)}", value)
        return known[value]

    return read


def member(kind: type[E]) -> Reader[E]:
    """Return a reader that accepts the value of a member of the enumeration `kind`, and returns this member."""
    return choice({each.value: each for each in kind})


def _article(noun: str) -> str:
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"


def reference(kind: str, known: Mapping[str, T]) -> Reader[T]:
    """Return a reader that accepts a name in `known`, and returns its value. Errors name the `kind`."""

    def read(value: object) -> T:
        if not isinstance(value, str):
            raise _unfit(f"the name of {_article(kind)}", value)
        if value not in known:
            raise ValueError(f"no {kind} is called {shown(value)}; {nearest(value, known)}")
        return known[value]

    return read


def references(kind: str, known: Mapping[str, T]) -> Reader[tuple[T, ...]]:
    """Return a reader of a name in `known`, or of a list of such names. The reader returns a tuple of the values."""
    return several(reference(kind, known), f"the name of {_article(kind)}, or a list of names")


def several(one: Reader[T], expected: str) -> Reader[tuple[T, ...]]:
    """Return a reader of one value, or of a list; `one` reads each value. `expected` is a part of the error's text."""

    def read(value: object) -> tuple[T, ...]:
        if not isinstance(value, list):
            return (one(value),)
        if not value:
            raise _unfit(expected, value)
        return tuple(map(one, value))

    return read


texts: Final = several(text, "a string that is not empty, or a list of such")


# Values of single settings

LEVELS: Final = {each: each for each in ("error", "warn", "info", "debug")}
BODIES: Final = {"none": NOTHING, "all": ALL}
"""The words that say how much of a body is recorded."""
MOST_WORKERS: Final = 256
"""The largest number of processes of a relay. Usual machines have fewer cores, so a larger number is a typing error."""
LONGEST_PATH: Final = 100
"""The largest size in bytes of the path of a UNIX socket. Systems accept 104 to 108 bytes, with a zero at the end."""

_PATH: Final = re.compile(r"/[!$&-;=@-Z_a-z~%]*")
_ORIGIN: Final = re.compile(r"[a-z][a-z0-9+.-]*://(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(:[0-9]{1,5})?")
_PATTERN: Final = re.compile(r"[^\s:]+(:[^\r\n]*)?")


def workers(value: object) -> int:
    """Return the number of workers."""
    number = count(value)
    if number > MOST_WORKERS:
        raise ValueError(f"must be {MOST_WORKERS} at most, not {number}")
    return number


def socket_path(value: object) -> str:
    """Return the path of a UNIX socket."""
    path = text(value)
    if len(os.fsencode(path)) > LONGEST_PATH:
        raise ValueError(f"must have {LONGEST_PATH} bytes at most, as the path of a UNIX socket")
    return path


web_path: Final = _reader(_string, _PATH.fullmatch, "a path as in a URL, such as /ws", str)


def origins(value: object) -> tuple[str, ...]:
    """Check a list of origins, which are the sites of web pages. Return the list as a tuple. Raises `ValueError`."""
    if not isinstance(value, list) or not all(
        isinstance(each, str) and (each == ANY_ORIGIN or _ORIGIN.fullmatch(each)) for each in value
    ):
        raise ValueError(
            "must be a list of origins as browsers send them, such as https://app.example.net, in lower case and "
            f"without a path, or {ANY_ORIGIN} for all, not {shown(value)}"
        )
    return tuple(value)


def bodies(value: object) -> int:
    """Return how many bytes of a body are recorded."""
    if isinstance(value, str) and value in BODIES:
        return BODIES[value]
    try:
        return count(value)
    except ValueError:
        raise ValueError(f'must be "none", "all" or a number of bytes, not {shown(value)}') from None


def header_names(value: object) -> tuple[str, ...]:
    """Check a list of names of headers. Return the names as a tuple. Raises `ValueError`."""
    if not isinstance(value, list):
        raise ValueError(f"must be a list of names of headers, not {shown(value)}")
    for each in value:
        if not isinstance(each, str) or not each or any(mark in each for mark in "\n\r\0"):
            raise ValueError(f"must be names of headers, and {shown(each)} is none")
    return tuple(value)


def printable(value: object) -> str:
    """Return a text after checking that all its characters are printable."""
    found = text(value)
    if not found.isprintable():
        raise ValueError(f"must be printable, not {shown(value)}")
    return found


_some_modes: Final = several(
    choice({each.decode(): each for each in sorted(MODES)}), "an ack mode, or a list of such"
)


def ack_modes(value: object) -> frozenset[bytes]:
    """Return the ack modes of SUBSCRIBE, from a single mode or a list."""
    return frozenset(_some_modes(value))


def _header_pattern(value: object) -> str:
    found = text(value)
    if not _PATTERN.fullmatch(found):
        raise ValueError(f"must be a header's name, or name:value, not {shown(value)}")
    return found


def _name_pattern(value: object) -> Pattern:
    found = text(value)
    parts = [each[0] for each in PARTED.findall(found)]
    unknown = next((each for _, each in PARTED.findall(found) if each not in SPELLINGS), None)
    if unknown is not None:
        raise ValueError(
            f"{shown(value)}: no spelling is called {unknown}; {nearest(unknown, [*SPELLINGS][1:])}"
        )
    if set(PARTED.sub("", found)) & {"{", "}"} or "}{" in found or len(set(parts)) != len(parts):
        raise ValueError(
            f"{shown(value)}: parts stand in braces, each once, with text between two, as /queue/{{name}}"
        )
    return Pattern(found)


product: Final = choice({each: each for each in PRODUCTS})


def name_rows(value: object) -> tuple[NameRow, ...]:
    """Return rows of names from a list of pairs: a pattern of clients' names, and one of the broker's names. A third
    entry may be the broker's product.
    """
    if not isinstance(value, list) or not all(
        isinstance(each, list) and len(each) in (2, 3) for each in value
    ):
        raise _unfit('a list of pairs, such as [["/queue/{name}", "/queue/{name:percent}"]]', value)
    rows = [
        NameRow(_name_pattern(each[0]), _name_pattern(each[1]), *map(product, each[2:])) for each in value
    ]
    for client, broker, _ in rows:
        if sorted(client.parts) != sorted(broker.parts):
            raise ValueError(f"{shown(client.text)} and {shown(broker.text)} must have the same parts")
    for each in PRODUCTS:
        found = NameMap(tuple([row for row in rows if row.product in (None, each)]))
        if (clash := found.clash()) is not None:
            raise ValueError(clash)
    return tuple(rows)


def _map_header(value: object) -> HeaderRow | Addition:
    """Return one row of `map.headers`."""
    if not isinstance(value, dict):
        raise _unfit('a list of tables, such as [{ on = "SEND", header = "expires", drop = true }]', value)
    unknown = next((key for key in value if key not in _HEADER_KEYS), None)
    if unknown is not None:
        raise ValueError(f"there is no key {unknown}; {nearest(unknown, _HEADER_KEYS)}")
    on = _commands(value.get("on", "SEND"))
    name = text(value.get("header", "")).encode()
    at = product(value["product"]) if "product" in value else None
    if len({"add", "drop", "becomes"} & set(value)) != 1:
        raise ValueError(f"{shown(name.decode())}: say one of add, drop and becomes")
    if ("destination" in value) != ("add" in value) or ("value" in value and "becomes" not in value):
        raise ValueError(f"{shown(name.decode())}: destination belongs to add, and value to becomes")
    if "add" in value:
        glob = re.compile(translate(text(value["destination"])).encode())
        # RabbitMQ's exchange of all queues has an empty name.
        return Addition(on, glob, name, b"" if value["add"] == "" else text(value["add"]).encode(), at)
    if "drop" in value:
        return HeaderRow(on, name, name, LEFT_OUT, at)
    return HeaderRow(on, name, text(value["becomes"]).encode(), _value(value.get("value", "same")), at)


_HEADER_KEYS: Final = ("on", "header", "product", "destination", "add", "drop", "becomes", "value")
_commands: Final = several(
    choice({each.decode(): each for each in (SEND, SUBSCRIBE, UNSUBSCRIBE, MESSAGE)}), "a command, or a list"
)
_value: Final = choice(FUNCTIONS)


def map_headers(value: object) -> tuple[HeaderRow | Addition, ...]:
    """Return the rows of `map.headers`."""
    if not isinstance(value, list):
        raise _unfit("a list of tables", value)
    return tuple([_map_header(each) for each in value])


def broker_hosts(value: object) -> dict[str, bytes]:
    """Return the `host` of CONNECT by the URI of a broker, from a table."""
    if not isinstance(value, dict):
        raise _unfit('a table, such as { "tcp://rabbitmq:61613" = "/shop" }', value)
    return {text(uri): connect_value(host) for uri, host in value.items()}


_nack: Final = choice({each: each for each in NACKING})


def nacks(value: object) -> dict[str, str]:
    """Return what a NACK is to do, by product, from one word for all products or from a table."""
    found = value if isinstance(value, dict) else dict.fromkeys(PRODUCTS, value)
    read = {product(name): _nack(does) for name, does in found.items()}
    for name, does in read.items() if isinstance(value, dict) else ():
        if does != REFUSE and does not in NACKS[name]:
            raise ValueError(f"{name} cannot {does}; {nearest(does, [REFUSE, *NACKS[name]])}")
    return read


features: Final = several(
    choice({each: each for each in sorted(IGNORED)}), "a feature, or a list of features"
)


def ignored(value: object) -> frozenset[str]:
    """Return the features that clients may use although brokers lack them."""
    return frozenset(features(value))


def _filtered_place(value: object) -> str:
    glob = text(value)
    if re.match(r"/(?:temp-)?(?:topic|queue)/.", glob) is None:
        raise ValueError(
            f"{shown(glob)} must begin with /topic/, or, where messages may be dropped, with /queue/"
        )
    return glob


filtered: Final = several(_filtered_place, "a destination, or a list of destinations")
"""Returns the destinations whose selectors the relay applies."""

header_patterns: Final = several(_header_pattern, "a header, or a list of such")


def service_url(value: object) -> str:
    """Return the URL of a service to which passcodes may be sent: HTTPS, or HTTP on the loopback interface."""
    url = text(value)
    try:
        found = urlsplit(url)
        host, _ = found.hostname or "", found.port
    except ValueError:
        raise ValueError("must be a URL such as https://auth.example.net/stomp") from None
    if found.scheme not in ("http", "https") or not host or not url.isascii() or not url.isprintable():
        raise ValueError("must be a URL such as https://auth.example.net/stomp")
    if found.username is not None or found.query or found.fragment or " " in url:
        raise ValueError("must be a URL without a user, a query, a fragment or blanks")
    if found.scheme == "http" and not _loopback(host):
        raise ValueError("must be https://, for it is told passcodes, unless on the loopback interface")
    return url


def _loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
