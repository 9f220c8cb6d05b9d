"""`stomprelay journal`: the journal's segments for people."""

import argparse
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from stomprelay.journal import segment
from stomprelay.journal.block import SIZES, Damage
from stomprelay.journal.folder import Folder, is_written
from stomprelay.journal.records import Contexts, Record, RecordFilter, parse_time, records, segments
from stomprelay.journal.schema import JournalSide, SegmentHeader
from stomprelay.journal.segment import FRAMES_DROPPED, FRAMES_MISSING, OPEN, name_of, parse_name, spell_time
from stomprelay.wire.errors import visible

CLOSED: Final = "closed"
WRITTEN: Final = "open"
LEFT: Final = "left open"
"""The state of a segment whose relay was killed. The next relay that starts with this folder closes the segment."""


class SegmentCheck:
    """Reads a segment to its end. It has the numbers of blocks and frames, the damages, and the times of the first and
    last block in ns since 1970. While the segment is still written, a torn end does not count as damage.
    """

    __slots__ = ("blocks", "damages", "frames", "header", "path", "since", "size", "state", "until")

    def __init__(self, path: Path) -> None:
        self.path = path
        self.header: SegmentHeader | None = None
        self.blocks = self.frames = 0
        self.size = path.stat().st_size if path.exists() else 0
        self.since: int | None = None
        self.until: int | None = None
        self.damages: list[Damage] = []
        self.state = segment_state(path)
        contexts = Contexts()
        for found in segment.read(path):
            if isinstance(found, SegmentHeader):
                contexts = Contexts(found)
                self.header = self.header or found
                continue
            if isinstance(found, Damage):
                if not (found.torn and self.state == WRITTEN):
                    self.damages.append(found)
                continue
            self.blocks += 1
            self.frames += len(found.sizes) // SIZES
            if self.since is None:
                self.since = found.time
            self.until = found.time
            try:
                contexts.of(found)
            except ValueError as error:
                self.damages.append(Damage(found.offset, found.length, str(error)))


def segment_state(path: Path) -> str:
    """Return `CLOSED`, `WRITTEN` or `LEFT`, judged by the name of the file and its lock."""
    read = parse_name(path.name)
    if read is None or not read[1] or not path.exists():
        return CLOSED
    return WRITTEN if is_written(path) else LEFT


_GAP: Final = "    | "
_BARE: Final = re.compile(r'[^\s"]+')


def record_lines(record: Record, *, bodies: bool = False) -> Iterator[str]:
    """Yield a record as one line. With `bodies`, also yield each line of the recorded body."""
    context = record.context
    words = [spell_time(record.time), _word(context.session), _word(context.client)]
    if record.event is not None:
        event = record.event
        facts = [f"{visible(name)}={_quoted(value)}" for name, value in event.facts.items()]
        yield " ".join([*words, "--", visible(event.event) + ":", visible(event.text), *facts])
        return
    if context.side == JournalSide.BROKER.value:
        words += ["<-", _word(context.broker)]
    else:
        words.append("->")
    frame = record.frame
    words += [visible(record.command), *[f"{visible(name)}:{_quoted(text)}" for name, text in record.headers]]
    if frame is not None and frame.size:
        words.append(f"({frame.size} octet{'' if frame.size == 1 else 's'})")
    yield " ".join(words)
    if bodies and frame is not None and frame.size:
        if frame.kept:
            for line in frame.kept.decode("utf-8", "backslashreplace").split("\n"):
                yield _GAP + visible(line)
        if len(frame.kept) < frame.size:
            yield f"{_GAP}... {len(frame.kept)} of {frame.size} octets were kept"


def _word(text: str) -> str:
    return visible(text) if text else "-"


def _quoted(value: Any) -> str:
    text = visible(str(value))
    return text if _BARE.fullmatch(text) else '"' + text.replace('"', '\\"') + '"'


