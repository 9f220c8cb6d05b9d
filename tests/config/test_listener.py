"""`[listener.NAME]` to a listener."""

from typing import Any

import pytest

from stomprelay.config.address import broker
from stomprelay.config.listener import read
from stomprelay.config.table import ConfigError, ConfigTable
from stomprelay.relay.model.group import alone
from stomprelay.relay.model.listener import Listener, Web
from stomprelay.relay.model.upstream import Upstream

MAIN = Upstream("main", alone(broker("tcp://main")))
OTHER = Upstream("other", alone(broker("tcp://other")))


def listener(**values: Any) -> Listener:
    """The listener of a table with these values."""
    table = ConfigTable("f", "/etc/relay", values, ("listener", "public"))
    return read(table, {"main": MAIN, "other": OTHER}, None, {})


def refusal(**values: Any) -> str:
    """What is said about a table with these values."""
    with pytest.raises(ConfigError) as error:
        listener(**{"upstream": "main"} | values)
    return str(error.value)


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (True, Web()),
        ({}, Web()),
        (False, None),
        (
            {"path": "/", "origins": ["https://[2001:db8::1]:8443"], "ping_interval": 0, "message": 5},
            Web("/", ("https://[2001:db8::1]:8443",), 0.0, 5),
        ),
        ({"origins": ["*"]}, Web(origins=("*",))),
    ],
)
def test_websocket(value: object, found: Web | None) -> None:
    """By a word, or by a table of which each key has a default."""
    assert listener(upstream="main", web=value).web == found


def test_an_upstream_must_be_clear() -> None:
    """An unknown name, and no name where there are several."""
    assert refusal(upstream="mian") == (
        'f: listener.public.upstream: no upstream is called "mian"; did you mean "main"?'
    )
    with pytest.raises(ConfigError, match=r"listener\.public\.upstream: is missing; there are main, other$"):
        listener()


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"limits": {"bdoy": 1}}, 'limits.bdoy: unknown key; did you mean "body"?'),
        ({"limits": 5}, "limits: must be a table"),
        ({"tls": {}}, "tls.certificate: is missing"),
        ({"tls": True}, "tls: must be a table"),
        ({"web": 1}, "web: must be true or false, or a table"),
        ({"web": {"path": "ws"}}, "web.path: must be a path as in a URL, such as /ws"),
        ({"web": {"path": "/ws?x"}}, "web.path: must be a path as in a URL"),
        ({"web": {"origins": ["app.example.net"]}}, "web.origins: must be a list of origins"),
        ({"web": {"origins": ["https://a.example/"]}}, "web.origins: must be a list of origins"),
        ({"web": {"origins": "*"}}, "web.origins: must be a list of origins"),
        (
            {"tls": {"certificate": "c", "key": "k", "require_client_certificate": True}},
            "tls.require_client_certificate: needs client_ca",
        ),
        (
            {"endpoint": "ssl:1", "tls": {"certificate": "c", "key": "k"}},
            "tls: the endpoint brings TLS of its own",
        ),
    ],
)
def test_mistakes_are_told_by_their_key(values: dict[str, Any], said: str) -> None:
    """Whatever is wrong in the table."""
    assert refusal(**values).startswith(f"f: listener.public.{said}")
