"""Options as Spark hands them over."""

import re

import pytest

from stomprelay.pipeline.stomp.options import (
    GivenOptions,
    OptionError,
    choice,
    flag,
    listed,
    number,
    positive,
    text,
)


def test_what_nobody_knows_is_refused() -> None:
    """A misspelt option gets a hint, one known from elsewhere its own words; headers pass."""
    names, foreign = "groupSize path", {"assign": "has no meaning", "kafka.": "is Kafka's"}
    GivenOptions({"groupsize": "3", "path": "x", "header.a": "b"}).only(names, foreign)
    for name, said in (
        ("groupsise", 'unknown option; did you mean "groupSize"'),
        ("assign", "has no meaning"),
        ("kafka.x.y", "is Kafka's"),
    ):
        with pytest.raises(OptionError, match=f"option {name}: {re.escape(said)}"):
            GivenOptions({name: "3"}).only(names, foreign)


def test_headers_come_one_by_one_or_as_json() -> None:
    """Brokers' own names get their case back; any other needs JSON for it, which goes first."""
    given = GivenOptions(
        {
            "header.activemq.prefetchsize": "7",
            "header.jmsxgroupid": "g",
            "header.x-other": "1",
            "headers": '{"X-Other": "2", "x-other": "3"}',
        }
    )
    assert given.headers() == {
        b"activemq.prefetchSize": b"7",
        b"JMSXGroupID": b"g",
        b"x-other": b"3",
        b"X-Other": b"2",
    }


@pytest.mark.parametrize("wrong", ["[]", "7", '{"a": 1}', "{"])
def test_headers_are_a_json_object_of_texts(wrong: str) -> None:
    """Anything else is told."""
    with pytest.raises(OptionError, match="option headers: must be a JSON object"):
        GivenOptions({"headers": wrong}).headers()


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("/queue/a", ("/queue/a",)),
        ("/queue/a, /queue/b,/queue/a", ("/queue/a", "/queue/b")),
        ('["/queue/a,b", "/queue/c"]', ("/queue/a,b", "/queue/c")),
    ],
)
def test_lists_are_written_with_commas_or_as_json(value: str, found: tuple[str, ...]) -> None:
    """JSON is for names with commas in them; each counts once."""
    assert listed(value) == found


@pytest.mark.parametrize("wrong", ["", "a,,b", "[", "[1]", "[]", '[""]'])
def test_lists_have_something_in_each_place(wrong: str) -> None:
    """Nothing is no destination."""
    with pytest.raises(ValueError, match="must"):
        listed(wrong)


def test_numbers_flags_and_choices() -> None:
    """What each reader takes, and what it does not."""
    assert positive("0.5") == 0.5
    assert flag("TRUE") is True
    assert choice("spool", "commit")("Commit") == "commit"
    assert text("a") == "a"
    for reader, wrong in (
        (positive, "0"),
        (positive, "inf"),
        (positive, "x"),
        (flag, "yes"),
        (choice("a"), "b"),
        (text, ""),
        (number(0), "-1"),
        (number(0), "1.5"),
        (number(0), "9" * 20),
    ):
        with pytest.raises(ValueError, match="must"):
            reader(wrong)
