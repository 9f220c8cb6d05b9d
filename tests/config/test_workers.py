"""`workers`: how many, what they cannot share, and what each of them has of a configuration."""

from pathlib import Path

import pytest

from stomprelay.config import Config, ConfigError, default, overridden, share
from stomprelay.config.values import MOST_WORKERS
from tests.config.reference import config

FILE = """
[listener.public]
endpoint = "tcp:1"
limits.clients = 7
limits.clients_per_address = 5
[listener.other]
endpoint = "tcp:2"
[upstream.main]
uri = "tcp://a:1"
[journal]
directory = "/j"
retain_age = 60
retain_size = 1000000000
"""


def read(tmp_path: Path, text: str, **options: str) -> Config:
    """The configuration in a file, with options over it."""
    return overridden(config(tmp_path, text), **options, source=str(tmp_path / "relay.toml"))


@pytest.mark.parametrize("value", ["0", "-1", "2.5", "two", "", "²", "1" * 30, str(MOST_WORKERS + 1)])
def test_a_number_that_cannot_be(tmp_path: Path, value: str) -> None:
    """The error names the option."""
    with pytest.raises(ConfigError, match=r"^command line: --workers: must be "):
        read(tmp_path, FILE, workers=value)


def test_the_embedded_broker_is_in_one_process(tmp_path: Path) -> None:
    """Both keys are named, wherever they are from; another upstream makes it well."""
    wanted = r"workers: 2 processes cannot share the embedded broker.*upstream\.default\.uri.*memory:"
    with pytest.raises(ConfigError, match=f"^command line: {wanted}"):
        overridden(default(), workers="2")
    with pytest.raises(ConfigError, match=rf"relay\.toml: {wanted}"):
        read(tmp_path, "workers = 2")
    assert read(tmp_path, "workers = 2", upstream="tcp://a:1").workers == 2
    routed = 'workers = 2\n[[route]]\nprefix = "/m"\nupstream = "inner"\n[upstream.inner]\nuri = "memory:"\n'
    routed += '[upstream.main]\nuri = "tcp://a:1"\n[listener.public]\nupstream = "main"\n'
    with pytest.raises(ConfigError, match=r"upstream\.inner\.uri"):
        read(tmp_path, routed)


def test_clients_are_divided(tmp_path: Path) -> None:
    """None too many or too few, and one for each worker; what limits one address is the same for each."""
    with pytest.raises(ConfigError, match=r"listener\.public\.limits\.clients: .* 8 workers"):
        read(tmp_path, f"workers = 8{FILE}")
    with pytest.raises(ConfigError, match=r": limits\.clients: .* 3 workers"):
        read(tmp_path, f"workers = 3\nlimits.clients = 2{FILE}")
    config = read(tmp_path, f"workers = 3\nlimits.clients = 11{FILE}")
    shares = [share(config, number) for number in (1, 2, 3)]
    assert [each.clients for each in shares] == [4, 4, 3]
    assert [[listener.clients for listener in each.listeners] for each in shares] == [
        [3, None],
        [2, None],
        [2, None],
    ]
    assert {each.listeners[0].clients_per_address for each in shares} == {5}


def test_one_of_them_removes_old_segments(tmp_path: Path) -> None:
    """All write to one folder."""
    config = read(tmp_path, f"workers = 2{FILE}")
    first, second = share(config, 1).journal, share(config, 2).journal
    assert first == config.journal
    assert (second.retain_age, second.retain_size, second.directory) == (None, None, "/j")
