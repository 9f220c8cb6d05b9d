"""The brokers of a service: which there are, how they are, and what they are called."""

import pytest

from stomprelay.config.address import host_and_port
from stomprelay.relay.model.group import Broker


@pytest.mark.parametrize(
    ("endpoint", "words"),
    [
        ("tcp:host=broker.example:port=61613", "broker.example:61613"),
        ("tcp:broker.example:61613", "broker.example:61613"),
        (r"tcp:host=2001\:db8\:\:1:port=61613", "[2001:db8::1]:61613"),
        ("tls:broker.example:61614", "broker.example:61614"),
        ("unix:/run/broker.sock", None),
        ("memory:", None),
        ("own:parser", None),
        ("tcp:port=none", None),
    ],
)
def test_host_and_port(endpoint: str, words: str | None) -> None:
    """Of any endpoint that has both."""
    assert host_and_port(Broker("uri", endpoint)) == words
