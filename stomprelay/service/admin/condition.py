"""Answers questions about the relay of this process, and describes its state in a few words, for `/healthz`, `/drain`
and `/readyz`. Only counters are used, because these requests may be frequent. A relay is ready if the relay neither
stops nor drains, if its journal can be written, and if each listener's own upstream has a broker that is up. If no
broker is known to be up, a request makes `PeriodicChecks` probe the brokers soon.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from twisted.internet.defer import Deferred, DeferredLock, fail, succeed

from stomprelay.journal.tail import TailAnswer, TailRequest
from stomprelay.service.admin.sessions import SessionList, SessionQuery, Unavailable, list_sessions
from stomprelay.service.admin.snapshot import Snapshot, snapshot
from stomprelay.service.brokers import UP
from stomprelay.service.journal.tails import TooMany
from stomprelay.service.state import RelayState

DRAINING: Final = "draining: the relay stops"
DRAINED: Final = "draining: new clients are refused"
AWAY: Final = "no worker serves"
LISTINGS: Final = 32
"""The largest number of requests for sessions that wait for their turn."""


class Condition(NamedTuple):
    """The state of a relay. `journal`: what is wrong with its journal, "" for nothing. `stuck`: sessions wait for the
    journal. `serving`: how many of its `workers` serve; a relay of one process has no workers.
    """

    sessions: int
    stopping: bool = False
    draining: bool = False
    journal: str = ""
    stuck: bool = False
    workers: int = 0
    serving: int = 0


def summed(own: Condition, others: Iterable[Condition], workers: int, serving: int) -> Condition:
    """Return the state of a relay of several processes; `own` is the parent's state, without sessions and journal."""
    each = list(others)
    worst = max(each, key=lambda one: (one.stuck, bool(one.journal)), default=own)
    return own._replace(
        sessions=sum(one.sessions for one in each),
        journal=worst.journal,
        stuck=worst.stuck,
        workers=workers,
        serving=serving,
    )


class OwnRelay:
    """The relay of this process."""

    def __init__(self, state: RelayState) -> None:
        self.state = state
        self.reloads = state.reloads
        self.pause = state.pauses.pause
        self.resume = state.pauses.resume
        self.drain = state.sessions.drain
        self.kill = state.sessions.kill
        self.moves = state.moves.rows
        self.move = state.moves.order
        self._listing = DeferredLock()

    def snapshot(self, *, whole: bool) -> Snapshot:
        """Return the present figures of this process; see `snapshot.snapshot`."""
        return snapshot(self.state, whole=whole)

    def condition(self) -> Condition:
        """Return the relay's state."""
        sessions, journal = self.state.sessions, self.state.journal
        ill = journal is not None and (journal.written.trouble or journal.stuck)
        return Condition(
            len(sessions),
            sessions.stopping,
            sessions.draining,
            journal.state if journal is not None and ill else "",
            journal is not None and journal.stuck,
        )

    def obstacles(self) -> list[str]:
        """Return the reasons why the relay is not ready for clients; empty if it is ready. If no broker of an upstream
        is up, mark its brokers for a probe.
        """
        state = self.state
        if state.sessions.stopping:
            return [DRAINING]
        if state.sessions.draining:
            return [DRAINED]
        found, now = [], state.runtime.seconds()
        for each in state.sessions.listeners.values():
            name, upstream = each.listener.name, each.listener.upstream
            brokers = [broker for broker in state.brokers if broker.upstream is upstream]
            if any(broker.state(now) == UP for broker in brokers):
                continue
            found.append(f"listener {name}: no broker of upstream {upstream.name} is up")
            for health in (broker.broker.health for broker in brokers):
                health.doubt(health.sight())
        if state.runtime.memory.full:
            found.append("memory: as much is kept of clients as may be")
        if state.journal is not None and state.journal.written.trouble:
            found.append(f"the journal {state.journal.state}")
        return found

    def sessions(self, query: SessionQuery) -> Deferred[SessionList]:
        """Return the sessions that match a query, after earlier queries. Fails with `Unavailable` if too many wait."""
        if len(self._listing.waiting) >= LISTINGS:
            return fail(Unavailable("too many ask for sessions at a time"))
        return self._listing.run(lambda: Deferred.fromCoroutine(list_sessions(self.state, query)))

    def tail(self, request: TailRequest) -> Deferred[TailAnswer]:
        """Return the frames since the same request was made last. Fails with `Unavailable` for too many watches."""
        try:
            return succeed(self.state.tails.ask(request))
        except TooMany as error:
            return fail(Unavailable(str(error)))
