"""What `twistd stomprelay` runs, and its options."""

import sys
from contextlib import suppress
from typing import Any

from twisted.application.service import IService
from twisted.python import usage

from stomprelay import config
from stomprelay.service.network.endpoints import BadEndpoint
from stomprelay.service.process import collect_rarely, keep_freed_memory, raise_descriptor_limit
from stomprelay.service.relay import RelayService
from stomprelay.service.workers.plan import Source


class Options(usage.Options):
    """The command line of `twistd stomprelay`."""

    synopsis = "[options]"
    longdesc = (
        "Relays STOMP clients to STOMP brokers. Without any option: clients of this machine on port 61613, "
        "to a broker in memory. Options win over the file."
    )
    optParameters = [
        ["config", "c", None, "Configuration file (TOML)."],
        [
            "upstream",
            "u",
            None,
            "Where to relay to: tcp://host:port, ssl://host:port, failover:(tcp://a,tcp://b), fanout:(...), memory:",
        ],
        [
            "admin",
            None,
            None,
            "Endpoint for health, metrics and a status page, e.g. tcp:61680:interface=127.0.0.1",
        ],
        ["journal", None, None, "Folder for a journal of what passes."],
        ["workers", None, None, "How many processes serve the clients, best one a core."],
    ]

    def __init__(self) -> None:
        super().__init__()
        self["listen"] = []

    def opt_listen(self, endpoint: str) -> None:
        """Where clients come in, e.g. tcp:61613. May be given several times."""
        self["listen"].append(endpoint)

    opt_l = opt_listen

    def postOptions(self) -> None:
        """Read the configuration, so that a mistake in it is shown as one of the command line."""
        given = {name: self[name] for name in ("listen", "upstream", "admin", "journal", "workers")}
        try:
            self.source = Source.of(self["config"], given)
            self.configuration = self.source.read()
        except config.ConfigError as error:
            raise usage.UsageError(str(error)) from error


def _reactor() -> Any:
    """Return the reactor of this process: the one that `--reactor` chose, else ours where the system has epoll."""
    if "twisted.internet.reactor" not in sys.modules:
        with suppress(ImportError):
            from stomprelay.service.connection.reactor import install

            install()
    from twisted.internet import reactor

    return reactor


def makeService(options: Options, reactor: Any = None) -> IService:
    """Return the service that `twistd` runs: the relay that the options describe, or the parent of its workers."""
    if reactor is None:
        reactor = _reactor()
    keep_freed_memory()
    try:
        if options.configuration.workers > 1:
            # What only a parent needs is not loaded where there is none.
            from stomprelay.service.workers.service import WorkersService

            return WorkersService(options.configuration, options.source, reactor)
        service = RelayService(options.configuration, reactor, descriptors=raise_descriptor_limit())
    except BadEndpoint as error:
        raise SystemExit(f"stomprelay: {error}") from error
    collect_rarely()
    return service
