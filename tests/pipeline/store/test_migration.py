"""Tables of the release before: read as they are, migrated in place, and gone on with."""

import io
import json
import tarfile
from collections.abc import Callable
from itertools import count
from pathlib import Path
from shutil import rmtree
from typing import Any

import pytest
from pyarrow import parquet
from pyspark.sql import Row, SparkSession

from stomprelay.pipeline import options
from stomprelay.pipeline.cli import main
from stomprelay.pipeline.follow.progress import ProgressLine
from stomprelay.pipeline.follow.stream import Stream
from stomprelay.pipeline.match.messages import STATE
from stomprelay.pipeline.schema import TABLES
from stomprelay.pipeline.settings import Settings
from stomprelay.pipeline.spark import launch
from stomprelay.pipeline.store.delta import DeltaStore, opened
from stomprelay.pipeline.store.store import Store, StoreError
from stomprelay.pipeline.store.upkeep import alone, migrate
from stomprelay.pipeline.store.volume import Volume

pytestmark = pytest.mark.spark

RECORDED = Path(__file__).resolve().parents[2] / "corpus" / "tables-4.tar.xz"
"""A folder that was at `PLACE`: `journal`; `parquet` and `delta`, tables of layout 4 that two runs had made of it; and
`later`, segments that came after these. A third of the messages of `journal` are open.
"""
PLACE = "/srv/recorded"


class Killed(BaseException):
    """In place of a signal that nobody can catch."""


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """The folder; what Spark remembers of the journal's files is of where they are now."""
    with tarfile.open(RECORDED) as archive:
        archive.extractall(tmp_path, filter="data")
    for path in tmp_path.glob("*/_checkpoint/*/**/*"):
        if path.is_file():
            path.write_text(path.read_text().replace(PLACE, str(tmp_path)))
    return tmp_path


def content(store: Store) -> dict[str, list[str]]:
    """The rows of all tables, but for where they are kept."""

    def told(row: Row) -> str:
        text = json.dumps(row.asDict(recursive=True), default=str)
        return text.replace(f"{Path(store.root).parent}/", f"{PLACE}/")

    return {name: sorted(map(told, store.read(name).drop("batch").collect())) for name in TABLES}


def once(spark: SparkSession, settings: Settings) -> str:
    """A run; what it says."""
    told = io.StringIO()
    Stream(spark, settings, ProgressLine(told)).once()
    return told.getvalue()


@pytest.mark.deep
@pytest.mark.parametrize("form", ["parquet", "delta"])
def test_a_run_migrates_them_and_goes_on(with_delta: SparkSession, recorded: Path, form: str) -> None:
    """They are as if one run had made them of it all; of the relays' runs they have what came later."""
    journal, tables = recorded / "journal", str(recorded / form)
    for path in (recorded / "later").iterdir():
        path.rename(journal / path.name)
    settings = Settings(str(journal), tables, format=form, linger=2.0)
    assert "the tables were of the release before: migrated" in once(with_delta, settings)
    anew = Settings(str(journal), str(recorded / "anew"), keep_headers=("kind",), linger=2.0)
    once(with_delta, anew)
    found = content(opened(with_delta, tables, form))
    assert len(found["messages"]) > 80
    expected = content(Store(with_delta, anew.tables))
    runs, all_runs = ({json.loads(row)["run"] for row in each.pop("runs")} for each in (found, expected))
    assert set() < runs < all_runs
    assert found == expected


def test_a_migration_that_is_killed_goes_on(
    spark: SparkSession, recorded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed ever later at one of its changes to files, and begun again: nothing is lost or there twice."""
    tables = recorded / "parquet"
    rmtree(tables / "frames")
    store = Store(spark, str(tables))
    store.check()
    before = content(store)
    changes, kills = count(), 0

    def unless_killed(does: Callable[..., None]) -> Callable[..., None]:
        def change(*given: Any) -> None:
            if next(changes) == kills:
                raise Killed
            does(*given)

        return change

    for name in ("rename", "remove", "put"):
        monkeypatch.setattr(Volume, name, unless_killed(getattr(Volume, name)))
    while store.is_before:
        try:
            migrate(store, STATE)
        except Killed:
            kills += 1
            changes = count()
            if (tables / "_migrating" / "note").exists():
                said = "ask again, or have it go on by stomprelay-pipeline migrate"
                with pytest.raises(StoreError, match=said):
                    store.check()
            else:
                store.check()
                assert content(store) == before
    assert kills > 5
    assert content(Store(spark, str(tables))) == before
    assert not (tables / "_migrating").exists()
    schemas = [parquet.read_schema(path) for path in tables.rglob("*.parquet")]
    assert not [each for each in schemas if {"at", "offset"} & set(each.names)]


@pytest.mark.long
def test_a_migration_of_delta_that_is_killed_goes_on(
    with_delta: SparkSession, few: None, recorded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two transactions; who reads meanwhile has some tables of both layouts."""
    store = DeltaStore(with_delta, str(recorded / "delta"))
    store.check()
    before = content(store)
    alter = DeltaStore._alter
    changes = count()

    def unless_killed(*given: Any) -> None:
        if next(changes) == 1:
            raise Killed
        alter(*given)

    monkeypatch.setattr(DeltaStore, "_alter", unless_killed)
    with pytest.raises(Killed):
        migrate(store, STATE)
    assert content(store) == before
    assert migrate(store, STATE)
    assert content(store) == before
    earlier = DeltaStore(with_delta, store.root, as_of=0).read("messages")
    assert 0 < earlier.where("seen_at IS NOT NULL").count() < len(before["messages"])


def test_the_command_needs_no_journal(
    spark: SparkSession, recorded: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It says what it did. While another run is at work it does nothing."""
    monkeypatch.setattr(options, "session", lambda *_, **__: spark)
    monkeypatch.setattr(launch, "stop", lambda _: None)
    tables = recorded / "parquet"
    rmtree(recorded / "journal")
    with alone(tables):
        assert main(["migrate", "--tables", str(tables)]) == 1
    assert main(["migrate", "--tables", str(tables)]) == 0
    assert main(["migrate", "--tables", str(tables)]) == 0
    assert main(["migrate", "--tables", f"{tables}/none"]) == 1
    assert capsys.readouterr().err.splitlines() == [
        f"stomprelay-pipeline: another run is at work on the tables in {tables}",
        f"{tables}: migrated",
        f"{tables}: nothing to migrate",
        f"stomprelay-pipeline: there are no tables in {tables}/none: the folder does not exist",
    ]
