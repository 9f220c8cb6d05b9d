"""The program of a worker: a relay on sockets that its parent passes by standard input, a UNIX socket, with a plan for
each configuration. It answers each plan and each question, logs JSON to standard output, and ends when the parent sends
`stop` or when its input ends.

                                                        worker  {"notice": ["READY=1", "STATUS=..."]}
    parent  {"plan": [...], "number": 1}                    worker  {"number": 1, "answer": ""}, or why it cannot
    parent  {"stop": true}
    parent  {"ask": "kill", "with": ["relay-1"], "number": 2}   worker  {"number": 2, "answer": true}, or "error"
"""

import json
import os
import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple, Self

from twisted.internet.defer import maybeDeferred
from twisted.internet.error import ReactorNotRunning
from twisted.logger import FileLogObserver, LogEvent, eventAsJSON, eventAsText, globalLogBeginner
from twisted.python.failure import Failure
from twisted.python.reflect import namedModule

from stomprelay import config
from stomprelay.config import Config, ConfigError
from stomprelay.config.change import ConfigSource
from stomprelay.config.config import COMMAND_LINE
from stomprelay.relay.model.move import Phase
from stomprelay.service.log import fields, literal, logger
from stomprelay.service.network.passing import Passage, PassedMessage, ReactorPassage

_log: Final = logger()
_KEPT: Final = ("log_time", "log_level", "log_namespace", "log_system")


class WorkerPlan(NamedTuple):
    """What worker `number` gets when it starts: the configuration, the listeners' sockets by name, the path of
    `Loads`, the addresses of paused brokers, the reactor's module, and whether new clients are refused.
    """

    number: int
    source: ConfigSource
    sockets: Mapping[str, int]
    loads: str
    paused: Sequence[str]
    reactor: str
    draining: bool = False

    @classmethod
    def parse(cls, passed: PassedMessage) -> Self:
        """Return the plan in a message. The caller still has to close the message's sockets. Raises `LookupError`,
        `ValueError` or `TypeError`.
        """
        number, source, _, *rest = passed.said["plan"]
        sockets = {name: each.fileno() for name, each in passed.sockets.items()}
        return cls(number, ConfigSource(*source), sockets, *rest)

    def read(self) -> Config:
        """Return the worker's share of the configuration. Raises `ConfigError`."""
        return config.share(self.source.read(), self.number)


def line(event: LogEvent) -> str:
    """Return an event of the log as a line of JSON, for `Child` in the parent."""
    kept: dict[str, Any] = {name: event.get(name) for name in _KEPT if name in event}
    text = eventAsText(event, includeTimestamp=False, includeSystem=False)
    return eventAsJSON({**fields(event), **kept, "log_format": literal(text)}) + "\n"


def main() -> int:
    """Run a worker until it is stopped, and return its exit status."""
    passage = Passage(socket.socket(fileno=os.dup(0)))  # standard input
    try:
        while not (came := passage.receive()):
            pass
        plan = WorkerPlan.parse(came[0])
    except (EOFError, OSError):
        return 0  # the parent has ended
    # Ctrl-C must reach only the parent, which then stops its workers.
    os.setsid()
    namedModule(plan.reactor).install()
    log = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8", errors="backslashreplace")
    globalLogBeginner.beginLoggingTo([FileLogObserver(log, line)])
    from twisted.internet import reactor

    try:
        return run(plan, came, passage, reactor)
    except (ConfigError, OSError) as error:
        _log.critical("{error}", error=error)
        return 1


