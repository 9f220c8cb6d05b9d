"""Messages on disk: nothing that was kept is lost, nothing half written is read."""

import os
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pyarrow as pa
import pytest

from stomprelay.pipeline.stomp import spool as module
from stomprelay.pipeline.stomp.spool import MessageSpool, SpoolError, covered, read, segments
from tests.pipeline.stomp.rig import batch

WRITER = """
import sys
from pathlib import Path
from stomprelay.pipeline.stomp.spool import MessageSpool
from tests.pipeline.stomp.rig import batch
spool = MessageSpool(Path(sys.argv[1]), segment=4000)
made = {size: batch(0, size) for size in (1, 7, 40)}
print(spool.end, flush=True)
while True:
    for size in made:
        sys.stdout.write(f"{spool.append(batch(spool.end, spool.end + size))}\\n")
        sys.stdout.flush()
"""


def bodies(folder: Path, first: int, end: int, *, strict: bool = True) -> list[int]:
    """Read the bodies of rows, which say their sequence."""
    found = []
    for group in read(folder, first, end, strict=strict):
        said = [int(body.as_py()) for body in group.batch.column("body")]
        assert said == list(range(group.first, group.end))
        found += said
    return found


def filled(folder: Path, groups: int, size: int = 3, segment: int = 1) -> MessageSpool:
    """Make a spool of so many groups, with a segment for each unless it is said."""
    made = MessageSpool(folder, segment=segment)
    for number in range(groups):
        assert made.append(batch(number * size, (number + 1) * size)) == (number + 1) * size
    return made


def test_what_was_appended_is_read(tmp_path: Path) -> None:
    """Any range, across segments."""
    spool = filled(tmp_path, 4)
    assert (spool.begin, spool.end, len(segments(tmp_path))) == (0, 12, 4)
    assert bodies(tmp_path, 0, 12) == list(range(12))
    assert bodies(tmp_path, 4, 8) == [4, 5, 6, 7]
    assert bodies(tmp_path, 5, 5) == []
    spool.close()


def test_a_segment_is_an_arrow_stream(tmp_path: Path) -> None:
    """Whoever knows Arrow reads it."""
    filled(tmp_path, 2, segment=1 << 20).close()
    ((first, path),) = segments(tmp_path)
    assert first == 0
    assert pa.ipc.open_stream(path).read_all().num_rows == 6


def test_it_goes_on_where_it_was(tmp_path: Path) -> None:
    """The sequence is in the names and the groups, nowhere else."""
    filled(tmp_path, 3).close()
    again = MessageSpool(tmp_path)
    assert (again.begin, again.end) == (0, 9)
    again.append(batch(9, 11))
    again.close()
    assert bodies(tmp_path, 0, 11) == list(range(11))


def test_a_new_one_begins_where_it_is_told(tmp_path: Path) -> None:
    """A query that lost its spool does not count from the beginning again."""
    spool = MessageSpool(tmp_path, first=70)
    assert (spool.begin, spool.end) == (70, 70)
    spool.append(batch(70, 72))
    spool.close()
    assert bodies(tmp_path, 70, 72) == [70, 71]
    again = MessageSpool(tmp_path, first=3)
    assert (again.begin, again.end) == (70, 72)
    again.close()


def test_segments_that_are_done_go(tmp_path: Path) -> None:
    """The last one stays, whatever is in it: its name is the sequence."""
    spool = filled(tmp_path, 4)
    spool.drop_below(5)
    assert (spool.begin, spool.end) == (3, 12)
    spool.drop_below(12)
    assert (spool.begin, spool.end) == (9, 12)
    spool.close()
    again = MessageSpool(tmp_path)
    assert (again.begin, again.end) == (9, 12)
    again.close()


def test_old_segments_go(tmp_path: Path) -> None:
    """By the time of the last write."""
    spool = filled(tmp_path, 3)
    spool.drop_older(3600)
    assert spool.begin == 0
    os.utime(segments(tmp_path)[0][1], (1, 1))
    spool.drop_older(3600)
    assert spool.begin == 3
    spool.close()


def test_a_gap_is_skipped_when_it_is_said(tmp_path: Path) -> None:
    """What is lost is lost; the numbers go on where the query is."""
    spool = filled(tmp_path, 1)
    spool.skip(20)
    spool.append(batch(20, 22))
    spool.close()
    assert bodies(tmp_path, 20, 22) == [20, 21]
    with pytest.raises(SpoolError, match="does not hold messages 3 to 21 any more"):
        bodies(tmp_path, 0, 22)
    assert bodies(tmp_path, 0, 22, strict=False) == [0, 1, 2, 20, 21]


def test_rows_that_are_not_there_are_an_error(tmp_path: Path) -> None:
    """Never fewer rows than were asked for, without a word."""
    spool = filled(tmp_path, 3)
    spool.drop_below(5)
    spool.close()
    with pytest.raises(SpoolError, match=r"messages 2 to 7 any more \(it holds 3 on\)"):
        bodies(tmp_path, 2, 8)
    with pytest.raises(SpoolError, match="messages 9 to 9 "):
        bodies(tmp_path, 7, 10)
    with pytest.raises(SpoolError, match="it holds nothing"):
        bodies(tmp_path / "nowhere", 0, 1)
    assert bodies(tmp_path, 2, 20, strict=False) == [3, 4, 5, 6, 7, 8]


