"""How many clients there may be, and what becomes of those that are too many."""

import errno
import socket
from pathlib import Path
from typing import Any

import pytest
import pytest_twisted
from twisted.internet import error
from twisted.internet.address import IPv4Address, IPv6Address, UNIXAddress

from stomprelay.config import Config
from stomprelay.relay.model.group import Broker, alone
from stomprelay.relay.model.upstream import Upstream
from stomprelay.service.clients.clients import LINGERING, RESERVE, RESERVED_SHARE
from stomprelay.service.connection.runtime import EVERY
from stomprelay.service.process import open_descriptors, raise_descriptor_limit
from stomprelay.service.relay import RelayService
from stomprelay.service.state import network
from tests.e2e.certificates import Authority
from tests.service.certificates import serving
from tests.service.harness import (
    CONNECT,
    CONNECTED,
    SEND,
    FakeTransport,
    RelayHarness,
    failover,
    listener,
    movable,
)
from tests.service.sockets import ANY_PORT, call, connect, port_of, reactor, running, until


def refusal(reason: str, versions: str = "1.0,1.1,1.2") -> bytes:
    """The ERROR that a client gets that is too many."""
    head = f"ERROR\nmessage:too many connections\nversion:{versions}\ncontent-type:text/plain\n"
    return f"{head}content-length:{len(reason)}\n\n{reason}\0\n".encode()


def refused(client: FakeTransport) -> bytes:
    """What a client was told that is to be closed; nothing where it is served."""
    told = client.written()
    assert client.ends == (["half"] if told else [])
    return told


def counted(harness: RelayHarness, name: str = "public") -> tuple[int, int]:
    """Clients that were taken, and that were refused."""
    counters = harness.service.state.sessions.listeners[name].counters
    return counters["sessions_opened"], counters["clients_refused"]


def test_the_limit_of_all_clients() -> None:
    """One more gets an ERROR and disturbs nobody; when one leaves there is room again."""
    harness = RelayHarness(listener(), listener(name="other", versions=frozenset({b"1.0"})), clients=2)
    first, broker = harness.session()
    second = harness.client(1)
    third, fourth = harness.client(), harness.client(1)
    assert (refused(first), refused(second)) == (b"", b"")
    assert refused(third) == refusal("the limit is 2")
    assert refused(fourth) == refusal("the limit is 2", "1.0")
    third.sends(CONNECT)
    assert third.written() == b""
    broker.written()
    first.sends(SEND)
    assert broker.written() == SEND
    second.disconnects()
    assert refused(harness.client()) == b""
    assert counted(harness) == (2, 1)
    assert counted(harness, "other") == (1, 1)


def test_the_limit_of_an_address() -> None:
    """Clients of another one are served; one that leaves makes room for one of its own."""
    harness = RelayHarness(listener(clients_per_address=2))
    here, there = IPv4Address("TCP", "192.0.2.7", 1), IPv4Address("TCP", "192.0.2.8", 1)
    first, second = harness.client(address=here), harness.client(address=here)
    assert refused(harness.client(address=here)) == refusal("the limit for one address is 2")
    assert refused(harness.client(address=there)) == b""
    assert [refused(harness.client()) for _ in range(3)] == [b""] * 3
    first.disconnects()
    assert [refused(harness.client(address=here)) != b"" for _ in range(2)] == [False, True]
    second.disconnects()
    assert refused(harness.client(address=here)) == b""


@pytest.mark.parametrize(
    ("address", "counted_as"),
    [
        (IPv4Address("TCP", "192.0.2.7", 1), "192.0.2.7"),
        (IPv6Address("TCP", "::ffff:192.0.2.7", 1), "192.0.2.7"),
        (IPv6Address("TCP", "2001:db8::1", 1), "2001:db8::/64"),
        (IPv6Address("TCP", "2001:db8::ffff:1", 2), "2001:db8::/64"),
        (IPv6Address("TCP", "2001:db8:0:1::1", 1), "2001:db8:0:1::/64"),
        (IPv6Address("TCP", "fe80::1%eth0", 1), "fe80::/64"),
        (UNIXAddress(None), None),
        (None, None),
    ],
)
def test_what_is_one_address(address: object, counted_as: str | None) -> None:
    """One machine may have all of 64 bits; a local socket has none."""
    assert network(address) == counted_as


# File descriptors


def built_in() -> Upstream:
    """An upstream that needs no connection."""
    return Upstream("built-in", alone(Broker("memory:", "memory:")))


