"""What the connections of one service share: timers, turns, the watch for peers that leave, and the number of open
sockets. Peers can cause some lines of the log as often as they like. The number of these lines is limited here.
"""

import select
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from math import ceil, inf
from typing import Any, Final

from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.defer import Deferred, TimeoutError, succeed
from twisted.internet.interfaces import IDelayedCall, IReactorFDSet, IReactorTime, IReadDescriptor
from twisted.logger import LogLevel
from twisted.python.failure import Failure
from zope.interface import implementer

from stomprelay.relay.counting import Tallies
from stomprelay.service.connection.memory import SessionMemory
from stomprelay.service.log import heard, logger, write
from stomprelay.session.effects import Event, Note
from stomprelay.session.leg import Leg
from stomprelay.session.reasons import WARNINGS
from stomprelay.wire.errors import visible

TICKS: Final = 64
"""Ticks a second. An object is called at most one tick after its time."""
BUDGET: Final = 0.01
"""Seconds of one turn of the reactor that all waiting sessions may use together."""

_log: Final = logger()


@dataclass(slots=True, eq=False, repr=False)
class Timed:
    """An object with one timer. At the time `armed`, the end of a tick, `Timers` will look at the object. If `armed` is
    infinity, the timer is not set.
    """

    runtime: "Runtime"
    _due: float = field(default=inf, init=False)
    armed: float = field(default=inf, init=False)

    def set_timer(self, at: float) -> None:
        """Let `woke` be called at this time (seconds), and not at the time that was set before. Infinity: never."""
        self._due = at
        if at < self.armed and (tick := ceil(at * TICKS) / TICKS) < self.armed:
            self.armed = self.runtime.timers.arm(self, tick)

    def stop_timer(self) -> None:
        """Do not let `woke` be called any more. If all timers are stopped, no delayed call is left."""
        self._due = inf
        if self.armed < inf:
            self.armed = inf
            self.runtime.timers.disarmed()

    def reached(self, tick: float) -> bool:
        """Return whether the timer was armed for this tick, which has ended. If so, it is not armed any more."""
        if self.armed != tick:
            return False
        self.armed = inf
        return True

    def rang(self, now: float) -> None:
        """Call `woke` if its time has come, else arm the timer again."""
        due, self._due = self._due, inf
        if due > now:
            self.set_timer(due)
        else:
            self.woke(now)

    def woke(self, now: float) -> None:
        """The timer calls this once, at or after the time that was set. For another call, set the timer again."""
        raise NotImplementedError


