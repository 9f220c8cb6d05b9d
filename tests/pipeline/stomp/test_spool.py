"""Messages on disk: nothing that was kept is lost, nothing half written is read."""

import errno
import os
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stomprelay.pipeline.stomp import spool as module
from stomprelay.pipeline.stomp.spool import MessageSpool, SpoolError, covered, read, segments
from tests.journal.made import fails
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


def two_groups(folder: Path, size: int) -> tuple[bytes, int]:
    """The octets of a segment with two groups, and how many of them are those of the first."""
    whole, one = (folder / name for name in ("whole", "one"))
    filled(whole, 2, size, 1 << 20).close()
    filled(one, 1, size, 1 << 20).close()
    return segments(whole)[0][1].read_bytes(), segments(one)[0][1].stat().st_size


@given(
    first=st.sampled_from((0, 70)),
    segment=st.sampled_from((1, 1500)),
    steps=st.lists(
        st.tuples(st.sampled_from(("append", "append", "drop", "skip", "again")), st.integers(1, 9))
    ),
    data=st.data(),
)
def test_it_holds_what_was_appended(
    first: int,
    segment: int,
    steps: list[tuple[str, int]],
    data: st.DataObject,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Whole segments go, but for the last one; numbers go on; any range is read, and what is missing is an error."""
    folder = tmp_path_factory.mktemp("spool")
    spool = MessageSpool(folder, first=first, segment=segment)
    held: list[int] = []
    end = first
    for what, count in steps:
        match what:
            case "append":
                held += range(end, end + count)
                end += count
                assert spool.append(batch(end - count, end)) == end
            case "drop":
                before = spool.begin
                spool.drop_below(end - count)
                assert spool.begin <= max(end - count, before)
                assert all(begin > end - count for begin, _ in segments(folder)[1:])
            case "skip":
                end += count
                spool.skip(end)
            case "again":
                spool.close()
                spool = MessageSpool(folder, first=3, segment=segment)
        held = [each for each in held if each >= spool.begin]
        assert spool.end == end
    spool.close()
    begin = data.draw(st.integers(0, end))
    until = data.draw(st.integers(begin, end + 2))
    wanted = [each for each in held if begin <= each < until]
    assert bodies(folder, begin, until, strict=False) == wanted
    if wanted == list(range(begin, until)):
        assert bodies(folder, begin, until) == wanted
        parts = covered(folder, begin, until)
        assert [each for part in parts for each in range(*part)] == wanted
    else:
        with pytest.raises(SpoolError, match=r"does not hold messages \d+ to \d+ any more"):
            bodies(folder, begin, until)


def test_a_segment_is_an_arrow_stream(tmp_path: Path) -> None:
    """Whoever knows Arrow reads it."""
    filled(tmp_path, 2, segment=1 << 20).close()
    ((first, path),) = segments(tmp_path)
    assert first == 0
    assert pa.ipc.open_stream(path).read_all().num_rows == 6


def test_old_segments_go(tmp_path: Path) -> None:
    """By the time of the last write."""
    spool = filled(tmp_path, 3)
    spool.drop_older(3600)
    assert spool.begin == 0
    os.utime(segments(tmp_path)[0][1], (1, 1))
    spool.drop_older(3600)
    assert spool.begin == 3
    spool.close()


def test_rows_that_are_not_there_are_an_error(tmp_path: Path) -> None:
    """Never fewer rows than were asked for, without a word."""
    spool = filled(tmp_path, 3)
    spool.drop_below(5)
    spool.close()
    with pytest.raises(SpoolError, match=r"messages 2 to 7 any more \(it holds 3 on\)"):
        bodies(tmp_path, 2, 8)
    with pytest.raises(SpoolError, match="messages 9 to 9 "):
        bodies(tmp_path, 7, 10)
    for asked in (bodies, covered):
        with pytest.raises(SpoolError, match="it holds nothing"):
            asked(tmp_path / "nowhere", 0, 1)
    assert bodies(tmp_path, 2, 20, strict=False) == [3, 4, 5, 6, 7, 8]


@pytest.mark.parametrize(
    "step", [pytest.param(7, marks=pytest.mark.brief), pytest.param(1, marks=pytest.mark.deep)]
)
def test_cut_at_any_octet_it_holds_what_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    """A crash in the middle of a write costs what was being written, and nothing before it."""
    for sync in ("fsync", "fdatasync"):  # thousands of times it would take a minute
        monkeypatch.setattr(os, sync, lambda file: None)
    data, first = two_groups(tmp_path, 1)
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
    data, first = two_groups(tmp_path, 4)
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
    monkeypatch.setattr(module, "_write", fails(errno.ENOSPC))
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