def with_descriptors(left: int, *listeners: Any) -> RelayHarness:
    """A relay whose sessions may have so many descriptors."""
    harness = RelayHarness(*listeners)
    limit = 1000
    harness.service._admission.started(limit, limit - RESERVE - limit // RESERVED_SHARE - left)
    return harness


def test_descriptors_are_kept_for_brokers() -> None:
    """No client is taken that could not have its broker."""
    harness = with_descriptors(5)
    served = [harness.client(), harness.client()]
    assert refused(harness.client()) == refusal("there are no file descriptors left for more")
    for each in served:
        each.sends(CONNECT)
        harness.broker().sends(CONNECTED)
        assert each.written().startswith(b"CONNECTED\n")
    served[0].disconnects()
    assert refused(harness.client()) == b""


def test_clients_that_are_refused_do_not_pile_up() -> None:
    """So many may read their ERROR at leisure; of more, the first is cut."""
    harness = RelayHarness(clients=1)
    harness.client()
    many = [harness.client() for _ in range(LINGERING + 3)]
    assert all(each.written() == refusal("the limit is 1") for each in many)
    assert [each.ends for each in many[:4]] == [["half", "flush"]] * 3 + [["half"]]
    harness.reactor.advance(2.0)
    assert all(each.ends[-1] == "abort" for each in many)


def test_the_log_is_not_flooded(log: list[str]) -> None:
    """One line at once, then one for all that came meanwhile, and silence when there are none."""
    harness = RelayHarness(clients=1)
    harness.session()
    for _ in range(50):
        harness.client()
    harness.reactor.pump([EVERY, EVERY])
    harness.client()
    one = "a client was refused by public: too many connections: the limit is 1"
    told = [line.partition(": ")[2] for line in log if "too many" in line]
    assert told == [one, "public: too many connections: and 49 more in 10 s", one]


@pytest.mark.parametrize(("clients", "warned"), [(500, True), (10, False)])
def test_more_clients_than_there_are_descriptors_for(log: list[str], clients: int, warned: bool) -> None:
    """The setting is warned of when the relay starts; with room it is not."""
    service = RelayService(Config((listener(),), clients=clients), RelayHarness.reactors(), descriptors=400)
    service.startService()
    assert any("400 file descriptors: enough for " in line for line in log)
    assert any(f"limits.clients is {clients}, but " in line for line in log) is warned
    _ = service.stopService()


def test_the_limit_of_the_process() -> None:
    """It is raised as far as it goes; what is open is counted."""
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowered = min(256, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowered, hard))
    try:
        found = raise_descriptor_limit()
        assert found == (None if hard == resource.RLIM_INFINITY else hard)
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    before = open_descriptors()
    with socket.socket():
        assert before is not None
        assert open_descriptors() == before + 1


def test_a_connect_without_a_descriptor_is_no_failure_of_the_broker(log: list[str]) -> None:
    """It stays in service; another one is tried, and this one again."""
    harness = RelayHarness(listener(upstream=movable(failover(1))))
    client = harness.client()
    client.sends(CONNECT)
    for _ in range(5):
        harness.refuse(error.ConnectBindError(errno.EMFILE, "Too many open files"))
        harness.reactor.advance(30.0)
    [entry] = harness.service.state.brokers
    assert (entry.broker.health.up, entry.broker.health.failures) == (None, 0)
    counters = harness.service.state.sessions.listeners["public"].counters
    assert (counters["brokers_refused"], counters["connects_prevented"]) == (0, 5)
    assert any("could not be asked: Too many open files" in line for line in log)
    harness.broker().sends(CONNECTED)
    assert client.written().lstrip(b"\n").startswith(b"CONNECTED\n")
    assert entry.broker.health.up


# On real sockets


@pytest_twisted.ensureDeferred
async def test_refused_on_a_socket(tmp_path: Path) -> None:
    """The ERROR arrives whole though CONNECT was already sent, by TLS after its handshake; then the end."""
    authority = Authority(tmp_path, "Authority")
    secured = serving(authority.issue("Broker", ("localhost",)))
    doors = (
        listener(endpoint=ANY_PORT, upstream=built_in()),
        listener(name="secured", endpoint=ANY_PORT, upstream=built_in(), tls=secured),
    )
    service = RelayService(Config(doors, clients=1), reactor)
    async with running(service):
        first = await call(service._listening.getServiceNamed("public"))
        first.transport.write(CONNECT)
        assert (await first.frame()).startswith(b"CONNECTED\n")
        for name, kind in (
            ("public", "tcp:host=127.0.0.1"),
            ("secured", f"tls:localhost:trustRoots={tmp_path}"),
        ):
            port = port_of(service._listening.getServiceNamed(name))
            peer = await connect(f"{kind}:port={port}")
            peer.transport.write(CONNECT + SEND * 100)
            assert await peer.frame() == refusal("the limit is 1").rstrip(b"\n")
            peer.transport.loseConnection()
            await peer.gone()
        silent = await connect(f"tcp:127.0.0.1:{port_of(service._listening.getServiceNamed('secured'))}")
        await silent.gone()
        first.transport.loseConnection()
        await first.gone()
        await until(lambda: not len(service.state.sessions))
        last = await call(service._listening.getServiceNamed("public"))
        last.transport.write(CONNECT)
        assert (await last.frame()).startswith(b"CONNECTED\n")
        last.transport.loseConnection()
        await last.gone()
