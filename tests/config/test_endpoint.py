"""Endpoint strings, read without Twisted and held to what Twisted makes of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.endpoints import quoteStringArgument

from stomprelay.config.address import client, port, quoted, server


@pytest.mark.parametrize(
    ("text", "kind", "arguments"),
    [
        ("tcp:61613", "tcp", {"port": "61613"}),
        ("tcp:port=61613:interface=127.0.0.1", "tcp", {"port": "61613", "interface": "127.0.0.1"}),
        (r"tcp6:1:interface=\:\:1", "tcp6", {"port": "1", "interface": "::1"}),
        ("ssl:1:privateKey=/k:certKey=/c", "ssl", {"port": "1", "privateKey": "/k", "certKey": "/c"}),
        ("tls:/certs", "tls", {"path": "/certs"}),
        ("unix:/run/x:mode=660", "unix", {"address": "/run/x", "mode": "660"}),
        ("systemd:domain=INET:index=0", "systemd", {"domain": "INET", "index": "0"}),
        ("systemd:INET:name=stomp", "systemd", {"domain": "INET", "name": "stomp"}),
        ("haproxy:tcp:1", "tcp", {"port": "1"}),
        ("onion:80:version=3", "onion", {"0": "80", "version": "3"}),
        ("unix:///run/x", "unix", {"address": "///run/x"}),
        (r"unix:/run/a\://b", "unix", {"address": "/run/a://b"}),
        (r"unix:/run/a\=b", "unix", {"address": "/run/a=b"}),
        (r"web:ws\://host\:80/x:to=tcp\://b", "web", {"0": "ws://host:80/x", "to": "tcp://b"}),
        (r"web:\//host", "web", {"0": "//host"}),
    ],
)
def test_servers(text: str, kind: str, arguments: dict[str, str]) -> None:
    """Kinds that we know have named arguments; what we do not know is left to Twisted's plugins."""
    endpoint = server(text)
    assert (endpoint.kind, endpoint.arguments) == (kind, arguments)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("61613", 'must be an endpoint such as "tcp:61613", not a port alone'),
        ("localhost:61613", 'must be an endpoint such as "tcp:61613:interface=localhost"'),
        ("tcp://0.0.0.0:61613", 'must be an endpoint such as "tcp:61613", not a URI'),
        ("tcp://127.0.0.1:7/x?y", 'must be an endpoint such as "tcp:7:interface=127.0.0.1", not a URI'),
        ("stomp+ssl://localhost", 'must be an endpoint such as "tcp:61613:interface=localhost", not a URI'),
        ("SSL://[::1]:7", r'must be an endpoint such as "tcp6:7:interface=\:\:1", not a URI'),
        ("http://[::]", 'must be an endpoint such as "tcp6:61613", not a URI'),
        ("tcp://", 'must be an endpoint such as "tcp:61613", not a URI'),
        ("haproxy:tcp://*:7", 'must be an endpoint such as "tcp:7", not a URI'),
        (
            "tcp6:7:interface=::1",
            r"has more arguments than a tcp6 endpoint takes; a colon within an argument is written \:",
        ),
        (
            "unix:/run/a=b",
            r'a unix endpoint has no argument "/run/a"; an equals sign within an argument is written \=',
        ),
        ("public", 'must be an endpoint such as "tcp:61613", not "public"'),
        ("", 'must be an endpoint such as "tcp:61613", not ""'),
        ("tcp", "a tcp endpoint needs its port"),
        ("tcp:65536", 'the port must be a number from 0 to 65535, not "65536"'),
        ("tcp:²", 'the port must be a number from 0 to 65535, not "²"'),
        ("tcp:1:127.0.0.1:5:6", "has more arguments than a tcp endpoint takes"),
        ("tcp:1:inteface=::1", 'a tcp endpoint has no argument "inteface"; did you mean "interface"?'),
        ("unix:", "a unix endpoint needs its address"),
        ("systemd:domain=INET:index=0:name=x", "a systemd endpoint needs either index or name"),
        ("tcp:1\\", "ends in a backslash"),
    ],
)
def test_wrong_servers(text: str, said: str) -> None:
    """The mistakes that people make, each told with what would be right."""
    with pytest.raises(ValueError, match=r".") as error:
        server(text)
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("text", "kind", "arguments"),
    [
        ("tcp:broker:61613", "tcp", {"host": "broker", "port": "61613"}),
        ("tcp:host=broker:61613", "tcp", {"host": "broker", "port": "61613"}),
        ("tcp:broker:port=61613:timeout=5", "tcp", {"host": "broker", "port": "61613", "timeout": "5"}),
        ("unix:/run/x", "unix", {"path": "/run/x"}),
        ("tls:broker:61614:trustRoots=/ca", "tls", {"host": "broker", "port": "61614", "trustRoots": "/ca"}),
        ("other:x=1", "other", {"x": "1"}),
    ],
)
def test_clients(text: str, kind: str, arguments: dict[str, str]) -> None:
    """Arguments by place and by name, mixed as Twisted mixes them."""
    endpoint = client(text)
    assert (endpoint.kind, endpoint.arguments) == (kind, arguments)


@pytest.mark.parametrize(
    "text", ["tcp:broker", "tcp:port=1", "tcp:broker:0", "tcp::1", "unix:", "tls:broker", "ssl:h:1:x=y"]
)
def test_wrong_clients(text: str) -> None:
    """What a client endpoint needs, and what it has no use for."""
    with pytest.raises(ValueError, match=r"endpoint|port"):
        client(text)


@pytest.mark.parametrize(
    ("text", "own"), [("ssl:1", True), ("tls:/x", True), ("tcp:1", False), ("haproxy:ssl:1", True)]
)
def test_who_brings_tls(text: str, own: bool) -> None:
    """Endpoints with TLS of their own must not get ours on top."""
    assert server(text).own_tls is own


@given(st.text())
def test_an_argument_is_quoted_as_twisted_does(argument: str) -> None:
    """What is quoted comes back whole."""
    assert quoted(argument) == quoteStringArgument(argument)
    assert client(f"other:x={quoted(argument)}").arguments["x"] == argument


def test_ports() -> None:
    """The bounds of a port, and nothing that only looks like digits."""
    assert [port("1"), port("65535"), port("0", lowest=0)] == [1, 65535, 0]
    for wrong in ("0", "65536", "", "+1", "1 ", "1_0", "٣", "000001"):
        with pytest.raises(ValueError, match="port"):
            port(wrong)
