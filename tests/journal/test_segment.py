"""Segments: their names, and how they are read: whole, torn, damaged, open, none at all."""

import errno
import os
from collections.abc import Iterator
from itertools import accumulate, islice
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stomprelay.journal import segment
from stomprelay.journal.block import Block, BlockKind, Damage, RecordedFrame, decode, encode
from stomprelay.journal.schema import VERSION, Context, SegmentHeader
from stomprelay.journal.segment import CLOSED, OPEN, SegmentName, parse_name, safe_name
from tests.journal import made
from tests.journal.made import BROKER, CLIENT, HEADER, NAME, NOW, RUN, SECOND, SEND

BEGUN = NOW // SECOND * SECOND


def test_a_name() -> None:
    """When, who, which run, which of it; a file's ending says whether it is open."""
    assert str(SegmentName(NOW, "eu-1", RUN, 1)) == "20261121T082300-eu-1-0123abcd-000001" == NAME
    assert str(SegmentName(0, "r", RUN, 1234567)) == "19700101T000000-r-0123abcd-1234567"
    assert parse_name(f"{NAME}{CLOSED}") == (SegmentName(BEGUN, "eu-1", RUN, 1), False)
    assert parse_name(f"{NAME}{OPEN}") == (SegmentName(BEGUN, "eu-1", RUN, 1), True)


def test_other_files() -> None:
    """They are none of ours."""
    ends = ["", f"{NAME}", f"{NAME}.journal.gz", f"{NAME}.journal.open.open", f"x{NAME}.journal"]
    names = [
        "eu-1-000001",
        "eu-1-0123abcg-000001",
        "eu-1-0123abcd-1",
        "-0123abcd-000001",
        "eu/1-0123abcd-000001",
    ]
    files = [
        *ends,
        *(f"20261121T082300-{each}.journal" for each in names),
        NAME.replace("1121", "1321") + CLOSED,
    ]
    assert [parse_name(file) for file in files] == [None] * len(files)


def test_a_relay_of_any_name() -> None:
    """What a file's name cannot hold, or had better not, is an underscore."""
    names = {"eu-1": "eu-1", "a.b_C9": "a.b_C9", "a b/../c": "a_b_.._c", "zürich": "z_rich"}
    names |= {"": "_", "\0\n": "_", "x" * 300: "x" * 100}
    assert {relay: safe_name(relay) for relay in names} == names


