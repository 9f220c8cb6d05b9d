"""The clock and the network of a world: connections in memory, with the calls of sockets; and the reactor of a relay.

Bytes of one direction arrive in order, after a delay, in pieces that are cut at any byte. Directions and connections
do not wait for each other.
"""

import errno
import select
import socket
from collections import deque
from collections.abc import Callable
from functools import partialmethod
from heapq import heappop, heappush
from random import Random
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

from twisted.internet.address import IPv4Address
from twisted.internet.base import DelayedCall
from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IReactorFDSet, IReactorTCP, IReactorTime
from twisted.internet.posixbase import _DisconnectSelectableMixin
from zope.interface import implementer

from sim.history import Arrival
from sim.stomp import Frame
from stomprelay.service.network import sockets

BEGIN: Final = 1000.0
"""The time at which a world begins, in seconds."""
SPIN: Final = 20_000
"""Calls at one moment that are taken for a loop."""
Place = tuple[str, int]
"""The host and the port of an address."""


class Spinning(Exception):
    """The world does not get on: too many calls at one moment."""


class Clock:
    """Virtual time, in seconds, and what is to be called at which time. Calls of one moment keep their order; those
    that are made without a delay come before all that were timed.
    """

    def __init__(self) -> None:
        self.now = BEGIN
        self._calls: list[tuple[float, int, Callable[..., object], tuple[Any, ...]]] = []
        self._soon: deque[tuple[Callable[..., object], tuple[Any, ...]]] = deque()
        self._number = 0

    def soon(self, call: Callable[..., object], *arguments: Any) -> None:
        """Call this now, but later than what calls this method."""
        self._soon.append((call, arguments))

    def at(self, time: float, call: Callable[..., object], *arguments: Any) -> None:
        """Call this at a time, which is not earlier than now."""
        self._number += 1
        heappush(self._calls, (time, self._number, call, arguments))

    def after(self, seconds: float, call: Callable[..., object], *arguments: Any) -> None:
        """Call this after so many seconds."""
        self._number += 1
        heappush(self._calls, (self.now + seconds, self._number, call, arguments))

    def run(self, until: float) -> None:
        """Let time pass up to `until`. Raises `Spinning`."""
        calls, soon, here = self._calls, self._soon, 0
        while True:
            if soon:
                call, arguments = soon.popleft()
            elif calls and calls[0][0] <= until:
                time, _, call, arguments = heappop(calls)
                if time > self.now:
                    self.now, here = time, 0
            else:
                break
            here += 1
            if here > SPIN:
                raise Spinning(f"{here} calls at one moment, the last of {call}")
            call(*arguments)
        self.now = max(self.now, until)


