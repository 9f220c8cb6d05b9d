"""The relay's own core as a client: it bridges versions, sends heart-beats and fails over.

The core's client is this process: its frames go in as bytes, and frames for it come out as bytes. One thread
with plain sockets connects the core with the brokers and carries out the effects that it asks for.
"""

import logging
import random
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from math import inf
from typing import Final

from stomprelay.pipeline.stomp.sockets import ASKED, PRESSURE, Endpoint, LegSocket
from stomprelay.relay.effects import Effect, Open, Report
from stomprelay.relay.model.counters import Counters
from stomprelay.relay.model.group import Broker
from stomprelay.relay.model.listener import Listener
from stomprelay.relay.relay import Relay
from stomprelay.session.effects import Close, Event, GiveWay, How, Note, Pause, Resume, Send, Wake
from stomprelay.session.leg import Leg, State
from stomprelay.session.reasons import WARNINGS, spell_fault

ROOM: Final = 8 * 1024 * 1024
"""Bytes that may wait in either direction."""
_log: Final = logging.getLogger("stomprelay.stomp")
REASONS: Final = 3
"""How many of the last notes are kept to explain why a session ended."""
_EXPLAINING: Final = frozenset({Event.FOREIGN, Event.LOST, Event.REFUSED})


class Wakeup:
    """Wakes a thread that waits in a selector, and gives it work. The thread registers `receiving` for
    reading; when it is ready it calls `clear`, then `run`. `wake` and `soon` may be called in any thread.
    """

    def __init__(self) -> None:
        self.receiving, self._sending = socket.socketpair()
        self.receiving.setblocking(False)
        self._sending.setblocking(False)
        self._lock = threading.Lock()
        self._woken = False
        self._closed = False
        self._work: deque[Callable[[], None]] = deque()

    def wake(self) -> None:
        """Wake the thread. No effect if it was woken and has not called `clear` yet, or after `close`."""
        with self._lock:
            if not self._woken and not self._closed:
                self._woken = True
                self._sending.send(b"\0")

    def soon(self, what: Callable[[], None]) -> None:
        """Have `what` called in the thread; after `close` it is called at once, in the calling thread."""
        with self._lock:
            closed = self._closed
            if not closed:
                self._work.append(what)
        if closed:
            what()
        else:
            self.wake()

    @property
    def waiting(self) -> bool:
        """Return whether there is work to `run`."""
        return bool(self._work)

    def clear(self) -> None:
        """Make the next `wake` count again. Call it in the thread, when `receiving` is ready."""
        with self._lock:
            self._woken = False
            self.receiving.recv(64)

    def run(self) -> None:
        """Do the work that `soon` added. Call it in the thread."""
        while self._work:
            self._work.popleft()()

    def close(self) -> None:
        """Close both sockets and do the work that is left. Call it in the thread, at its end."""
        with self._lock:
            self._closed = True
            self.receiving.close()
            self._sending.close()
        self.run()


class ClientQueues:
    """Bytes from the client to the core (inward) and from the core to the client (outward). All methods may
    be called in any thread. After `close` no more bytes are taken from the client.
    """

    def __init__(self) -> None:
        self.closed = False
        self._inward: deque[bytes] = deque()
        self._inward_size = 0
        self._outward: list[bytes] = []
        self._outward_size = 0
        lock = threading.Lock()
        self._room = threading.Condition(lock)
        self._news = threading.Condition(lock)

    def feed(self, data: bytes) -> None:
        """Add bytes from the client. Waits while `ROOM` is used up; after `close` the bytes are dropped."""
        with self._room:
            while self._inward_size >= ROOM and not self.closed:
                self._room.wait()
            if data and not self.closed:
                self._inward.append(data)
                self._inward_size += len(data)

    def next_inward(self) -> bytes:
        """Remove and return the oldest bytes from the client; empty if there are none."""
        with self._room:
            if not self._inward:
                return b""
            data = self._inward.popleft()
            self._inward_size -= len(data)
            self._room.notify_all()
            return data

    def put_outward(self, data: bytes) -> bool:
        """Add bytes for the client. Return whether `ROOM` is used up; the caller must then stop reading from
        brokers until `take` reports that there was no room.
        """
        with self._news:
            self._outward.append(data)
            self._outward_size += len(data)
            self._news.notify_all()
            return self._outward_size >= ROOM

    def take(self, timeout: float) -> tuple[list[bytes], bool]:
        """Remove and return all bytes for the client, waiting up to `timeout` seconds for some; and whether
        `ROOM` was used up.
        """
        with self._news:
            if not self._outward and not self.closed:
                self._news.wait(timeout)
            taken, self._outward = self._outward, []
            full, self._outward_size = self._outward_size >= ROOM, 0
            return taken, full

    def close(self) -> None:
        """Take no more bytes from the client, and drop those that wait; those for the client can still be
        taken.
        """
        with self._room:
            self.closed = True
            self._inward.clear()
            self._inward_size = 0
            self._room.notify_all()
            self._news.notify_all()


