"""The options of a URI, one by one, and the page that lists them."""

import json
import re
from dataclasses import fields
from math import inf
from pathlib import Path

import pytest

from stomprelay.config.uri import BROKER, FAILOVER, FANOUT, RECONNECT, read_options
from stomprelay.config.values import NEVER, OptionText
from stomprelay.relay.model.group import Reconnect

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "configuration.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "text", "field", "value"),
    [
        ("randomize", "true", "randomize", True),
        ("priorityBackup", "true", "priority_backup", True),
        ("initialReconnectDelay", "0", "initial_delay", 0.0),
        ("initialReconnectDelay", "10", "initial_delay", 0.01),
        ("maxReconnectDelay", "30000", "longest_delay", 30.0),
        ("useExponentialBackOff", "false", "exponential", False),
        ("backOffMultiplier", "2", "multiplier", 2.0),
        ("reconnectDelayExponent", "1.5", "multiplier", 1.5),
        ("reconnectDelayJitter", "0", "jitter", 0.0),
        ("reconnectDelayJitter", ".25", "jitter", 0.25),
        ("maxReconnectAttempts", "-1", "attempts", -1),
        ("maxReconnectAttempts", "7", "attempts", 7),
        ("startupMaxReconnectAttempts", "3", "startup_attempts", 3),
        ("timeout", "-1", "timeout", inf),
        ("timeout", "30000", "timeout", 30.0),
        ("warnAfterReconnectAttempts", "0", "warn_after", NEVER),
        ("warnAfterReconnectAttempts", "-1", "warn_after", NEVER),
    ],
)
def test_failover(name: str, text: str, field: str, value: object) -> None:
    """Each option lands in its field, milliseconds as seconds."""
    found = read_options(((name, text),), FAILOVER)
    assert found == {field: value}
    assert type(found[field]) is type(value)
    Reconnect(**found)


@pytest.mark.parametrize(
    ("name", "text", "field", "value"),
    [
        ("minAckCount", "1", "quorum", 1),
        ("fanOutQueues", "false", "fan_out_queues", False),
        ("fanOutQueues", "true", "fan_out_queues", True),
        ("maxReconnectAttempts", "2", "attempts", 2),
    ],
)
def test_fanout(name: str, text: str, field: str, value: object) -> None:
    """Its own options, and those that it hands down."""
    assert read_options(((name, text),), FANOUT) == {field: value}


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("randomize", "True", 'must be true or false, not "True"'),
        ("randomize", "1", 'must be true or false, not "1"'),
        ("initialReconnectDelay", "-1", 'must be a whole number of milliseconds, 0 or more, not "-1"'),
        ("initialReconnectDelay", "10ms", "must be a whole number of milliseconds, 0 or more"),
        ("initialReconnectDelay", "٣", "must be a whole number of milliseconds, 0 or more"),
        ("maxReconnectDelay", "0", "must be a positive whole number of milliseconds"),
        ("maxReconnectDelay", "9" * 30, "must be a positive whole number of milliseconds"),
        ("backOffMultiplier", "0.5", 'must be a number, 1 or more, not "0.5"'),
        ("backOffMultiplier", "inf", "must be a number, 1 or more"),
        ("reconnectDelayExponent", "x", "must be a number, 1 or more"),
        ("reconnectDelayJitter", "1.1", "must be a number from 0 to 1"),
        ("reconnectDelayJitter", ".", "must be a number from 0 to 1"),
        ("maxReconnectAttempts", "-2", "must be a whole number, or -1 for without end"),
        ("startupMaxReconnectAttempts", "1e3", "must be a whole number, or -1 for without end"),
        ("timeout", "0", "must be a positive whole number of milliseconds, or -1 for ever"),
        ("warnAfterReconnectAttempts", "x", "must be a whole number, 0 for never"),
    ],
)
def test_ill_typed(name: str, text: str, said: str) -> None:
    """The option is named, and what it must be."""
    with pytest.raises(ValueError, match=r".") as error:
        read_options(((name, text),), FAILOVER)
    assert str(error.value).startswith(f'option "{name}": {said}')


def test_a_value_that_may_hold_a_secret() -> None:
    """An address that slipped into an option is not shown."""
    with pytest.raises(ValueError, match=r'^option "randomize": must be true or false$'):
        read_options((("randomize", "false,tcp://user:geheim@b"),), FAILOVER)


@pytest.mark.parametrize(
    ("name", "known", "said"),
    [
        ("randomise", FAILOVER, 'there is no such option; did you mean "randomize"?'),
        ("Randomize", FAILOVER, 'there is no such option; did you mean "randomize"?'),
        ("INITIALRECONNECTDELAY", FAILOVER, 'there is no such option; did you mean "initialReconnectDelay"?'),
        ("minackcount", FANOUT, 'there is no such option; did you mean "minAckCount"?'),
        ("zzz", BROKER, "there is no such option; known are weight"),
        ("a\nb", BROKER, "there is no such option; known are weight"),
        ("minAckCount", FAILOVER, "belongs to fanout:(...)"),
        ("randomize", FANOUT, "belongs to failover:(...)"),
        ("randomize", BROKER, "belongs to failover:(...)"),
        ("weight", FAILOVER, "belongs to a broker's address"),
    ],
)
def test_unknown(name: str, known: dict[str, object], said: str) -> None:
    """Case matters, and a mistake in it is told; an option of another place is sent there."""
    with pytest.raises(ValueError, match=r".") as error:
        read_options(((name, "true"),), known)  # type: ignore[arg-type]
    assert str(error.value) == f"option {json.dumps(name)}: {said}"


def test_one_thing_under_two_names() -> None:
    """Both spellings of the multiplier may be said if they agree."""
    both = (("backOffMultiplier", "2"), ("reconnectDelayExponent", "2.0"))
    assert read_options(both, FAILOVER) == {"multiplier": 2.0}
    with pytest.raises(
        ValueError, match=r'^option "backOffMultiplier": is reconnectDelayExponent by another name'
    ):
        read_options((("reconnectDelayExponent", "3"), ("backOffMultiplier", "2")), FAILOVER)


def test_every_field_of_reconnect_has_an_option() -> None:
    """Nothing of `Reconnect` is out of reach of a URI."""
    assert {field for field, _ in FAILOVER.values()} == {field.name for field in fields(Reconnect)}


def _listed(heading: str) -> dict[str, str]:
    """Option -> default, out of a table of the documentation."""
    table = PAGE.partition(heading)[2].partition("\n\nIt also takes")[0].partition("\n\nEach address")[0]
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if "| `" in line
    ]
    return {name: row[2] for row in rows for name in re.findall(r"`(\w+)`", row[0])}


def test_the_page_has_every_option() -> None:
    """Those of failover with the default that the code has; those of fan-out that are its own."""
    listed = _listed("Options of `failover:(...)`")
    assert listed.keys() == FAILOVER.keys()
    for name, default in listed.items():
        field, reader = FAILOVER[name]
        assert reader(OptionText(default.strip("`"))) == getattr(Reconnect, field), name
    assert _listed("Options of `fanout:(...)`").keys() == FANOUT.keys() - RECONNECT.keys()
