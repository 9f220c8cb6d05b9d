"""A configuration in words."""

from pathlib import Path

from stomprelay.config import load
from stomprelay.config.summary import summary

FULL = """
admin = "tcp:7"
[listener.public]
endpoint = "tcp:1"
versions = ["1.2", "1.0"]
heart_beat = [0, 5000]
upstream = "main"
require_utf8 = true
[listener.public.tls]
certificate = "/c.pem"
key = "/k.pem"
client_ca = "/ca.pem"
require_client_certificate = true
[listener.local]
endpoint = "unix:/run/x"
upstream = "main"
[listener.own]
endpoint = "ssl:2"
upstream = "built-in"
[upstream.main]
uri = "ssl://broker"
login = "relay"
passcode = "geheim"
host = "/v"
versions = ["1.1"]
heart_beat = [1000, 0]
keep_alive_eol = 0
close_on_error = true
[upstream.main.tls]
ca = "/b.pem"
certificate = "/own.pem"
key = "/own.key"
[upstream.built-in]
uri = "memory:"
"""


def told(tmp_path: Path, text: str) -> str:
    """The summary of a file with this text."""
    file = tmp_path / "relay.toml"
    file.write_text(text)
    return summary(load(str(file)))


def test_everything_that_matters_is_said(tmp_path: Path) -> None:
    """Listeners, upstreams, versions, TLS and limits, each in a line of its own."""
    lines = [" ".join(line.split()) for line in told(tmp_path, FULL).splitlines()]
    for line in (
        "listener public",
        "endpoint tcp:1",
        "tls certificate /c.pem, key /k.pem; clients must show one by /ca.pem",
        "versions 1.0, 1.2",
        "heart-beats sends none (after 0.5 of it), wants one every 5000 ms (dead after 2 times it)",
        "heads must be UTF-8",
        "listener local",
        "tls no",
        "listener own",
        "tls as the endpoint says",
        "upstream main",
        "address ssl://broker",
        "tls verified as broker by /b.pem; ours is /own.pem, key /own.key",
        "versions 1.1",
        "virtual host /v",
        "login relay, with a passcode; escaped: as the profile says",
        "keep-alive EOLs never",
        "on ERROR the session ends",
        "upstream built-in",
        "embedded broker",
        "queue messages 100000",
        "admin",
        "endpoint tcp:7",
    ):
        assert line in lines


def test_no_secret_is_said(tmp_path: Path) -> None:
    """Whoever reads the output learns that there is a passcode, not which."""
    assert "geheim" not in told(tmp_path, FULL)


def test_an_upstream_of_several_listeners_is_said_once(tmp_path: Path) -> None:
    """Two listeners of one upstream."""
    assert told(tmp_path, FULL).count("upstream main\n") == 1


def test_the_default(tmp_path: Path) -> None:
    """An empty file: what a newcomer would run."""
    text = told(tmp_path, "")
    assert "tcp:61613:interface=127.0.0.1" in text
    assert "memory:" in text
    assert "embedded broker" in text
    assert "admin" not in text
