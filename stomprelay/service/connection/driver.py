"""What drives a core: the driver reports to the core what happens, and performs the effects that the core returns,
in order.

A `Driver` stands for one client (its relay, or its connection to the embedded broker) or for one probe of a broker.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar, Final

from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.interfaces import IStreamClientEndpoint
from twisted.logger import LogLevel

from stomprelay.relay.effects import Effect
from stomprelay.service.connection.backpressure import ASKED, TURN
from stomprelay.service.connection.protocol import LegOwner, LegProtocol
from stomprelay.service.connection.repeats import Repeats
from stomprelay.service.connection.runtime import Runtime
from stomprelay.service.log import heard, logger, write
from stomprelay.service.network.endpoints import BrokerEndpoint, WebSocketEndpoint
from stomprelay.session.effects import Close, Event, GiveWay, Note, Pause, Resume, Send, Wake
from stomprelay.session.leg import Leg
from stomprelay.session.reasons import WARNINGS, spell_fault
from stomprelay.wire.errors import visible

_log: Final = logger()

_ONCE: Final = frozenset({Event.CONNECTED, Event.DISCONNECTED})
"""The events that a peer brings about once in a session that was accepted: their lines are never too many."""


class Driver(LegOwner):
    """Performs effects. Its own timer wakes its core. `legs` counts those that are not closed.

    Subclasses know the core: they implement what `LegOwner` and this class leave open. Where they set `_record`, it is
    called with this driver and all effects before they are performed.
    """

    __slots__ = ("_record", "legs")

    def __init__(self, runtime: Runtime, linger: float) -> None:
        super().__init__(runtime, linger)
        self.legs = 0
        self._record: Callable[[Any, Sequence[Effect]], None] | None = None

    def perform(self, effects: Sequence[Effect]) -> None:
        """Perform the effects that the core returned, in order. Where one raises, which is a bug, the others are
        performed all the same, then `failed` is called.
        """
        if self._record is not None:
            self._record(self, effects)
        protocols = self.runtime.protocols
        fault: Exception | None = None
        pending = iter(effects)
        while True:
            try:
                for effect in pending:
                    if type(effect) is Send:
                        protocol = protocols.get(effect.leg)
                        if protocol is not None:
                            protocol.write(effect.data)
                            protocol.bytes_sent += len(effect.data)
                    else:
                        self.effects[type(effect)](self, effect)
                break
            except Exception as error:
                _log.critical("an effect {fault}", fault=spell_fault(error))
                fault = fault or error
        if fault is not None:
            self.failed(fault)

    def failed(self, error: Exception) -> None:
        """An effect could not be performed; that was logged."""

    @property
    def over(self) -> bool:
        """Whether nothing more will happen: its legs are all closed."""
        return not self.legs

    def added(self, protocol: LegProtocol) -> None:
        """Count a leg that has a connection, or is about to have one."""
        self.legs += 1
        self.runtime.protocols[protocol.leg] = protocol

    def closed(self, protocol: LegProtocol) -> None:
        """Count a leg that was closed. With the last one call `end`, where `over` is True."""
        self.legs -= 1
        del self.runtime.protocols[protocol.leg]
        if self.over:
            self.end()

    def end(self) -> None:
        """Stop the timer: nothing more will happen. Subclasses also call the `ended` that they were made with."""
        self.runtime.timers.forget(self)

    def gave_way(self, leg: Leg) -> None:
        """Others had their turn after a `GiveWay`: the core goes on with what waits on the leg."""
        raise NotImplementedError

    def connect(self, leg: Leg, endpoint: BrokerEndpoint) -> None:
        """Connect a leg to a broker. Its protocol reports `connected` or `refused`."""
        if not isinstance(endpoint, WebSocketEndpoint):
            LegProtocol(self, leg).connect(self.introduced(endpoint))
            return
        # What reads WebSocket is not loaded where none is wanted.
        from stomprelay.service.connection.web import BrokerWebProtocol

        BrokerWebProtocol(self, leg, endpoint).connect(self.introduced(endpoint.endpoint))

    def introduced(self, endpoint: IStreamClientEndpoint) -> IStreamClientEndpoint:
        """Return the endpoint by which the broker is told whose connection it is; the same where there is no client."""
        return endpoint

    # Effects

    def _close(self, effect: Close) -> None:
        protocol = self.runtime.protocols.get(effect.leg)
        if protocol is not None:
            protocol.close(effect.how)

    def _pause(self, effect: Pause) -> None:
        protocol = self.runtime.protocols.get(effect.leg)
        if protocol is not None:
            protocol.hold(ASKED)

    def _resume(self, effect: Resume) -> None:
        protocol = self.runtime.protocols.get(effect.leg)
        if protocol is not None:
            protocol.release(ASKED)

    def _give_way(self, effect: GiveWay) -> None:
        protocol = self.runtime.protocols.get(effect.leg)
        if protocol is not None:
            protocol.hold(TURN)
        self.runtime.turns.wait(effect.leg, partial(self._next_turn, effect.leg))

    def _next_turn(self, leg: Leg) -> None:
        """Read on before the core goes on, which may stop the reading again, for this reason or for another."""
        protocol = self.runtime.protocols.get(leg)
        if protocol is not None:
            protocol.release(TURN)
        self.gave_way(leg)

    def _wake(self, effect: Wake) -> None:
        if self.legs or not self.over:
            self.runtime.timers.set(self, effect.at)

    def _note(self, effect: Note) -> None:
        """Write a line to the log."""
        raise NotImplementedError

    effects: ClassVar[dict[type[Any], Callable[[Any, Any], None]]] = {
        Close: _close,
        Pause: _pause,
        Resume: _resume,
        GiveWay: _give_way,
        Wake: _wake,
        Note: lambda self, effect: self._note(effect),
    }
    """The method that performs each kind of effect but `Send`."""


def unlogged(effect: Note) -> bool:
    """Whether a note is for the journal only, or a detail that nobody wants to know."""
    return effect.quiet or (effect.detail and not heard(LogLevel.debug))


def log_note(effect: Note, form: str, repeats: Repeats, kind: str, **fields: str) -> None:
    """Write a note to the log in this form, which may use `event` and `text` beside its own fields. A quiet note is
    not logged, and of too many of one `kind` and event only the number.
    """
    if unlogged(effect):
        return
    level = LogLevel.warn if effect.event in WARNINGS else LogLevel.info
    event = effect.event.value
    if effect.detail:
        level = LogLevel.debug
    elif "attempts" in effect.facts:
        # All sessions of a broker find it away at the same time, and one of them is enough to know.
        if not repeats.passes(f"{kind}: {event} again and again", 1):
            return
    elif effect.event not in _ONCE and not repeats.passes(f"{kind}: {event}"):
        return
    write(level, form, event=event, text=visible(effect.text), **fields)


def spell_address(address: object) -> str:
    """Return a peer's address as the log shows it; for one on the network `host:port`."""
    if isinstance(address, IPv6Address):
        return f"[{address.host}]:{address.port}"
    if isinstance(address, IPv4Address):
        return f"{address.host}:{address.port}"
    return "a local socket"


_LONGEST: Final = 64


def spell_text(value: bytes) -> str:
    """Return a peer's words as the log may show them: in quotes, in one line without control characters, and cut where
    they are long.
    """
    text = value[: 4 * _LONGEST].decode("utf-8", "backslashreplace")
    shown = visible(text[:_LONGEST].replace("\\", "\\\\").replace('"', '\\"'))
    return f'"{shown}{"..." if len(text) > _LONGEST else ""}"'