class End:
    """One end of a connection. Its methods up to `close` are those of a socket. `notify` is called when there is
    something to read, or room to write. `own`: of a relay. `failure`: why the attempt to connect has failed. `shut`: it
    sends no more. `heard_all`: the other end does so, and all of it has come. `sent`, `passed`: so many bytes it took,
    and the relay read of them. `marks`: where frames end in them. `arrived`: what the relay read; None for an end of
    the relay's. `owner`: for which connection of a client the relay opened this one.
    """

    def __init__(
        self, net: "Network", name: str = "", own: bool = False, owner: tuple[str, int] | None = None
    ) -> None:
        net.last += 1
        net.ends[net.last] = self
        self.net = net
        self.own = own
        self.owner = owner
        self.name = name
        self.descriptor = net.last
        self.address = ("192.0.2.7", 40000 + net.last)
        self.peer: End | None = None
        self.notify: Callable[[], None] = lambda: None
        self.reader: Any = None
        self.writer: Any = None
        self.inbox, self.outbox = bytearray(), bytearray()
        self.delay = 0.0
        self.heard_all = self.broken = self.shut = self.closed = False
        self.failure = self.sent = self.passed = 0
        self.marks: deque[tuple[int, Frame, int]] = deque()
        self.arrived: list[Arrival] | None = None
        self._asked = self._moving = self._notified = self._reset = False

    def fileno(self) -> int:
        return -1 if self.closed else self.descriptor

    def setblocking(self, on: bool) -> None:
        """Do nothing: no call ever blocks."""

    def setsockopt(self, level: int, option: int, value: object) -> None:
        """Keep whether `close` is to reset the connection; other options do nothing."""
        if option == socket.SO_LINGER:
            self._reset = True

    def getsockname(self) -> Place:
        return self.address

    def connect_ex(self, place: Place) -> int:
        if self.peer is not None:
            return errno.EISCONN
        if not self._asked:
            self._asked = True
            self.net.connect(self, place)
        return self.failure or errno.EINPROGRESS

    def recv(self, size: int) -> bytes:
        if self.closed:
            raise OSError(errno.EBADF, "closed")
        if self.inbox:
            data = bytes(self.inbox[:size])
            del self.inbox[:size]
            peer = self.peer
            if peer is not None:
                peer.passed += len(data)
                while peer.marks and peer.marks[0][0] <= peer.passed:
                    self._note(*peer.marks.popleft()[1:])
                if peer.outbox:
                    peer._move_soon()  # there is room for it
            return data
        if self.broken or self.heard_all:
            self._note()
        if self.broken:
            raise ConnectionResetError(errno.ECONNRESET, "reset")
        if self.heard_all:
            return b""
        if self.failure:
            raise OSError(self.failure, "not connected")
        raise BlockingIOError(errno.EAGAIN, "nothing to read")

    def send(self, data: Any) -> int:
        if self.closed or self.shut or self.broken:
            raise BrokenPipeError(errno.EPIPE, "closed")
        net = self.net
        count = min(len(data), net.size - len(self.outbox))
        if count <= 0:
            raise BlockingIOError(errno.EAGAIN, "full")
        if count > 1 and net.weather.short and net.chance.random() < net.weather.short:
            count = 1 + int(net.chance.random() * (count - 1))
        self.outbox += data[:count]
        self.sent += count
        self._move_soon()
        return count

    def shutdown(self, how: int) -> None:
        if self.closed or self.peer is None:
            raise OSError(errno.ENOTCONN, "not connected")
        if not self.shut:
            self.shut = True
            self._note(behind=1)
            self._move_soon()

    def close(self) -> None:
        """Close this end. The peer is reset if bytes were not read."""
        if self.closed:
            return
        self.closed = True
        del self.net.ends[self.descriptor]
        if self.peer is None:
            return
        self._note(behind=1)
        if self._reset or self.inbox:
            self.outbox.clear()
            self.net.clock.after(self._time(), self.peer.reset)
        else:
            self.shut = True
            self._move_soon()

    # The network

    def _note(self, frame: Frame | None = None, behind: int = 0) -> None:
        """Note that the relay, if this is its end, has read a frame, or that the connection is over for it."""
        arrived = None if self.peer is None else self.peer.arrived
        late = frame is not None and self.owner is not None and self.owner in self.net.over
        if arrived is not None and not (late or (arrived and arrived[-1].frame is None)):
            arrived.append(Arrival(self.net.clock.now, frame, behind))

    @property
    def readable(self) -> bool:
        """Whether `recv` returns something, or raises for the connection's end."""
        return bool(self.inbox or self.heard_all or self.broken or self.failure)

    @property
    def writable(self) -> bool:
        """Whether `send` takes something, or raises for the connection's end; whether an attempt has its outcome."""
        return self.failure > 0 if self.peer is None else self.broken or len(self.outbox) < self.net.size

    def reset(self) -> None:
        """The connection is reset: the peer has gone, or something on the way has cut it."""
        if not (self.broken or self.closed):
            self.broken = True
            self.outbox.clear()
            self.changed()

    def cut(self, most: int) -> None:
        """Cut the connection for both ends: at most so many more bytes of each direction arrive."""
        assert self.peer is not None
        for end, other in ((self, self.peer), (self.peer, self)):
            if not other.closed:
                other.inbox += end.outbox[:most]
            end.outbox.clear()
            end.shut = True
        self.reset()
        self.peer.reset()

    def changed(self) -> None:
        """Call `notify` in a later turn."""
        if not self._notified:
            self._notified = True
            self.net.clock.soon(self._notify)

    def _notify(self) -> None:
        self._notified = False
        if not self.closed:
            self.notify()

    def _time(self) -> float:
        return self.delay * (0.5 + self.net.chance.random())

    def _move_soon(self) -> None:
        if not self._moving:
            self._moving = True
            self.net.clock.after(self._time(), self._move)

    def _move(self) -> None:
        """Let a piece of what was sent arrive, or the end behind it."""
        self._moving = False
        peer, net = self.peer, self.net
        if peer is None or self.broken:
            return
        if self.outbox and peer.closed:
            self.outbox.clear()
            net.clock.after(self._time(), self.reset)
        elif self.outbox:
            before = len(self.outbox)
            count = min(before, net.size - len(peer.inbox))
            if count <= 0:
                return  # `recv` makes room, and goes on
            if count > 1 and net.weather.pieces and net.chance.random() < net.weather.pieces:
                count = 1 + int(net.chance.random() * (count - 1))
            peer.inbox += self.outbox[:count]
            del self.outbox[:count]
            peer.changed()
            if before >= net.size:
                self.changed()  # there is room again
            if self.outbox or self.shut:
                self._move_soon()
        elif self.shut and not peer.heard_all and not peer.closed:
            peer.heard_all = True
            peer.changed()
            if peer.own:
                net.clock.after(1.0, net.look, peer)


