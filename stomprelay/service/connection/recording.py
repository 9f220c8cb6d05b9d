"""Driving a relay whose journal is kept: the frames of its legs, and what happens to them, are recorded."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final

from stomprelay.journal.schema import JournalEvent
from stomprelay.journal.session import SessionRecorder
from stomprelay.relay.effects import Open
from stomprelay.relay.model.group import Broker
from stomprelay.relay.relay import Relay
from stomprelay.service.connection.backpressure import ASKED, JOURNAL, PRESSURE
from stomprelay.service.connection.pipes import Recording, make_pipe
from stomprelay.service.connection.protocol import LegProtocol, Runtime
from stomprelay.service.connection.relay_driver import Endpoints, RelayDriver
from stomprelay.service.connection.timers import Timed, Timers
from stomprelay.service.journal.journal import Journal
from stomprelay.session.leg import Leg, State
from stomprelay.wire.run import Passing

if TYPE_CHECKING:
    from stomprelay.service.connection._pipe import Pipe

QUIET: Final = 1.0
"""Seconds of uninterrupted reading after which a stop counts as over: under load reading stops and goes on many times
a second, and that is one event.
"""

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
        "_journal",
        "_recorder",
        "_spelled",
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
        self._upstreams = upstreams
        self._spelled = ""
        listener = relay.listener
        self._recorder = SessionRecorder(
            journal, relay.client, listener.name, relay.name.decode("ascii"), traced=listener.trace
        )
        self._record = self._recorder.record
        self._stops: dict[Leg, ReadingStop] = {}

    # What is known of the client, for the records

    @property
    def peer(self) -> str:
        """Return the client's address, which is spelled once: the records and the log have it."""
        if not self._spelled:
            self._spelled = super().peer
        return self._spelled

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
        recorder = self._recorder.recorder(source.leg)
        if recorder.keep is None:
            return None

        # The leg has CONNECT or CONNECTED behind it: its context is known; and it is held while the journal is full.
        recording = Recording(recorder, self._journal.record_leg)
        return make_pipe(source, target, passing, trails, self.failed, recording, self._relay.session)

    # Legs come and go

    def _open(self, effect: Open) -> None:
        broker = effect.broker
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
            self._recorder.event(self, event.value, text, facts)

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
        for recorder in self._recorder.recorders:
            protocol = protocols.get(recorder.leg)
            if protocol is not None and recorder.leg.state in _HOLDABLE:
                protocol.hold(JOURNAL)

    def release(self) -> None:
        """Read from all legs again, unless there is another reason not to: the journal has room."""
        for recorder in self._recorder.recorders:
            protocol = self.runtime.protocols.get(recorder.leg)
            if protocol is not None:
                protocol.release(JOURNAL)

    effects: ClassVar[dict[type[Any], Callable[[Any, Any], None]]] = {
        **RelayDriver.effects,
        Open: _open,
    }
