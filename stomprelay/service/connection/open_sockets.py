"""The sockets of a service that are open, and the wait for their end.

A connection that was closed still has its descriptor until its peer has read what was left for it, or closed, too.
"""

from typing import Final

from twisted.internet.defer import Deferred, TimeoutError, succeed
from twisted.internet.interfaces import IReactorTime

GRACE: Final = 1.0
"""Seconds beyond their linger that a stopping service waits for connections to end."""


class OpenSockets:
    """Counts connections. `sockets` are those that are still open, closed ones that wait for their peer included;
    `closing` are these.
    """

    def __init__(self, reactor: IReactorTime) -> None:
        self.reactor = reactor
        self.sockets = 0
        self.closing = 0
        self._idle: Deferred[None] | None = None

    def socket_opened(self) -> None:
        """Count a connection that was established."""
        self.sockets += 1

    def socket_closed(self) -> None:
        """Count a connection that ended. With the last one `idle` fires."""
        self.sockets -= 1
        if not self.sockets and self._idle is not None:
            idle, self._idle = self._idle, None
            idle.callback(None)

    def socket_closing(self) -> None:
        """Count a connection that was closed and has not ended."""
        self.closing += 1

    def closing_socket_closed(self) -> None:
        """Count such a connection no more: it ended."""
        self.closing -= 1

    def idle(self) -> Deferred[None]:
        """Return a Deferred that fires when no connection is left; at once where there is none."""
        if not self.sockets:
            return succeed(None)
        if self._idle is None:
            self._idle = Deferred()
        return self._idle

    async def wait_closed(self, linger: float) -> bool:
        """Wait until all connections have ended, for the seconds that they may linger and `GRACE` more. Returns False
        where some are left then.
        """
        try:
            await self.idle().addTimeout(linger + GRACE, self.reactor)
        except TimeoutError:
            return False
        return True
