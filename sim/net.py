"""The clock and the network of a world: connections in memory, with the calls of sockets; and the reactor of a relay.

Bytes of one direction arrive in order, after a delay, in pieces that are cut at any byte. Directions and connections
do not wait for each other.
"""

import errno
import socket
from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from random import Random
from typing import Any, Final

from twisted.internet.address import IPv4Address
from twisted.internet.base import DelayedCall
from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IReactorFDSet, IReactorTCP, IReactorTime
from twisted.internet.posixbase import _DisconnectSelectableMixin
from zope.interface import implementer

from stomprelay.service.network import sockets

BEGIN: Final = 1000.0
"""The time at which a world begins, in seconds."""
SPIN: Final = 20_000
"""Calls at one moment that are taken for a loop."""


class Spinning(Exception):
    """The world does not get on: too many calls at one moment."""


class Clock:
    """Virtual time, in seconds, and what is to be called at which time. Calls of one moment keep their order."""

    def __init__(self) -> None:
        self.now = BEGIN
        self._calls: list[tuple[float, int, Callable[..., object], tuple[Any, ...]]] = []
        self._number = 0
        self._here = 0

    def at(self, time: float, call: Callable[..., object], *arguments: Any) -> None:
        """Call this at a time, which is not earlier than now."""
        self._number += 1
        heappush(self._calls, (time, self._number, call, arguments))

    def after(self, seconds: float, call: Callable[..., object], *arguments: Any) -> None:
        """Call this after so many seconds."""
        self.at(self.now + seconds, call, *arguments)

    def run(self, until: float, over: Callable[[], bool] = lambda: False) -> None:
        """Let time pass up to `until`, or until `over` returns True. Raises `Spinning`."""
        calls = self._calls
        while calls and calls[0][0] <= until:
            time, _, call, arguments = heappop(calls)
            if time > self.now:
                self.now = time
                self._here = 0
            self._here += 1
            if self._here > SPIN:
                raise Spinning(f"{self._here} calls at one moment, the last of {call}")
            call(*arguments)
            if over():
                return
        self.now = max(self.now, until)


