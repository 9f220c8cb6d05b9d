"""Selectors, as ActiveMQ and Artemis read them, for brokers that have none. `tests/selectors.txt` has what
both products answer, cell by cell.
"""

import math
import re
from collections.abc import Callable, Iterable
from decimal import Decimal
from functools import lru_cache
from operator import add, ge, gt, le, lt, mul, sub
from typing import Final, NamedTuple, NoReturn

from stomprelay.relay.model.features import ACTIVEMQ, CONVERSION
from stomprelay.wire.errors import Refused
from stomprelay.wire.names import DESTINATION, SUBSCRIPTION

First = Callable[[bytes], bytes | None]
"""A function that returns the first value of a header of a MESSAGE, decoded; None without this header."""
Value = str | int | float | bool | Decimal | None
_Of = Callable[[First], Value]
_Word = tuple[str, str]
"""A word of a selector: its kind, and its text."""

LONGEST: Final = 2048
"""The most bytes of a selector."""
_DEEPEST: Final = 32
"""How deep a selector's parts may be within one another, parts joined by AND or OR not counted."""


class _NoAnswer(Exception):
    """The message has a value with which the selector cannot be worked out: it does not match."""


class _Part(NamedTuple):
    """A part of a selector. `of`: returns its value for a message. `condition`: the value is true, false or unknown
    (None). `name`: it is the name of a header. `constant`: it has this value for every message. `depth`: how many parts
    are within one another.
    """

    of: _Of
    condition: bool = False
    name: bool = False
    constant: tuple[Value, ...] = ()
    depth: int = 1


_WORDS: Final = re.compile(
    r"(?P<blank>[ \t\n\r\f]+|--[^\n\r]*[\n\r]|/\*(?:[^*]|\*(?!/))*\*/)"
    r"|(?P<float>[0-9]+\.[0-9]*(?:[eE][+-]?[0-9]+)?|\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+)"
    r"|(?P<whole>0[xX][0-9a-fA-F]+|[1-9][0-9]*[lL]?|0[0-7]*)"
    r"|(?P<text>'(?:[^']|'')*')"
    r"|(?P<name>[A-Za-z_$][A-Za-z0-9_$]*)"
    r"|(?P<sign><>|<=|>=|[=<>()+*/%,-])"
)
_DASHED: Final = re.compile(_WORDS.pattern.replace("[A-Za-z0-9_$]*", "[A-Za-z0-9_$-]*"))
_RESERVED: Final = frozenset(
    ["NOT", "AND", "OR", "BETWEEN", "LIKE", "ESCAPE", "IN", "IS", "TRUE", "FALSE", "NULL", "XPATH", "XQUERY"]
)
_END: Final = ("end", "its end")
_PREFIXES: Final = {
    CONVERSION.decode(): ("convert", True),
    "hyphenated_props:": ("dash", True),
    "no_" + CONVERSION.decode(): ("convert", False),
    "no_hyphenated_props:": ("dash", False),
}
"""What may begin a selector of Artemis, and the option that it sets."""

_INT: Final = 1 << 31
_LONG: Final = 1 << 63
_WHOLE: Final = re.compile(r"[+-]?[0-9]+")
_FLOAT: Final = re.compile(r"[\0- ]*([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[fFdD]?[\0- ]*")


def _whole(header: bytes, default: int) -> _Of:
    def value(first: First) -> Value:
        said = first(header)
        return int(said) if said is not None and said.isdigit() and len(said) < 19 else default

    return value


def _flag(header: bytes, yes: Value, no: Value) -> _Of:
    return lambda first: yes if first(header) == b"true" else no


def _text(header: bytes) -> _Of:
    def value(first: First) -> Value:
        said = first(header)
        return None if said is None else said.decode("utf-8", "surrogateescape")

    return value


_BOTH: Final = {"JMSType": _text(b"type"), "JMSCorrelationID": _text(b"correlation-id")}
_KNOWN: Final[dict[bool, dict[str, _Of]]] = {
    True: {
        **_BOTH,
        "JMSPriority": _whole(b"priority", 4),
        "JMSExpiration": _whole(b"expires", 0),
        "JMSDeliveryMode": _flag(b"persistent", "PERSISTENT", "NON_PERSISTENT"),
        "JMSRedelivered": _flag(b"redelivered", True, False),
        "JMSXGroupID": _text(b"JMSXGroupID"),
    },
    False: {
        **_BOTH,
        "AMQPriority": _whole(b"priority", 4),
        "AMQExpiration": _whole(b"expires", 0),
        "AMQDurable": _flag(b"persistent", "DURABLE", "NON_DURABLE"),
    },
}
"""The names that are no headers, for ActiveMQ and for Artemis. What another broker cannot know is missing."""
_HIDDEN: Final = {
    *("ack", "expires", "persistent", "priority", "receipt", "redelivered", "type"),
    *(DESTINATION.decode(), SUBSCRIPTION.decode()),
}
"""The headers that selectors do not see."""


