"""Endpoints: what a string means, and what is said of one that cannot be used."""

from pathlib import Path

import pytest
from twisted.internet.testing import MemoryReactorClock

from stomprelay.config.address import broker
from stomprelay.relay.model.upstream import ClientTLS
from stomprelay.service.network.endpoints import BadEndpoint, client_endpoint, listening_service
from tests.e2e.certificates import Authority
from tests.service.certificates import serving
from tests.service.sockets import Accepting

# Where clients come in


def test_tls_twice(tmp_path: Path) -> None:
    """An endpoint that brings its own TLS takes no table."""
    own = serving(Authority(tmp_path, "authority").issue("server"))
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


# The way to the brokers


@pytest.mark.parametrize(
    ("address", "settings", "words"),
    [
        ("nonsense:where=there", ClientTLS(), "^nonsense:where=there: "),
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
