"""What is recorded of frames: as many bytes of a body as configured, and the head without secret values.

`Capture` decides for one frame. `LegRecorder` makes the content of a block from all frames that came on a leg since the
last block. `SessionRecorder` adds a session's events and the contexts, in order.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import translate
from typing import TYPE_CHECKING, Any, Final, Protocol

from stomprelay.journal.block import BlockKind, pack_sizes
from stomprelay.journal.schema import EventRecord, JournalSide, context_end, context_start
from stomprelay.journal.settings import NOTHING, BodyRule
from stomprelay.session.effects import Note
from stomprelay.session.leg import Leg, LegState
from stomprelay.wire.decoder import SCANNER
from stomprelay.wire.dialect import DIALECTS, V1_0, Dialect
from stomprelay.wire.errors import StompError
from stomprelay.wire.frame import Frame
from stomprelay.wire.names import DESTINATION, LOGIN, PASSCODE
from stomprelay.wire.run import Keep, Run

if TYPE_CHECKING:
    from stomprelay.wire import _scan

MASK: Final = b"***"
TRACE: Final = b"relay-trace"
"""A header that a relay adds to a SEND, so that the same message is recognised when a broker delivers it."""

_KNOWN: Final = 4096
_ODD: Final = re.compile(rb"[:\\\r\n\0]|\A[ \t]|[ \t]\Z")
"""Characters in a header's name that STOMP versions escape, or that look like blanks beside the name."""
_MANY: Final = 32
"""If there are more secret headers than this, no runs of frames are used, so each frame is examined."""


def _spelled(names: Iterable[bytes]) -> bytes:
    """Return a pattern that matches a header line with one of these names, up to its value. The pattern matches the
    spellings of a name in all versions.
    """
    spellings = {
        spelling for name in names for spelling in (name, *(d.encode(name) for d in DIALECTS.values()))
    }
    return rb"[ \t]*(?:" + b"|".join(map(re.escape, sorted(spellings))) + rb")[ \t]*:"


class Secrets:
    """Headers whose values are not recorded. The compiled class accepts only names that all versions spell alike."""

    __slots__ = ("_pattern",)

    def __init__(self, names: Iterable[bytes]) -> None:
        # Heads are matched in lower case: a pattern that ignores the case would take twice as long.
        self._pattern = re.compile(rb"(\n" + _spelled(names).lower() + rb")[^\n]*?(?=\r?\n)")

    def masked(self, frame: Frame) -> bytes:
        """Return a frame's head, from the command to the blank line, with `MASK` for each secret value."""
        said = frame.memo or frame.data[frame.start : frame.body]
        pieces: list[bytes] = []
        at = 0
        for found in self._pattern.finditer(said.lower()):
            pieces += said[at : found.end(1)], MASK
            at = found.end()
        return b"".join([*pieces, said[at:]])


def secrets_of(names: Iterable[bytes]) -> "Secrets | _scan.Secrets | None":
    """Return an object, compiled if possible, that masks the values of these headers; None if there are no names."""
    known = {name.lower() for name in names}
    if not known:
        return None
    if SCANNER is None or not _simple(known):
        return Secrets(known)
    from stomprelay.wire._scan import Secrets as Compiled  # compiled together with the scanner

    return Compiled(Keep(NOTHING, tuple(sorted(known))), MASK)


def _simple(names: set[bytes]) -> bool:
    """Return whether there are at most `_MANY` names, and all STOMP versions spell each name in the same way."""
    return len(names) <= _MANY and not any(map(_ODD.search, names))


_TRACES: Final = re.compile(rb"(?<=\n)" + _spelled([TRACE]) + rb"[^\n]*\n", re.IGNORECASE)


