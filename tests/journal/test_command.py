"""`stomprelay journal ls|cat|verify`, without the rest of the command: what a segment holds, lines for people."""

import argparse
import json
from pathlib import Path

import pytest

from stomprelay.journal import command
from stomprelay.journal.block import RecordedFrame
from stomprelay.journal.command import CLOSED, LEFT, SegmentCheck, record_lines, segment_state
from stomprelay.journal.records import Record, records
from stomprelay.journal.schema import Context
from tests.journal import made
from tests.journal.made import BROKER, CLIENT, NAME, NOW, RUN, SECOND, SEND

OPEN = f"{NAME}.journal.open"
FIRST = "2026-11-21T08:23:00.123456Z"
BLOCKS = (
    made.frames((SEND, b"hello"), (b"SEND\ndestination:/topic/b\n\n", b"")),
    made.event("lost", "gone", at=NOW + SECOND),
    made.frames((b"MESSAGE\ndestination:/queue/a\n\n", b"x"), context=BROKER, at=NOW + 2 * SECOND),
)


def parsed(*arguments: str) -> argparse.Namespace:
    """The options as the command line gives them."""
    parser = argparse.ArgumentParser(prog="stomprelay")
    command.add(parser.add_subparsers())
    return parser.parse_args(["journal", *arguments])


def ran(*arguments: str) -> tuple[int, list[str], list[str]]:
    """The exit status, what was told and what was complained of."""
    told: list[str] = []
    complaints: list[str] = []
    return command.run(parsed(*arguments), told.append, complaints.append), told, complaints


def test_ls(tmp_path: Path) -> None:
    """A table; numbers stand to the right."""
    one = made.put(tmp_path, *BLOCKS)
    two = made.put(tmp_path, made.event(), made.event()[:-1], name=OPEN.replace("000001", "000002"))
    status, told, complaints = ran("ls", str(tmp_path))
    assert (status, complaints) == (0, [])
    sizes = [path.stat().st_size for path in (one, two)]
    assert told == [
        f"{'segment':{len(two.name)}}  relay  {'from':27}  {'to':27}  blocks  frames  octets  state",
        f"{one.name:{len(two.name)}}  eu-1   {FIRST}  2026-11-21T08:23:02.123456Z       3       3"
        f"  {sizes[0]:6}  closed",
        f"{two.name}  eu-1   {FIRST}  {FIRST}       1       0  {sizes[1]:6}  left open, torn",
    ]


def test_ls_in_json(tmp_path: Path) -> None:
    """An object a line, by the names of the columns; what is not known is null, what is missing told apart."""
    paths = [
        made.put(tmp_path, *BLOCKS, name=f"{NAME.replace('000001', number)}.journal")
        for number in ("000002", "000004")
    ]
    (tmp_path / "empty").touch()
    status, told, complaints = ran("ls", "--json", str(tmp_path), str(tmp_path / "empty"))
    assert status == 0
    first, *_, last = [json.loads(line) for line in told]
    assert " ".join(first) == "segment relay from to blocks frames octets state"
    times, size = (FIRST, "2026-11-21T08:23:02.123456Z"), paths[0].stat().st_size
    assert [*first.values()] == [paths[0].name, "eu-1", *times, 3, 3, size, "closed"]
    assert [*last.values()] == ["empty", None, None, None, 0, 0, 0, "closed, it is empty"]
    assert [line.partition(": ")[2] for line in complaints] == [
        f"segment 3 of run {RUN} of eu-1: missing",
        f"run {RUN} of eu-1 begins at segment 2",
    ]


def test_ls_of_one_that_is_written(tmp_path: Path) -> None:
    """It is open, and its end no damage."""
    journal = made.writer(tmp_path)
    journal.write(made.event() + made.event()[:-1], NOW)
    _, told, _ = ran("ls", str(tmp_path))
    assert told[1].endswith("  open")
    assert ran("cat", str(tmp_path))[0] == 0
    assert ran("verify", str(tmp_path))[0] == 0
    journal.close(NOW)


def test_cat(tmp_path: Path) -> None:
    """All records, a line each."""
    made.put(tmp_path, *BLOCKS)
    assert ran("cat", str(tmp_path)) == (
        0,
        [
            f"{FIRST} eu-1.7 orders -> SEND destination:/queue/a (5 octets)",
            f"{FIRST} eu-1.7 orders -> SEND destination:/topic/b",
            "2026-11-21T08:23:01.123456Z eu-1.7 orders -- lost: gone",
            "2026-11-21T08:23:02.123456Z eu-1.7 orders <- tcp://b:61613 MESSAGE destination:/queue/a (1 octet)",
        ],
        [],
    )


