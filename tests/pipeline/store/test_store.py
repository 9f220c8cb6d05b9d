"""Tables on disk."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from stomprelay.pipeline.schema import MESSAGES, QUARANTINE, TRAFFIC
from stomprelay.pipeline.store import layout
from stomprelay.pipeline.store.delta import opened
from stomprelay.pipeline.store.store import OPEN, Store, StoreError, batch_name
from stomprelay.pipeline.store.upkeep import begin
from tests.pipeline import rows as made

pytestmark = pytest.mark.spark

HOUR = "2026-11-21-08"
NEXT = "2026-11-21-09"
LATER = "2026-11-21-10"


def quarantine(spark: SparkSession, *reasons: str) -> DataFrame:
    """Rows of the table, by reason."""
    return spark.createDataFrame([("s", 0, 1, reason) for reason in reasons], QUARANTINE.ddl)


Places = Iterable[tuple[str, str]]


def messages(spark: SparkSession, rows: Places, still: Places = (), name: str = "0") -> DataFrame:
    """Of hour and destination; `still`: those that are open, in the slice `name`."""
    many = [{"hour": hour, "destination": to, "final": True} for hour, to in rows]
    many += [{"hour": hour, "destination": to, "final": False, "slice": name} for hour, to in still]
    return made.rows(spark, MESSAGES, made.MESSAGE, many, "hour string, slice string")


def traffic(spark: SparkSession, *rows: tuple[str, str]) -> DataFrame:
    """Of hour and destination."""
    usual = {"minute": made.START, "direction": "to_broker"}
    usual |= dict.fromkeys(("frames", "messages", "octets", "body_octets", "errors"), 0)
    many = [{"hour": hour, "destination": destination} for hour, destination in rows]
    return made.rows(spark, TRAFFIC, usual, many, "hour string")


def said(frame: DataFrame, *columns: str) -> list[Any]:
    """These columns of all rows, sorted."""
    return sorted(tuple(row) for row in frame.select(*columns).collect())


def test_what_is_not_there_yet_is_empty(spark: SparkSession, tmp_path: Path) -> None:
    """With all columns, and those of the folders."""
    store = Store(spark, str(tmp_path))
    assert store.read("messages").columns == [*MESSAGES.names, "date", "hour", "batch"]
    assert store.read("traffic", [LATER]).columns == [*TRAFFIC.names, "date", "hour"]
    assert store.read("quarantine", batch=3).columns == [*QUARANTINE.names, "batch"]
    assert store.hours("frames") == []


def test_folders_have_types_that_engines_find(spark: SparkSession, tmp_path: Path) -> None:
    """Spark and DuckDB take them for a date and a number, and read no others than a query names."""
    duckdb = pytest.importorskip("duckdb")
    store = Store(spark, str(tmp_path))
    store.append("messages", 0, messages(spark, [(HOUR, "a"), (LATER, "b"), ("2026-11-22-08", "c")]))
    assert dict(store.read("messages").dtypes).items() >= {"date": "date", "hour": "int"}.items()
    found = spark.read.parquet(f"{store.root}/messages")
    assert dict(found.dtypes).items() >= {"date": "date", "hour": "int"}.items()
    for rows in (found, store.read("messages")):
        one = rows.where("date = DATE'2026-11-21' AND hour >= 9")
        assert said(one, "destination") == [("b",)]
        assert len(one.inputFiles()) == 3  # Spark names all; what it reads is in the plan
        plan = one._jdf.queryExecution().executedPlan().toString()
        assert "PartitionFilters: [isnotnull(date" in plan
    asked = f"FROM '{store.root}/messages/date=*/hour=*/batch=*/*.parquet' WHERE date = '2026-11-21' AND hour >= 9"
    with duckdb.connect() as connection:
        what = "destination, typeof(date), typeof(hour), hour"
        (row,) = connection.execute(f"SELECT {what} {asked}").fetchall()
        plan = connection.execute(f"EXPLAIN ANALYZE SELECT destination {asked}").fetchall()[0][1]
    assert row == ("b", "DATE", "BIGINT", 10)
    assert "1/3" in plan


@pytest.fixture(params=["parquet", pytest.param("delta", marks=pytest.mark.ci)])
def either(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Store:
    """In both formats, in a folder with letters that mean something to Hadoop and SQL."""
    if request.param == "delta":
        made_tables: Store = request.getfixturevalue("delta")
        return made_tables
    store = Store(spark, str(tmp_path / "it's a `folder` [1]"))
    store.prepare(-1)
    return store


def test_a_batch_that_is_done_again_takes_its_own_place(spark: SparkSession, either: Store) -> None:
    """And that of no other batch. Its rows are asked for again: who observes them does not wait for ever."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as f

    either.append("messages", 0, messages(spark, [(HOUR, "a"), (NEXT, "b")]))
    either.append("messages", 1, messages(spark, [(HOUR, "c")]))
    seen = Observation()
    either.append("messages", 1, messages(spark, [(HOUR, "d")]).observe(seen, f.count("*").alias("n")))
    assert seen.get == {"n": 1}
    assert said(either.read("messages"), "destination", "hour", "batch") == [
        ("a", 8, batch_name(0)),
        ("b", 9, batch_name(0)),
        ("d", 8, batch_name(1)),
    ]
    assert said(either.read("messages", [NEXT]), "destination") == [("b",)]
    assert said(either.read("messages", []), "destination") == []
    assert said(either.read("messages", batch=0), "destination") == [("a",), ("b",)]
    assert said(either.read("messages", [HOUR, LATER], 1), "destination") == [("d",)]
    assert either.hours("messages") == [HOUR, NEXT]
    either.append("quarantine", 3, quarantine(spark, "torn"))
    assert said(either.read("quarantine", batch=3), "reason", "batch") == [("torn", batch_name(3))]


