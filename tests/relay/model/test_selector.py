"""Selectors: what fits them, as the real brokers answer it, and what is refused."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from stomprelay.relay.model.selector import LONGEST, selector
from stomprelay.wire.errors import Refused
from tests.selectors import PLACES, Cell, read

MESSAGES, CELLS = read()
HEADERS = [{name.encode(): value.encode() for name, value in each.items()} for each in MESSAGES]


def fits(said: str, product: str) -> tuple[int, ...] | None:
    """The messages that fit a selector; None if it is refused."""
    try:
        test = selector(said.encode(), product)
    except Refused:
        return None
    return tuple([at for at, each in enumerate(HEADERS) if test(each.get)])


@pytest.mark.parametrize("place", PLACES)
def test_each_cell(place: str) -> None:
    """The answer is that of the real broker; what only the relay refuses is marked in the table."""

    def answer(cell: Cell) -> tuple[int, ...] | None:
        return fits(cell.said, place.partition("_")[0])

    cells = [each for each in CELLS if each.place == place and each.answer.usable]
    wrong = {
        cell.said: found
        for cell in cells
        if ((found := answer(cell)) != (None if cell.answer.error else cell.answer.fits))
        is not cell.answer.refused
    }
    assert not wrong


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("", "its end comes where something else is expected"),
        ("a = 'x", 'it cannot be read from "\'x" on'),
        ("a = 1 b", "b comes where something else is expected"),
        ("a + 1", "it is no condition"),
        ("a < 'x'", "only numbers are compared by <"),
        ("a = NULL", "NULL is compared by IS"),
        ("TRUE = 5", "TRUE and FALSE are compared with conditions only"),
        ("5 IN ('5')", "IN is for the name of a header"),
        ("a LIKE 'x' ESCAPE 'yz'", "ESCAPE needs one character"),
        ("JMSTimestamp > 5", "JMSTimestamp is not known where the relay applies selectors"),
        ("(" * 40 + "a" + ")" * 40, "it is too deep"),
        ("a = " + " = ".join(["1"] * 99), "it is too deep"),
        ("a" * (LONGEST + 1), f"it has more than {LONGEST} bytes"),
    ],
)
def test_what_is_refused(said: str, why: str) -> None:
    """The ERROR says why."""
    with pytest.raises(Refused) as caught:
        selector(said.encode(), "activemq")
    assert (caught.value.message, caught.value.detail) == ("a selector cannot be applied", why)


def test_no_utf_8() -> None:
    """Bytes that are no text are no selector; in a header they are only a value that nothing equals."""
    with pytest.raises(Refused):
        selector(b"a = '\xff'", "activemq")
    assert selector(b"a <> 'x'", "activemq")({b"a": b"\xff"}.get)


def test_many_terms() -> None:
    """As many conditions as have room, joined by OR."""
    said = " OR ".join([f"n = {each}" for each in range(150)])
    assert selector(said.encode(), "activemq")({b"n": b"149"}.get)


WORDS = st.sampled_from(
    [
        *("n", "kind", "missing", "JMSPriority", "AND", "OR", "NOT", "IN", "LIKE", "ESCAPE", "BETWEEN", "IS"),
        *(
            "NULL",
            "TRUE",
            "FALSE",
            "=",
            "<>",
            "<",
            ">=",
            "+",
            "-",
            "*",
            "/",
            "%",
            "(",
            ")",
            ",",
            "'a%_'",
            "'!'",
        ),
        *("5", "2147483647", "9223372036854775807", "99999999999999999999", "1.5", "1e400", "0x7f", "''"),
    ]
)


@given(st.lists(WORDS).map(" ".join) | st.text(), st.sampled_from(["activemq", "artemis"]), st.text())
@example("1.5 < " + " * ".join(["n"] * 60), "activemq", "9999999999999")
@example("1 / (" + " * ".join(["n"] * 60) + ") = 2 % " + " * ".join(["n"] * 60), "artemis", "9999999999999")
@example("n / 0 - 1e400 % 0 > -99999999999999999999 * 1.5", "artemis", "5")
@example("n % 99999999999999999999 = -(n + 9223372036854775807)", "activemq", "1e999")
def test_every_text(said: str, product: str, value: str) -> None:
    """Any text is a selector or is refused, and any message fits it or does not."""
    try:
        test = selector(said.encode("utf-8", "surrogatepass"), product)
    except Refused:
        return
    headers = {b"n": value.encode("utf-8", "surrogatepass"), b"kind": b"5", b"priority": b"7"}
    assert test(headers.get) in (True, False)


@given(st.text("ab%_!"), st.text("ab%_!", max_size=8), st.booleans())
def test_like(text: str, pattern: str, escaping: bool) -> None:
    """LIKE agrees with what it means, spelled out letter by letter."""

    def like(at: int, to: int) -> bool:
        if to == len(pattern):
            return at == len(text)
        if escaping and pattern[to] == "!" and pattern[to + 1 : to + 2] in [*"%_!"]:
            return text[at : at + 1] == pattern[to + 1] and like(at + 1, to + 2)
        if pattern[to] == "%":
            return any(like(each, to + 1) for each in range(at, len(text) + 1))
        return at < len(text) and pattern[to] in ("_", text[at]) and like(at + 1, to + 1)

    said = f"kind LIKE '{pattern}'" + " ESCAPE '!'" * escaping
    assert selector(said.encode(), "activemq")({b"kind": text.encode()}.get) is like(0, 0)
