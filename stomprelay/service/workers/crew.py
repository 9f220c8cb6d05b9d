"""All workers as one relay: sums of their figures, and commands to all of them."""

import json
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

from twisted.internet.defer import Deferred, DeferredList, succeed
from twisted.python.failure import Failure

from stomprelay.journal.tail import TailAnswer, TailRequest
from stomprelay.relay.model.move import MoveRow, Phase
from stomprelay.service.admin.condition import AWAY, DRAINED, DRAINING, Condition, OwnRelay
from stomprelay.service.admin.condition import summed as summed_condition
from stomprelay.service.admin.sessions import SessionList, SessionQuery, Unavailable, merged
from stomprelay.service.admin.snapshot import SERVES, Snapshot, ended, read, snapshot, summed
from stomprelay.service.brokers import ConfiguredBroker
from stomprelay.service.connection.relay_driver import SessionInfo
from stomprelay.service.log import logger
from stomprelay.service.moves import summed as summed_moves
from stomprelay.service.process import Reloads
from stomprelay.service.state import RelayState
from stomprelay.service.workers.worker import Worker

T = TypeVar("T")

_log: Final = logger()


class Crew:
    """The workers of a relay. `state` is the parent's state: its listeners, its brokers, which of them are paused, the
    phases of moves, and whether new clients are refused. It has no sessions. The counts of ended workers stay in the
    sums.
    """

    def __init__(self, state: RelayState, reloads: Reloads | None = None) -> None:
        self.workers: list[Worker] = []
        self.state = state
        self.reloads = reloads
        self._gone: list[Snapshot] = []
        self._last: dict[Worker, Snapshot] = {}

    @property
    def paused(self) -> list[str]:
        """Return the addresses of the brokers that are out of service, each once."""
        return list(
            dict.fromkeys(each.broker.uri for each in self.state.brokers if each.broker.health.paused)
        )

    @property
    def _phases(self) -> list[tuple[str, str, str, float, str]]:
        """Return the orders by which a worker has each move in its phase, and stopped or not."""
        return [("move", each.name, each.phase, each.since, each.stopped) for each in self.state.moves.rows()]

    @property
    def serving(self) -> int:
        """Return how many workers serve."""
        return sum(each.row().state == SERVES for each in self.workers)

    def changed(self, worker: Worker) -> None:
        """Record that a worker serves, or that it has ended."""
        if not worker.serves:
            if (last := self._last.pop(worker, None)) is not None:
                self._gone = [summed(ended(last), self._gone)]
            return
        if worker.plan is None:
            return
        known, now = set(worker.plan.paused), set(self.paused)
        for uri in sorted(now - known):
            _ = _heeded(worker, worker.ask("pause", uri))
        for uri in sorted(known - now):
            _ = _heeded(worker, worker.ask("resume", uri))
        for order in self._phases:
            _ = _heeded(worker, worker.ask(*order))
        draining = self.state.sessions.draining
        if worker.plan.draining != draining:
            _ = _heeded(worker, worker.ask("drain", draining))

    def reloaded(self) -> None:
        """Forget the counts of listeners that were removed."""
        kept = self.state.sessions.listeners
        self._gone = [
            each._replace(listeners=tuple(row for row in each.listeners if row.name in kept))
            for each in self._gone
        ]

    # What is shown and asked for

    def snapshot(self, *, whole: bool) -> Deferred[Snapshot]:
        """Return the sum of all workers. A worker that does not answer counts with its last snapshot."""

        def added(_: object) -> Snapshot:
            total = summed(snapshot(self.state, whole=False), [*self._gone, *self._last.values()])
            return total._replace(workers=tuple(each.row(self._last.get(each)) for each in self.workers))

        def ask(worker: Worker) -> Deferred[Any]:
            def keep(values: Any) -> None:
                self._last[worker] = read(values)

            return _heeded(worker, worker.ask("snapshot", whole).addCallback(keep))

        asked = [ask(each) for each in self.workers if each.serves and not each.hung]
        return DeferredList(asked).addCallback(added)

    def condition(self) -> Deferred[Condition]:
        """Return the relay's state. A worker that does not answer counts with its last number of sessions."""

        def added(answers: list[Any], silent: list[str]) -> Condition:
            last = [each.clients for worker, each in self._last.items() if worker.name in silent]
            found = [*(Condition(*each) for each in answers), *map(Condition, last)]
            return summed_condition(OwnRelay(self.state).condition(), found, len(self.workers), self.serving)

        return self._ask_all(added, "condition")

    def obstacles(self) -> Deferred[list[str]]:
        """Return why the relay is not ready: the reasons of all accepting workers, or that no worker accepts."""
        if self.state.sessions.stopping:
            return succeed([DRAINING])
        if self.state.sessions.draining:
            return succeed([DRAINED])

        def added(answers: list[Any], silent: list[str]) -> list[str]:
            accepting = [found for found in answers if found != [DRAINING]]
            accepting += [[f"{name} does not answer"] for name in silent]
            return sorted({each for found in accepting for each in found}) if accepting else [AWAY]

        return self._ask_all(added, "obstacles")

    def sessions(self, query: SessionQuery) -> Deferred[SessionList]:
        """Return the sessions of all workers that match a query. Workers that do not answer are `missing`."""

        def added(answers: list[Any], silent: list[str]) -> SessionList:
            found = (
                SessionList(tuple(SessionInfo(*each) for each in first), *rest) for first, *rest in answers
            )
            return merged(query, found, silent)

        return self._ask_all(added, "sessions", query)

    def kill(self, name: str) -> Deferred[bool]:
        """End the session of this name. Return whether a worker has it. `Unavailable`: a silent worker may have it."""

        def found(answers: list[Any], silent: list[str]) -> bool:
            if silent and not any(answers):
                raise Unavailable(
                    f"{' and '.join(silent)} does not answer, and no other worker has the session"
                )
            return any(answers)

        return self._ask_all(found, "kill", name)

    def tail(self, request: TailRequest) -> Deferred[TailAnswer]:
        """Return all frames since the same request was made last. Fails with `Unavailable` for too many watches."""

        def added(answers: list[Any], silent: list[str]) -> TailAnswer:
            total = TailAnswer(missing=tuple(silent))
            for answer in answers:
                if isinstance(answer, str):
                    raise Unavailable(answer)
                total = total.plus(TailAnswer.parse(answer))
            return total

        return self._ask_all(added, "tail", request._asdict())

    def _ask_all(self, added: Callable[[list[Any], list[str]], T], name: str, *values: Any) -> Deferred[T]:
        """Ask all workers that serve and are not hung. Then call `added` with the answers and with the names of all
        serving workers that did not answer. The Deferred fires with the result of `added`.
        """
        answers: list[Any] = []
        silent: list[str] = []

        def told(worker: Worker) -> Deferred[Any]:
            answer = worker.ask(name, *values).addCallback(answers.append)
            return _heeded(worker, answer, lambda: silent.append(worker.name))

        serving = [worker for worker in self.workers if worker.serves]
        silent += [worker.name for worker in serving if worker.hung]
        asked = [told(worker) for worker in serving if not worker.hung]
        return DeferredList(asked).addCallback(lambda _: added(answers, silent))

    def drain(self, draining: bool) -> Deferred[None]:
        """Make all workers refuse new clients, or accept them again."""
        self.state.sessions.drain(draining)
        return self._tell(("drain", draining))

    def moves(self) -> Deferred[tuple[MoveRow, ...]]:
        """Return the moves with the sessions of all workers. Fails with `Unavailable` if a worker does not answer."""

        def added(answers: list[Any], silent: list[str]) -> tuple[MoveRow, ...]:
            if silent:
                raise Unavailable(f"{' and '.join(silent)} does not answer")
            others = (MoveRow(*values) for answer in answers for values in answer)
            return summed_moves(self.state.moves.rows(), others)

        return self._ask_all(added, "moves")

    def move(self, name: str, phase: Phase) -> Deferred[None]:
        """Begin a phase of a move, in all workers. Raises `NotNow`."""
        self.state.moves.order(name, phase)
        return self._tell(*self._phases)

    def stopped(self, said: str) -> None:
        """Stop a move in all workers: it goes wrong in one of them, which said so in its notice."""
        self.state.moves.stop(*json.loads(said))
        _ = self._tell(*self._phases)

    def met(self, said: str) -> None:
        """Record a durable subscriber that a move met in a worker, which said so in its notice."""
        self.state.moves.met(*json.loads(said))

    def pause(self, found: tuple[ConfiguredBroker, ...], within: float | None = None) -> Deferred[None]:
        """Make all workers take these brokers out of service."""
        for each in found:
            each.broker.health.pause()
        return self._tell(*(("pause", uri, within) for uri in _uris(found)))

    def resume(self, found: tuple[ConfiguredBroker, ...]) -> Deferred[None]:
        """Make all workers take these brokers into service again."""
        for each in found:
            each.broker.health.resume()
        return self._tell(*(("resume", uri) for uri in _uris(found)))

    def _tell(self, *orders: tuple[Any, ...]) -> Deferred[None]:
        told = [_heeded(each, each.ask(*order)) for each in self.workers if each.serves for order in orders]
        return DeferredList(told).addCallback(lambda _: None)


def _uris(found: tuple[ConfiguredBroker, ...]) -> Iterable[str]:
    return dict.fromkeys(each.broker.uri for each in found)


def _heeded(
    worker: Worker, answer: Deferred[Any], otherwise: Callable[[], None] = lambda: None
) -> Deferred[Any]:
    """Return a Deferred that never fails. If the worker does not answer, this is logged, and `otherwise` is called."""

    def failed(failure: Failure) -> None:
        otherwise()
        _log.warn("{worker} does not answer: {why}", worker=worker.name, why=failure.getErrorMessage())

    return answer.addErrback(failed)
