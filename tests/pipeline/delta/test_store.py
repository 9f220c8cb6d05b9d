"""Tables in Delta Lake: the same as files to who writes, and whole at any moment to who reads."""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame

from stomprelay.pipeline.schema import MESSAGES, QUARANTINE, TABLES, TRAFFIC, Column
from stomprelay.pipeline.store import delta as module
from stomprelay.pipeline.store.delta import DeltaStore, opened
from stomprelay.pipeline.store.layout import found
from stomprelay.pipeline.store.store import Compacted, StoreError, batch_name
from tests.pipeline import rows as made
from tests.pipeline.store.test_store import HOUR, LATER, NEXT, messages, said, traffic

pytestmark = pytest.mark.spark


@pytest.fixture
def store(delta: DeltaStore) -> DeltaStore:
    """Three empty tables."""
    return delta


# ---------------------------------------------------------------- beside what is as with files


@pytest.mark.ci
def test_a_batch_that_is_done_again_may_make_fewer_slices(store: DeltaStore) -> None:
    """Those that it made before, by other settings, are gone; slices of other batches stay."""
    for number, names in ((1, "ab"), (2, "ab"), (2, "c")):
        slices = [f"{batch_name(number)}-{at}" for at in range(len(names))]
        rows = messages(store.spark, [])
        for each, name in zip(names, slices, strict=True):
            rows = rows.unionByName(messages(store.spark, [], [(HOUR, each)], name))
        store.replace_open(number, rows, slices)
    assert said(store.read("messages"), "destination", "batch") == [
        ("a", f"open-{batch_name(1)}-0"),
        ("b", f"open-{batch_name(1)}-1"),
        ("c", f"open-{batch_name(2)}-0"),
    ]


@pytest.mark.ci
def test_rows_under_a_name(store: DeltaStore) -> None:
    """Are written anew, and removed, whatever batches do beside them; `--as-of` knows of which batch that was."""

    def damage(reason: str) -> DataFrame:
        return store.spark.createDataFrame([("s", 0, 1, reason)], QUARANTINE.ddl)

    store.append("quarantine", 0, damage("torn"))
    for reason in ("waits", "missing"):
        store.append("quarantine", "gaps-1", damage(reason))
    store.append("quarantine", 1, damage("cut"))
    store.remove("quarantine", "gaps-1")
    store.remove("quarantine", "gaps-2")
    assert said(store.read("quarantine"), "reason") == [("cut",), ("torn",)]
    was = opened(store.spark, store.root, "delta", 0)
    assert said(was.read("quarantine"), "reason", "batch") == [("missing", "gaps-1"), ("torn", batch_name(0))]
    now = opened(store.spark, store.root, "delta", 1)
    assert said(now.read("quarantine"), "reason") == [("cut",), ("torn",)]


# ---------------------------------------------------------------- what only a log gives


def test_of_two_writers_one_is_refused(store: DeltaStore) -> None:
    """Where no lock keeps them apart: the batch is there once, and the other is told."""
    told: list[str] = []
    both = threading.Barrier(2)

    def write() -> None:
        other = DeltaStore(store.spark, store.root)
        rows = messages(store.spark, [(HOUR, "a")])
        both.wait()
        try:
            other.replace_open(0, rows)
        except StoreError as error:
            told.append(str(error))

    with ThreadPoolExecutor(2) as threads:
        threads.submit(write)
        write()
    assert said(store.read("messages"), "destination") == [("a",)]
    assert told in ([], [f"another run is at work on the tables in {store.root}"])


@pytest.mark.ci
def test_tables_as_they_were(store: DeltaStore) -> None:
    """After a batch, or at a time; before there was any, they are empty. What is joined since does not change it."""
    store.replace_open(0, messages(store.spark, [(HOUR, "a")], [(HOUR, "b")]), ["0"])
    between = datetime.now(UTC)
    store.replace_open(1, messages(store.spark, [(HOUR, "b")], [(HOUR, "c")], "1"), ["1"], {"0": [HOUR]})
    store.drop("messages", [HOUR])

    def then(when: datetime | int) -> list[Any]:
        return said(opened(store.spark, store.root, "delta", when).read("messages"), "destination", "final")

    assert then(0) == then(between) == [("a", True), ("b", False)]
    assert then(1) == [("a", True), ("b", True), ("c", False)]
    assert then(between - timedelta(days=1)) == []
    assert then(datetime.now(UTC) + timedelta(days=1)) == []
    with pytest.raises(StoreError, match="for --format delta"):
        opened(store.spark, store.root, "parquet", 1)


