"""What other programs understand of the clients that the relay tells them of, by the PROXY protocol."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e import brokers
from tests.e2e.certificates import Authority
from tests.e2e.child import Child
from tests.e2e.ports import free_port
from tests.e2e.raw import Connection, ScriptedBroker, body
from tests.e2e.relay import served

pytestmark = pytest.mark.e2e

_NOBODY = b"PROXY TCP4 192.0.2.66 192.0.2.66 6 6\r\n"


@pytest.fixture(scope="module")
def introduced(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Iterator[brokers.RabbitMQ]:
    """Run a RabbitMQ that reads the PROXY protocol on all its STOMP connections, and sends binary over WebSocket."""
    directory = tmp_path_factory.mktemp("introduced")
    settings = "stomp.proxy_protocol = true\nweb_stomp.proxy_protocol = true\nweb_stomp.ws_frame = binary"
    try:
        with brokers.rabbitmq(directory, authority.issue("introduced"), settings, _NOBODY) as broker:
            yield broker
    except brokers.Absent as absent:
        pytest.skip(str(absent))


def telling(uri: str) -> str:
    """An upstream that is told of clients, and probed."""
    return f'uri = "{uri}"\nproxy_protocol = true\nhealth.probe = 0.1\n'


@pytest.mark.ci
@pytest.mark.broker
@pytest.mark.parametrize("scheme", ["tcp", "ssl"])
def test_rabbitmq_lists_the_clients(
    tmp_path: Path, introduced: brokers.RabbitMQ, authority: Authority, scheme: str
) -> None:
    """With its own command it lists the clients, not the relay; a probe of the relay's own is well received."""
    at = introduced.port if scheme == "tcp" else introduced.tls_port
    upstream = telling(f"failover:({scheme}://localhost:{at})")
    if scheme == "ssl":
        upstream += f'tls.ca = "{authority.file}"\n'
    with served(tmp_path, upstream, by="haproxy:") as running:
        with Connection.to(running.port) as four, Connection.to(running.port) as six:
            four.write(b"PROXY TCP4 198.51.100.9 203.0.113.1 5555 443\r\n")
            assert four.connect().startswith(b"CONNECTED\n")
            six.write(b"PROXY TCP6 2001:db8::9 2001:db8::1 5556 443\r\n")
            assert six.connect().startswith(b"CONNECTED\n")
            listed = introduced.connections()
            assert ["198.51.100.9", "5555"] in listed
            assert ["2001:db8::9", "5556"] in listed
        assert not re.search("is down|REFUSED", running.log)


@pytest.mark.ci
@pytest.mark.broker
def test_rabbitmq_is_told_over_websocket(tmp_path: Path, introduced: brokers.RabbitMQ) -> None:
    """The header comes before the request, a probe's, too; and what is no UTF-8 comes back as it was, in binary."""
    upstream = telling(f"failover:(ws://127.0.0.1:{introduced.web_port}/ws)")
    content = bytes(range(256)) * 20_000
    with served(tmp_path, upstream, by="haproxy:") as running:
        with Connection.to(running.port) as client:
            client.write(b"PROXY TCP4 198.51.100.9 203.0.113.1 5557 443\r\n")
            assert client.connect().startswith(b"CONNECTED\n")
            client.write(b"SUBSCRIBE\nid:1\ndestination:/queue/introduced\n\n\0")
            client.write(
                b"SEND\ndestination:/queue/introduced\ncontent-length:%d\n\n%b\0" % (len(content), content)
            )
            assert body(client.frame()) == content
            assert "198.51.100.9:5557 -> 203.0.113.1:443" in introduced.names()
        assert not re.search("is down|REFUSED", running.log)


def test_haproxy_accepts_the_header(tmp_path: Path) -> None:
    """A HAProxy between relay and broker passes the client's address on, in its own words."""
    haproxy = shutil.which("haproxy") or shutil.which("haproxy", path="/usr/sbin")
    if haproxy is None:
        pytest.skip("needs HAProxy: Debian package haproxy")
    between = free_port()
    with ScriptedBroker() as broker:
        (tmp_path / "haproxy.cfg").write_text(f"""
defaults
  mode tcp
  timeout connect 5s
  timeout client 30s
  timeout server 30s
frontend between
  bind 127.0.0.1:{between} accept-proxy
  default_backend broker
backend broker
  server broker 127.0.0.1:{broker.port} send-proxy
""")
        command = [haproxy, "-db", "-f", str(tmp_path / "haproxy.cfg")]
        subprocess.run([*command, "-c"], check=True, capture_output=True)
        child = Child("haproxy", command, cwd=tmp_path)
        try:
            upstream = f'uri = "failover:(tcp://127.0.0.1:{between})"\nproxy_protocol = true'
            with served(tmp_path, upstream) as running, Connection.to(running.port) as client:
                client.write(b"CONNECT\naccept-version:1.2\nhost:/\n\n\0")
                own = client.socket.getsockname()
                with broker.accept() as asked:
                    connect = asked.connected()
                assert connect.startswith(
                    b"PROXY TCP4 127.0.0.1 127.0.0.1 %d %d\r\nCONNECT\n" % (own[1], running.port)
                )
        finally:
            child.stop()
