"""The application of `twistd stompbroker`, and its options."""

from typing import Any

from twisted.application.service import IService

from stomprelay.service.embedded import BrokerService
from stomprelay.service.network.endpoints import BadEndpoint
from stomprelay.service.process import keep_freed_memory, raise_descriptor_limit
from stomprelay.tap import ListenOptions

DEFAULT = "tcp:61613:interface=127.0.0.1"


class Options(ListenOptions):
    """The command line of `twistd stompbroker`."""

    synopsis = "[options]"
    longdesc = (
        "A STOMP broker that keeps everything in memory, for development and tests. It asks for no password. "
        f"Without any option it listens on {DEFAULT}."
    )


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
