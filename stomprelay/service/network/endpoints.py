"""Makes services that listen, and endpoints that connect to brokers, from configured endpoint strings."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple

from twisted.application.service import MultiService, Service
from twisted.internet import tcp
from twisted.internet.abstract import isIPAddress, isIPv6Address
from twisted.internet.defer import Deferred, DeferredList, maybeDeferred, succeed
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
    IProtocolNegotiationFactory,
    IStreamClientEndpoint,
    IStreamServerEndpoint,
)
from twisted.internet.protocol import Factory
from twisted.python.failure import Failure
from zope.interface import implementer

from stomprelay.config.address import client, host_and_port, server
from stomprelay.relay.model.group import Broker
from stomprelay.relay.model.listener import ServerTLS
from stomprelay.relay.model.upstream import ClientTLS, Upstream
from stomprelay.service.log import logger
from stomprelay.service.network import sharing, sockets, tls
from stomprelay.service.network.layer import LayerFactory, SecuredEndpoint
from stomprelay.service.network.proxy_protocol import ProxyHeaderEndpoint
from stomprelay.wire.dialect import DIALECTS

BACKLOG: Final = 1024
"""Clients that may wait to be accepted, unless the endpoint sets a number. Twisted's own default is 50."""
WITH_BACKLOG: Final = frozenset({"tcp", "tcp6", "ssl", "tls", "unix"})

PATIENCE: Final = 30.0
"""Seconds after which an attempt to connect to a host name is given up, unless the endpoint sets a time."""
ATTEMPT_DELAY: Final = 0.1
"""Seconds after which a host's next address is tried, too, while earlier attempts continue (RFC 8305, section 5)."""

HTTP: Final = b"http/1.1"
"""The name in ALPN of the protocol with which a WebSocket begins. STOMP itself has no name in ALPN."""

_log: Final = logger()


class BadEndpoint(Exception):
    """An endpoint, or its certificate, cannot be used; the text names the endpoint or file, and gives the reason."""


class CannotStart(SystemExit, Exception):
    """An endpoint cannot be listened on: the process exits with status 1. As a `SystemExit` it prints no traceback. As
    an `Exception` it is reported by `twistd` to the process that waits for the daemon.
    """

    code = 1


@implementer(IProtocolNegotiationFactory)
class NamedFactory(Factory):
    """Makes protocols with `build`, which gets the client's address. If `build` returns None, the connection is closed.
    `name` is in Twisted's log lines. `spoken` are the protocols for ALPN.
    """

    def __init__(self, name: str, build: Callable[[Any], Any], spoken: list[bytes] | None = None) -> None:
        self.buildProtocol = build  # type: ignore[method-assign, assignment]
        self._name = name
        self._spoken = spoken or []

    def acceptableProtocols(self) -> list[bytes]:
        """Return the protocols that clients may choose by ALPN."""
        return self._spoken

    def logPrefix(self) -> str:
        """Return the name in Twisted's log lines."""
        return self._name


@implementer(IProtocolNegotiationFactory)
class Exchangeable(Factory):
    """A factory that passes its calls on to another factory, which can be replaced while ports listen."""

    def __init__(self, factory: Any) -> None:
        self.current = factory

    def exchange(self, factory: Any) -> None:
        """Use this factory from now on. The earlier factory is told that no port uses it any more."""
        before, self.current = self.current, factory
        if self.numPorts:
            factory.doStart()
            before.doStop()

    def startFactory(self) -> None:
        """Tell the factory that a port listens."""
        self.current.doStart()

    def stopFactory(self) -> None:
        """Tell the factory that no port uses it any more."""
        self.current.doStop()

    def acceptableProtocols(self) -> list[bytes]:
        """Return the protocols that clients may choose by ALPN, if the endpoint has its own TLS."""
        current = self.current
        return current.acceptableProtocols() if IProtocolNegotiationFactory.providedBy(current) else []

    def logPrefix(self) -> str:
        """Return this object's name in Twisted's log lines."""
        prefix: str = self.current.logPrefix()
        return prefix

    def buildProtocol(self, addr: IAddress | None) -> Any:
        """Return the protocol of a new client, which the factory builds."""
        return self.current.buildProtocol(addr)