def test_cat_for_machines(tmp_path: Path) -> None:
    """An object a line, in ASCII: nothing of it controls a terminal."""
    made.put(tmp_path, *BLOCKS, made.event(text="zürich\u2028", context=CLIENT))
    _, told, _ = ran("cat", "--json", str(tmp_path))
    objects = [json.loads(line) for line in told]
    assert [each["kind"] for each in objects] == ["frame", "frame", "event", "frame", "event"]
    assert objects[0]["headers"] == {"destination": "/queue/a"}
    assert "body" not in objects[0]
    assert objects[-1]["text"] == "zürich\u2028"
    assert all(line.isascii() for line in told)
    _, told, _ = ran("cat", "--json", "--bodies", str(tmp_path))
    assert json.loads(told[0])["body"] == "hello"


@pytest.mark.parametrize(
    ("options", "count"),
    [
        (["--session", "eu-1.7"], 4),
        (["--session", "x", "--session", "eu-1.7"], 4),
        (["--destination", "/queue/*", "--destination", "/topic/b"], 3),
        (["--command", "SEND", "--command", "MESSAGE"], 3),
        (["--since", "2026-11-21T08:23:01", "--until", "2026-11-21T09:23:02+01:00"], 1),
        (["--until", "2026-11-21"], 0),
    ],
)
def test_cat_of_some(tmp_path: Path, options: list[str], count: int) -> None:
    """As `Selection` has it."""
    made.put(tmp_path, *BLOCKS)
    _, told, _ = ran("cat", *options, str(tmp_path))
    assert len(told) == count


def test_cat_of_what_is_damaged(tmp_path: Path) -> None:
    """It is complained of, and all else is shown."""
    path = made.put(tmp_path, BLOCKS[0], b"garbage", BLOCKS[1])
    status, told, complaints = ran("cat", str(tmp_path))
    assert (status, len(told)) == (1, 3)
    at = len(made.header()) + len(BLOCKS[0])
    assert complaints == [f"{path}: at {at}, 7 octets: no block begins here"]


def test_verify_of_what_is_damaged(tmp_path: Path) -> None:
    """A line for each damage, with its place."""
    one = made.put(tmp_path, BLOCKS[0], b"g", BLOCKS[1], BLOCKS[2][:-1])
    two = tmp_path / f"20261121T082400-eu-1-{RUN}-000002.journal"
    two.write_bytes(b"hello")
    at = len(made.header()) + len(BLOCKS[0])
    torn = at + 1 + len(BLOCKS[1])
    missing = len(BLOCKS[2]) - 12
    assert ran("verify", str(tmp_path)) == (
        1,
        [
            f"{one}: at {at}, 1 octet: no block begins here",
            f"{one}: at {torn}, {len(BLOCKS[2]) - 1} octets: torn: {missing - 1} of {missing} octets are there",
            f"{two}: at 0, 5 octets: not a segment of a journal",
            "2 segments, 2 blocks, 2 frames: 3 damages",
        ],
        [],
    )


def test_verify_of_what_is_missing(tmp_path: Path) -> None:
    """Segments between others; of files that were named, one cannot know."""
    paths = [made.put(tmp_path, name=f"{NAME[:-1]}{number}.journal") for number in (2, 4, 7)]
    status, told, _ = ran("verify", str(tmp_path))
    assert status == 1
    assert told == [
        f"{tmp_path}: segment 3 of run {RUN} of eu-1: missing",
        f"{tmp_path}: segments 5 to 6 of run {RUN} of eu-1: missing",
        f"{tmp_path}: run {RUN} of eu-1 begins at segment 2",
        "3 segments, 0 blocks, 0 frames: 2 damages",
    ]
    assert ran("ls", str(tmp_path))[1][4:] == told[:3]
    assert ran("verify", *map(str, paths))[0] == 0


@pytest.mark.parametrize(
    ("lost", "why", "state"),
    [
        (
            made.frames((SEND, b""), number=2),
            "1 frame of the client in session eu-1.7 missing before it",
            "missing",
        ),
        (
            made.event("journal dropped", context=Context(), blocks=1, frames=7, octets=99),
            f"7 frames, 99 octets, dropped by the relay up to {FIRST}: its queue was full",
            "dropped",
        ),
    ],
)
def test_frames_that_are_missing_within_a_segment(tmp_path: Path, lost: bytes, why: str, state: str) -> None:
    """The next block of their leg tells how many, or the relay that dropped them."""
    first = made.frames((SEND, b""))
    path = made.put(tmp_path, first, lost)
    status, told, _ = ran("verify", str(path))
    assert (status, told[0]) == (1, f"{path}: at {len(made.header()) + len(first)}, 0 octets: {why}")
    assert told[1].endswith(": 1 damage")
    assert ran("ls", str(path))[1][1].endswith(f"  closed, frames {state}")


