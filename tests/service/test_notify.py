"""What systemd is told."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from twisted.internet.task import Clock

from stomprelay.service.process import EVERY, Notify


class Manager:
    """A service manager's socket."""

    def __init__(self, address: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(address)
        self.socket.setblocking(False)

    def heard(self) -> list[list[str]]:
        """The messages that came, each as its lines."""
        messages = []
        while True:
            try:
                messages.append(self.socket.recv(4096).decode().split("\n"))
            except BlockingIOError:
                return messages


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Manager]:
    """It listens at a path."""
    manager = Manager(str(tmp_path / "notify"))
    yield manager
    manager.socket.close()


def notify(manager: Manager, clock: Clock, status: list[str] | None = None, **environment: str) -> Notify:
    """The service, told where the manager listens."""
    says = status or ["fine"]
    address = manager.socket.getsockname()
    if isinstance(address, bytes):
        address = "@" + address[1:].decode()
    return Notify(lambda: says[0], clock, {"NOTIFY_SOCKET": address, **environment})


def test_ready_then_stopping(manager: Manager) -> None:
    """Ready when everything listens, with the first status; stopping before anything stops."""
    clock = Clock()
    service = notify(manager, clock)
    assert manager.heard() == []
    service.startService()
    assert manager.heard() == [["READY=1", "STATUS=fine"]]
    service.stopping()
    assert manager.heard() == [["STOPPING=1", "STATUS=stopping"]]
    service.stopService()
    assert clock.getDelayedCalls() == []


def test_the_status_is_kept_up_to_date(manager: Manager) -> None:
    """When it changes, and only then."""
    clock, status = Clock(), ["0 sessions"]
    notify(manager, clock, status).startService()
    manager.heard()
    clock.advance(EVERY)
    assert manager.heard() == []
    status[0] = "1 session"
    clock.advance(EVERY)
    assert manager.heard() == [["STATUS=1 session"]]
    clock.advance(EVERY)
    assert manager.heard() == []


def test_the_watchdog(manager: Manager) -> None:
    """A sign of life twice in each period."""
    clock = Clock()
    service = notify(manager, clock, WATCHDOG_USEC="4000000", WATCHDOG_PID=str(os.getpid()))
    service.startService()
    manager.heard()
    clock.pump([1.0] * 8)
    assert manager.heard() == [["WATCHDOG=1"]] * 4


@pytest.mark.parametrize("settings", [("0", ""), ("x", ""), ("4000000", "1")])
def test_no_watchdog(manager: Manager, settings: tuple[str, str]) -> None:
    """None is wanted, or from another process."""
    clock = Clock()
    notify(manager, clock, WATCHDOG_USEC=settings[0], WATCHDOG_PID=settings[1]).startService()
    manager.heard()
    clock.pump([1.0] * 20)
    assert manager.heard() == []


def test_an_abstract_address() -> None:
    """Written with an @ in front."""
    manager = Manager(f"\0stomprelay-test-{os.getpid()}")
    notify(manager, Clock()).startService()
    assert manager.heard() == [["READY=1", "STATUS=fine"]]
    manager.socket.close()


@pytest.mark.parametrize("environment", [{}, {"NOTIFY_SOCKET": ""}, {"NOTIFY_SOCKET": "vsock:2:1"}])
def test_without_a_manager(environment: dict[str, str]) -> None:
    """Nothing is said, nothing is timed."""
    clock = Clock()
    service = Notify(lambda: "fine", clock, environment)
    service.startService()
    service.stopping()
    assert clock.getDelayedCalls() == []
    service.stopService()


def test_a_manager_that_is_gone(tmp_path: Path) -> None:
    """Is no reason to stop."""
    service = Notify(lambda: "fine", Clock(), {"NOTIFY_SOCKET": str(tmp_path / "nobody")})
    service.startService()
    service.stopping()
    service.stopService()
