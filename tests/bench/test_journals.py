"""Journals made up for measuring."""

from collections import Counter
from pathlib import Path

from bench import journals
from stomprelay.journal import segment
from stomprelay.journal.block import Block, BlockKind
from stomprelay.journal.folder import Folder
from stomprelay.journal.schema import Header

LOAD = journals.Load(3000, sessions=4, segment=100_000)


def test_what_is_said_of_a_journal_is_in_it(tmp_path: Path) -> None:
    """As many records of each kind, in the order of their times, in whole segments."""
    truth = journals.write(tmp_path, LOAD)
    found: Counter[str] = Counter()
    times = []
    entries = Folder(tmp_path).segments()
    for entry in entries:
        for item in segment.read(entry.path):
            assert isinstance(item, Header | Block)
            if isinstance(item, Header):
                continue
            times.append(item.time)
            if item.kind is BlockKind.EVENT:
                found["event"] += 1
            found.update(frame.head.partition(b"\n")[0].decode() for frame in item.frames)
    assert found == truth.commands
    assert sum(found.values()) == truth.records
    assert LOAD.records <= truth.records < LOAD.records + 4 * LOAD.burst
    assert times == sorted(times)
    assert times[-1] == truth.end
    assert len(entries) > 2
    assert all(entry.closed for entry in entries)
    assert truth.commands["SEND"] - truth.commands["ACK"] == truth.unanswered
    assert sum(truth.destinations.values()) == truth.commands["SEND"]


def test_a_load_is_the_same_each_time(tmp_path: Path) -> None:
    """To the octet; another seed makes another one."""
    contents = []
    for number, load in enumerate((LOAD, LOAD, journals.Load(3000, sessions=4, segment=100_000, seed=2))):
        folder = tmp_path / str(number)
        folder.mkdir()
        journals.write(folder, load)
        contents.append([path.read_bytes() for path in sorted(folder.iterdir())])
    assert contents[0] == contents[1] != contents[2]


def test_frames_are_numbered_on_each_leg(tmp_path: Path) -> None:
    """Without a gap, traced or not, with bodies or without."""
    for number, load in enumerate(
        (journals.Load(500, trace=True), journals.Load(500, body=True, relay="r2"))
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        journals.write(folder, load)
        legs: Counter[bytes] = Counter()
        traced = bodies = 0
        for entry in Folder(folder).segments():
            for item in segment.read(entry.path):
                if isinstance(item, Block) and item.kind is BlockKind.FRAMES:
                    assert item.number == legs[item.context]
                    frames = list(item.frames)
                    legs[item.context] += len(frames)
                    traced += sum(b"\nrelay-trace:" in frame.head for frame in frames)
                    bodies += sum(len(frame.kept) == frame.size > 0 for frame in frames)
        assert (traced > 0, bodies > 0) == (load.trace, load.body)