@pytest.mark.ci
def test_files_of_an_hour_become_few(store: DeltaStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of rows that stay; once is enough. Files that no version needs go a week later, a look a day."""
    monkeypatch.setattr(module, "FEW", 1)
    for number in range(2):
        name = str(number)
        rows = messages(store.spark, [(HOUR, f"/q/{number}"), (LATER, "x")], [(HOUR, "open")], name)
        store.replace_open(number, rows, [name], {str(number - 1): [HOUR]})
    before = said(store.read("messages"), "destination", "batch")
    assert list(store.tidy(NEXT)) == [Compacted("messages/date=2026-11-21/hour=8", 3, 2)]
    assert list(store.tidy(NEXT)) == []
    assert said(store.read("messages"), "destination", "batch") == before
    files = len(list(Path(store.root).rglob("messages/**/*.parquet")))
    now = datetime(2026, 11, 21, tzinfo=UTC)
    for hours in (0, 1, 30, 31):
        store.sweep(now + timedelta(hours=hours))
    done = [row.operation for row in history(store, "messages").limit(3).collect()]
    assert done == ["VACUUM END", "VACUUM START", "OPTIMIZE"]
    assert len(list(Path(store.root).rglob("messages/**/*.parquet"))) == files


def history(store: DeltaStore, table: str) -> DataFrame:
    """What was done to a table, the newest first."""
    return store.spark.sql(f"DESCRIBE HISTORY {store._sql(table)}")


def test_what_columns_mean_is_in_the_table(store: DeltaStore) -> None:
    """As comments, with units; each transaction names its batch."""
    from pyspark.sql.types import StructType

    schema: StructType = store.spark.read.format("delta").load(f"{store.root}/traffic").schema
    assert schema["octets"].metadata == {"comment": "on the wire; octets"}
    (detail,) = store.spark.sql(f"DESCRIBE DETAIL {store._sql('traffic')}").collect()
    assert (detail.description, detail.partitionColumns) == (TRAFFIC.about, ["date", "hour"])
    store.replace_open(7, messages(store.spark, [(HOUR, "a")]))
    store.replace("traffic", traffic(store.spark, (HOUR, "a")))
    for name in ("messages", "traffic"):
        assert [row.userMetadata for row in history(store, name).limit(1).collect()] == ["batch 7"]


def test_a_table_of_an_older_release_gains_columns(
    store: DeltaStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Null in rows that are there; until a run has added them, in all. One of another type is told."""
    store.append("messages", 0, messages(store.spark, [(HOUR, "a")]))
    weight = Column("weight", "bigint", "what it weighs", nullable=False)
    grown = replace(MESSAGES, columns=(*MESSAGES.columns, weight))
    monkeypatch.setitem(TABLES, "messages", grown)
    assert said(store.read("messages"), "destination", "weight") == [("a", None)]
    store.prepare(0)
    store.append("messages", 1, messages(store.spark, [(HOUR, "b")]).selectExpr("*", "5L AS weight"))
    assert said(store.read("messages"), "destination", "weight") == [("a", None), ("b", 5)]
    other = replace(MESSAGES, columns=(*MESSAGES.columns, Column("weight", "string", "in words")))
    monkeypatch.setitem(TABLES, "messages", other)
    with pytest.raises(StoreError, match=r"column weight of table messages .* is bigint, not string"):
        store.prepare(1)


def test_tables_and_checkpoint_belong_together(store: DeltaStore) -> None:
    """If one was removed, or is older, batches would be missed or come twice."""
    store.append("messages", 4, messages(store.spark, [(HOUR, "a")]))
    for finished in (3, 4):
        store.prepare(finished)
    for finished in (-1, 2, 5):
        with pytest.raises(StoreError, match="do not belong together"):
            store.prepare(finished)


def test_another_format_is_told(store: DeltaStore, tmp_path: Path) -> None:
    """Whichever way; a command that is not told the format finds it."""
    places = (store.root, f"file:{store.root}", str(tmp_path))
    assert [found(place) for place in places] == ["delta", "delta", "parquet"]
    with pytest.raises(StoreError, match="are of format delta, not parquet: say that one, or none"):
        opened(store.spark, store.root, "parquet").check()
    made.write(tmp_path, QUARANTINE, {"reason": "torn"}, [{"segment": "a", "position": 1, "length": 2}])
    with pytest.raises(StoreError, match="no Delta tables"):
        opened(store.spark, str(tmp_path), "delta").check()


# ---------------------------------------------------------------- other readers


@pytest.mark.ci
def test_pandas_and_duckdb_read_at_any_moment(store: DeltaStore) -> None:
    """Without Spark, while batches go on: each look is of one transaction, old rows and new ones never mixed."""
    deltalake = pytest.importorskip("deltalake")
    duckdb = pytest.importorskip("duckdb")
    store.replace_open(0, messages(store.spark, [], [(HOUR, "0"), (NEXT, "0")]), ["0"])
    looks: list[set[str]] = []
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            table = deltalake.DeltaTable(f"{store.root}/messages")
            looks.append(set(table.to_pandas(columns=["destination"])["destination"]))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        for number in range(1, 4):
            name = str(number)
            rows = messages(store.spark, [], [(HOUR, name), (NEXT, name)], name)
            store.replace_open(number, rows, [name], {str(number - 1): [HOUR, NEXT]})
    finally:
        done.set()
        thread.join()
    assert looks
    assert all(len(each) == 1 for each in looks)
    dataset = deltalake.DeltaTable(f"{store.root}/messages").to_pyarrow_dataset()
    with duckdb.connect() as asked:
        asked.register("messages", dataset)
        found = asked.execute("SELECT hour, destination, seen_at FROM messages ORDER BY hour").fetchall()
    assert [(hour, destination) for hour, destination, _ in found] == [(8, "3"), (9, "3")]
    assert found[0][2].astimezone(UTC) == made.START
