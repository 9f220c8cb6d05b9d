"""Telling systemd that the relay is ready, how it is, that it lives, and that it stops: `sd_notify(3)`."""

import os
import socket
from collections.abc import Callable, Mapping
from typing import Any, Final

from twisted.application.service import Service
from twisted.internet.defer import Deferred
from twisted.internet.task import LoopingCall
from twisted.logger import Logger

_log: Final = Logger("stomprelay")

EVERY: Final = 5.0
"""Seconds between two looks at the status."""


class Notify(Service):
    """Tells the service manager whose socket the environment names; without one, does nothing.

    `status` says how it is, in one line. Let this service start last, when everything listens, and call `stopping`
    before anything stops.
    """

    def __init__(
        self,
        status: Callable[[], str],
        reactor: Any,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        self._status = status
        self._said = ""
        self._address = _address(environment.get("NOTIFY_SOCKET", ""))
        watchdog = _watchdog(environment)
        self._watched = watchdog is not None
        self._every = EVERY if watchdog is None else min(EVERY, watchdog / 2)
        self._loop = LoopingCall(self._look)
        self._loop.clock = reactor
        self._looking: Deferred[LoopingCall] | None = None

    def startService(self) -> None:
        """Everything listens."""
        super().startService()
        if self._address is not None:
            self._said = self._status()
            self._tell("READY=1", f"STATUS={self._said}")
            self._looking = self._loop.start(self._every, now=False)

    def stopping(self) -> None:
        """The relay begins to stop."""
        self._tell("STOPPING=1", "STATUS=stopping")

    def stopService(self) -> None:
        """Nothing more is said."""
        super().stopService()
        if self._loop.running:
            self._loop.stop()

    def _look(self) -> None:
        lines = ["WATCHDOG=1"] if self._watched else []
        status = self._status()
        if status != self._said:
            self._said = status
            lines.append(f"STATUS={status}")
        if lines:
            self._tell(*lines)

    def _tell(self, *lines: str) -> None:
        if self._address is None:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as teller:
                teller.sendto("\n".join(lines).encode("utf-8"), self._address)
        except OSError as error:
            _log.warn("systemd could not be told {lines}: {error}", lines=lines, error=error)


def _address(name: str) -> str | None:
    """A path, or a name in the abstract name space, which begins with @ in the environment."""
    if name.startswith("@"):
        return f"\0{name[1:]}"
    return name if name.startswith("/") else None


def _watchdog(environment: Mapping[str, str]) -> float | None:
    """Seconds within which systemd wants a sign of life, when it wants one from this process."""
    period, process = environment.get("WATCHDOG_USEC", ""), environment.get("WATCHDOG_PID", "")
    if not period.isdigit() or int(period) == 0 or (process and process != str(os.getpid())):
        return None
    return int(period) / 1_000_000
