"""The application of `twistd stomprelay`, and its options."""

import sys
from typing import Any

from twisted.application.service import IService
from twisted.python import usage

import stomprelay
from stomprelay import config
from stomprelay.cli import hold
from stomprelay.config.change import ConfigSource
from stomprelay.service.network.endpoints import BadEndpoint
from stomprelay.service.run import chosen_reactor, make


class ListenOptions(usage.Options):
    """What the command lines of the relay and of the broker have in common: `--listen` and `--version`."""

    def __init__(self) -> None:
        super().__init__()
        self["listen"] = []

    def opt_listen(self, endpoint: str) -> None:
        """Add an endpoint at which clients connect."""
        self["listen"].append(endpoint)

    opt_listen.__doc__ = config.OPTIONS["listen"].meaning
    opt_l = opt_listen

    def opt_version(self) -> None:
        """Show the version of stomprelay, and exit."""
        sys.stdout.write(f"stomprelay {stomprelay.__version__}\n")
        sys.exit(0)


class Options(ListenOptions):
    """The command line of `twistd stomprelay`."""

    synopsis = "[options]"
    longdesc = (
        "Relays STOMP clients to STOMP brokers. Without any option: clients of this machine on port 61613, "
        "to a broker in memory. Options win over the file."
    )
    optParameters = [
        ["config", "c", None, "Configuration file (TOML)."],
        *(
            [name.replace("_", "-"), option.letter, None, option.meaning]
            for name, option in config.OPTIONS.items()
            if name != "listen"
        ),
    ]

    optFlags = [
        [
            "take-over",
            None,
            "Take the listening sockets of the relay that runs at `handover`, which then stops.",
        ],
    ]

    def __init__(self) -> None:
        hold()
        super().__init__()

    def postOptions(self) -> None:
        """Read the configuration, so that its errors are shown like errors of the command line."""
        given = {name: self[name.replace("_", "-")] for name in config.OPTIONS}
        try:
            self.source = ConfigSource.of(self["config"], given)
            self.configuration = self.source.read()
        except config.ConfigError as error:
            raise usage.UsageError(str(error)) from error


def makeService(options: Options, reactor: Any = None) -> IService:
    """Return the service that `twistd` runs: the relay that the options describe, or the parent of its workers."""
    if reactor is None:
        reactor = chosen_reactor()
    try:
        return make(options.configuration, options.source, reactor, taking_over=bool(options["take-over"]))
    except (BadEndpoint, config.ConfigError) as error:
        raise SystemExit(f"stomprelay: {error}") from error