class _Reader:
    """Reads a selector from its words, each part by its method. `classic`: it is ActiveMQ's. `converts`: texts are
    compared with numbers.
    """

    def __init__(self, said: str, *, classic: bool) -> None:
        self._classic = classic
        options = {"convert": classic, "dash": False}
        while not classic and (prefix := next((each for each in _PREFIXES if said.startswith(each)), None)):
            said = said[len(prefix) :]
            options.update([_PREFIXES[prefix]])
        self._converts = options["convert"]
        self._words = [*self._split(said, _DASHED if options["dash"] else _WORDS), _END]
        self._words.reverse()
        self._depth = 0

    @staticmethod
    def _split(said: str, words: re.Pattern[str]) -> Iterable[_Word]:
        at = 0
        while at < len(said):
            found = words.match(said, at)
            if found is None:
                _fail(f"it cannot be read from {said[at : at + 16]!r} on")
            at, kind, text = found.end(), found.lastgroup or "", found[0]
            if kind == "name" and text.upper() in _RESERVED:
                yield "word", text.upper()
            elif kind != "blank":
                yield kind, text

    def whole(self) -> _Of:
        """Return the condition that the selector is. Raises `Refused`."""
        found = self._condition(self._either())
        self._expect("end")
        return found.of

    # Words

    def _takes(self, *texts: str) -> str:
        """Return the next word and go on, if it is one of these signs or reserved words; otherwise return nothing."""
        kind, text = self._words[-1]
        if kind not in ("word", "sign") or text not in texts:
            return ""
        self._words.pop()
        return text

    def _takes_not(self, *texts: str) -> tuple[str, bool]:
        """Do as `_takes`, also if NOT is in front. Return also whether it is."""
        negated = len(self._words) > 1 and self._words[-1] == ("word", "NOT") and self._words[-2][1] in texts
        if negated:
            self._words.pop()
        return self._takes(*texts), negated

    def _expect(self, kind: str, text: str = "") -> str:
        found = self._words[-1]
        if found[0] != kind or text not in ("", found[1]):
            _fail(f"{found[1][:32]} comes where something else is expected")
        self._words.pop()
        return found[1]

    def _string(self) -> str:
        return self._expect("text")[1:-1].replace("''", "'")

    # Parts

    @staticmethod
    def _condition(part: _Part) -> _Part:
        if part.condition:
            return part
        if not part.name:
            _fail("it is no condition")

        def cast(first: First) -> Value:
            value = part.of(first)
            return value if value is None or isinstance(value, bool) else False

        return _made(cast, part)

    def _either(self) -> _Part:
        return self._joined("OR", self._both, decides=True)

    def _both(self) -> _Part:
        return self._joined("AND", self._equality, decides=False)

    def _joined(self, word: str, part: Callable[[], _Part], *, decides: bool) -> _Part:
        parts = [part()]
        while self._takes(word):
            parts.append(part())
        if len(parts) == 1:
            return parts[0]
        conditions = [self._condition(each).of for each in parts]

        def join(first: First) -> Value:
            unknown = False
            for each in conditions:
                value = each(first)
                if value is decides:
                    return decides
                unknown = unknown or value is None
            return None if unknown else not decides

        return _made(join, *parts)

    def _equality(self) -> _Part:
        left = self._comparison()
        while sign := self._takes("=", "<>", "IS"):
            if sign == "IS":
                negated = bool(self._takes("NOT"))
                self._expect("word", "NULL")
                left = _made(_is_null(left.of, negated=negated), left)
                continue
            right = self._comparison()
            if (None,) in (left.constant, right.constant):
                _fail("NULL is compared by IS")
            if left.constant and right.constant and left.condition and not right.condition:
                _fail("TRUE and FALSE are compared with conditions only")
            equal = self._equal(left.of, right.of)
            left = _made(equal if sign == "=" else _not(equal), left, right)
        return left

    def _equal(self, left: _Of, right: _Of) -> _Of:
        def equal(first: First) -> Value:
            one, other = left(first), right(first)
            if one is None or other is None:
                return other is None if one is None and other is None else None if one is None else False
            return self._order(one, other) == 0

        return equal

    def _comparison(self) -> _Part:
        left = self._sum()
        while True:
            if sign := self._takes("<", "<=", ">", ">="):
                left = self._ordered(sign, left, self._sum())
                continue
            word, negated = self._takes_not("BETWEEN", "LIKE", "IN")
            if word == "BETWEEN":
                low = self._sum()
                self._expect("word", "AND")
                found = self._between(left, low, self._sum(), negated=negated)
            elif word == "LIKE":
                pattern = self._string()
                matches = _like(pattern, self._string() if self._takes("ESCAPE") else None)
                found = _made(_of_text(left.of, matches, other=False), left)
            elif word == "IN":
                if not left.name:
                    _fail("IN is for the name of a header")
                found = _made(_of_text(left.of, self._list().__contains__, other=None), left)
            else:
                return left
            left = found._replace(of=_not(found.of)) if negated and word != "BETWEEN" else found

    def _list(self) -> frozenset[str]:
        self._expect("sign", "(")
        texts = [self._string()]
        while self._takes(","):
            texts.append(self._string())
        self._expect("sign", ")")
        return frozenset(texts)

    def _between(self, value: _Part, low: _Part, high: _Part, *, negated: bool) -> _Part:
        signs = ("<", ">") if negated else (">=", "<=")
        parts = [self._ordered(sign, value, limit).of for sign, limit in zip(signs, (low, high), strict=True)]

        def between(first: First) -> Value:
            found = [each(first) for each in parts]
            return negated if negated in found else None if None in found else not negated

        return _made(between, value, low, high)

    def _ordered(self, sign: str, left: _Part, right: _Part) -> _Part:
        for each in (left, right):
            if each.condition or (each.constant and isinstance(each.constant[0], str)):
                _fail(f"only numbers are compared by {sign}")
        test = {"<": lt, "<=": le, ">": gt, ">=": ge}[sign]

        def ordered(first: First) -> Value:
            one = left.of(first)
            other = None if one is None else right.of(first)
            if one is None or other is None:
                return None
            order = self._order(one, other)
            return order is not None and test(order, 0)

        return _made(ordered, left, right)

    def _order(self, one: Value, other: Value) -> int | None:
        """Return less than 0, 0 or more than 0, as the first value is less, equal or more; None: it cannot be told."""
        left, right = self._like(one, other), self._like(other, one)
        if left is None or right is None:
            return None
        return (left > right) - (left < right)  # type: ignore[operator]

    def _like(self, value: Value, other: Value) -> Value:
        """Return a value as the type of another one, or of its own if the other one becomes that; None: as none."""
        if type(value) is type(other) or (isinstance(other, str) and self._converts):
            return value
        if isinstance(value, str) and self._converts:
            return _read(value, other)
        numbers = {type(value), type(other)} == {int, float}
        return float(value) if numbers and isinstance(value, int | float) else None

    def _sum(self) -> _Part:
        return self._calculated(("+", "-"), self._product)

    def _product(self) -> _Part:
        return self._calculated(("*", "/", "%"), self._single)

    def _calculated(self, signs: tuple[str, ...], part: Callable[[], _Part]) -> _Part:
        left = part()
        while sign := self._takes(*signs):
            right = part()
            left = _made(self._calculation(sign, left.of, right.of), left, right, condition=False)
        return left

    def _calculation(self, sign: str, left: _Of, right: _Of) -> _Of:
        def calculate(first: First) -> Value:
            one = left(first)
            other = None if one is None else right(first)
            if one is None or other is None:
                return None
            if isinstance(one, str) and sign == "+":
                return f"{one}{str(other).lower() if isinstance(other, bool) else other}"
            return _CALCULATIONS[sign](self._number(one), self._number(other))

        return calculate

    def _number(self, value: Value) -> int | float:
        if isinstance(value, str) and self._converts:
            found = _read(value, 0.0 if "." in value else _LONG - 1)
            if isinstance(found, int | float):
                return found
        if isinstance(value, int | float) and not isinstance(value, bool):
            return value
        raise _NoAnswer

    def _single(self) -> _Part:
        self._depth += 1
        if self._depth > _DEEPEST:
            _fail("it is too deep")
        try:
            sign = self._takes("+", "-", "NOT", "(")
            if sign == "(":
                found = self._either()
                self._expect("sign", ")")
                return found
            if not sign:
                return self._primary()
            part = self._single()
            if sign == "NOT":
                part = self._condition(part)
                return _made(_not(part.of), part)
            return part if sign == "+" else _made(_negative(part.of), part, condition=False)
        finally:
            self._depth -= 1

    def _primary(self) -> _Part:
        kind, text = self._words[-1]
        constants: dict[str, Value] = {"TRUE": True, "FALSE": False, "NULL": None}
        if kind == "word" and text in constants:
            self._words.pop()
            return _constant(constants[text], condition=True)
        if kind == "text":
            return _constant(self._string())
        if kind in ("whole", "float"):
            self._words.pop()
            return _constant(float(text) if kind == "float" else _literal(text))
        name = self._expect("name")
        known = _KNOWN[self._classic].get(name)
        if known is None and name.startswith("JMS" if self._classic else ("JMS", "AMQ")):
            _fail(f"{name[:32]} is not known where the relay applies selectors")
        hidden = name in _HIDDEN or (self._classic and name == "timestamp")
        return _Part(known or ((lambda _: None) if hidden else _text(name.encode())), name=True)


