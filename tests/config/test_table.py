"""A table tells each mistake by file and key."""

import pytest

from stomprelay.config.table import ConfigError, Table, nearest
from stomprelay.config.values import count, text


def table(values: dict[str, object], *path: str | int) -> Table:
    """A table with these values."""
    return Table("relay.toml", "/etc/relay", values, path)


def test_a_value_is_what_its_reader_answers() -> None:
    """A key that is there is read; one that is not has its default."""
    read = table({"body": 5}, "limits")
    assert read.get("body", count, 7) == 5
    assert read.get("headers", count, 7) == 7
    assert read.get("headers", count) is None
    assert read.required("body", count) == 5


def test_an_error_names_file_and_key() -> None:
    """The whole path stands in front of what the reader says."""
    read = table({"body": "x"}, "listener", "public", "limits")
    with pytest.raises(ConfigError) as error:
        read.get("body", count)
    assert str(error.value) == (
        'relay.toml: listener.public.limits.body: must be a positive whole number, not "x"'
    )


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


def test_a_missing_key_is_named() -> None:
    """A required key that is absent."""
    with pytest.raises(ConfigError, match=r"^relay\.toml: upstream\.a\.uri: is missing$"):
        table({}, "upstream", "a").required("uri", text)


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


def test_nearest_of_nothing() -> None:
    """Without any known word there is nothing to suggest."""
    assert nearest("main", []) == "there is none"


def test_tables_keep_the_order_of_the_file() -> None:
    """Named tables come as they stand, and know their names."""
    found = table({"listener": {"z": {"linger": 1}, "a": {}}}).tables("listener")
    assert [each.name for each in found] == ["z", "a"]
    assert "linger" in found[0]
    assert "linger" not in found[1]
    assert table({}).tables("listener") == []


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


def test_an_array_of_tables() -> None:
    """The tables come in the file's order, and are counted from 1."""
    found = table({"route": [{"glob": "*"}, {"glob": 5}]}).array("route")
    assert [each.place for each in found] == ["route[1]", "route[2]"]
    assert found[0].get("glob", text) == "*"
    with pytest.raises(ConfigError, match=r"^relay\.toml: route\[2\]\.glob: must be a string"):
        found[1].get("glob", text)
    assert table({}).array("route") == []


@pytest.mark.parametrize("value", [{"glob": "*"}, "x", [{}, 5]])
def test_what_is_no_array(value: object) -> None:
    """One table, a value, and a value among tables."""
    with pytest.raises(ConfigError, match=r"^relay\.toml: route: must be tables, each under \[\[route\]\]$"):
        table({"route": value}).array("route")


def test_paths_start_in_the_folder() -> None:
    """A relative path belongs to the folder of the file, an absolute one stays."""
    read = table({"key": "tls/relay.key", "ca": "/ca.pem"})
    assert read.path("key", text) == "/etc/relay/tls/relay.key"
    assert read.path("ca", text) == "/ca.pem"
    assert read.path("certificate", text) is None