_ABOUT: Final = "Reads the segments of a journal, those that are still written included. Times are UTC."
_LS: Final = """
Lists segments: from when to when, how many blocks (each is what came at one time on one connection, or an event) and
frames, octets, and how each is: closed, open (a relay writes it), or left open by a relay that is dead; and whether
it is damaged, or frames are missing in it. Then a line for each segment that is missing between two others of a run,
and for each run that does not begin with its first segment, as when old ones were removed; with --json these go to
standard error.
"""
_CAT: Final = """
Shows frames and events, one in a line: its time, session and client; then `->` and a frame of the client, `<-` with
the broker's address and a frame of the broker, or `--` and an event. Headers are unescaped; secrets were never
written. What is damaged is told on standard error. Exit status: 0; 1 if something is damaged.
"""
_VERIFY: Final = """
Checks every block of every segment; that no segment of a run is missing between two others, or there twice; that no
frame is missing between two others of a connection; and that the relay dropped none. One line for each damage, and for
each run that does not begin with its first segment, which is none: old segments may have been removed. A copy of a
segment is not counted. Exit status: 0 if there is no damage, else 1.
"""
_HEADINGS: Final = ("segment", "relay", "from", "to", "#blocks", "#frames", "#octets", "state")

WriteLine = Callable[[str], None]


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> argparse.ArgumentParser:
    """Add the command to a parser's commands. The caller must pass the parsed options to `run`."""
    journal = commands.add_parser("journal", help="read the journal that a relay wrote", description=_ABOUT)
    journals = journal.add_subparsers(dest="journal", required=True, metavar="COMMAND")
    places = argparse.ArgumentParser(add_help=False)
    places.add_argument("places", nargs="+", metavar="PLACE", help="a journal's folder, or a segment's file")
    rows = argparse.ArgumentParser(add_help=False)
    rows.add_argument("--json", action="store_true", help="one JSON object in a line")
    journals.add_parser("ls", parents=[places, rows], help="list segments", description=_LS)
    cat = journals.add_parser("cat", parents=[places, rows], help="show frames and events", description=_CAT)
    cat.add_argument("--session", action="append", default=[], metavar="NAME", help="of this session only")
    cat.add_argument(
        "--destination",
        action="append",
        default=[],
        metavar="GLOB",
        help="frames with such a destination only, as in '/queue/*'",
    )
    cat.add_argument(
        "--command", dest="commands", action="append", default=[], type=str.upper, metavar="COMMAND",
        help="frames of this command only",
    )  # fmt: skip
    time = "2026-11-21T08:23:00 (UTC), or a part of it"
    cat.add_argument("--since", type=instant, metavar="TIME", help=f"from then on: {time}")
    cat.add_argument("--until", type=instant, metavar="TIME", help="before then")
    cat.add_argument("--bodies", action="store_true", help="show what was kept of the bodies, too")
    journals.add_parser("verify", parents=[places], help="look for damage", description=_VERIFY)
    return journal


