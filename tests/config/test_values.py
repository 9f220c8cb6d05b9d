"""What each kind of value may be, cell by cell."""

from collections.abc import Callable
from datetime import date
from math import inf, nan

import pytest

from stomprelay.config import values


@pytest.mark.parametrize(
    ("read", "value", "answer"),
    [
        (values.count, 1, 1),
        (values.count, 10**18, 10**18),
        (values.headers, 10000, 10000),
        (values.seconds, 1, 1.0),
        (values.seconds, 0.001, 0.001),
        (values.seconds_or_none, 0, 0.0),
        (values.seconds_or_none, 2.5, 2.5),
        (values.rate, 0, 0.0),
        (values.share, 1, 1.0),
        (values.share, 0.1, 0.1),
        (values.multiple, 3.5, 3.5),
        (values.flag, True, True),
        (values.text, "x", "x"),
        (values.destination, "/queue/a b:c", "/queue/a b:c"),
        (values.connect_value, "häßlich:\\", "häßlich:\\".encode()),
        (values.passcode, "pa:ss\\word", b"pa:ss\\word"),
        (values.passcode, "", b""),
        (values.heart_beat, [10000, 5000], (10000, 5000)),
        (values.versions, ["1.2"], frozenset({b"1.2"})),
        (values.versions, ["1.1", "1.0", "1.1"], frozenset({b"1.0", b"1.1"})),
        (values.choice({"a": 1}), "a", 1),
        (values.reference("upstream", {"main": 1}), "main", 1),
        (values.references("listener", {"a": 1, "b": 2}), "b", (2,)),
        (values.references("listener", {"a": 1, "b": 2}), ["b", "a"], (2, 1)),
    ],
)
def test_taken(read: Callable[[object], object], value: object, answer: object) -> None:
    """Each reader answers what the code works with."""
    assert read(value) == answer


@pytest.mark.parametrize(
    ("read", "value", "said"),
    [
        (values.count, 0, "must be a positive whole number, not 0"),
        (values.count, True, "must be a positive whole number, not true"),
        (values.count, 1.0, "must be a positive whole number, not 1.0"),
        (values.count, date(2000, 1, 2), 'must be a positive whole number, not "2000-01-02"'),
        (values.headers, 0, "must be a whole number from 1 to 10000, not 0"),
        (values.headers, 10001, "must be a whole number from 1 to 10000, not 10001"),
        (values.seconds, 0, "must be a positive number of seconds, not 0"),
        (values.seconds, inf, "must be a positive number of seconds, not Infinity"),
        (values.seconds, nan, "must be a positive number of seconds, not NaN"),
        (values.seconds, 10**400, "must be a positive number of seconds"),
        (values.seconds, True, "must be a positive number of seconds, not true"),
        (values.seconds_or_none, -0.5, "must be a number of seconds, 0 or more, not -0.5"),
        (values.rate, -1, "must be a number for each second, 0 or more, not -1"),
        (values.destination, "", "must be a string that is not empty"),
        (values.destination, "a\nb", "must not contain LF or CR"),
        (values.destination, "a\0b", "must not contain NUL"),
        (values.share, 0, "must be a number above 0 and up to 1, not 0"),
        (values.share, 1.5, "must be a number above 0 and up to 1, not 1.5"),
        (values.multiple, 0.9, "must be a number, 1 or more, not 0.9"),
        (values.flag, 1, "must be true or false, not 1"),
        (values.flag, "true", 'must be true or false, not "true"'),
        (values.text, "", 'must be a string that is not empty, not ""'),
        (values.text, 7, "must be a string that is not empty, not 7"),
        (values.text, "a\0b", "must not contain NUL"),
        (values.connect_value, "", "must be a string that is not empty"),
        (values.connect_value, "a\nb", "must not contain LF, CR or NUL"),
        (values.connect_value, "a\0b", "must not contain LF, CR or NUL"),
        (values.heart_beat, 10, "must be two whole numbers of milliseconds"),
        (values.heart_beat, [1, 2, 3], "must be two whole numbers of milliseconds"),
        (values.heart_beat, [1, -2], "must be two whole numbers of milliseconds"),
        (values.heart_beat, [1.5, 2], "must be two whole numbers of milliseconds"),
        (values.heart_beat, [0, 10**9], "must be two whole numbers of milliseconds"),
        (values.versions, [], "must be a list of versions out of 1.0, 1.1, 1.2 (as strings), not []"),
        (values.versions, ["1.3"], "must be a list of versions"),
        (values.versions, [["1.2"]], "must be a list of versions"),
        (values.choice({"a": 1, "b": 2}), "c", 'must be one of a, b, not "c"'),
        (values.choice({"a": 1}), ["a"], 'must be one of a, not ["a"]'),
        (
            values.reference("upstream", {"main": 1}),
            "mian",
            'no upstream is called "mian"; did you mean "main"?',
        ),
        (values.reference("upstream", {}), "main", 'no upstream is called "main"; there is none'),
        (values.reference("upstream", {}), 1, "must be the name of an upstream, not 1"),
        (
            values.references("listener", {"a": 1}),
            [],
            "must be the name of a listener, or a list of names, not []",
        ),
        (values.references("listener", {"a": 1}), 5, "must be the name of a listener, not 5"),
        (values.references("listener", {"a": 1}), ["a", 5], "must be the name of a listener, not 5"),
        (values.references("listener", {"a": 1}), ["b"], 'no listener is called "b"; known are a'),
    ],
)
def test_refused(read: Callable[[object], object], value: object, said: str) -> None:
    """Each reader says what the value must be."""
    with pytest.raises(ValueError, match=r".") as error:
        read(value)
    assert str(error.value).startswith(said)


@pytest.mark.parametrize("value", ["geheim\n", "\0geheim", "ge\rheim", ["geheim"], 47110815])
def test_a_passcode_is_never_shown(value: object) -> None:
    """What is wrong with a passcode is said without it."""
    with pytest.raises(ValueError, match="must") as error:
        values.passcode(value)
    assert "heim" not in str(error.value)
    assert "4711" not in str(error.value)


@pytest.mark.parametrize(
    ("content", "passcode"),
    [
        (b"geheim", b"geheim"),
        (b"geheim\n", b"geheim"),
        (b"geheim\r\n", b"geheim"),
        (b" \xff: \n", b" \xff: "),
    ],
)
def test_a_passcode_from_a_file(content: bytes, passcode: bytes) -> None:
    """One line end behind the passcode is the editor's; all else is the passcode."""
    assert values.passcode_content(content) == passcode


@pytest.mark.parametrize("content", [b"", b"\n", b"\r\n", b"geheim\n\n", b"geheim\nmehr\n", b"ge\0heim"])
def test_a_file_that_holds_no_passcode(content: bytes) -> None:
    """A file that is empty or holds what CONNECT cannot say; the content is not shown."""
    with pytest.raises(ValueError, match=r"empty|must not contain") as error:
        values.passcode_content(content)
    assert "heim" not in str(error.value)