class End:
    """One end of a connection, with the calls of a socket. `notify` is called when there is something to read, or room
    to write. `frozen`: nothing that it sends arrives until `thaw`.
    """

    def __init__(self, net: "Network", name: str = "", own: bool = False) -> None:
        self.net = net
        self.own = own
        self.name = name
        self.descriptor = net.opened(self)
        self.peer: End | None = None
        self.notify: Callable[[], None] = lambda: None
        self.inbox = bytearray()
        self.outbox = bytearray()
        self.room = self.size = net.size
        self.delay = 0.0
        self.chance = net.chance
        self.heard_all = self.broken = self.shut = self.closed = self.frozen = False
        self._moving = self._notified = self._reset = False
        self._failure = 0
        self.address = ("192.0.2.7", 40000 + self.descriptor)

    # The calls of a socket

    def fileno(self) -> int:
        """Return the descriptor; -1 where the end is closed."""
        return -1 if self.closed else self.descriptor

    def setblocking(self, on: bool) -> None:
        """Do nothing: no call ever blocks."""

    def setsockopt(self, level: int, option: int, value: object) -> None:
        """Keep whether `close` is to reset the connection; other options do nothing."""
        if option == socket.SO_LINGER:
            self._reset = True

    def getsockname(self) -> tuple[str, int]:
        """Return the address of this end."""
        return self.address

    def connect_ex(self, place: tuple[str, int]) -> int:
        """Begin to connect, or return the outcome, as the system does."""
        if self.peer is not None:
            return errno.EISCONN
        if self._failure:
            return self._failure
        self._failure = errno.EINPROGRESS
        self.net.connect(self, place)
        return errno.EINPROGRESS

    def recv(self, size: int) -> bytes:
        """Return bytes that have come; b"" at the end of what the peer sends. Raises `OSError`."""
        if self.closed:
            raise OSError(errno.EBADF, "closed")
        if self.inbox:
            data = bytes(self.inbox[:size])
            del self.inbox[:size]
            if self.peer is not None:
                self.peer._move_soon()
            return data
        if self.broken:
            raise ConnectionResetError(errno.ECONNRESET, "reset")
        if self.heard_all:
            return b""
        if self._failure not in (0, errno.EINPROGRESS):
            raise OSError(self._failure, "not connected")
        raise BlockingIOError(errno.EAGAIN, "nothing to read")

    def send(self, data: Any) -> int:
        """Take bytes, perhaps not all; return how many. Raises `OSError`."""
        if self.closed or self.shut or self.broken:
            raise BrokenPipeError(errno.EPIPE, "closed")
        count = min(len(data), self.size - len(self.outbox))
        if count <= 0:
            raise BlockingIOError(errno.EAGAIN, "full")
        if count > 1 and self.chance.random() < self.net.weather.short:
            count = 1 + int(self.chance.random() * (count - 1))
        self.outbox += data[:count]
        self._move_soon()
        return count

    def shutdown(self, how: int) -> None:
        """End what is sent; the peer notices it after all bytes."""
        if self.closed or self.peer is None:
            raise OSError(errno.ENOTCONN, "not connected")
        if how != socket.SHUT_RD and not self.shut:
            self.shut = True
            self._move_soon()

    def close(self) -> None:
        """Close this end. The peer is reset if bytes were not read."""
        if self.closed:
            return
        self.closed = True
        self.net.closed(self)
        peer = self.peer
        if peer is None:
            return
        if self._reset or self.inbox:
            self.outbox.clear()
            self.net.clock.after(self._time(), peer.reset)
        else:
            self.shut = True
            self._move_soon()

    # The network

    @property
    def readable(self) -> bool:
        """Whether `recv` returns something, or raises for the connection's end."""
        return bool(self.inbox) or self.heard_all or self.broken

    @property
    def writable(self) -> bool:
        """Whether `send` takes something, or raises for the connection's end; whether an attempt has its outcome."""
        if self.peer is None:
            return self._failure not in (0, errno.EINPROGRESS)
        return self.broken or len(self.outbox) < self.size

    def join(self, other: "End", delay: float) -> None:
        """Be connected with this other end. Bytes take about `delay` seconds."""
        self.peer, other.peer = other, self
        self.delay = other.delay = delay
        self.changed()

    def fail(self, number: int) -> None:
        """The attempt to connect fails with this error."""
        self._failure = number
        self.changed()

    def reset(self) -> None:
        """The connection is reset: the peer has gone, or something on the way has cut it."""
        if not (self.broken or self.closed):
            self.broken = True
            self.outbox.clear()
            self.changed()

    def cut(self, most: int) -> None:
        """Cut the connection for both ends: at most so many more bytes of each direction arrive."""
        assert self.peer is not None
        for end in (self, self.peer):
            other = end.peer
            assert other is not None
            if not other.closed:
                other.inbox += end.outbox[:most]
                other.changed()
            end.outbox.clear()
            end.shut = True
        self.reset()
        self.peer.reset()

    def thaw(self) -> None:
        """Let bytes arrive again."""
        self.frozen = False
        self._move_soon()

    def changed(self) -> None:
        """Call `notify` in a later turn."""
        if not self._notified:
            self._notified = True
            self.net.clock.after(0.0, self._notify)

    def _notify(self) -> None:
        self._notified = False
        if not self.closed:
            self.notify()

    def _time(self) -> float:
        return self.delay * (0.5 + self.chance.random())

    def _move_soon(self) -> None:
        if not self._moving and (self.outbox or self.shut):
            self._moving = True
            self.net.clock.after(self._time(), self._move)

    def _move(self) -> None:
        """Let a piece of what was sent arrive, or the end behind it."""
        self._moving = False
        peer = self.peer
        if peer is None or self.frozen or self.broken:
            return
        if peer.closed:
            if self.outbox:
                self.outbox.clear()
                self.net.clock.after(self._time(), self.reset)
            return
        if self.outbox:
            count = min(len(self.outbox), peer.room - len(peer.inbox))
            if count <= 0:
                return  # `recv` makes room, and goes on
            if count > 1 and self.chance.random() < self.net.weather.pieces:
                count = 1 + int(self.chance.random() * (count - 1))
            peer.inbox += self.outbox[:count]
            del self.outbox[:count]
            peer.changed()
            self.changed()
            self._move_soon()
        elif self.shut and not peer.heard_all:
            peer.heard_all = True
            peer.changed()
            if peer.own:
                self.net.clock.after(1.0, self.net.look, peer)