class Timers:
    """The timers of many objects, with one delayed call of the reactor. Only the methods of `Timed` call the methods of
    this class. Times are in seconds of the clock `seconds`, which never goes back.
    """

    def __init__(self, reactor: IReactorTime, seconds: Callable[[], float]) -> None:
        self._reactor = reactor
        self._seconds = seconds
        self._ticks: list[float] = []
        """A heap of the ends of ticks, in seconds."""
        self._waiting: dict[float, tuple[float, list[Timed]]] = {}
        """For each tick: the float that all its objects share as `armed`, and the objects in the tick. An object in
        this list that is armed for another tick by now is skipped.
        """
        self._places = 0
        self._armed = 0
        self._next = inf
        self._call: IDelayedCall | None = None

    def __len__(self) -> int:
        """Return the number of entries. Entries of replaced and stopped times count, too; their number is bounded."""
        return self._places

    def arm(self, timed: Timed, tick: float) -> float:
        """Look at the object at the end of this tick, which is earlier than the tick in `armed`. Return the float for
        the tick. All objects of the tick share this float. The caller stores it as `armed`.
        """
        if timed.armed == inf:
            self._armed += 1
        elif self._crowded:
            self._tidy()
        self._places += 1
        found = self._waiting.get(tick)
        if found is None:
            found = self._waiting[tick] = tick, []
            heappush(self._ticks, tick)
        found[1].append(timed)
        if tick < self._next:
            self._schedule(tick)
        return found[0]

    def disarmed(self) -> None:
        """Record that the timer of one object was stopped. If no timer is armed any more, cancel the delayed call."""
        self._armed -= 1
        if not self._armed:
            self._clear()
            self._schedule(inf)
        elif self._crowded:
            self._tidy()

    @property
    def _crowded(self) -> bool:
        """Whether there are too many entries of replaced and stopped times."""
        return self._places > 4 * self._armed + 64

    def _clear(self) -> None:
        self._ticks.clear()
        self._waiting.clear()
        self._places = 0

    def _tidy(self) -> None:
        """Remove the entries of replaced and stopped times."""
        for tick, waiting in list(self._waiting.values()):
            waiting[:] = [timed for timed in waiting if timed.armed == tick]
            if not waiting:
                del self._waiting[tick]
        self._ticks[:] = self._waiting
        heapify(self._ticks)
        self._places = sum(len(waiting) for _, waiting in self._waiting.values())

    def _schedule(self, at: float) -> None:
        self._next = at
        if self._call is not None:
            self._call.cancel()
            self._call = None
        if at < inf:
            self._call = self._reactor.callLater(max(0.0, at - self._seconds()), self._fire)

    def _fire(self) -> None:
        self._call = None
        self._next = -inf
        now = self._seconds()
        fired: list[Timed] = []
        while self._ticks and self._ticks[0] <= now:
            tick, waiting = self._waiting.pop(heappop(self._ticks))
            self._places -= len(waiting)
            fired += [timed for timed in waiting if timed.reached(tick)]
        self._armed -= len(fired)
        for timed in fired:
            try:
                timed.rang(now)
            except Exception:
                _log.failure("an alarm failed")
        if not self._armed:
            self._clear()
        self._schedule(self._ticks[0] if self._ticks else inf)


class TurnQueue:
    """The sessions with more work than one turn allows, in the order in which they began to wait."""

    def __init__(self, reactor: IReactorTime, seconds: Callable[[], float]) -> None:
        self._reactor = reactor
        self._seconds = seconds
        self._waiting: OrderedDict[Hashable, Callable[[], object]] = OrderedDict()
        self._called = False

    def wait(self, who: Hashable, go_on: Callable[[], object]) -> None:
        """Call `go_on` when the turn of `who` comes, in a later turn of the reactor. No effect if `who` waits."""
        self._waiting.setdefault(who, go_on)
        if not self._called:
            self._called = True
            self._reactor.callLater(0, self._go_on)

    def _go_on(self) -> None:
        """Let each waiting session work once, until the time budget is used up; the remaining sessions wait."""
        self._called = False
        until = self._seconds() + BUDGET
        count = len(self._waiting)
        try:
            while count and self._waiting:
                count -= 1
                _, go_on = self._waiting.popitem(last=False)
                go_on()
                if self._seconds() >= until:
                    break
        finally:
            if self._waiting and not self._called:
                self._called = True
                self._reactor.callLater(0, self._go_on)


MOST: Final = 5
"""Lines of one kind that are written within `EVERY` seconds."""
EVERY: Final = 10.0


@dataclass(slots=True, eq=False, repr=False)
class _Kind(Timed):
    """Counts the lines of one kind. `_until`: the end of this `EVERY` seconds. The timer runs if lines are left out."""

    _name: str
    left_out: int = 0
    _written: int = 0
    _until: float = 0.0

    def passes(self, now: float, most: int) -> bool:
        """Count one more line. Return whether it is to be written, because it is among the first `most`."""
        if now >= self._until and not self.left_out:
            self._written = 0
            self._until = now + EVERY
        if self._written < most:
            self._written += 1
            return True
        if not self.left_out:
            self.set_timer(self._until)
        self.left_out += 1
        return False

    def tell(self) -> None:
        """Write how many lines were left out since the last call, if any."""
        left_out, self.left_out = self.left_out, 0
        if left_out:
            _log.warn(
                "{kind}: and {count} more in {seconds:g} s", kind=self._name, count=left_out, seconds=EVERY
            )

    def woke(self, now: float) -> None:
        """Log how many lines were left out. For the next `EVERY` seconds this counts as one line."""
        self.tell()
        self._until = now + EVERY


