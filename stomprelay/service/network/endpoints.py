"""From configured endpoint strings to services that listen and to endpoints that connect to brokers."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from twisted.application.internet import StreamServerEndpointService
from twisted.internet import tcp
from twisted.internet.abstract import isIPAddress, isIPv6Address
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import (
    HostnameEndpoint,
    TCP4ClientEndpoint,
    clientFromString,
    serverFromString,
)
from twisted.internet.error import CannotListenError
from twisted.internet.interfaces import (
    IAddress,
    IConnector,
    IProtocol,
    IProtocolFactory,
    IStreamClientEndpoint,
    IStreamServerEndpoint,
)
from twisted.python.failure import Failure
from zope.interface import implementer

from stomprelay.config.endpoint import client, server
from stomprelay.relay.model.group import Broker
from stomprelay.relay.model.listener import ServerTLS
from stomprelay.relay.model.upstream import ClientTLS
from stomprelay.service.log import logger
from stomprelay.service.network import sharing, sockets, tls
from stomprelay.service.network.layer import LayerFactory, SecuredEndpoint

BACKLOG: Final = 1024
"""Clients that may wait to be accepted, where the endpoint does not set it; Twisted's own default is 50."""
ACCEPTED: Final = 16
"""Clients that a listener accepts in one turn of the reactor."""
WITH_BACKLOG: Final = frozenset({"tcp", "tcp6", "ssl", "tls", "unix"})

ATTEMPT_DELAY: Final = 0.1
"""Seconds after which the next address of a host is tried beside the one before (RFC 8305, section 5)."""

_log: Final = logger()


class BadEndpoint(Exception):
    """An endpoint, or a certificate for it, that cannot be used; its text names it and the reason."""


