"""Driving a relay whose journal is kept: the frames of its legs, and what happens to them, are recorded."""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final

from stomprelay.journal.capture import LegRecorder
from stomprelay.journal.schema import Context, JournalEvent, JournalSide
from stomprelay.relay.effects import Effect, Open
from stomprelay.relay.model.group import Broker
from stomprelay.relay.relay import Relay
from stomprelay.service.connection.backpressure import ASKED, JOURNAL, PRESSURE
from stomprelay.service.connection.driver import spell_address
from stomprelay.service.connection.pipes import Recording, make_pipe
from stomprelay.service.connection.protocol import LegProtocol, Runtime
from stomprelay.service.connection.relay_driver import Endpoints, RelayDriver
from stomprelay.service.connection.timers import Timed, Timers
from stomprelay.service.journal.journal import Journal
from stomprelay.session.effects import Note
from stomprelay.session.leg import Leg, State
from stomprelay.wire.dialect import V1_0
from stomprelay.wire.errors import StompError
from stomprelay.wire.frame import Frame
from stomprelay.wire.names import LOGIN
from stomprelay.wire.run import Passing

if TYPE_CHECKING:
    from stomprelay.service.connection._pipe import Pipe

QUIET: Final = 1.0
"""Seconds of uninterrupted reading after which a stop counts as over: under load reading stops and goes on many times
a second, and that is one event.
"""

_CLIENT_ID: Final = b"client-id"
_LONGEST: Final = 1000
_REASONS: Final = {PRESSURE: "pressure", ASKED: "relay"}
_NOT_CONNECTED: Final = frozenset({State.OPENING, State.CONNECTING})
_HOLDABLE: Final = frozenset({State.CONNECTING, State.CONNECTED})
"""The states of a leg whose peer may send much. A leg that waits for the answer to CONNECT has its own time limit.
"""

Record = Callable[[JournalEvent, str, dict[str, Any]], None]


class ReadingStop(Timed):
    """A leg that is not read from, as two events of the journal: `HELD` when it `began`, `RELEASED` at its end.

    Call `resumed` and `stopped` in turns. It ends, and calls `ended`, `QUIET` seconds after the last `resumed`, or
    when `end` is called.
    """

    __slots__ = ("_ended", "_record", "_seconds", "_side", "_since", "_timers", "_total")

    def __init__(
        self,
        timers: Timers,
        seconds: Callable[[], float],
        side: str,
        record: Record,
        ended: Callable[[], None],
    ) -> None:
        super().__init__()
        self._timers = timers
        self._seconds = seconds
        self._side = side
        self._record = record
        self._ended = ended
        self._since: float | None = None
        self._total = 0.0

    def began(self, reason: str) -> None:
        """Record `HELD` with this reason: the leg is not read from any more."""
        self.stopped()
        text = f"the {self._side} is not read from"
        self._record(JournalEvent.HELD, text, {"side": self._side, "reason": reason})

    def stopped(self) -> None:
        """Go on with this stop: the leg was read from for a moment, and is not any more."""
        if self._since is None:
            self._since = self._seconds()

    def resumed(self) -> None:
        """Set the timer: the leg is read from, and the stop ends unless `stopped` is called within `QUIET`
        seconds.
        """
        if self._since is not None:
            now = self._seconds()
            self._total += now - self._since
            self._since = None
            self._timers.set(self, now + QUIET)

    def woke(self, now: float) -> None:
        """End the stop: the leg was read from for `QUIET` seconds."""
        if self._since is None:
            self.end()

    def end(self) -> None:
        """Record `RELEASED` and call `ended`: the stop is over, or the leg is closed."""
        self.resumed()
        self._timers.forget(self)
        text = f"the {self._side} is read from again, after {self._total:.3f} s"
        self._record(JournalEvent.RELEASED, text, {"side": self._side, "seconds": round(self._total, 3)})
        self._ended()


