"""Orders by signal."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import pytest_twisted
from twisted.internet import reactor
from twisted.internet.testing import MemoryReactorClock

from stomprelay.service.process import PAUSE, RESUME, Signals
from tests.service.talker import until


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    """Whatever a test does, the process is left as it was."""
    before = {number: signal.getsignal(number) for number in (signal.SIGUSR1, signal.SIGUSR2)}
    yield
    for number, action in before.items():
        signal.signal(number, action)


class Orders(dict[str, Callable[[], None]]):
    """An order for each signal, and what was ordered."""

    def __init__(self) -> None:
        self.given: list[str] = []
        super().__init__(
            {PAUSE: lambda: self.given.append("pause"), RESUME: lambda: self.given.append("resume")}
        )


@pytest_twisted.ensureDeferred
async def test_a_signal_is_an_order() -> None:
    """Carried out by the reactor, even where it sleeps."""
    orders = Orders()
    signals = Signals(reactor, orders)
    signals.startService()
    os.kill(os.getpid(), signal.SIGUSR1)
    await until(lambda: orders.given == ["pause"])
    os.kill(os.getpid(), signal.SIGUSR2)
    await until(lambda: orders.given == ["pause", "resume"])
    signals.stopService()


def test_what_was_before_holds_again_afterwards() -> None:
    """For both signals."""

    def earlier(_number: int, _frame: object) -> None:
        """Another program part's handler."""

    signal.signal(signal.SIGUSR1, earlier)
    signal.signal(signal.SIGUSR2, signal.SIG_IGN)
    signals = Signals(reactor, Orders())
    signals.startService()
    assert signal.getsignal(signal.SIGUSR1) not in {earlier, signal.SIG_DFL}
    signals.stopService()
    assert signal.getsignal(signal.SIGUSR1) is earlier
    assert signal.getsignal(signal.SIGUSR2) is signal.SIG_IGN


def test_who_came_later_is_left_in_peace() -> None:
    """Its handler is not ours to take away; what it calls of ours does nothing any more."""
    orders = Orders()
    one, two = Signals(reactor, orders), Signals(reactor, orders)
    one.startService()
    two.startService()
    latest = signal.getsignal(signal.SIGUSR1)
    one.stopService()
    assert signal.getsignal(signal.SIGUSR1) is latest
    two.stopService()
    os.kill(os.getpid(), signal.SIGUSR1)
    assert orders.given == []


def test_an_order_that_comes_as_the_service_stops() -> None:
    """Too late."""
    orders = Orders()
    kept: list[tuple[Any, ...]] = []

    class Waking(MemoryReactorClock):
        def callFromThread(self, *call: Any) -> None:
            kept.append(call)

    from twisted.internet.interfaces import IReactorFromThreads
    from zope.interface import directlyProvides

    late = Waking()
    directlyProvides(late, IReactorFromThreads)
    signals = Signals(late, orders)
    signals.startService()
    os.kill(os.getpid(), signal.SIGUSR1)
    signals.stopService()
    ((call, *rest),) = kept
    call(*rest)
    assert orders.given == []


def test_a_reactor_in_memory_gets_no_signals() -> None:
    """Nothing could wake it, and no test shall change the process unasked."""
    before = signal.getsignal(signal.SIGUSR1)
    signals = Signals(MemoryReactorClock(), Orders())
    signals.startService()
    assert signal.getsignal(signal.SIGUSR1) is before
    signals.stopService()


def test_another_thread_than_the_main_one() -> None:
    """Python has signals for the main thread only; the service runs without."""
    before = signal.getsignal(signal.SIGUSR1)
    signals = Signals(reactor, Orders())
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
