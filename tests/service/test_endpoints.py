"""Endpoints: what a string means, and what is said of one that cannot be used."""

from pathlib import Path
from typing import Any, cast

import pytest
from twisted.internet import reactor
from twisted.internet.endpoints import HostnameEndpoint, TCP4ClientEndpoint
from twisted.internet.testing import MemoryReactorClock

from stomprelay.config.address import broker
from stomprelay.relay.model.listener import ServerTLS
from stomprelay.relay.model.upstream import ClientTLS
from stomprelay.service.network.endpoints import (
    BACKLOG,
    AddressEndpoint,
    BadEndpoint,
    Exchangeable,
    OneProtocol,
    client_endpoint,
    listening_service,
)
from stomprelay.service.network.layer import LayerFactory
from tests.e2e.certificates import Authority
from tests.service.sockets import Accepting, Peer


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Who issues the certificates."""
    return Authority(tmp_path_factory.mktemp("certificates"), "authority")


def server_tls(authority: Authority, *names: str) -> ServerTLS:
    """The table of a listener whose certificate is for these names."""
    own = authority.issue("server", names or ("localhost",))
    return ServerTLS(str(own.certificate), str(own.key))


# Where clients come in


def test_a_tcp_listener() -> None:
    """Port and interface are the string's; more clients may wait than Twisted lets by itself."""
    memory, factory = MemoryReactorClock(), Accepting()
    listening_service(memory, "public", "tcp:61613:interface=127.0.0.1", factory).startService()
    [(port, entrance, backlog, interface)] = memory.tcpServers
    assert isinstance(entrance, Exchangeable)
    assert (port, entrance.current, backlog, interface) == (61613, factory, BACKLOG, "127.0.0.1")


def test_a_listener_with_tls(authority: Authority) -> None:
    """The table puts TLS into whatever the string describes."""
    memory, factory = MemoryReactorClock(), Accepting()
    listening_service(memory, "public", "tcp:61614", factory, server_tls(authority)).startService()
    entrance: Any = memory.tcpServers[0][1]
    wrapped = entrance.current
    assert isinstance(wrapped, LayerFactory)
    assert wrapped.wrappedFactory is factory


def test_tls_twice(authority: Authority) -> None:
    """An endpoint that brings its own TLS takes no table."""
    own = server_tls(authority)
    endpoint = f"ssl:61614:privateKey={own.key}:certKey={own.certificate}"
    with pytest.raises(BadEndpoint, match="has TLS of its own"):
        listening_service(MemoryReactorClock(), "public", endpoint, Accepting(), own)
    listening_service(MemoryReactorClock(), "public", endpoint, Accepting())


@pytest.mark.parametrize(
    ("endpoint", "words"),
    [
        ("tcp:61613:port=2", "endpoint 'tcp:61613:port=2'"),
        ("nonsense:1", "endpoint 'nonsense:1'"),
        ("systemd:domain=INET:index=0", "systemd passed no such socket"),
        ("systemd:domain=INET:name=stomp", "systemd passed no such socket"),
        ("ssl:61614:privateKey=/absent.pem", "absent.pem"),
    ],
)
def test_a_listener_that_cannot_be(endpoint: str, words: str) -> None:
    """The string is told, and the reason."""
    with pytest.raises(BadEndpoint, match=words):
        listening_service(MemoryReactorClock(), "public", endpoint, Accepting())


def test_a_certificate_that_cannot_be_used() -> None:
    """The key that names it is told."""
    with pytest.raises(BadEndpoint, match=r"^tls.certificate: /absent.pem: No such file"):
        listening_service(
            MemoryReactorClock(), "public", "tcp:1", Accepting(), ServerTLS("/absent.pem", "/absent.key")
        )


# The way to the brokers


@pytest.mark.parametrize(
    ("address", "kind"),
    [
        ("tcp://192.0.2.1:61613", AddressEndpoint),
        ("tcp://[2001:db8::1]:61613", AddressEndpoint),
        ("tcp://broker.example.net", HostnameEndpoint),
        ("tcp:broker.example.net:61613", HostnameEndpoint),
        ("tcp:192.0.2.1:61613:timeout=5:bindAddress=192.0.2.2", AddressEndpoint),
    ],
)
def test_a_host_by_name_or_address(address: str, kind: type) -> None:
    """A name may have addresses of either family."""
    assert type(client_endpoint(reactor, broker(address), ClientTLS())) is kind


def test_the_parts_of_a_tcp_endpoint() -> None:
    """Host, port, timeout and local address come from the string."""
    memory = MemoryReactorClock()
    endpoint = client_endpoint(
        memory, broker("tcp:192.0.2.1:61613:timeout=5:bindAddress=192.0.2.2"), ClientTLS()
    )
    attempt = endpoint.connect(Accepting())
    host, port, _, timeout, local = cast(tuple[Any, ...], memory.tcpClients[0])
    assert (host, port, timeout, local) == ("192.0.2.1", 61613, 5.0, ("192.0.2.2", 0))
    _ = attempt.addErrback(lambda _: None)
    attempt.cancel()


def test_an_address_is_connected_to_as_twisteds_own_endpoint_does() -> None:
    """Without that endpoint's Deferred, but with the same host, port, timeout and local address."""
    memory, local = MemoryReactorClock(), ("192.0.2.2", 0)
    AddressEndpoint(memory, "192.0.2.1", 61613, 5.0, local).attempt(OneProtocol(Peer(), print))
    _ = TCP4ClientEndpoint(memory, "192.0.2.1", 61613, 5.0, local).connect(Accepting())
    ours, theirs = (list(cast(tuple[Any, ...], each)) for each in memory.tcpClients)
    assert [type(factory).__name__ for factory in (ours.pop(2), theirs.pop(2))] == [
        "OneProtocol",
        "_WrappingFactory",
    ]
    assert ours == theirs


def test_a_broker_on_a_unix_socket(tmp_path: Path) -> None:
    """Whatever else Twisted knows goes as it is."""
    memory = MemoryReactorClock()
    attempt = client_endpoint(memory, broker(f"unix:path={tmp_path}/broker"), ClientTLS()).connect(
        Accepting()
    )
    assert memory.unixClients[0][0] == f"{tmp_path}/broker"
    _ = attempt.addErrback(lambda _: None)
    attempt.cancel()


@pytest.mark.parametrize(
    ("address", "settings", "words"),
    [
        ("nonsense:where=there", ClientTLS(), "^nonsense:where=there: "),
        ("ssl://localhost", ClientTLS(ca="/absent.pem"), r"^tls.ca: /absent.pem: No such file"),
        (
            "ssl:localhost:61614:caCertsDir=/proc/self",
            ClientTLS(),
            r"^tls.ca: /proc/self: no .pem file in it",
        ),
    ],
)
def test_a_broker_that_cannot_be_reached_ever(address: str, settings: ClientTLS, words: str) -> None:
    """Recorded when the service is made, not when the first client comes."""
    with pytest.raises(BadEndpoint, match=words):
        client_endpoint(MemoryReactorClock(), broker(address), settings)
