"""The parent's end of workers, without any process: starts, restarts, what they tell, what they are asked and told."""

import json
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from twisted.internet.defer import Deferred, fail, maybeDeferred, succeed
from twisted.internet.error import ProcessDone, ProcessExitedAlready, ProcessTerminated
from twisted.internet.task import Clock
from twisted.internet.testing import MemoryReactorClock
from twisted.logger import Logger, LogLevel, capturedLogs, formatEvent
from twisted.python.failure import Failure

from stomprelay.config import Config
from stomprelay.config.change import ConfigSource
from stomprelay.journal.records import Record, records_of
from stomprelay.journal.segment import parse as parse_segment
from stomprelay.journal.tail import TailAnswer, TailRequest
from stomprelay.relay.model.move import Phase
from stomprelay.service.admin.condition import DRAINED, DRAINING, Condition, OwnRelay, summed
from stomprelay.service.admin.sessions import SessionQuery, Unavailable
from stomprelay.service.admin.snapshot import SERVES, Snapshot
from stomprelay.service.journal.tails import MOST
from stomprelay.service.log import fields
from stomprelay.service.network.endpoints import CannotStart
from stomprelay.service.network.passing import Passage
from stomprelay.service.relay import MARGIN
from stomprelay.service.state import RelayState
from stomprelay.service.workers import worker as module
from stomprelay.service.workers.child import WorkerPlan, answer, line
from stomprelay.service.workers.crew import Crew
from stomprelay.service.workers.service import GRACE, WorkersService, _reload
from stomprelay.service.workers.worker import FIRST, HUNG, LONGEST, STEADY, WITHIN, Child, Worker
from tests.service.harness import RelayHarness, failover, listener, movable, result
from tests.service.test_moves import moving

SOURCE = ConfigSource("relay.toml", "workers = 2", {"listen": [], "upstream": "tcp://a:1"}, "/somewhere")


class Process:
    """A process as its parent has it: what it was told, and what was done to it. `own` is its standard input."""

    def __init__(self, pid: int, own: socket.socket) -> None:
        self.pid = pid
        self.own = own
        self.signals: list[str] = []
        self.numbers: list[int] = []
        self.stopped = False
        self.gone = False

    @property
    def done(self) -> list[str]:
        """That it is told to end, whatever came before, and signals."""
        self.own.setblocking(False)
        passage = Passage(self.own)
        with suppress(BlockingIOError, EOFError):
            while True:
                for each in passage.receive():
                    each.close()
                    self.stopped |= "stop" in each.said
        return [*(["end"] if self.stopped else []), *self.signals]

    def hears(self) -> tuple[WorkerPlan, dict[str, int]]:
        """The next plan that it was told, and the inodes of its sockets."""
        (passed,) = Passage(self.own).receive()
        sockets = {name: os.fstat(each.fileno()).st_ino for name, each in passed.sockets.items()}
        passed.close()
        self.numbers.append(passed.said["number"])
        return WorkerPlan.parse(passed), sockets

    def says(self, answer: str) -> None:
        """It answers the first plan that it has not answered."""
        passage = Passage(self.own)
        passage.put({"number": self.numbers.pop(0), "answer": answer})
        passage.flush()

    def notices(self, *lines: str) -> None:
        """It sends a notice."""
        passage = Passage(self.own)
        passage.put({"notice": lines})
        passage.flush()

    def signalProcess(self, name: str) -> None:
        if self.gone:
            raise ProcessExitedAlready
        self.signals.append(name)


