"""The clock and the network of the simulator's clients, of real time and real sockets."""

import asyncio
import socket
import struct
from collections.abc import Callable
from random import Random
from typing import Any

from sim import net


class Clock(net.Clock):
    """Seconds since the clock was made, as they were when the event began that is under way."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self.loop = loop
        self._began = loop.time()
        self.now = 0.0

    def at(self, time: float, call: Callable[..., object], *arguments: Any) -> None:
        """Call this at a time."""
        self.loop.call_at(self._began + time, self.do, call, *arguments)

    def after(self, seconds: float, call: Callable[..., object], *arguments: Any) -> None:
        """Call this after so many seconds."""
        self.at(self.now + seconds, call, *arguments)

    def do(self, call: Callable[..., object], *arguments: Any) -> None:
        """Call this as an event of now."""
        self.now = self.loop.time() - self._began
        call(*arguments)


class End(net.End):
    """One end of a connection. `notify` is called once for each time that there was nothing to read, or no room."""

    def __init__(self, network: "Network", name: str) -> None:
        super().__init__(network, name)
        self._do = network.clock.do
        self._loop = network.clock.loop
        self._socket = socket.socket()
        self._socket.setblocking(False)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def connect_ex(self, place: tuple[str, int]) -> int:
        """Begin to connect."""
        self._loop.add_writer(self._socket, self._connected)
        return self._socket.connect_ex(place)

    @property
    def readable(self) -> bool:
        """Whether `recv` returns something, or raises; if not, `notify` is called when it does."""
        try:
            return bool(self.failure) or self._socket.recv(1, socket.MSG_PEEK) is not None
        except BlockingIOError:
            self._loop.add_reader(self._socket, self._ready, self._loop.remove_reader)
            return False
        except OSError:
            return True

    def recv(self, size: int) -> bytes:
        """Return bytes that have come; b"" at the end of what the peer sends. Raises `OSError`."""
        if self.failure:
            raise OSError(self.failure, "not connected")
        return self._socket.recv(size)

    def send(self, data: Any) -> int:
        """Take bytes, perhaps not all; return how many. Raises `OSError`."""
        try:
            return self._socket.send(data)
        except BlockingIOError:
            self._loop.add_writer(self._socket, self._ready, self._loop.remove_writer)
            raise

    def shutdown(self, how: int) -> None:
        """End what is sent."""
        self.shut = True
        self._socket.shutdown(how)

    def close(self) -> None:
        """Close this end, or reset the connection, as `setsockopt` was told."""
        if not self.closed:
            self.closed = True
            self._loop.remove_reader(self._socket)
            self._loop.remove_writer(self._socket)
            if self._reset:
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self._socket.close()
            del self.net.ends[self.descriptor]

    def changed(self) -> None:
        """Do nothing: the system says what changes."""

    def _connected(self) -> None:
        self._loop.remove_writer(self._socket)
        self.failure = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if not self.failure:
            self.peer = self  # there is one, somewhere
        self._do(self.notify)

    def _ready(self, forget: Callable[[socket.socket], object]) -> None:
        forget(self._socket)
        self._do(self.notify)


class Network(net.Network):
    """Opens real connections."""

    clock: Clock

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock, Random(), net.Weather())

    def end(self, name: str) -> End:
        """Return a new end, for an attempt to connect."""
        return End(self, name)
