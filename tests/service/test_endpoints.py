"""Endpoints: what a string means, and what is said of one that cannot be used."""

from typing import Any

import pytest
from twisted.internet.testing import MemoryReactorClock

from stomprelay.config.address import broker
from stomprelay.relay.model.listener import ServerTLS
from stomprelay.relay.model.upstream import ClientTLS
from stomprelay.service.network.endpoints import BadEndpoint, client_endpoint, listening_service
from stomprelay.service.network.layer import LayerFactory
from tests.e2e.certificates import Authority
from tests.service.certificates import serving
from tests.service.sockets import Accepting


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Who issues the certificates."""
    return Authority(tmp_path_factory.mktemp("certificates"), "authority")


# Where clients come in


def test_a_listener_with_tls(authority: Authority) -> None:
    """The table puts TLS into whatever the string describes."""
    memory, factory = MemoryReactorClock(), Accepting()
    own = serving(authority.issue("server"))
    listening_service(memory, "public", "tcp:61614", factory, own).startService()
    entrance: Any = memory.tcpServers[0][1]
    wrapped = entrance.current
    assert isinstance(wrapped, LayerFactory)
    assert wrapped.wrappedFactory is factory


def test_tls_twice(authority: Authority) -> None:
    """An endpoint that brings its own TLS takes no table."""
    own = serving(authority.issue("server"))
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