class Weather:
    """How bad the network is. `pieces`: the share of arrivals that are cut; `short`: the share of writes that are not
    taken whole; `slowest`: the longest delay of a connection in seconds; `descriptors`: how many a process may have.
    """

    def __init__(self, pieces: float = 0.0, short: float = 0.0, slowest: float = 0.01) -> None:
        self.pieces = pieces
        self.short = short
        self.slowest = slowest


class Network:
    """All connections of a world, and where a connection is accepted: by `(host, port)` the function that gets the
    other end. A `silent` place never answers. While it is `lacking`, relays get no descriptors. `size` is that of a
    socket's buffers in bytes.
    """

    def __init__(self, clock: Clock, chance: Random, weather: Weather) -> None:
        self.clock = clock
        self.chance = chance
        self.weather = weather
        self.places: dict[tuple[str, int], Callable[[End], None]] = {}
        self.silent: set[tuple[str, int]] = set()
        self.ends: dict[int, End] = {}
        self.dead = 0
        self.lacking = False
        self.size = 64 * 1024
        self._last = 0

    def end(self, name: str) -> End:
        """Return a new end, for an attempt to connect."""
        return End(self, name)

    def opened(self, end: End) -> int:
        """Return a descriptor for a new end."""
        self._last += 1
        self.ends[self._last] = end
        return self._last

    def look(self, end: End) -> None:
        """Note an end of a relay's that is still there though both sides have closed and all was read."""
        if end.shut and not (end.closed or end.inbox or end.outbox):
            self.dead += 1

    def closed(self, end: End) -> None:
        """Forget an end that is closed."""
        self.ends.pop(end.descriptor, None)

    def connect(self, end: End, place: tuple[str, int]) -> None:
        """Connect an end to a place, or let the attempt fail, after some time."""
        delay = self.chance.random() ** 3 * self.weather.slowest
        if place not in self.silent:
            self.clock.after(2 * delay, self._answer, end, place, delay)

    def _answer(self, end: End, place: tuple[str, int], delay: float) -> None:
        accept = self.places.get(place)
        if end.closed:
            return
        if accept is None:
            end.fail(errno.ECONNREFUSED)
            return
        other = End(self, end.name)
        other.address, end.address = place, ("192.0.2.7", 40000 + end.descriptor)
        end.join(other, delay)
        accept(other)


class _Sockets:
    """Stands for the module `socket` where the relay opens connections of its own: these are in the world's network."""

    net: Network

    def __getattr__(self, name: str) -> Any:
        return getattr(socket, name)

    def SocketType(self, family: int, kind: int) -> End:
        """Return a new end, which is not connected. Raises `OSError`."""
        if self.net.lacking:
            raise OSError(errno.EMFILE, "no descriptors")
        return End(self.net, own=True)


class _Poller:
    """Stands for `select.epoll`, by which a relay learns that clients leave which it does not read from."""

    def __init__(self, net: Network) -> None:
        self.net = net
        self.watched: dict[int, int] = {}
        self.ready = lambda: None
        self.descriptor = -2

    def register(self, descriptor: int, events: int) -> None:
        self.watched[descriptor] = 0

    modify = register

    def unregister(self, descriptor: int) -> None:
        self.watched.pop(descriptor, None)

    def fileno(self) -> int:
        return self.descriptor

    def close(self) -> None:
        self.watched.clear()

    def news(self) -> list[tuple[int, int]]:
        """Return what has changed, by descriptor, without taking it."""
        found = []
        for descriptor, told in self.watched.items():
            end = self.net.ends.get(descriptor)
            if end is not None:
                events = 0x2000 * end.heard_all | 0x18 * end.broken
                if events & ~told:
                    found.append((descriptor, events))
        return found

    def poll(self, timeout: float, most: int) -> list[tuple[int, int]]:
        found = self.news()[:most]
        self.watched.update(found)
        return found


