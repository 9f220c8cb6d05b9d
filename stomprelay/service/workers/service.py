"""The parent of several workers, as a service: it listens for them, and is asked for all of them."""

import os
import shutil
import tempfile
from typing import Any, Final

from twisted.application.service import MultiService
from twisted.internet.defer import Deferred, DeferredList, maybeDeferred
from twisted.internet.protocol import Factory

from stomprelay.config import Config
from stomprelay.service.admin.site import admin_services
from stomprelay.service.log import logger
from stomprelay.service.network.endpoints import CannotStart, ListeningService, listening_service
from stomprelay.service.network.sharing import AWAY, Loads
from stomprelay.service.process import HURRY, Notify, Signals, unused
from stomprelay.service.relay import MARGIN, RelayService
from stomprelay.service.workers.crew import Crew
from stomprelay.service.workers.plan import Plan, Source
from stomprelay.service.workers.worker import Worker

GRACE: Final = 10.0
"""Seconds beyond the time that a worker may take to stop, after which it is killed."""

_log: Final = logger()


class Unserved(Factory):
    """Stands behind the sockets that the workers accept from; the parent never does."""

    noisy = False

    def __init__(self, name: str) -> None:
        self._name = name

    def logPrefix(self) -> str:
        """Return the name that Twisted's log lines have for it."""
        return f"listener {self._name}"


class WorkersService(MultiService):
    """Listens on the configured endpoints, and has `config.workers` processes accept from them. Raises `BadEndpoint`
    for what cannot be used. `source` is where they read the same configuration.

    systemd is told that the relay is ready when all workers serve for the first time.
    """

    def __init__(self, config: Config, source: Source, reactor: Any) -> None:
        super().__init__()
        # What a process alone would be: it checks all that the workers will use, and knows listeners and brokers.
        alone = RelayService(config, reactor)
        self._own = alone.state
        self._source = source
        self._reactor = reactor
        self._folder = ""
        self._longest = (
            config.stop_timeout + max((each.linger for each in config.listeners), default=0.0) + MARGIN
        )
        self.crew = Crew(self._own)
        self._count = config.workers
        self._listeners: dict[str, ListeningService] = {}
        for each in config.listeners:
            service = listening_service(reactor, each.name, each.endpoint, Unserved(each.name))
            self._listeners[each.name] = service
            service.setServiceParent(self)
        for door in admin_services(config, self.crew, reactor):
            door.setServiceParent(self)
        unused(reactor).setServiceParent(self)
        self._notify = Notify(self._status, reactor)

    def _status(self) -> str:
        """Return the relay's status in one line, for systemd."""
        own = self._own.sessions
        state = "stopping, " if own.stopping else "draining, " if own.draining else ""
        each = "; ".join(f"{worker.number}: {worker.status}" for worker in self.crew.workers if worker.status)
        return f"{state}{self.crew.serving} of {self._count} workers serve" + (f" ({each})" if each else "")

    def startService(self) -> None:
        """Listen, and start the workers when the reactor runs. Raises `CannotStart`."""
        if self._own.journal is not None:
            self._own.journal.prepare()
        super().startService()
        sockets = {name: each.hold() for name, each in self._listeners.items()}
        try:
            self._folder = tempfile.mkdtemp(prefix="stomprelay-")
            loads = os.path.join(self._folder, "loads")
            self._loads = Loads.create(loads, self._count)
        except OSError as error:
            text = f"workers: no temporary folder: {error}"
            _log.critical("{text}", text=text)
            raise CannotStart(text) from error
        module = type(self._reactor).__module__

        def plan(number: int, admin: str) -> Plan:
            return Plan(
                number, self._source, sockets, admin, loads, self.crew.paused, module, self.crew.draining
            )

        for number in range(1, self._count + 1):
            worker = Worker(number, self._reactor, self._folder, plan, self._changed)
            self.crew.workers.append(worker)
            self._reactor.callWhenRunning(worker.start)

    def _changed(self, worker: Worker) -> None:
        self.crew.changed(worker)
        if worker.admin is None:
            self._loads.write(worker.number, AWAY)
        first = self._notify.parent is None and not self._own.sessions.stopping
        if first and self.crew.serving == self._count:
            _log.info("all {count} workers serve", count=self._count)
            self._notify.setServiceParent(self)

    def stopService(self) -> Deferred[None]:
        """Stop listening, have the workers end in good order, and wait until they are gone. SIGTERM and SIGINT shorten
        their time.
        """
        self._own.sessions.refuse()
        self._notify.stopping(self._longest + GRACE)
        return Deferred.fromCoroutine(self._stop())

    async def _stop(self) -> None:
        signals = Signals(self._reactor, dict.fromkeys(HURRY, lambda: self._signal("TERM")))
        signals.startService()
        closed = [maybeDeferred(each.disownServiceParent) for each in self._listeners.values()]
        late = self._reactor.callLater(self._longest + GRACE, self._kill)
        await DeferredList([each.stop() for each in self.crew.workers])
        if late.active():
            late.cancel()
        await DeferredList(closed)
        self._own.runtime.repeats.stop()
        await super().stopService()
        await maybeDeferred(signals.stopService)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _kill(self) -> None:
        _log.warn("workers that do not end are killed")
        self._signal("KILL")

    def _signal(self, name: str) -> None:
        for each in self.crew.workers:
            each.signal(name)
