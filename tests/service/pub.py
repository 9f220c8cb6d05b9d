"""The embedded broker as a service on a reactor in memory, and the clients that a test plays."""

from typing import Any

from twisted.internet.address import UNIXAddress
from twisted.internet.testing import MemoryReactorClock

from stomprelay.broker.bounds import Bounds
from stomprelay.service.embedded import BrokerService
from tests.service.house import CONNECT, Wire


class Pub:
    """A running broker service. `bounds` are keyword arguments of `Bounds`; time passes by `reactor.advance`."""

    def __init__(self, *endpoints: str, **bounds: Any) -> None:
        self.reactor = MemoryReactorClock()
        places = endpoints or ("tcp:61613",)
        self.service = BrokerService(self.reactor, Bounds(**bounds), places, self.reactor.seconds)
        self.service.privilegedStartService()
        self.service.startService()

    def caller(self, door: int = 0) -> Wire:
        """A client that connected its socket and said nothing yet."""
        wire = Wire(self.reactor.tcpServers[door][1].buildProtocol(UNIXAddress(None)))
        wire.protocol.makeConnection(wire)
        return wire

    def client(self, door: int = 0, connect: bytes = CONNECT) -> Wire:
        """A client that was answered CONNECTED."""
        wire = self.caller(door)
        wire.says(connect)
        assert wire.written().startswith(b"CONNECTED\n")
        return wire

    def subscriber(self, destination: bytes = b"/queue/a", ack: bytes = b"auto") -> Wire:
        """A client that is subscribed."""
        wire = self.client()
        wire.says(b"SUBSCRIBE\nid:0\ndestination:%b\nack:%b\n\n\0" % (destination, ack))
        return wire
