"""`[upstream.NAME]` to an upstream."""

from pathlib import Path
from typing import Any

import pytest

from stomprelay.config.table import ConfigError, Table
from stomprelay.config.upstream import broker, read
from stomprelay.relay.profile import PROFILES
from stomprelay.relay.upstream import ClientTLS, Upstream
from stomprelay.session.handshake import Credentials
from stomprelay.session.heartbeat import Terms
from stomprelay.wire.limits import Limits


def upstream(folder: str = "/etc/relay", **values: Any) -> Upstream:
    """The upstream of a table with these values, and an address."""
    return read(Table("f", folder, {"uri": "tcp://b"} | values, ("upstream", "main")))


def refusal(folder: str = "/etc/relay", **values: Any) -> str:
    """What is said about a table with these values, and an address."""
    with pytest.raises(ConfigError) as error:
        upstream(folder, **values)
    return str(error.value)


def test_an_address_alone_has_every_default() -> None:
    """Only the address has to be said."""
    found = upstream()
    assert found.broker.uri == "tcp://b"
    assert found == Upstream("main", found.broker)


def test_every_setting_arrives() -> None:
    """Each key lands in the field that it is for, as what that field takes."""
    found = upstream(
        uri="ssl://b",
        host="/vhost",
        login="relay",
        passcode="pa:ss",
        versions=["1.2", "1.1"],
        profile="rabbitmq",
        heart_beat=[1, 2],
        heart_beat_idle=0.25,
        heart_beat_tolerance=5,
        connect_timeout=1,
        disconnect_timeout=2,
        keep_alive_eol=0,
        connect_escape=False,
        close_on_error=True,
        limits={"headers": 1, "header_line": 2, "body": 3},
        tls={"ca": "ca.pem", "certificate": "/c.pem", "key": "k.pem", "name": "other"},
    )
    assert found == Upstream(
        "main",
        found.broker,
        host=b"/vhost",
        credentials=Credentials(b"relay", b"pa:ss"),
        versions=frozenset({b"1.1", b"1.2"}),
        profile=PROFILES["rabbitmq"],
        heart_beat=Terms(1, 2, 0.25, 5.0),
        limits=Limits(1, 2, 3),
        connect_timeout=1.0,
        disconnect_timeout=2.0,
        keep_alive=0.0,
        connect_escape=False,
        close_on_error=True,
        tls=ClientTLS("/etc/relay/ca.pem", "/c.pem", "/etc/relay/k.pem", "other"),
    )


@pytest.mark.parametrize("name", PROFILES)
def test_every_profile_can_be_said(name: str) -> None:
    """The words are those of the code."""
    assert upstream(profile=name).profile is PROFILES[name]


def test_a_login_without_a_passcode() -> None:
    """The client's own passcode does not go with another login."""
    assert upstream(login="relay").credentials == Credentials(b"relay", None)


def test_a_passcode_from_a_file(tmp_path: Path) -> None:
    """The file stands beside the configuration and is read at once, without its line end."""
    (tmp_path / "secret").write_bytes(b"geheim\n")
    found = upstream(str(tmp_path), login="relay", passcode_file="secret")
    assert found.credentials == Credentials(b"relay", b"geheim")
    assert "geheim" not in repr(found)


def test_a_file_that_is_no_passcode(tmp_path: Path) -> None:
    """The error names key and file, and never the content."""
    large, lines, empty = tmp_path / "large", tmp_path / "lines", tmp_path / "empty"
    large.write_bytes(b"geheim" * 20000)
    lines.write_bytes(b"geheim\nmehr\n")
    empty.write_bytes(b"")
    for file, said in (
        (large, "is larger than 65536 bytes"),
        (lines, ": must not contain LF, CR or NUL"),
        (empty, ": the file is empty"),
        (tmp_path / "absent", "cannot be read: No such file or directory"),
        (tmp_path, "cannot be read: Is a directory"),
    ):
        text = refusal(login="relay", passcode_file=str(file))
        assert text.startswith(f"f: upstream.main.passcode_file: {file}")
        assert said in text
        assert "geheim" not in text


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"uri": 1}, "upstream.main.uri: must be a string"),
        ({"uri": "broker:61613"}, "upstream.main.uri: must be tcp://host:port"),
        ({"uri": "failover:(tcp://a:1)"}, "upstream.main.uri: must be one broker's address"),
        ({"url": "tcp://b"}, 'upstream.main.url: unknown key; did you mean "uri"?'),
        ({"confirm": True}, "upstream.main.confirm: unknown key"),
        ({"login": "a\nb"}, "upstream.main.login: must not contain LF, CR or NUL"),
        ({"host": "a\0b"}, "upstream.main.host: must not contain LF, CR or NUL"),
        ({"passcode": "x"}, "upstream.main.login: is missing"),
        ({"connect_escape": True}, "upstream.main.connect_escape: needs login"),
        ({"uri": "ssl://b", "tls": {"name": "a b"}}, "upstream.main.tls.name: must name a host"),
        ({"uri": "ssl://b", "tls": {"name": "é" * 70}}, "upstream.main.tls.name: must name a host"),
        (
            {"login": "l", "passcode": "geheim", "passcode_file": "f"},
            "upstream.main.passcode_file: excludes passcode",
        ),
        ({"login": "l", "passcode": ["geheim"]}, "upstream.main.passcode: must be a string"),
        ({"versions": ["2.0"]}, "upstream.main.versions: must be a list of versions"),
        ({"profile": "qpid"}, "upstream.main.profile: must be one of auto, generic, rabbitmq"),
        ({"limits": {"connect_timeout": 1}}, "upstream.main.limits.connect_timeout: unknown key"),
        ({"tls": {"ca": "x"}}, "upstream.main.tls: the address does not ask for TLS"),
        ({"uri": "memory:", "tls": {}}, "upstream.main.tls: the address does not ask for TLS"),
        ({"uri": "tls:b:1", "tls": {}}, "upstream.main.tls: the endpoint brings TLS of its own"),
        ({"uri": "ssl://b", "tls": {"certificate": "c"}}, "upstream.main.tls.key: is missing"),
        ({"uri": "ssl://b", "tls": {"key": "k"}}, "upstream.main.tls.certificate: is missing"),
        ({"uri": "ssl://b", "tls": {"verify": False}}, "upstream.main.tls.verify: unknown key"),
    ],
)
def test_mistakes_are_told_by_their_key(values: dict[str, Any], said: str) -> None:
    """Whatever is wrong in the table, and no passcode in what is said."""
    text = refusal(**values)
    assert text.startswith(f"f: {said}")
    assert "geheim" not in text


def test_an_address_is_needed() -> None:
    """No broker is guessed."""
    with pytest.raises(ConfigError, match=r"^f: upstream\.main\.uri: is missing$"):
        read(Table("f", "/", {"host": "x"}, ("upstream", "main")))


@pytest.mark.parametrize("name", ["broker.example.net", "::1", "10.0.0.1", "müller.example"])
def test_names_to_verify(name: str) -> None:
    """A certificate may be for a name or for an address."""
    assert upstream(uri="ssl://b", tls={"name": name}).tls.name == name


def test_broker() -> None:
    """The value of `uri` becomes a broker."""
    assert broker("memory:").endpoint == "memory:"
