"""What is recorded of one session: the frames of its legs and its events, each with its context, in order."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol

from stomprelay.journal.block import BlockKind
from stomprelay.journal.capture import Capture, LegRecorder
from stomprelay.journal.schema import EventRecord, JournalSide, context_end, context_start
from stomprelay.session.effects import Note
from stomprelay.session.leg import Leg, LegState
from stomprelay.wire.dialect import V1_0
from stomprelay.wire.errors import StompError
from stomprelay.wire.frame import Frame
from stomprelay.wire.names import LOGIN

_CLIENT: Final = JournalSide.CLIENT.value
_BROKER: Final = JournalSide.BROKER.value
_EVENT: Final = int(BlockKind.EVENT)
_OF_EVENTS: Final = context_end()
_CLIENT_ID: Final = b"client-id"
_LONGEST: Final = 1000


class _Client(Protocol):
    """A session's client: its address, the host in the address, and the agreed STOMP version, or ""."""

    @property
    def peer(self) -> str: ...
    @property
    def host(self) -> str: ...
    @property
    def version(self) -> str: ...
    def hold(self) -> None: ...


class Records(Protocol):
    """Takes records in blocks: the journal or a `Tapped` one. See `JournalQueue`."""

    @property
    def full(self) -> bool:
        """Whether it has no room; then a session must stop reading from its client."""

    @property
    def capture(self) -> Capture:
        """What is recorded of each frame."""

    @property
    def record(self) -> Callable[[bytes, int, bytes, bytes, int], None]:
        """Take a block."""

    @property
    def record_leg(self) -> Callable[[LegRecorder], None]:
        """Take the content of a leg's recorder."""


def _name(connect: Frame) -> str:
    """The name of a client by its CONNECT: its client-id, else its login, else empty."""
    try:
        headers = dict(reversed(connect.headers(V1_0)))
    except StompError:
        return ""
    return _spelled(headers.get(_CLIENT_ID) or headers.get(LOGIN) or b"")


def _spelled(name: bytes) -> str:
    return name.strip().decode("utf-8", "replace")[:_LONGEST]


class SessionRecorder:
    """Records the session of this name on a listener into `records`, which may be replaced; `leg` is its client's.
    `recorders` has one for each open leg: call `record` when the core has acted upon what came. `traced`: the relay may
    add traces.
    """

    __slots__ = (
        "_leg",
        "_name",
        "_of_events",
        "_start",
        "_traced",
        "recorders",
        "records",
    )

    def __init__(self, records: Records, leg: Leg, listener: str, session: str, *, traced: bool) -> None:
        self.records = records
        self._leg = leg
        self._name = (listener, session)
        self._traced = traced
        self._start = b""
        self._of_events = b""
        self.recorders: tuple[LegRecorder, ...] = ()
        self._add(leg, (_CLIENT, "", ""))

    def join(self, client: _Client, login: bytes | None) -> None:
        """Begin in the middle of a session. Call `opening` for its brokers' legs before."""
        self._begun(client, _spelled(login or b"") or client.host)
        for recorder in self.recorders:
            if recorder.leg.state is not LegState.OPENING:
                recorder.number = 1
                self._identify(recorder, client)

    def end(self) -> None:
        """Record nothing more on these legs."""
        for recorder in self.recorders:
            recorder.leg.decoder.record(None)

    def opening(self, leg: Leg, upstream: str, broker: str) -> None:
        """Record this leg from now on; it leads to a broker of an upstream."""
        self._add(leg, (_BROKER, upstream, broker))

    def _add(self, leg: Leg, place: tuple[str, str, str]) -> None:
        recorder = LegRecorder(leg, self.records.capture, place, traced=self._traced)
        self.recorders = (*self.recorders, recorder)

    def recorder(self, leg: Leg) -> LegRecorder:
        """Return the recorder of a leg that is not closed."""
        for recorder in self.recorders:
            if recorder.leg is leg:
                return recorder
        raise LookupError("a leg that nobody records")

    def record(self, client: _Client, effects: Sequence[object] = ()) -> None:
        """Record the frames since the last call, and the notes of these effects. The client is told to `hold` while the
        journal is full.
        """
        for effect in effects:
            if type(effect) is Note:
                # `value` is written in Python.
                self.event(client, effect.event._value_, effect.text, effect.facts)
        self._take(client)
        if self.records.full:
            client.hold()

    def event(self, client: _Client, event: str, text: str, facts: Mapping[str, Any]) -> None:
        """Record an event of this session, behind the frames that led to it."""
        self._take(client)
        if not self._of_events:
            self._of_events = self._begun(client) + _OF_EVENTS
        self.records.record(self._of_events, 0, b"", EventRecord(event, text, facts).encode(), _EVENT)

    def _take(self, client: _Client) -> None:
        closed = False
        for recorder in self.recorders:
            if recorder.frames:
                if not recorder.context:
                    self._identify(recorder, client)
                self.records.record_leg(recorder)
            if recorder.leg.closed:
                closed = True
        if closed:
            self.recorders = tuple([recorder for recorder in self.recorders if not recorder.leg.closed])

    def _identify(self, recorder: LegRecorder, client: _Client) -> None:
        """The first frame of a leg has come: set the context of its frames, with the client's name and the STOMP
        version.
        """
        leg = recorder.leg
        if leg is self._leg:
            if not recorder.number:
                connect = recorder.frames[0]
                assert isinstance(connect, Frame)
                self._start = self._of_events = b""
                self._begun(client, _name(connect) or client.host)
            version = client.version
        else:
            version = leg.dialect.version.decode("ascii")
        side, upstream, broker = recorder.place
        recorder.context = self._begun(client) + context_end(side, upstream, broker, version)

    def _begun(self, client: _Client, name: str = "") -> bytes:
        """Return the beginning of this session's contexts; the client's name is set if it was not."""
        if not self._start:
            listener, session = self._name
            self._start = context_start(listener, session, client.peer, name)
        return self._start
