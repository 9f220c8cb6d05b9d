"""systemd's end of the socket, in both name spaces: what it reads, and what happens when it does not."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from twisted.internet.task import Clock
from twisted.logger import capturedLogs, formatEvent

from stomprelay.service.process import EVERY, Notify


class Manager:
    """The service manager's end. `address`: as the environment names it."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self._socket.bind(f"\0{address[1:]}" if address.startswith("@") else address)

    def hears(self) -> list[str]:
        """The datagrams that came since the last time."""
        heard = []
        while True:
            try:
                heard.append(self._socket.recv(4096).decode("utf-8"))
            except BlockingIOError:
                return heard

    def leaves(self) -> None:
        self._socket.close()


@pytest.fixture
def clock() -> Clock:
    """The reactor's clock."""
    return Clock()


@pytest.fixture(params=["path", "abstract"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Manager]:
    """In each of the two name spaces of local sockets."""
    abstract = f"@stomprelay-test-{os.getpid()}-{id(tmp_path)}"
    manager = Manager(abstract if request.param == "abstract" else str(tmp_path / "notify"))
    yield manager
    manager.leaves()


class Service:
    """What is told of; `status` is how it is."""

    def __init__(self, clock: Clock, environment: dict[str, str]) -> None:
        self.status = "0 sessions"
        self.notify = Notify(lambda: self.status, clock, environment)


def test_readiness_and_end_are_told(clock: Clock, manager: Manager) -> None:
    """Ready once everything listens, stopping when it begins to; then nothing, and no timer is left."""
    service = Service(clock, {"NOTIFY_SOCKET": manager.address})
    assert manager.hears() == []
    service.notify.startService()
    assert manager.hears() == ["READY=1\nSTATUS=0 sessions"]
    service.notify.stopping()
    assert manager.hears() == ["STOPPING=1\nSTATUS=stopping"]
    service.notify.stopService()
    assert clock.getDelayedCalls() == []
    clock.advance(100)
    assert manager.hears() == []


def test_the_status_is_told_when_it_changed(clock: Clock, manager: Manager) -> None:
    """It is looked at now and then, and the manager is not bothered with what it knows."""
    service = Service(clock, {"NOTIFY_SOCKET": manager.address})
    service.notify.startService()
    manager.hears()
    clock.advance(EVERY)
    assert manager.hears() == []
    service.status = "7 sessions, ünïcode"
    assert manager.hears() == []
    clock.advance(EVERY)
    assert manager.hears() == ["STATUS=7 sessions, ünïcode"]
    clock.advance(EVERY)
    assert manager.hears() == []
    service.notify.stopService()


def test_a_stop_that_takes_long_still_gives_signs_of_life(clock: Clock, manager: Manager) -> None:
    """systemd's watchdog goes on while the service stops, and must not kill it meanwhile."""
    service = Service(clock, {"NOTIFY_SOCKET": manager.address, "WATCHDOG_USEC": "2000000"})
    service.notify.startService()
    service.notify.stopping()
    manager.hears()
    clock.advance(1)
    assert manager.hears() == ["WATCHDOG=1"]
    service.notify.stopService()


def test_a_slow_watchdog_does_not_slow_the_status(clock: Clock, manager: Manager) -> None:
    """Signs of life may come oftener than they must."""
    service = Service(clock, {"NOTIFY_SOCKET": manager.address, "WATCHDOG_USEC": "600000000"})
    service.notify.startService()
    manager.hears()
    clock.advance(EVERY)
    assert manager.hears() == ["WATCHDOG=1"]
    service.notify.stopService()


@pytest.mark.parametrize(
    "watchdog",
    [
        {"WATCHDOG_USEC": "2000000", "WATCHDOG_PID": "1"},
        {"WATCHDOG_USEC": "0"},
        {"WATCHDOG_USEC": ""},
        {"WATCHDOG_USEC": "soon"},
        {"WATCHDOG_USEC": "-5"},
    ],
    ids=["another process", "zero", "empty", "no number", "negative"],
)
def test_no_sign_of_life_where_none_is_wanted(
    clock: Clock, manager: Manager, watchdog: dict[str, str]
) -> None:
    """The watchdog is another process's, or off, or set to nonsense."""
    service = Service(clock, {"NOTIFY_SOCKET": manager.address, **watchdog})
    service.notify.startService()
    manager.hears()
    clock.pump([EVERY] * 3)
    assert manager.hears() == []
    service.notify.stopService()


@pytest.mark.parametrize(
    "environment",
    [{}, {"NOTIFY_SOCKET": ""}, {"NOTIFY_SOCKET": "relative"}, {"NOTIFY_SOCKET": "vsock:2:1234"}],
    ids=["unset", "empty", "relative", "another family"],
)
def test_without_a_manager_nothing_happens(clock: Clock, environment: dict[str, str]) -> None:
    """Nothing is told, nothing is logged and no timer runs."""
    service = Service(clock, {**environment, "WATCHDOG_USEC": "2000000"})
    with capturedLogs() as logs:
        service.notify.startService()
        assert clock.getDelayedCalls() == []
        service.notify.stopping()
        service.notify.stopService()
    assert logs == []


def test_a_manager_that_is_gone_is_a_warning(clock: Clock, manager: Manager) -> None:
    """The relay goes on, and the log says what systemd did not hear, and why."""
    manager.leaves()
    service = Service(clock, {"NOTIFY_SOCKET": manager.address})
    with capturedLogs() as logs:
        service.notify.startService()
        service.notify.stopService()
    (text,) = map(formatEvent, logs)
    assert "systemd could not be told" in text
    assert "READY=1" in text
    assert "refused" in text


def test_a_manager_that_does_not_listen_blocks_nobody(clock: Clock, manager: Manager) -> None:
    """When its queue is full, what it should have heard is lost; the relay does not wait."""
    service = Service(clock, {"NOTIFY_SOCKET": manager.address})
    service.notify.startService()
    with capturedLogs() as logs:
        for _ in range(5000):
            service.notify.stopping()
            if logs:
                break
    assert "systemd could not be told" in formatEvent(logs[0])
    service.notify.stopService()
