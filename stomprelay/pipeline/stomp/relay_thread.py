"""The relay's own core as a client: it bridges, beats and fails over, and here is performed what it asks for.

The core's client is this process. What it says is fed in as octets, what it is told comes out as octets, and between
them and the brokers runs one thread with plain sockets.
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
from stomprelay.relay.effects import Effect, Open
from stomprelay.relay.group import Broker
from stomprelay.relay.listener import Listener
from stomprelay.relay.relay import Relay
from stomprelay.relay.stage import Stage
from stomprelay.relay.tally import Tally
from stomprelay.session.effects import Close, Event, How, Note, Pause, Resume, Send, Wake
from stomprelay.session.leg import Leg
from stomprelay.session.states import State

ROOM: Final = 8 * 1024 * 1024
"""Octets that may wait in either direction."""
_log: Final = logging.getLogger("stomprelay.stomp")
WORDS: Final = 3
"""Notes that are kept to explain an end."""
_WARNINGS: Final = frozenset({Event.ERROR, Event.FOREIGN, Event.LOST, Event.REFUSED})
_EXPLAINING: Final = frozenset({Event.FOREIGN, Event.LOST, Event.REFUSED})


class Wakeup:
    """Register `wire` with the selector for reading; when it is ready say `answer`, then `work`. All else may be
    called in any thread.
    """

    def __init__(self) -> None:
        self.wire, self._button = socket.socketpair()
        self.wire.setblocking(False)
        self._button.setblocking(False)
        self._lock = threading.Lock()
        self._rung = False
        self._closed = False
        self._work: deque[Callable[[], None]] = deque()

    def ring(self) -> None:
        """Wake the thread; a wakeup that was rung already, or is closed, stays as it is."""
        with self._lock:
            if not self._rung and not self._closed:
                self._rung = True
                self._button.send(b"\0")

    def soon(self, what: Callable[[], None]) -> None:
        """Have this called in the thread; in this one, once the wakeup is closed."""
        with self._lock:
            closed = self._closed
            if not closed:
                self._work.append(what)
        if closed:
            what()
        else:
            self.ring()

    @property
    def waiting(self) -> bool:
        """Whether there is work."""
        return bool(self._work)

    def answer(self) -> None:
        """The thread is awake."""
        with self._lock:
            self._rung = False
            self.wire.recv(64)

    def work(self) -> None:
        """Do what was asked for."""
        while self._work:
            self._work.popleft()()

    def close(self) -> None:
        """The thread ends, and does what is left."""
        with self._lock:
            self._closed = True
            self.wire.close()
            self._button.close()
        self.work()


class ClientQueues:
    """Octets of a client on their way in, and octets for it on their way out. Once `close` was said nothing goes in."""

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
        """From the client. Waits while there is no room."""
        with self._room:
            while self._inward_size >= ROOM and not self.closed:
                self._room.wait()
            if data and not self.closed:
                self._inward.append(data)
                self._inward_size += len(data)

    def heard(self) -> bytes:
        """The oldest that the client said; nothing when there is nothing."""
        with self._room:
            if not self._inward:
                return b""
            data = self._inward.popleft()
            self._inward_size -= len(data)
            self._room.notify_all()
            return data

    def tell(self, data: bytes) -> bool:
        """For the client. Answers whether there is no more room."""
        with self._news:
            self._outward.append(data)
            self._outward_size += len(data)
            self._news.notify_all()
            return self._outward_size >= ROOM

    def take(self, timeout: float) -> tuple[list[bytes], bool]:
        """All that there is for the client, after waiting so long for something; and whether there was no room."""
        with self._news:
            if not self._outward and not self.closed:
                self._news.wait(timeout)
            taken, self._outward = self._outward, []
            full, self._outward_size = self._outward_size >= ROOM, 0
            return taken, full

    def close(self) -> None:
        """Nothing more goes in; what there is for the client can still be taken."""
        with self._room:
            self.closed = True
            self._inward.clear()
            self._inward_size = 0
            self._room.notify_all()
            self._news.notify_all()


class RelayThread:
    """One session. Give it life with `start`; then `feed` octets of a client, `take` those for it, from any thread.
    End it with `hang_up`, or `abort`, and `join`. Once `over` nothing more comes, and `why` tells what happened.
    """

    def __init__(self, listener: Listener, name: str, dials: dict[Broker, Endpoint]) -> None:
        self.tally = Tally()
        self.selector: selectors.BaseSelector
        self._relay = Relay(listener, name.encode(), self.tally, random.random)
        self._dials = dials
        self._lines: dict[Leg, LegSocket] = {}
        self._leaving: set[LegSocket] = set()
        self._words: deque[str] = deque(maxlen=WORDS)
        self._wake = inf
        self._paused = False
        self._stopped = False
        self._mail = ClientQueues()
        self._wakeup: Wakeup
        self._thread = threading.Thread(target=self._run, name=f"stomp {name}", daemon=True)

    # From any thread

    def start(self) -> None:
        """Begin; then feed it a CONNECT."""
        self.selector = selectors.DefaultSelector()
        self._wakeup = Wakeup()
        self._thread.start()

    @property
    def over(self) -> bool:
        """Whether the session has ended."""
        return self._mail.closed

    def feed(self, data: bytes) -> None:
        """What the client says. Waits while too much of it is not read yet; when it is over it goes nowhere."""
        self._mail.feed(data)
        self._wakeup.ring()

    def take(self, timeout: float) -> list[bytes]:
        """What the client is told: all that has come, nothing when nothing came in time, or when it is over."""
        taken, full = self._mail.take(timeout)
        if full:
            self.soon(self._relieve)
        return taken

    @property
    def there(self) -> bool:
        """Whether the session has a broker in each group that it has not given up."""
        stages = [branch.stage for branch in self._relay.branches if branch.stage is not Stage.ENDED]
        return bool(stages) and all(each is Stage.UP for each in stages)

    @property
    def cumulative(self) -> bool:
        """Whether, at each broker that the session has now, a RECEIPT for a SEND tells that all before it are safe."""
        brokers = [branch.broker for branch in self._relay.branches]
        profiles = [None if each is None else each.profile for each in brokers]
        return bool(profiles) and all(each is not None and each.cumulative for each in profiles)

    def hang_up(self) -> None:
        """The client goes: what it said is still delivered, as the core does for any client."""

        def leave() -> None:
            self._pour()
            self._perform(self._relay.lost(self._relay.client, "it is done", time.monotonic()))

        self.soon(leave)

    def abort(self) -> None:
        """End at once."""

        def stop() -> None:
            self._stopped = True

        self.soon(stop)

    def join(self, timeout: float) -> bool:
        """Wait for the end. Answers whether it came."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    @property
    def why(self) -> str:
        """What was said last, by core and network."""
        return "; ".join(self._words)

    def soon(self, what: Callable[[], None]) -> None:
        """Call this in the relay_thread's thread; in this one when that has ended."""
        self._wakeup.soon(what)

    # The thread

    def _run(self) -> None:
        try:
            self.selector.register(self._wakeup.wire, selectors.EVENT_READ)
            self._perform(self._relay.opened(time.monotonic()))
            while not self._stopped and not (self._relay.over and not self._lines and not self._leaving):
                self._turn()
        except Exception as error:
            _log.exception("the STOMP client failed")
            self._words.append(f"{type(error).__name__}: {error}")
        finally:
            self._end()

    def _turn(self) -> None:
        now = time.monotonic()
        for key, mask in self.selector.select(self._patience(now)):
            line = key.data
            if line is None:
                self._wakeup.answer()
            else:
                line.ready(mask)
        for line in [each for each in self._all() if each.eager]:
            line.ready(selectors.EVENT_READ)
        self._wakeup.work()
        self._pour()
        now = time.monotonic()
        if now >= self._wake:
            self._perform(self._relay.woke(now))
        for line in [each for each in self._all() if each.deadline is not None and now >= each.deadline]:
            line.late()
        self._tell_full(now)

    def _patience(self, now: float) -> float | None:
        lines = self._all()
        if self._wakeup.waiting or any(line.eager for line in lines):
            return 0.0
        until = min([self._wake, *(line.deadline for line in lines if line.deadline is not None)])
        return None if until == inf else max(0.0, until - now)

    def _all(self) -> list[LegSocket]:
        return [*self._lines.values(), *self._leaving]

    def _pour(self) -> None:
        """The core reads what the client said, as fast as its brokers can be written to."""
        relay = self._relay
        while not self._paused and not relay.client.closed and not self._dammed():
            data = self._mail.heard()
            if not data:
                return
            self._perform(relay.received(relay.client, data, time.monotonic()))

    def _dammed(self) -> bool:
        return self._relay.coupled and any(line.full for line in self._lines.values())

    def _tell_full(self, now: float) -> None:
        """Where one broker does not set the pace the core wants to know which of them are slow."""
        coupled = self._relay.coupled
        for line in [*self._lines.values()]:
            full = line.full and (line.told or not coupled)
            if full is line.told:
                continue
            line.told = full
            if full:
                self._relay.blocked(line.leg)
            else:
                self._perform(self._relay.unblocked(line.leg, now))

    def _relieve(self) -> None:
        """There is room for what brokers say."""
        for line in [*self._lines.values()]:
            line.release(PRESSURE)

    # Effects

    def _perform(self, effects: Iterable[Effect]) -> None:
        lines, client = self._lines, self._relay.client
        for effect in effects:
            match effect:
                case Send(leg=leg, data=data):
                    if leg is client:
                        self._tell(data)
                    elif leg in lines:
                        lines[leg].write(data)
                case Open():
                    self._open(effect)
                case Close(leg=leg, how=how):
                    self._close(leg, how)
                case Pause(leg=leg):
                    self._hold(leg, True)
                case Resume(leg=leg):
                    self._hold(leg, False)
                case Wake(at=at):
                    self._wake = at
                case Note():
                    self._note(effect)

    def _hold(self, leg: Leg, on: bool) -> None:
        line = self._lines.get(leg)
        if leg is self._relay.client:
            self._paused = on
            if on:
                self._relay.paused(leg)
            else:
                self._perform(self._relay.resumed(leg, time.monotonic()))
        elif line is not None:
            (line.hold if on else line.release)(ASKED)

    def _note(self, note: Note) -> None:
        if note.event in _EXPLAINING:
            self._words.append(note.text)
        level = logging.WARNING if note.event in _WARNINGS else logging.INFO
        _log.log(level, "%s: %s", note.event.value, note.text)

    def _tell(self, data: bytes) -> None:
        if self._mail.tell(data):
            for line in [*self._lines.values()]:
                if line.leg.state is not State.OPENING:
                    line.hold(PRESSURE)

    def _open(self, effect: Open) -> None:
        line = self._lines[effect.leg] = LegSocket(self, effect.leg, self._dials[effect.broker])
        line.open(self._relay.listener.upstream.connect_timeout)

    def _close(self, leg: Leg, how: How) -> None:
        if leg is self._relay.client:
            self._mail.close()
            return
        line = self._lines.pop(leg, None)
        if line is not None:
            self._leaving.add(line)
            line.close(how, time.monotonic())

    # What lines tell

    def made(self, line: LegSocket) -> None:
        """A broker can be spoken to."""
        self._perform(self._relay.connected(line.leg, time.monotonic()))

    def received(self, line: LegSocket, data: bytes) -> None:
        """A broker says something."""
        self._perform(self._relay.received(line.leg, data, time.monotonic()))

    def refused(self, line: LegSocket, reason: str) -> None:
        """A broker cannot be had."""
        self._lines.pop(line.leg, None)
        self._perform(self._relay.refused(line.leg, reason, time.monotonic()))

    def lost(self, line: LegSocket, reason: str) -> None:
        """A broker went."""
        self._lines.pop(line.leg, None)
        self._perform(self._relay.lost(line.leg, reason, time.monotonic()))

    def held(self, line: LegSocket, on: bool) -> None:
        """A broker that is not read from must not be taken for silent."""
        if on:
            self._relay.paused(line.leg)
        else:
            self._perform(self._relay.resumed(line.leg, time.monotonic()))

    def gone(self, line: LegSocket) -> None:
        """A closed connection has ended."""
        self._leaving.discard(line)

    # Ends

    def _end(self) -> None:
        for line in self._all():
            line.close(How.ABORT, 0.0)
        self._mail.close()
        self.selector.close()
        self._wakeup.close()
