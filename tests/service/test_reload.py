"""Another configuration while the relay runs: what changes at once, what for new sessions, and what goes on."""

import os
import signal
import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytest_twisted
from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred
from twisted.internet.testing import MemoryReactorClock
from twisted.logger import LogLevel, capturedLogs, formatEvent

from stomprelay.auth.settings import AuthSettings
from stomprelay.config import Config, ConfigError
from stomprelay.config.change import ConfigSource
from stomprelay.relay.model.rules import AccessRules
from stomprelay.service import relay as service_relay
from stomprelay.service.brokers import _Asked
from stomprelay.service.network import tls
from stomprelay.service.network.endpoints import CannotStart
from stomprelay.service.network.tls import EVERY, CertificateWatch
from stomprelay.service.process import NotReloaded, Reloaded, Reloads
from stomprelay.service.relay import RelayService
from tests.e2e.certificates import Authority
from tests.service.certificates import serving
from tests.service.harness import (
    CONNECT,
    CONNECTED,
    MESSAGE,
    SEND,
    SUBSCRIBE,
    FakeTransport,
    JournalHarness,
    RelayHarness,
    failover,
    listener,
    movable,
    result,
    upstream,
)
from tests.service.sockets import connect, reactor, running, until


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    """An authority that listeners and brokers have certificates of."""
    return Authority(tmp_path, "authority")


def reload(harness: RelayHarness, *listeners: Any, **settings: Any) -> Reloaded:
    """The configuration becomes this one; returns what changed."""
    prepared = harness.service.prepare("stomprelay.toml", Config(listeners, **settings))
    prepared.open()
    return result(prepared.commit())


def ports(harness: RelayHarness) -> list[str]:
    """Where it listens."""
    return [each.description for each in harness.service._listening.services]


# Listeners


def test_listeners_come_and_go() -> None:
    """A new one is listened on, one that is gone no more; its session goes on, and is counted until it is over."""
    main = upstream()
    harness = RelayHarness(listener(upstream=main))
    client, broker = harness.session()
    found = reload(harness, listener(name="other", endpoint="tcp:61614", upstream=main))
    assert set(found.changed) == {"listener.other added", "listener.public removed"}
    assert ports(harness) == ["tcp:61614"]
    assert [each.listener.name for each in harness.service.state.sessions.counted] == ["other", "public"]
    client.sends(SEND)
    assert broker.written() == SEND
    client.disconnects()
    broker.disconnects()
    assert [each.listener.name for each in harness.service.state.sessions.counted] == ["other"]
    harness.client(1).sends(CONNECT)
    assert harness.service.state.sessions.listeners["other"].counters["sessions_opened"] == 1


def test_an_endpoint_that_stays_keeps_its_socket() -> None:
    """Whatever else becomes of its listener, its name included; two may swap theirs."""
    main = upstream()
    both = (listener(upstream=main), listener(name="b", endpoint="tcp:61614", upstream=main))
    harness = RelayHarness(*both)
    sockets = [port for port, *_ in harness.reactor.tcpServers]
    there = list(harness.service._listening.services)
    reload(harness, listener(name="b", upstream=main), listener(endpoint="tcp:61614", upstream=main))
    assert [port for port, *_ in harness.reactor.tcpServers] == sockets
    assert list(harness.service._listening.services) == there
    harness.client(0).sends(CONNECT)
    assert harness.service.state.sessions.listeners["b"].counters["sessions_opened"] == 1
    assert harness.service._listening.getServiceNamed("b") is there[0]


@pytest_twisted.ensureDeferred
async def test_a_port_that_is_taken(tmp_path: Path) -> None:
    """Nothing at all changes, and no socket of those that could be had is kept."""
    main = upstream()
    place, free = f"unix:{tmp_path / 'door'}", f"unix:{tmp_path / 'free'}"
    service = RelayService(Config((listener(endpoint=place, upstream=main),)), reactor)
    async with running(service):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            wanted = (
                listener(name="one", endpoint=free, upstream=main),
                listener(
                    name="two", endpoint=f"tcp:{taken.getsockname()[1]}:interface=127.0.0.1", upstream=main
                ),
            )
            prepared = service.prepare("", Config(wanted, log_level="debug"))
            with pytest.raises(CannotStart, match=r"^two: cannot listen on .*: Address already in use$"):
                prepared.open()
        await until(lambda: not (tmp_path / "free").exists())
        assert list(service.state.sessions.listeners) == ["public"]
        client = await connect(place)
        client.transport.write(b"SEND\n\n\0")  # no broker is asked
        assert (await client.frame()).startswith(b"ERROR\n")
        client.transport.loseConnection()
        await client.gone()


