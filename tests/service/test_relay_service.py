"""The relay as a service: its listeners, its sessions, and how they end."""

from typing import Any

import pytest
from twisted.internet.testing import MemoryReactorClock

from stomprelay.config import Config
from stomprelay.config.address import broker
from stomprelay.relay.model.group import Broker, Group
from stomprelay.relay.model.listener import Match, Route, ServerTLS
from stomprelay.relay.model.upstream import ClientTLS, Upstream
from stomprelay.service.network.endpoints import BadEndpoint
from stomprelay.service.relay import RelayService
from tests.service.harness import RelayHarness, failover, listener, movable, upstream
from tests.service.harness import broker as place


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"listeners": (listener(endpoint="nonsense:1"),)}, r"^listener\.public\.endpoint 'nonsense:1'"),
        (
            {"listeners": (listener(tls=ServerTLS("/absent.pem", "/absent.key")),)},
            r"^listener\.public\.tls\.certificate: /absent\.pem: No such file",
        ),
        (
            {
                "listeners": (
                    listener(upstream=upstream(broker=broker("ssl://b"), tls=ClientTLS(ca="/absent.pem"))),
                )
            },
            r"^upstream\.main\.tls\.ca: /absent\.pem: No such file",
        ),
        (
            {
                "listeners": (
                    listener(
                        routes=(
                            Route(
                                Match.PREFIX,
                                "/topic/",
                                Upstream(
                                    "side",
                                    (Group("two", (place(1), broker("ssl://b"))),),
                                    tls=ClientTLS(ca="/absent.pem"),
                                ),
                            ),
                        )
                    ),
                )
            },
            r"^upstream\.side\.tls\.ca: /absent\.pem: No such file",
        ),
        (
            {"listeners": (listener(upstream=upstream(broker=Broker("pigeon:x", "pigeon:x"))),)},
            r"^upstream\.main\.pigeon:x: ",
        ),
        ({"listeners": (listener(),), "admin": "nonsense:1"}, r"^admin: endpoint 'nonsense:1'"),
    ],
)
def test_what_cannot_be_used_is_told_before_anything_starts(settings: dict[str, Any], words: str) -> None:
    """By its key."""
    memory = MemoryReactorClock()
    with pytest.raises(BadEndpoint, match=words):
        RelayService(Config(**settings), memory)
    assert memory.tcpServers == []


def test_the_log_tells_where_each_listener_leads(log: list[str]) -> None:
    """By its own upstream and by its routes, to every broker in its order."""
    side = Route(Match.EXACT, "/queue/side", upstream(broker=place(3)))
    RelayHarness(listener(upstream=movable(failover(1, 2)), routes=(side,)))
    assert log[-1] == (
        "info: public: tcp:61613 to tcp://192.0.2.1:61613, tcp://192.0.2.2:61613, tcp://192.0.2.3:61613"
    )


def test_the_log_tells_that_consumers_may_get_nothing(log: list[str]) -> None:
    """Of each group whose sessions may be on different brokers."""
    RelayHarness(listener(upstream=movable(failover(1, 2))))
    [told] = [line for line in log if line.startswith("warn:")]
    assert told.startswith("warn: upstream main: ")
    assert 'say policy = "together"' in told
    log.clear()
    RelayHarness(listener(upstream=movable(failover(1, 2), connected=True)))
    assert not [line for line in log if line.startswith("warn:")]


# On real sockets


def address(service: RelayService, number: int = 0) -> str:
    """Where a listener listens."""
    port = list(service._listening)[number]._opened.result
    return f"tcp:127.0.0.1:{port.getHost().port}"