@given(st.integers(0, 253402300799 * SECOND), st.text(), st.integers(0, 0xFFFFFFFF), st.integers(1, 10**11))
def test_names_round_trip(created: int, relay: str, run: int, number: int) -> None:
    """What was named is read, a relay called like the rest of a name included."""
    name = SegmentName(created // SECOND * SECOND, safe_name(relay), f"{run:08x}", number)
    assert parse_name(f"{name}{CLOSED}") == (name, False)
    again = name._replace(relay=safe_name(str(name)))
    assert parse_name(f"{again}{OPEN}") == (again, True)


CORPUS = Path(__file__).resolve().parent.parent / "corpus"
BLOCKS = [made.frames((SEND, b"%d" % number), number=number) for number in range(3)]
BY_NAME = SegmentHeader(VERSION, "eu-1", RUN, 1, NOW // SECOND * SECOND, 0.0, "")


def told(path: Path) -> list[int | str]:
    """The numbers of the blocks, `header` for headers, `damage` for damages."""
    return [
        item.number if isinstance(item, Block) else "header" if isinstance(item, SegmentHeader) else "damage"
        for item in made.items(path)
    ]


def test_a_recording() -> None:
    """A segment that was written with version 1 of the format is read for ever, and its blocks are written the same."""
    path = CORPUS / f"{NAME}.journal"
    found = made.items(path)
    assert found[0] == HEADER._replace(version=1)
    contexts = [HEADER.contexts(item.context) for item in found if isinstance(item, Block)]
    assert contexts == [
        Context(),
        CLIENT._replace(client="10.0.0.1", version=""),
        BROKER._replace(client="zürich"),
        CLIENT._replace(client="zürich"),
        BROKER._replace(client="zürich"),
    ]
    assert made.heads(found) == [
        b"CONNECT\naccept-version:1.2\nhost:a\nlogin:z\xc3\xbcrich\npasscode:***\n\n",
        b"CONNECTED\nversion:1.2\n\n",
        b"SEND\r\ndestination:/queue/a\\cb\r\nrelay-trace:eu-1.7-1\r\n\r\n",
        b"SEND\ndestination:/queue/c\ncontent-length:3\n\n",
        b"MESSAGE\ndestination:/queue/a\\cb\nmessage-id:1\nsubscription:0\n\n",
    ]
    kept = [(frame.kept, frame.size) for item in found if isinstance(item, Block) for frame in item.frames]
    assert kept == [(b"", 0), (b"", 0), (b"hell", 5), (b"\0\xff\n", 3), (b"hell", 5)]
    assert recording() == path.read_bytes()


def recording() -> bytes:
    """What stands in the corpus, as it is written today."""
    opening = CLIENT._replace(client="10.0.0.1", version="")
    client, broker = CLIENT._replace(client="zürich"), BROKER._replace(client="zürich")

    two = [RecordedFrame(b"SEND\r\ndestination:/queue/a\\cb\r\nrelay-trace:eu-1.7-1\r\n\r\n", b"hell", 5)]
    two.append(RecordedFrame(b"SEND\ndestination:/queue/c\ncontent-length:3\n\n", b"\0\xff\n", 3))
    message = b"MESSAGE\ndestination:/queue/a\\cb\nmessage-id:1\nsubscription:0\n\n"
    connect = b"CONNECT\naccept-version:1.2\nhost:a\nlogin:z\xc3\xbcrich\npasscode:***\n\n"
    pieces = [
        made.event("journal begun", "the journal begins", Context(), software="stomprelay 0", pid=7),
        made.frames((connect, b""), context=opening),
        made.frames((b"CONNECTED\nversion:1.2\n\n", b""), context=broker),
        made.frames(*two, context=client, at=NOW + 1, number=1),
        made.frames(RecordedFrame(message, b"hell", 5), context=broker, at=NOW + 1, number=1),
    ]
    return made.header(HEADER._replace(version=1)) + b"".join(pieces)


@pytest.mark.parametrize("start", [b"?" + made.header()[1:], made.header()[:-1] + b"?", b"garbage", b""])
def test_a_damaged_header(tmp_path: Path, start: bytes) -> None:
    """What the file's name says stands in for it, so that the blocks are not lost."""
    path = made.put(tmp_path, *BLOCKS, header=start)
    assert told(path) == [*(["damage"] if start else []), "header", 0, 1, 2]
    assert BY_NAME in made.items(path)
    assert BY_NAME.contexts(CLIENT.encode()) == CLIENT


def test_a_damaged_header_in_a_file_of_another_name(tmp_path: Path) -> None:
    """Nobody knows what the blocks mean."""
    path = made.put(tmp_path, *BLOCKS, header=b"?" + made.header()[1:], name="copy")
    at = len(made.header())
    rest = sum(map(len, BLOCKS))
    assert made.items(path) == [
        Damage(0, at, "no block begins here"),
        Damage(at, rest, "its header is missing"),
    ]


@pytest.mark.parametrize("payload", [b"", b"{}", b'{"version":1}', b"\xff"])
def test_a_header_that_says_nothing(tmp_path: Path, payload: bytes) -> None:
    """It is damage, though its checksum is right."""
    start = encode(BlockKind.HEADER, NOW, 0, b"", (), payload)
    assert told(made.put(tmp_path, *BLOCKS, header=start)) == ["damage", "header", 0, 1, 2]


def test_a_segment_of_a_higher_version(tmp_path: Path) -> None:
    """Nothing of it is read, and why is told."""
    start = made.header(HEADER._replace(version=VERSION + 1))
    path = made.put(tmp_path, *BLOCKS, header=start)
    reason = f"version {VERSION + 1} of the format; this software reads up to {VERSION}"
    assert made.items(path) == [Damage(0, path.stat().st_size, reason)]


def test_what_is_no_segment(tmp_path: Path) -> None:
    """One damage over all of it, however large."""
    path = tmp_path / "a"
    for data in (b"hello", b"SJ" * (1 << 20), b"\x06SJ\x0a" * 1000):
        path.write_bytes(data)
        assert made.items(path) == [Damage(0, len(data), "not a segment of a journal")]


def test_what_cannot_be_read(tmp_path: Path) -> None:
    """It is told as a damage, never raised, and a pipe is not waited for."""
    assert made.items(tmp_path / "absent") == [Damage(0, 0, "it cannot be read: No such file or directory")]
    assert made.items(tmp_path / "absent.journal.open") == made.items(tmp_path / "absent")
    assert made.items(tmp_path) == [Damage(0, 0, "not a segment of a journal: it is no file")]
    os.mkfifo(tmp_path / "pipe")
    assert made.items(tmp_path / "pipe") == [Damage(0, 0, "not a segment of a journal: it is no file")]


def test_a_disk_that_fails_in_the_middle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was read before is there, the rest is one damage."""
    path = made.put(tmp_path, *BLOCKS)
    size = path.stat().st_size

    def failing(_more: object, _size: int) -> Iterator[Block | Damage]:
        yield from islice(decode(path.read_bytes()), 2)
        made.fails(errno.EIO)()

    monkeypatch.setattr(segment, "walk", failing)
    at = len(made.header()) + len(BLOCKS[0])
    assert made.items(path)[1:] == [
        next(decode(path.read_bytes(), len(made.header()))),
        Damage(at, size - at, "it cannot be read: Input/output error"),
    ]


def test_a_segment_that_is_written(tmp_path: Path) -> None:
    """What was there at the start is read; what comes later is for the next time."""
    journal = made.writer(tmp_path)
    journal.write(BLOCKS[0] + BLOCKS[1], NOW)
    assert journal.path is not None
    found = segment.read(journal.path)
    assert isinstance(next(found), SegmentHeader)
    journal.write(BLOCKS[2], NOW)
    assert len(list(found)) == 2
    assert told(journal.path) == ["header", 0, 1, 2]
    journal.close(NOW)


def test_a_segment_that_is_closed_while_it_is_read(tmp_path: Path) -> None:
    """Before it is opened and after: it is the same one."""
    journal = made.writer(tmp_path)
    journal.write(b"".join(BLOCKS), NOW)
    was = journal.path
    assert was is not None
    found = segment.read(was)
    next(found)
    journal.close(NOW)
    assert len(list(found)) == 3
    assert told(was) == ["header", 0, 1, 2]
    assert made.files(tmp_path) == [f"{NAME}.journal"]


def test_a_reader_that_stops(tmp_path: Path) -> None:
    """It leaves no file open."""
    if not Path("/proc/self/fd").exists():
        pytest.skip("this system has no /proc/self/fd")
    path = made.put(tmp_path, *BLOCKS)
    count = len(os.listdir("/proc/self/fd"))
    found = segment.read(path)
    next(found)
    del found
    made.items(path)
    assert len(os.listdir("/proc/self/fd")) == count


# ------------------------------------------------------------------ frames that are missing


def jumps(path: Path) -> list[Damage]:
    """What is told of frames that are missing."""
    return [item for item in made.items(path) if isinstance(item, Damage) and not item.length]


def test_blocks_that_were_taken_out(tmp_path: Path) -> None:
    """Of each leg it is told at its end how many frames are missing, and before which block first."""
    later = CLIENT._replace(client="renamed")
    three = [made.frames((SEND, b""), (SEND, b""), number=at, context=later) for at in (4, 10)]
    mine = made.frames((SEND, b""), number=5, context=BROKER)
    path = made.put(tmp_path, BLOCKS[0], mine, *three, made.frames((SEND, b""), number=7, context=BROKER))
    one = len(made.header()) + len(BLOCKS[0]) + len(mine)
    two = one + sum(map(len, three))
    assert jumps(path) == [
        Damage(one, 0, "7 frames of the client in session eu-1.7 missing before it, at 2 places"),
        Damage(two, 0, "1 frame of the broker tcp://b:61613 in session eu-1.7 missing before it"),
    ]
    assert made.items(path)[-2:] == jumps(path)


@pytest.mark.parametrize(
    "found",
    [
        [BLOCKS[0], BLOCKS[1], BLOCKS[2], BLOCKS[0], BLOCKS[1]],
        [BLOCKS[0], b"garbage", BLOCKS[2]],
        [BLOCKS[0], made.header(), BLOCKS[2]],
        [BLOCKS[2], BLOCKS[0], made.frames((SEND, b""), number=2, context=CLIENT._replace(session="eu-1.8"))],
        [made.frames((SEND, b""), number=at, context=b) for at, b in ((0, CLIENT), (9, BROKER))],
    ],
)
def test_what_explains_itself(tmp_path: Path, found: list[bytes]) -> None:
    """A leg that begins anew, other damage, joined segments, other legs."""
    assert jumps(made.put(tmp_path, *found)) == []


def test_what_the_relay_dropped(tmp_path: Path) -> None:
    """Each of its events is told, with the sessions that lack frames, and explains as many of them as it says."""

    def sends(number: int, session: str = "eu-1.7") -> bytes:
        return made.frames((SEND, b""), number=number, context=CLIENT._replace(session=session))

    def dropped(**facts: int) -> bytes:
        return made.event("journal dropped", "", Context(), NOW, **facts)

    found = [
        *(sends(0), sends(0, "eu-1.8"), sends(4), sends(2, "eu-1.8")),
        *(dropped(blocks=2, frames=9, octets=99, since=NOW - 10**9), sends(9), dropped(frames=1), sends(14)),
    ]
    at = list(accumulate([len(made.header()), *map(len, found)]))
    end, others = "2026-11-21T08:23:00.123456Z: its queue was full", "of them between others of the sessions"
    both = f"from 2026-11-21T08:22:59.123456Z to {end}; 9 {others} eu-1.7, eu-1.8"
    assert jumps(made.put(tmp_path, *found)) == [
        Damage(at[4], 0, f"9 frames, 99 octets, dropped by the relay {both}"),
        Damage(at[6], 0, f"1 frame dropped by the relay up to {end}; 1 {others} eu-1.7"),
        Damage(at[7], 0, "2 frames of the client in session eu-1.7 missing before it"),
    ]