class ProcessReactor(Clock):
    """Starts no process."""

    def __init__(self) -> None:
        super().__init__()
        self.processes: list[Process] = []
        self.children: list[Child] = []
        self.environments: list[dict[str, str]] = []
        self.passages: list[Any] = []

    def addReader(self, reader: Any) -> None:
        self.passages.append(reader)

    def removeReader(self, reader: Any) -> None:
        """It is closed."""

    def addWriter(self, writer: Any) -> None:
        writer.doWrite()

    def removeWriter(self, writer: Any) -> None:
        """It is closed, or has nothing to write."""

    def callWhenRunning(self, call: Callable[[], object]) -> None:
        call()

    def spawnProcess(
        self, child: Child, program: str, arguments: list[str], env: Any, childFDs: Any
    ) -> Process:
        self.children.append(child)
        self.environments.append(env)
        assert childFDs == {0: childFDs[0], 1: "r", 2: "r"}
        own = socket.socket(fileno=os.dup(childFDs[0]))
        self.processes.append(Process(100 + len(self.processes), own))
        return self.processes[-1]

    # What the process does

    def tells(self, *lines: str, number: int = -1) -> None:
        """The last process, or another one, sends a notice."""
        self.processes[number].notices(*lines)
        self.passages[number].doRead()

    def ends(self, error: Exception | None = None) -> None:
        """It is gone."""
        self.processes[-1].gone = True
        self.children[-1].processEnded(Failure(error or ProcessTerminated(signal=9)))


@pytest.fixture
def reactor() -> Iterator[ProcessReactor]:
    """A reactor that starts no process."""
    made = ProcessReactor()
    yield made
    for passage in made.passages:
        passage.loseConnection()
    for process in made.processes:
        process.own.close()


@pytest.fixture
def changes() -> list[bool]:
    """Whether the worker served, each time that it changed."""
    return []


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    """A socket of the parent's."""
    with socket.create_server(("127.0.0.1", 0)) as made:
        yield made


@pytest.fixture
def worker(
    reactor: ProcessReactor, changes: list[bool], tmp_path: Path, listening: socket.socket
) -> Iterator[Worker]:
    """Worker 2, which was started."""

    def plan(number: int) -> WorkerPlan:
        return WorkerPlan(number, SOURCE, {"public": listening.fileno()}, "/loads", [], "the.reactor")

    made = Worker(2, reactor, plan, lambda it: changes.append(it.serves), lambda: 30.0)
    made.start()
    yield made
    for call in reactor.getDelayedCalls():
        call.cancel()


def test_what_a_worker_is_told(
    worker: Worker, reactor: ProcessReactor, tmp_path: Path, listening: socket.socket
) -> None:
    """Its plan, with the sockets; it finds our code and our ear."""
    [process] = reactor.processes
    plan, sockets = process.hears()
    assert sockets == {"public": os.fstat(listening.fileno()).st_ino}
    expected = WorkerPlan(2, SOURCE, {}, "/loads", [], "the.reactor")
    assert plan._replace(sockets={}) == expected
    [environment] = reactor.environments
    assert "NOTIFY_SOCKET" not in environment
    assert str(Path(module.__file__).parents[3]) in environment["PYTHONPATH"].split(os.pathsep)


def test_one_that_ends_is_started_anew(worker: Worker, reactor: ProcessReactor, changes: list[bool]) -> None:
    """Soon at first, later and later where it ends again and again, soon again where it ran for long."""
    reactor.tells("READY=1")
    waits = []
    with capturedLogs() as logs:
        for number in range(1, 12):
            reactor.ends()
            assert (worker.row().state, worker.row().process, worker.restarts) == ("is away", None, number)
            [call] = reactor.getDelayedCalls()
            waits.append(call.getTime() - reactor.seconds())
            reactor.advance(waits[-1])
            assert len(reactor.processes) == number + 1
    assert waits[0] == pytest.approx(FIRST)
    assert waits == sorted(waits)
    assert waits[1] == pytest.approx(2 * FIRST)
    assert waits[-1] == pytest.approx(LONGEST)
    assert changes == [True] + [False] * 11
    assert formatEvent(logs[0]).startswith("worker 2 ended after 0.0 s: ")
    assert "signal 9" in formatEvent(logs[0])
    assert formatEvent(logs[0]).endswith("it is started anew in 0.1 s (restart 1)")
    reactor.advance(STEADY + 1)
    reactor.ends()
    [call] = reactor.getDelayedCalls()
    assert call.getTime() - reactor.seconds() == pytest.approx(FIRST)


