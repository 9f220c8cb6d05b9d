"""The parent's end of one worker: it starts the worker, restarts it after its end, and stops it."""

import os
import socket
import sys
from collections.abc import Callable
from typing import Any, Final

from twisted.application.internet import backoffPolicy
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.error import ProcessExitedAlready, ProcessTerminated
from twisted.internet.protocol import ProcessProtocol
from twisted.logger import eventFromJSON, globalLogPublisher
from twisted.python.failure import Failure

from stomprelay.service.admin.snapshot import SERVES, Snapshot, WorkerRow
from stomprelay.service.log import logger
from stomprelay.service.network.passing import Passage, PassedMessage, ReactorPassage
from stomprelay.service.process import WATCHDOG, watchdog
from stomprelay.service.workers.child import WorkerPlan

STEADY: Final = 60.0
"""If a worker ran for so many seconds, its end counts as the first failure again."""
FIRST: Final = 0.1
LONGEST: Final = 30.0
"""Seconds until an ended worker is started again: at first `FIRST`, at most `LONGEST`."""

WITHIN: Final = 5.0
"""Seconds that a process has for an answer."""
BEAT: Final = 1.0
HUNG: Final = 5.0
"""Seconds without a notice after which a worker counts as hung."""
START: Final = 60.0
"""The least number of seconds that a process has until its first notice."""

_PROGRAM: Final = "stomprelay.service.workers.child"
_log: Final = logger()


class NoAnswer(Exception):
    """A worker does not answer a question; the text is the reason."""