class _Select:
    """Stands for the module `select` in the relay's connections."""

    EPOLLRDHUP, EPOLLET, EPOLLHUP, EPOLLERR, POLLIN = 0x2000, 1 << 31, 0x10, 0x08, 1
    net: Network

    def epoll(self) -> _Poller:
        return _Poller(self.net)

    def poll(self) -> "_Look":
        return _Look(self.net)


class _Look:
    def __init__(self, net: Network) -> None:
        self._net = net
        self._asked = 0

    def register(self, descriptor: int, events: int) -> None:
        self._asked = descriptor

    def poll(self, timeout: int) -> list[int]:
        end = self._net.ends.get(self._asked)
        return [1] if end is not None and end.readable else []


SOCKETS: Final = _Sockets()
SELECT: Final = _Select()


class Port:
    """A listening port of a relay. `socket`, `factory`, `reactor` and `numberAccepts` are what `sockets` reads."""

    numberAccepts = 16

    def __init__(self, reactor: "Reactor", place: tuple[str, int], factory: Any) -> None:
        self.reactor = reactor
        self.place = place
        self.factory = factory
        self.socket = self
        self._waiting: deque[End] = deque()
        factory.doStart()
        reactor.net.places[place] = self._arrived

    def _arrived(self, end: End) -> None:
        self._waiting.append(end)
        self.reactor.callLater(0, sockets._accept, self, self._refuse)

    def _refuse(self) -> None:
        """Close who waits: Twisted's port keeps a descriptor for this."""
        while self._waiting:
            self._waiting.popleft().close()

    def accept(self) -> tuple[End, tuple[str, int]]:
        """Return the next connection and its client's address. Raises `OSError`."""
        if not self._waiting:
            raise BlockingIOError(errno.EAGAIN, "nobody waits")
        if self.reactor.net.lacking:
            raise OSError(errno.EMFILE, "no descriptors")
        end = self._waiting.popleft()
        assert end.peer is not None
        self.reactor.adopted(end)
        return end, end.peer.address

    def getHost(self) -> IPv4Address:
        return IPv4Address("TCP", *self.place)

    def stopListening(self) -> Deferred[None]:
        """Accept no more."""
        if self.reactor.net.places.get(self.place) == self._arrived:
            del self.reactor.net.places[self.place]
        self.factory.doStop()
        self._refuse()
        return succeed(None)


