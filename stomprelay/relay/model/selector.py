"""Selectors, as ActiveMQ and Artemis read them, for brokers that have none. `tests/selectors.txt` has what both
products answer, cell by cell.
"""

import math
import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import partial
from operator import add, ge, gt, le, lt, mul, not_, sub
from typing import Final, NamedTuple, NoReturn

from stomprelay.relay.model.features import ACTIVEMQ, CONVERSION
from stomprelay.wire.errors import Refused

First = Callable[[bytes], bytes | None]
"""A function that returns the first value of a header of a MESSAGE, decoded; None without this header."""
Value = str | int | float | bool | Decimal | None
"""What a part of a selector is for a message. None: it is unknown."""

LONGEST: Final = 2048
"""The most bytes of a selector."""
PARSED: Final = 320
"""How many bytes a test costs at most, for each byte of its selector."""
_DEEPEST: Final = 32
"""How many parts of a selector may be within one another."""


class _Part(NamedTuple):
    """A part of a selector. `of` returns its value for a message. `condition`: the value is true, false or unknown.
    `name`: it is the name of a header. `constant`: the value, if it is the same for all messages.
    """

    of: Callable[[First], Value]
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
_CONSTANTS: Final = {"TRUE": True, "FALSE": False, "NULL": None}
_PREFIXES: Final = {
    CONVERSION.decode(): ("convert", True),
    "hyphenated_props:": ("dash", True),
    "no_" + CONVERSION.decode(): ("convert", False),
    "no_hyphenated_props:": ("dash", False),
}
"""What may begin a selector of Artemis, and the option that it sets."""


def _text(said: bytes | None) -> Value:
    return None if said is None else said.decode("utf-8", "surrogateescape")


def _whole(default: int, said: bytes | None) -> Value:
    return int(said) if said is not None and said.isdigit() and len(said) < 19 else default


def _flag(yes: Value, no: Value, said: bytes | None) -> Value:
    return yes if said == b"true" else no


_Known = dict[str, tuple[bytes, Callable[[bytes | None], Value]]]
_BOTH: Final[_Known] = {"JMSType": (b"type", _text), "JMSCorrelationID": (b"correlation-id", _text)}
_CLASSIC: Final[_Known] = {
    **_BOTH,
    "JMSPriority": (b"priority", partial(_whole, 4)),
    "JMSExpiration": (b"expires", partial(_whole, 0)),
    "JMSDeliveryMode": (b"persistent", partial(_flag, "PERSISTENT", "NON_PERSISTENT")),
    "JMSRedelivered": (b"redelivered", partial(_flag, True, False)),
    "JMSXGroupID": (b"JMSXGroupID", _text),
}
_ARTEMIS: Final[_Known] = {
    **_BOTH,
    "AMQPriority": (b"priority", partial(_whole, 4)),
    "AMQExpiration": (b"expires", partial(_whole, 0)),
    "AMQDurable": (b"persistent", partial(_flag, "DURABLE", "NON_DURABLE")),
}
"""The names that are no headers, with the headers that have their values. What only the product knows is missing."""
_HIDDEN: Final = frozenset(
    [
        "ack",
        "destination",
        "expires",
        "persistent",
        "priority",
        "receipt",
        "redelivered",
        "subscription",
        "type",
    ]
)
"""The headers that selectors do not see."""


