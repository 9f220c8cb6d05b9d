"""TLS in large steps: what came together is given together, what is written is sent at once, all else is as ever."""

import struct
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from OpenSSL import SSL
from twisted.internet.interfaces import IHandshakeListener, IOpenSSLServerConnectionCreator
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.internet.task import Clock
from twisted.protocols.tls import TLSMemoryBIOFactory, TLSMemoryBIOProtocol
from twisted.python.failure import Failure
from zope.interface import implementer

from stomprelay.service.connection.protocol import LegProtocol
from stomprelay.service.network import tls
from stomprelay.service.network.layer import PIECE, RECORD, Layer, LayerFactory
from stomprelay.service.network.sockets import READ
from stomprelay.session.leg import Leg, LegState, Side
from stomprelay.wire.frame import Limits
from tests.e2e.certificates import Authority
from tests.service.certificates import serving
from tests.service.harness import FakeTransport
from tests.service.scripted import DriverHarness

LARGE = bytes(range(256)) * 1000
"""More than one piece, and no whole number of records."""


@implementer(IHandshakeListener)
class Heard(Protocol):
    """What a protocol is told through TLS, in order."""

    def __init__(self) -> None:
        self.told: list[Any] = []

    def handshakeCompleted(self) -> None:
        self.told.append("established")

    def dataReceived(self, data: bytes) -> None:
        self.told.append(data)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self.told.append(type(reason.value).__name__)


class Client:
    """The other end: OpenSSL alone, in memory."""

    def __init__(self, newest: int = SSL.TLS1_3_VERSION) -> None:
        context = SSL.Context(SSL.TLS_METHOD)
        context.set_max_proto_version(newest)
        self.tls = SSL.Connection(context, None)
        self.tls.set_connect_state()

    def hears(self, wire: bytes) -> bytes:
        """What it reads of these bytes."""
        if wire:
            self.tls.bio_write(wire)
        read = b""
        try:
            while True:
                read += self.tls.recv(RECORD)
        except (SSL.WantReadError, SSL.ZeroReturnError):
            return read

    def says(self, *words: bytes) -> bytes:
        """What it has for the wire after the handshake, each of these in records of its own."""
        for one in words:
            for at in range(0, len(one), RECORD):
                self.tls.send(one[at : at + RECORD])
        return self.wire()

    def wire(self) -> bytes:
        """What it has for the wire."""
        wire = b""
        try:
            while True:
                wire += self.tls.bio_read(1 << 16)
        except SSL.WantReadError:
            return wire


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> tls.TLSConnections:
    """What makes a listener's connections."""
    return tls.for_listener(serving(Authority(tmp_path_factory.mktemp("layer"), "authority").issue("server")))


PROTOCOL: Any = None
"""Our connections do not look at the protocol that asks for them."""


def above(
    server: Any, protocol: Protocol, clock: Clock, factory: type[TLSMemoryBIOFactory] = LayerFactory
) -> Any:
    """A layer of TLS, and this protocol above it."""
    return factory(server, False, Factory.forProtocol(lambda: protocol), clock).buildProtocol(None)


class Secured:
    """A protocol with TLS on a transport in memory, and the client of it."""

    def __init__(
        self, server: Any, newest: int = SSL.TLS1_3_VERSION, factory: type[TLSMemoryBIOFactory] = LayerFactory
    ) -> None:
        self.heard = Heard()
        self.clock = Clock()
        self.layer = above(server, self.heard, self.clock, factory)
        self.transport = FakeTransport(self.layer)
        self.client = Client(newest)
        self.layer.makeConnection(self.transport)

    def shake(self) -> "Secured":
        """Complete the handshake."""
        assert self.client.hears(b"") == b""
        self.layer.dataReceived(self.client.wire())
        self.client.hears(self.transport.written())
        self.layer.dataReceived(self.client.wire())
        self.client.hears(self.transport.written())
        assert self.heard.told == ["established"]
        self.heard.told.clear()
        return self