@implementer(IReactorTCP, IReactorTime, IReactorFDSet)
class Reactor(_DisconnectSelectableMixin):  # type: ignore[misc]
    """The reactor of one relay, on the world's clock and network. After `kill` nothing of it is called any more."""

    def __init__(self, clock: Clock, net: Network) -> None:
        self.clock = clock
        self.net = net
        self.alive = True
        self.faults: list[BaseException] = []
        self.ports: list[Port] = []
        self._readers: dict[int, Any] = {}
        self._writers: dict[int, Any] = {}
        self._numbers: dict[Any, int] = {}
        self._calls: dict[DelayedCall, None] = {}
        self.running = True

    # Time

    def seconds(self) -> float:
        return self.clock.now

    def callLater(
        self, delay: float, callable: Callable[..., object], *args: object, **kwargs: object
    ) -> DelayedCall:
        made = DelayedCall(
            self.clock.now + delay, callable, args, kwargs, self._cancelled, self._moved, self.seconds
        )
        self._calls[made] = None
        self.clock.at(made.time, self._call, made)
        return made

    def _call(self, made: DelayedCall) -> None:
        if not self.alive or made.cancelled or made.called:
            return
        if made.getTime() > self.clock.now:
            self.clock.at(made.getTime(), self._call, made)
            return
        made.called = 1
        self._calls.pop(made, None)
        try:
            made.func(*made.args, **made.kw)
        except Exception as error:
            self.faults.append(error)

    def _cancelled(self, made: DelayedCall) -> None:
        self._calls.pop(made, None)

    def _moved(self, made: DelayedCall) -> None:
        made.activate_delay()
        self.clock.at(made.time, self._call, made)

    def getDelayedCalls(self) -> list[DelayedCall]:
        return list(self._calls)

    def callWhenRunning(self, call: Callable[..., object], *arguments: Any, **named: Any) -> None:
        self.callLater(0, call, *arguments, **named)

    def callFromThread(self, call: Callable[..., object], *arguments: Any, **named: Any) -> None:
        self.callLater(0, call, *arguments, **named)

    def addSystemEventTrigger(self, *arguments: Any) -> None:
        """Do nothing: a world has no system events."""

    def removeSystemEventTrigger(self, *arguments: Any) -> None:
        """Do nothing."""

    # Sockets

    def addReader(self, selectable: Any) -> None:
        self._add(self._readers, selectable)

    def addWriter(self, selectable: Any) -> None:
        self._add(self._writers, selectable)

    def _add(self, kind: dict[int, Any], selectable: Any) -> None:
        number = selectable.fileno()
        self._numbers[selectable] = number
        kind[number] = selectable
        end = self.net.ends.get(number)
        if end is not None:
            end.notify = lambda: self._serve(number)
            if (end.readable and kind is self._readers) or (end.writable and kind is self._writers):
                end.changed()

    def removeReader(self, selectable: Any) -> None:
        self._readers.pop(self._numbers.get(selectable, -1), None)

    def removeWriter(self, selectable: Any) -> None:
        self._writers.pop(self._numbers.get(selectable, -1), None)

    def adopted(self, end: End) -> None:
        """An accepted end belongs to this relay."""

    def _serve(self, number: int) -> None:
        """Call who waits for this descriptor, as far as there is something to be done."""
        if not self.alive:
            return
        for kind, ready, act in (
            (self._readers, "readable", "doRead"),
            (self._writers, "writable", "doWrite"),
        ):
            selectable, end = kind.get(number), self.net.ends.get(number)
            if selectable is None or end is None or not getattr(end, ready):
                continue
            try:
                why = getattr(selectable, act)()
            except Exception as error:
                self.faults.append(error)
                why = error
            if why is not None:
                self._disconnectSelectable(selectable, why, act == "doRead")
        end = self.net.ends.get(number)
        if end is not None and (
            (number in self._readers and end.readable) or (number in self._writers and end.writable)
        ):
            end.changed()
        self._look()

    def _look(self) -> None:
        """Tell the relay's poller of clients that leave."""
        found = self._readers.get(-2)
        if found is not None and found._poller is not None and found._poller.news():
            found.doRead()

    def watch_departures(self) -> None:
        """Call what waits for the poller, if a watched connection ended."""
        if self.alive:
            self._look()

    def listenTCP(self, port: int, factory: Any, backlog: int = 50, interface: str = "") -> Any:
        made = Port(self, (interface or "192.0.2.100", port), factory)
        self.ports.append(made)
        return made

    def connectTCP(
        self, host: str, port: int, factory: Any, timeout: float = 30, bindAddress: Any = None
    ) -> sockets.SocketConnector:
        attempt = sockets.SocketConnector(self, host, port, factory, timeout)
        attempt.connect()
        return attempt

    # The end

    def open_ends(self) -> list[End]:
        """Return the ends that this relay has open."""
        numbers = {*self._numbers.values()}
        return [end for number, end in self.net.ends.items() if number in numbers]

    def kill(self) -> None:
        """The process is killed: the system closes its sockets, and nothing of it is called any more."""
        self.alive = False
        for port in self.ports:
            if self.net.places.get(port.place) == port._arrived:
                del self.net.places[port.place]
            port._refuse()
        for end in self.open_ends():
            end.close()
