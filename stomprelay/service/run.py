"""A relay as a process: its reactor, its service, and what `stomprelay run` does beside `twistd`."""

import os
import platform
import signal
import sys
from contextlib import suppress
from functools import partial
from typing import Any, Final

from twisted.application.service import IService
from twisted.internet.error import ReactorNotRunning
from twisted.python.reflect import qual

import stomprelay
from stomprelay.config import Config, ConfigError
from stomprelay.config.change import ConfigSource
from stomprelay.config.config import COMMAND_LINE
from stomprelay.service.log import begin, logger
from stomprelay.service.process import (
    HURRY,
    Signals,
    collect_rarely,
    keep_freed_memory,
    raise_descriptor_limit,
    start,
)
from stomprelay.service.relay import RelayService

_log: Final = logger()


def chosen_reactor() -> Any:
    """Return the reactor of this process: the installed one; otherwise a `RelayReactor`, if the system has epoll."""
    if "twisted.internet.reactor" not in sys.modules:
        with suppress(ImportError):
            from stomprelay.service.connection.reactor import install

            install()
    from twisted.internet import reactor

    return reactor


def make(config: Config, source: ConfigSource, reactor: Any, *, taking_over: bool = False) -> IService:
    """Return the service for a configuration from `source`: a relay, or the parent of its workers. `taking_over`: the
    service takes the sockets of the running relay. Raises `BadEndpoint` or `ConfigError`.
    """
    if taking_over and config.handover is None:
        raise ConfigError(
            f"{COMMAND_LINE}: --take-over: needs handover in the configuration, which is missing"
        )
    keep_freed_memory()
    service: Any
    if config.workers > 1:
        # The modules for a parent of workers are loaded only if they are needed.
        from stomprelay.service.workers.service import WorkersService

        service = WorkersService(config, source, reactor)
    else:
        service = RelayService(config, reactor, descriptors=raise_descriptor_limit(), source=source)
    if config.handover is not None:
        from stomprelay.service.handover import Handover

        handover = Handover(config.handover, service, reactor)
        handover.setServiceParent(service)
        taken = handover.take_over() if taking_over else None
        if taken is not None:
            taken.setServiceParent(service.when_ready)
    if config.workers == 1:
        collect_rarely()
    return service  # type: ignore[no-any-return]


def run(source: ConfigSource, form: str, *, taking_over: bool = False) -> int | None:
    """Run the relay of `source`, with its log on standard error in this form. Return the number of the signal that
    ended it, or None. Raises `ConfigError`, `BadEndpoint` or `CannotStart`.
    """
    config = source.read()
    reactor = chosen_reactor()
    service = make(config, source, reactor, taking_over=taking_over)
    begin(form)
    _log.info(
        "stomprelay {version}, process {process}, Python {python}, reactor class: {reactor}.",
        version=stomprelay.__version__,
        process=os.getpid(),
        python=platform.python_version(),
        reactor=qual(type(reactor)),
    )
    ended: list[int] = []

    def end(name: str) -> None:
        ended.append(signal.Signals[name])
        with suppress(ReactorNotRunning):  # it stops already
            reactor.stop()

    start(service, reactor)
    reactor.callWhenRunning(Signals(reactor, {name: partial(end, name) for name in HURRY}).startService)
    reactor.run()
    return ended[-1] if ended else None
