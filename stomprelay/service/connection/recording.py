"""Driving a relay whose journal is kept: the frames of its legs, and what happens to them, are recorded."""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final

from stomprelay.journal.capture import LegRecorder
from stomprelay.journal.schema import JournalEvent, JournalSide, context_end, context_start
from stomprelay.relay.effects import Effect, Open
from stomprelay.relay.model.group import Broker
from stomprelay.relay.relay import Relay
from stomprelay.service.connection.backpressure import ASKED, JOURNAL, PRESSURE
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

_CLIENT: Final = JournalSide.CLIENT.value
_BROKER: Final = JournalSide.BROKER.value
_OF_EVENTS: Final = context_end()
_CLIENT_ID: Final = b"client-id"
_LONGEST: Final = 1000
_REASONS: Final = {PRESSURE: "pressure", ASKED: "relay"}
_NOT_CONNECTED: Final = frozenset({State.OPENING, State.CONNECTING})
_HOLDABLE: Final = frozenset({State.CONNECTING, State.CONNECTED})
"""The states of a leg whose peer may send much. A leg that waits for the answer to CONNECT has its own time limit.
"""

Record = Callable[[JournalEvent, str, dict[str, Any]], None]


def _headers(connect: Frame) -> dict[bytes, bytes]:
    try:
        return dict(reversed(connect.headers(V1_0)))
    except StompError:
        return {}


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
        "_brokers",
        "_client_name",
        "_context_start",
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
        RelayDriver.__init__(self, runtime, relay, endpoints, ended)
        self._journal = journal
        self._record_block = journal.record
        self._record_leg = journal.record_leg
        self._upstreams = upstreams
        self._client_name = ""
        self._context_start = b""
        self._brokers: dict[Leg, Broker] = {}
        self._recorders: tuple[LegRecorder, ...] = ()
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
        if leg is self._relay.client:
            connect = recorder.frames[0]
            assert isinstance(connect, Frame)
            self._identify_client(connect)
            session = self._relay.session
            version = b"" if session is None else session.dialect.version
            end = context_end(_CLIENT, "", "", version.decode("ascii"))
        else:
            broker, version = self._brokers[leg], leg.dialect.version
            end = context_end(_BROKER, self._upstreams[broker], str(broker), version.decode("ascii"))
        recorder.context = context = (self._context_start or self._begun_context()) + end
        return context

    def _begun_context(self) -> bytes:
        """Set and return what the contexts of this session begin with."""
        listener, session = self._relay.listener.name, self._relay.name.decode("ascii")
        self._context_start = context_start(listener, session, self.peer, self._client_name)
        return self._context_start

    def _identify_client(self, connect: Frame) -> None:
        """Set the client's name in the journal from its CONNECT: its client-id, else its login, else its host."""
        find = connect.raw if connect.plain else _headers(connect).get
        name = (find(_CLIENT_ID) or find(LOGIN) or b"").strip().decode("utf-8", "replace")
        self._client_name = name[:_LONGEST] or self._host()
        self._context_start = b""

    def _host(self) -> str:
        client = self.runtime.protocols.get(self._relay.client)
        return self.peer if client is None else getattr(client.peer, "host", self.peer)

    def _record_event(self, event: str, text: str, facts: Any) -> None:
        """Record an event of this session, after the frames that led to it."""
        for recorder in self._recorders:
            if recorder.frames:
                self._record_frames(recorder)
        context = (self._context_start or self._begun_context()) + _OF_EVENTS
        self._journal.event(context, event, text, facts)

    def _note(self, effect: Note) -> None:
        RelayDriver._note(self, effect)
        self._record_event(effect.event.value, effect.text, effect.facts)

    # Legs come and go

    def added(self, protocol: LegProtocol) -> None:
        """A leg has a connection, or is about to have one."""
        recorder = LegRecorder(protocol.leg, self._journal.capture, traced=self._relay.listener.trace)
        self._recorders = (*self._recorders, recorder)
        RelayDriver.added(self, protocol)

    def _open(self, effect: Open) -> None:
        self._brokers[effect.leg] = effect.broker
        RelayDriver._open(self, effect)

    def closed(self, protocol: LegProtocol) -> None:
        """Record the frames that were received on a leg that is closed now."""
        leg = protocol.leg
        stop = self._stops.get(leg)
        if stop is not None:
            stop.end()
        left = []
        for recorder in self._recorders:
            if recorder.leg is not leg:
                left.append(recorder)
            elif recorder.frames:
                self._record_frames(recorder)
        self._recorders = tuple(left)
        self._brokers.pop(leg, None)
        RelayDriver.closed(self, protocol)

    # Legs that are not read from

    def reading_changed(self, protocol: LegProtocol, on: bool) -> None:
        """The leg is read from again, or not any more."""
        RelayDriver.reading_changed(self, protocol, on)
        leg = protocol.leg
        stop = self._stops.get(leg) if self._stops else None
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
            if protocol is not None and recorder.leg.state in _HOLDABLE:
                protocol.hold(JOURNAL)

    def release(self) -> None:
        """Read from all legs again, unless there is another reason not to: the journal has room."""
        for recorder in self._recorders:
            protocol = self.runtime.protocols.get(recorder.leg)
            if protocol is not None:
                protocol.release(JOURNAL)

    effects: ClassVar[dict[type[Any], Callable[[Any, Any], None]]] = {
        **RelayDriver.effects,
        Note: _note,
        Open: _open,
    }