def test_a_system_without_processes(worker: Worker, reactor: ProcessReactor, log: list[str]) -> None:
    """It is tried again until there is one."""
    reactor.ends()
    with patch.object(reactor, "spawnProcess", side_effect=OSError(11, "no processes left")):
        reactor.advance(FIRST)
    assert "no processes left" in log[-1]
    assert worker.restarts == 2
    reactor.advance(LONGEST)
    assert (len(reactor.processes), worker.row().state) == (2, "starts")


def test_told_to_end(worker: Worker, reactor: ProcessReactor) -> None:
    """It hears that by the end of its input, and is not started again; a signal may come too late."""
    [process] = reactor.processes
    over = worker.stop()
    assert (process.done, over.called, worker.row().state) == (["end"], False, "stops")
    worker.signal("TERM")
    process.gone = True
    worker.signal("TERM")
    assert process.done == ["end", "TERM"]
    reactor.ends(ProcessDone(0))
    result(over)
    assert not reactor.getDelayedCalls()
    assert worker.restarts == 0


def test_one_that_hangs_while_it_ends(worker: Worker, reactor: ProcessReactor) -> None:
    """Once the time for that is over it must say that it is there; until then it may be busy."""
    _ = worker.stop()
    reactor.tells("STOPPING=1")
    reactor.advance(HUNG - 1)
    worker.hurry()
    reactor.advance(HUNG - 1)
    reactor.tells("WATCHDOG=1")
    reactor.advance(HUNG - 1)
    assert reactor.processes[0].done == ["end"]
    reactor.advance(1)
    assert reactor.processes[0].done == ["end", "KILL"]


def test_told_to_end_while_it_is_away(worker: Worker, reactor: ProcessReactor) -> None:
    """Nobody is heard or waited for, and no process begins any more."""
    reactor.ends()
    assert (reactor.passages[-1].fileno(), worker.status, worker.row().state) == (-1, "", "is away")
    result(worker.stop())
    assert not reactor.getDelayedCalls()
    worker.signal("KILL")


