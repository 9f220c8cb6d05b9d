"""Runs with `--format delta`: the same tables as with files, whatever is killed."""

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from bench.journals import World, make
from stomprelay.pipeline import cli, options
from stomprelay.pipeline.follow.progress import ProgressLine
from stomprelay.pipeline.follow.stream import Stream
from stomprelay.pipeline.schema import TABLES
from stomprelay.pipeline.settings import Settings
from stomprelay.pipeline.spark import launch
from stomprelay.pipeline.store.delta import opened
from stomprelay.pipeline.store.store import StoreError

pytestmark = pytest.mark.spark


def run(spark: SparkSession, settings: Settings) -> None:
    """One run over what is there."""
    Stream(spark, settings, ProgressLine(io.StringIO())).once()


def content(spark: SparkSession, settings: Settings, table: str) -> list[str]:
    """All of a table, row by row, but for the batch: compaction of files leaves the first and the last one."""
    rows = opened(spark, settings.tables, settings.format).read(table).drop("batch")
    return sorted(row[0] for row in rows.selectExpr("to_json(struct(*))").collect())


def journal(folder: Path) -> int:
    """One of some segments. Return the most bytes of a batch with which there are two."""
    folder.mkdir()
    make(folder, World(2000, relays=2, deaths=0, segment=20_000, rate=50.0, unanswered=0.05))
    return sum(path.stat().st_size for path in folder.iterdir()) - 1


@pytest.mark.deep
def test_the_tables_are_those_of_files(
    with_delta: SparkSession,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Row by row; and the commands find the format by themselves, of now and of then."""
    most = journal(tmp_path / "j")
    files = Settings(str(tmp_path / "j"), str(tmp_path / "files"), bytes_per_batch=most)
    delta = replace(files, tables=str(tmp_path / "delta"), checkpoint="", format="delta")
    for settings in (files, delta):
        run(with_delta, settings)
    for name in TABLES:
        rows = content(with_delta, delta, name)
        assert rows == content(with_delta, files, name), name
        assert rows or name == "quarantine", name
    with pytest.raises(StoreError, match="are of format delta, not parquet"):
        run(with_delta, replace(delta, format="parquet"))

    monkeypatch.setattr(options, "session", lambda *_, **__: with_delta)
    monkeypatch.setattr(launch, "stop", lambda _: None)

    def counted(*given: str) -> int:
        sql = "SELECT count(*) AS n FROM frames"
        assert cli.main(["query", sql, "--tables", delta.tables, "--format", "json", *given]) == 0
        return int(json.loads(capsys.readouterr().out)["n"])

    assert 0 < counted("--as-of", "0") < counted("--as-of", "1") == counted()
    assert counted("--as-of", "2020-01-01T00:00") == 0
    assert cli.main(["query", "SELECT 1", "--tables", files.tables, "--as-of", "0"]) == 1
    assert "--as-of is for --format delta" in capsys.readouterr().err
    page = tmp_path / "report.html"
    assert cli.main(["report", "--tables", delta.tables, "--output", str(page)]) == 0, capsys.readouterr().err
    assert page.stat().st_size > 10_000
    replay = ["replay", "--tables", delta.tables, "--dry-run", "--skip-incomplete"]
    assert cli.main([*replay, "--where", "destination IS NOT NULL"]) in (0, 1)
    assert "messages" in capsys.readouterr().err
