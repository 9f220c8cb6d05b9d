"""TLS on both sides of the relay: what is accepted, what is refused, and what the log says about it."""

import ssl
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from tests.e2e.brokers import Broker
from tests.e2e.certificates import Authority
from tests.e2e.ports import free_port
from tests.e2e.raw import Connection, ScriptedBroker, body, headers
from tests.e2e.relay import relay, served

pytestmark = pytest.mark.e2e

CONNECT = b"CONNECT\naccept-version:1.2\nhost:/\nlogin:guest\npasscode:guest\n\n\0"


def upstream(uri: str, **tls: str | Path) -> str:
    """Return the lines of an upstream with TLS."""
    return f'uri = "{uri}"\n' + "".join(f'tls.{key} = "{value}"\n' for key, value in tls.items())


@pytest.mark.broker
def test_tls_on_both_sides(tmp_path: Path, authority: Authority, rabbitmq: Broker) -> None:
    """A client on a TLS listener reaches RabbitMQ's TLS port; both certificates are verified."""
    behind = upstream(f"ssl://localhost:{rabbitmq.tls_port}", ca=authority.file)
    tls = f"[listener.main.tls]\n{authority.issue('relay').lines}"
    trust = ssl.create_default_context(cafile=str(authority.file))
    with served(tmp_path, behind, tls) as running, Connection.to(running.port, trust) as client:
        assert client.connect().startswith(b"CONNECTED\n")
        client.write(b"SUBSCRIBE\nid:1\ndestination:/queue/tls\n\n\0")
        sent = b"x" * 300000
        client.write(b"SEND\ndestination:/queue/tls\n\n" + sent + b"\0")
        assert body(client.frame()) == sent


@pytest.mark.broker
@pytest.mark.parametrize("name", ["activemq", "activemq_6", "artemis"])
def test_tls_to_a_broker_in_java(
    name: str, tmp_path: Path, authority: Authority, request: pytest.FixtureRequest
) -> None:
    """A plain client reaches the broker's TLS port."""
    broker: Broker = request.getfixturevalue(name)
    behind = upstream(f"ssl://localhost:{broker.tls_port}", ca=authority.file)
    with served(tmp_path, behind) as running, Connection.to(running.port) as client:
        assert client.connect().startswith(b"CONNECTED\n")


@pytest.mark.ci
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("workers", [1, 2])
def test_what_clients_offer(
    tmp_path: Path, authority: Authority, memory: Broker, workers: int, version: ssl.TLSVersion
) -> None:
    """By ALPN, who offers HTTP gets it where it is spoken; others are served; a renewed certificate is shown."""
    own = authority.issue("relay")
    table = own.lines
    (tmp_path / "pems").mkdir()
    (tmp_path / "pems" / "own.pem").write_bytes(own.certificate.read_bytes() + own.key.read_bytes())
    paths = f"certKey={own.certificate}:privateKey={own.key}"
    endpoints = {
        "table": "tcp:{port}:interface=127.0.0.1",
        "web": "tcp:{port}:interface=127.0.0.1",
        "ssl": "ssl:{port}:interface=127.0.0.1:" + paths,
        "ssl-web": "ssl:{port}:interface=127.0.0.1:" + paths,
        "tls-web": f"tls:{tmp_path / 'pems'}:" + "{port}:interface=127.0.0.1",
        "haproxy": "haproxy:ssl:{port}:interface=127.0.0.1:" + paths,
    }
    ports = {name: free_port() for name in ("admin", *endpoints)}
    config = f'workers = {workers}\nadmin = "tcp:{ports["admin"]}:interface=127.0.0.1"\n[admin_tls]\n{table}'
    config += f'[upstream.main]\nuri = "tcp://127.0.0.1:{memory.port}"\n'
    for name, endpoint in endpoints.items():
        config += f'[listener.{name}]\nendpoint = "{endpoint.format(port=ports[name])}"\n'
        config += "web = true\n" if "web" in name else ""
        config += f"[listener.{name}.tls]\n{table}" if endpoint.startswith("tcp:") else ""
    trust = ssl.create_default_context(cafile=str(authority.file))
    trust.minimum_version = trust.maximum_version = version
    shown: dict[str, bytes | None] = {}

    def answers() -> dict[str, list[str | None]]:
        found: dict[str, list[str | None]] = {}
        for name, port in ports.items():
            found[name] = []
            for offers in (["http/1.1"], ["h2", "http/1.1"], ["h2"], ["stomp"]):
                trust.set_alpn_protocols(offers)
                with Connection.to(port, trust) as client:
                    assert isinstance(client.socket, ssl.SSLSocket)
                    found[name].append(client.socket.selected_alpn_protocol())
                    shown[name] = client.socket.getpeercert(binary_form=True)
                    if name == "admin":
                        client.write(b"GET /livez HTTP/1.0\r\nHost: localhost:%d\r\n\r\n" % port)
                        assert client.rest().startswith(b"HTTP/1.0 200 ")
                    else:
                        client.write(
                            b"PROXY TCP4 198.51.100.9 203.0.113.1 5555 443\r\n" if name == "haproxy" else b""
                        )
                        assert client.connect().startswith(b"CONNECTED\n")
        return found

    expected: dict[str, list[str | None]] = {
        name: ["http/1.1", "http/1.1", None, None] if name == "admin" or "web" in name else [None] * 4
        for name in ports
    }
    with relay(tmp_path, config, list(ports.values())) as running:
        if workers > 1:
            running.wait_for_log("all 2 workers serve")
        assert answers() == expected
        renewed = authority.issue("relay").leaf.public_bytes(Encoding.DER)
        running.wait_for_log("listener.web.tls: the files changed")
        assert answers() == expected
        assert workers > 1 or shown["web"] == renewed


def test_name_and_client_certificate_toward_the_broker(tmp_path: Path, authority: Authority) -> None:
    """`name` is sent as SNI and verified instead of the host; `certificate` is shown to the broker."""
    server = authority.issue("named", ["broker.example"])
    own = authority.issue("relay-as-client", client=True)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(authority.file))
    tls.verify_mode = ssl.CERT_REQUIRED
    tls.load_cert_chain(server.certificate, server.key)
    asked: list[str | None] = []
    tls.sni_callback = lambda sock, name, context: asked.append(name)
    with ScriptedBroker(tls) as scripted:
        behind = upstream(
            f"ssl://127.0.0.1:{scripted.port}",
            ca=authority.file,
            name="broker.example",
            certificate=own.certificate,
            key=own.key,
        )
        with served(tmp_path, behind) as running, Connection.to(running.port) as client:
            client.write(CONNECT)
            with scripted.accept() as broker:
                assert headers(broker.connected())[b"login"] == b"guest"
                assert client.frame().startswith(b"CONNECTED\n")
                assert isinstance(broker.socket, ssl.SSLSocket)
                certificate = broker.socket.getpeercert()
    assert asked == ["broker.example"]
    assert certificate
    assert certificate["subject"] == ((("commonName", "relay-as-client"),),)
