"""The end of a relay's sessions: some time to deliver what their clients sent, and no loss in silence."""

from typing import Final

from twisted.internet.defer import CancelledError, Deferred, TimeoutError

from stomprelay.service.connection.runtime import Runtime
from stomprelay.service.log import counted, logger
from stomprelay.service.state import Sessions

_log: Final = logger()


class Drain:
    """Ends all sessions: those with nothing to deliver at once, others when they have delivered it, all within `within`
    seconds or at `hurry`. What may be lost is logged. No new sessions may begin meanwhile.
    """

    def __init__(self, sessions: Sessions, runtime: Runtime, within: float) -> None:
        self._sessions = sessions
        self._runtime = runtime
        self._within = within
        self._over: Deferred[None] | None = None

    def hurry(self) -> None:
        """End the sessions that are left now."""
        if self._over is not None:
            self._over.cancel()

    async def run(self) -> None:
        """End all sessions. Their connections may take longer to close."""
        sessions, runtime = self._sessions, self._runtime
        begun = runtime.seconds()
        if self._within:
            sessions.begin_stop()
        if self._within and len(sessions):
            await self._wait(begun)
        left, before = len(sessions), sessions.possibly_lost()
        sessions.stop()
        if not left:
            return
        text = "{sessions} ended with the relay after {seconds:.1f} s, SENDs that may be lost: {lost}"
        lost = sessions.possibly_lost() - before
        emit = _log.warn if lost else _log.info
        emit(text, sessions=counted(left, "session"), seconds=runtime.seconds() - begun, lost=lost)

    async def _wait(self, begun: float) -> None:
        _log.info(
            "stopping: {sessions} with something left to deliver, within {within:g} s",
            sessions=counted(len(self._sessions), "session"),
            within=self._within,
        )
        self._over = self._sessions.over()
        try:
            await self._over.addTimeout(self._within, self._runtime.reactor)
        except (TimeoutError, CancelledError):
            return
        finally:
            self._over = None
        _log.info("stopping: all is delivered after {seconds:.1f} s", seconds=self._runtime.seconds() - begun)