class CannotStart(SystemExit, Exception):
    """An endpoint cannot be listened on, and the process ends with status 1.

    As an exit it shows no traceback: its line is in the log. As an exception it is one of those that `twistd` reports
    to the process that waits for the daemon to start.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.code = 1


class ListeningService(StreamServerEndpointService):
    """Listens on one endpoint. Where it cannot listen it cannot be started. `secured` makes its TLS connections, where
    it has TLS that is not the endpoint's own.
    """

    # By default Twisted only logs it, and runs on without the port.
    _raiseSynchronously = True

    def __init__(
        self,
        name: str,
        description: str,
        endpoint: IStreamServerEndpoint,
        factory: Any,
        room: Callable[[], int] | None = None,
        secured: tls.TLSConnections | None = None,
    ) -> None:
        super().__init__(endpoint, factory)
        self.setName(name)
        self.description = description
        self.secured = secured
        self._room = room

    def privilegedStartService(self) -> None:
        """Listen, or raise `CannotStart`."""
        try:
            super().privilegedStartService()
            self._accept_few()
        except (CannotListenError, OSError) as error:
            cause = error.socketError if isinstance(error, CannotListenError) else error
            reason = getattr(cause, "strerror", None) or cause
            text = f"{self.name}: cannot listen on {self.description}: {reason}"
            _log.critical("{text}", text=text)
            raise CannotStart(text) from error

    def hold(self) -> int:
        """Accept nobody from now on, and return the descriptor of the socket, for other processes that do. Raises
        `CannotStart` for an endpoint that has none.
        """
        port = getattr(self._waitingForPort, "result", None)
        if not isinstance(port, tcp.Port):
            text = f"{self.name}: {self.description} cannot be shared by several workers"
            _log.critical("{text}", text=text)
            raise CannotStart(text)
        return sharing.hold(port)

    def _accept_few(self) -> None:
        """Accept `ACCEPTED` clients at most in a turn of the reactor. Twisted begins with a hundred and takes ever more
        of them, all before the first one that is not wanted can be closed.
        """
        port = getattr(self._waitingForPort, "result", None)
        if not isinstance(port, tcp.Port):
            return
        accept = sockets.accept(port)
        port.doRead = accept  # type: ignore[method-assign]

        def paced() -> None:
            port.numberAccepts = ACCEPTED
            accept()

        paced_by = paced if self._room is None else sharing.considerate(port, self._room)
        port.doRead = paced_by  # type: ignore[method-assign]


def listening_service(
    reactor: Any,
    name: str,
    description: str,
    factory: IProtocolFactory,
    secured: ServerTLS | None = None,
    inherited: int | None = None,
    room: Callable[[], int] | None = None,
) -> ListeningService:
    """Return the service that listens on a Twisted server endpoint string, with TLS inside it where `secured` is
    given. `inherited` is the descriptor of the endpoint's socket where another process opened it; `room`: how many
    clients to accept before another process that does so, too.

    Inside: `haproxy:tcp:61614` with TLS reads the PROXY header first, in plain text. Raises `BadEndpoint`.
    """
    connections: tls.TLSConnections | None = None
    try:
        place = _with_backlog(description)
        if inherited is None:
            endpoint = serverFromString(reactor, place)
        else:
            doors = sharing.InheritedSocket(reactor, inherited)
            endpoint = serverFromString(doors, sharing.inherited(place))
    except Exception as error:
        raise BadEndpoint(f"endpoint {description!r}: {_why(error)}") from error
    if secured is not None:
        if description.startswith(("ssl:", "tls:")):
            raise BadEndpoint(
                f"endpoint {description!r} has TLS of its own: leave out the tls table, or say tcp:"
            )
        try:
            connections = tls.for_listener(secured)
        except tls.Unusable as error:
            raise BadEndpoint(f"tls.{error}") from error
        factory = LayerFactory(connections, False, factory, reactor)
    return ListeningService(name, description, endpoint, factory, room, connections)


def _with_backlog(description: str) -> str:
    """Return the endpoint string with `BACKLOG` added, where it sets no backlog."""
    parts = server(description)
    if parts.kind in WITH_BACKLOG and "backlog" not in parts.arguments:
        return f"{description}:backlog={BACKLOG}"
    return description


@implementer(IProtocolFactory)
class OneProtocol:
    """The factory of one attempt to connect: it returns a protocol that was made before. `failed` is called where
    `AddressEndpoint.attempt` comes to nothing.
    """

    __slots__ = ("_failed", "_protocol")

    def __init__(self, protocol: IProtocol, failed: Callable[[Failure], None]) -> None:
        self._protocol: IProtocol | None = protocol
        self._failed: Callable[[Failure], None] | None = failed

    def buildProtocol(self, addr: IAddress | None) -> IProtocol | None:
        """Return the protocol, and forget it: transports keep their factory."""
        protocol, self._protocol = self._protocol, None
        self._failed = None
        return protocol

    def doStart(self) -> None:
        """Do nothing; Twisted calls it before the attempt."""

    def doStop(self) -> None:
        """Do nothing; Twisted calls it after the attempt."""

    def startedConnecting(self, connector: object) -> None:
        """Do nothing; Twisted calls it when the attempt has begun."""

    def clientConnectionFailed(self, connector: object, reason: Failure) -> None:
        """Report that the attempt failed."""
        if self._failed is not None:
            self._failed(reason)

    def clientConnectionLost(self, connector: Any, reason: Failure) -> None:
        """Part the connector from its transport, as Twisted does after an attempt that failed: else both wait for the
        garbage collector. The protocol got `connectionLost`.
        """
        connector.transport = None


@implementer(IStreamClientEndpoint)
class AddressEndpoint:
    """Connects to a port of an IP address, of version 4 or 6; `timeout` in seconds, `local` is what is bound to first.

    `attempt` does what `connect` does, without the Deferred and the second protocol that an endpoint puts around each
    connection: whoever connects a thousand sessions has no use for them.
    """

    def __init__(
        self, reactor: Any, host: str, port: int, timeout: float, local: tuple[str, int] | None
    ) -> None:
        self._reactor = reactor
        self._to = (host, port)
        self._timeout = timeout
        self._local = local

    def attempt(self, factory: OneProtocol) -> IConnector:
        """Begin to connect. The factory is asked for its protocol, or told why there is no connection."""
        return self._reactor.connectTCP(  # type: ignore[no-any-return]
            *self._to, factory, timeout=self._timeout, bindAddress=self._local
        )

    def connect(self, factory: IProtocolFactory) -> Deferred[IProtocol]:
        """Connect; return a Deferred that fires with the protocol."""
        endpoint = TCP4ClientEndpoint(self._reactor, *self._to, self._timeout, self._local)
        return endpoint.connect(factory)


def client_endpoint(reactor: Any, broker: Broker, secured: ClientTLS) -> IStreamClientEndpoint:
    """Return the endpoint that connects to a broker on the network. Raises `BadEndpoint` where the string or a TLS
    file cannot be used.
    """
    try:
        endpoint = _client(reactor, broker.endpoint)
        if broker.tls:
            endpoint = SecuredEndpoint(tls.for_broker(secured, broker.host), endpoint, reactor)
    except tls.Unusable as error:
        raise BadEndpoint(f"tls.{error}") from error
    except Exception as error:
        raise BadEndpoint(f"{broker}: {_why(error)}") from error
    return endpoint


def _client(reactor: Any, description: str) -> IStreamClientEndpoint:
    """Return the client endpoint that a string describes. Raises what Twisted's parser raises.

    Twisted's own `tcp:` resolves host names to IPv4 addresses only, and its `ssl:` and `tls:` accept a certificate
    that has no name in it at all.
    """
    parts = client(description)
    if parts.kind == "tcp":
        return _tcp(reactor, parts.arguments)
    if parts.kind in ("ssl", "tls"):
        return _tls(reactor, parts.arguments)
    return clientFromString(reactor, description)  # type: ignore[no-any-return]


def _tcp(reactor: Any, arguments: Mapping[str, str]) -> IStreamClientEndpoint:
    host, port = arguments["host"], int(arguments["port"])
    timeout = float(arguments.get("timeout", "30"))
    local = (arguments["bindAddress"], 0) if "bindAddress" in arguments else None
    if isIPAddress(host) or isIPv6Address(host):
        return AddressEndpoint(reactor, host, port, timeout, local)
    return HostnameEndpoint(reactor, host, port, timeout, local, ATTEMPT_DELAY)


def _tls(reactor: Any, arguments: Mapping[str, str]) -> IStreamClientEndpoint:
    secured = ClientTLS(
        ca=arguments.get("caCertsDir", arguments.get("trustRoots")),
        certificate=arguments.get("certKey", arguments.get("certificate")),
        key=arguments.get("privateKey"),
        name=arguments.get("hostname"),
    )
    inner = arguments.get("endpoint")
    within = _tcp(reactor, arguments) if inner is None else _client(reactor, inner)
    return SecuredEndpoint(tls.for_broker(secured, arguments["host"]), within, reactor)


def _why(error: Exception) -> str:
    """Return why parsing failed, in words, for any exception: Twisted's parsers let all of them through."""
    text = " ".join(str(error).split())
    if isinstance(error, (IndexError, KeyError)):
        return f"systemd passed no such socket ({text})"
    return text or type(error).__name__
