"""Driving a relay that can be recorded: the frames of its legs, and what happens to them."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final

from stomprelay.journal.capture import LegRecorder
from stomprelay.journal.schema import JournalEvent
from stomprelay.journal.session import Records, SessionRecorder
from stomprelay.relay.effects import Open
from stomprelay.relay.model.group import Broker
from stomprelay.relay.relay import Relay
from stomprelay.service.connection.failures import ASKED, JOURNAL, PRESSURE
from stomprelay.service.connection.pipes import Recording, make_pipe
from stomprelay.service.connection.protocol import LegProtocol
from stomprelay.service.connection.relay_driver import Asks, Endpoints, RelayDriver
from stomprelay.service.connection.runtime import Runtime
from stomprelay.service.connection.timers import Timed, Timers
from stomprelay.session.leg import Leg, State
from stomprelay.wire.run import Passing

if TYPE_CHECKING:
    from stomprelay.service.connection._pipe import Pipe

QUIET: Final = 1.0
"""Seconds of reading after which a stop is over: under load reading stops many times a second, which is one event."""

_REASONS: Final = {PRESSURE: "pressure", ASKED: "relay"}
_NOT_CONNECTED: Final = frozenset({State.OPENING, State.CONNECTING})
_HOLDABLE: Final = frozenset({State.CONNECTING, State.CONNECTED})

Record = Callable[[JournalEvent, str, dict[str, Any]], None]


class ReadingStop(Timed):
    """A leg that is not read from, as two events of the journal: `HELD` when it `began`, `RELEASED` at its end. Call
    `resumed` and `stopped` in turns. It ends `QUIET` seconds after the last `resumed`, or by `end`.
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
        """The leg is read from: the stop ends unless `stopped` is called within `QUIET` seconds."""
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
    """A `RelayDriver` that can `record_to` somebody: the frames of one chunk are a block, each `Note` an event.
    `upstreams` has the name of each broker's upstream.
    """

    __slots__ = (
        "_recorder",
        "_stops",
        "_upstreams",
    )

    def __init__(
        self,
        runtime: Runtime,
        relay: Relay,
        endpoints: Endpoints,
        ended: Callable[[RelayDriver], None],
        upstreams: Mapping[Broker, str],
        identify: Asks | None = None,
    ) -> None:
        RelayDriver.__init__(self, runtime, relay, endpoints, ended, identify)
        self._upstreams = upstreams
        self._recorder: SessionRecorder | None = None
        self._stops: dict[Leg, ReadingStop] | None = None

    def record_to(self, records: Records | None) -> None:
        """Give what is recorded to these from now on; None: record nothing. All of them keep the same secrets and
        bodies.
        """
        recorder = self._recorder
        if records is (None if recorder is None else recorder.records) or self.over:
            return
        if recorder is None:
            assert records is not None
            self._recorder = recorder = self._begin(records)
            self._record = recorder.record
        elif records is None:
            for stop in tuple((self._stops or {}).values()):
                stop.end()
            recorder.end()
            self._recorder = self._record = None
        else:
            recorder.give_to(records)
        for allowed in self.relay.allowed:
            self._pass(allowed)

    def _begin(self, records: Records) -> SessionRecorder:
        relay, listener = self.relay, self._relay.listener
        recorder = SessionRecorder(records, relay.client, listener.name, self.name, traced=listener.trace)
        for link in relay.links:
            for leg in (link.leg, link.next_leg):
                broker = None if leg is None or leg.closed else link.broker_at(leg)
                if leg is not None and broker is not None:
                    recorder.opening(leg, link.upstream.name, broker.uri)
        if relay.session is not None:
            recorder.join(self, relay.login)
        return recorder

    # What is known of the session, for the records

    @property
    def listener(self) -> str:
        """Return the name of its listener."""
        return self._relay.listener.name

    @property
    def host(self) -> str:
        """Return the client's host; its whole address where that has none."""
        client = self.runtime.protocols.get(self._relay.client)
        return self.peer if client is None else getattr(client.peer, "host", self.peer)

    @property
    def version(self) -> str:
        """Return the version of STOMP that was agreed with the client; empty until one was."""
        session = self._relay.session
        return "" if session is None else session.dialect.version.decode("ascii")

    # What is recorded

    def make_pipe(
        self, source: LegProtocol, target: LegProtocol, passing: Passing, trails: bool
    ) -> "Pipe | None":
        """Return a pipe that gives its leg's recorder what passes; None where each frame needs a look."""
        if self._recorder is None:
            return RelayDriver.make_pipe(self, source, target, passing, trails)
        recorder = self._recorder.recorder(source.leg)
        if recorder.keep is None:
            return None

        # The leg has CONNECT or CONNECTED behind it: its context is known; and it is held while the journal is full.
        recording = Recording(recorder, self._recorder.records.record_leg)
        return make_pipe(source, target, passing, trails, self.failed, recording, self._relay.session)

    # Legs come and go

    def _open(self, effect: Open) -> None:
        broker = effect.broker
        if self._recorder is not None:
            self._recorder.opening(effect.leg, self._upstreams[broker], broker.uri)
        RelayDriver._open(self, effect)

    def closed(self, protocol: LegProtocol) -> None:
        """End the stop of a leg that is closed now."""
        stop = self._stops.get(protocol.leg) if self._stops else None
        if stop is not None:
            stop.end()
        RelayDriver.closed(self, protocol)

    # Legs that are not read from

    def reading_changed(self, protocol: LegProtocol, on: bool) -> None:
        """The leg is read from again, or not any more."""
        RelayDriver.reading_changed(self, protocol, on)
        recorder = self._recorder
        if recorder is None:
            return
        leg = protocol.leg
        stop = self._stops.get(leg) if self._stops else None
        if stop is not None:
            (stop.resumed if on else stop.stopped)()
        elif not on and leg.state not in _NOT_CONNECTED:
            reason = _REASONS.get(protocol.reasons)
            if reason is not None:
                self._begin_stop(recorder, leg, reason)

    def _begin_stop(self, recorder: SessionRecorder, leg: Leg, reason: str) -> None:
        def record(event: JournalEvent, text: str, facts: dict[str, Any]) -> None:
            recorder.event(self, event.value, text, facts)

        runtime, stops = self.runtime, self._stops
        if stops is None:
            stops = self._stops = {}
        stop = ReadingStop(
            runtime.timers, runtime.seconds, leg.side.value, record, partial(stops.__delitem__, leg)
        )
        stops[leg] = stop
        stop.began(reason)

    @property
    def _recorders(self) -> tuple[LegRecorder, ...]:
        return () if self._recorder is None else self._recorder.recorders

    def hold(self) -> None:
        """Read from no leg whose peer may send much: the journal is full. After DISCONNECT, and before CONNECTED,
        reading goes on.
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
        Open: _open,
    }
