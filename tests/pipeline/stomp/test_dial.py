"""Connecting to a broker."""

import re
import socket
import ssl
import threading
from pathlib import Path

import pytest

from stomprelay.config import address
from stomprelay.pipeline.stomp.sockets import Endpoint, Unreachable, endpoint, plain_endpoint, spell
from stomprelay.relay.model.upstream import ClientTLS
from tests.e2e.certificates import Authority


def test_addresses_lead_to_hosts_and_sockets() -> None:
    """Whatever can be had without Twisted."""
    assert plain_endpoint(address.broker("tcp://a:7")) == Endpoint("a", 7)
    assert plain_endpoint(address.broker("stomp://a")) == Endpoint("a", 61613)
    assert plain_endpoint(address.broker("tcp://[::1]:7")) == Endpoint("::1", 7)
    assert plain_endpoint(address.broker("tcp:a:7:bindAddress=127.0.0.2")) == Endpoint(
        "a", 7, bind="127.0.0.2"
    )
    assert plain_endpoint(address.broker("unix:/run/stomp")) == Endpoint("", path="/run/stomp")


def test_what_needs_twisted_or_the_relay_is_told() -> None:
    """Each with what to write in its place."""
    with pytest.raises(Unreachable, match="give the address of that relay"):
        plain_endpoint(address.broker("memory:"))
    with pytest.raises(Unreachable, match=r"tls:a:7 is an endpoint that only Twisted knows.*ssl://host:port"):
        plain_endpoint(address.broker("tls:a:7"))
    with pytest.raises(Unreachable, match="only Twisted knows"):
        plain_endpoint(address.broker("autobahn:tcp\\:a"))


def test_a_connection_does_not_block(tmp_path: Path) -> None:
    """By name, by address, and by the path of a socket."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        for host in ("127.0.0.1", "localhost"):
            with Endpoint(host, port).connect(30) as made, server.accept()[0] as peer:
                assert made.gettimeout() == 0
                peer.sendall(b"x")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "s"))
        server.listen()
        Endpoint("", path=str(tmp_path / "s")).connect(30).close()


def test_what_cannot_be_had_is_an_error() -> None:
    """In a few given."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(OSError, match="refused") as caught:
            Endpoint("127.0.0.1", taken.getsockname()[1]).connect(30)
    assert spell(caught.value) == "connection refused"
    assert spell(socket.gaierror(-2, "Name or service not known")) == "host name not found"
    assert spell(TimeoutError()) == "connection timed out"
    assert spell(ConnectionResetError(104, "x")) == "connection reset"
    assert spell(ValueError("A  b")) == "a b"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Give an authority."""
    return Authority(tmp_path_factory.mktemp("endpoint"), "authority")


def shaken(server_context: ssl.SSLContext, way: Endpoint) -> str:
    """Shake hands with a server; return what went wrong, or nothing."""

    def serve() -> None:
        plain, _ = server.accept()
        with plain:
            plain.settimeout(30)
            try:
                with server_context.wrap_socket(plain, server_side=True) as made:
                    made.recv(1)
            except OSError:
                pass

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            with way._replace(port=server.getsockname()[1]).connect(30) as made:
                return "" if isinstance(made, ssl.SSLSocket) else "no TLS"
        except OSError as error:
            return spell(error)
        finally:
            thread.join(30)


def test_certificates_are_verified(authority: Authority, tmp_path: Path) -> None:
    """By authority and by name; a folder of certificates is as good as a file."""
    issued = authority.issue("broker")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(issued.certificate, issued.key)
    broker = address.broker("ssl://localhost:1")
    trusted = ClientTLS(ca=str(authority.file))
    assert shaken(context, endpoint(broker, trusted)) == ""
    (tmp_path / "a.pem").write_bytes(Path(authority.file).read_bytes())
    assert shaken(context, endpoint(broker, ClientTLS(ca=str(tmp_path)))) == ""
    told = shaken(context, endpoint(broker, ClientTLS(ca=str(authority.file), name="other.example")))
    assert re.search("certificate verify failed: .*other.example", told)
    assert "certificate verify failed" in shaken(context, endpoint(broker, ClientTLS()))


def test_files_that_cannot_be_used_are_told(authority: Authority, tmp_path: Path) -> None:
    """By option and path; a passphrase is never asked for."""
    broker = address.broker("ssl://localhost:1")
    (tmp_path / "nonsense").write_text("x")
    (tmp_path / "empty").mkdir()
    issued = authority.issue("client")
    for tls, text in (
        (ClientTLS(ca=str(tmp_path / "absent")), "tls.ca: .*absent: No such file"),
        (ClientTLS(ca=str(tmp_path / "nonsense")), "tls.ca: .*nonsense: TLS: "),
        (ClientTLS(ca=str(tmp_path / "empty")), "tls.ca: .*empty: no .pem file in it"),
        (ClientTLS(certificate=str(tmp_path / "absent"), key="x"), "tls.certificate: .*absent: No such file"),
    ):
        with pytest.raises(Unreachable, match=text):
            endpoint(broker, tls)
    assert (
        endpoint(broker, ClientTLS(certificate=str(issued.certificate), key=str(issued.key))).tls is not None
    )


def test_a_peer_without_tls_is_told() -> None:
    """Instead of OpenSSL's riddle."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        way = endpoint(address.broker(f"ssl://127.0.0.1:{server.getsockname()[1]}"), ClientTLS())

        def answer() -> None:
            with server.accept()[0] as peer:
                peer.sendall(b"ERROR\nmessage:no\n\n\0")
                peer.recv(1000)

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(OSError, match=r"(?i)wrong.version|record|unexpected|eof") as caught:
            way.connect(30)
        thread.join(30)
    assert spell(caught.value).startswith("TLS: ")
