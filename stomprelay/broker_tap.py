"""The application of `twistd stompbroker`, and its options."""

import sys
from typing import Any

from twisted.application.service import IService
from twisted.python import usage

import stomprelay
from stomprelay.service.embedded import BrokerService
from stomprelay.service.network.endpoints import BadEndpoint
from stomprelay.service.process import keep_freed_memory, raise_descriptor_limit

DEFAULT = "tcp:61613:interface=127.0.0.1"


class Options(usage.Options):
    """The command line of `twistd stompbroker`."""

    synopsis = "[options]"
    longdesc = (
        "A STOMP broker that keeps everything in memory, for development and tests. It asks for no password. "
        f"Without any option it listens on {DEFAULT}."
    )

    def __init__(self) -> None:
        super().__init__()
        self["listen"] = []

    def opt_listen(self, endpoint: str) -> None:
        """Where clients connect, e.g. tcp:61613. May be given several times."""
        self["listen"].append(endpoint)

    opt_l = opt_listen

    def opt_version(self) -> None:
        """Show the version of stomprelay, and exit."""
        sys.stdout.write(f"stomprelay {stomprelay.__version__}\n")
        sys.exit(0)


def makeService(options: Options, reactor: Any = None) -> IService:
    """Return the service that `twistd` runs: the broker that the options describe."""
    if reactor is None:
        from twisted.internet import reactor
    keep_freed_memory()
    raise_descriptor_limit()
    try:
        return BrokerService(reactor, listen=options["listen"] or [DEFAULT])
    except BadEndpoint as error:
        raise SystemExit(f"stompbroker: {error}") from error