class RecordingDriver(RelayDriver):
    """A `RelayDriver` that records: the frames decoded from one chunk of a leg are one block, each `Note` an event.

    `upstreams` has the name of each broker's upstream.
    """

    __slots__ = (
        "_context",
        "_context_bytes",
        "_contexts",
        "_host",
        "_journal",
        "_record_block",
        "_record_leg",
        "_recorders",
        "_stops",
        "_upstreams",
    )

    def __init__(
        self,
        runtime: Runtime,
        relay: Relay,
        endpoints: Endpoints,
        ended: Callable[[RelayDriver], None],
        journal: Journal,
        upstreams: Mapping[Broker, str],
    ) -> None:
        super().__init__(runtime, relay, endpoints, ended)
        self._journal = journal
        self._record_block = journal.record
        self._record_leg = journal.record_leg
        self._upstreams = upstreams
        self._context = Context(relay.listener.name, relay.name.decode("ascii"))
        self._context_bytes = b""
        self._host = ""
        self._recorders: tuple[LegRecorder, ...] = ()
        self._contexts: dict[Leg, Context] = {}
        self._stops: dict[Leg, ReadingStop] = {}

    # What is recorded

    def perform(self, effects: Iterable[Effect]) -> None:
        """Perform the effects first; then record the frames that led to them."""
        RelayDriver.perform(self, effects)
        for recorder in self._recorders:
            if recorder.frames:  # what `_record_frames` does, on the hot path
                if not recorder.context:
                    self._leg_context(recorder)
                self._record_leg(recorder)
                if self._journal.full:
                    self.hold()

    def make_pipe(
        self, source: LegProtocol, target: LegProtocol, passing: Passing, trails: bool
    ) -> "Pipe | None":
        """Return a pipe that gives its leg's recorder what passes; None where each frame needs a look."""
        (recorder,) = (each for each in self._recorders if each.leg is source.leg)
        if recorder.keep is None:
            return None

        # The leg has CONNECT or CONNECTED behind it: its context is known; and it is held while the journal is full.
        recording = Recording(recorder, self._record_leg)
        return make_pipe(source, target, passing, trails, self.failed, recording)

    def _record_frames(self, recorder: LegRecorder) -> None:
        self._record_block(recorder.context or self._leg_context(recorder), *recorder.take())
        if self._journal.full:
            self.hold()

    def _leg_context(self, recorder: LegRecorder) -> bytes:
        """Set and return the encoded context of a leg's frames, with the client's name and the version of STOMP.
        Call it when the leg has its first frame.
        """
        leg = recorder.leg
        if leg is self.relay.client:
            connect = recorder.frames[0]
            assert isinstance(connect, Frame)
            self._identify_client(connect)
            session = self.relay.session
            version = b"" if session is None else session.dialect.version
            context = self._context._replace(side=JournalSide.CLIENT.value)
        else:
            version = leg.dialect.version
            context = self._contexts[leg]._replace(client=self._context.client)
        recorder.context = context._replace(version=version.decode("ascii")).encode()
        return recorder.context

    def _identify_client(self, connect: Frame) -> None:
        """Set the client's name in the journal from its CONNECT: its client-id, else its login, else its host."""
        try:
            headers = dict(reversed(connect.headers(V1_0)))
        except StompError:
            headers = {}
        name = (headers.get(_CLIENT_ID) or headers.get(LOGIN) or b"").strip().decode("utf-8", "replace")
        self._context = self._context._replace(client=name[:_LONGEST] or self._host)
        self._context_bytes = b""

    def _record_event(self, event: str, text: str, facts: Any) -> None:
        """Record an event of this session, after the frames that led to it."""
        for recorder in self._recorders:
            if recorder.frames:
                self._record_frames(recorder)
        if not self._context_bytes:
            self._context_bytes = self._context.encode()
        self._journal.event(self._context_bytes, event, text, facts)

    def _note(self, effect: Note) -> None:
        super()._note(effect)
        self._record_event(effect.event.value, effect.text, effect.facts)

    # Legs come and go

    def added(self, protocol: LegProtocol) -> None:
        """A leg has a connection, or is about to have one."""
        recorder = LegRecorder(protocol.leg, self._journal.capture, traced=self.relay.listener.trace)
        self._recorders = (*self._recorders, recorder)
        super().added(protocol)

    def connected(self, protocol: LegProtocol) -> None:
        """Prepare the recording of a leg, and report to the relay that the client or a broker is connected."""
        if protocol.leg is self.relay.client:
            peer = spell_address(protocol.peer)
            self._host = getattr(protocol.peer, "host", peer)
            self._context = self._context._replace(peer=peer)
        super().connected(protocol)

    def _open(self, effect: Open) -> None:
        self._contexts[effect.leg] = self._context._replace(
            side=JournalSide.BROKER.value, upstream=self._upstreams[effect.broker], broker=str(effect.broker)
        )
        super()._open(effect)

    def closed(self, protocol: LegProtocol) -> None:
        """Record the frames that were received on a leg that is closed now."""
        leg = protocol.leg
        stop = self._stops.get(leg)
        if stop is not None:
            stop.end()
        for recorder in self._recorders:
            if recorder.leg is leg and recorder.frames:
                self._record_frames(recorder)
        self._recorders = tuple(recorder for recorder in self._recorders if recorder.leg is not leg)
        self._contexts.pop(leg, None)
        super().closed(protocol)

    # Legs that are not read from

    def reading_changed(self, protocol: LegProtocol, on: bool) -> None:
        """The leg is read from again, or not any more."""
        super().reading_changed(protocol, on)
        leg = protocol.leg
        stop = self._stops.get(leg)
        if stop is not None:
            (stop.resumed if on else stop.stopped)()
        elif not on and leg.state not in _NOT_CONNECTED and protocol.reading is not None:
            reason = _REASONS.get(protocol.reading.reasons)
            if reason is not None:
                self._begin_stop(leg, reason)

    def _begin_stop(self, leg: Leg, reason: str) -> None:
        def record(event: JournalEvent, text: str, facts: dict[str, Any]) -> None:
            self._record_event(event.value, text, facts)

        def ended() -> None:
            del self._stops[leg]

        runtime = self.runtime
        stop = ReadingStop(runtime.timers, runtime.seconds, leg.side.value, record, ended)
        self._stops[leg] = stop
        stop.began(reason)

    def hold(self) -> None:
        """Read from no leg whose peer may send much: the journal has no room. A client that sent DISCONNECT is
        still read from, and so is a broker that has not answered CONNECT yet.
        """
        client, protocols = self.relay.client, self.runtime.protocols
        if client not in protocols or client.state not in _HOLDABLE:
            return
        for recorder in self._recorders:
            protocol = protocols.get(recorder.leg)
            if protocol is not None and protocol.reading is not None and recorder.leg.state in _HOLDABLE:
                protocol.reading.hold(JOURNAL)

    def release(self) -> None:
        """Read from all legs again, unless there is another reason not to: the journal has room."""
        for recorder in self._recorders:
            protocol = self.runtime.protocols.get(recorder.leg)
            if protocol is not None and protocol.reading is not None:
                protocol.reading.release(JOURNAL)

    effects: ClassVar[dict[type[Any], Callable[[Any, Any], None]]] = {**RelayDriver.effects, Open: _open}
