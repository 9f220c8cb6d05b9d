"""The relay as a service: its listeners, its sessions, and how they end."""

from typing import Any

import pytest
import pytest_twisted
from twisted.internet import reactor
from twisted.internet.address import UNIXAddress
from twisted.internet.endpoints import TCP4ServerEndpoint
from twisted.internet.testing import MemoryReactorClock

from stomprelay.config import Config
from stomprelay.config.address import broker
from stomprelay.relay.model.group import Broker, Group
from stomprelay.relay.model.listener import Match, Route, ServerTLS
from stomprelay.relay.model.upstream import ClientTLS, Upstream
from stomprelay.service import relay
from stomprelay.service.network.endpoints import BadEndpoint
from stomprelay.service.relay import RelayService
from tests.service.harness import (
    CONNECT,
    CONNECTED,
    RelayHarness,
    failover,
    listener,
    movable,
    upstream,
)
from tests.service.harness import broker as place
from tests.service.sockets import Accepting, Peer, connect, until

PLACE = "tcp:0:interface=127.0.0.1"


def test_stopping(monkeypatch: pytest.MonkeyPatch) -> None:
    """No new clients; those that are there get an ERROR and time to read it; then it has stopped."""
    harness = RelayHarness()
    client, broker = harness.session()
    early = harness.client()
    stopped: list[object] = []
    _ = harness.service.stopService().addCallback(stopped.append)
    assert harness.service.state.sessions.stopping
    assert harness.reactor.tcpServers[0][1].buildProtocol(UNIXAddress(None)) is None
    for each in (client, early):
        assert b"ERROR\nmessage:the relay is stopping\n" in each.written()
        assert each.ends == ["half"]
    assert broker.ends == ["half"]
    for each in (client, early, broker):
        assert stopped == []
        each.disconnects()
    assert stopped == [None]
    assert harness.reactor.getDelayedCalls() == []


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


@pytest.mark.parametrize(("scanner", "decoder"), [(None, "pure Python"), (object(), "compiled")])
def test_the_log_tells_what_is_compiled(
    scanner: object, decoder: str, log: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line at the start: whether the compiled modules were built, and are wanted."""
    monkeypatch.setattr(relay, "SCANNER", scanner)
    RelayHarness(listener(upstream=movable(failover(1, 2))))
    assert f"info: decoder: {decoder}" in log


# On real sockets


def address(service: RelayService, number: int = 0) -> str:
    """Where a listener listens."""
    port = list(service._listening)[number]._opened.result
    return f"tcp:127.0.0.1:{port.getHost().port}"


class RealRelay:
    """A relay on real sockets, and the broker that the test scripted_sessions."""

    def __init__(self, **settings: Any) -> None:
        self.settings = settings
        self.accepting = Accepting()

    async def __aenter__(self) -> "RealRelay":
        self.port = await TCP4ServerEndpoint(reactor, 0, interface="127.0.0.1").listen(self.accepting)
        main = listener(
            endpoint=PLACE,
            upstream=upstream(broker=broker(f"tcp://127.0.0.1:{self.port.getHost().port}")),
            **self.settings,
        )
        self.service = RelayService(Config((main,)), reactor)
        self.service.startService()
        return self

    async def __aexit__(self, *_: object) -> None:
        await until(lambda: not self.service.state.runtime.sockets)
        assert self.service.state.runtime.protocols == {}
        await self.service.stopService()
        await self.port.stopListening()

    async def session(self) -> tuple[Peer, Peer]:
        """A connected client and its broker."""
        client = await connect(address(self.service))
        client.transport.write(CONNECT)
        served = await self.accepting.accepted.get()
        await served.frame()
        served.transport.write(CONNECTED)
        await client.frame()
        client.skip_eols()
        return client, served


@pytest_twisted.ensureDeferred
async def test_an_error_reaches_a_client_that_is_still_talking() -> None:
    """It is not lost because more comes behind what was wrong."""
    async with RealRelay() as relay:
        client, served = await relay.session()
        client.transport.write(b"GARBAGE\n\n\0" + b"x" * 200_000)
        error = await client.frame()
        assert error.startswith(b"ERROR\nmessage:unknown command\n")
        await client.ended()
        client.transport.loseConnection()
        await served.gone()