@pytest.fixture(params=[SSL.TLS1_2_VERSION, SSL.TLS1_3_VERSION], ids=["1.2", "1.3"])
def secured(server: tls.TLSConnections, request: pytest.FixtureRequest) -> Secured:
    """A connection after its handshake."""
    return Secured(server, newest=request.param).shake()


# Received


def test_records_that_come_together_are_given_together(secured: Secured) -> None:
    """However many there are, and however many pieces OpenSSL got them in."""
    secured.layer.dataReceived(secured.client.says(b"one", b"two", b"three"))
    secured.layer.dataReceived(secured.client.says(LARGE, b"four"))
    assert secured.heard.told == [b"onetwothree", LARGE + b"four"]


def test_openssl_is_given_pieces(secured: Secured, monkeypatch: pytest.MonkeyPatch) -> None:
    """It keeps memory for as much as it was given at once, for as long as the connection is there."""
    given: list[int] = []
    give = SSL.Connection.bio_write

    def counted(connection: SSL.Connection, data: Any) -> int:
        given.append(len(data))
        return give(connection, data)

    wire = secured.client.says(LARGE)
    monkeypatch.setattr(SSL.Connection, "bio_write", counted)
    secured.layer.dataReceived(wire)
    assert secured.heard.told == [LARGE]
    assert max(given) == PIECE
    assert sum(given) == len(wire)


def test_a_part_of_a_record_is_a_sign_of_life(secured: Secured) -> None:
    """The driver is told of it, without bytes."""
    driver, leg = DriverHarness().driver, Leg(Side.DOWNSTREAM, Limits())
    protocol = secured.layer.wrappedProtocol = LegProtocol(driver, leg)
    protocol.makeConnection(secured.layer)
    leg.state = LegState.CONNECTED
    driver.told.clear()
    wire = secured.client.says(b"hello")
    secured.layer.dataReceived(wire[:9])
    secured.layer.dataReceived(wire[9:])
    assert driver.told == [("received", Side.DOWNSTREAM, data) for data in (b"", b"hello")]


# Written


