"""Runs over journals, with all that can be wrong with one."""

import io
import os
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from stomprelay.pipeline.follow import stream
from stomprelay.pipeline.follow.progress import ProgressLine
from stomprelay.pipeline.follow.stream import Step, Stream
from stomprelay.pipeline.read import frames
from stomprelay.pipeline.settings import LONGEST_HEADER, Settings
from stomprelay.pipeline.store.store import Batch, Store, StoreError
from tests.e2e.child import PATIENCE
from tests.pipeline import journal_files as made

pytestmark = pytest.mark.spark

SEND = b"SEND\ndestination:/queue/a\nreceipt:%b\n\n"
NOTHING_ELSE: tuple[Step, ...] = ()


def run(
    spark: SparkSession, settings: Settings, steps: tuple[Step, ...] = NOTHING_ELSE
) -> tuple[Stream, str]:
    """One run over what is there; answers what the user saw, too."""
    out = io.StringIO()
    made_stream = Stream(spark, settings, ProgressLine(out), steps)
    made_stream.once()
    return made_stream, out.getvalue()


def receipts(spark: SparkSession, settings: Settings) -> list[str]:
    """Those of the SENDs in the table."""
    rows = Store(spark, settings.tables).read("frames").where("command = 'SEND'")
    return sorted(row.receipt for row in rows.select("receipt").collect())


def quarantine(spark: SparkSession, settings: Settings) -> dict[str, str]:
    """Name of the file and reason."""
    rows = Store(spark, settings.tables).read("quarantine").collect()
    return {Path(row.segment).name: row.reason for row in rows}


def segment(folder: Path, number: int, *receipts: bytes, relay: str = "r1") -> Path:
    """One with a SEND for each receipt."""
    block = made.frames([SEND % each for each in receipts], made.START + number)
    return made.put(folder, made.name(number, relay), made.header(number, relay), block)


def test_headers_that_messages_keep(spark: SparkSession, tmp_path: Path) -> None:
    """In each batch, of which later ones need not name them; what is long is cut."""
    settings = Settings(journal=str(tmp_path / "j"), tables=str(tmp_path / "t"))
    for number, keep in ((1, ("app", "kind")), (2, None)):
        heads = [
            b"SEND\ndestination:/queue/a\nkind:n%d\nother:x\n\n" % number,
            b"SEND\ndestination:/queue/b\n\n",
            b"SEND\ndestination:/queue/c\napp:%b\n\n" % (b"y" * 5000),
        ]
        block = made.frames(heads, made.START + number, number=3 * (number - 1))
        made.put(tmp_path / "j", made.name(number), made.header(number), block)
        run(spark, replace(settings, keep_headers=keep), stream.STEPS)
    rows = Store(spark, settings.tables).read("messages").collect()
    found = sorted((row.destination, row.headers) for row in rows if row.destination != "/queue/a")
    assert found == [("/queue/b", None)] * 2 + [("/queue/c", {"app": "y" * LONGEST_HEADER})] * 2
    kinds = [row.headers for row in rows if row.destination == "/queue/a"]
    assert sorted(kinds, key=str) == [{"kind": "n1"}, {"kind": "n2"}]
    with pytest.raises(StoreError, match="other headers"):
        run(spark, replace(settings, keep_headers=("kind",)))