def _fail(why: str) -> NoReturn:
    raise Refused("a selector cannot be applied", why)


def _made(of: _Of, *parts: _Part, condition: bool = True) -> _Part:
    depth = 1 + max(each.depth for each in parts)
    if depth > 2 * _DEEPEST:
        _fail("it is too deep")
    return _Part(of, condition, depth=depth)


def _constant(value: Value, *, condition: bool = False) -> _Part:
    return _Part(lambda _: value, condition, constant=(value,))


def _literal(text: str) -> Value:
    digits = text.rstrip("lL")
    base = 16 if digits[:2] in ("0x", "0X") else 8 if digits[0] == "0" else 10
    number = int(digits, base)
    return number if number < _LONG else Decimal(number)


def _read(text: str, other: Value) -> Value:
    """Return the value that a text is, of the type of another value; None: none."""
    if isinstance(other, bool):
        return text.lower() == "true"
    if isinstance(other, float):
        found = _FLOAT.fullmatch(text)
        return None if found is None else float(found[1])
    if not isinstance(other, int) or len(text) > 32 or _WHOLE.fullmatch(text) is None:
        return None
    number, most = int(text), _INT if -_INT <= other < _INT else _LONG
    return number if -most <= number < most else None


def _not(of: _Of) -> _Of:
    def negate(first: First) -> Value:
        value = of(first)
        return None if value is None else not value

    return negate