def test_all_records_are_written_together(secured: Secured, monkeypatch: pytest.MonkeyPatch) -> None:
    """One write for what is many records, of the largest size there is."""
    writes: list[bytes] = []
    monkeypatch.setattr(secured.transport, "write", writes.append)
    secured.layer.write(b"hello")
    secured.layer.write(LARGE)
    hello, large = writes
    assert secured.client.hears(hello) == b"hello"
    assert RECORD < lengths(large)[0] < RECORD + 32  # its tag, and what else the version puts in
    assert len(lengths(large)) == -(-len(LARGE) // RECORD)
    assert secured.client.hears(large) == LARGE


def test_on_a_socket(secured: Secured) -> None:
    """It is sent to at once; a read that filled its buffer makes that larger; an abort says nothing more."""
    sent: list[bytes] = []
    socket: Any = SimpleNamespace(bufferSize=PIECE)
    secured.layer.send_by(socket, lambda _, data: sent.append(data), READ)
    secured.layer.write(LARGE)
    assert secured.client.hears(b"".join(sent)) == LARGE
    assert len(sent) == 1
    secured.layer.dataReceived(secured.client.says(LARGE))
    assert socket.bufferSize == READ
    secured.layer.abortConnection()
    assert (len(sent), secured.transport.ends) == (1, ["abort"])


def lengths(wire: bytes) -> list[int]:
    """The lengths of the records."""
    found = []
    while wire:
        (length,) = struct.unpack_from("!H", wire, 3)
        found.append(length)
        wire = wire[5 + length :]
    return found


# Twisted


STEPS = st.one_of(
    st.tuples(st.just("says"), st.lists(st.integers(1, 3 * PIECE), min_size=1, max_size=4)),
    st.tuples(st.just("writes"), st.integers(1, 3 * PIECE)),
)
ENDS = st.tuples(st.sampled_from(["shuts", "damages", "loses", "aborts", "breaks"]), st.just(0))


def plays(server: Any, factory: type[TLSMemoryBIOFactory], script: Any, cut: int) -> Any:
    """What becomes of a script, cut into pieces of so many bytes: what the protocol heard, what the client read, how
    the transport was ended.
    """
    secured = Secured(server, factory=factory).shake()
    read = b""
    for step, what in script:
        wire = b""
        if step == "says":
            wire = secured.client.says(*(LARGE[:size] for size in what))
        elif step == "writes":
            secured.layer.write(LARGE[:what])
        elif step == "shuts":
            secured.client.tls.shutdown()
            wire = secured.client.wire()
        elif step == "damages":
            wire = secured.client.says(b"hello", b"damaged")
            wire = wire[:-1] + bytes([wire[-1] ^ 1])
        elif step == "loses":
            secured.layer.loseConnection()
        elif step == "aborts":
            secured.layer.abortConnection()
        for at in range(0, len(wire), cut):
            secured.layer.dataReceived(wire[at : at + cut])
        if step in {"aborts", "breaks"}:
            secured.transport.disconnects()
        secured.clock.advance(0)
        try:
            read += secured.client.hears(secured.transport.written())
        except SSL.Error as error:
            read += str(error).encode()
    if secured.layer.connected:
        secured.transport.disconnects()
    told = secured.heard.told
    data = b"".join(one for one in told if isinstance(one, bytes))
    return data, [one for one in told if not isinstance(one, bytes)], read, secured.transport.ends


@settings(max_examples=3 * settings().max_examples)
@given(
    script=st.lists(STEPS, max_size=4),
    end=ENDS,
    behind=st.integers(1, 3 * PIECE),
    cut=st.sampled_from([1000, RECORD, PIECE, 1 << 20]),
)
def test_it_differs_from_twisteds_in_steps_only(
    server: tls.TLSConnections, script: Any, end: Any, behind: int, cut: int
) -> None:
    """Whatever happens: the same bytes both ways, the same reason at the end, the same done to the transport."""
    script = [*script, end, ("writes", behind)]
    theirs = plays(AsTwisteds(server), TLSMemoryBIOFactory, script, cut)
    assert plays(server, LayerFactory, script, cut) == theirs


@implementer(IOpenSSLServerConnectionCreator)
class AsTwisteds:
    """Makes connections of OpenSSL's as Twisted would."""

    def __init__(self, server: tls.TLSConnections) -> None:
        self._context = server.serverConnectionForTLS(PROTOCOL).get_context()

    def serverConnectionForTLS(self, protocol: TLSMemoryBIOProtocol) -> SSL.Connection:
        return SSL.Connection(self._context, None)


def test_twisted_is_as_we_know_it(secured: Secured, monkeypatch: pytest.MonkeyPatch) -> None:
    """The method that is replaced, the calls of OpenSSL: where this fails, `layer` needs another look."""
    calls: list[str] = []

    def noted(name: str) -> None:
        method = getattr(secured.layer.getHandle(), name)

        def call(*args: Any) -> Any:
            calls.append(name)
            try:
                return method(*args)
            except SSL.WantReadError:
                calls.append("nothing")
                raise

        monkeypatch.setattr(secured.layer.getHandle(), name, call)

    for name in ("bio_write", "recv", "send", "bio_read"):
        noted(name)
    secured.layer.dataReceived(secured.client.says(b"hello"))
    assert calls == ["bio_write", "recv", "recv", "nothing", "bio_read", "nothing"]
    calls.clear()
    secured.layer.write(LARGE[: 2 * RECORD])
    assert calls == ["send", "bio_read"] * 2
    assert TLSMemoryBIOProtocol._flushSendBIO is not Layer._flushSendBIO
