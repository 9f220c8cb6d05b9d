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
from stomprelay.journal.block import Block, Damage, Kind, Recorded
from stomprelay.journal.folder import Folder
from stomprelay.journal.schema import Context, Happening, Header, Side
from stomprelay.wire.dialect import DIALECTS, V1_2, Dialect
from stomprelay.wire.frame import Frame
from stomprelay.wire.names import OPENING, PASSCODE

_SECOND: Final = 10**9
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def spell_time(ns: int) -> str:
    """Nanoseconds since 1970 as `2026-11-21T08:23:00.123456Z`; what is less than a microsecond is left out. Of a time
    that no calendar has, the number.
    """
    seconds, rest = divmod(ns, _SECOND)
    try:
        moment = _EPOCH + timedelta(seconds=seconds)
    except OverflowError:
        return f"{ns}ns"
    return f"{moment.replace(tzinfo=None).isoformat()}.{rest // 1000:06d}Z"


def parse_time(text: str) -> int:
    """What `spell_time` returns, a part of it (`2026-11-21`, `2026-11-21T08:23`), or the same with an offset such
    as `+01:00`, as nanoseconds since 1970. Raises `ValueError` for anything else.
    """
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // timedelta(microseconds=1) * 1000


_LENIENT: Final = {version.decode(): replace(dialect, strict=False) for version, dialect in DIALECTS.items()}
_DEFAULT: Final = replace(V1_2, strict=False)
"""For frames before a version was settled, which have nothing to be unescaped."""
_DIRECTIONS: Final = {Side.CLIENT.value: "to_broker", Side.BROKER.value: "to_client"}
_BLANK: Final = "***"

Headers = list[tuple[str, str]]


class Record(NamedTuple):
    """One frame, or one event. `segment`: the name of its file without the ending; `number`: frames of the leg before
    it. A frame has `frame`, `command` and `headers`, unescaped; an event `happening`.
    """

    relay: str
    segment: str
    offset: int
    time: int
    number: int
    context: Context
    command: str
    headers: Headers
    frame: Recorded | None
    happening: Happening | None

    def header(self, name: str) -> str | None:
        """The first value of a header."""
        return next((value for known, value in self.headers if known == name), None)

    def named(self, *, bodies: bool = False) -> dict[str, Any]:
        """What is known of it, by the names of the pipeline's table `frames`; what is empty is left out."""
        told: dict[str, Any] = {"at": spell_time(self.time), "ns": self.time, "relay": self.relay}
        told |= {name: value for name, value in self.context._asdict().items() if value}
        if self.context.side in _DIRECTIONS:
            told["direction"] = _DIRECTIONS[self.context.side]
        if self.happening is not None:
            told |= {"kind": "event", **self.happening._asdict()}
        if self.frame is not None:
            told |= {"kind": "frame", "command": self.command}
            headers = told["headers"] = {}
            for name, value in self.headers:
                headers.setdefault(name, value)
            told |= {"size": len(self.frame.head) + self.frame.size + 1, "body_size": self.frame.size}
            if bodies and self.frame.kept:
                told |= _body(self.frame.kept)
        return told | {"segment": self.segment, "offset": self.offset, "number": self.number}


def _body(kept: bytes) -> dict[str, str]:
    try:
        return {"body": kept.decode("utf-8")}
    except UnicodeDecodeError:
        return {"body_base64": b64encode(kept).decode("ascii")}


def records(path: Path | str) -> Iterator[Record | Damage]:
    """All records of a segment in order, and what is damaged. Never raises `OSError`."""
    contexts = Contexts()
    relay = ""
    name = Path(path).name.partition(".journal")[0]
    for found in segment.read(path):
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
    """The contexts of the blocks under a header, by their octets."""

    def __init__(self, header: Header | None = None) -> None:
        super().__init__({b"": Context()})
        self._header = header

    def __missing__(self, data: bytes) -> Context:
        if self._header is None:
            raise ValueError("its header is missing")
        context = self[data] = self._header.contexts(data)
        return context

    def of(self, block: Block) -> tuple[Context, Happening | None]:
        """A block's context and, of an event, what happened. Raises `ValueError` for a block that is whole and yet
        does not say it.
        """
        try:
            return self[block.context], _happening(block) if block.kind is Kind.EVENT else None
        except (ValueError, TypeError, KeyError):
            raise ValueError("the block is whole, but what it says is not understood") from None


def _happening(block: Block) -> Happening:
    told = json.loads(block.payload)
    return Happening(str(told["event"]), str(told["text"]), dict(told["facts"]))


def _heading(head: bytes, version: str) -> tuple[str, Headers]:
    """The command and the headers of a recorded head, as the dialect of the leg has them. A head that is no dialect's
    is read as far as it goes.
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
        # It was blanked before it was written; nobody sees it even if it was not.
        headers = [(name, _BLANK if name == secret and value else value) for name, value in headers]
    return _text(command), headers


def _text(octets: bytes) -> str:
    return octets.decode("utf-8", "backslashreplace")


@dataclass(frozen=True)
class Selection:
    """What a record must be like. `destinations` may hold `*`, `?` and `[...]`; commands and destinations are those of
    frames, so asking for some leaves out events. `since` and `until`: nanoseconds since 1970, `until` not included.
    """

    sessions: frozenset[str] = frozenset()
    destinations: tuple[str, ...] = ()
    commands: frozenset[str] = frozenset()
    since: int | None = None
    until: int | None = None

    def takes(self, record: Record) -> bool:
        """Whether a record is one of those."""
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
    """The segments that are meant: of a folder all, in order; a file is taken for one, whatever it is called. Raises
    `OSError`, which names the place, for a folder or a file that is not there.
    """
    for place in map(Path, places):
        if place.is_dir():
            yield from [entry.path for entry in Folder(place).segments()]
        else:
            place.stat()
            yield place