class Repeats:
    """Decides which lines are written. The name of a `kind` stands in the log, so it must not be a peer's text."""

    def __init__(self, runtime: "Runtime") -> None:
        self._runtime = runtime
        self._kinds: dict[str, _Kind] = {}

    def passes(self, kind: str, most: int = MOST) -> bool:
        """Return whether to write a line of this kind now. After `most` lines, further lines are only counted."""
        found = self._kinds.get(kind)
        if found is None:
            found = self._kinds[kind] = _Kind(self._runtime, kind)
        return found.passes(self._runtime.seconds(), most)

    def stop(self) -> None:
        """Log now how many lines were left out, and stop the timers: the service ends."""
        for kind in self._kinds.values():
            kind.tell()
            kind.stop_timer()
        self._kinds.clear()


_ONCE: Final = frozenset({Event.CONNECTED, Event.DISCONNECTED})
"""The events that a peer can cause only once in an accepted session. Their lines are not limited."""


def unlogged(effect: Note) -> bool:
    """Whether a note is only for the journal, or too detailed for the log level."""
    return effect.quiet or (effect.detail and not heard(LogLevel.debug))


def log_note(effect: Note, form: str, repeats: Repeats, kind: str, **fields: str) -> None:
    """Write a note to the log in this form, which may use `event` and `text` beside the note's own fields. A quiet note
    is not logged. If there are too many notes of one `kind` and event, only their number is logged.
    """
    if unlogged(effect):
        return
    level = LogLevel.warn if effect.event in WARNINGS else LogLevel.info
    event = effect.event.value
    if effect.detail:
        level = LogLevel.debug
    elif "attempts" in effect.facts:
        # All sessions of a broker fail to reach it at the same time: one line is enough.
        if not repeats.passes(f"{kind}: {event} again and again", 1):
            return
    elif effect.event not in _ONCE and not repeats.passes(f"{kind}: {event}"):
        return
    write(level, form, event=event, text=visible(effect.text), **fields)


def spell_address(address: object) -> str:
    """Return a peer's address as the log shows it: `host:port`, or words if the peer is not on the network."""
    if isinstance(address, IPv6Address):
        return f"[{address.host}]:{address.port}"
    if isinstance(address, IPv4Address):
        return f"{address.host}:{address.port}"
    return "a local socket"


_LONGEST: Final = 64


def spell_text(value: bytes) -> str:
    """Return a peer's text for the log: in quotes, on one line, without control characters, not too long."""
    text = value[: 4 * _LONGEST].decode("utf-8", "backslashreplace")
    shown = visible(text[:_LONGEST].replace("\\", "\\\\").replace('"', '\\"'))
    return f'"{shown}{"..." if len(text) > _LONGEST else ""}"'


AVAILABLE: Final = hasattr(select, "epoll")
AT_ONCE: Final = 256
"""The most connections that are looked at in one turn of the reactor."""