class Child(ProcessProtocol):
    """A process of a worker. Its log is copied into the parent's log."""

    def __init__(self, name: str, ended: Callable[[Failure], None]) -> None:
        self._name = name
        self._ended = ended
        self._rest = b""
        self._words = b""

    def outReceived(self, data: bytes) -> None:
        """Copy the process's log lines, with their own time, level and source."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            try:
                event: dict[str, Any] = eventFromJSON(line.decode("utf-8"))
            except ValueError:
                self.errReceived(line + b"\n")
                continue
            source = event.get("log_system") or "{}#{}".format(
                event.get("log_namespace"), getattr(event.get("log_level"), "name", "info")
            )
            event["log_system"] = f"{self._name}, {source}"
            event["worker"] = self._name
            globalLogPublisher(event)

    def errReceived(self, data: bytes) -> None:
        """Log other output of the process, for instance why Python could not start."""
        *lines, self._words = (self._words + data).split(b"\n")
        for line in lines:
            _log.warn("{name}: {text}", name=self._name, text=line.decode("utf-8", "backslashreplace"))

    def processEnded(self, reason: Failure) -> None:
        """Report the end: the process has ended, and all of its output was read."""
        self._ended(reason)


class Worker:
    """One worker, which has one process after the other. `number` is the worker's number. `plan` returns the plan of
    the next process. `changed` is called when the worker begins to serve, ends, hangs (`hung`) or answers again.
    `timeout` returns after how many silent seconds its process is killed. `stopped` gets what it says of a move that it
    stopped.
    """

    def __init__(
        self,
        number: int,
        reactor: Any,
        plan: Callable[[int], WorkerPlan],
        changed: Callable[["Worker"], None],
        timeout: Callable[[], float],
        stopped: Callable[[str], None] = lambda _: None,
        met: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.number = number
        self.name = f"worker {number}"
        self.restarts = 0
        self.serves = False
        self.plan: WorkerPlan | None = None
        self.status = ""
        self.hung = False
        self._timeout = timeout
        self._stopped = stopped
        self._met = met
        self._reactor = reactor
        self._plan = plan
        self._changed = changed
        self._delay = backoffPolicy(FIRST, LONGEST, 2.0, lambda: 0.0)
        self._failures = 0
        self._begun = 0.0
        self._process: Any = None
        self._child: Child | None = None
        self._passage: ReactorPassage | None = None
        self._asked = 0
        self._answers: dict[int, Deferred[Any]] = {}
        self._again: Any = None
        self._silent: Any = None
        self._stopping = self._late = False
        self._over: Deferred[None] | None = None
        self._process_stops = False

    def row(self, last: Snapshot | None = None) -> WorkerRow:
        """Return the worker's row for the dashboard, with the sessions of its last snapshot."""
        process = None if self._process is None else self._process.pid
        if self.hung:
            state = "does not answer"
        elif self.serves:
            state = SERVES
        else:
            state = "is away" if process is None else "starts"
        count, seen = (0, 0.0) if last is None else (last.clients, last.time)
        return WorkerRow(
            self.number, process, "stops" if self._stopping else state, count, self.restarts, seen
        )

    def start(self) -> None:
        """Start a process for the worker; if the system cannot start one, try again later."""
        self._again = None
        self._begun = self._reactor.seconds()
        try:
            self._spawn()
        except OSError as error:
            self._ended(Failure(error))

    def _spawn(self) -> None:
        plan = self.plan = self._plan(self.number)
        child = Child(self.name, lambda reason: self._ended(reason) if child is self._child else None)
        self._child = child
        self._process_stops = False
        ours, theirs = socket.socketpair()
        self._passage = ReactorPassage(self._reactor, Passage(ours), self._said, self._unheard)
        with theirs:
            self._process = self._reactor.spawnProcess(
                child,
                sys.executable,
                [sys.executable, "-P", "-m", _PROGRAM],
                env=_environment(),
                childFDs={0: theirs.fileno(), 1: "r", 2: "r"},
            )
        self._watch(max(self._limit, START))
        self._tell(plan, 0)

    def _tell(self, plan: WorkerPlan, number: int) -> None:
        if self._passage is None:
            return
        try:
            self._passage.send({"plan": plan._replace(sockets={}), "number": number}, plan.sockets)
        except (OSError, ValueError) as error:
            _log.warn("{worker} cannot be told its plan: {why}", worker=self.name, why=str(error))
            self._passage.loseConnection()

    def reload(self) -> Deferred[str]:
        """Make the process use another configuration. The Deferred fires with "", or with the reason of a refusal."""
        if self.plan is None or self._passage is None:
            return succeed("")
        self.plan = self._plan(self.number)
        answer = self._awaited()
        self._tell(self.plan, self._asked)
        return answer.addErrback(lambda failure: "" if failure.check(NoAnswer) else "it does not answer")

    def ask(self, name: str, *values: Any) -> Deferred[Any]:
        """Ask the process a question of `child.answer`. The Deferred fails if there is no answer in time."""
        if self._passage is None:
            return fail(NoAnswer("it is away"))
        answer = self._awaited()
        self._passage.send({"ask": name, "with": values, "number": self._asked})
        return answer

    def _awaited(self) -> Deferred[Any]:
        number = self._asked = self._asked + 1
        answer: Deferred[Any] = Deferred()
        self._answers[number] = answer

        def settled(found: Any) -> Any:
            self._answers.pop(number, None)
            return found

        return answer.addTimeout(WITHIN, self._reactor).addBoth(settled)

    def _said(self, passed: PassedMessage) -> None:
        passed.close()
        if (lines := passed.said.get("notice")) is not None:
            self._noticed({name: value for name, _, value in (line.partition("=") for line in lines)})
        answer = self._answers.get(passed.said.get("number", 0))
        if answer is None:
            return
        if "error" in passed.said:
            answer.errback(NoAnswer(passed.said["error"]))
        else:
            answer.callback(passed.said.get("answer"))

    def _unheard(self, _why: str) -> None:
        """Fail all questions that wait for an answer: the process ends, and the next process gets its own plan."""
        for answer in tuple(self._answers.values()):
            answer.errback(NoAnswer("it ended"))

    def _noticed(self, said: dict[str, str]) -> None:
        self.status = said.get("STATUS", self.status)
        self._process_stops = self._process_stops or "STOPPING" in said
        if self.hung:
            self.hung = False
            _log.info("{worker} answers again", worker=self.name)
            self._changed(self)
        if "STOPPED" in said:
            self._stopped(said["STOPPED"])
        if "MET" in said:
            self._met(said["MET"])
        if "READY" in said and not self.serves:
            self.serves = True
            _log.info("{worker} serves, process {process}", worker=self.name, process=self._process.pid)
            self._changed(self)
        self._watch(self._limit)

    @property
    def _limit(self) -> float:
        """Return the seconds until the next notice must come: the smaller of the configured number and the number that
        systemd requires of the parent; `HUNG` after `hurry`.
        """
        if self._late:
            return HUNG
        period = watchdog(os.environ)
        return self._timeout() if period is None else min(self._timeout(), period)

    def _watch(self, within: float) -> None:
        if self._silent is not None and self._silent.active():
            self._silent.cancel()
        first = min(HUNG, within) if self.serves else within
        self._silent = self._reactor.callLater(first, self._said_nothing, first, within)

    def _said_nothing(self, seconds: float, within: float) -> None:
        """Give the silent process no clients for now. At the end of its time kill the process."""
        if seconds < within:
            self.hung = True
            _log.warn(
                "{worker} says nothing; it is killed in {left:g} s", worker=self.name, left=within - seconds
            )
            self._silent = self._reactor.callLater(within - seconds, self._said_nothing, within, within)
            self._changed(self)
            return
        _log.warn("{worker} was silent for {seconds:g} s", worker=self.name, seconds=within)
        self.kill()

    def kill(self) -> None:
        """Kill the process, and do not wait for it: a process that waits in the kernel may never end."""
        if self._process is not None:
            self.signal("KILL")
            self._ended(Failure(ProcessTerminated(signal=9)))

    def hurry(self) -> None:
        """Kill the process if it has not begun to stop or is hung; otherwise kill it as soon as it is hung."""
        self._late = True
        if self._process is None:
            return
        if self.hung or not self._process_stops:
            _log.warn("{worker} does not end, and is killed", worker=self.name)
            self.kill()
        else:
            self._watch(HUNG)

    def _ended(self, reason: Failure) -> None:
        """Handle the end of the process: start another one later, unless the worker was stopped."""
        ran = self._reactor.seconds() - self._begun
        why = reason.getErrorMessage().rstrip(".")
        self._process = self._child = None
        self.serves = self.hung = False
        if self._passage is not None:
            self._passage.loseConnection()
            self._passage = None
        self.status = ""
        if self._silent is not None and self._silent.active():
            self._silent.cancel()
        self._changed(self)
        if self._stopping:
            if self._over is not None:
                over, self._over = self._over, None
                over.callback(None)
            return
        self._failures = 1 if ran > STEADY else self._failures + 1
        self.restarts += 1
        after = self._delay(self._failures - 1)
        _log.warn(
            "{worker} ended after {ran:.1f} s: {why}; it is started anew in {after:.1f} s (restart {count})",
            worker=self.name,
            ran=ran,
            why=why,
            after=after,
            count=self.restarts,
        )
        self._again = self._reactor.callLater(after, self.start)

    def stop(self) -> Deferred[None]:
        """Stop the process as at SIGTERM. The Deferred fires when the process has ended."""
        self._stopping = True
        if self._again is not None and self._again.active():
            self._again.cancel()
        if self._process is None:
            return succeed(None)
        self._over = Deferred()
        if self._passage is not None:
            self._passage.send({"stop": True})
        return self._over

    def signal(self, name: str) -> None:
        """Send a signal to its process, if there is one."""
        if self._process is not None:
            try:
                self._process.signalProcess(name)
            except ProcessExitedAlready:
                pass


def _environment() -> dict[str, str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    for each in ("NOTIFY_SOCKET", "WATCHDOG_PID"):
        environment.pop(each, None)
    environment[WATCHDOG] = str(round(2 * BEAT * 1_000_000))  # two notices come in this time
    return environment
