"""The process: signals, what systemd is told, and memory."""

import ctypes
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock
from unittest.mock import call as called

import pytest
from twisted.internet import reactor
from twisted.internet.interfaces import IReactorFromThreads
from twisted.internet.task import Clock
from zope.interface import directlyProvides

from stomprelay.service.process import EVERY, KEPT, LARGE, Notify, Signals, keep_freed_memory, start
from tests.service.harness import ThreadedReactor


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    """Whatever a test does, the process is left as it was."""
    numbers = (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
    before = {number: signal.getsignal(number) for number in numbers}
    yield
    for number, action in before.items():
        signal.signal(number, action)


class Actions(dict[str, Callable[[], None]]):
    """An order for each signal, and what was ordered."""

    def __init__(self) -> None:
        self.given: list[str] = []
        super().__init__(
            {"SIGUSR1": lambda: self.given.append("one"), "SIGUSR2": lambda: self.given.append("two")}
        )


def test_who_came_later_is_left_in_peace() -> None:
    """Its handler is not ours to take away; what it calls of ours does nothing any more."""
    actions = Actions()
    one, two = Signals(reactor, actions), Signals(reactor, actions)
    one.startService()
    two.startService()
    latest = signal.getsignal(signal.SIGUSR1)
    one.stopService()
    assert signal.getsignal(signal.SIGUSR1) is latest
    two.stopService()
    os.kill(os.getpid(), signal.SIGUSR1)
    assert actions.given == []


def test_an_order_that_comes_as_the_service_stops() -> None:
    """Too late."""
    actions, late = Actions(), ThreadedReactor()
    directlyProvides(late, IReactorFromThreads)
    signals = Signals(late, actions)
    signals.startService()
    os.kill(os.getpid(), signal.SIGUSR1)
    signals.stopService()
    late.turn()
    assert actions.given == []


def test_another_thread_than_the_main_one() -> None:
    """Python has signals for the main thread only; the service runs without."""
    before = signal.getsignal(signal.SIGUSR1)
    signals = Signals(reactor, Actions())
    thread = threading.Thread(target=signals.startService)
    thread.start()
    thread.join()
    assert signal.getsignal(signal.SIGUSR1) is before
    signals.stopService()


def test_a_system_without_the_signal() -> None:
    """Windows, for one."""
    signals = Signals(reactor, {"SIGNONE": lambda: None})
    signals.startService()
    signals.stopService()


def test_a_spare_signal() -> None:
    """One that a function heeds keeps it; another one gets ours, also where `nohup` has it ignored."""

    def earlier(_number: int, _frame: object) -> None:
        """A log file begins anew."""

    signal.signal(signal.SIGUSR1, earlier)
    signal.signal(signal.SIGUSR2, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signals = Signals(reactor, {**Actions(), "SIGHUP": lambda: None}, spare=True)
    signals.startService()
    assert signal.getsignal(signal.SIGUSR1) is earlier
    assert callable(signal.getsignal(signal.SIGUSR2))
    assert callable(signal.getsignal(signal.SIGHUP))
    signals.stopService()
    assert signal.getsignal(signal.SIGUSR2) is signal.SIG_IGN
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_DFL


def test_a_service_is_started_and_stops_before_the_reactor() -> None:
    """In the order of `twistd`: ports first, while there may be privileges."""
    seen = Mock()
    start(seen.service, seen.reactor)
    assert seen.mock_calls == [
        called.service.privilegedStartService(),
        called.service.startService(),
        called.reactor.addSystemEventTrigger("before", "shutdown", seen.service.stopService),
    ]


# systemd


class Manager:
    """The service manager's end. `address`: as the environment names it."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self._socket.bind(f"\0{address[1:]}" if address.startswith("@") else address)

    def received(self) -> list[str]:
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

    def __init__(self, clock: Clock, manager: Manager, **environment: str) -> None:
        self.status = "0 sessions"
        self.notify = Notify(lambda: self.status, clock, {"NOTIFY_SOCKET": manager.address, **environment})


@pytest.fixture
def service(clock: Clock, manager: Manager) -> Service:
    """One without a watchdog."""
    return Service(clock, manager)


def test_readiness_and_end_are_told(clock: Clock, manager: Manager, service: Service) -> None:
    """Ready once everything listens, stopping when it begins to; then nothing, and no timer is left."""
    assert manager.received() == []
    service.notify.startService()
    assert manager.received() == ["READY=1\nSTATUS=0 sessions"]
    service.notify.stopping(32.5)
    assert manager.received() == ["STOPPING=1\nSTATUS=stopping\nEXTEND_TIMEOUT_USEC=32500000"]
    service.notify.stopService()
    assert clock.getDelayedCalls() == []
    clock.advance(100)
    assert manager.received() == []


def test_a_reload_is_told(manager: Manager, service: Service) -> None:
    """When it begins, by the clock of systemd, and when it is over; not before it is ready, nor at its end."""
    service.notify.reloading(True)
    service.notify.reloading(False)
    service.notify.startService()
    assert manager.received() == ["READY=1\nSTATUS=0 sessions"]
    before = time.monotonic_ns() // 1000
    service.notify.reloading(True)
    (told,) = manager.received()
    assert before <= int(told.removeprefix("RELOADING=1\nMONOTONIC_USEC=")) <= time.monotonic_ns() // 1000
    service.notify.reloading(False)
    assert manager.received() == ["READY=1"]
    service.notify.stopService()
    service.notify.reloading(False)
    assert manager.received() == []


def test_the_status_is_told_when_it_changed(clock: Clock, manager: Manager, service: Service) -> None:
    """It is looked at now and then, and the manager is not bothered with what it knows."""
    service.notify.startService()
    manager.received()
    clock.advance(EVERY)
    assert manager.received() == []
    service.status = "7 sessions, ünïcode"
    assert manager.received() == []
    clock.advance(EVERY)
    assert manager.received() == ["STATUS=7 sessions, ünïcode"]
    clock.advance(EVERY)
    assert manager.received() == []
    service.notify.stopService()


def test_the_watchdog_hears_twice_in_each_period(clock: Clock, manager: Manager) -> None:
    """Where the watchdog names this process."""
    service = Service(clock, manager, WATCHDOG_USEC="4000000", WATCHDOG_PID=str(os.getpid()))
    service.notify.startService()
    manager.received()
    clock.pump([1.0] * 8)
    assert manager.received() == ["WATCHDOG=1"] * 4
    service.notify.stopService()


def test_a_manager_that_is_gone_is_a_warning(manager: Manager, service: Service, log: list[str]) -> None:
    """The relay goes on, and the log says what systemd did not hear, and why."""
    manager.leaves()
    service.notify.startService()
    service.notify.stopService()
    (text,) = log
    assert "systemd could not be notified of" in text
    assert "READY=1" in text
    assert "refused" in text


def test_a_manager_that_does_not_listen_blocks_nobody(service: Service, log: list[str]) -> None:
    """When its queue is full, what it should have heard is lost; the relay does not wait."""
    service.notify.startService()
    for _ in range(5000):
        service.notify.stopping()
        if log:
            break
    assert "systemd could not be notified of" in log[0]
    service.notify.stopService()


# Memory


def test_both_thresholds_are_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """The numbers are those of glibc's malloc.h."""
    library = Mock()
    library.mallopt.return_value = 1
    monkeypatch.setattr(ctypes, "CDLL", lambda name: library)
    assert keep_freed_memory()
    assert sorted(library.mallopt.call_args_list) == [called(-3, LARGE), called(-1, KEPT)]


@pytest.mark.parametrize("error", [AttributeError, OSError])
def test_other_c_libraries_are_left_alone(monkeypatch: pytest.MonkeyPatch, error: type[Exception]) -> None:
    """Nothing depends on it but speed."""

    def load(name: Any) -> Any:
        raise error

    monkeypatch.setattr(ctypes, "CDLL", load)
    assert not keep_freed_memory()