def test_ranges_by_segment(tmp_path: Path) -> None:
    """So that each task opens few files."""
    filled(tmp_path, 3).close()
    assert covered(tmp_path, 1, 8) == [(1, 3), (3, 6), (6, 8)]
    assert covered(tmp_path, 4, 4) == []
    with pytest.raises(SpoolError, match="it holds nothing"):
        covered(tmp_path / "nowhere", 0, 1)


@pytest.mark.parametrize(
    "step", [pytest.param(7, marks=pytest.mark.brief), pytest.param(1, marks=pytest.mark.deep)]
)
def test_cut_at_any_octet_it_holds_what_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    """A crash in the middle of a write costs what was being written, and nothing before it."""
    for sync in ("fsync", "fdatasync"):  # thousands of times it would take a minute
        monkeypatch.setattr(os, sync, lambda file: None)
    filled(tmp_path / "whole", 2, size=1, segment=1 << 20).close()
    data = segments(tmp_path / "whole")[0][1].read_bytes()
    filled(tmp_path / "one", 1, size=1, segment=1 << 20).close()
    first = segments(tmp_path / "one")[0][1].stat().st_size
    folder = tmp_path / "cut"
    folder.mkdir()
    path = folder / f"{0:020d}.arrows"
    for size in sorted({*range(0, len(data), step), first - 1, first, len(data) - 1}):
        path.write_bytes(data[:size])
        spool = MessageSpool(folder)
        assert spool.end == (1 if size >= first else 0), size
        end = spool.append(batch(spool.end, spool.end + 2))
        spool.close()
        assert bodies(folder, 0, end) == list(range(end)), size


def test_octets_that_changed_are_not_read(tmp_path: Path) -> None:
    """After a loss of power a file may be as long as it should be and hold something else: checksums tell."""
    filled(tmp_path / "whole", 2, size=4, segment=1 << 20).close()
    data = segments(tmp_path / "whole")[0][1].read_bytes()
    filled(tmp_path / "one", 1, size=4, segment=1 << 20).close()
    first = segments(tmp_path / "one")[0][1].stat().st_size
    folder = tmp_path / "changed"
    folder.mkdir()
    path = folder / f"{0:020d}.arrows"
    for at in range(first, len(data), 7):
        path.write_bytes(data[:at] + b"\0" * (len(data) - at))
        spool = MessageSpool(folder)
        held = bodies(folder, 0, spool.end)
        spool.close()
        assert held in ([0, 1, 2, 3], list(range(8))), at
        # All eight only where what was wiped was nothing but padding.
        assert held == [0, 1, 2, 3] or not data[at:].strip(b"\0"), at


def test_a_segment_without_anything_whole_gives_its_name(tmp_path: Path) -> None:
    """Its first octets were lost, and with them no message that was ever kept."""
    (tmp_path / f"{41:020d}.arrows").write_bytes(b"")
    spool = MessageSpool(tmp_path)
    assert (spool.begin, spool.end) == (41, 41)
    spool.append(batch(41, 43))
    spool.close()
    assert bodies(tmp_path, 41, 43) == [41, 42]


def test_a_folder_has_one_writer(tmp_path: Path) -> None:
    """Two sources that share a spool would mix their messages: the second one is told who has it."""
    first = MessageSpool(tmp_path)
    with pytest.raises(SpoolError, match=f"is in use by process {os.getpid()}: each source needs a spool of"):
        MessageSpool(tmp_path, patience=0)
    first.close()
    MessageSpool(tmp_path, patience=0).close()


def test_a_writer_that_goes_is_waited_for(tmp_path: Path) -> None:
    """A reader that was killed may take a moment to end."""
    first = MessageSpool(tmp_path)
    threading.Timer(0.2, first.close).start()
    MessageSpool(tmp_path, patience=30).close()


def test_a_disk_that_fails_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the folder; what was kept before is still there."""
    spool = filled(tmp_path, 1)

    def full(file: int, data: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "_write", full)
    with pytest.raises(SpoolError, match=f"spool {tmp_path}: No space left on device"):
        spool.append(batch(3, 6))
    spool.close()
    monkeypatch.undo()
    again = MessageSpool(tmp_path)
    assert again.end == 3
    again.close()
    (tmp_path / "file").touch()
    with pytest.raises(SpoolError, match=r"File exists|Not a directory"):
        MessageSpool(tmp_path / "file")


@pytest.mark.parametrize(
    "rounds",
    [
        pytest.param(2, marks=pytest.mark.brief),
        pytest.param(4, marks=pytest.mark.deep),
        pytest.param(12, marks=pytest.mark.long),
    ],
)
def test_killed_at_any_moment_it_has_all_that_it_kept(tmp_path: Path, rounds: int) -> None:
    """SIGKILL, again and again, on one spool: whatever was answered is there, each once, in order."""
    chance = random.Random(4)
    kept = 0
    for _ in range(rounds):
        child = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True
        )
        assert child.stdout is not None
        with child, child.stdout as told:
            begun = int(told.readline())
            assert begun >= kept
            for _ in range(chance.randrange(1, 60)):
                kept = int(told.readline())
            child.send_signal(signal.SIGKILL)
            kept = max([kept, *(int(line) for line in told.read().split("\n")[:-1])])
        assert bodies(tmp_path, 0, kept) == list(range(kept))
    spool = MessageSpool(tmp_path, patience=30)
    assert spool.end >= kept
    assert bodies(tmp_path, 0, spool.end) == list(range(spool.end))
    spool.close()
