"""Waking a thread that waits in a selector, and giving it something to do."""

import socket
import threading
from collections import deque
from collections.abc import Callable


class Bell:
    """Register `wire` with the selector for reading; when it is ready say `answer`, then `work`. All else may be
    called in any thread.
    """

    def __init__(self) -> None:
        self.wire, self._button = socket.socketpair()
        self.wire.setblocking(False)
        self._button.setblocking(False)
        self._lock = threading.Lock()
        self._rung = False
        self._closed = False
        self._work: deque[Callable[[], None]] = deque()

    def ring(self) -> None:
        """Wake the thread; a bell that was rung already, or is closed, stays as it is."""
        with self._lock:
            if not self._rung and not self._closed:
                self._rung = True
                self._button.send(b"\0")

    def soon(self, what: Callable[[], None]) -> None:
        """Have this called in the thread; in this one, once the bell is closed."""
        with self._lock:
            closed = self._closed
            if not closed:
                self._work.append(what)
        if closed:
            what()
        else:
            self.ring()

    @property
    def waiting(self) -> bool:
        """Whether there is work."""
        return bool(self._work)

    def answer(self) -> None:
        """The thread is awake."""
        with self._lock:
            self._rung = False
            self.wire.recv(64)

    def work(self) -> None:
        """Do what was asked for."""
        while self._work:
            self._work.popleft()()

    def close(self) -> None:
        """The thread ends, and does what is left."""
        with self._lock:
            self._closed = True
            self.wire.close()
            self._button.close()
        self.work()
