"""Tables on disk."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from stomprelay.pipeline.schema import MESSAGES, QUARANTINE, TRAFFIC
from stomprelay.pipeline.store import layout
from stomprelay.pipeline.store.formats import opened
from stomprelay.pipeline.store.store import OPEN, Store, StoreError, batch_name
from tests.pipeline import rows as made

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

HOUR = "2026-11-21-08"
NEXT = "2026-11-21-09"
LATER = "2026-11-21-10"


def quarantine(spark: "SparkSession", *reasons: str) -> "DataFrame":
    """Rows of the table, by reason."""
    return spark.createDataFrame([("s", 0, 1, reason) for reason in reasons], QUARANTINE.ddl)


def messages(
    spark: "SparkSession", rows: Iterable[tuple[str, str]], still: Iterable[tuple[str, str]] = ()
) -> "DataFrame":
    """Of hour and destination; `still`: those that are open."""
    many = [
        {"hour": hour, "destination": destination, "final": final}
        for final, some in ((True, rows), (False, still))
        for hour, destination in some
    ]
    return made.rows(spark, MESSAGES, made.MESSAGE, many, "hour string")


def said(frame: "DataFrame", *columns: str) -> list[Any]:
    """These columns of all rows, sorted."""
    return sorted(tuple(row) for row in frame.select(*columns).collect())


def test_what_is_not_there_yet_is_empty(spark: "SparkSession", tmp_path: Path) -> None:
    """With all columns, and those of the folders."""
    store = Store(spark, str(tmp_path))
    assert store.read("messages").columns == [*MESSAGES.names, "hour", "batch"]
    assert store.read("traffic", ["x"]).columns == [*TRAFFIC.names, "hour"]
    assert store.read("quarantine", batch=3).columns == [*QUARANTINE.names, "batch"]
    assert store.saved("open", 5, "a int").collect() == []
    assert store.deltas("traffic", "a int").columns == ["a", "hour", "batch"]
    assert store.hours("frames") == []


def test_a_batch_that_is_done_again_takes_its_own_place(spark: "SparkSession", tmp_path: Path) -> None:
    """And that of no other batch."""
    store = Store(spark, str(tmp_path))
    store.append("messages", 0, messages(spark, [(HOUR, "a"), (NEXT, "b")]))
    store.append("messages", 1, messages(spark, [(HOUR, "c")]))
    store.append("messages", 1, messages(spark, [(HOUR, "d")]))
    assert said(store.read("messages"), "destination", "hour", "batch") == [
        ("a", HOUR, batch_name(0)),
        ("b", NEXT, batch_name(0)),
        ("d", HOUR, batch_name(1)),
    ]
    assert said(store.read("messages", [NEXT]), "destination") == [("b",)]
    assert said(store.read("messages", batch=0), "destination") == [("a",), ("b",)]
    assert said(store.read("messages", [HOUR, "none"], 1), "destination") == [("d",)]
    assert store.hours("messages") == [HOUR, NEXT]


def test_rows_that_may_change_are_replaced_as_a_whole(spark: "SparkSession", tmp_path: Path) -> None:
    """Whatever their hour; final rows stay."""
    store = Store(spark, str(tmp_path))
    store.replace_open(0, messages(spark, [(HOUR, "final")], [(HOUR, "a"), (NEXT, "b")]))
    assert (store.hours_of("messages", 0), store.hours_of("messages", OPEN)) == ({HOUR}, {HOUR, NEXT})
    for _ in range(2):
        store.replace_open(1, messages(spark, [(HOUR, "a")], [(NEXT, "c")]))
        assert said(store.read("messages"), "destination", "batch") == [
            ("a", batch_name(1)),
            ("c", "open"),
            ("final", batch_name(0)),
        ]
        assert said(store.read("messages", batch=OPEN), "destination", "hour") == [("c", NEXT)]
    store.replace_open(2, messages(spark, []))
    assert said(store.read("messages"), "destination") == [("a",), ("final",)]
    assert store.hours_of("messages", OPEN) == store.hours_of("messages", 2) == set()


def test_tables_without_hours_have_batches(spark: "SparkSession", tmp_path: Path) -> None:
    """As the quarantine; the folder's name may be anything that a file system takes."""
    store = Store(spark, f"file:{tmp_path}/a folder [1] {{x}}*")
    store.append("quarantine", 0, quarantine(spark, "a"))
    store.append("quarantine", 2, quarantine(spark, "b"))
    assert said(store.read("quarantine"), "reason", "batch") == [("a", batch_name(0)), ("b", batch_name(2))]
    assert said(store.read("quarantine", batch=2), "reason") == [("b",)]


def test_hours_are_written_anew_one_by_one(spark: "SparkSession", tmp_path: Path) -> None:
    """Those that there are rows for, and no other."""
    store = Store(spark, str(tmp_path))

    def traffic(*rows: tuple[str, str]) -> "DataFrame":
        from pyspark.sql import functions as f

        base = spark.createDataFrame(list(rows), "hour string, destination string")
        return base.select(
            *[
                f.col("destination") if c.name == "destination" else
                f.lit("to_broker").alias(c.name) if c.name == "direction" else
                f.lit(0).cast(c.kind).alias(c.name)
                for c in TRAFFIC.columns
            ],
            "hour",
        )  # fmt: skip

    store.replace("traffic", traffic((HOUR, "a"), (NEXT, "b")))
    store.replace("traffic", traffic((HOUR, "c")), [HOUR, "2026-11-21-10"])
    assert said(store.read("traffic"), "destination", "hour") == [("b", NEXT), ("c", HOUR)]
    store.replace("traffic", traffic((LATER, "d"), (HOUR, "c")), [HOUR, NEXT, LATER])
    assert said(store.read("traffic"), "destination", "hour") == [("c", HOUR), ("d", LATER)]
    store.replace("traffic", traffic((NEXT, "b")), [LATER])
    assert store.expire("traffic", NEXT) == [HOUR]
    assert said(store.read("traffic"), "destination") == [("b",)]


