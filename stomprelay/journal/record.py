"""A segment's records one by one, each with all that the journal says of it: for people, and for JSON."""

import json
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from stomprelay.journal import moment, segment
from stomprelay.journal.block import Block, Damage, Kind, Recorded
from stomprelay.journal.schema import Context, Happening, Header, Side
from stomprelay.wire.dialect import DIALECTS, V1_2, Dialect
from stomprelay.wire.frame import Frame
from stomprelay.wire.names import OPENING, PASSCODE

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
        told: dict[str, Any] = {"at": moment.shown(self.time), "ns": self.time, "relay": self.relay}
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
