"""The brokers of a service: which there are, how they are, and what they are called."""

import pytest

from stomprelay.config.address import host_and_port
from stomprelay.relay.model.group import Broker
from stomprelay.relay.model.listener import Match, Route
from stomprelay.service.brokers.brokers import ALL, Brokers
from tests.service.harness import failover, listener, movable, upstream


def test_every_broker_of_every_upstream() -> None:
    """In order, each upstream once however many listeners and routes lead there."""
    main, side = upstream(), movable(failover(1, 2), failover(3), name="side")
    routes = (Route(Match.PREFIX, "/topic/", side),)
    brokers = Brokers(
        [listener(upstream=main, routes=routes), listener(upstream=side), listener(upstream=main)]
    )
    assert brokers.upstreams == (main, side)
    assert [(each.upstream, each.group, each.broker) for each in brokers] == [
        (main, main.groups[0], main.brokers[0]),
        (side, side.groups[0], side.brokers[0]),
        (side, side.groups[0], side.brokers[1]),
        (side, side.groups[1], side.brokers[2]),
    ]


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
    brokers = Brokers([listener(upstream=movable(failover(1, 2), failover(1)))])
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


def test_states() -> None:
    """What an operator did comes first, then what the relay does, then what was seen last."""
    main = upstream()
    (entry,) = Brokers([listener(upstream=main)])
    health = entry.broker.health
    assert entry.state(0.0) == "unknown"
    health.answered()
    assert entry.state(0.0) == "up"
    health.failed(main.checks, 0.0, lambda: 0.5)
    assert entry.state(0.5) == "out"
    assert entry.state(1.5) == "down"
    health.paused = True
    assert entry.state(0.5) == "paused"