class Weather(NamedTuple):
    """How bad the network is. `pieces`: the share of arrivals that are cut; `short`: the share of writes that are not
    taken whole; `slowest`: the longest delay of a connection in seconds.
    """

    pieces: float = 0.0
    short: float = 0.0
    slowest: float = 0.01


class Network:
    """All connections of a world, and where a connection is accepted: by place the function that gets the other end. A
    `silent` place never answers. While it is `lacking`, relays get no descriptors. `size` is that of a socket's buffers
    in bytes. `dead`: so many ends of relays were kept though both sides had closed. `clients`: the client and the
    number of its connection, by its address and by its session; `asking`: the one for which a relay connects now;
    `ending`: when relays began to end sessions, by the same; `over`: those that are over, so that no answer counts.
    """

    def __init__(self, clock: Clock, chance: Random, weather: Weather) -> None:
        self.clock = clock
        self.chance = chance
        self.weather = weather
        self.places: dict[Place, Callable[[End], None]] = {}
        self.silent: set[Place] = set()
        self.ends: dict[int, End] = {}
        self.clients: dict[object, tuple[str, int] | None] = {}
        self.asking: tuple[str, int] | None = None
        self.ending: dict[tuple[str, int] | None, float] = {}
        self.over: set[tuple[str, int] | None] = set()
        self.dead = 0
        self.lacking = False
        self.size = 64 * 1024
        self.last = 0

    def end(self, name: str) -> End:
        """Return a new end, for an attempt to connect."""
        return End(self, name)

    def look(self, end: End) -> None:
        """Note an end of a relay's that is still there though both sides have closed and all was read; not one
        that was reset: an end that does not read is not told of that.
        """
        if end.shut and not (end.closed or end.broken or end.inbox or end.outbox):
            self.dead += 1

    def connect(self, end: End, place: Place) -> None:
        """Connect an end to a place after some time, or let the attempt fail."""
        delay = self.chance.random() ** 3 * self.weather.slowest
        if place not in self.silent:
            self.clock.after(2 * delay, self._answer, end, place, delay)

    def _answer(self, end: End, place: Place, delay: float) -> None:
        accept = self.places.get(place)
        if end.closed:
            return
        if accept is None:
            end.failure = errno.ECONNREFUSED
        else:
            other = End(self, end.name)
            other.address = place
            end.peer, other.peer = other, end
            end.delay = other.delay = delay
            accept(other)
        end.changed()