class Capture:
    """What is recorded of a frame: its head with masked secrets, and bytes of its body. The first rule that matches the
    destination gives the number of bytes; without such a rule, `bodies` is the number. `uniform`: the same is recorded
    of all frames, apart from the first frame of a leg. `keep`: what a run of frames must keep so that it can be
    recorded; None if each frame must be examined.
    """

    __slots__ = (
        "_matches",
        "_most",
        "_opening",
        "_secrets",
        "bodies",
        "keep",
        "uniform",
    )

    def __init__(
        self, bodies: int = NOTHING, rules: Iterable[BodyRule] = (), redact: Iterable[str] = ()
    ) -> None:
        names = [name.encode() for name in redact]
        self.bodies = bodies
        self._opening = secrets_of([PASSCODE, *names])
        self._secrets = secrets_of(names)
        self._matches: list[tuple[Callable[[str], object], int]] = [
            (re.compile(translate(rule.destination)).match, rule.bodies) for rule in rules
        ]
        self._most: dict[bytes, int] = {}
        self.uniform = not names and not self._matches
        secrets = {name.lower() for name in (PASSCODE, *names)}
        looks = self._matches or not _simple(secrets)
        self.keep = None if looks else Keep(bodies, tuple(sorted(secrets)))

    def head(self, frame: Frame, *, opening: bool = False) -> bytes:
        """Return the frame's head with `MASK` in place of each secret value. `opening`: the frame is the first of its
        leg, so it may have a passcode.
        """
        secrets = self._opening if opening else self._secrets
        if secrets is None:
            return frame.memo or frame.data[frame.start : frame.body]
        return secrets.masked(frame)

    def most(self, frame: Frame, dialect: Dialect) -> int:
        """Return the most bytes of the frame's body that are recorded. `dialect` is the dialect of its leg."""
        if not self._matches:
            return self.bodies
        destination = destination_of(frame, dialect)
        most = self._most.get(destination)
        if most is None:
            if len(self._most) >= _KNOWN:
                self._most.clear()
            text = destination.decode("utf-8", "surrogateescape")
            most = next((bodies for matches, bodies in self._matches if matches(text)), self.bodies)
            self._most[destination] = most
        return most


def destination_of(frame: Frame, dialect: Dialect) -> bytes:
    """Return the frame's destination, decoded if possible; empty bytes if it has no destination."""
    try:
        return frame.header(DESTINATION, dialect) or b""
    except StompError:
        return frame.raw(DESTINATION) or b""


def traced(head: bytes, trace: bytes) -> bytes:
    """Return the head with `TRACE` and this value as its first header. A `TRACE` that the client sent is removed."""
    head = _TRACES.sub(b"", head)
    at = head.index(b"\n") + 1
    end = b"\r\n" if head[:at].endswith(b"\r\n") else b"\n"
    return b"%b%b:%b%b%b" % (head[:at], TRACE, trace, end, head[at:])


class LegRecorder:
    """Collects in `frames` the frames that a leg's decoder reads. Before the next chunk is decoded, set `context` to
    the encoded context and call `take`. `number`: how many frames were taken before. `keep`: what runs of frames keep
    for the recorder; if None, there are no runs. `traced`: the relay may have added traces. `place`: the side, upstream
    and broker of the leg.
    """

    __slots__ = (
        "_capture",
        "_traced",
        "_uniform",
        "context",
        "frames",
        "keep",
        "leg",
        "number",
        "place",
    )

    def __init__(
        self, leg: Leg, capture: Capture, place: tuple[str, str, str] = ("", "", ""), *, traced: bool = False
    ) -> None:
        self.leg = leg
        self.place = place
        self.frames: list[Frame | Run] = []
        self.number = 0
        self.context = b""
        self.keep = None if traced else capture.keep
        self._capture = capture
        self._traced = traced
        self._uniform = capture.uniform and not traced
        leg.decoder.record(self.frames, self.keep)

    def take(self) -> tuple[int, bytes, bytes]:
        """Remove the frames that came since the last call, and return the content of their block: the number of earlier
        frames of the leg, the sizes as bytes, and the payload.
        """
        frames, number = self.frames, self.number
        pieces: list[bytes] = []
        sizes: list[bytes] = []
        for frame in frames:
            if type(frame) is Run:
                assert frame.kept is not None
                sizes.append(frame.kept)
                pieces.append(frame.payload)
                self.number += frame.count
            else:
                self._add(frame, pieces, sizes)
                self.number += 1
        frames.clear()
        return number, b"".join(sizes), b"".join(pieces)

    def _add(self, frame: Frame, pieces: list[bytes], sizes: list[bytes]) -> None:
        body, end = frame.body, frame.end
        if self._uniform and self.number:
            most = self._capture.bodies
            head = frame.memo or frame.data[frame.start : body]
        else:
            most = self._capture.most(frame, self.leg.dialect)
            head = self._capture.head(frame, opening=not self.number)
            trace = getattr(frame, "trace", None) if self._traced else None
            head = head if trace is None else traced(head, trace)
        kept = min(end, body + most)
        pieces += head, frame.data[body:kept]
        sizes.append(pack_sizes(len(head), kept - body, end - body))


