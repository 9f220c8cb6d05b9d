"""A table tells each mistake by file and key."""

import pytest

from stomprelay.config.table import ConfigError, Table, nearest


def table(values: dict[str, object], *path: str | int) -> Table:
    """A table with these values."""
    return Table("relay.toml", "/etc/relay", values, path)


@pytest.mark.parametrize(
    ("path", "key", "place"),
    [
        ((), "admin", "admin: "),
        (("listener", "a"), None, "listener.a: "),
        (("listener", "a.b"), "linger", 'listener."a.b".linger: '),
        (("route", 2), "upstream", "route[2].upstream: "),
        (("odd key", 1), None, '"odd key"[1]: '),
        ((), None, ""),
        ((), "", '"": '),
        ((), "odd\nkey", '"odd\\nkey": '),
    ],
)
def test_a_path_is_written_as_in_toml(path: tuple[str | int, ...], key: str | None, place: str) -> None:
    """Keys that are not bare are quoted, so that the error stays one line."""
    assert str(table({}, *path).error(key, "no")) == f"relay.toml: {place}no"


def test_an_unknown_key_is_an_error_with_a_hint() -> None:
    """The nearest known key is suggested; where none is near, all are named."""
    with pytest.raises(ConfigError, match=r'listener\.a\.lingre: unknown key; did you mean "linger"\?'):
        table({"lingre": 1}, "listener", "a").only(["linger", "loss"])
    with pytest.raises(ConfigError, match=r"zzz: unknown key; known are linger, loss"):
        table({"zzz": 1}).only(["linger", "loss"])
    table({"loss": 1}).only(["linger", "loss"])


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("randomise", 'did you mean "randomize"?'),
        ("RANDOMIZE", 'did you mean "randomize"?'),
        ("minackcount", 'did you mean "minAckCount"?'),
        ("x", "known are randomize, minAckCount"),
    ],
)
def test_the_nearest_word(word: str, hint: str) -> None:
    """A mistake in case is the nearest of all."""
    assert nearest(word, ["randomize", "minAckCount"]) == hint


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"listener": 3}, "listener: must be a table"),
        ({"listener": [{}]}, "listener: must be a table"),
        ({"listener": {"endpoint": "tcp:1"}}, "listener.endpoint: must be a table, as in [listener.main]"),
        ({"listener": {"a b": {}}}, 'listener."a b": a name is made of letters, digits'),
        ({"listener": {"": {}}}, 'listener."": a name is made of letters, digits'),
    ],
)
def test_what_is_no_table(values: dict[str, object], said: str) -> None:
    """A value where a table belongs, and a name that logs could not show."""
    with pytest.raises(ConfigError) as error:
        table(values).tables("listener")
    assert said in str(error.value)


@pytest.mark.parametrize("value", [{"glob": "*"}, "x", [{}, 5]])
def test_what_is_no_array(value: object) -> None:
    """One table, a value, and a value among tables."""
    with pytest.raises(ConfigError, match=r"^relay\.toml: route: must be tables, each under \[\[route\]\]$"):
        table({"route": value}).array("route")