def in_place_of(module: Any, **parts: Any) -> Any:
    """Return what stands for a module: it has these parts, and all others of the module."""
    return SimpleNamespace(**{**vars(module), **parts})


def _own_end(family: int, kind: int) -> End:
    """Return a new end for a relay that connects. Raises `OSError`."""
    if SOCKETS.net.lacking:
        raise OSError(errno.EMFILE, "no descriptors")
    return End(SOCKETS.net, own=True, owner=SOCKETS.net.asking)


class _Poller:
    """Stands for `select.epoll`, by which a relay learns that clients leave which it does not read from, and for
    `select.poll`, by which it looks whether a connection has something to read.
    """

    def __init__(self) -> None:
        self.net: Network = SOCKETS.net
        self.watched: dict[int, tuple[int, int]] = {}

    def register(self, descriptor: int, events: int) -> None:
        self.watched[descriptor] = events, 0
        self.net.ends[descriptor].changed()

    def unregister(self, descriptor: int) -> None:
        self.watched.pop(descriptor, None)

    def fileno(self) -> int:
        return 0

    def close(self) -> None:
        self.watched.clear()

    def news(self) -> dict[int, int]:
        """Return what has changed, by descriptor, without taking it."""
        found = {}
        for descriptor, (asked, told) in self.watched.items():
            end = self.net.ends.get(descriptor)
            if end is not None:
                now = (end.readable | end.heard_all * select.EPOLLRDHUP) & asked
                now |= end.broken * (select.EPOLLHUP | select.EPOLLERR)
                if now & ~told:
                    found[descriptor] = now
        return found

    def poll(self, timeout: float, most: int = 1) -> list[tuple[int, int]]:
        found = [*self.news().items()][:most]
        for descriptor, now in found:
            self.watched[descriptor] = self.watched[descriptor][0], now
        return found


SOCKETS: Final = in_place_of(socket, SocketType=_own_end)
"""What the relay opens connections with: these are in `net`, the network of the world that is played."""
SELECT: Final = in_place_of(select, epoll=_Poller, poll=_Poller)


class Port:
    """A listening port of a relay. `socket`, `factory`, `reactor` and `numberAccepts` are what `sockets` reads."""

    numberAccepts = 16

    def __init__(self, reactor: "Reactor", place: Place, factory: Any) -> None:
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

    def accept(self) -> tuple[End, Place]:
        """Return the next connection and its client's address. Raises `OSError`."""
        if not self._waiting:
            raise BlockingIOError(errno.EAGAIN, "nobody waits")
        if self.reactor.net.lacking:
            raise OSError(errno.EMFILE, "no descriptors")
        end = self._waiting.popleft()
        assert end.peer is not None
        return end, end.peer.address

    def getHost(self) -> IPv4Address:
        return IPv4Address("TCP", *self.place)

    def leave(self) -> None:
        """Accept no more."""
        if self.reactor.net.places.get(self.place) == self._arrived:
            del self.reactor.net.places[self.place]
        self._refuse()

    def stopListening(self) -> Deferred[None]:
        self.factory.doStop()
        self.leave()
        return succeed(None)


