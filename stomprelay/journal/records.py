"""Reads a segment record by record, for people and for JSON. Parses times, and filters records."""

import json
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final, NamedTuple

from stomprelay.journal import segment
from stomprelay.journal.block import Block, BlockKind, Damage, RecordedFrame
from stomprelay.journal.folder import Folder
from stomprelay.journal.schema import Context, EventRecord, JournalSide, SegmentHeader
from stomprelay.journal.segment import EPOCH, spell_time
from stomprelay.wire.dialect import DIALECTS, V1_2, Dialect
from stomprelay.wire.frame import Frame
from stomprelay.wire.names import OPENING, PASSCODE


def parse_time(text: str) -> int:
    """Return a time in ISO 8601, such as `2026-11-21` or `2026-11-21T08:23`, as ns since 1970. A time without an offset
    is in UTC. Raises `ValueError`.
    """
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - EPOCH) // timedelta(microseconds=1) * 1000


_LENIENT: Final = {version.decode(): replace(dialect, strict=False) for version, dialect in DIALECTS.items()}
_DEFAULT: Final = replace(V1_2, strict=False)
"""The dialect for frames before a version is agreed. These frames have nothing to unescape."""
_DIRECTIONS: Final = {JournalSide.CLIENT.value: "to_broker", JournalSide.BROKER.value: "to_client"}
_BLANK: Final = "***"

Headers = list[tuple[str, str]]


class Record(NamedTuple):
    """A frame, with `frame`, `command` and unescaped `headers`; or an `event`. `segment` is the name of the segment's
    file without the ending, or empty. `number`: how many frames of the leg came before.
    """

    relay: str
    segment: str
    offset: int
    time: int
    number: int
    context: Context
    command: str
    headers: Headers
    frame: RecordedFrame | None
    event: EventRecord | None

    def header(self, name: str) -> str | None:
        """Return the first value of a header, or None if the header is missing."""
        return next((value for known, value in self.headers if known == name), None)

    def columns(self, *, bodies: bool = False) -> dict[str, Any]:
        """Return the record's values by column of the pipeline's table `frames`. Empty values are left out."""
        columns: dict[str, Any] = {"seen_at": spell_time(self.time), "ns": self.time, "relay": self.relay}
        columns |= {name: value for name, value in self.context._asdict().items() if value}
        if self.context.side in _DIRECTIONS:
            columns["direction"] = _DIRECTIONS[self.context.side]
        if self.event is not None:
            columns |= {"kind": "event", **self.event._asdict()}
        if self.frame is not None:
            columns |= {"kind": "frame", "command": self.command}
            headers = columns["headers"] = {}
            for name, value in self.headers:
                headers.setdefault(name, value)
            columns |= {"size": len(self.frame.head) + self.frame.size + 1, "body_size": self.frame.size}
            if bodies and self.frame.kept:
                try:
                    columns["body"] = self.frame.kept.decode("utf-8")
                except UnicodeDecodeError:
                    columns["body_base64"] = b64encode(self.frame.kept).decode("ascii")
        if self.segment:
            columns |= {"segment": self.segment, "position": self.offset, "number": self.number}
        return columns


Wanted = Callable[[Context, bytes], bool]
"""A function that returns whether a frame with this context and this head is wanted."""


def records(path: Path | str, wanted: Wanted | None = None) -> Iterator[Record | Damage]:
    """Yield all records and damages of a segment, in order. Frames that are not `wanted` are left out, which is faster
    than to leave them out later. Never raises `OSError`.
    """
    return records_of(segment.read(path), Path(path).name.partition(".journal")[0], wanted)


def records_of(
    items: Iterable[SegmentHeader | Block | Damage], name: str = "", wanted: Wanted | None = None
) -> Iterator[Record | Damage]:
    """Yield all records and damages among these items of a segment. `name` is the name of the segment. `wanted`: see
    `records`.
    """
    contexts = Contexts()
    relay = ""
    for found in items:
        if isinstance(found, SegmentHeader):
            contexts = Contexts(found)
            relay = found.relay
            continue
        if isinstance(found, Damage):
            yield found
            continue
        try:
            context, event = contexts.of(found)
        except ValueError as error:
            yield Damage(found.offset, found.length, str(error))
            continue
        if event is not None:
            yield Record(relay, name, found.offset, found.time, found.number, context, "", [], None, event)
            continue
        for number, frame in enumerate(found.frames, found.number):
            if wanted is not None and not wanted(context, frame.head):
                continue
            command, headers = _heading(frame.head, context.version)
            yield Record(
                relay, name, found.offset, found.time, number, context, command, headers, frame, None
            )


class Contexts(dict[bytes, Context]):
    """The contexts of the blocks behind a header, by their encoded form. Each context is decoded only once."""

    def __init__(self, header: SegmentHeader | None = None) -> None:
        super().__init__({b"": Context()})
        self._header = header

    def __missing__(self, data: bytes) -> Context:
        if self._header is None:
            raise ValueError("its header is missing")
        context = self[data] = self._header.contexts(data)
        return context

    def of(self, block: Block) -> tuple[Context, EventRecord | None]:
        """Return a block's context, and its event or None. Raises `ValueError` if the block cannot be understood."""
        try:
            context = self[block.context]
            if block.kind is not BlockKind.EVENT:
                return context, None
            event = json.loads(block.payload)
            return context, EventRecord(str(event["event"]), str(event["text"]), dict(event["facts"]))
        except (ValueError, TypeError, KeyError):
            raise ValueError("the block is whole, but what it says is not understood") from None


def _heading(head: bytes, version: str) -> tuple[str, Headers]:
    """Return the command and headers of a recorded head. If the head is malformed, return what can be read."""
    dialect: Dialect = _LENIENT.get(version, _DEFAULT)
    line = head.find(b"\n") + 1
    if not line or len(head) == line:
        return _text(head.rstrip(b"\r\n")), []
    command = head[: line - 1].removesuffix(b"\r")
    frame = Frame(command, head, 0, line, len(head), len(head), len(head), plain=False)
    headers = [(_text(name), _text(value)) for name, value in frame.headers(dialect)]
    if command in OPENING:
        secret = PASSCODE.decode()
        # The passcode was masked when the frame was recorded; this makes sure.
        headers = [(name, _BLANK if name == secret and value else value) for name, value in headers]
    return _text(command), headers


def _text(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace")


@dataclass(frozen=True)
class RecordFilter:
    """Conditions that a record must fulfil. Destinations are globs. If there are commands or destinations, no event
    fulfils the conditions. Times are in ns since 1970; `until` is not included.
    """

    sessions: frozenset[str] = frozenset()
    destinations: tuple[str, ...] = ()
    commands: frozenset[str] = frozenset()
    since: int | None = None
    until: int | None = None

    def matches(self, record: Record) -> bool:
        """Return whether a record fulfils all conditions."""
        if self.since is not None and record.time < self.since:
            return False
        if self.until is not None and record.time >= self.until:
            return False
        if self.sessions and record.context.session not in self.sessions:
            return False
        if self.commands and record.command not in self.commands:
            return False
        if not self.destinations:
            return True
        destination = record.header("destination")
        return destination is not None and any(
            fnmatchcase(destination, pattern) for pattern in self.destinations
        )


def segments(places: Iterable[str]) -> Iterator[Path]:
    """Yield the paths of segments: for a folder all its segments, for a file the file itself. Raises `OSError`."""
    for place in map(Path, places):
        if place.is_dir():
            yield from [file.path for file in Folder(place).segments()]
        else:
            place.stat()
            yield place
