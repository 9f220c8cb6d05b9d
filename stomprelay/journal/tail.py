"""Watching the frames of a relay. A `TailWatch` takes records as a journal does, and keeps them, without secrets, as a
piece of a segment. If there is no room for a record, it is left out and counted.
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from struct import iter_unpack
from typing import Any, Final, NamedTuple

from stomprelay.journal.block import OVERHEAD, BlockKind, encode, pack_sizes
from stomprelay.journal.capture import Capture, LegRecorder, destination_of
from stomprelay.wire.frame import Frame
from stomprelay.wire.run import Run

ROOM: Final = 1 << 20
"""The most bytes that wait for the watcher. The last record may go beyond this limit."""
LONGEST_BODY: Final = 1 << 16
"""The most bytes of each body that a watcher may ask for."""
_NAME: Final = 64


class TailRequest(NamedTuple):
    """A request to watch, under a name that the user chose. Empty `sessions`, `listeners` or `destinations` mean all.
    Destinations are globs; if there are any, events and ACKs are left out. `bodies`: the most bytes of each body.
    `over`: this is the last request.
    """

    watch: str
    sessions: tuple[str, ...] = ()
    listeners: tuple[str, ...] = ()
    destinations: tuple[str, ...] = ()
    bodies: int = 0
    over: bool = False

    @classmethod
    def parse(cls, body: bytes) -> "TailRequest":
        """Return the request in a JSON body. Raises `ValueError`; its text is the reason."""
        try:
            values = json.loads(body)
        except (ValueError, RecursionError):
            values = None
        if not isinstance(values, dict):
            raise ValueError('the body must be a JSON object such as {"watch": "one", "bodies": 0}')
        for key in values:
            if key not in cls._fields:
                raise ValueError(f"there is no {json.dumps(key)} here; there is {', '.join(cls._fields)}")
        watch, bodies, over = values.get("watch"), values.get("bodies", 0), values.get("over", False)
        if not isinstance(watch, str) or not 0 < len(watch) <= _NAME:
            raise ValueError(f'"watch" must be a name of 1 to {_NAME} characters')
        if type(bodies) is not int or not 0 <= bodies <= LONGEST_BODY:
            raise ValueError(f'"bodies" must be a number of bytes, from 0 to {LONGEST_BODY}')
        if type(over) is not bool:
            raise ValueError('"over" must be true or false')
        sessions, listeners = _texts(values, "sessions"), _texts(values, "listeners")
        return cls(watch, sessions, listeners, _texts(values, "destinations"), bodies, over)

    def watches(self, listener: str, session: str) -> bool:
        """Return whether the request is for records of this session."""
        return (not self.listeners or listener in self.listeners) and (
            not self.sessions or session in self.sessions
        )


def _texts(values: Mapping[str, Any], key: str) -> tuple[str, ...]:
    found = values.get(key, [])
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise ValueError(f'"{key}" must be a list of texts')
    return tuple(found)


class TailAnswer(NamedTuple):
    """The records since the last answer, as bytes of segments. `left_out` counts records that had no room. `began`: the
    relay did not watch before this request. `missing`: names of workers that did not answer. `sessions`: names of
    requested sessions that have not ended.
    """

    segment: bytes = b""
    left_out: int = 0
    began: bool = False
    missing: tuple[str, ...] = ()
    sessions: tuple[str, ...] = ()

    @classmethod
    def parse(cls, values: Any) -> "TailAnswer":
        """Return the answer from JSON values that `spell` wrote. Raises `ValueError`, `LookupError` or `TypeError`."""
        segment, left_out, began, missing, sessions = (values[name] for name in cls._fields)
        if type(left_out) is not int or type(began) is not bool or not isinstance(segment, str):
            raise TypeError
        if not all(isinstance(each, str) for each in (*missing, *sessions)):
            raise TypeError
        return cls(b64decode(segment, validate=True), left_out, began, tuple(missing), tuple(sessions))

    def spell(self) -> str:
        """Return the answer as JSON text."""
        values = self._asdict() | {"segment": b64encode(self.segment).decode("ascii")}
        return json.dumps(values) + "\n"

    def plus(self, other: "TailAnswer") -> "TailAnswer":
        """Return the sum of this answer and the answer of another worker."""
        return TailAnswer(
            self.segment + other.segment,
            self.left_out + other.left_out,
            self.began or other.began,
            self.missing + other.missing,
            self.sessions + other.sessions,
        )


@dataclass(slots=True, eq=False, repr=False)
class TailWatch:
    """Keeps the requested records, up to `ROOM` bytes, until `take`. `_header` is the block before the records."""

    request: TailRequest
    _header: bytes
    _capture: Capture
    _clock: Callable[[], int]
    _blocks: list[bytes] = field(default_factory=list)
    _room: int = ROOM
    _left_out: int = 0

    def event(self, context: bytes, payload: bytes) -> None:
        """Keep an event of a session, if events were requested. `context`, `payload`: the content of its block."""
        if self.request.destinations:
            return
        if self._room <= 0:
            self._left_out += 1
        else:
            self._put(BlockKind.EVENT, 0, context, b"", payload)

    def leg(self, recorder: LegRecorder) -> None:
        """Keep the requested frames of this recorder of a leg. The recorder's `context` must be set."""
        sizes = bytearray()
        pieces: list[bytes] = []
        room = self._room
        for frames in recorder.frames:
            if room <= 0 and not self.request.destinations:
                self._left_out += frames.count if type(frames) is Run else 1
                continue
            for frame in single(frames):
                if not self._wants(frame, recorder):
                    continue
                if room <= 0:
                    self._left_out += 1
                    continue
                # It is unknown which frame was the leg's first, so a passcode is looked for in each frame.
                head = self._capture.head(frame, opening=True)
                body = frame.data[frame.body : min(frame.end, frame.body + self.request.bodies)]
                sizes += pack_sizes(len(head), len(body), frame.end - frame.body)
                pieces += head, body
                room -= OVERHEAD + len(head) + len(body)
        if pieces:
            self._put(BlockKind.FRAMES, recorder.number, recorder.context, bytes(sizes), b"".join(pieces))

    def _wants(self, frame: Frame, recorder: LegRecorder) -> bool:
        globs = self.request.destinations
        if not globs:
            return True
        destination = destination_of(frame, recorder.leg.dialect)
        text = destination.decode("utf-8", "backslashreplace")
        return bool(text) and any(fnmatchcase(text, glob) for glob in globs)

    def _put(self, kind: int, number: int, context: bytes, sizes: bytes, payload: bytes) -> None:
        block = encode(kind, self._clock(), number, context, sizes, payload)
        self._blocks.append(block)
        self._room -= len(block)

    def take(self) -> TailAnswer:
        """Remove the records since the last call, and return them."""
        segment = b"".join([self._header, *self._blocks]) if self._blocks else b""
        answer = TailAnswer(segment, self._left_out)
        self._blocks.clear()
        self._room, self._left_out = ROOM, 0
        return answer


def single(frames: Frame | Run) -> Iterator[Frame]:
    """Yield the frames of a run one by one; the run must have `kept`. A single frame is yielded unchanged."""
    if type(frames) is not Run:
        assert isinstance(frames, Frame)
        yield frames
        return
    kept, data, at = frames.kept, frames.data, frames.start
    assert kept is not None
    for head, _, size in iter_unpack("<3I", kept):
        body = at + head
        end = body + size
        after = end + 1 + (data[end + 1 : end + 2] == b"\n")
        yield Frame(frames.command, data, at, data.index(b"\n", at) + 1, body, end, after, frames.plain)
        at = after
