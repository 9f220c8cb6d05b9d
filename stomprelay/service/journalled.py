"""Performing for one relay whose journal is kept: what its legs bring is recorded after it passed."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Final

from stomprelay.journal.schema import Context, JournalEvent, Side
from stomprelay.journal.tape import Tape
from stomprelay.relay.effects import Effect, Open
from stomprelay.relay.model.group import Broker
from stomprelay.relay.relay import Relay
from stomprelay.service.journal import Journal
from stomprelay.service.perform import Stage, spell_address
from stomprelay.service.protocol import LegProtocol
from stomprelay.service.relaying import Relaying
from stomprelay.service.standstill import Standstill
from stomprelay.service.valve import ASKED, JOURNAL, PRESSURE
from stomprelay.service.ways import Ways
from stomprelay.session.effects import Note
from stomprelay.session.leg import Leg
from stomprelay.session.states import State
from stomprelay.wire.dialect import V1_0
from stomprelay.wire.errors import StompError
from stomprelay.wire.frame import Frame
from stomprelay.wire.names import LOGIN

_CLIENT_ID: Final = b"client-id"
_LONGEST: Final = 1000
_REASONS: Final = {PRESSURE: "pressure", ASKED: "relay"}
_SILENT: Final = frozenset({State.OPENING, State.CONNECTING})
_SAYS_MUCH: Final = frozenset({State.CONNECTING, State.CONNECTED})


class Journalled(Relaying):
    """Performs as `Relaying` does; whatever is decoded meanwhile on a leg becomes one block, each `Note` an event."""

    __slots__ = (
        "_about",
        "_context",
        "_host",
        "_journal",
        "_places",
        "_record",
        "_standstills",
        "_tapes",
        "_upstreams",
    )

    def __init__(
        self, stage: Stage, relay: Relay, ways: Ways, journal: Journal, upstreams: Mapping[Broker, str]
    ) -> None:
        super().__init__(stage, relay, ways)
        self._journal = journal
        self._record = journal.record
        self._upstreams = upstreams
        self._about = Context(relay.listener.name, relay.name.decode("ascii"))
        self._context = b""
        self._host = ""
        self._tapes: tuple[Tape, ...] = ()
        self._places: dict[Leg, Context] = {}
        self._standstills: dict[Leg, Standstill] = {}

    # What is heard

    def perform(self, effects: Iterable[Effect]) -> None:
        """First what the core answered; then what led to it is recorded."""
        Relaying.perform(self, effects)
        for tape in self._tapes:
            if tape.frames:  # what `_cut` does, on the hot path
                self._record(tape.context or self._settled(tape), *tape.cut())
                if self._journal.full:
                    self.hold()

    def _cut(self, tape: Tape) -> None:
        self._record(tape.context or self._settled(tape), *tape.cut())
        if self._journal.full:
            self.hold()

    def _settled(self, tape: Tape) -> bytes:
        """The context of a leg's frames is settled with the first: who the client is, and which version is spoken."""
        leg = tape.leg
        if leg is self.relay.client:
            self._introduce(tape.frames[0])
            session = self.relay.session
            version = b"" if session is None else session.dialect.version
            place = self._about._replace(side=Side.CLIENT.value)
        else:
            version = leg.dialect.version
            place = self._places[leg]._replace(client=self._about.client)
        tape.context = place._replace(version=version.decode("ascii")).encode()
        return tape.context

    def _introduce(self, connect: Frame) -> None:
        """The client says who it is."""
        try:
            said = dict(reversed(connect.headers(V1_0)))
        except StompError:
            said = {}
        name = (said.get(_CLIENT_ID) or said.get(LOGIN) or b"").strip().decode("utf-8", "replace")
        self._about = self._about._replace(client=name[:_LONGEST] or self._host)
        self._context = b""

    def _happened(self, event: str, text: str, facts: Any) -> None:
        """An event of this session, behind the frames that led to it."""
        for tape in self._tapes:
            if tape.frames:
                self._cut(tape)
        if not self._context:
            self._context = self._about.encode()
        self._journal.event(self._context, event, text, facts)

    def _note(self, effect: Note) -> None:
        super()._note(effect)
        self._happened(effect.event.value, effect.text, effect.facts)

    # Legs come and go

    def joined(self, line: LegProtocol) -> None:
        """A leg has a connection, or is about to have one."""
        tape = Tape(line.leg, self._journal.capture, traced=self.relay.listener.trace)
        self._tapes = (*self._tapes, tape)
        super().joined(line)

    def made(self, line: LegProtocol) -> None:
        """Client or broker is there."""
        if line.leg is self.relay.client:
            peer = spell_address(line.peer)
            self._host = getattr(line.peer, "host", peer)
            self._about = self._about._replace(peer=peer)
        super().made(line)

    def _open(self, effect: Open) -> None:
        self._places[effect.leg] = self._about._replace(
            side=Side.BROKER.value, upstream=self._upstreams[effect.broker], broker=str(effect.broker)
        )
        super()._open(effect)

    def left(self, line: LegProtocol) -> None:
        """A leg was closed. What it brought is recorded still."""
        standstill = self._standstills.get(line.leg)
        if standstill is not None:
            standstill.end()
        for tape in self._tapes:
            if tape.leg is line.leg and tape.frames:
                self._cut(tape)
        self._tapes = tuple(tape for tape in self._tapes if tape.leg is not line.leg)
        self._places.pop(line.leg, None)
        super().left(line)

    # Legs that are not read from

    def read(self, line: LegProtocol, on: bool) -> None:
        """The leg is read from again, or not any more."""
        super().read(line, on)
        leg = line.leg
        standstill = self._standstills.get(leg)
        if standstill is not None:
            (standstill.went_on if on else standstill.stopped)()
        elif not on and leg.state not in _SILENT and line.valve is not None:
            reason = _REASONS.get(line.valve.reasons)
            if reason is not None:
                self._stand_still(leg, reason)

    def _stand_still(self, leg: Leg, reason: str) -> None:
        standstill = Standstill(
            self.stage.alarms, self.stage.seconds, leg.side.value, self._tell, lambda: self._go_on(leg)
        )
        self._standstills[leg] = standstill
        standstill.began(reason)

    def _go_on(self, leg: Leg) -> None:
        del self._standstills[leg]

    def _tell(self, event: JournalEvent, text: str, facts: dict[str, Any]) -> None:
        self._happened(event.value, text, facts)

    def hold(self) -> None:
        """The journal has no room. What is still to come of a client that said goodbye is awaited; and whoever has
        not answered CONNECT yet has its time to do so.
        """
        client, lines = self.relay.client, self.stage.lines
        if client not in lines or client.state not in _SAYS_MUCH:
            return
        for tape in self._tapes:
            line = lines.get(tape.leg)
            if line is not None and line.valve is not None and tape.leg.state in _SAYS_MUCH:
                line.valve.hold(JOURNAL)

    def release(self) -> None:
        """It has room again."""
        lines = self.stage.lines
        for tape in self._tapes:
            line = lines.get(tape.leg)
            if line is not None and line.valve is not None:
                line.valve.release(JOURNAL)

    effects: ClassVar[dict[type[Any], Callable[[Any, Any], None]]] = {**Relaying.effects, Open: _open}