# Sessions

_CLIENT: Final = JournalSide.CLIENT.value
_BROKER: Final = JournalSide.BROKER.value
_EVENT: Final = int(BlockKind.EVENT)
_OF_EVENTS: Final = context_end()
_CLIENT_ID: Final = b"client-id"
_LONGEST: Final = 1000


class _Client(Protocol):
    """A session's client: its address, the host of that address, and the agreed STOMP version (empty if none is
    agreed). `hold` makes the session stop reading from the client.
    """

    @property
    def peer(self) -> str: ...
    @property
    def host(self) -> str: ...
    @property
    def version(self) -> str: ...
    def hold(self) -> None: ...


class Records(Protocol):
    """What takes recorded blocks: the journal itself, or the journal with a `Tapped` around it. See `JournalQueue`."""

    @property
    def full(self) -> bool:
        """Return whether there is no room. Then the session must stop reading from its client."""

    @property
    def capture(self) -> Capture:
        """Return what is recorded of each frame."""

    @property
    def record(self) -> Callable[[bytes, int, bytes, bytes, int], None]:
        """Return the function that takes a block."""

    @property
    def record_leg(self) -> Callable[[LegRecorder], None]:
        """Return the function that takes what a leg's recorder has collected."""


def _name(connect: Frame) -> str:
    """Return the name of a client, from its CONNECT: its client-id, else its login, else an empty text."""
    try:
        headers = dict(reversed(connect.headers(V1_0)))
    except StompError:
        return ""
    return _shown(headers.get(_CLIENT_ID) or headers.get(LOGIN) or b"")


def _shown(name: bytes) -> str:
    return name.strip().decode("utf-8", "replace")[:_LONGEST]


class SessionRecorder:
    """Records a session, named `session`, of a listener. `records` takes the records; the caller may replace it later.
    `leg` is the client's leg. `recorders` has a recorder for each open leg. Call `record` each time the core has
    handled received bytes. `traced`: the relay may add traces.
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
        self.opening(leg, side=_CLIENT)

    def join(self, client: _Client, login: bytes | None, frames: int) -> None:
        """Begin to record in the middle of a session, after so many `frames` of the client since CONNECT. The caller
        must call `opening` for the brokers' legs first.
        """
        self._begun(client, _shown(login or b"") or client.host)
        for recorder in self.recorders:
            if recorder.leg.state is not LegState.OPENING:
                recorder.number = 1 + frames * (recorder.leg is self._leg)
                self._identify(recorder, client)

    def end(self) -> None:
        """Stop recording the session's legs."""
        for recorder in self.recorders:
            recorder.leg.decoder.record(None)

    def opening(self, leg: Leg, upstream: str = "", broker: str = "", side: str = _BROKER) -> None:
        """Record this leg from now on. `upstream` and `broker` say where a broker's leg leads."""
        recorder = LegRecorder(leg, self.records.capture, (side, upstream, broker), traced=self._traced)
        self.recorders = (*self.recorders, recorder)

    def recorder(self, leg: Leg) -> LegRecorder:
        """Return the recorder of a leg that is not closed. Raises `LookupError` if the leg has no recorder."""
        for recorder in self.recorders:
            if recorder.leg is leg:
                return recorder
        raise LookupError("a leg that nobody records")

    def record(self, client: _Client, effects: Sequence[object] = ()) -> None:
        """Record the frames since the last call, and the notes among `effects`. If the journal is full, call `hold`."""
        for effect in effects:
            if type(effect) is Note:
                # `value` would be slower.
                self.event(client, effect.event._value_, effect.text, effect.facts)
        self._take(client)
        if self.records.full:
            client.hold()

    def event(self, client: _Client, event: str, text: str, facts: Mapping[str, Any]) -> None:
        """Record an event of this session, after the frames that came before the event."""
        self._take(client)
        if not self._of_events:
            self._of_events = self._begun(client) + _OF_EVENTS
        self.records.record(self._of_events, 0, b"", EventRecord(event, text, facts).encode(), _EVENT)

    def _take(self, client: _Client) -> None:
        """Record the frames that came since the last call. Remove the recorders of closed legs."""
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
        """Set the context of a leg's frames, with the client's name and the STOMP version. Call this method when the
        first frame of the leg has come.
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
        """Return the beginning of all contexts of this session. The first call sets the client's name."""
        if not self._start:
            listener, session = self._name
            self._start = context_start(listener, session, client.peer, name)
        return self._start
