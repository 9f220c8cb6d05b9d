"""The program that a worker runs: a relay on sockets that it inherits, which ends when its standard input does.

Its first line of standard input is the plan; nothing follows it. To standard output it writes its log, as JSON.
"""

import os
import sys
from typing import Any, Final

from twisted.internet.abstract import FileDescriptor
from twisted.internet.error import ReactorNotRunning
from twisted.internet.main import CONNECTION_DONE
from twisted.logger import FileLogObserver, LogEvent, eventAsJSON, eventAsText, globalLogBeginner
from twisted.python.failure import Failure
from twisted.python.reflect import namedModule

from stomprelay.config import ConfigError
from stomprelay.service.log import fields, literal, logger
from stomprelay.service.workers.plan import Plan

_log: Final = logger()
_INPUT: Final = 0
_KEPT: Final = ("log_time", "log_level", "log_namespace", "log_system")


class Lifeline(FileDescriptor):
    """Standard input, of which the parent has the other end: it ends when the parent wants this process to end, or is
    no more.
    """

    reactor: Any

    def fileno(self) -> int:
        """Return the descriptor."""
        return _INPUT

    def doRead(self) -> Any:
        """Return that it is over, at its end."""
        return None if os.read(_INPUT, 1) else CONNECTION_DONE

    def connectionLost(self, reason: Failure) -> None:
        """Begin to stop."""
        super().connectionLost(reason)
        try:
            self.reactor.stop()
        except ReactorNotRunning:
            pass  # SIGTERM came first

    def logPrefix(self) -> str:
        """Return the name that Twisted's log lines have for it."""
        return "parent"


def line(event: LogEvent) -> str:
    """Return a line of the log as JSON, for `Child` in the parent: its text as it is to be, tracebacks included, and
    its fields.
    """
    kept: dict[str, Any] = {name: event.get(name) for name in _KEPT if name in event}
    text = eventAsText(event, includeTimestamp=False, includeSystem=False)
    return eventAsJSON({**fields(event), **kept, "log_format": literal(text)}) + "\n"


def main() -> int:
    """Run a worker until it is told to end, and return its exit status."""
    told = sys.stdin.buffer.readline()
    if not told:
        return 0  # the parent is no more
    plan = Plan.parse(told)
    # Ctrl-C is the parent's, which has its workers end.
    os.setsid()
    namedModule(plan.reactor).install()
    log = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8", errors="backslashreplace")
    globalLogBeginner.beginLoggingTo([FileLogObserver(log, line)])
    from twisted.internet import reactor

    try:
        return run(plan, reactor)
    except (ConfigError, OSError) as error:
        _log.critical("{error}", error=error)
        return 1


def run(plan: Plan, reactor: Any) -> int:
    """Run the relay of a plan on a reactor. Raises `ConfigError` or `OSError` for what this process cannot read."""
    # What imports the reactor comes after it is installed.
    from stomprelay.service.network.endpoints import BadEndpoint
    from stomprelay.service.network.sharing import AWAY, Inherited, Loads
    from stomprelay.service.process import collect_rarely, keep_freed_memory, raise_descriptor_limit, start
    from stomprelay.service.relay import RelayService

    keep_freed_memory()
    running_in = os.getcwd()
    os.chdir(plan.source.folder)
    loads = Loads(plan.loads)

    def room(sessions: int) -> int:
        return loads.room(plan.number, AWAY if service.state.sessions.stopping else sessions)

    try:
        service = RelayService(
            plan.read(),
            reactor,
            descriptors=raise_descriptor_limit(),
            inherited=Inherited(plan.sockets, room),
        )
    except BadEndpoint as error:
        _log.critical("{error}", error=error)
        return 1
    collect_rarely()
    os.chdir(running_in)
    for uri in plan.paused:
        service.state.pauses.pause(service.state.brokers.find(uri))
    service.state.sessions.drain(plan.draining)
    start(service, reactor)
    loads.write(plan.number, 0)
    Lifeline(reactor).startReading()
    reactor.run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
