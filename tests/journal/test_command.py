"""`stomprelay journal ls|cat|verify`, without the rest of the command."""

import argparse
import json
from pathlib import Path

import pytest

from stomprelay.journal import command
from tests.journal.made import (
    BROKER,
    CLIENT,
    NAME,
    NOW,
    RUN,
    SECOND,
    SEND,
    event,
    frames,
    header,
    put,
    writer,
)

OPEN = f"{NAME}.journal.open"
FIRST = "2026-11-21T08:23:00.123456Z"
BLOCKS = (
    frames((SEND, b"hello"), (b"SEND\ndestination:/topic/b\n\n", b"")),
    event("lost", "gone", at=NOW + SECOND),
    frames((b"MESSAGE\ndestination:/queue/a\n\n", b"x"), context=BROKER, at=NOW + 2 * SECOND),
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
    one = put(tmp_path, *BLOCKS)
    two = put(tmp_path, event(), event()[:-1], name=OPEN.replace("000001", "000002"))
    status, told, complaints = ran("ls", str(tmp_path))
    assert (status, complaints) == (0, [])
    sizes = [path.stat().st_size for path in (one, two)]
    assert told == [
        f"{'segment':{len(two.name)}}  relay         {'from':27}  {'to':27}  blocks  frames  octets  state",
        f"{one.name:{len(two.name)}}  eu-1          {FIRST}  2026-11-21T08:23:02.123456Z       3       3"
        f"  {sizes[0]:6}  closed",
        f"{two.name}  eu-1          {FIRST}  {FIRST}       1       0  {sizes[1]:6}  left open, torn",
    ]


def test_ls_of_what_is_odd(tmp_path: Path) -> None:
    """Damage is told once; a file that is none is a line, too."""
    path = put(tmp_path, BLOCKS[0], b"garbage", BLOCKS[1], b"garbage", BLOCKS[2])
    other, empty = tmp_path / "other", tmp_path / "empty.journal"
    other.write_bytes(b"hello")
    empty.touch()
    _, told, _ = ran("ls", str(path), str(other), str(empty))
    assert [line.split("  ")[-1] for line in told[1:]] == [
        "closed, damaged",
        "closed, not a segment of a journal",
        "closed, it is empty",
    ]
    assert told[2].split()[1:7] == ["-", "-", "-", "0", "0", "5"]


def test_ls_of_nothing(tmp_path: Path) -> None:
    """A folder without segments has a heading."""
    assert ran("ls", str(tmp_path)) == (0, ["segment  relay         " + told_columns()], [])


def told_columns() -> str:
    """What follows of the heading."""
    return f"{'from':27}  {'to':27}  blocks  frames  octets  state"


def test_ls_of_one_that_is_written(tmp_path: Path) -> None:
    """It is open, and its end no damage."""
    journal = writer(tmp_path)
    journal.write(event() + event()[:-1], NOW)
    _, told, _ = ran("ls", str(tmp_path))
    assert told[1].endswith("  open")
    assert ran("cat", str(tmp_path))[0] == 0
    assert ran("verify", str(tmp_path))[0] == 0
    journal.close(NOW)


def test_cat(tmp_path: Path) -> None:
    """All records, a line each."""
    put(tmp_path, *BLOCKS)
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


def test_cat_with_bodies(tmp_path: Path) -> None:
    """Under their frames."""
    put(tmp_path, *BLOCKS)
    _, told, _ = ran("cat", "--bodies", str(tmp_path))
    assert told[1] == "    | hello"
    assert told[-1] == "    | x"


def test_cat_for_machines(tmp_path: Path) -> None:
    """An object a line, letters as they are."""
    put(tmp_path, *BLOCKS, event(text="zürich\u2028", context=CLIENT))
    _, told, _ = ran("cat", "--json", str(tmp_path))
    objects = [json.loads(line) for line in told]
    assert [each["kind"] for each in objects] == ["frame", "frame", "event", "frame", "event"]
    assert objects[0]["headers"] == {"destination": "/queue/a"}
    assert "body" not in objects[0]
    assert "zürich" in told[-1]
    _, told, _ = ran("cat", "--json", "--bodies", str(tmp_path))
    assert json.loads(told[0])["body"] == "hello"


@pytest.mark.parametrize(
    ("options", "count"),
    [
        (["--session", "eu-1.7"], 4),
        (["--session", "x"], 0),
        (["--session", "x", "--session", "eu-1.7"], 4),
        (["--destination", "/queue/*"], 2),
        (["--destination", "/queue/*", "--destination", "/topic/b"], 3),
        (["--command", "send"], 2),
        (["--command", "SEND", "--command", "MESSAGE"], 3),
        (["--since", "2026-11-21T08:23:01"], 2),
        (["--since", "2026-11-21T08:23:01", "--until", "2026-11-21T09:23:02+01:00"], 1),
        (["--until", "2026-11-21"], 0),
    ],
)
def test_cat_of_some(tmp_path: Path, options: list[str], count: int) -> None:
    """As `Selection` has it."""
    put(tmp_path, *BLOCKS)
    _, told, _ = ran("cat", *options, str(tmp_path))
    assert len(told) == count


def test_cat_of_what_is_damaged(tmp_path: Path) -> None:
    """It is complained of, and all else is shown."""
    path = put(tmp_path, BLOCKS[0], b"garbage", BLOCKS[1])
    status, told, complaints = ran("cat", str(tmp_path))
    assert (status, len(told)) == (1, 3)
    at = len(header()) + len(BLOCKS[0])
    assert complaints == [f"{path}: at {at}, 7 octets: no block begins here"]


def test_verify(tmp_path: Path) -> None:
    """Nothing is wrong: one line says what was looked at."""
    put(tmp_path, *BLOCKS)
    assert ran("verify", str(tmp_path)) == (0, ["1 segment, 3 blocks, 3 frames: no damage"], [])


def test_verify_of_what_is_damaged(tmp_path: Path) -> None:
    """A line for each damage, with its place."""
    one = put(tmp_path, BLOCKS[0], b"g", BLOCKS[1], BLOCKS[2][:-1])
    two = tmp_path / f"20261121T082400-eu-1-{RUN}-000002.journal"
    two.write_bytes(b"hello")
    at = len(header()) + len(BLOCKS[0])
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
    paths = [put(tmp_path, name=f"{NAME[:-1]}{number}.journal") for number in (2, 4, 7)]
    status, told, _ = ran("verify", str(tmp_path))
    assert status == 1
    assert told == [
        f"{tmp_path}: segment 3 of run {RUN} of eu-1: missing",
        f"{tmp_path}: segments 5 to 6 of run {RUN} of eu-1: missing",
        "3 segments, 0 blocks, 0 frames: 2 damages",
    ]
    assert ran("verify", *map(str, paths))[0] == 0


@pytest.mark.parametrize("name", ["ls", "cat", "verify"])
def test_a_place_that_is_not_there(tmp_path: Path, name: str) -> None:
    """The caller is told which."""
    with pytest.raises(FileNotFoundError) as raised:
        ran(name, str(tmp_path / "absent"))
    assert str(raised.value.filename) == str(tmp_path / "absent")


@pytest.mark.parametrize(
    "arguments", [[], ["ls"], ["look", "x"], ["cat", "--since", "soon", "x"], ["cat", "--until", "", "x"]]
)
def test_wrong_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """As argparse has it."""
    with pytest.raises(SystemExit) as ended:
        parsed(*arguments)
    assert ended.value.code == 2
    assert "usage: stomprelay journal" in capsys.readouterr().err
