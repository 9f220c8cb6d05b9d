"""A relay as a process: its reactor, its service, and what `stomprelay run` does beside `twistd`."""

import os
import platform
import sys
from contextlib import suppress
from typing import Any, Final

from twisted.application.service import IService
from twisted.python.reflect import qual

import stomprelay
from stomprelay.config import Config
from stomprelay.config.source import Source
from stomprelay.service.log import begin, logger
from stomprelay.service.process import collect_rarely, keep_freed_memory, raise_descriptor_limit, start
from stomprelay.service.relay import RelayService

_log: Final = logger()


def chosen_reactor() -> Any:
    """Return the reactor of this process: the one that is installed, as by `twistd --reactor`, else ours where the
    system has epoll.
    """
    if "twisted.internet.reactor" not in sys.modules:
        with suppress(ImportError):
            from stomprelay.service.connection.reactor import install

            install()
    from twisted.internet import reactor

    return reactor


def make(config: Config, source: Source, reactor: Any) -> IService:
    """Return the service of a configuration, which was read from `source`: a relay, or the parent of its workers.
    Raises `BadEndpoint`.
    """
    keep_freed_memory()
    if config.workers > 1:
        # What only a parent needs is not loaded where there is none.
        from stomprelay.service.workers.service import WorkersService

        return WorkersService(config, source, reactor)
    service = RelayService(config, reactor, descriptors=raise_descriptor_limit(), source=source)
    collect_rarely()
    return service


def run(source: Source, form: str) -> int | None:
    """Run the relay that `source` describes, with its log in this form on standard error, until a signal ends it;
    return the number of that signal, or None. The caller then ends this process by it. Raises `ConfigError` and
    `BadEndpoint`, before anything is logged, and `CannotStart`, whose line is in the log.
    """
    config = source.read()
    reactor = chosen_reactor()
    service = make(config, source, reactor)
    begin(form)
    _log.info(
        "stomprelay {version}, process {process}, Python {python}, reactor class: {reactor}.",
        version=stomprelay.__version__,
        process=os.getpid(),
        python=platform.python_version(),
        reactor=qual(type(reactor)),
    )
    start(service, reactor)
    reactor.run()
    # This relies on an attribute of Twisted's, as `twistd` does, and the tests hold Twisted to it.
    ended: int | None = reactor._exitSignal
    return ended