def instant(text: str) -> int:
    """Return the time in an option, as ns since 1970."""
    try:
        return parse_time(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a time such as 2026-11-21T08:23, not {text!r}") from None


def run(options: argparse.Namespace, out: WriteLine, err: WriteLine) -> int:
    """Run the command. Pass its lines to `out` and `err`. Return its exit status. Raises `OSError`."""
    match options.journal:
        case "ls":
            return _list(options, out, err)
        case "cat":
            return _show(options, out, err)
    return _verify(options, out)


def _list(options: argparse.Namespace, out: WriteLine, err: WriteLine) -> int:
    paths = list(segments(options.places))
    remarks = [*_missing(options.places), *_beginnings(options.places)]
    if options.json:
        for path in paths:
            values = zip(_HEADINGS, _values(SegmentCheck(path)), strict=True)
            out(json.dumps({name.lstrip("#"): value for name, value in values}))
        for line in remarks:
            err(line)
        return 0
    rows = [
        tuple("-" if each is None else visible(str(each)) for each in _values(SegmentCheck(path)))
        for path in paths
    ]
    for line in table(_HEADINGS, rows):
        out(line)
    for line in remarks:
        out(line)
    return 0


def _missing(places: Sequence[str]) -> Iterator[str]:
    for place in map(Path, places):
        for gap in Folder(place).gaps() if place.is_dir() else ():
            which = f"segment {gap.first}" if gap.first == gap.last else f"segments {gap.first} to {gap.last}"
            yield f"{place}: {which} of run {gap.run} of {gap.relay}: missing"


def _beginnings(places: Sequence[str]) -> Iterator[str]:
    for place in map(Path, places):
        for gap in Folder(place).heads() if place.is_dir() else ():
            yield f"{place}: run {gap.run} of {gap.relay} begins at segment {gap.last + 1}"


def _values(check: SegmentCheck) -> Iterator[str | int | None]:
    yield check.path.name
    yield None if check.header is None else check.header.relay or None
    yield None if check.since is None else spell_time(check.since)
    yield None if check.until is None else spell_time(check.until)
    yield from (check.blocks, check.frames, check.size)
    yield ", ".join([check.state, *dict.fromkeys(_short(check, damage) for damage in check.damages)])


def _short(check: SegmentCheck, damage: Damage) -> str:
    """Return a damage in one or two words. If the segment has no readable block, return the whole reason."""
    if not check.blocks:
        return damage.reason
    if not damage.length:
        for what, said in ((FRAMES_MISSING, "frames missing"), (FRAMES_DROPPED, "frames dropped")):
            if what in damage.reason:
                return said
    return "torn" if damage.torn else "damaged"


def table(names: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    """Yield the lines of a table. A column whose name begins with # holds numbers, aligned to the right."""
    right = [name.startswith("#") for name in names]
    lines = [tuple(name.lstrip("#") for name in names), *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = zip(line, widths, right, strict=True)
        yield "  ".join(
            f"{cell:>{width}}" if is_right else f"{cell:{width}}" for cell, width, is_right in cells
        ).rstrip()


def _show(options: argparse.Namespace, out: WriteLine, err: WriteLine) -> int:
    wanted = RecordFilter(
        frozenset(options.session),
        tuple(options.destination),
        frozenset(options.commands),
        options.since,
        options.until,
    )
    status = 0
    for path in segments(options.places):
        for found in records(path):
            if isinstance(found, Damage):
                if not (found.torn and segment_state(path) == WRITTEN):
                    err(_damaged(path, found))
                    status = 1
            elif not wanted.matches(found):
                continue
            elif options.json:
                out(json.dumps(found.columns(bodies=options.bodies)))
            else:
                for line in record_lines(found, bodies=options.bodies):
                    out(line)
    return status


def _verify(options: argparse.Namespace, out: WriteLine) -> int:
    count = blocks = frames = damages = 0
    known: dict[tuple[str, str, int], Path] = {}
    for path in (*segments(options.places), *_renamed(options.places)):
        check = SegmentCheck(path)
        name = name_of(path.name, check.header)
        first = path if name is None else known.setdefault((name.relay, name.run, name.number), path)
        if first is not path:
            if first.resolve() != path.resolve():
                damages += 1
                out(_again(path, first))
            continue
        still_open = path.with_suffix(OPEN)
        if path.name.endswith(segment.CLOSED) and still_open.exists() and path.exists():
            damages += 1
            out(_again(still_open, path))
        count += 1
        blocks += check.blocks
        frames += check.frames
        damages += len(check.damages)
        for damage in check.damages:
            out(_damaged(path, damage))
    for line in _missing(options.places):
        damages += 1
        out(line)
    for line in _beginnings(options.places):
        out(line)
    out(
        ", ".join([_counted(count, "segment"), _counted(blocks, "block"), _counted(frames, "frame")])
        + ": "
        + (_counted(damages, "damage") if damages else "no damage")
    )
    return 1 if damages else 0


def _renamed(places: Sequence[str]) -> Iterator[Path]:
    """Yield files whose names are not names of segments. The pipeline reads these files as segments all the same."""
    for place in map(Path, places):
        if place.is_dir():
            yield from (
                each for each in sorted(place.glob(f"*{segment.CLOSED}")) if parse_name(each.name) is None
            )


def _again(path: Path, other: Path) -> str:
    return f"{path}: the same segment is there again: {other}"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _damaged(path: Path, damage: Damage) -> str:
    return f"{path}: at {damage.offset}, {_counted(damage.length, 'octet')}: {damage.reason}"