@dataclass(eq=False, repr=False)
class ListeningService(Service):
    """Listens on one endpoint, or raises `CannotStart`. `_made` makes the endpoint; if it gets a descriptor, the
    endpoint uses this socket. `adopted`: another process still accepts from this socket. `secured` makes the TLS
    connections.
    """

    name: str = field()  # Twisted's class has a default
    description: str
    _made: Callable[[int | None], IStreamServerEndpoint]
    factory: Exchangeable
    inherited: InitVar[int | None] = None
    _room: Callable[[], int] | None = None
    secured: tls.TLSConnections | None = None
    adopted: bool = False
    _held: bool = False
    _opened: Deferred[Any] | None = None

    def __post_init__(self, inherited: int | None) -> None:
        self.endpoint = self._made(inherited)

    @property
    def port(self) -> tcp.Port | None:
        """Return the listening port; None if the service does not listen or has no socket of its own."""
        found = getattr(self._opened, "result", None)
        return found if isinstance(found, tcp.Port) else None

    def become(self, other: "ListeningService") -> None:
        """Serve clients as another service of this endpoint, which must not listen: its name, protocols and TLS."""
        self.name = other.name
        self.secured = other.secured
        self.factory.exchange(other.factory.current)

    def privilegedStartService(self) -> None:
        """Listen, or log why not and raise `CannotStart`."""
        try:
            self.listen()
        except CannotStart as error:
            _log.critical("{text}", text=str(error))
            raise

    def listen(self) -> None:
        """Listen, unless the service listens already. Raises `CannotStart`."""
        if self._opened is not None:
            return
        try:
            failures: list[Failure] = []
            self._opened = self.endpoint.listen(self.factory).addErrback(failures.append)
            if failures:
                failures[0].raiseException()
            if self.port is not None:
                # Few clients in a turn. Twisted accepts more and more at once, before unwanted clients can be closed.
                sharing.pace(self.port, sockets.accept(self.port), self._room)
                if self.adopted:
                    self.port.stopReading()
        except (CannotListenError, OSError) as error:
            self._opened = None
            cause = error.socketError if isinstance(error, CannotListenError) else error
            reason = getattr(cause, "strerror", None) or cause
            raise CannotStart(f"{self.name}: cannot listen on {self.description}: {reason}") from error

    def startService(self) -> None:
        """Start the service, and listen unless it listens already."""
        super().startService()
        self.privilegedStartService()

    def stopService(self) -> Deferred[None]:
        """Listen no more. The Deferred fires when the socket is closed."""
        super().stopService()
        if self._opened is None:
            return succeed(None)
        self._opened.cancel()
        return self._opened.addCallback(lambda port: port and port.stopListening())

    def hold(self) -> int:
        """Stop accepting clients. Return the socket's descriptor for other processes. Raises `CannotStart`."""
        port = self.port
        if port is None:
            raise CannotStart(f"{self.name}: {self.description} cannot be shared by several workers")
        self._held = True
        port.stopReading()
        return sharing.share(port)

    def adopt(self, descriptor: int) -> None:
        """Listen on this socket when started. Another process accepts until `keep` is called. Raises `BadEndpoint`."""
        self.endpoint = self._made(descriptor)
        self.adopted = True

    def keep(self) -> None:
        """Own the adopted socket and its path from now on. Accept clients from it, if no workers do that."""
        self.adopted = False
        port = self.port
        if isinstance(port, sharing.InheritedPort):
            port.keep()
        if port is not None and not self._held:
            port.startReading()


