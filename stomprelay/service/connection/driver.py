"""Performing what the core asks for.

A `Performer` stands for one client: for its relay, or for its connection to the embedded broker. It tells the core
what happened and performs the effects that it answers, in order. A `Stage` is what performers share.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol

from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger, LogLevel

from stomprelay.relay.effects import Effect
from stomprelay.service.connection.backpressure import ASKED
from stomprelay.service.connection.protocol import LegProtocol
from stomprelay.service.connection.timers import Alarms, Sleeper
from stomprelay.session.effects import Close, Event, Note, Pause, Resume, Send, Wake
from stomprelay.session.leg import Leg

if TYPE_CHECKING:
    from stomprelay.service.journal.journal import Journal

_log: Final = Logger("stomprelay")

_WARNINGS: Final = frozenset({Event.ERROR, Event.FOREIGN, Event.LOST, Event.REFUSED})


class Place(Protocol):
    """Where clients come in. A `Listener` is one."""

    @property
    def name(self) -> str:
        """As the configuration calls it."""

    @property
    def linger(self) -> float:
        """Seconds that a closed connection may take to end."""


class Stage:
    """What the performers of one service share: the connections by leg, the clock, the alarms.

    `seconds` is a clock that never goes back. `over` is told of each performer that is over. `sockets` counts
    the connections that are still open, lingering ones included. `journal` is where the relay's own doings are
    recorded, if anywhere.
    """

    def __init__(
        self,
        reactor: IReactorTime,
        seconds: Callable[[], float],
        over: Callable[["Performer"], None],
    ) -> None:
        self.reactor = reactor
        self.seconds = seconds
        self.over = over
        self.alarms = Alarms(reactor, seconds)
        self.journal: Journal | None = None
        self.lines: dict[Leg, LegProtocol] = {}
        self.sockets = 0
        self._idle: Deferred[None] | None = None

    def lost_socket(self) -> None:
        """A connection ended."""
        self.sockets -= 1
        if not self.sockets and self._idle is not None:
            idle, self._idle = self._idle, None
            idle.callback(None)

    def idle(self) -> Deferred[None]:
        """Fires when no connection is left."""
        if not self.sockets:
            return succeed(None)
        if self._idle is None:
            self._idle = Deferred()
        return self._idle


class Performer(Sleeper):
    """Performs effects. As a sleeper it wakes its core.

    Subclasses say who the core is, by the methods that end in a raise.
    """

    __slots__ = ("legs", "place", "stage")

    def __init__(self, stage: Stage, place: Place) -> None:
        super().__init__()
        self.stage = stage
        self.place = place
        self.legs = 0

    def perform(self, effects: Iterable[Effect]) -> None:
        """Do what the core answered, in order."""
        lines = self.stage.lines
        for effect in effects:
            if type(effect) is Send:
                line = lines.get(effect.leg)
                if line is not None:
                    line.write(effect.data)
            else:
                self.effects[type(effect)](self, effect)

    @property
    def over(self) -> bool:
        """Whether nothing more will happen: its legs are all closed."""
        return not self.legs

    # What a connection tells

    def joined(self, line: LegProtocol) -> None:
        """A leg has a connection, or is about to have one."""
        self.legs += 1
        self.stage.lines[line.leg] = line

    def made(self, line: LegProtocol) -> None:
        """The connection is established."""
        raise NotImplementedError

    def received(self, line: LegProtocol, data: bytes) -> None:
        """Octets came."""
        raise NotImplementedError

    def read(self, line: LegProtocol, on: bool) -> None:
        """The leg is read from again, or not any more."""

    def refused(self, line: LegProtocol, reason: str) -> None:
        """The connection cannot be had."""
        raise NotImplementedError

    def lost(self, line: LegProtocol, reason: str) -> None:
        """The connection ended by itself."""
        raise NotImplementedError

    def left(self, line: LegProtocol) -> None:
        """The leg was closed. With the last one the performer's part may be over."""
        self.legs -= 1
        del self.stage.lines[line.leg]
        if self.over:
            self.end()

    def end(self) -> None:
        """Its part is over: nothing wakes it any more, and the stage is told."""
        self.stage.alarms.forget(self)
        self.stage.over(self)

    # Effects

    def _close(self, effect: Close) -> None:
        line = self.stage.lines.get(effect.leg)
        if line is not None:
            line.close(effect.how)

    def _pause(self, effect: Pause) -> None:
        line = self.stage.lines.get(effect.leg)
        if line is not None and line.valve is not None:
            line.valve.hold(ASKED)

    def _resume(self, effect: Resume) -> None:
        line = self.stage.lines.get(effect.leg)
        if line is not None and line.valve is not None:
            line.valve.release(ASKED)

    def _wake(self, effect: Wake) -> None:
        if not self.over:
            self.stage.alarms.set(self, effect.at)

    def _note(self, effect: Note) -> None:
        """Write a line to the log."""
        raise NotImplementedError

    effects: ClassVar[dict[type[Any], Callable[[Any, Any], None]]] = {
        Close: _close,
        Pause: _pause,
        Resume: _resume,
        Wake: _wake,
        Note: lambda self, effect: self._note(effect),
    }
    """What is done for each kind of effect but `Send`."""


def log_note(effect: Note, form: str, **fields: str) -> None:
    """Write a note to the log, unless it is quiet, in this form, which may use `event` and `text` beside its own
    fields.
    """
    if effect.quiet:
        return
    level = LogLevel.warn if effect.event in _WARNINGS else LogLevel.info
    _log.emit(level, form, event=effect.event.value, text=effect.text, **fields)


def spell_address(address: object) -> str:
    """A peer's address for the log."""
    if isinstance(address, IPv6Address):
        return f"[{address.host}]:{address.port}"
    if isinstance(address, IPv4Address):
        return f"{address.host}:{address.port}"
    return "a local socket"
