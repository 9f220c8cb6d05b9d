"""Whatever a file holds: it is a configuration, or an error in one line that names the file."""

import re
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stomprelay.config import ConfigError, default, load, load_admin, overridden
from stomprelay.config.config import LONGEST
from stomprelay.config.summary import summary
from tests.config.reference import everything, settings

DEEP = 100_000

VALUES = st.recursive(
    st.one_of(
        st.sampled_from(
            [
                *("inf", "-inf", "nan", "0", "-0.0", "1e999", "-1", "9223372036854775807", "9" * 20),
                *("0x" + "f" * 5000, "true", "2000-01-01", "10:00:00", "1979-05-27T07:32:00Z", '""', "'\\'"),
                *('"\\u0000"', '"a\\u0000b"', '"\\n"', '"*"', '"é"', '"\\u009b"', '"1.2"', "[]", "{}"),
                *('"tcp:0"', '"tcp://a"', '"failover:(tcp://a)"', '"fanout:(tcp://a,tcp://b)"', '"auto"'),
            ]
        ),
        st.integers().map(str),
        st.floats().map(repr),
        st.dates(date(1, 1, 1)).map(str),
        st.from_regex(r'"[ -!#-\[\]-~]{0,20}"', fullmatch=True),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda values: f"[{', '.join(values)}]"),
        st.dictionaries(st.from_regex(r"[a-z]{1,6}", fullmatch=True), inner, max_size=2).map(
            lambda pairs: "{" + ", ".join(f"{key} = {value}" for key, value in pairs.items()) + "}"
        ),
    ),
    max_leaves=6,
)
"""Values as TOML has them, of each type, at the ends of what they may be."""

KEYS = sorted({setting.key.rpartition(".")[2] for setting in settings()})


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file beside a passcode."""
    folder = tmp_path_factory.mktemp("any")
    (folder / "broker.passcode").write_bytes(b"x\n")
    return folder / "relay.toml"


def read(file: Path, content: bytes) -> str:
    """What is said of a file with this content: why it is refused, or "" where it is taken, and shown in words."""
    file.write_bytes(content)
    try:
        summary(load(str(file)))
    except ConfigError as error:
        said = str(error)
        assert said.startswith(f"{file}: ")
        assert "\n" not in said
        return said.removeprefix(f"{file}: ")
    return ""


@given(st.binary(max_size=200))
def test_any_bytes(file: Path, content: bytes) -> None:
    """No content ends in a traceback."""
    read(file, content)


@given(st.lists(st.tuples(st.sampled_from(KEYS), VALUES), min_size=1, max_size=3))
def test_any_value_of_any_setting(file: Path, changes: list[tuple[str, str]]) -> None:
    """Every setting is asked for what it is, in its type and its range."""
    text = everything()
    for key, value in changes:
        text = re.sub(rf"^{key} = .*$", lambda _, line=f"{key} = {value}": line, text, flags=re.MULTILINE)  # type: ignore[misc]
    read(file, text.encode())


@pytest.mark.parametrize("key", ["a", "admin", "listener.default.linger", "journal.redact"])
@pytest.mark.parametrize(
    "value",
    ["[" * DEEP, "[" * DEEP + "]" * DEEP, "{a=" * DEEP, "[{a=" * (DEEP // 2), '["x", ' * DEEP],
    ids=["open", "closed", "tables", "both", "with more"],
)
def test_nested_too_deeply(file: Path, key: str, value: str) -> None:
    """The parser has no stack for it."""
    assert read(file, f"# [[[\n\n{key}={value}".encode()) == "is nested too deeply"


@pytest.mark.parametrize("key", ["admin", "listener", "route", "journal", "nothing"])
def test_dotted_keys_nested_too_deeply(file: Path, key: str) -> None:
    """They nest without a bracket; what the error would show is as deep."""
    said = read(file, f"{key}{'.a' * 5000} = 1".encode())
    assert said.startswith(key)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\n\na = '\xff'", "is not UTF-8, and so not TOML (at line 3)"),
        (b"a = " + b"9" * 5000, "is not TOML: "),
        (
            b"admin = 0x" + b"f" * 5000,
            "admin: must be a string that is not empty, not a value that is too large",
        ),
        (
            b"[listener.a.limits]\nbody = 9223372036854775808",
            "listener.a.limits.body: must be a positive whole",
        ),
        (
            b"[upstream.a]\nuri = 'memory:'\nlogin = 'a'\npasscode_file = 'a\\u0000b'",
            "upstream.a.passcode_file: ",
        ),
        (b"[upstream.a]\nuri = 'memory:'\nlogin = 'a'\npasscode_file = '.'", "upstream.a.passcode_file: "),
        (b"admin = '" + b"haproxy:" * 5000 + b"tcp:1'", "admin: must have haproxy: once"),
        (
            b"[upstream.a]\nuri = '" + b"fanout:(" * 5000 + b")" * 5000 + b"'",
            "upstream.a.uri: has too many lists",
        ),
        (b"#" * (LONGEST + 1), f"is longer than {LONGEST} bytes"),
    ],
    ids=lambda value: value[:30] if isinstance(value, bytes) else "",
)
def test_refused(file: Path, content: bytes, said: str) -> None:
    """The file, and the key or the line where it is known."""
    assert read(file, content).startswith(said)


@pytest.mark.parametrize("path", [".", "/", "a\0b", "relay\n.toml", "x" * 5000])
def test_a_path_that_is_no_file(path: str) -> None:
    """A folder, a name that cannot be one."""
    for reads in (load, load_admin):
        with pytest.raises(ConfigError, match="cannot be read: ") as error:
            reads(path)
        assert path == "relay\n.toml" or "\n" not in str(error.value)


@given(st.text(alphabet="failovernut:()/,?&=%\\[]@.0123 tcpsl", max_size=60))
def test_any_option_of_the_command_line(text: str) -> None:
    """The same for what is not in a file."""
    for option in ({"listen": [text]}, {"upstream": text}, {"admin": text}, {"journal": text}):
        said = "command line: --"
        try:
            summary(overridden(default(), **option))
        except ConfigError as error:
            said = str(error)
        assert said.startswith("command line: --")