class Ports(MultiService):
    """Listens on endpoints from `startService` on. It adds and removes its own services."""

    def __init__(self, services: Sequence[ListeningService]) -> None:
        super().__init__()
        self.opened: list[ListeningService] = []
        self._kept: list[tuple[ListeningService, ListeningService]] = []
        self._closed: list[ListeningService] = []
        for each in services:
            each.setServiceParent(self)

    def prepare(self, wanted: Sequence[ListeningService]) -> None:
        """Find out what has to change so that exactly these services listen; change nothing yet. Sockets of unchanged
        endpoints are kept. `opened` has the services of new endpoints. Call `open`, then `commit` or `abandon`, in the
        same turn of the reactor.
        """
        there = {(each.description, each.name): each for each in self.services}
        # Several listeners may have the same endpoint with port 0: each keeps its own socket.
        kept = [(there.pop(key), each) for each in wanted if (key := (each.description, each.name)) in there]
        opened: list[ListeningService] = []
        for each in wanted:
            if any(each is other for _, other in kept):
                continue
            same = next((key for key in there if key[0] == each.description), None)
            if same is None:
                opened.append(each)
            else:
                kept.append((there.pop(same), each))
        self._kept, self.opened, self._closed = kept, opened, list(there.values())

    def open(self) -> None:
        """Listen on the new endpoints, if the service runs. Raises `CannotStart`; call `abandon` then."""
        if self.running:
            for each in self.opened:
                each.listen()

    def abandon(self) -> None:
        """Close the new endpoints that were opened. Nothing else has changed."""
        for each in self.opened:
            _ = maybeDeferred(each.stopService).addErrback(_failed)

    def commit(self) -> Deferred[None]:
        """Make the changes found by `prepare`. The Deferred fires when the sockets of removed endpoints are closed."""
        ended = [maybeDeferred(each.disownServiceParent).addErrback(_failed) for each in self._closed]
        for running, other in self._kept:
            running.become(other)
        self.namedServices = {each.name: each for each in self.services}
        for each in self.opened:
            each.setServiceParent(self)
        return DeferredList(ended).addCallback(lambda _: None)


def _failed(failure: Failure) -> None:
    _log.failure("an endpoint could not be closed", failure)


def listening_service(
    reactor: Any,
    name: str,
    description: str,
    factory: IProtocolFactory,
    secured: ServerTLS | None = None,
    inherited: int | None = None,
    room: Callable[[], int] | None = None,
) -> ListeningService:
    """Return the service that listens on a Twisted server endpoint string, with TLS inside it if `secured` is given.
    `inherited` is the socket's descriptor, if another process opened the socket; `room` returns how many clients to
    accept. Raises `BadEndpoint`.
    """
    connections: tls.TLSConnections | None = None
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
    return ListeningService(
        name,
        description,
        partial(_server, reactor, description),
        Exchangeable(factory),
        inherited,
        room,
        connections,
    )


def _server(reactor: Any, description: str, inherited: int | None) -> IStreamServerEndpoint:
    """Return the endpoint of a string, on the socket with this descriptor if there is one. Raises `BadEndpoint`."""
    try:
        place, parts = description, server(description)
        if parts.kind in WITH_BACKLOG and "backlog" not in parts.arguments:
            place = f"{description}:backlog={BACKLOG}"
        if inherited is None:
            return serverFromString(reactor, place)  # type: ignore[no-any-return]
        doors = sharing.InheritedSocket(reactor, inherited)
        return serverFromString(doors, sharing.inherited(place))  # type: ignore[no-any-return]
    except Exception as error:
        raise BadEndpoint(f"endpoint {description!r}: {_why(error)}") from error


@implementer(IProtocolFactory)
@dataclass(slots=True, eq=False, repr=False)
class OneProtocol:
    """The factory of one attempt to connect. It returns an existing protocol, or calls `failed`."""

    _protocol: IProtocol | None
    _failed: Callable[[Failure], None] | None

    def buildProtocol(self, addr: IAddress | None) -> IProtocol | None:
        """Return the protocol, and forget it. Transports keep this factory, and would keep the protocol in memory."""
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
        """Separate connector and transport, as Twisted does after a failure; else garbage collection must free both."""
        connector.transport = None


@implementer(IStreamClientEndpoint)
@dataclass(slots=True, eq=False, repr=False)
class AddressEndpoint:
    """Connects to a port of an IP address. `timeout` None: the caller must end the attempt in time. `attempt` is a
    cheaper `connect`, without a Deferred and a second protocol.
    """

    _reactor: Any
    _to: tuple[str, int]
    _timeout: float | None
    _local: tuple[str, int] | None

    def attempt(self, factory: OneProtocol) -> IConnector:
        """Begin to connect. The factory is asked for its protocol, or gets the reason why there is no connection."""
        return self._reactor.connectTCP(  # type: ignore[no-any-return]
            *self._to, factory, timeout=self._timeout, bindAddress=self._local
        )

    def connect(self, factory: IProtocolFactory) -> Deferred[IProtocol]:
        """Connect; return a Deferred that fires with the protocol."""
        endpoint = TCP4ClientEndpoint(self._reactor, *self._to, self._timeout, self._local)  # type: ignore[arg-type]
        return endpoint.connect(factory)


class WebSocketEndpoint(NamedTuple):
    """A server of WebSocket: connect to `endpoint`, then request `path` of `host`, for these versions of STOMP."""

    endpoint: IStreamClientEndpoint
    host: str
    path: str
    versions: Iterable[bytes]


