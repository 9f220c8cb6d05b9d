"""A table tells each mistake by file and key."""

import pytest

from stomprelay.config.table import ConfigError, ConfigTable


def table(values: dict[str, object], *path: str | int) -> ConfigTable:
    """A table with these values."""
    return ConfigTable("relay.toml", "/etc/relay", values, path)


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