# Upstreams


def test_a_broker_that_is_taken_out() -> None:
    """Its sessions go to the others at a quiet moment, with their subscriptions, and their clients do not notice."""
    harness = RelayHarness(listener(upstream=movable(failover(1, 2))))
    client, first = harness.session()
    client.sends(SUBSCRIBE)
    assert first.written() == SUBSCRIBE
    found = reload(harness, listener(upstream=movable(failover(2, 3))))
    assert set(found.changed) == {
        "upstream.main.uri: tcp://192.0.2.3:61613 added",
        "upstream.main.uri: tcp://192.0.2.1:61613 removed",
    }
    assert harness.reactor.tcpClients[-1][0] == "192.0.2.2"
    second = harness.broker()
    second.sends(CONNECTED)
    assert b"DISCONNECT\n" in first.written()
    first.disconnects()
    assert SUBSCRIBE in second.written()
    second.sends(MESSAGE)
    assert client.written() == MESSAGE
    assert client.ends == []
    reload(harness, listener(upstream=movable(failover(2, 3))))
    kept = [str(each) for each in harness.service._endpoints]
    assert kept == ["tcp://192.0.2.2:61613", "tcp://192.0.2.3:61613"]


def test_a_session_that_waits_tries_a_broker_that_came() -> None:
    """At once, whatever it waited for."""
    harness = RelayHarness(listener(upstream=movable(failover(1, initial_delay=60.0))))
    client, first = harness.session()
    first.disconnects()
    harness.reactor.tcpClients.clear()
    reload(harness, listener(upstream=movable(failover(2, initial_delay=60.0))))
    harness.reactor.advance(0.01)
    assert harness.reactor.tcpClients[-1][0] == "192.0.2.2"
    harness.broker().sends(CONNECTED)
    assert client.ends == []


def test_a_move_to_a_broker_that_is_taken_out() -> None:
    """It was asked for to level the brokers; where the session goes now is no part of that."""
    harness = RelayHarness(listener(upstream=movable(failover(1, 2, 3))))
    (group,) = harness.config.upstreams[0].groups
    one, two, three = group.brokers
    client, _ = harness.session()
    (session,) = harness.service.state.sessions
    (link,) = session.relay.links
    harness.service._checks._asked = [_Asked(link, one, three)]
    reload(harness, listener(upstream=movable(failover(1, 2))))
    assert harness.service._checks._placed(group) == {one: 0, two: 0}
    assert client.ends == []


# Rules