def _negative(of: _Of) -> _Of:
    def negate(first: First) -> Value:
        value = of(first)
        return -value if isinstance(value, int | float | Decimal) and not isinstance(value, bool) else None

    return negate


def _is_null(of: _Of, *, negated: bool) -> _Of:
    return lambda first: (of(first) is None) is not negated


def _of_text(of: _Of, matches: Callable[[str], bool], *, other: Value) -> _Of:
    """Return a test of a text. `other`: its result for other values."""

    def test(first: First) -> Value:
        value = of(first)
        return None if value is None else matches(value) if isinstance(value, str) else other

    return test


def _wrapped(calculate: Callable[[int | float, int | float], int | float]) -> Callable[..., int | float]:
    def calculated(one: int | float, other: int | float) -> int | float:
        found = calculate(one, other)
        if isinstance(found, float):
            return found
        half = _INT if all(-_INT <= each < _INT for each in (one, other)) else _LONG
        return (found + half) % (2 * half) - half

    return calculated


def _divided(one: int | float, other: int | float) -> float:
    if other:
        return one / other
    return math.nan if not one or math.isnan(one) else math.copysign(math.inf, one)


def _rest(one: int | float, other: int | float) -> float:
    return math.fmod(one, other) if other and math.isfinite(one) else math.nan


_CALCULATIONS: Final[dict[str, Callable[..., int | float]]] = {
    "+": _wrapped(add),
    "-": _wrapped(sub),
    "*": _wrapped(mul),
    "/": _divided,
    "%": _rest,
}


def _like(pattern: str, escape: str | None) -> Callable[[str], bool]:
    """Return the test whether a text is like a pattern. Its time grows with the product of both lengths at most."""
    if escape is not None and len(escape) != 1:
        _fail("ESCAPE needs one character")
    pieces, at = [""], 0
    while at < len(pattern):
        char, behind = pattern[at], pattern[at + 1 : at + 2]
        if char == escape and behind and behind in f"_%{escape}":
            pieces[-1] += re.escape(behind)
            at += 1
        elif char == "%":
            pieces.append("")
        else:
            pieces[-1] += "." if char == "_" else re.escape(char)
        at += 1
    if len(pieces) == 1:
        whole = re.compile(pieces[0], re.DOTALL)
        return lambda text: whole.fullmatch(text) is not None
    begin, *inner = [re.compile(each, re.DOTALL) for each in pieces[:-1]]
    end = re.compile(rf"(?:{pieces[-1]})\Z", re.DOTALL)

    def matches(text: str) -> bool:
        found = begin.match(text)
        for each in (*inner, end):
            if found is None:
                return False
            found = each.search(text, found.end())
        return found is not None

    return matches


@lru_cache(256)
def selector(said: bytes, product: str) -> Callable[[First], bool]:
    """Return the test of a client's selector, as the product for which the client was written reads it: whether a
    message with these headers is for the client. Raises `Refused`.
    """
    if len(said) > LONGEST:
        _fail(f"it has more than {LONGEST} bytes")
    try:
        of = _Reader(said.decode(), classic=product == ACTIVEMQ).whole()
    except UnicodeDecodeError:
        _fail("it is not UTF-8")

    def matches(first: First) -> bool:
        try:
            return of(first) is True
        except _NoAnswer:
            return False

    return matches