def test_rows_that_may_change_are_replaced_as_a_whole(spark: SparkSession, either: Store) -> None:
    """Slice by slice, whatever their hour, and without writing rows that stay once more."""
    either.replace_open(0, messages(spark, [(HOUR, "final")], [(HOUR, "a"), (NEXT, "b")]), ["0"])
    files = {*either.read("messages", [HOUR], 0).where("final").inputFiles()}
    for _ in range(2):
        now = messages(spark, [(HOUR, "a")], [(NEXT, "c")], "1")
        more = messages(spark, [], [(HOUR, "d")], "2")
        either.replace_open(1, now.unionByName(more), ["1", "2"], {"0": [HOUR, NEXT]})
        assert said(either.read("messages"), "destination", "batch") == [
            ("a", batch_name(1)),
            ("c", "open-1"),
            ("d", "open-2"),
            ("final", batch_name(0)),
        ]
        assert said(either.read("messages", batch=OPEN), "destination", "hour") == [("c", 9), ("d", 8)]
    assert said(either.open_rows("messages", {"1": [NEXT], "7": [HOUR]}), "destination") == [("c",)]
    assert said(either.open_rows("messages", {}), "destination") == []
    assert files
    assert files <= {*either.read("messages").inputFiles()}
    either.replace_open(2, messages(spark, []), [], {"1": [NEXT]})
    assert said(either.read("messages"), "destination") == [("a",), ("d",), ("final",)]


def test_hours_are_written_anew_one_by_one(spark: SparkSession, either: Store) -> None:
    """Those that there are rows for, those that have none any more, and no other."""
    either.replace("traffic", traffic(spark, (HOUR, "a"), (NEXT, "b")))
    either.replace("traffic", traffic(spark, (HOUR, "c")), [HOUR, LATER])
    assert said(either.read("traffic"), "destination", "hour") == [("b", 9), ("c", 8)]
    either.replace("traffic", traffic(spark, (LATER, "d"), (HOUR, "c")), [HOUR, NEXT, LATER])
    assert said(either.read("traffic"), "destination", "hour") == [("c", 8), ("d", 10)]
    assert either.expire("traffic", NEXT) == [HOUR]
    assert said(either.read("traffic"), "destination") == [("d",)]


def test_a_batch_leaves_state_for_the_next(spark: SparkSession, tmp_path: Path) -> None:
    """Until it is forgotten; state that is missing is told, as it means tables that do not belong together."""
    store = Store(spark, str(tmp_path))
    store.save_text("words", 0, "before")
    for text in ("not yet", "now"):
        store.save_text("words", 1, text)
    store.forget(1)
    assert (store.saved_text("words", -1), store.saved_text("words", 1)) == (None, "now")
    with pytest.raises(StoreError, match="do not belong together"):
        store.saved_text("words", 0)