class RelayThread:
    """One session. Call `start`; then `feed` it the client's bytes and `take` those for the client, in any
    thread. End it with `disconnect` or `abort`, then `join`. Once `over`, no more bytes come, and `why` has
    the reason.
    """

    def __init__(self, listener: Listener, name: str, endpoints: dict[Broker, Endpoint]) -> None:
        self.counters = Counters()
        self.selector: selectors.BaseSelector
        self._relay = Relay(listener, name.encode(), self.counters, random.random)
        self._endpoints = endpoints
        self._sockets: dict[Leg, LegSocket] = {}
        self._leaving: set[LegSocket] = set()
        self._reported_full: set[Leg] = set()
        self._behind: deque[Leg] = deque()
        self._reasons: deque[str] = deque(maxlen=REASONS)
        self._wake = inf
        self._paused = False
        self._stopped = False
        self._queues = ClientQueues()
        self._wakeup: Wakeup
        self._thread = threading.Thread(target=self._run, name=f"stomp {name}", daemon=True)

    # From any thread

    def start(self) -> None:
        """Start the thread. The caller must feed it a CONNECT next."""
        self.selector = selectors.DefaultSelector()
        self._wakeup = Wakeup()
        self._thread.start()

    @property
    def over(self) -> bool:
        """Return whether the session has ended."""
        return self._queues.closed

    def feed(self, data: bytes) -> None:
        """Pass bytes from the client to the core. Waits while too many are unread; once `over` they are
        dropped.
        """
        self._queues.feed(data)
        self._wakeup.wake()

    def take(self, timeout: float) -> list[bytes]:
        """Return the bytes for the client, waiting up to `timeout` seconds for some. Empty if there were
        none, or once `over` and all was taken.
        """
        taken, full = self._queues.take(timeout)
        if full:
            self.soon(self._relieve)
        return taken

    @property
    def has_brokers(self) -> bool:
        """Return whether the session is connected to a broker in each group that it has not given up."""
        links = [link for link in self._relay.links if not link.ended]
        return bool(links) and all(link.up for link in links)

    @property
    def cumulative(self) -> bool:
        """Return whether a RECEIPT for a SEND also confirms all SENDs before it, at each broker that the
        session has now.
        """
        brokers = [link.broker for link in self._relay.links]
        profiles = [None if each is None else each.profile for each in brokers]
        return bool(profiles) and all(each is not None and each.cumulative for each in profiles)

    def disconnect(self) -> None:
        """Tell the core that the client's connection ended: what it sent is still delivered."""

        def leave() -> None:
            self._read_client()
            self._perform(self._relay.lost(self._relay.client, "it is done", time.monotonic()))

        self.soon(leave)

    def abort(self) -> None:
        """End the session at once, without sending what is left."""

        def stop() -> None:
            self._stopped = True

        self.soon(stop)

    def join(self, timeout: float) -> bool:
        """Wait up to `timeout` seconds for the thread to end. Return whether it has."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    @property
    def why(self) -> str:
        """Return the last notes of the core and of the sockets, which explain why the session ended."""
        return "; ".join(self._reasons)

    def soon(self, what: Callable[[], None]) -> None:
        """Have `what` called in the session's thread; at once, in the calling thread, when that has ended."""
        self._wakeup.soon(what)

    # The thread

    def _run(self) -> None:
        try:
            self.selector.register(self._wakeup.receiving, selectors.EVENT_READ)
            self._perform(self._relay.opened(time.monotonic()))
            while not self._stopped and not (self._relay.over and not self._sockets and not self._leaving):
                self._turn()
        except Exception as error:
            _log.exception("the STOMP client failed")
            self._reasons.append(f"{type(error).__name__}: {error}")
        finally:
            self._end()

    def _turn(self) -> None:
        now = time.monotonic()
        for key, mask in self.selector.select(self._patience(now)):
            sock = key.data
            if sock is None:
                self._wakeup.clear()
            else:
                sock.ready(mask)
        for sock in [each for each in self._all() if each.eager]:
            sock.ready(selectors.EVENT_READ)
        self._wakeup.run()
        self._read_client()
        now = time.monotonic()
        if now >= self._wake:
            self._perform(self._relay.woke(now))
        for sock in [each for each in self._all() if each.deadline is not None and now >= each.deadline]:
            sock.late()
        self._report_full(now)

    def _patience(self, now: float) -> float | None:
        sockets = self._all()
        if self._wakeup.waiting or any(sock.eager for sock in sockets):
            return 0.0
        until = min([self._wake, *(sock.deadline for sock in sockets if sock.deadline is not None)])
        return None if until == inf else max(0.0, until - now)

    def _all(self) -> list[LegSocket]:
        return [*self._sockets.values(), *self._leaving]

    def _read_client(self) -> None:
        """Pass the client's bytes to the core, as fast as its brokers can be written to."""
        relay = self._relay
        while not self._paused and not relay.client.closed and not self._backed_up():
            data = self._queues.next_inward()
            if not data:
                return
            self._perform(relay.received(relay.client, data, time.monotonic()))

    def _backed_up(self) -> bool:
        return self._relay.coupled and any(sock.full for sock in self._sockets.values())

    def _report_full(self, now: float) -> None:
        """Tell the core which brokers are slow, in a session where one broker does not set the pace for all."""
        coupled = self._relay.coupled
        self._reported_full &= self._sockets.keys()
        for leg, sock in [*self._sockets.items()]:
            known = leg in self._reported_full
            full = sock.full and (known or not coupled)
            if full is known:
                continue
            if full:
                self._reported_full.add(leg)
                self._relay.blocked(leg)
            else:
                self._reported_full.discard(leg)
                self._perform(self._relay.unblocked(leg, now))

    def _relieve(self) -> None:
        """Read from brokers again: there is room for their bytes."""
        for sock in [*self._sockets.values()]:
            sock.release(PRESSURE)

    # Effects

    def _perform(self, effects: Iterable[Effect]) -> None:
        self._carry_out(effects)
        while self._behind:  # the thread serves this session alone: nobody else waits for a turn
            leg = self._behind.popleft()
            self._carry_out(self._relay.gave_way(leg, time.monotonic()))

    def _carry_out(self, effects: Iterable[Effect]) -> None:
        sockets, client = self._sockets, self._relay.client
        for effect in effects:
            match effect:
                case Send(leg=leg, data=data):
                    if leg is client:
                        self._to_client(data)
                    elif leg in sockets:
                        sockets[leg].write(data)
                case Open():
                    self._open(effect)
                case Close(leg=leg, how=how):
                    self._close(leg, how)
                case Pause(leg=leg):
                    self._hold(leg, True)
                case Resume(leg=leg):
                    self._hold(leg, False)
                case GiveWay(leg=leg):
                    self._behind.append(leg)
                case Wake(at=at):
                    self._wake = at
                case Note():
                    self._note(effect)
                case Report(error=error):
                    _log.error("%s", spell_fault(error))

    def _hold(self, leg: Leg, on: bool) -> None:
        sock = self._sockets.get(leg)
        if leg is self._relay.client:
            self._paused = on
            if on:
                self._relay.paused(leg)
            else:
                self._carry_out(self._relay.resumed(leg, time.monotonic()))
        elif sock is not None:
            (sock.hold if on else sock.release)(ASKED)

    def _note(self, note: Note) -> None:
        if note.event in _EXPLAINING:
            self._reasons.append(note.text)
        level = logging.WARNING if note.event in WARNINGS else logging.INFO
        _log.log(level, "%s: %s", note.event.value, note.text)

    def _to_client(self, data: bytes) -> None:
        if self._queues.put_outward(data):
            for sock in [*self._sockets.values()]:
                if sock.leg.state is not State.OPENING:
                    sock.hold(PRESSURE)

    def _open(self, effect: Open) -> None:
        sock = self._sockets[effect.leg] = LegSocket(self, effect.leg, self._endpoints[effect.broker])
        sock.open(self._relay.listener.upstream.connect_timeout)

    def _close(self, leg: Leg, how: How) -> None:
        if leg is self._relay.client:
            self._queues.close()
            return
        sock = self._sockets.pop(leg, None)
        if sock is not None:
            self._leaving.add(sock)
            sock.close(how, time.monotonic())

    # What sockets report

    def made(self, sock: LegSocket) -> None:
        """Report to the core that a broker is connected."""
        self._perform(self._relay.connected(sock.leg, time.monotonic()))

    def received(self, sock: LegSocket, data: bytes) -> None:
        """Pass bytes from a broker to the core."""
        self._perform(self._relay.received(sock.leg, data, time.monotonic()))

    def refused(self, sock: LegSocket, reason: str) -> None:
        """Report to the core that a broker could not be connected to."""
        self._sockets.pop(sock.leg, None)
        self._perform(self._relay.refused(sock.leg, reason, time.monotonic()))

    def lost(self, sock: LegSocket, reason: str) -> None:
        """Report to the core that the connection to a broker ended."""
        self._sockets.pop(sock.leg, None)
        self._perform(self._relay.lost(sock.leg, reason, time.monotonic()))

    def held(self, sock: LegSocket, on: bool) -> None:
        """Report to the core that a broker is not read from, so that it does not count as silent, or is read
        from again.
        """
        if on:
            self._relay.paused(sock.leg)
        else:
            self._perform(self._relay.resumed(sock.leg, time.monotonic()))

    def gone(self, sock: LegSocket) -> None:
        """Forget a socket that was closed and has ended."""
        self._leaving.discard(sock)

    # Ends

    def _end(self) -> None:
        for sock in self._all():
            sock.close(How.ABORT, 0.0)
        self._queues.close()
        self.selector.close()
        self._wakeup.close()