def test_rules_of_many_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn that takes too long is the last for now; those before CONNECT have them; who is gone is no trouble."""
    monkeypatch.setattr(service_relay, "RULING", 0.0)
    main = upstream()
    harness = RelayHarness(listener(upstream=main))
    early = harness.client()
    sessions = [harness.session() for _ in range(6)]
    for client, _ in sessions:
        client.sends(SUBSCRIBE)
    reload(harness, listener(upstream=main, rules=AccessRules((), allow=False)))
    assert sum(b"DISCONNECT" in broker.value() for _, broker in sessions) == 1
    sessions[0][0].disconnects()
    harness.reactor.pump([0] * 6)
    for _, broker in sessions:
        if b"DISCONNECT\nreceipt:" in broker.value():
            broker.parts()
    assert len(harness.service.state.sessions) == 1
    early.sends(CONNECT)
    harness.broker()
    assert len(harness.service.state.sessions) == 1


# The admin endpoint


def connection(harness: RelayHarness) -> FakeTransport:
    """A connection to `admin`."""
    (service,) = harness.service.admin.services
    if not service.factory.numPorts:
        service.factory.doStart()  # a port does, and a reactor in memory has none
    transport = FakeTransport(service.factory.buildProtocol(None))
    transport.hostAddr = IPv4Address("TCP", "127.0.0.1", 61680)
    transport.protocol.makeConnection(transport)
    return transport


def ask(
    transport: FakeTransport, token: str, method: str = "GET", path: str = "/brokers", body: str = ""
) -> str:
    """The status of the answer to a request with this token."""
    head = f"{method} {path} HTTP/1.1\r\nhost: localhost:61680\r\nauthorization: Bearer {token}\r\n"
    more = f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n{body}" if body else "\r\n"
    transport.sends((head + more).encode())
    return transport.written().split()[1].decode()


def test_another_token() -> None:
    """It holds at once: who waits is sent away, who is half way through a request has that one answered."""
    main = listener(upstream=upstream())
    place, old, new = "tcp:61680:interface=127.0.0.1", "0123456789abcdef", "fedcba9876543210"
    harness = RelayHarness(main, admin=place, admin_token=old.encode())
    waiting, busy = connection(harness), connection(harness)
    assert ask(waiting, old) == "200"
    busy.sends(b"GET /brokers HTTP/1.1\r\nhost: localhost:61680\r\n")
    found = reload(harness, main, admin=place, admin_token=new.encode())
    assert found.changed == ("admin_token_file",)
    assert (waiting.ends, busy.ends) == (["flush"], [])
    busy.sends(b"authorization: Bearer " + old.encode() + b"\r\n\r\n")
    assert busy.written().startswith(b"HTTP/1.1 200")
    assert busy.ends == ["flush"]
    assert ask(connection(harness), old) == "401"
    assert ask(connection(harness), new) == "200"


def test_a_reload_by_request() -> None:
    """Where there is nothing to read anew it is refused; the body says nothing."""
    harness = RelayHarness(listener(upstream=upstream()), admin="tcp:61680:interface=127.0.0.1")
    assert ask(connection(harness), "", "POST", "/reload", "{}") == "409"
    assert ask(connection(harness), "", "POST", "/reload", '{"a": 1}') == "400"
    assert ask(connection(harness), "", "GET", "/reload") == "405"


# Certificates


def test_files_that_change(tmp_path: Path, authority: Authority, log: list[str]) -> None:
    """They are loaded when two looks found the same; what cannot be used is said once, and what there was stays."""
    clock = MemoryReactorClock()
    own, fresh = authority.issue("own"), authority.issue("fresh")
    made = tls.for_listener(serving(own))
    watch = CertificateWatch(clock)
    watch.watch({"listener.public.tls": [made]})
    watch.startService()

    def looks(count: int) -> list[str]:
        log.clear()
        for _ in range(count):
            clock.advance(EVERY)
        return list(log)

    before = made._context
    assert looks(3) == []
    own.certificate.write_bytes(fresh.certificate.read_bytes())
    assert looks(1) == []
    own.key.write_bytes(fresh.key.read_bytes())
    assert looks(1) == []
    assert made._context is before
    assert looks(2) == ["info: listener.public.tls: the files changed; new connections have them"]
    after = made._context
    assert after is not before
    own.key.unlink()
    (line,) = looks(5)
    assert line.startswith(
        f"warn: listener.public.tls.key: {own.key}: No such file or directory; what was loaded"
    )
    assert made._context is after
    watch.watch({})
    own.key.write_bytes(fresh.key.read_bytes())
    assert looks(3) == []
    watch.stopService()
    assert not clock.getDelayedCalls()


# The rest


def test_what_is_heeded_anew(log: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Who may come in, how much is logged, and what there is to warn of."""
    levels: list[str] = []
    monkeypatch.setattr("stomprelay.service.relay.set_level", levels.append)
    main = movable(connected=True)
    harness = RelayHarness(listener(upstream=main))
    log.clear()
    reload(harness, listener(upstream=main), auths=(AuthSettings("a", certificates=True),), log_level="error")
    assert set(harness.service._identification._auths) == {"a"}
    assert (levels, log) == (["info", "error"], [])
    reload(harness, listener(upstream=replace(main, connected=False)), log_level="error")
    assert harness.service._identification._auths == {}
    assert (len(levels), len(log)) == (2, 1)
    assert "sessions may be on different brokers" in log[0]


def test_what_is_recorded_changes_for_new_connections(tmp_path: Path) -> None:
    """The journal goes on, and its folder stays."""
    harness = JournalHarness(tmp_path)
    old = harness.journal.capture
    main = harness.config.listeners[0]
    settings = replace(harness.config.journal, bodies=7, retain_age=9.0, directory="/elsewhere")
    prepared = harness.service.prepare("", replace(harness.config, journal=settings))
    assert prepared.change.restart == ("journal.directory",)
    _ = prepared.commit()
    assert harness.journal.capture is not old
    assert harness.journal.settings == replace(harness.config.journal, bodies=7, retain_age=9.0)
    assert harness.service.config.listeners[0].upstream.groups == main.upstream.groups


