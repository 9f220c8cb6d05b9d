"""A file is read while a configuration runs: what holds the same is kept, and the result is that of a first reading."""

import re
from pathlib import Path

import pytest

from stomprelay.config import Config, ConfigError, load
from stomprelay.config.change import change
from stomprelay.config.config import NOTHING
from tests.config.reference import everything, put_secrets

TWO = """
[listener.one]
endpoint = "tcp:1"
upstream = "a"
[listener.two]
endpoint = "tcp:2"
upstream = "b"
[upstream.a]
uri = "failover:(tcp://a:1,tcp://b:1)"
[upstream.b]
uri = "tcp://b:1"
"""


def read(text: str, running: Config = NOTHING) -> Config:
    """The configuration in this text."""
    return load("stomprelay.toml", text, running)


def test_a_file_that_holds_the_same() -> None:
    """Sessions go on with what there is: brokers are the same as long as their uri is, and others as they run."""
    before = read(TWO)
    after = read(f"stop_timeout = 3\n{TWO}", before)
    assert after.listeners is before.listeners
    assert after.stop_timeout == 3
    assert change("", before, after).changed == ("stop_timeout",)
    before = read(TWO)
    after = read(TWO.replace("[upstream.b]", "confirm = true\n[upstream.b]"), before)
    assert after.upstreams[0].confirm
    assert after.upstreams[0].groups is before.upstreams[0].groups
    assert after.listeners[1] is before.listeners[1]
    assert after.listeners[0].upstream is after.upstreams[0]
    found = change("", before, after)
    assert (found.changed, found.continued, found.left) == (("upstream.a.confirm",), (), ())


@pytest.mark.parametrize("key", ["trace", "limits.clients"])
def test_values_that_are_alike(key: str) -> None:
    """To Python 1 is True, and it is no flag; True is no number."""
    text = TWO.replace('"tcp:2"', f'"tcp:2"\n{key} = true')
    one = text.replace("= true", "= 1")
    good, bad = (text, one) if key == "trace" else (one, text)
    with pytest.raises(ConfigError, match="must be"):
        read(bad, read(good))


def test_every_setting_that_comes_or_goes(tmp_path: Path) -> None:
    """With each setting there and then not, and the other way round, the result is that of a first reading."""
    put_secrets(tmp_path)
    file = str(tmp_path / "f")
    tables = re.split(r"^(?=\[)", everything(), flags=re.MULTILINE)
    others = ("[[route", "[[rule", "[auth", "[listener.default.limits.user")
    text = "".join(each for each in tables if not each.startswith(others))
    text = re.sub(
        r"^(auth|passcode_file|rules_default|clients_per_user) = .*\n", "", text, flags=re.MULTILINE
    )
    present = load(file, text)
    compared = 0
    for setting in re.finditer(r"^[a-z_0-9]+ = .*\n", text, flags=re.MULTILINE):
        other = text[: setting.start()] + text[setting.end() :]
        try:
            absent = load(file, other)
        except ConfigError:  # it is needed
            continue
        compared += 1
        for said, first, running in ((other, absent, present), (text, present, absent)):
            found = change("", first, load(file, said, running))
            assert (found.changed, found.restart) == ((), ()), setting[0]
    assert compared > 90


def test_a_passcode_in_a_file(tmp_path: Path) -> None:
    """The file is read again, though its name stays."""
    secret = tmp_path / "secret"
    text = f'{TWO}login = "x"\npasscode_file = "{secret}"\n'
    secret.write_bytes(b"old")
    before = read(text)
    secret.write_bytes(b"new")
    assert change("", before, read(text, before)).changed == ("upstream.b.passcode",)
