"""Pausing and resuming by signal: SIGUSR1 pauses every broker, SIGUSR2 resumes them all.

So a relay without an admin endpoint can be told, too: `kill -USR1` before the brokers are upgraded, `kill -USR2`
when they are there again. In between clients are held; new ones are accepted and wait.
"""

import signal
from collections.abc import Callable, Mapping
from typing import Any, Final

from twisted.application.service import Service
from twisted.internet.interfaces import IReactorFromThreads

PAUSE: Final = "SIGUSR1"
RESUME: Final = "SIGUSR2"


class Signals(Service):
    """While it runs, the process listens to these signals; then what was before holds again.

    `orders` are what is done on each signal, in the reactor's next turn. Where there is no such signal (Windows), no
    main thread, or a reactor that cannot be woken from outside, nothing is installed.
    """

    def __init__(self, reactor: Any, orders: Mapping[str, Callable[[], None]]) -> None:
        self._reactor = reactor
        self._orders = orders
        self._before: dict[int, tuple[Any, Any]] = {}

    def startService(self) -> None:
        """Listen to them."""
        super().startService()
        if not IReactorFromThreads.providedBy(self._reactor):
            return
        for name, order in self._orders.items():
            number = getattr(signal, name, None)
            if number is None:
                continue
            listener = self._listener(order)
            try:
                self._before[number] = (listener, signal.signal(number, listener))
            except ValueError:  # not the main thread
                return

    def _listener(self, order: Callable[[], None]) -> Callable[[int, object], None]:
        def heard(_number: int, _frame: object) -> None:
            if self.running:
                # A handler runs between any two instructions, and the reactor may sleep.
                self._reactor.callFromThread(self._obey, order)

        return heard

    def _obey(self, order: Callable[[], None]) -> None:
        if self.running:
            order()

    def stopService(self) -> None:
        """Listen no more. Whoever came after us and listens still is left in peace."""
        super().stopService()
        for number, (listener, before) in self._before.items():
            if signal.getsignal(number) is listener:
                signal.signal(number, signal.SIG_DFL if before is None else before)
        self._before.clear()
