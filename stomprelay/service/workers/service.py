"""The parent of several workers, as a service: it opens their sockets, and answers requests to the admin endpoint."""

import os
import shutil
import tempfile
from collections.abc import Callable
from typing import Any, Final

from twisted.application.service import MultiService
from twisted.internet.defer import Deferred, DeferredList, maybeDeferred

from stomprelay.config import Config
from stomprelay.config.change import ConfigSource
from stomprelay.config.config import COMMAND_LINE
from stomprelay.service.admin.site import admin_services
from stomprelay.service.log import logger
from stomprelay.service.network.endpoints import (
    CannotStart,
    ListeningService,
    NamedFactory,
    Ports,
    listening_service,
)
from stomprelay.service.network.tls import CertificateWatch, TLSConnections
from stomprelay.service.process import HURRY, Notify, Reloaded, Reloads, Signals, unused
from stomprelay.service.relay import MARGIN, RelayService
from stomprelay.service.workers.child import WorkerPlan
from stomprelay.service.workers.crew import Crew
from stomprelay.service.workers.loads import AWAY, Loads
from stomprelay.service.workers.worker import HUNG, Worker

GRACE: Final = 10.0
"""A worker that stops is killed so many seconds after the time that it may take to stop."""

_log: Final = logger()


class WorkersService(MultiService):
    """Listens on the configured endpoints, for `config.workers` processes that accept the clients; `source` is their
    configuration. `when_ready`: services that start when all workers serve for the first time. Raises `BadEndpoint`.
    """

    def __init__(self, config: Config, source: ConfigSource, reactor: Any) -> None:
        super().__init__()
        # This relay never serves. It checks all that the workers will use, and has the listeners and brokers.
        self._alone = RelayService(config, reactor)
        self._own = self._alone.state
        self._source = source
        self._reactor = reactor
        self._folder = ""
        self._loads: Loads | None = None
        self._notify = Notify(self._status, reactor)
        self._reloads = Reloads(reactor, source, self._reload, self._notify.reloading)
        self.crew = Crew(self._own, self._reloads)
        self._count = config.workers
        self._listeners = Ports(self._listening(config))
        self._listeners.setServiceParent(self)
        self.admin = Ports(admin_services(config, self.crew, reactor))
        self.admin.setServiceParent(self)
        self._certificates = CertificateWatch(reactor)
        self._certificates.watch(self._connections())
        self._certificates.setServiceParent(self)
        self.when_ready = MultiService()
        self._notify.setServiceParent(self.when_ready)
        self._reloads.setServiceParent(self)
        unused(reactor).setServiceParent(self)

    def _listening(self, config: Config) -> list[ListeningService]:

        def never(name: str) -> Any:
            return NamedFactory(f"listener {name}", lambda _: None)

        return [
            listening_service(self._reactor, each.name, each.endpoint, never(each.name))
            for each in config.listeners
        ]

    def _connections(self) -> dict[str, list[TLSConnections]]:
        secured = [each.secured for each in self.admin.services if each.secured is not None]
        return {"admin_tls": secured} if secured else {}

    @property
    def _longest(self) -> float:
        config = self._alone.config
        return config.stop_timeout + max((each.linger for each in config.listeners), default=0.0) + MARGIN

    def _status(self) -> str:
        own = self._own.sessions
        state = "stopping, " if own.stopping else "draining, " if own.draining else ""
        each = "; ".join(f"{worker.number}: {worker.status}" for worker in self.crew.workers if worker.status)
        return f"{state}{self.crew.serving} of {self._count} workers serve" + (f" ({each})" if each else "")

    def startService(self) -> None:
        """Listen, and start the workers when the reactor runs. Raises `CannotStart`."""
        if self._own.journal is not None:
            self._own.journal.prepare()
        super().startService()
        try:
            for each in self._listeners.services:
                each.hold()
        except CannotStart as error:
            _log.critical("{text}", text=str(error))
            raise
        try:
            self._folder = tempfile.mkdtemp(prefix="stomprelay-")
            loads = os.path.join(self._folder, "loads")
            self._loads = Loads.create(loads, self._count)
            self._loads.add(self._own.brokers)
        except OSError as error:
            text = f"workers: no temporary folder: {error}"
            _log.critical("{text}", text=text)
            raise CannotStart(text) from error
        module = type(self._reactor).__module__

        def plan(number: int) -> WorkerPlan:
            # The file may have another number of workers by now, which applies after the next start.
            options = {**self._source.options, "workers": str(self._count)}
            source = self._source._replace(options=options)
            sockets = {each.name: each.hold() for each in self._listeners.services}
            draining = self._own.sessions.draining
            return WorkerPlan(number, source, sockets, loads, self.crew.paused, module, draining)

        for number in range(1, self._count + 1):
            worker = Worker(
                number,
                self._reactor,
                plan,
                self._changed,
                lambda: self._alone.config.worker_timeout,
                self.crew.stopped,
                self.crew.met,
            )
            self.crew.workers.append(worker)
            self._reactor.callWhenRunning(worker.start)

    def _changed(self, worker: Worker) -> None:
        if worker.hung:
            if self._loads is not None:  # else the other workers would wait for it
                self._loads.write(worker.number, AWAY)
            return
        self.crew.changed(worker)
        if not worker.serves and self._loads is not None:
            self._loads.ended(worker.number)
        elif worker.plan is not None and worker.plan.source.text != self._source.text:
            _ = Deferred.fromCoroutine(_reload(worker))
        first = self.when_ready.parent is None and not self._own.sessions.stopping
        if first and self.crew.serving == self._count:
            _log.info("all {count} workers serve", count=self._count)
            self.when_ready.setServiceParent(self)

    def stopService(self) -> Deferred[None]:
        """Stop listening, end the workers as at SIGTERM, and wait for them. SIGTERM and SIGINT shorten this time."""
        # Before a worker ends a session: the client comes again at once, and should reach the relay that took over.
        if self._loads is not None:
            self._loads.close()
        self._own.sessions.stop_accepting()
        self._reloads.refuse()
        self._notify.stopping(self._longest + GRACE)
        return Deferred.fromCoroutine(self._stop())

    async def _stop(self) -> None:
        signals = Signals(self._reactor, dict.fromkeys(HURRY, lambda: self._each(Worker.signal, "TERM")))
        signals.startService()
        closed = maybeDeferred(self._listeners.disownServiceParent)
        config = self._alone.config
        late = [
            self._reactor.callLater(max(config.stop_timeout, HUNG), self._each, Worker.hurry),
            self._reactor.callLater(self._longest + GRACE, self._kill),
        ]
        await DeferredList([each.stop() for each in self.crew.workers])
        for each in late:
            if each.active():
                each.cancel()
        await closed
        self._own.runtime.repeats.stop()
        await super().stopService()
        await maybeDeferred(signals.stopService)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _reload(self, source: ConfigSource) -> Deferred[Reloaded]:
        """Make all workers use another configuration, after checking that it can be used."""
        prepared = self._alone.prepare(source.path or COMMAND_LINE, source.read())
        config = prepared.change.config
        self._listeners.prepare(self._listening(config))
        self.admin.prepare(admin_services(config, self.crew, self._reactor))
        prepared.ports.extend([self._listeners, self.admin])
        prepared.open()
        try:
            for each in self._listeners.opened:
                each.hold()
        except CannotStart:
            prepared.abandon()
            raise
        self._source = source
        done = prepared.commit()
        if self._loads is not None:
            self._loads.add(self._own.brokers)
        self.crew.reloaded()
        self._certificates.watch(self._connections())
        told = [Deferred.fromCoroutine(_reload(each)) for each in self.crew.workers if each.serves]
        return DeferredList(told).addCallback(lambda _: done)

    def _kill(self) -> None:
        _log.warn("workers that do not end are killed")
        self._each(Worker.kill)

    def _each(self, order: Callable[..., None], *values: Any) -> None:
        for each in self.crew.workers:
            order(each, *values)


async def _reload(worker: Worker) -> None:
    """Let a worker use another configuration. A worker that cannot use it is stopped and started again."""
    why = await worker.reload()
    if why:
        _log.warn(
            "{worker} cannot use the configuration, and is started anew: {why}", worker=worker.name, why=why
        )
        worker.signal("TERM")
