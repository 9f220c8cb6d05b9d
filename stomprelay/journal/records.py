"""A segment's records one by one, for people and for JSON: their times, what is in each, and which were asked for."""

import json
from base64 import b64encode
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final, NamedTuple

from stomprelay.journal import segment
from stomprelay.journal.block import Block, BlockKind, Damage, RecordedFrame
from stomprelay.journal.folder import Folder
from stomprelay.journal.schema import Context, EventRecord, Header, JournalSide
from stomprelay.journal.segment import EPOCH, spell_time
from stomprelay.wire.dialect import DIALECTS, V1_2, Dialect
from stomprelay.wire.frame import Frame
from stomprelay.wire.names import OPENING, PASSCODE


def parse_time(text: str) -> int:
    """Return nanoseconds since 1970 for what `spell_time` returns, a part of it (`2026-11-21`, `2026-11-21T08:23`), or
    the same with an offset such as `+01:00`. Raises `ValueError` for anything else.
    """
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - EPOCH) // timedelta(microseconds=1) * 1000


_LENIENT: Final = {version.decode(): replace(dialect, strict=False) for version, dialect in DIALECTS.items()}
_DEFAULT: Final = replace(V1_2, strict=False)
"""For frames before a version was settled, which have nothing to be unescaped."""
_DIRECTIONS: Final = {JournalSide.CLIENT.value: "to_broker", JournalSide.BROKER.value: "to_client"}
_BLANK: Final = "***"

Headers = list[tuple[str, str]]


class Record(NamedTuple):
    """One frame, or one event. `segment`: the name of its file without the ending, empty where it is in none, and then
    `offset` and `number` mean nothing; `number`: how many frames of the leg were before it. A frame has `frame`,
    `command` and unescaped `headers`; an event has `event`.
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
        """Return the first value of a header; None where there is none."""
        return next((value for known, value in self.headers if known == name), None)

    def columns(self, *, bodies: bool = False) -> dict[str, Any]:
        """Return its values by the column names of the pipeline's table `frames`; empty ones are left out, bodies
        unless `bodies`.
        """
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
                columns |= _body(self.frame.kept)
        if self.segment:
            columns |= {"segment": self.segment, "position": self.offset, "number": self.number}
        return columns


def _body(kept: bytes) -> dict[str, str]:
    try:
        return {"body": kept.decode("utf-8")}
    except UnicodeDecodeError:
        return {"body_base64": b64encode(kept).decode("ascii")}


def records(path: Path | str) -> Iterator[Record | Damage]:
    """Yield all records of a segment in order, and what is damaged. Never raises `OSError`."""
    return records_of(segment.read(path), Path(path).name.partition(".journal")[0])


def records_of(items: Iterable[Header | Block | Damage], name: str = "") -> Iterator[Record | Damage]:
    """Yield all records among what was read of the segment of this name, and what is damaged."""
    contexts = Contexts()
    relay = ""
    for found in items:
        if isinstance(found, Header):
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
            command, headers = _heading(frame.head, context.version)
            yield Record(
                relay, name, found.offset, found.time, number, context, command, headers, frame, None
            )


class Contexts(dict[bytes, Context]):
    """The contexts of the blocks under a header, decoded once each: encoded -> decoded."""

    def __init__(self, header: Header | None = None) -> None:
        super().__init__({b"": Context()})
        self._header = header

    def __missing__(self, data: bytes) -> Context:
        if self._header is None:
            raise ValueError("its header is missing")
        context = self[data] = self._header.contexts(data)
        return context

    def of(self, block: Block) -> tuple[Context, EventRecord | None]:
        """Return a block's context and, for a block of kind `EVENT`, the event. Raises `ValueError` for a block whose
        checksum is right but whose content is not understood.
        """
        try:
            return self[block.context], _event(block) if block.kind is BlockKind.EVENT else None
        except (ValueError, TypeError, KeyError):
            raise ValueError("the block is whole, but what it says is not understood") from None


def _event(block: Block) -> EventRecord:
    event = json.loads(block.payload)
    return EventRecord(str(event["event"]), str(event["text"]), dict(event["facts"]))


def _heading(head: bytes, version: str) -> tuple[str, Headers]:
    """Return the command and the headers of a recorded head, decoded by the leg's version. Of a malformed head, as
    much as can be read.
    """
    dialect: Dialect = _LENIENT.get(version, _DEFAULT)
    line = head.find(b"\n") + 1
    if not line or len(head) == line:
        return _text(head.rstrip(b"\r\n")), []
    command = head[: line - 1].removesuffix(b"\r")
    frame = Frame(command, head, 0, line, len(head), len(head), len(head), plain=False)
    headers = [(_text(name), _text(value)) for name, value in frame.headers(dialect)]
    if command in OPENING:
        secret = PASSCODE.decode()
        # It was replaced before it was written; this makes sure.
        headers = [(name, _BLANK if name == secret and value else value) for name, value in headers]
    return _text(command), headers


def _text(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace")


@dataclass(frozen=True)
class RecordFilter:
    """The conditions that a record must fulfil. `destinations` may hold `*`, `?` and `[...]`; commands and destinations
    are those of frames, so asking for some leaves out events. `since` and `until`: nanoseconds since 1970, `until` not
    included.
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
    """Yield the segments at these paths: all of a folder, in order; a file is taken for a segment whatever its
    name is. Raises `OSError`, which names the path, for a folder or a file that does not exist.
    """
    for place in map(Path, places):
        if place.is_dir():
            yield from [file.path for file in Folder(place).segments()]
        else:
            place.stat()
            yield place