def test_a_segment_that_is_there_twice(tmp_path: Path) -> None:
    """Under a later time, any other name, left open beside it: it is counted once; one may name a file twice."""
    path = made.put(tmp_path, made.frames((SEND, b"")))
    names = (NAME.replace("0823", "0824") + ".journal", "copy", OPEN, f"{NAME} (1).journal")
    again = [path.with_name(name) for name in names]
    for each in again:
        each.write_bytes(path.read_bytes())
    status, told, _ = ran("verify", str(tmp_path), str(path), str(again[1]))
    assert (status, told[-1]) == (1, "1 segment, 1 block, 1 frame: 4 damages")
    assert sorted(told[:4]) == sorted(f"{each}: the same segment is there again: {path}" for each in again)


def test_states(tmp_path: Path) -> None:
    """By name and lock; a file of any other name is closed, and so is one that was renamed meanwhile."""
    assert segment_state(made.put(tmp_path, name=OPEN)) == LEFT
    assert segment_state(made.put(tmp_path)) == CLOSED
    assert segment_state(made.put(tmp_path, name="copy")) == CLOSED
    (tmp_path / OPEN).unlink()
    assert segment_state(tmp_path / OPEN) == CLOSED
    assert SegmentCheck(tmp_path / OPEN).damages == []


def shown(tmp_path: Path, block: bytes, *, bodies: bool = False) -> list[str]:
    """The lines of a block's records."""
    found = list(records(made.put(tmp_path, block)))
    return [line for each in found if isinstance(each, Record) for line in record_lines(each, bodies=bodies)]


@pytest.mark.parametrize(
    ("block", "line"),
    [
        (
            made.frames((b"SEND\ndestination:/queue/a\\cb\nx:\n\n", b"hello")),
            'eu-1.7 orders -> SEND destination:/queue/a:b x:"" (5 octets)',
        ),
        (
            made.frames((b'SUBSCRIBE\nid:0\ndestination:/queue/a\nselector:a = "b"\n\n', b"")),
            'eu-1.7 orders -> SUBSCRIBE id:0 destination:/queue/a selector:"a = \\"b\\""',
        ),
        (
            made.frames((b"MESSAGE\nmessage-id:1\n\n", b"1"), context=BROKER),
            "eu-1.7 orders <- tcp://b:61613 MESSAGE message-id:1 (1 octet)",
        ),
        (
            made.event("lost", "the broker is gone", broker="tcp://b:1", resent=3, reason="connection reset"),
            'eu-1.7 orders -- lost: the broker is gone broker=tcp://b:1 resent=3 reason="connection reset"',
        ),
        (made.event("journal begun", "it begins", context=Context()), "- - -- journal begun: it begins"),
        (
            made.frames(
                (b"CONNECT\naccept-version:1.2\n\n", b""), context=CLIENT._replace(client="zürich 1")
            ),
            "eu-1.7 zürich 1 -> CONNECT accept-version:1.2",
        ),
    ],
)
def test_lines(tmp_path: Path, block: bytes, line: str) -> None:
    """Time, session, client, whose frame it is, and what it says."""
    assert shown(tmp_path, block) == [f"{FIRST} {line}"]


def test_bodies(tmp_path: Path) -> None:
    """What was kept of them, and how much is missing."""
    block = made.frames(
        (b"SEND\n\n", b"one\n two\r\n\xff\0"),
        RecordedFrame(b"SEND\n\n", b"abc", 10),
        RecordedFrame(b"SEND\n\n", b"", 10),
        (b"ACK\n\n", b""),
    )
    lines = shown(tmp_path, block, bodies=True)
    assert [line.removeprefix(f"{FIRST} eu-1.7 orders -> ") for line in lines] == [
        *("SEND (12 octets)", "    | one", "    |  two\\r", "    | \\xff\\x00"),
        *("SEND (10 octets)", "    | abc", "    | ... 3 of 10 octets were kept"),
        *("SEND (10 octets)", "    | ... 0 of 10 octets were kept"),
        "ACK",
    ]


def test_a_line_is_a_line(tmp_path: Path) -> None:
    """Whatever a client sent, it can neither begin another line nor move the cursor."""
    odd = "\n\r\x1b[2J\x85\u2028"
    context = CLIENT._replace(session=odd, client=odd)
    head = "SEND\n\\n\x1b:\\n\x1b\u2028\n\n".encode()
    for block in (
        made.frames((head, b""), context=context),
        made.event(odd, odd, context, NOW, **{odd: odd}),
    ):
        (line,) = shown(tmp_path, block)
        assert line.isprintable()