def test_one_that_hangs(reactor: ProcessReactor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that says nothing is told of first, then killed and replaced, whether its process ends or not."""
    monkeypatch.delenv("WATCHDOG_USEC", raising=False)
    plan = WorkerPlan(1, SOURCE, {}, "", [], "")
    hung: list[bool] = []
    watched = Worker(1, reactor, lambda number: plan, lambda it: hung.append(it.hung), lambda: 30.0)
    watched.start()
    assert reactor.environments[0]["WATCHDOG_USEC"] == "2000000"
    reactor.advance(50)
    reactor.tells("READY=1")
    reactor.advance(HUNG)
    assert (hung, watched.row().state) == ([False, True], "does not answer")
    reactor.tells("WATCHDOG=1")
    assert (hung.pop(), watched.row().state) == (False, SERVES)
    reactor.advance(HUNG)
    reactor.advance(24)
    assert reactor.processes[0].done == []
    reactor.advance(1)
    assert reactor.processes[0].done[-1] == "KILL"
    reactor.advance(FIRST)
    assert len(reactor.processes) == 2
    reactor.children[0].processEnded(Failure(ProcessTerminated(signal=9)))  # late
    assert watched.row().process == 101


def test_its_log_is_ours() -> None:
    """Each line with its own level, text and fields, in whatever pieces it comes; what is no event is told of."""
    speaking = Logger("stomprelay")
    with capturedLogs() as events:
        speaking.warn("{seconds:.1f} s, {who!r}", seconds=1.25, who="a\nb")
        try:
            raise ValueError("out of order")
        except ValueError:
            speaking.failure("a session could not be ended")
    data = "".join(map(line, events)).encode()
    child = Child("worker 3", lambda reason: None)
    with capturedLogs() as logs:
        child.outReceived(data[:50])
        child.outReceived(data[50:])
        child.outReceived(b"not JSON\n")
        child.errReceived(b"Fatal Python error\nno")
    assert [(event["log_level"], formatEvent(event).splitlines()[0]) for event in logs] == [
        (LogLevel.warn, "1.2 s, 'a\\nb'"),
        (LogLevel.critical, "a session could not be ended"),
        (LogLevel.warn, "worker 3: not JSON"),
        (LogLevel.warn, "worker 3: Fatal Python error"),
    ]
    assert logs[0]["log_system"] == "worker 3, stomprelay#warn"
    assert fields(logs[0]) == {"worker": "worker 3", "seconds": 1.25, "who": "a\nb"}
    assert logs[0]["log_time"] == events[0]["log_time"]
    assert "ValueError: out of order" in formatEvent(logs[1])


def test_one_that_does_not_answer_another_plan(worker: Worker, reactor: ProcessReactor) -> None:
    """Nobody waits for ever."""
    found = worker.reload()
    reactor.advance(WITHIN)
    assert result(found) == "it does not answer"


def test_what_a_process_is_asked(worker: Worker, reactor: ProcessReactor) -> None:
    """It answers in any order, or why it cannot; one that ends, is away or is silent answers nothing."""
    [process] = reactor.processes
    process.hears()
    found: list[Any] = []
    for name in ("kill", "sessions", "condition", "obstacles"):
        _ = worker.ask(name, 1).addCallbacks(found.append, lambda failure: found.append(failure.value))
    passage = Passage(process.own)
    assert {"ask": "kill", "with": [1], "number": 1} in [each.said for each in passage.receive()]
    passage.put({"number": 2, "error": "too many"})
    passage.put({"number": 1, "answer": True})
    passage.flush()
    reactor.passages[0].doRead()
    assert (str(found[0]), found[1:]) == ("too many", [True])
    reactor.advance(WITHIN)
    assert len(found) == 4
    _ = worker.ask("condition").addErrback(found.append)
    reactor.ends()
    _ = worker.ask("condition").addErrback(found.append)
    assert [each.getErrorMessage() for each in found[4:]] == ["it ended", "it is away"]


def test_one_that_cannot_use_another_plan(worker: Worker, reactor: ProcessReactor, log: list[str]) -> None:
    """Its parent can: it ends in good order, for the next process to read everything anew."""
    [process] = reactor.processes
    process.hears()
    process.numbers.clear()
    _ = Deferred.fromCoroutine(_reload(worker))
    process.hears()
    process.says("relay.toml: listener.a.tls.key: no such file")
    reactor.passages[0].doRead()
    assert process.signals == ["TERM"]
    told = "cannot use the configuration, and is started anew: relay.toml: listener.a.tls.key: no such file"
    assert log[-1].endswith(f"worker 2 {told}")


def test_a_plan_is_read_as_the_parent_did(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the text, for the file may be another one by now."""
    (tmp_path / "relay.toml").write_text(
        'workers = 2\nadmin = "tcp:1:interface=127.0.0.1"\nlimits.clients = 3\n'
    )
    monkeypatch.chdir(tmp_path)
    source = ConfigSource.of("relay.toml", {"upstream": "tcp://a:1"})
    (tmp_path / "relay.toml").write_text("nonsense")
    assert source.read().admin == "tcp:1:interface=127.0.0.1"
    assert WorkerPlan(2, source, {}, "", [], "").read().clients == 1


# The parent


@pytest.fixture
def parent(reactor: ProcessReactor, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> WorkersService:
    """One of two workers without listeners, which runs."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    made = WorkersService(Config((), workers=2), SOURCE, reactor)
    made.startService()
    return made


def test_both_serve(parent: WorkersService, reactor: ProcessReactor, tmp_path: Path) -> None:
    """The folder in which they meet is private, and gone at the end, of which both are told at once."""
    assert [each.stat().st_mode & 0o777 for each in tmp_path.iterdir()] == [0o700]
    for number in (0, 1):
        reactor.tells("READY=1", "STATUS=0 sessions, 0 listeners", number=number)
    assert parent._status() == "2 of 2 workers serve (1: 0 sessions, 0 listeners; 2: 0 sessions, 0 listeners)"
    over: Any = parent.stopService()
    assert [each.done for each in reactor.processes] == [["end"], ["end"]]
    assert parent._status().startswith("stopping, 0 of 2 workers serve")
    assert not over.called
    for child in reactor.children:
        child.processEnded(Failure(ProcessDone(0)))
    result(over)
    assert not list(tmp_path.iterdir())
    assert not reactor.getDelayedCalls()


def test_one_that_started_before_a_reload(parent: WorkersService, reactor: ProcessReactor) -> None:
    """It is told what changed as soon as it serves."""
    [*_, process] = reactor.processes
    assert process.hears()[0].source.text == SOURCE.text
    parent._source = SOURCE._replace(text="workers = 2\nlog_level = 'debug'")
    reactor.tells("READY=1")
    plan, _ = process.hears()
    assert plan.source.text == parent._source.text
    assert plan.source.options == {**SOURCE.options, "workers": "2"}


def test_nowhere_to_meet(reactor: ProcessReactor, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The relay does not start."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "absent"))
    service = WorkersService(Config((), workers=2), SOURCE, reactor)
    with pytest.raises(CannotStart, match=r"workers: no temporary folder: .*No such file"):
        service.startService()
    assert not reactor.processes


def test_one_that_does_not_end(parent: WorkersService, reactor: ProcessReactor, log: list[str]) -> None:
    """One that has begun to end has all its time, with what may come behind it; one that has not is killed earlier."""
    over = parent.stopService()
    reactor.tells("STOPPING=1", number=1)
    reactor.advance(Config.stop_timeout)
    assert reactor.processes[0].done == ["end", "KILL"]
    for _ in range(int(MARGIN + GRACE - 1)):
        reactor.tells("WATCHDOG=1", number=1)
        reactor.advance(1)
    assert reactor.processes[1].done == ["end"]
    log.clear()
    reactor.advance(1)
    assert log == ["warn: workers that do not end are killed"]
    assert reactor.processes[1].signals == ["KILL"]
    result(over)


# The crew


class Asked(Worker):
    """A worker in whose process the relay of `state` runs; None: it does not answer, nor does it where brokers are
    resumed. `reasons` are why it is not ready.
    """

    def __init__(self, number: int, changed: Callable[[Worker], None], state: RelayState | None) -> None:
        super().__init__(number, MemoryReactorClock(), lambda number: plan_of([]), changed, lambda: 30.0)
        self.state: Any = state
        self.plan = plan_of([])
        self.serves = True
        self.reasons: list[str] | None = []
        self.orders: list[tuple[Any, ...]] = []

    def ask(self, name: str, *values: Any) -> Deferred[Any]:
        if name in ("pause", "resume", "drain"):
            self.orders.append((name, *values))
            return fail(TimeoutError("no answer")) if name == "resume" else succeed(None)
        if self.state is None or (name == "obstacles" and self.reasons is None):
            return fail(TimeoutError("no answer"))
        if name == "obstacles":
            return succeed(self.reasons)
        found = maybeDeferred(answer, OwnRelay(self.state), name, json.loads(json.dumps(values)))
        return found.addCallback(lambda value: json.loads(json.dumps(value)))


def relay() -> RelayHarness:
    """A relay before two brokers."""
    return RelayHarness(listener(upstream=movable(failover(1, 2))))


@pytest.fixture
def crew() -> Crew:
    """Two workers that serve, with two sessions and one."""
    own = Crew(relay().service.state)
    for number in (1, 2):
        harness = relay()
        for _ in range(3 - number):
            harness.session()
        made = Asked(number, own.changed, harness.service.state)
        own.workers.append(made)
    return own


def plan_of(paused: list[str]) -> WorkerPlan:
    """A plan with these brokers out of service."""
    return WorkerPlan(1, SOURCE, {}, "", paused, "")


def asked(crew: Crew, number: int) -> Any:
    """Where this worker is asked."""
    return crew.workers[number - 1]


def total(crew: Crew) -> Snapshot:
    """The sum, which is there at once."""
    return result(crew.snapshot(whole=True))


def test_one_that_does_not_answer(crew: Crew, log: list[str]) -> None:
    """Is in the sum as it was: no counter ever goes back."""
    total(crew)
    asked(crew, 1).state = None
    assert total(crew).listeners[0].counters["sessions_opened"] == 3
    assert log[-1].endswith("worker 1 does not answer: no answer")


def test_what_one_that_ended_has_counted(crew: Crew) -> None:
    """Stays, also when the next process of the worker counts from nothing, and ends."""
    total(crew)
    for _ in range(2):
        first = crew.workers[0]
        first.serves = False
        crew.changed(first)
        found = total(crew)
        assert found.clients == 1
        assert found.listeners[0].counters["sessions_opened"] == 3
        first.serves, asked(crew, 1).state = True, relay().service.state
        crew.changed(first)
        assert total(crew).listeners[0].counters["sessions_opened"] == 3


def test_the_condition_of_a_crew(crew: Crew) -> None:
    """The sum of all that answer; of one that does not, what is known. What is wrong with a journal counts."""
    assert result(crew.condition()) == Condition(3, workers=2, serving=2)
    total(crew)
    asked(crew, 1).state = None
    _ = crew.drain(True)
    assert result(crew.condition()) == Condition(3, draining=True, workers=2, serving=2)
    crew.workers[0].serves = False
    assert result(crew.condition()) == Condition(1, draining=True, workers=2, serving=1)
    ill, stuck = Condition(1, journal="is ill"), Condition(2, journal="is full", stuck=True)
    assert summed(Condition(0), [ill, stuck, Condition(3)], 3, 3) == Condition(
        6, False, False, *stuck[3:5], 3, 3
    )


def test_a_crew_is_ready_when_all_are(crew: Crew) -> None:
    """All that accept clients: what any of them says counts, once, and so does one that does not answer."""
    for one, two, all_say in (
        ([], [], []),
        ([], ["no broker", "the journal"], ["no broker", "the journal"]),
        (["no broker"], ["no broker", "the journal"], ["no broker", "the journal"]),
        (["no broker"], None, ["no broker", "worker 2 does not answer"]),
    ):
        asked(crew, 1).reasons, asked(crew, 2).reasons = one, two
        assert result(crew.obstacles()) == all_say


def test_a_crew_that_is_drained(crew: Crew) -> None:
    """All refuse clients, also one that starts meanwhile; nobody is asked whether it is ready, nor at the end."""
    _ = crew.drain(True)
    assert [asked(crew, number).orders for number in (1, 2)] == [[("drain", True)]] * 2
    assert result(crew.obstacles()) == [DRAINED]
    assert total(crew).draining
    late = crew.workers[0]
    late.plan = plan_of([])
    crew.changed(late)
    assert asked(crew, 1).orders[1:] == [("drain", True)]
    late.plan = late.plan._replace(draining=True)
    crew.changed(late)
    assert len(asked(crew, 1).orders) == 2
    _ = crew.drain(False)
    assert result(crew.obstacles()) == []
    assert not total(crew).draining
    crew.state.sessions.stopping = True
    assert result(crew.obstacles()) == [DRAINING]


def test_a_session_is_ended_where_it_is(crew: Crew) -> None:
    """Nobody else has it; where one does not answer and no other has it, that is not taken for no."""
    here, _, there = (each.name for number in (1, 2) for each in asked(crew, number).state.sessions)
    assert (result(crew.kill(here)), result(crew.kill(here))) == (True, False)
    left = [each.session for each in result(crew.sessions(SessionQuery())).sessions]
    assert (len(left), here in left) == (2, False)
    asked(crew, 1).state = None
    assert result(crew.kill(there))
    with pytest.raises(Unavailable):
        result(crew.kill("nobody-1"))


def test_orders_reach_all(crew: Crew, log: list[str]) -> None:
    """Those that serve; who does not answer is logged, and keeps nobody from the others."""
    found = crew.state.brokers.find("192.0.2.1:61613")
    uri = found[0].broker.uri
    result(crew.pause(found, 5.0))
    assert crew.paused == [uri]
    assert [row.state for row in total(crew).brokers] == ["paused", "unknown"]
    log.clear()
    result(crew.resume(found))
    assert len(log) == 2
    assert asked(crew, 1).orders == asked(crew, 2).orders == [("pause", uri, 5.0), ("resume", uri)]
    assert crew.paused == []


def test_one_that_starts_while_brokers_are_paused(crew: Crew) -> None:
    """Is told in its plan; what changed since then it is told when it serves."""
    one, two = (each.broker.uri for each in crew.state.brokers)
    _ = crew.pause(crew.state.brokers.find(one))
    late = crew.workers[1]
    late.plan = plan_of([two])
    asked(crew, 2).orders.clear()
    crew.changed(late)
    assert asked(crew, 2).orders == [("pause", one), ("resume", two)]
    late.plan = plan_of([one])
    crew.changed(late)
    assert len(asked(crew, 2).orders) == 2


def test_a_durable_subscriber_in_one_worker(reactor: ProcessReactor, worker: Worker) -> None:
    """The parent knows it; what was in an earlier phase means nothing but that."""
    harnesses = [RelayHarness(moving()) for _ in range(2)]
    parent, one = (each.service.state.moves for each in harnesses)
    notices: list[str] = []
    one._tell_parent = notices.extend
    worker._met = Crew(harnesses[0].service.state).met
    parent.enter("orders", Phase.BOTH, 2.0)
    one.enter("orders", Phase.BOTH, 2.0)
    own, other = (each.config.moves["orders"] for each in harnesses)
    for name, there in (("a=\n", True), ("b", False), ("c", False), ("c", None)):
        other.met(name, there)
    own.met("d", there=False)
    other.met("d", None)
    for each in notices:
        reactor.tells(each)
    assert own.durable == {"a=\n": True, "b": False}
    own.enter(Phase.NEW, 3.0)
    for each in notices:
        reactor.tells(each)
    assert own.away == ["a=\n", "b"]


def test_a_move_that_one_worker_stops(reactor: ProcessReactor, worker: Worker, log: list[str]) -> None:
    """It is stopped in all, and in one that begins to serve later; a stop of an earlier phase means nothing."""
    harnesses = [RelayHarness(moving()) for _ in range(3)]
    states = [each.service.state for each in harnesses]
    crew = Crew(states[0])
    crew.workers += [Asked(number, crew.changed, states[number]) for number in (1, 2)]
    for state in states:
        state.moves.enter("orders", Phase.SHADOW, 2.0)
    own, one, two = (each.config.moves["orders"] for each in harnesses)
    notices: list[str] = []
    states[1].moves._tell_parent = notices.extend
    log.clear()
    one.fault("it answered ERROR: no=\n")
    one.fault("and again")
    assert log == ["warn: move orders is stopped in shadow: it answered ERROR: no=\\n"]
    worker._stopped = crew.stopped
    reactor.tells(*notices)
    assert own.stopped == two.stopped == "it answered ERROR: no=\n"
    own.enter(Phase.OFF, 3.0)
    reactor.tells(*notices)
    assert own.stopped == two.stopped == ""
    own.fault("it is full")
    asked(crew, 2).state = (late := RelayHarness(moving())).service.state
    crew.changed(crew.workers[1])
    [row] = late.service.state.moves.rows()
    assert (row.since, row.stopped) == (3.0, "it is full")
    assert total(crew).moves == result(crew.moves()) == states[0].moves.rows()


def test_what_passes_at_each_worker(crew: Crew) -> None:
    """Is shown as of one relay; who does not answer is named, and where too many watch, that is said."""
    assert list(crew.state.sessions.listeners) == ["public"]
    request = TailRequest("one")
    assert result(crew.tail(request)) == TailAnswer(began=True)
    for number in (1, 2):
        asked(crew, number).state.sessions.stop()
    segment = result(crew.tail(request)).segment
    ended = [each for each in records_of(parse_segment(segment)) if isinstance(each, Record)]
    assert [each.event and each.event.event for each in ended] == ["error", "disconnected"] * 3
    asked(crew, 2).state = None
    assert result(crew.tail(request)) == TailAnswer(missing=("worker 2",))
    for number in range(MOST - 1):
        result(crew.tail(TailRequest(str(number))))
    with pytest.raises(Unavailable, match=r"^4 watch already, and no more may at a time$"):
        result(crew.tail(TailRequest("more")))
