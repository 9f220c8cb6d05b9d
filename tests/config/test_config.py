"""A file, the command line over it, and what runs."""

from pathlib import Path

import pytest

from stomprelay.broker.message import Bounds
from stomprelay.config import Config, ConfigError, default, load, load_admin, overridden
from stomprelay.config.admin import AdminAccess
from stomprelay.config.listener import ENDPOINT
from stomprelay.relay.model.listener import Listener
from stomprelay.relay.model.upstream import Upstream
from tests.config.reference import config, refusal, refuses

SEVERAL = """
[listener.a]
endpoint = "tcp:1"
upstream = "x"
linger = 1
[listener.b]
endpoint = "tcp:2"
upstream = "y"
[listener.c]
endpoint = "tcp:3"
upstream = "x"
[upstream.x]
uri = "tcp://x"
login = "lx"
[upstream.y]
uri = "tcp://y"
"""


def test_an_empty_file_is_the_default(tmp_path: Path) -> None:
    """Nothing said: the embedded broker on the loopback interface."""
    for found in (config(tmp_path, ""), default()):
        [listener] = found.listeners
        assert listener == Listener("default", ENDPOINT, Upstream("default", listener.upstream.groups))
        assert [each.endpoint for each in listener.upstream.brokers] == ["memory:"]
        assert listener.upstream.groups[0].name == "default"
        assert found == Config((listener,), None, Bounds())


def test_several_of_each(tmp_path: Path) -> None:
    """Listeners and upstreams find each other by name, and share what is shared; the only one need not be named."""
    found = config(tmp_path, SEVERAL + "[broker]\nprefetch = 7\nconnect_timeout = 3\n")
    a, b, c = found.listeners
    assert [each.name for each in found.listeners] == ["a", "b", "c"]
    assert [each.upstream.name for each in found.listeners] == ["x", "y", "x"]
    assert a.upstream is c.upstream
    assert str(b.upstream.groups[0]) == "tcp://y"
    assert found.upstreams == (a.upstream, b.upstream)
    assert found.broker == Bounds(prefetch=7, connect_timeout=3.0)
    only = '[upstream.x]\nuri = "tcp://x"\n'
    assert config(tmp_path, only).listeners[0].upstream.name == "x"
    assert config(tmp_path, only + "[listener.a]\n").listeners[0].upstream.name == "x"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("admin_hosts = 5\n", 'admin_hosts: must be a list of hosts such as ["relay.example.net"], not 5'),
        ("admin_hosts = ['http://a']\n", 'admin_hosts: "http://a" the port must be a number'),
        ("admin_hosts = ['*']\n", 'admin_hosts: "*" must name a host'),
        ('admn = "tcp:1"\n', 'admn: unknown key; did you mean "admin"?'),
        (
            "[listener.a]\nendpoint = 'haproxy:tcp:1'\n[listener.a.limits]\nclients_per_address = 5\n",
            "listener.a.limits.clients_per_address: has no effect on a haproxy: endpoint",
        ),
        ("[route]\nprefix = 'x'\n", "route: must be tables, each under [[route]]"),
        (
            "[[route]]\nglob = 'a'\nupstream = 'default'\n",
            'route[1].upstream: no upstream is called "default"',
        ),
        ("[diary]\n", "diary: unknown key"),
        ("broker = 1\n", "broker: must be a table"),
        ('[listener.a]\nupstream = "x"\n', 'listener.a.upstream: no upstream is called "x"; there is none'),
        ("[listener.a]\n[listener.b]\n", f'listener.b.endpoint: "{ENDPOINT}" is taken by listener.a'),
        (f'admin = "{ENDPOINT}"\n', f'admin: "{ENDPOINT}" is taken by listener.default.endpoint'),
        (f'metrics = "{ENDPOINT}"\n', f'metrics: "{ENDPOINT}" is taken by listener.default.endpoint'),
        ('admin = "unix:/a"\nmetrics = "unix:/a"\n', 'metrics: "unix:/a" is taken by admin'),
        ("x = \n", "is not TOML: Invalid value (at line 1, column 5)"),
        (
            '[upstream.a]\nuri = "tcp://a"\n[upstream.b]\nuri = "tcp://b"\n',
            "listener.default.upstream: is missing",
        ),
    ],
)
def test_mistakes_are_told_by_file_and_key(tmp_path: Path, text: str, said: str) -> None:
    """One line for the first mistake in the file."""
    assert refusal(tmp_path, text).startswith(said)


def test_paths_start_beside_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative path belongs to the file's folder wherever the relay is started, and stays right when it moves."""
    monkeypatch.chdir(tmp_path.parent)
    (tmp_path / "relay.toml").write_text('[listener.a.tls]\ncertificate = "c.pem"\nkey = "/k.pem"\n')
    [listener] = load(f"{tmp_path.name}/relay.toml").listeners
    assert listener.tls is not None
    assert (listener.tls.certificate, listener.tls.key) == (str(tmp_path / "c.pem"), "/k.pem")


def test_listen_takes_the_place_of_every_endpoint(tmp_path: Path) -> None:
    """With the first listener's settings; but not with TLS of its own beside a table for it."""
    found = overridden(config(tmp_path, SEVERAL), listen=["tcp:5", "tcp:6"])
    assert [(each.name, each.endpoint) for each in found.listeners] == [("a", "tcp:5"), ("a-2", "tcp:6")]
    assert {each.linger for each in found.listeners} == {1.0}
    found = config(tmp_path, '[listener.a.tls]\ncertificate = "c"\nkey = "k"\n')
    with refuses(r"--listen: ssl:1 brings TLS of its own, and listener\.a\.tls does too"):
        overridden(found, listen=["ssl:1"])


