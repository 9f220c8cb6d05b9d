"""The program of a worker: a relay on sockets that its parent passes by standard input, a UNIX socket, with a plan for
each configuration. It answers each plan, logs JSON to standard output, and ends when its input ends.
"""

import os
import socket
import sys
from contextlib import suppress
from typing import Any, Final

from twisted.internet.error import ReactorNotRunning
from twisted.logger import FileLogObserver, LogEvent, eventAsJSON, eventAsText, globalLogBeginner
from twisted.python.reflect import namedModule

from stomprelay.config import ConfigError
from stomprelay.config.config import COMMAND_LINE
from stomprelay.service.log import fields, literal, logger
from stomprelay.service.network.passing import Passage, Passed, ReactorPassage
from stomprelay.service.workers.plan import Plan

_log: Final = logger()
_INPUT: Final = 0
_KEPT: Final = ("log_time", "log_level", "log_namespace", "log_system")


def line(event: LogEvent) -> str:
    """Return an event of the log as a line of JSON, for `Child` in the parent."""
    kept: dict[str, Any] = {name: event.get(name) for name in _KEPT if name in event}
    text = eventAsText(event, includeTimestamp=False, includeSystem=False)
    return eventAsJSON({**fields(event), **kept, "log_format": literal(text)}) + "\n"


def main() -> int:
    """Run a worker until it is stopped, and return its exit status."""
    own = socket.socket(fileno=os.dup(_INPUT))
    try:
        passed = first(own)
        plan = Plan.parse(passed)
    except (EOFError, OSError):
        return 0  # the parent is no more
    # Ctrl-C is the parent's, which has its workers end.
    os.setsid()
    namedModule(plan.reactor).install()
    log = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8", errors="backslashreplace")
    globalLogBeginner.beginLoggingTo([FileLogObserver(log, line)])
    from twisted.internet import reactor

    try:
        return run(plan, passed, own, reactor)
    except (ConfigError, OSError) as error:
        _log.critical("{error}", error=error)
        return 1


def first(own: socket.socket) -> Passed:
    """Return the first message on a socket. Raises `EOFError` or `OSError` if none comes."""
    passage = Passage(own)
    while not (found := passage.receive()):
        pass
    return found[0]


def run(plan: Plan, passed: Passed, own: socket.socket, reactor: Any) -> int:
    """Run the relay of a plan, with the sockets that came; `own` leads to the parent. Raises `ConfigError` or
    `OSError`.
    """
    # What imports the reactor comes after it is installed.
    from stomprelay.service.network.endpoints import BadEndpoint
    from stomprelay.service.network.sharing import AWAY, Inherited, Loads
    from stomprelay.service.process import collect_rarely, keep_freed_memory, raise_descriptor_limit, start
    from stomprelay.service.relay import RelayService
    from stomprelay.service.workers.placement import Placement

    keep_freed_memory()
    loads = Loads(plan.loads)

    def room(sessions: int) -> int:
        return loads.room(plan.number, AWAY if service.state.sessions.stopping else sessions)

    def kept(size: int, _sessions: int) -> tuple[int, int]:
        return loads.kept(plan.number, size)

    try:
        with plan.source.here():
            service = RelayService(
                plan.read(),
                reactor,
                descriptors=raise_descriptor_limit(),
                inherited=Inherited(plan.sockets, room, kept),
            )
    except BadEndpoint as error:
        _log.critical("{error}", error=error)
        return 1
    collect_rarely()
    placement = Placement(plan.loads)
    placement.share(plan.number, service.state.brokers)
    for uri in plan.paused:
        service.state.pauses.pause(service.state.brokers.find(uri))
    for each in passed.sockets.values():
        each.detach()  # the listeners close them
    service.state.sessions.drain(plan.draining)
    start(service, reactor)
    loads.write(plan.number, 0)

    def told(message: Passed) -> None:
        parent.send({"error": reload(service, message)})
        placement.share(plan.number, service.state.brokers)

    def ended(_why: str) -> None:
        with suppress(ReactorNotRunning):  # SIGTERM came first
            reactor.stop()

    parent = ReactorPassage(reactor, own, told, ended)
    reactor.run()
    return 0


def reload(service: Any, passed: Passed) -> str:
    """Use the configuration of another plan and its sockets. Return "", or why it cannot be used."""
    from stomprelay.service.network.endpoints import BadEndpoint, CannotStart

    try:
        plan = Plan.parse(passed)
        service.inherit(plan.sockets)
        with plan.source.here():
            prepared = service.prepare(plan.source.path or COMMAND_LINE, plan.read())
            for each in prepared.ports[0].opened:
                passed.sockets[each.name].detach()  # it closes them
            prepared.open()
        prepared.commit()
    except (ConfigError, BadEndpoint, CannotStart, OSError) as error:
        return str(error)
    finally:
        passed.close()
    return ""


if __name__ == "__main__":
    sys.exit(main())