def test_all_that_a_folder_may_hold(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What can be read of whatever is there is read, the rest is named, nothing is lost."""
    journal = tmp_path / "a journal [1]"
    settings = Settings(journal=f"file:{journal}", tables=f"file:{tmp_path}/the tables", bytes_per_batch=1500)
    segment(journal, 1, b"a", b"b")
    segment(journal, 1, b"c", relay="r2")
    older = made.frames([SEND % b"d"], of=b'["s-1","client"]')
    made.put(journal, made.name(2), made.header(2, context=("session", "side")), older)
    torn = made.frames([SEND % b"no"])[:-9]
    made.put(journal, made.name(3), made.header(3), made.frames([SEND % b"e"]), torn)
    made.put(journal, made.name(4), b"garbage")
    made.put(journal, made.name(5), made.header(5, version=99), made.frames([SEND % b"no"]))
    os.mkfifo(journal / made.name(6))
    vanishing = segment(journal, 7, b"no")
    made.put(journal, made.name(8) + ".open", made.header(8), made.frames([SEND % b"f"]), torn)
    made.put(journal, "notes.txt", b"not ours")

    def first_gone(batch: Batch, arrivals: Any, again: Any) -> Any:
        vanishing.unlink(missing_ok=True)
        return advance(batch, arrivals, again)

    advance = frames.advance
    monkeypatch.setattr(frames, "advance", first_gone)
    _, seen = run(spark, settings)
    assert receipts(spark, settings) == ["a", "b", "c", "d", "e", "f"]
    bad = quarantine(spark, settings)
    assert bad.keys() == {made.name(each) for each in (3, 4, 5, 6, 7)}
    reasons = {3: "torn", 4: "not a segment", 5: "version 99", 7: "cannot be read"}
    assert all(reason in bad[made.name(number)] for number, reason in reasons.items())
    assert f"{made.name(8)} was left open" in seen
    assert "in quarantine" in seen


def test_a_journal_may_be_on_another_file_system(spark: SparkSession, tmp_path: Path) -> None:
    """Spark fetches its segments; Hadoop's view of this machine's files stands for one."""
    spark.conf.set("fs.viewfs.mounttable.there.link./j", f"file:{tmp_path}/real")
    settings = Settings(journal="viewfs://there/j", tables=str(tmp_path / "t"))
    segment(tmp_path / "real", 1, b"a")
    segment(tmp_path / "real", 2, b"b", relay="r 2")
    made.put(tmp_path / "real", made.name(3), made.header(3), made.frames([SEND % b"c"]), b"torn")
    run(spark, settings)
    assert receipts(spark, settings) == ["a", "b", "c"]
    store = Store(spark, settings.tables)
    (bad,), (row,) = store.read("quarantine").collect(), store.read("frames").where("receipt = 'c'").collect()
    assert bad.segment == f"viewfs://there/j/{made.name(3)}"
    assert row.segment == made.name(3).removesuffix(".journal")


def test_steps_come_after_the_frames_in_their_order(spark: SparkSession, tmp_path: Path) -> None:
    """For each part; numbers go on from run to run, and a step's failure is told as it is and made good later."""
    settings = Settings(journal=str(tmp_path / "j"), tables=str(tmp_path / "t"), bytes_per_batch=1)
    for number in (1, 2):
        segment(tmp_path / "j", number, b"%d" % number)
    done: list[tuple[str, int, int]] = []

    def step(name: str) -> Step:
        def advance(batch: Batch) -> None:
            if name == "second" and batch.number == 1 and len(done) < 4:
                raise StoreError("not now")
            done.append((name, batch.number, batch.frames().count()))

        return name, advance

    steps = (step("first"), step("second"))
    with pytest.raises(StoreError, match="not now"):
        run(spark, settings, steps)
    run(spark, settings, steps)
    segment(tmp_path / "j", 3, b"3")
    run(spark, settings, steps)
    assert done == [
        ("first", 0, 1), ("second", 0, 1), ("first", 1, 1),
        ("first", 1, 1), ("second", 1, 1), ("first", 2, 1), ("second", 2, 1),
    ]  # fmt: skip
    assert receipts(spark, settings) == ["1", "2", "3"]


def test_a_run_without_an_end_takes_what_comes_until_it_is_stopped(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The batch at work is finished."""
    settings = Settings(journal=str(tmp_path / "j"), tables=str(tmp_path / "t"), interval=0.1)
    segment(tmp_path / "j", 1, b"1")
    came: list[int] = []
    news = threading.Condition()

    def step(batch: Batch) -> None:
        with news:
            came.append(batch.number)
            news.notify_all()

    endless = Stream(spark, settings, ProgressLine(io.StringIO()), (("step", step),))

    def user() -> None:
        with news:
            news.wait_for(lambda: came == [0], PATIENCE)
        segment(tmp_path / "j", 2, b"2")
        with news:
            news.wait_for(lambda: came == [0, 1], PATIENCE)
        endless.stop()

    thread = threading.Thread(target=user)
    thread.start()
    endless.endless()
    thread.join()
    assert receipts(spark, settings) == ["1", "2"]


def test_two_runs_do_not_share_tables(spark: SparkSession, tmp_path: Path) -> None:
    """The second is told so; so is one without a journal."""
    settings = Settings(journal=str(tmp_path / "j"), tables=str(tmp_path / "t"))
    with pytest.raises(StoreError, match="no journal"):
        run(spark, settings)
    segment(tmp_path / "j", 1, b"1")

    def meanwhile(_: Batch) -> None:
        with pytest.raises(StoreError, match="another run"):
            run(spark, settings)

    run(spark, settings, (("meanwhile", meanwhile),))
    assert receipts(spark, settings) == ["1"]