class _Reader:
    """Reads a selector, each part by its method. `classic`: it is ActiveMQ's; otherwise it is Artemis'."""

    def __init__(self, said: str, *, classic: bool) -> None:
        self._classic = classic
        options = {"convert": classic, "dash": False}
        while not classic and (prefix := next((each for each in _PREFIXES if said.startswith(each)), None)):
            said = said[len(prefix) :]
            options.update([_PREFIXES[prefix]])
        self._converts = options["convert"]
        self._words = [*self._split(said, _DASHED if options["dash"] else _WORDS), ("end", "its end")]
        self._words.reverse()
        self._depth = 0

    @staticmethod
    def _split(said: str, words: re.Pattern[str]) -> Iterator[tuple[str, str]]:
        """Yield each word: its kind, and its text."""
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

    def whole(self) -> Callable[[First], Value]:
        """Return the condition that the selector is. Raises `Refused`."""
        found = _condition(self._either())
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

    def _expect(self, kind: str, text: str = "") -> str:
        found = self._words[-1]
        if found[0] != kind or text not in ("", found[1]):
            _fail(f"{found[1][:32]} comes where something else is expected")
        self._words.pop()
        return found[1]

    def _string(self) -> str:
        return self._expect("text")[1:-1].replace("''", "'")

    # Parts, from what binds least

    def _either(self) -> _Part:
        return self._joined("OR", self._both, decides=True)

    def _both(self) -> _Part:
        return self._joined("AND", self._equality, decides=False)

    def _joined(self, word: str, part: Callable[[], _Part], *, decides: bool) -> _Part:
        parts = [part()]
        while self._takes(word):
            parts.append(part())
        return _join([*map(_condition, parts)], decides=decides) if len(parts) > 1 else parts[0]

    def _equality(self) -> _Part:
        left = self._comparison()
        while sign := self._takes("=", "<>", "IS"):
            if sign == "IS":
                negated = bool(self._takes("NOT"))
                self._expect("word", "NULL")
                left = _is_null(left, negated=negated)
                continue
            right = self._comparison()
            if (None,) in (left.constant, right.constant):
                _fail("NULL is compared by IS")
            if left.constant and right.constant and left.condition and not right.condition:
                _fail("TRUE and FALSE are compared with conditions only")
            equal = self._equal(left, right)
            left = equal if sign == "=" else _applied(not_, equal)
        return left

    def _equal(self, left: _Part, right: _Part) -> _Part:
        def equal(first: First) -> Value:
            one, other = left.of(first), right.of(first)
            if one is None:
                return True if other is None else None
            return other is not None and self._order(one, other) == 0

        return _Part(equal, condition=True, depth=_depth(left, right))

    def _comparison(self) -> _Part:
        left = self._sum()
        while True:
            if sign := self._takes("<", "<=", ">", ">="):
                left = self._ordered(sign, left, self._sum())
                continue
            (_, word), (_, behind) = self._words[-1], self._words[-2] if len(self._words) > 1 else ("", "")
            negated = word == "NOT" and behind in ("BETWEEN", "LIKE", "IN") and bool(self._takes("NOT"))
            word = self._takes("BETWEEN", "LIKE", "IN")
            if word == "BETWEEN":
                low = self._sum()
                self._expect("word", "AND")
                signs = zip(("<", ">") if negated else (">=", "<="), (low, self._sum()), strict=True)
                left = _join([self._ordered(sign, left, limit) for sign, limit in signs], decides=negated)
            elif word:
                found = self._like(left) if word == "LIKE" else self._in(left)
                left = _applied(not_, found) if negated else found
            else:
                return left

    def _like(self, left: _Part) -> _Part:
        pattern = self._string()
        fits = _pattern(pattern, self._string() if self._takes("ESCAPE") else None)
        return _applied(lambda value: isinstance(value, str) and fits(value), left)

    def _in(self, left: _Part) -> _Part:
        if not left.name:
            _fail("IN is for the name of a header")
        self._expect("sign", "(")
        texts = {self._string()}
        while self._takes(","):
            texts.add(self._string())
        self._expect("sign", ")")
        return _applied(lambda value: value in texts if isinstance(value, str) else None, left)

    def _ordered(self, sign: str, left: _Part, right: _Part) -> _Part:
        for each in (left, right):
            if each.condition or (each.constant and isinstance(each.constant[0], str)):
                _fail(f"only numbers are compared by {sign}")
        test = {"<": lt, "<=": le, ">": gt, ">=": ge}[sign]

        def ordered(one: Value, other: Value) -> bool:
            order = self._order(one, other)
            return order is not None and test(order, 0)

        return _applied(ordered, left, right)

    def _order(self, one: Value, other: Value) -> int | None:
        """Return less than 0, 0 or more than 0, as the first value is less, equal or more; None: it cannot be told."""
        left, right = self._as(one, other), self._as(other, one)
        if left is None or right is None:
            return None
        return (left > right) - (left < right)  # type: ignore[operator]

    def _as(self, value: Value, other: Value) -> Value:
        """Return a value as the type of another one, or of its own if the other one becomes that; None: as none."""
        if type(value) is type(other):
            return value
        if isinstance(other, str):
            return value if self._converts else None
        if isinstance(value, str):
            return _read(value, other) if self._converts else None
        numbers = {type(value), type(other)} == {int, float}
        return float(value) if numbers and isinstance(value, int | float) else None

    def _sum(self) -> _Part:
        return self._calculated(("+", "-"), self._product)

    def _product(self) -> _Part:
        return self._calculated(("*", "/", "%"), self._single)

    def _calculated(self, signs: tuple[str, ...], part: Callable[[], _Part]) -> _Part:
        left = part()
        while sign := self._takes(*signs):
            left = _applied(partial(self._calculate, sign), left, part(), condition=False)
        return left

    def _calculate(self, sign: str, one: Value, other: Value) -> Value:
        if isinstance(one, str) and sign == "+":
            return f"{one}{str(other).lower() if isinstance(other, bool) else other}"
        return _CALCULATIONS[sign](self._number(one), self._number(other))

    def _number(self, value: Value) -> int | float:
        if isinstance(value, str) and self._converts:
            value = _read(value, 0.0 if "." in value else _LONG - 1)
        if type(value) is int or type(value) is float:
            return value
        raise ArithmeticError(value)

    def _single(self) -> _Part:
        self._depth += 1
        if self._depth > _DEEPEST:
            _fail("it is too deep")
        sign = self._takes("+", "-", "NOT", "(")
        if sign == "(":
            found = self._either()
            self._expect("sign", ")")
        elif sign == "NOT":
            found = _applied(not_, _condition(self._single()))
        elif sign == "-":
            found = _applied(_negative, self._single(), condition=False)
        else:
            found = self._single() if sign else self._primary()
        self._depth -= 1
        return found

    def _primary(self) -> _Part:
        if word := self._takes(*_CONSTANTS):
            return _constant(_CONSTANTS[word], condition=True)
        kind, text = self._words[-1]
        if kind == "text":
            return _constant(self._string())
        if kind in ("whole", "float"):
            self._words.pop()
            return _constant(float(text) if kind == "float" else _literal(text))
        name = self._expect("name")
        known = (_CLASSIC if self._classic else _ARTEMIS).get(name)
        if known is None and name.startswith("JMS" if self._classic else ("JMS", "AMQ")):
            _fail(f"{name[:32]} is not known where the relay applies selectors")
        if name in _HIDDEN or (self._classic and name == "timestamp"):
            return _Part(lambda _: None, name=True)
        header, value = known or (name.encode(), _text)
        return _Part(lambda first: value(first(header)), name=True)