@implementer(IReadDescriptor)
class Departures:
    """Watches sockets for peers that leave, for all connections of a service. Call `open` first, `close` at the end."""

    def __init__(self, reactor: Any) -> None:
        self._reactor = reactor
        self._poller: Any = None
        self._watched: dict[int, Callable[[bool], None]] = {}

    def watch(self, descriptor: int, departed: Callable[[bool], None]) -> None:
        """Call `departed` in a later turn: with False when the peer closes its direction, with True when it resets."""
        if self._poller is None:
            return
        events = select.EPOLLRDHUP | select.EPOLLET
        try:
            self._poller.register(descriptor, events)
        except FileExistsError:
            self._poller.modify(descriptor, events)
        except OSError as error:
            _log.warn("a connection cannot be watched: {error}", error=error)
            return
        self._watched[descriptor] = departed

    def forget(self, descriptor: int) -> None:
        """Stop watching this socket, if it is watched."""
        if self._watched.pop(descriptor, None) is None:
            return
        try:
            self._poller.unregister(descriptor)
        except OSError:
            pass  # the socket is closed, which also removed its registration

    def open(self) -> None:
        """Begin: sockets can be watched from now on, where the system can do so."""
        if not AVAILABLE or not IReactorFDSet.providedBy(self._reactor):
            return
        try:
            self._poller = select.epoll()
        except OSError as error:
            _log.warn("no connection can be watched: {error}", error=error)
            return
        self._reactor.addReader(self)

    def close(self) -> None:
        """Stop watching all sockets."""
        poller, self._poller = self._poller, None
        self._watched.clear()
        if poller is not None:
            self._reactor.removeReader(self)
            poller.close()

    # What the reactor asks for

    def fileno(self) -> int:
        """Return the descriptor of the epoll object; -1 if it is closed."""
        return -1 if self._poller is None else int(self._poller.fileno())

    def doRead(self) -> None:
        """Call `departed` of each socket whose peer has left."""
        for descriptor, events in self._poller.poll(0, AT_ONCE):
            departed = self._watched.get(descriptor)
            if departed is not None:
                departed(bool(events & (select.EPOLLHUP | select.EPOLLERR)))

    def logPrefix(self) -> str:
        """Return this object's name in Twisted's log lines."""
        return "departures"

    def connectionLost(self, reason: Failure) -> None:
        """Do nothing; Twisted calls it when the reactor stops."""


GRACE: Final = 1.0
"""A service that stops waits for its connections to end. It waits for the linger, and this number of seconds more."""


class Runtime:
    """What the connections of one service share: reactor, clock, timers, turns, counters, the watch for clients that
    leave, the memory that is kept, and the protocols by leg.

    `seconds` is a clock that never goes back. `sockets` is the number of open connections. `closing` is the number of
    open connections that the relay closed and that wait for their peer. `noted` is called with each note of a session
    or a probe; see `observe`.
    """

    def __init__(
        self, reactor: IReactorTime, seconds: Callable[[], float], memory: SessionMemory | None = None
    ) -> None:
        self.reactor = reactor
        self.seconds = seconds
        self.sockets = 0
        self.closing = 0
        self._idle: Deferred[None] | None = None
        self.timers = Timers(reactor, seconds)
        self.turns = TurnQueue(reactor, seconds)
        self.repeats = Repeats(self)
        self.tallies = Tallies()
        self.noted: Callable[[Note, bool], None] = lambda note, probed: None
        self.protocols: dict[Leg, Any] = {}
        self.departures = Departures(reactor)
        self.memory = SessionMemory(reactor, seconds) if memory is None else memory

    def socket_opened(self, closing: bool) -> None:
        """Count an open socket. `closing`: its connection was given up before it was established, and ends at once."""
        self.sockets += 1
        self.closing += closing

    def socket_closing(self) -> None:
        """Count an open connection that was closed and waits for its peer."""
        self.closing += 1

    def socket_closed(self, closing: bool) -> None:
        """Count a connection that ended. `closing`: it was closed before. If no connection is left, `idle` fires."""
        self.sockets -= 1
        self.closing -= closing
        if not self.sockets and self._idle is not None:
            idle, self._idle = self._idle, None
            idle.callback(None)

    def idle(self) -> Deferred[None]:
        """Return a Deferred that fires when no connection is left."""
        if not self.sockets:
            return succeed(None)
        if self._idle is None:
            self._idle = Deferred()
        return self._idle

    async def wait_closed(self, linger: float) -> bool:
        """Wait until all connections have ended, at most `linger` and `GRACE` seconds. Return False if not all have."""
        try:
            await self.idle().addTimeout(linger + GRACE, self.reactor)
        except TimeoutError:
            return False
        return True

    def observe(self, noted: Callable[[Note, bool], None]) -> None:
        """From now on call `noted` with each note of a session or a probe. The second argument is True for a probe."""
        self.noted = noted
