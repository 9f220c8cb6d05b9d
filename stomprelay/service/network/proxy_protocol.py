"""Sends brokers the client's address: the header of the PROXY protocol, version 2, which begins a connection.

The specification is HAProxy's `doc/proxy-protocol.txt`, section 2.2. The header is sent before TLS begins.
"""

from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv6Address, ip_address
from struct import pack
from typing import Any, Final

from twisted.internet import address
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IAddress, IProtocolFactory, IStreamClientEndpoint, ITransport
from zope.interface import directlyProvides, implementer, providedBy

from stomprelay.service.network.layer import SecuredEndpoint

_SIGNATURE: Final = b"\r\n\r\n\0\r\nQUIT\n"
_LOCAL: Final = 0x20
_PROXY: Final = 0x21
_UNSPECIFIED: Final = 0x00
_TCP4: Final = 0x11
_TCP6: Final = 0x21

LOCAL: Final = pack("!12sBBH", _SIGNATURE, _LOCAL, _UNSPECIFIED, 0)
"""The header without addresses. The receiver then uses the addresses of the connection itself."""


def header(source: object, destination: object) -> bytes:
    """Return the header for a client at `source` that connected to `destination`; b"" for addresses that are not IP."""
    if not isinstance(source, _ON_A_NETWORK) or not isinstance(destination, _ON_A_NETWORK):
        return b""
    one, other = _number(source), _number(destination)
    ports = pack("!HH", source.port, destination.port)
    if one.version == other.version == 4:
        octets, family = one.packed + other.packed + ports, _TCP4
    else:
        octets, family = _as_six(one) + _as_six(other) + ports, _TCP6
    return pack("!12sBBH", _SIGNATURE, _PROXY, family, len(octets)) + octets


_ON_A_NETWORK: Final = (address.IPv4Address, address.IPv6Address)


def _number(place: address.IPv4Address | address.IPv6Address) -> IPv4Address | IPv6Address:
    return ip_address(place.host.partition("%")[0])


def _as_six(number: IPv4Address | IPv6Address) -> bytes:
    return number.packed if number.version == 6 else b"\0" * 10 + b"\xff\xff" + number.packed


@implementer(IStreamClientEndpoint)
@dataclass(slots=True, eq=False, repr=False)
class ProxyHeaderEndpoint:
    """Connects with `endpoint`, and first sends `_first`, a header of the PROXY protocol. If `_first` is empty, a
    header with the connection's own addresses is sent, because RabbitMQ 3.10 closes connections whose header is
    `LOCAL`.
    """

    endpoint: IStreamClientEndpoint
    _first: bytes = b""

    def connect(self, protocolFactory: IProtocolFactory) -> Deferred[Any]:
        """Connect; return a Deferred that fires with the protocol."""
        endpoint = self.endpoint
        if isinstance(endpoint, SecuredEndpoint):
            below = ProxyHeaderEndpoint(endpoint.endpoint, self._first)
            secured: Deferred[Any] = replace(endpoint, endpoint=below).connect(protocolFactory)
            return secured
        headed: Any = _Factory(protocolFactory, self._first)
        connected: Deferred[Any] = endpoint.connect(headed)
        return connected.addCallback(lambda headed: headed.protocol)


class _Headed:
    """Sends a header first. Otherwise it behaves as `protocol`."""

    def __init__(self, protocol: Any, first: bytes) -> None:
        self.protocol = protocol
        self._first = first
        directlyProvides(self, providedBy(protocol))

    def makeConnection(self, transport: ITransport) -> None:
        """Write the header, then give the transport to the protocol."""
        transport.write(self._first or header(transport.getHost(), transport.getPeer()) or LOCAL)
        self.protocol.makeConnection(transport)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.protocol, name)


class _Factory:
    """Behaves as another factory, but each of its protocols sends a header first."""

    def __init__(self, factory: IProtocolFactory, first: bytes) -> None:
        self._factory = factory
        self._first = first
        directlyProvides(self, providedBy(factory))

    def buildProtocol(self, addr: IAddress) -> Any:
        """Return a protocol of the other factory that sends the header first; None if that factory returns None."""
        protocol = self._factory.buildProtocol(addr)
        return None if protocol is None else _Headed(protocol, self._first)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._factory, name)
