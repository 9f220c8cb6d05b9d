"""A listener at an endpoint of somebody else's: a plugin of Twisted."""

from pathlib import Path

import pytest

from tests.e2e.ports import free_port
from tests.e2e.raw import Connection
from tests.e2e.relay import relay

pytestmark = pytest.mark.e2e

_PLUGIN = """
from twisted.internet.endpoints import TCP4ServerEndpoint
from twisted.internet.interfaces import IStreamServerEndpointStringParser
from twisted.plugin import IPlugin
from zope.interface import implementer


@implementer(IPlugin, IStreamServerEndpointStringParser)
class Parser:
    prefix = "address"

    def parseStreamServer(self, reactor, uri, backlog="7"):
        scheme, _, rest = uri.partition("://")
        assert scheme == "stomp", uri
        host, _, port = rest.partition(":")
        return TCP4ServerEndpoint(reactor, int(port), int(backlog), host)


parser = Parser()
"""


def test_a_plugin_whose_argument_is_a_uri(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The relay listens where the plugin says; the argument reaches it as it is, whatever it contains."""
    plugins = tmp_path / "twisted" / "plugins"
    plugins.mkdir(parents=True)
    (plugins / "address_endpoint.py").write_text(_PLUGIN)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    port = free_port()
    config = f"[listener.public]\nendpoint = 'address:stomp\\://127.0.0.1\\:{port}:backlog=9'\n"
    with relay(tmp_path, config, [port]), Connection.to(port) as client:
        assert client.connect().startswith(b"CONNECTED\n")