def test_files_that_tasks_wrote_are_adopted(spark: SparkSession, tmp_path: Path) -> None:
    """Only those of tasks that count, and in place of what the same batch wrote before; other batches stay."""
    store = Store(spark, f"file:{tmp_path}/the tables")
    for batch, names in ((0, "a"), (1, "b"), (1, "cd")):
        folder = store.stage("frames", batch)
        assert folder is not None
        assert folder.parent == tmp_path / "the tables" / "frames"
        files = [folder / layout.place(HOUR) / f"part-{name}.parquet" for name in names]
        others = [folder / place / "part-again.parquet" for place in (layout.place(HOUR), "date=x")]
        for file in (*files, *others):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.touch()
        store.adopt("frames", batch, files)
    root = tmp_path / "the tables" / "frames"
    wanted = [
        f"batch={batch_name(number)}/part-{name}.parquet" for number, name in ((0, "a"), (1, "c"), (1, "d"))
    ]
    assert sorted(root.rglob("*.parquet")) == [root / layout.place(HOUR) / name for name in wanted]
    assert store.stage("frames", 2) == store.stage("frames", 2)


def test_what_was_cut_short_is_swept_up(spark: SparkSession, tmp_path: Path) -> None:
    """Half-written files, what is about to be removed, and what a batch wrote that is not done; the rest stays."""
    store = Store(spark, str(tmp_path))
    store.append("quarantine", 0, quarantine(spark, "a"))
    cut_short = ("quarantine/.spark-staging-1", "_sums/flow/.spark-staging-2", "frames/.staging-3")
    for left in (*cut_short, "quarantine/_temporary"):
        (tmp_path / left / "0").mkdir(parents=True)
    later = tmp_path / "frames" / layout.place(HOUR)
    for name in (batch_name(1), f"{OPEN}-{batch_name(1)}-0", batch_name(0)):
        (later / f"batch={name}").mkdir(parents=True)
    dropped = tmp_path / "_dropped" / "frames-hour"
    dropped.mkdir(parents=True)
    assert begin(store, 0)
    assert [path.name for path in later.iterdir()] == [f"batch={batch_name(0)}"]
    assert not dropped.exists()
    assert not begin(store, 0)
    assert not list(tmp_path.rglob(".*staging*"))
    assert not list(tmp_path.rglob("_temporary"))
    assert said(store.read("quarantine"), "reason") == [("a",)]


def test_a_session_without_delta_is_told(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything is written, with what helps."""
    monkeypatch.setattr(spark.conf, "get", lambda *_: "")
    with pytest.raises(StoreError, match=r"no Delta Lake.*--jars"):
        opened(spark, str(tmp_path), "delta")


def test_tables_of_an_older_release_are_told(spark: SparkSession, tmp_path: Path) -> None:
    """They do not say how they lie on disk, or have other folders; those of a newer one are not touched at all."""
    made.write(tmp_path, QUARANTINE, {"reason": "torn"}, [{"segment": "a", "position": 1, "length": 2}])
    store = Store(spark, str(tmp_path))
    store.check()
    assert store.read("quarantine").count() == 1
    with pytest.raises(StoreError, match=r"of an older layout.*anew from the journal.*migrate"):
        store.prepare(-1)
    (tmp_path / "frames" / "hour=2026-11-21-08").mkdir(parents=True)
    with pytest.raises(StoreError, match="of an older layout"):
        store.check()
    (tmp_path / layout.NAME).write_text('{"version": 2, "format": "parquet"}')
    with pytest.raises(StoreError, match="of an older layout"):
        store.check()
    for said in ('{"version": 99, "format": "parquet"}', "what?"):
        (tmp_path / layout.NAME).write_text(said)
        with pytest.raises(StoreError, match="newer stomprelay"):
            store.check()


def test_tables_and_checkpoint_belong_together(spark: SparkSession, tmp_path: Path) -> None:
    """A checkpoint that was removed, or is older, would bring batches twice."""
    store = Store(spark, str(tmp_path))
    store.prepare(-1)
    assert layout.told((tmp_path / layout.NAME).read_text()) == (layout.VERSION, "parquet", ())
    store.save_text("watch", 4, "state")
    for finished in (3, 4):
        store.prepare(finished)
    with pytest.raises(StoreError, match="do not belong together"):
        store.prepare(-1)
