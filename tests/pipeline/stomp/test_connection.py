"""Where to connect, and how."""

import re
from pathlib import Path

import pytest

from stomprelay.pipeline.stomp.options import Connection
from stomprelay.pipeline.stomp.values import GivenOptions, OptionError
from stomprelay.relay.model.group import Policy
from stomprelay.relay.model.profile import RABBITMQ
from stomprelay.session.heartbeat import Terms


def connection(**options: str) -> Connection:
    """Read options; `_` in names stands for a dot."""
    said = {name.replace("_", "."): value for name, value in options.items()}
    return Connection.read(GivenOptions(said), {"confirm": True})


def test_a_place_is_written_as_for_the_relay() -> None:
    """Any list of brokers, with the relay's defaults."""
    upstream = connection(uri="failover:(tcp://a:1,ssl://b)?randomize=false").upstream()
    assert [str(broker) for broker in upstream.brokers] == ["tcp://a:1", "ssl://b"]
    assert upstream.movable
    assert upstream.confirm
    assert connection(uri="fanout:(tcp://a,tcp://b)?minAckCount=2").upstream().quorum == 2
    assert not connection(uri="tcp://a").upstream().confirm


def test_the_path_is_a_place_too() -> None:
    """As `load` and `save` take it; twice the same is said once."""
    assert str(connection(path="tcp://a").upstream().brokers[0]) == "tcp://a"
    assert connection(path="tcp://a", uri="tcp://a").timeout == 120
    with pytest.raises(OptionError, match="option uri: is said twice"):
        connection(path="tcp://a", uri="tcp://b")
    with pytest.raises(OptionError, match=r"option uri: is missing: tcp://host:61613"):
        connection()


def test_all_that_can_be_said(tmp_path: Path) -> None:
    """Each option arrives where it is used."""
    made = connection(
        uri="failover:(ssl://a,ssl://b)",
        login="guest",
        password="s3cret",
        host="/v",
        clientId="c",
        profile="rabbitmq",
        versions="1.1,1.2",
        policy="round-robin",
        heartBeatMs="500",
        connectTimeoutMs="1500",
        timeoutMs="2500",
        tls_ca="ca.pem",
        tls_name="broker",
    )
    upstream = made.upstream()
    assert upstream.credentials is not None
    assert (upstream.credentials.login, upstream.credentials.passcode) == (b"guest", b"s3cret")
    assert (upstream.host, upstream.profile) == (b"/v", RABBITMQ)
    assert upstream.versions == frozenset({b"1.1", b"1.2"})
    assert upstream.groups[0].policy is Policy.ROUND_ROBIN
    assert upstream.heart_beat == Terms(500, 500, tolerance=2.5)
    assert upstream.connect_timeout == 1.5
    assert upstream.tls.name == "broker"
    assert upstream.tls.ca == str(Path.cwd() / "ca.pem")
    assert (made.client_id, made.timeout) == ("c", 2.5)


def test_a_passcode_may_stand_in_a_file(tmp_path: Path) -> None:
    """It is read where the connection is made: the options can be looked at where it is not."""
    made = connection(uri="tcp://a", login="guest", passcodeFile=str(tmp_path / "secret"))
    with pytest.raises(OptionError, match=r"option passcodeFile: .*secret cannot be read"):
        made.upstream()
    (tmp_path / "secret").write_text("s3cret\n")
    credentials = made.upstream().credentials
    assert credentials is not None
    assert credentials.passcode == b"s3cret"


def test_secrets_are_in_no_repr() -> None:
    """Whatever prints the options."""
    made = connection(uri="tcp://a", login="guest", password="s3cret")
    assert "s3cret" not in repr(made)
    assert "s3cret" not in repr(made.upstream())


@pytest.mark.parametrize(
    ("said", "text"),
    [
        (
            {"uri": "memory:"},
            "option uri: memory: is the embedded broker of a relay, in the relay's own process",
        ),
        (
            {"uri": "tls:a:1"},
            "option uri: tls:a:1 is an endpoint that only Twisted knows, and Spark runs without",
        ),
        ({"uri": "failover:(tcp://a,ssl:b:1)"}, "is an endpoint that only Twisted knows"),
        ({"uri": "http://a"}, "option uri: must be tcp://host:port"),
        ({"uri": "tcp://user:s3cret@a"}, "option uri: must not hold a user or a password"),
        ({"uri": "tcp://a", "policy": "random"}, "option policy: random needs brokers to choose from"),
        ({"uri": "tcp://a", "profile": "rabbit"}, "option profile: must be one of"),
        ({"uri": "tcp://a", "versions": "2.0"}, "option versions: must be a list of versions"),
        ({"uri": "tcp://a", "password": "s3cret"}, "option login: is missing"),
        (
            {"uri": "tcp://a", "login": "l", "passcode": "s3cret"},
            "option passcode: would be shown in Spark's plans",
        ),
        ({"uri": "tcp://a", "passcodeFile": "f"}, "option login: is missing"),
        (
            {"uri": "tcp://a", "login": "l", "password": "s3cret", "passcodeFile": "f"},
            "option passcodeFile: excludes password",
        ),
        ({"uri": "tcp://a", "tls_ca": "x"}, "option tls: the address does not ask for TLS"),
        ({"uri": "ssl://a", "tls_key": "x"}, "option tls.certificate: is missing"),
        ({"uri": "tcp://a", "heartBeatMs": "-1"}, "option heartBeatMs: must be a whole number"),
    ],
)
def test_what_is_wrong_is_told_by_its_option(said: dict[str, str], text: str) -> None:
    """In given that show no secret."""
    with pytest.raises(OptionError, match=re.escape(text)) as caught:
        connection(**said)
    assert "s3cret" not in str(caught.value)


def test_several_connections_have_names_of_their_own() -> None:
    """A broker knows each client by its id once."""
    made = connection(uri="tcp://a", clientId="c")
    assert made.client("x").client_id == "c"
    assert made.client("x", 2).client_id == "c-2"
    assert connection(uri="tcp://a").client("x", 2).client_id is None