def test_deltas_add_up_by_hour(spark: "SparkSession", tmp_path: Path) -> None:
    """One for each batch and hour, however often it is written."""
    store = Store(spark, str(tmp_path))
    for batch, rows in [(0, [(HOUR, 1), (NEXT, 2)]), (1, [(HOUR, 5)]), (1, [(HOUR, 4)])]:
        store.delta("traffic", batch, spark.createDataFrame(rows, "hour string, n int"))
    assert said(store.deltas("traffic", "n int"), "n", "hour") == [(1, HOUR), (2, NEXT), (4, HOUR)]
    assert said(store.deltas("traffic", "n int", [HOUR]), "n") == [(1,), (4,)]
    store.expire_deltas(NEXT)
    assert said(store.deltas("traffic", "n int"), "n") == [(2,)]


def test_a_batch_leaves_state_for_the_next(spark: "SparkSession", tmp_path: Path) -> None:
    """Until it is forgotten; state that is missing is told, as it means tables that do not belong together."""
    store = Store(spark, str(tmp_path))
    for batch in range(3):
        store.save("open", batch, spark.createDataFrame([(batch,)], "n int"))
    store.save("open", 2, spark.createDataFrame([(7,)], "n int"))
    store.save("parts", 2, spark.createDataFrame([(1, 5), (2, 6)], "n int, of int"), "of")
    store.save_text("words", 0, "before")
    for text in ("not yet", "now"):
        store.save_text("words", 1, text)
    store.forget(1)
    assert said(store.saved("parts", 2, "n int", "of=6"), "n") == [(2,)]
    assert said(store.saved("parts", 2, "n int", "of=7"), "n") == []
    assert (store.saved_text("words", -1), store.saved_text("words", 1)) == (None, "now")
    with pytest.raises(StoreError, match="do not belong together"):
        store.saved_text("words", 0)
    assert said(store.saved("open", -1, "n int"), "n") == []
    assert said(store.saved("open", 1, "n int"), "n") == [(1,)]
    assert said(store.saved("open", 2, "n int"), "n") == [(7,)]
    assert said(store.saved("other", 4, "n int"), "n") == []
    with pytest.raises(StoreError, match="do not belong together"):
        store.saved("open", 0, "n int")


def test_what_was_cut_short_is_swept_up(spark: "SparkSession", tmp_path: Path) -> None:
    """Spark's half-written files; what readers see stays."""
    store = Store(spark, str(tmp_path))
    store.append("quarantine", 0, quarantine(spark, "a"))
    for left in ("quarantine/.spark-staging-1", "quarantine/_temporary", "_deltas/flow/.spark-staging-2"):
        (tmp_path / left / "0").mkdir(parents=True)
    store.remove_leftovers()
    assert not list(tmp_path.rglob(".spark-staging*"))
    assert not list(tmp_path.rglob("_temporary"))
    assert said(store.read("quarantine"), "reason") == [("a",)]


def test_a_session_without_delta_is_told(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything is written, with what helps."""
    monkeypatch.setattr(spark.conf, "get", lambda *_: "")
    with pytest.raises(StoreError, match=r"no Delta Lake.*--jars"):
        opened(spark, str(tmp_path), "delta")


def test_tables_of_an_older_release_can_be_read_but_not_gone_on_with(
    spark: "SparkSession", tmp_path: Path
) -> None:
    """They do not say how they lie on disk; those of a newer one are not touched at all."""
    made.write(tmp_path, QUARANTINE, {"reason": "torn"}, [{"segment": "a", "offset": 1, "length": 2}])
    store = Store(spark, str(tmp_path))
    store.check()
    assert store.read("quarantine").count() == 1
    with pytest.raises(StoreError, match=r"older stomprelay.*journal has it all"):
        store.prepare(-1)
    for said in ('{"version": 99, "format": "parquet"}', "what?"):
        (tmp_path / layout.NAME).write_text(said)
        with pytest.raises(StoreError, match="newer stomprelay"):
            store.check()


def test_tables_and_checkpoint_belong_together(spark: "SparkSession", tmp_path: Path) -> None:
    """A checkpoint that was removed, or is older, would bring batches twice."""
    store = Store(spark, str(tmp_path))
    store.prepare(-1)
    assert layout.told((tmp_path / layout.NAME).read_text()) == (layout.VERSION, "parquet")
    store.save_text("watch", 4, "state")
    for finished in (3, 4):
        store.prepare(finished)
    with pytest.raises(StoreError, match="do not belong together"):
        store.prepare(-1)


def test_other_file_formats_work_alike(spark: "SparkSession", tmp_path: Path) -> None:
    """ORC comes with Spark."""
    store = Store(spark, str(tmp_path), "orc")
    store.replace_open(0, messages(spark, [(HOUR, "a")], [(HOUR, "b")]))
    assert said(store.read("messages", [HOUR]), "destination", "batch") == [
        ("a", batch_name(0)),
        ("b", "open"),
    ]