class Scene:
    """Reloads whose configuration a test makes."""

    def __init__(self, use: Callable[[], Any] = lambda: Reloaded(("a",), ())) -> None:
        self.notices: list[bool] = []
        self.reloads = Reloads(
            MemoryReactorClock(),
            ConfigSource(None, "", {}, os.getcwd()),
            lambda _source: use(),
            self.notices.append,
        )
        self.reloads.startService()

    def reload(self) -> list[Any]:
        """What comes of a reload."""
        found: list[Any] = []
        _ = self.reloads.reload().addBoth(found.append)
        return found


def test_a_reload_says_what_changed(log: list[str]) -> None:
    """In one line; what needs a restart has a line of its own each. systemd hears of both ends."""
    scene = Scene(lambda: Reloaded(("log_level", "listener.b added"), ("workers",)))
    assert scene.reload() == [Reloaded(("log_level", "listener.b added"), ("workers",))]
    assert log == [
        "info: the configuration is reloaded; changed: log_level, listener.b added",
        "warn: workers: needs a restart",
    ]
    assert scene.notices == [True, False]


def test_a_reload_that_cannot_be(log: list[str]) -> None:
    """One line has the reason, and who asked gets it."""

    def use() -> Reloaded:
        raise ConfigError("f.toml: log_level: no")

    scene = Scene(use)
    (failure,) = scene.reload()
    assert failure.check(NotReloaded)
    assert failure.getErrorMessage() == "f.toml: log_level: no"
    assert log == ["error: the configuration is not reloaded: f.toml: log_level: no"]
    assert scene.notices == [True, False]


def test_two_reloads_at_once() -> None:
    """The second begins when the first is over."""
    waiting = [Deferred[Reloaded](), Deferred[Reloaded]()]
    begun = iter(waiting)
    scene = Scene(lambda: next(begun))
    first, second = scene.reload(), scene.reload()
    waiting[1].callback(Reloaded((), ()))
    assert (first, second, scene.notices) == ([], [], [True])
    waiting[0].callback(Reloaded(("a",), ()))
    assert (first, second) == ([Reloaded(("a",), ())], [Reloaded((), ())])


def test_a_reload_while_the_relay_stops(log: list[str]) -> None:
    """It is refused, and systemd is not told that the relay is ready again."""
    scene = Scene()
    scene.reloads.refuse()
    (failure,) = scene.reload()
    assert failure.getErrorMessage() == "the relay stops"
    assert scene.notices == []


def test_a_fault_of_the_relay() -> None:
    """It is in the log with all that is known, and who asked is told where."""

    def use() -> Reloaded:
        raise ZeroDivisionError

    with capturedLogs() as logs:
        (failure,) = Scene(use).reload()
    assert failure.getErrorMessage() == "the relay failed; see its log"
    assert [event["log_level"] for event in logs] == [LogLevel.critical]
    assert logs[0]["log_failure"].check(ZeroDivisionError)


@pytest_twisted.ensureDeferred
async def test_a_signal(tmp_path: Path) -> None:
    """SIGHUP has the file read again, wherever the process is by then; it is found where it was."""
    file = tmp_path / "stomprelay.toml"
    text = f'[listener.a]\nendpoint = "unix:{tmp_path}/a.sock"\n'
    file.write_text(text)
    before = Path.cwd()
    source = ConfigSource("stomprelay.toml", text, {}, str(tmp_path))
    with source.here():
        service = RelayService(source.read(), reactor, source=source)
        service.privilegedStartService()
    assert Path.cwd() == before
    async with running(service):
        file.write_text(f'[listener.b]\nendpoint = "unix:{tmp_path}/b.sock"\n')
        with capturedLogs() as logs:
            os.kill(os.getpid(), signal.SIGHUP)
            await until(lambda: any("reloaded" in (formatEvent(each) or "") for each in logs))
        assert (tmp_path / "b.sock").exists()
        assert list(service.state.sessions.listeners) == ["b"]
        file.unlink()
        assert service.state.reloads is not None
        with pytest.raises(
            NotReloaded, match=r"^stomprelay\.toml: cannot be read: No such file or directory$"
        ):
            await service.state.reloads.reload()
    assert Path.cwd() == before


def test_a_folder_that_is_gone(tmp_path: Path) -> None:
    """It is named."""
    source = ConfigSource(None, "", {}, str(tmp_path / "gone"))
    with (
        pytest.raises(ConfigError, match="gone: cannot be entered: No such file or directory"),
        source.here(),
    ):
        pass
