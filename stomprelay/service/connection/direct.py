"""Writing at once.

Twisted's transports queue what they are given and send it in the reactor's next turn, when the socket reports that
it can be written to. When nothing is queued the socket nearly always takes everything, so it is offered the bytes
first: one turn of the reactor and two system calls saved for every message.

The same holds for the end: Twisted waits for that turn to find that there is nothing left to write before it closes.

This relies on six attributes of Twisted's connections (`connected`, `dataBuffer`, `_tempDataBuffer`, `socket`,
`disconnecting`, `_writeDisconnected`), of the exact types below only; every other transport is written to as usual. The
tests hold Twisted to it. Most is sent by a compiled twin; both are tested alike.
"""

import select
from typing import Any, Final

from twisted.internet import tcp, unix
from twisted.internet.interfaces import ITransport
from twisted.protocols.policies import ProtocolWrapper
from twisted.protocols.tls import TLSMemoryBIOProtocol

from stomprelay.service.network.sockets import Socket, read_at_most
from stomprelay.wire.decoder import compiled

FIRST_READ: Final = 16 * 1024
"""Bytes read at once from a connection that receives little: large buffers for a few bytes fragment the heap."""
READ: Final = 512 * 1024
"""Bytes read at once from a busy one, and bytes that wait to be written before its sources are not read any more."""


COMPILED: Final = compiled("stomprelay.service.connection._pipe")
"""The compiled `_pipe`; None where it was not built, or nothing compiled is wanted."""

PLAIN: Final = frozenset({Socket, tcp.Server, tcp.Client, unix.Server, unix.Client})


def plain(transport: ITransport) -> tcp.Connection | None:
    """Return the transport if it is a socket's own, without TLS or another layer above it; else None."""
    return transport if type(transport) in PLAIN and not transport.TLS else None  # type: ignore[attr-defined,return-value]


def layers(transport: Any) -> tuple[Any, TLSMemoryBIOProtocol | None]:
    """Return the innermost transport, and the TLS layer above it or None."""
    tls = None
    while isinstance(transport, ProtocolWrapper):
        if isinstance(transport, TLSMemoryBIOProtocol):
            tls = transport
        transport = transport.transport
    return transport, tls


def waits(transport: Any) -> bool:
    """Return whether the socket beneath a transport has not taken all yet that was written to it."""
    inner, _ = layers(transport)
    return isinstance(inner, tcp.Connection) and bool(inner.dataBuffer or inner._tempDataBuffer)


def unwritten(transport: Any) -> int:
    """Return how many bytes the socket beneath a transport has not taken yet of what was written."""
    inner, _ = layers(transport)
    if not isinstance(inner, tcp.Connection):
        return 0
    return len(inner.dataBuffer) - inner.offset + sum(map(len, inner._tempDataBuffer))


def has_input(transport: Any) -> bool:
    """Return whether the socket beneath a transport has something to read; also where it has no socket."""
    inner, _ = layers(transport)
    if not isinstance(inner, tcp.Connection):
        return True
    poller = select.poll()
    poller.register(inner.fileno(), select.POLLIN)
    return bool(poller.poll(0))


def write_in_python(connection: tcp.Connection, data: bytes) -> None:
    """Send what the socket takes now, and queue the rest. The reactor meets an error of the socket, too."""
    sent = 0
    if connection.connected and not connection.dataBuffer and not connection._tempDataBuffer:
        try:
            sent = connection.socket.send(data)
        except OSError:
            pass
        if sent == len(data):
            return
    read_at_most(connection, READ)
    connection.write(data[sent:] if sent else data)


write: Final = write_in_python if COMPILED is None else COMPILED.write


def close(connection: tcp.Connection) -> None:
    """Close when all is written: at once, with the protocol's `connectionLost`, where nothing waits for that."""
    if not (connection.disconnecting or connection.dataBuffer or connection._tempDataBuffer):
        connection._writeDisconnected = True
    connection.loseConnection()