BrokerEndpoint = IStreamClientEndpoint | WebSocketEndpoint


def broker_endpoint(reactor: Any, broker: Broker, upstream: Upstream) -> BrokerEndpoint:
    """Return the endpoint that connects to a broker of this upstream on the network. Raises `BadEndpoint`."""
    endpoint = client_endpoint(reactor, broker, upstream.tls, introduces=upstream.proxy_protocol)
    if broker.path is None:
        return endpoint
    # The port is left out if it is the scheme's default.
    host = (host_and_port(broker) or broker.host).removesuffix(":443" if broker.tls else ":80")
    host = host if host.isascii() else host.encode("idna").decode("ascii")
    return WebSocketEndpoint(endpoint, host, broker.path, upstream.versions or DIALECTS)


def client_endpoint(
    reactor: Any, broker: Broker, secured: ClientTLS, *, introduces: bool = False
) -> IStreamClientEndpoint:
    """Return the endpoint that connects to a broker. `introduces`: return a `ProxyHeaderEndpoint`, which sends a header
    of the PROXY protocol. Raises `BadEndpoint`.
    """
    try:
        endpoint = _client(reactor, broker.endpoint)
        if broker.tls:
            offered = () if broker.path is None else (HTTP,)
            endpoint = SecuredEndpoint(tls.for_broker(secured, broker.host, offered), endpoint, reactor)
    except tls.Unusable as error:
        raise BadEndpoint(f"tls.{error}") from error
    except Exception as error:
        raise BadEndpoint(f"{broker}: {_why(error)}") from error
    return ProxyHeaderEndpoint(endpoint) if introduces else endpoint


def secured_by(endpoint: BrokerEndpoint) -> tls.TLSConnections | None:
    """Return the source of TLS connections of an endpoint to a broker; None without TLS."""
    inner = endpoint
    while isinstance(inner, WebSocketEndpoint | ProxyHeaderEndpoint):
        inner = inner.endpoint
    if isinstance(inner, SecuredEndpoint) and isinstance(inner.creator, tls.TLSConnections):
        return inner.creator
    return None


def _client(reactor: Any, description: str) -> IStreamClientEndpoint:
    """Return the client endpoint of a string. The relay makes `tcp:`, `ssl:` and `tls:` itself: Twisted's `tcp:` finds
    only IPv4 addresses, and its TLS accepts a certificate without a name.
    """
    parts = client(description)
    if parts.kind == "tcp":
        return _tcp(reactor, parts.arguments)
    if parts.kind in ("ssl", "tls"):
        return _tls(reactor, parts.arguments)
    return clientFromString(reactor, description)  # type: ignore[no-any-return]


def _tcp(reactor: Any, arguments: Mapping[str, str]) -> IStreamClientEndpoint:
    host, port = arguments["host"], int(arguments["port"])
    timeout = float(arguments["timeout"]) if "timeout" in arguments else None
    local = (arguments["bindAddress"], 0) if "bindAddress" in arguments else None
    if isIPAddress(host) or isIPv6Address(host):
        return AddressEndpoint(reactor, (host, port), timeout, local)
    return HostnameEndpoint(
        reactor, host, port, PATIENCE if timeout is None else timeout, local, ATTEMPT_DELAY
    )


def _tls(reactor: Any, arguments: Mapping[str, str]) -> IStreamClientEndpoint:
    def path(*names: str) -> str | None:
        # The files may be loaded again while the process is in another folder.
        return next((os.path.abspath(arguments[name]) for name in names if name in arguments), None)

    secured = ClientTLS(
        ca=path("caCertsDir", "trustRoots"),
        certificate=path("certKey", "certificate"),
        key=path("privateKey"),
        name=arguments.get("hostname"),
    )
    inner = arguments.get("endpoint")
    within = _tcp(reactor, arguments) if inner is None else _client(reactor, inner)
    return SecuredEndpoint(tls.for_broker(secured, arguments["host"]), within, reactor)


def _why(error: Exception) -> str:
    """Return why parsing failed. Twisted's parsers do not catch exceptions, so any exception can occur."""
    text = " ".join(str(error).split())
    if isinstance(error, (IndexError, KeyError)):
        return f"systemd passed no such socket ({text})"
    return text or type(error).__name__