@implementer(IReactorTCP, IReactorTime, IReactorFDSet)
class Reactor(_DisconnectSelectableMixin):  # type: ignore[misc]
    """The reactor of one relay, on the world's clock and network. After `kill` nothing of it is called any more."""

    running = True

    def __init__(self, clock: Clock, net: Network) -> None:
        self.clock = clock
        self.net = net
        self.alive = True
        self.faults: list[BaseException] = []
        self._ports: list[Port] = []
        self._ends: dict[Any, End] = {}
        self._departures: Any = None
        self._calls: dict[DelayedCall, None] = {}

    # Time

    def seconds(self) -> float:
        return self.clock.now

    def callLater(
        self, delay: float, callable: Callable[..., object], *args: object, **kwargs: object
    ) -> DelayedCall:
        time = self.clock.now + delay
        made = DelayedCall(time, callable, args, kwargs, self._calls.pop, self._moved, self.seconds)
        self._calls[made] = None
        if delay:
            self.clock.at(time, self._call, made)
        else:
            self.clock.soon(self._call, made)
        return made

    def _call(self, made: DelayedCall) -> None:
        if not self.alive or made.cancelled or made.called:
            return
        if made.getTime() > self.clock.now:
            self.clock.at(made.getTime(), self._call, made)
            return
        made.called = 1
        del self._calls[made]
        try:
            made.func(*made.args, **made.kw)
        except Exception as error:
            self.faults.append(error)

    def _moved(self, made: DelayedCall) -> None:
        made.activate_delay()
        self.clock.at(made.time, self._call, made)

    def getDelayedCalls(self) -> list[DelayedCall]:
        return list(self._calls)

    def callWhenRunning(self, call: Callable[..., object], *arguments: Any, **named: Any) -> None:
        self.callLater(0, call, *arguments, **named)

    callFromThread = callWhenRunning

    def addSystemEventTrigger(self, *arguments: Any) -> None:
        """Do nothing: a world has no system events."""

    removeSystemEventTrigger = addSystemEventTrigger

    # Sockets

    def _add(self, selectable: Any, kind: str) -> None:
        descriptor = selectable.fileno()
        end = self.net.ends.get(descriptor)
        if not descriptor:
            self._departures = selectable
        elif end is not None:
            self._ends[selectable] = end
            setattr(end, kind, selectable)
            end.notify = lambda: self._serve(end)
            end.changed()

    def _remove(self, selectable: Any, kind: str) -> None:
        if selectable is self._departures:
            self._departures = None
        elif selectable in self._ends:
            setattr(self._ends[selectable], kind, None)

    addReader = partialmethod(_add, kind="reader")
    addWriter = partialmethod(_add, kind="writer")
    removeReader = partialmethod(_remove, kind="reader")
    removeWriter = partialmethod(_remove, kind="writer")

    def _serve(self, end: End) -> None:
        """Call who waits for this end, as far as there is something to be done."""
        if not self.alive:
            return
        if end.reader is not None and end.readable:
            self._act(end.reader, end.reader.doRead, True)
        if end.writer is not None and end.writable:
            self._act(end.writer, end.writer.doWrite, False)
        if (end.reader is not None and end.readable) or (end.writer is not None and end.writable):
            end.changed()
        watched = self._departures
        if watched is not None and watched._poller.watched and watched._poller.news():
            watched.doRead()

    def _act(self, selectable: Any, act: Callable[[], Any], reads: bool) -> None:
        try:
            why = act()
        except Exception as error:
            self.faults.append(error)
            why = error
        if why is not None:
            self._disconnectSelectable(selectable, why, reads)

    def listenTCP(self, port: int, factory: Any, backlog: int = 50, interface: str = "") -> Any:
        self._ports.append(Port(self, (interface, port), factory))
        return self._ports[-1]

    def connectTCP(
        self, host: str, port: int, factory: Any, timeout: float = 30, bindAddress: Any = None
    ) -> sockets.SocketConnector:
        attempt = sockets.SocketConnector(self, host, port, factory, timeout)
        attempt.connect()
        return attempt

    # The end

    def open_ends(self) -> list[End]:
        """Return the ends that this relay has open."""
        return [end for end in dict.fromkeys(self._ends.values()) if not end.closed]

    def kill(self) -> None:
        """The process is killed: the system closes its sockets, and nothing of it is called any more."""
        self.alive = False
        for port in self._ports:
            port.leave()
        for end in self.open_ends():
            end.close()