def _fail(why: str) -> NoReturn:
    raise Refused("a selector cannot be applied", why)


def _depth(*parts: _Part) -> int:
    depth = 1 + max([each.depth for each in parts])
    if depth > 2 * _DEEPEST:
        _fail("it is too deep")
    return depth


def _constant(value: Value, *, condition: bool = False) -> _Part:
    return _Part(lambda _: value, condition, constant=(value,))


def _applied(does: Callable[..., Value], *parts: _Part, condition: bool = True) -> _Part:
    """Return what a function returns for the values of parts; unknown, if one of them is."""

    def of(first: First) -> Value:
        values = []
        for each in parts:
            value = each.of(first)
            if value is None:
                return None
            values.append(value)
        return does(*values)

    return _Part(of, condition, depth=_depth(*parts))


def _join(conditions: list[_Part], *, decides: bool) -> _Part:
    """Return whether one of the conditions has the value that `decides`."""

    def join(first: First) -> Value:
        unknown = False
        for each in conditions:
            value = each.of(first)
            if value is decides:
                return decides
            unknown = unknown or value is None
        return None if unknown else not decides

    return _Part(join, condition=True, depth=_depth(*conditions))


def _condition(part: _Part) -> _Part:
    if not (part.condition or part.name):
        _fail("it is no condition")
    return part if part.condition else _applied(lambda value: value is True, part)


def _is_null(part: _Part, *, negated: bool) -> _Part:
    return _Part(lambda first: (part.of(first) is None) is not negated, True, depth=_depth(part))


_INT: Final = 1 << 31
_LONG: Final = 1 << 63
_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,32}")
_FLOAT: Final = re.compile(r"[\0- ]*([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[fFdD]?[\0- ]*")


def _literal(text: str) -> Value:
    digits = text.rstrip("lL")
    number = int(digits, 16 if digits[:2] in ("0x", "0X") else 8 if digits[0] == "0" else 10)
    return number if number < _LONG else Decimal(number)


def _read(text: str, other: Value) -> Value:
    """Return the value that a text is, of the type of another value; None: none."""
    if isinstance(other, bool):
        return text.lower() == "true"
    if isinstance(other, float):
        found = _FLOAT.fullmatch(text)
        return None if found is None else float(found[1])
    if not isinstance(other, int) or _WHOLE.fullmatch(text) is None:
        return None
    number, most = int(text), _INT if -_INT <= other < _INT else _LONG
    return number if -most <= number < most else None


def _negative(value: Value) -> Value:
    return -value if isinstance(value, int | float | Decimal) and not isinstance(value, bool) else None


def _divided(one: float, other: float) -> float:
    if other:
        return one / other
    return math.nan if not one or math.isnan(one) else math.copysign(math.inf, one)


def _rest(one: float, other: float) -> float:
    return math.fmod(one, other) if other and math.isfinite(one) else math.nan


_CALCULATIONS: Final[dict[str, Callable[..., Value]]] = {
    "+": add,
    "-": sub,
    "*": mul,
    "/": _divided,
    "%": _rest,
}


def _pattern(pattern: str, escape: str | None) -> Callable[[str], bool]:
    """Return the test of LIKE. Its time grows with the product of both lengths at most."""
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
    pieces[-1] += r"\Z"
    begin, *others = [re.compile(each, re.DOTALL) for each in pieces]

    def fits(text: str) -> bool:
        found = begin.match(text)
        for each in others:
            if found is None:
                return False
            found = each.search(text, found.end())
        return found is not None

    return fits


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

    def fits(first: First) -> bool:
        try:
            return of(first) is True
        except ArithmeticError:  # it calculates with what is no number, or too large a one
            return False

    return fits