def run(plan: WorkerPlan, came: Sequence[PassedMessage], passage: Passage, reactor: Any) -> int:
    """Run the relay of a plan with the sockets of its message. Return 0 when it has stopped, or 1 if an endpoint cannot
    be used. Raises `ConfigError` or `OSError`.
    """
    # These modules import the reactor, which must be installed before.
    from stomprelay.service.admin.condition import OwnRelay
    from stomprelay.service.network.endpoints import BadEndpoint
    from stomprelay.service.network.sharing import Inherited
    from stomprelay.service.process import collect_rarely, keep_freed_memory, raise_descriptor_limit, start
    from stomprelay.service.relay import RelayService
    from stomprelay.service.workers.loads import AWAY, Loads

    keep_freed_memory()
    loads = Loads(plan.loads)

    def room(sessions: int) -> int:
        return loads.room(plan.number, AWAY if service.state.sessions.stopping else sessions)

    def kept(size: int, _sessions: int) -> tuple[int, int]:
        return loads.kept(plan.number, size)

    def tell(lines: Sequence[str]) -> None:
        parent.send({"notice": lines})

    try:
        with plan.source.here():
            service = RelayService(
                plan.read(),
                reactor,
                descriptors=raise_descriptor_limit(),
                inherited=Inherited(plan.sockets, room, kept, tell),
            )
    except BadEndpoint as error:
        _log.critical("{error}", error=error)
        return 1
    collect_rarely()
    loads.share(plan.number, service.state.brokers)
    for uri in plan.paused:
        service.state.pauses.pause(service.state.brokers.find(uri))
    for each in came[0].sockets.values():
        each.detach()  # the listening services close these sockets
    service.state.sessions.drain(plan.draining)
    relay = OwnRelay(service.state)

    def told(passed: PassedMessage) -> None:
        if "stop" in passed.said:
            ended("")
            return
        number = {"number": passed.said["number"]}

        def failed(failure: Failure) -> None:
            parent.send({**number, "error": failure.getErrorMessage()})

        if "plan" in passed.said:
            parent.send({**number, "answer": reload(service, passed)})
            loads.share(plan.number, service.state.brokers)
        else:
            passed.close()
            found = maybeDeferred(answer, relay, passed.said["ask"], passed.said["with"])
            _ = found.addCallback(lambda found: parent.send({**number, "answer": found})).addErrback(failed)

    def ended(_why: str) -> None:
        with suppress(ReactorNotRunning):  # SIGTERM came first
            reactor.stop()

    parent = ReactorPassage(reactor, passage, told, ended)
    start(service, reactor)
    for message in came[1:]:
        reactor.callWhenRunning(told, message)
    loads.write(plan.number, 0)
    reactor.run()
    return 0


def answer(relay: Any, name: str, values: Sequence[Any]) -> Any:
    """Return the answer of this process's `OwnRelay` to a question of the parent: JSON values, or a Deferred."""
    from stomprelay.journal.tail import TailRequest
    from stomprelay.service.admin.sessions import SessionQuery, Unavailable

    match name, values:
        case "snapshot", [whole]:
            return relay.snapshot(whole=whole)
        case "condition" | "obstacles", []:
            return getattr(relay, name)()
        case "moves", []:
            return relay.moves()
        case "move", [move, phase, since, stopped]:
            return relay.state.moves.enter(move, Phase(phase), since, stopped)
        case "kill" | "drain", [value]:
            return getattr(relay, name)(value)
        case "sessions", [query]:
            return relay.sessions(SessionQuery(*query))
        case "tail", [request]:
            made = TailRequest.parse(json.dumps(request).encode())
            found = relay.tail(made).addCallback(lambda found: json.loads(found.spell()))
            return found.addErrback(lambda failure: failure.trap(Unavailable) and failure.getErrorMessage())
        case "pause" | "resume", [broker, *within]:
            return getattr(relay, name)(relay.state.brokers.find(broker), *within)
    raise ValueError(f"there is no {name}")


def reload(service: Any, passed: PassedMessage) -> str:
    """Use the configuration of another plan and its sockets. Return "", or why the configuration cannot be used."""
    from stomprelay.service.network.endpoints import BadEndpoint, CannotStart

    try:
        plan = WorkerPlan.parse(passed)
        service.inherit(plan.sockets)
        with plan.source.here():
            prepared = service.prepare(plan.source.path or COMMAND_LINE, plan.read())
            for each in prepared.ports[0].opened:
                passed.sockets[each.name].detach()  # the listening service closes this socket
            prepared.open()
        prepared.commit()
    except (ConfigError, BadEndpoint, CannotStart, OSError) as error:
        return str(error)
    finally:
        passed.close()
    return ""


if __name__ == "__main__":
    sys.exit(main())
