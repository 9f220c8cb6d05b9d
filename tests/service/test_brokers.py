"""The brokers of a service: which there are, how they are, and what they are called."""

import pytest

from stomprelay.config.address import host_and_port
from stomprelay.relay.model.group import Broker
from stomprelay.service.brokers import ALL, Brokers
from tests.service.harness import failover, movable


@pytest.mark.parametrize(
    ("word", "numbers"),
    [
        (ALL, [1, 2, 1]),
        ("tcp://192.0.2.1:61613", [1, 1]),
        ("192.0.2.2:61613", [2]),
        ("192.0.2.2", []),
        ("tcp://192.0.2.2", []),
        ("", []),
        ("None", []),
    ],
)
def test_a_broker_is_meant_by_its_address(word: str, numbers: list[int]) -> None:
    """As it is configured, or as host and port; wherever it stands."""
    brokers = Brokers([movable(failover(1, 2), failover(1))])
    assert [str(entry.broker) for entry in brokers.find(word)] == [
        f"tcp://192.0.2.{number}:61613" for number in numbers
    ]


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
