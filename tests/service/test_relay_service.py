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

ABSENT, NO_FILE = ClientTLS(ca="/absent.pem"), r"/absent\.pem: No such file"
SIDE = Upstream("side", (Group("two", (place(1), broker("ssl://b"))),), tls=ABSENT)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"endpoint": "nonsense:1"}, r"listener\.public\.endpoint 'nonsense:1'"),
        ({"tls": ServerTLS("/absent.pem", "/a.key")}, rf"listener\.public\.tls\.certificate: {NO_FILE}"),
        (
            {"upstream": upstream(broker=broker("ssl://b"), tls=ABSENT)},
            rf"upstream\.main\.tls\.ca: {NO_FILE}",
        ),
        ({"routes": (Route(Match.PREFIX, "/topic/", SIDE),)}, rf"upstream\.side\.tls\.ca: {NO_FILE}"),
        ({"upstream": upstream(broker=Broker("pigeon:x", "pigeon:x"))}, r"upstream\.main\.pigeon:x: "),
        ({"admin": "nonsense:1"}, "admin: endpoint 'nonsense:1'"),
    ],
)
def test_what_cannot_be_used_is_told_before_anything_starts(settings: dict[str, Any], words: str) -> None:
    """By its key: `admin`, or that of a listener or of where it leads."""
    memory = MemoryReactorClock()
    admin = settings.pop("admin", None)
    with pytest.raises(BadEndpoint, match=f"^{words}"):
        RelayService(Config((listener(**settings),), admin=admin), memory)
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