ROUTED = (
    SEVERAL
    + """
[upstream.z]
uri = "failover:(tcp://z)"
[[route]]
prefix = "/z/"
upstream = "z"
[[route]]
prefix = "/x/"
upstream = "x"
listener = ["b", "c"]
"""
)


def test_upstream_leaves_routes_alone(tmp_path: Path) -> None:
    """Those to other upstreams stay; those to a listener's own go where that goes."""
    before = config(tmp_path, ROUTED)
    a, b, c = overridden(before, upstream="failover:(tcp://o1,tcp://o2)").listeners
    assert [str(each.upstream.groups[0]) for each in (a, b, c)] == ["tcp://o1,tcp://o2"] * 3
    assert b.routed(b"/z/1") is before.listeners[0].routed(b"/z/1")
    assert b.routed(b"/x/1") is a.upstream


def test_upstream_keeps_policy_and_confirm(tmp_path: Path) -> None:
    """They hold for the brokers of the command line; where they cannot, that is an error and not forgotten."""
    text = '[upstream.x]\nuri = "failover:(tcp://a,tcp://b)"\npolicy = "random"\nconfirm = true\n'
    found = config(tmp_path, text)
    [listener] = overridden(found, upstream="failover:(tcp://c,tcp://d)").listeners
    assert listener.upstream.confirm
    assert listener.upstream.groups[0].policy.value == "random"
    with refuses(r"^command line: --upstream: upstream\.x\.policy: random needs brokers"):
        overridden(found, upstream="tcp://c")
    alone = config(tmp_path, text.replace('policy = "random"\n', ""))
    with refuses(r"^command line: --upstream: upstream\.x\.confirm: has no effect on a pl"):
        overridden(alone, upstream="tcp://c")


def test_admin_alone(tmp_path: Path) -> None:
    """Nothing else of the file is looked at: whoever asks a relay may not read its passwords."""
    file = tmp_path / "relay.toml"
    file.write_text('admin = "tcp:7"\n[upstream.x]\nuri = 5\nlogin = "l"\npasscode_file = "/absent"\n')
    assert load_admin(str(file)) == AdminAccess("tcp:7", None, None)
    file.write_text("")
    assert load_admin(str(file)).endpoint is None
    file.write_text('admin = "7"\n')
    with refuses(rf"^{file}: admin: must be an endpoint"):
        load_admin(str(file))
    with refuses("cannot be read"):
        load_admin(str(tmp_path / "absent"))


def test_the_level_of_the_log_on_the_command_line(tmp_path: Path) -> None:
    """It wins over the file's, and has to be one that there is."""
    found = config(tmp_path, 'log_level = "warn"\n')
    assert overridden(found, log_level="debug").log_level == "debug"
    assert overridden(found).log_level == "warn"
    assert overridden(default(), log_level="error").log_level == "error"
    with refuses(r"^command line: --log-level: must be one of error, warn, info, debug"):
        overridden(default(), log_level="loud")


@pytest.mark.parametrize(
    ("listen", "upstream", "admin", "said"),
    [
        (["61613"], None, None, "command line: --listen: must be an endpoint such as"),
        (["tcp:1", "tcp:1"], None, None, 'command line: listener.default-2.endpoint: "tcp:1" is taken by'),
        ([], "broker", None, "command line: --upstream: must be tcp://host:port"),
        ([], "", None, "command line: --upstream: must be a string that is not empty"),
        ([], "failover:(tcp://a:x)", None, "command line: --upstream: address 1: the port must be a number"),
        ([], "failover:(tcp://a)?x=1", None, 'command line: --upstream: option "x": there is no such option'),
        (
            [],
            "failover:(tcp://a?weight=2,tcp://b)?randomize=false",
            None,
            "command line: --upstream: upstream.default.policy: failover in the order of the list",
        ),
        ([], "tcp://user:geheim@a", None, "command line: --upstream: must not hold a user or a password"),
        ([], None, "5", "command line: --admin: must be an endpoint such as"),
        ([], None, ENDPOINT, f'command line: admin: "{ENDPOINT}" is taken by listener.default.endpoint'),
    ],
)
def test_mistakes_of_options(listen: list[str], upstream: str | None, admin: str | None, said: str) -> None:
    """An option is named as a key is."""
    with pytest.raises(ConfigError) as error:
        overridden(default(), listen, upstream, admin)
    assert str(error.value).startswith(said)
    assert "geheim" not in str(error.value)


def test_where_to_hand_over(tmp_path: Path) -> None:
    """A path that starts at the file, and fits into the address of a UNIX socket."""
    assert config(tmp_path, "").handover is None
    assert config(tmp_path, 'handover = "there"\n').handover == str(tmp_path / "there")
    assert config(tmp_path, f'handover = "/{"x" * 99}"\n').handover == "/" + "x" * 99
    for text in ("5", '""'):
        assert refusal(tmp_path, f"handover = {text}\n").startswith("handover: must be a string")
    said = refusal(tmp_path, f'handover = "/{"x" * 100}"\n')
    assert said == "handover: must have 100 bytes at most, as the path of a UNIX socket"
