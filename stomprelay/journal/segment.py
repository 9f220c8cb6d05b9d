"""A segment's file: its name, and how to read it, also while a relay writes it or if its end is torn."""

import json
import os
import re
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, NamedTuple

from stomprelay.journal.block import NO_BLOCK, SIZES, Block, BlockKind, Damage, decode, walk
from stomprelay.journal.schema import VERSION, EventRecord, JournalEvent, NewerVersion, SegmentHeader
from stomprelay.wire.errors import visible

CLOSED: Final = ".journal"
OPEN: Final = ".journal.open"
"""The ending of a segment's name while the segment is written. If the relay is killed, the name keeps this ending."""

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND: Final = 10**9
_STAMP: Final = "%Y%m%dT%H%M%S"
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]+")
_LONGEST: Final = 100
_SHAPE: Final = re.compile(
    r"(?P<stamp>\d{8}T\d{6})-(?P<relay>[A-Za-z0-9._-]+)-(?P<run>[0-9a-f]{8})-(?P<number>\d{6,12})"
    r"\.journal(?P<open>\.open)?"
)


class SegmentName(NamedTuple):
    """A segment's name without its ending. `created`: in ns since 1970 (whole seconds). `relay`: as `safe_name` returns
    it. `run`: 8 hexadecimal digits, new at each start of the relay. `number`: counted from 1 in each run.
    """

    created: int
    relay: str
    run: str
    number: int

    def __str__(self) -> str:
        """Return the name of the file without its ending. The caller must add `CLOSED` or `OPEN`."""
        begun = datetime.fromtimestamp(self.created // _SECOND, UTC)
        return f"{begun:{_STAMP}}-{self.relay}-{self.run}-{self.number:06d}"


def spell_time(ns: int) -> str:
    """Return ns since 1970 as `2026-11-21T08:23:00.123456Z`; after the year 9999 as a number followed by `ns`."""
    seconds, rest = divmod(ns, _SECOND)
    try:
        moment = EPOCH + timedelta(seconds=seconds)
    except OverflowError:
        return f"{ns}ns"
    return f"{moment.replace(tzinfo=None).isoformat()}.{rest // 1000:06d}Z"


def safe_name(relay: str) -> str:
    """Return a relay's name for a file's name, with only ASCII letters, digits, dots, hyphens and underscores."""
    return _UNSAFE.sub("_", relay)[:_LONGEST] or "_"


def parse_name(file: str) -> tuple[SegmentName, bool] | None:
    """Return the parts of a file's name, and whether the segment is open; None if it is not the name of a segment."""
    found = _SHAPE.fullmatch(file)
    if found is None:
        return None
    try:
        begun = datetime.strptime(found["stamp"], _STAMP).replace(tzinfo=UTC)
    except ValueError:
        return None
    name = SegmentName(int(begun.timestamp()) * _SECOND, found["relay"], found["run"], int(found["number"]))
    return name, found["open"] is not None


def name_of(file: str, header: SegmentHeader | None) -> SegmentName | None:
    """Return the name of a segment, taken from its file's name, else from its header; None if neither has a name."""
    named = parse_name(file)
    if named is not None:
        return named[0]
    if header is None:
        return None
    try:
        made = SegmentName(header.created, safe_name(header.relay), header.run, header.number)
        named = parse_name(f"{made}{CLOSED}")
    except (ValueError, TypeError, OverflowError, OSError):
        return None
    return None if named is None else named[0]


_DROPPED: Final = EventRecord(JournalEvent.DROPPED.value, "", {}).encode().partition(b",")[0]
"""The first bytes of an event `JournalEvent.DROPPED`, with which the relay reports that it left records out."""
FRAMES_MISSING: Final = "missing before it"
"""If these words are in the reason of a `Damage` of no bytes, whole blocks are missing before the damage."""
FRAMES_DROPPED: Final = "dropped by the relay"
"""If these words are in the reason of a `Damage` of no bytes, there is an event `JournalEvent.DROPPED` at its place."""
_NAMED: Final = 3
"""The most sessions with dropped frames that a damage names."""
_NONE: Final = "not a segment of a journal"


def read(path: Path | str) -> Iterator[SegmentHeader | Block | Damage]:
    """Yield the content of a segment, in order: a `SegmentHeader`, then blocks of frames and events. Unreadable bytes
    are yielded as a `Damage`, and everything before and after them is read.

    A header applies to all blocks behind it, up to the next header. A file of joined segments has several headers. If
    the first header is damaged, a header made from the file's name takes its place; so a `Damage` may come first. A
    file that cannot be read at all, or is no segment, is one `Damage`.

    At the end there is a `Damage` of no bytes for each event `JournalEvent.DROPPED`, and for each leg that lacks frames
    between recorded frames. Frames that were dropped, or may be in damaged bytes, are not counted for a leg.

    Never raises `OSError`. One block at a time is in memory. If a relay still writes the segment, the bytes that it had
    at the start are read, and their end may be torn.
    """
    try:
        file = _opened(Path(path))
    except OSError as error:
        yield _unreadable(error)
        return
    status = os.fstat(file)
    if not stat.S_ISREG(status.st_mode):
        os.close(file)
        yield Damage(0, 0, f"{_NONE}: it is no file")
        return
    with os.fdopen(file, "rb", buffering=0) as source:
        if not status.st_size:
            yield Damage(0, 0, "it is empty", torn=True)
            return
        found = _blocks(source.read, status.st_size)
        yield from _counted(_under_headers(found, Path(path).name, status.st_size))


def parse(data: bytes) -> Iterator[SegmentHeader | Block | Damage]:
    """Yield the content of these bytes of segments, as `read` does, but do not look for missing frames."""
    return _under_headers(decode(data), "", len(data))


def _opened(path: Path) -> int:
    """Open a segment's file and return the descriptor. If the segment was closed meanwhile, its file has a new name,
    and this file is opened. Raises `OSError`.
    """
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
    try:
        return os.open(path, flags)
    except FileNotFoundError:
        if not path.name.endswith(OPEN):
            raise
        # The segment was closed, and so renamed, after it was listed.
        return os.open(path.with_suffix(""), flags)


def _blocks(more: Callable[[int], bytes], size: int) -> Iterator[Block | Damage]:
    found: Block | Damage | None = None
    try:
        for found in walk(more, size):
            yield found
    except OSError as error:
        at = found.offset + found.length if found is not None else 0
        yield _unreadable(error, at, size - at)


def _unreadable(error: OSError, at: int = 0, length: int = 0) -> Damage:
    return Damage(at, length, f"it cannot be read: {error.strerror}")


def _under_headers(
    items: Iterator[Block | Damage], file: str, size: int
) -> Iterator[SegmentHeader | Block | Damage]:
    """Yield these items with decoded headers. If the first is damaged or missing, the file's name stands for it."""
    known = False
    for found in items:
        if isinstance(found, Damage):
            none = found.reason == NO_BLOCK and found.length == size
            yield found._replace(reason=_NONE) if none else found
        elif found.kind is not BlockKind.HEADER:
            if not known:
                named = parse_name(file)
                if named is None:
                    yield Damage(found.offset, size - found.offset, "its header is missing")
                    return
                name = named[0]
                yield SegmentHeader(VERSION, name.relay, name.run, name.number, name.created, 0.0, "")
                known = True
            yield found
        else:
            try:
                yield SegmentHeader.decode(found.payload)
                known = True
            except NewerVersion as error:
                yield Damage(found.offset, size - found.offset, str(error))
                return
            except ValueError as error:
                yield Damage(found.offset, found.length, str(error))


_Leg = tuple[str, str, str, str]
"""The session, side, upstream and broker of a leg, as in its `Context`."""


@dataclass(slots=True, eq=False, repr=False)
class _Jump:
    """Missing frames of a leg: how many, at how many places, and the offset of the block after the first place."""

    offset: int
    frames: int = 0
    places: int = 0

    def damage(self, leg: _Leg) -> Damage:
        """Return the missing frames as a damage of no bytes."""
        session, side, _, broker = map(_shown, leg)
        places = f", at {self.places} places" if self.places > 1 else ""
        whose = f"the {side} {broker}".rstrip() if side else "a leg"
        what = f"{_frames(self.frames)} of {whose} in session {session}"
        return Damage(self.offset, 0, f"{what} {FRAMES_MISSING}{places}")


class _Drop:
    """The dropped frames that an event reports. `left`: how many dropped frames explain no missing frame yet.
    `sessions` has the names of the sessions whose missing frames are explained.
    """

    __slots__ = ("block", "frames", "left", "said", "sessions")

    def __init__(self, block: Block) -> None:
        self.block = block
        self.said: dict[str, int] = {}
        try:
            facts = json.loads(block.payload)["facts"]
            self.said = {name: value for name, value in facts.items() if type(value) is int}
        except (ValueError, KeyError, TypeError, AttributeError):
            pass  # a reader of the block reports the error
        self.frames = self.left = max(self.said.get("frames", 0), 0)
        self.sessions: dict[str, None] = {}

    def take(self, frames: int, session: str) -> int:
        """Let the event explain up to `frames` missing frames of a session. Return how many it explains."""
        taken = min(frames, self.left)
        self.left -= taken
        if taken:
            self.sessions[session] = None
        return taken

    def damage(self) -> Damage:
        """Return a `Damage` for the dropped frames. It has no bytes, because these frames were never written."""
        said, end = self.said, spell_time(self.block.time)
        since = f"from {spell_time(said['since'])} to {end}" if "since" in said else f"up to {end}"
        octets = f", {said['octets']} octets," if "octets" in said else ""
        words = f"{_frames(self.frames)}{octets} {FRAMES_DROPPED} {since}: its queue was full"
        if self.sessions:
            names = ", ".join(_shown(name) for name in [*self.sessions][:_NAMED])
            more = " and others" if len(self.sessions) > _NAMED else ""
            words += f"; {self.frames - self.left} of them between others of the sessions {names}{more}"
        return Damage(self.block.offset, 0, words)


class _Gaps:
    """The frames that are missing in a segment, and the frames that the relay dropped.

    The relay reports dropped frames with the next blocks that it writes, see `WriterThread`. Some of these blocks came
    before the dropped frames, some after them. So the missing frames before a block are explained by the reports in
    front of it and by the first report behind it. Each dropped frame explains one missing frame.
    """

    __slots__ = ("_drops", "_first", "_jumps", "pending")

    def __init__(self) -> None:
        self._drops: list[_Drop] = []
        self._first = 0
        self._jumps: dict[_Leg, _Jump] = {}
        self.pending: list[tuple[_Leg, int, int]] = []
        """Missing frames: their leg, their number, and the offset of the block behind them."""

    def dropped(self, block: Block) -> None:
        """Record the block of an event by which the relay reports dropped frames."""
        self._drops.append(_Drop(block))
        self._settle()

    def _settle(self) -> None:
        """Let the reports explain the missing frames that were recorded last. Keep the other missing frames by leg."""
        drops = self._drops
        for leg, missing, offset in self.pending:
            frames = missing
            while frames and self._first < len(drops):
                frames -= drops[self._first].take(frames, leg[0])
                if not drops[self._first].left:
                    self._first += 1
            if frames:
                jump = self._jumps.setdefault(leg, _Jump(offset))
                jump.frames += frames
                jump.places += 1
        self.pending.clear()

    def damages(self) -> Iterator[Damage]:
        """Yield a damage for each report, and for each leg with unexplained missing frames. Call this at the end."""
        self._settle()
        yield from (drop.damage() for drop in self._drops)
        yield from (jump.damage(leg) for leg, jump in self._jumps.items())


def _frames(count: int) -> str:
    return f"{count} frame{'' if count == 1 else 's'}"


def _counted(items: Iterator[SegmentHeader | Block | Damage]) -> Iterator[SegmentHeader | Block | Damage]:
    """Yield these items, then the damages of `_Gaps`. If a leg's frames are counted from 0 again, the leg is new."""
    header: SegmentHeader | None = None
    legs: dict[_Leg, list[int]] = {}
    known: dict[bytes, tuple[_Leg, list[int]] | None] = {}
    gaps = _Gaps()
    for found in items:
        yield found
        if type(found) is Block:
            if found.kind is not BlockKind.FRAMES:
                if found.payload.startswith(_DROPPED):
                    gaps.dropped(found)
                continue
            context, number = found.context, found.number
            if context in known:
                followed = known[context]
            else:
                leg = None if header is None else _leg(header, context)
                # If a leg is new in this segment, its first number counts as right.
                followed = known[context] = None if leg is None else (leg, legs.setdefault(leg, [number]))
            if followed is not None:
                leg, due = followed
                if number > due[0]:
                    gaps.pending.append((leg, number - due[0], found.offset))
                due[0] = number + len(found.sizes) // SIZES
            continue
        if isinstance(found, SegmentHeader):
            header = found
        legs.clear()
        known.clear()
    yield from gaps.damages()


def _leg(header: SegmentHeader, context: bytes) -> _Leg | None:
    """Return the leg of a block with this context; None if the context is not that of a session's leg."""
    try:
        of = header.contexts(context)
    except ValueError:
        return None
    leg = (of.session, of.side, of.upstream, of.broker)
    return leg if of.session and all(isinstance(each, str) for each in leg) else None


def _shown(text: str) -> str:
    """Return a text of a segment as text that is safe to show. Somebody else than the relay may have written it."""
    return visible(text[:_LONGEST])
