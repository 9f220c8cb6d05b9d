"""Journals of which something is missing: every frame that was written is a row, or the quarantine accounts for it."""

import io
import shutil
import time
from collections import Counter
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from pyspark.sql import SparkSession

from stomprelay.journal.segment import CLOSED, OPEN
from stomprelay.pipeline.follow import stream
from stomprelay.pipeline.follow.progress import ProgressLine
from stomprelay.pipeline.follow.stream import Step, Stream
from stomprelay.pipeline.match import messages
from stomprelay.pipeline.settings import SECOND, Settings
from stomprelay.pipeline.store.store import Store
from tests.pipeline import journal_files as made

pytestmark = pytest.mark.spark

MATCHING: tuple[Step, ...] = (("messages", messages.advance),)
BLOCKS, EACH = 6, 3
"""Blocks in a segment, and frames in a block."""


class Written(NamedTuple):
    """A block: the name of its file, where it is in it, and the receipts of its frames."""

    file: str
    offset: int
    receipts: tuple[str, ...]


def once(spark: SparkSession, settings: Settings) -> list[str]:
    """One run; the lines that the user sees."""
    out = io.StringIO()
    Stream(spark, settings, ProgressLine(out), MATCHING).once()
    return out.getvalue().splitlines()


def rows(spark: SparkSession, settings: Settings, table: str) -> list[Any]:
    """All rows of a table."""
    return Store(spark, settings.tables).read(table).collect()


def segment(folder: Path, relay: str, number: int, skew: int = 0, **header: Any) -> Iterator[Written]:
    """A segment with a session of its relay that goes on from the one before."""
    start = made.START + (number * 60 + skew) * SECOND
    stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime(start // SECOND))
    file = made.name(number, relay, stamp=stamp)
    pieces = [made.header(number, relay, created=start, **header)]
    for at in range(BLOCKS):
        first = ((number - 1) * BLOCKS + at) * EACH
        receipts = tuple(f"{relay}-{each}" for each in range(first, first + EACH))
        heads = [f"SEND\ndestination:/queue/a\nreceipt:{each}\n\n".encode() for each in receipts]
        of = made.context(session=f"{relay}-1")
        yield Written(file, sum(map(len, pieces)), receipts)
        pieces.append(made.frames(heads, start + at * SECOND, number=first, of=of))
    made.put(folder, file, *pieces)


def accounted(written: list[Written], quarantine: list[Any], folder: Path) -> Counter[str]:
    """How often each frame is accounted for by a row of the quarantine: by its file, or its octets."""
    found: Counter[str] = Counter()
    for block in written:
        for row in quarantine:
            if not fnmatch(str(folder / block.file), row.segment):
                continue
            whole = row.position == row.length == 0 and " of run " in row.reason
            if whole or row.position <= block.offset < row.position + row.length:
                found.update(block.receipts)
    return found


def test_every_frame_is_accounted_for(spark: SparkSession, tmp_path: Path) -> None:
    """Segments missing, torn, damaged, newer, none at all, there twice, of wrong clocks, with a hole, or late."""
    folder = tmp_path / "j"
    settings = Settings(journal=str(folder), tables=str(tmp_path / "t"), bytes_per_batch=20_000)
    written = [block for number in range(1, 9) for block in segment(folder, "r1", number)]
    written += [block for number in range(1, 5) for block in segment(folder, "r2", number, 7200)]
    written += [block for number in range(2, 4) for block in segment(folder, "r3", number, -300)]
    newer = [*segment(folder, "r4", 1, version=99)]
    written += newer
    files = {block.file: folder / block.file for block in written}
    one, two = [[path for file, path in files.items() if f"-{relay}-" in file] for relay in ("r1", "r2")]
    aside = tmp_path / one[2].name
    one[2].rename(aside)
    one[4].write_bytes(one[4].read_bytes()[:-7])
    damaged = bytearray(one[5].read_bytes())
    damaged[len(damaged) // 2] ^= 255
    one[5].write_bytes(damaged)
    shutil.copy(one[6], folder / one[6].name.replace("2026", "2027"))
    taken = [block for block in written if block.file == two[1].name][2:4]
    data = two[1].read_bytes()
    length = taken[1].offset - taken[0].offset
    two[1].write_bytes(data[: taken[0].offset] + data[taken[0].offset + 2 * length :])
    made.put(folder, made.name(9, "r9"), b"not a journal's")
    made.put(folder, "copy of something.journal", b"neither")
    told = "\n".join(once(spark, settings))

    here = Counter(row.receipt for row in rows(spark, settings, "frames") if row.command == "SEND")
    bad = rows(spark, settings, "quarantine")
    lost = accounted([block for block in written if block not in taken], bad, folder)
    (jump,) = [row for row in bad if "missing before it" in row.reason]
    assert jump.reason == f"{2 * EACH} frames of the client in session r2-1 missing before it"
    assert (jump.segment, jump.position, jump.length) == (str(two[1]), taken[0].offset, 0)
    lost.update(receipt for block in taken for receipt in block.receipts)
    again = one[6].name.replace("2026", "2027")
    copies = [block._replace(file=again) for block in written if block.file == one[6].name]
    everything = Counter(receipt for block in written for receipt in block.receipts)
    assert here + lost == everything
    assert accounted(copies, bad, folder).total() == BLOCKS * EACH
    reasons = " / ".join(sorted(row.reason for row in bad))
    for words in (
        "segment 3 of run 0000000a of r1",
        "begins at segment 2",
        "torn",
        "not a segment",
        "version 99",
    ):
        assert words in reasons
    assert "segment 3 of run 0000000a of r1 is missing" in told
    assert f"{two[1].name}, at {taken[0].offset}: 6 frames" in told

    assert once(spark, settings) == []
    assert sorted(rows(spark, settings, "quarantine")) == sorted(bad)

    aside.rename(one[2])
    told = "\n".join(once(spark, settings))
    assert "segment 3 of run 0000000a of r1 came late" in told
    here = Counter(row.receipt for row in rows(spark, settings, "frames") if row.command == "SEND")
    late = Counter(receipt for block in written if block.file == one[2].name for receipt in block.receipts)
    assert here + lost == everything + late
    reasons = " / ".join(row.reason for row in rows(spark, settings, "quarantine"))
    assert "segment 3 of run 0000000a of r1 is missing" not in reasons


def test_what_a_dead_relay_left_is_final(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As soon as its limits have passed: neither it nor its gap is waited for, whatever another relay writes."""
    later = made.START + 4 * 3600 * SECOND
    monkeypatch.setattr(
        stream, "time", SimpleNamespace(time_ns=lambda: later, monotonic=time.monotonic, sleep=time.sleep)
    )
    folder = tmp_path / "j"
    settings = Settings(journal=str(folder), tables=str(tmp_path / "t"))
    for number in (1, 3, 4):
        assert [*segment(folder, "r1", number)]
    (last,) = folder.glob("*-r1-*-000004.journal")
    with last.open("ab") as file:
        file.write(b"\6SJ torn")
    last.rename(last.with_name(last.name.replace(CLOSED, OPEN)))
    assert [*segment(folder, "r2", 1, 4 * 3600 - 90)]
    told = "\n".join(once(spark, settings))
    assert "left open by a relay that is gone" in told
    assert "segment 2 of run 0000000a of r1 is missing: messages" in told
    found = rows(spark, settings, "messages")
    dead = [row.final for row in found if row.relay == "r1"]
    assert dead == [True] * (3 * BLOCKS * EACH)
    assert not any(row.final for row in found if row.relay == "r2")
