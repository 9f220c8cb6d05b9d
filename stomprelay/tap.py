"""What `twistd stomprelay` runs, and its options."""

import sys
from contextlib import suppress
from typing import Any

from twisted.application.service import IService
from twisted.python import usage

from stomprelay import config
from stomprelay.service.network.endpoints import BadEndpoint
from stomprelay.service.process import keep_freed_memory, raise_descriptor_limit
from stomprelay.service.relay import RelayService


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
        given: dict[str, Any] = {name: self[name] for name in ("listen", "upstream", "admin", "journal")}
        try:
            if self["config"] is None:
                self.configuration = config.default(**given)
            else:
                self.configuration = config.overridden(config.load(self["config"]), **given)
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
    """Return the service that `twistd` runs: the relay that the options describe."""
    if reactor is None:
        reactor = _reactor()
    keep_freed_memory()
    try:
        return RelayService(options.configuration, reactor, descriptors=raise_descriptor_limit())
    except BadEndpoint as error:
        raise SystemExit(f"stomprelay: {error}") from error
