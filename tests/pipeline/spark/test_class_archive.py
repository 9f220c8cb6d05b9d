"""The class archive, and the training run that makes it."""

import fcntl
import subprocess
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from stomprelay.pipeline.spark import class_archive
from stomprelay.pipeline.spark.java import Java
from stomprelay.pipeline.spark.training import train

JAVA_17 = Java(Path("/java"), "17.0.15", True)
JAVA_25 = Java(Path("/java"), "25.0.2", False)


@pytest.fixture(autouse=True)
def switched_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the environment of the tests says."""
    monkeypatch.delenv(class_archive.SWITCH, raising=False)


def training_runs(monkeypatch: pytest.MonkeyPatch, content: bytes | None) -> list[list[str]]:
    """What would be run; it writes the archive, where it writes one."""
    seen: list[list[str]] = []

    def run(command: list[str], **_: Any) -> None:
        seen.append(command)
        if content is not None:
            Path(command[3].partition("=")[2]).write_bytes(content)

    monkeypatch.setattr(subprocess, "run", run)
    return seen


@pytest.mark.parametrize(
    ("java", "making", "using"),
    [
        (JAVA_17, "ArchiveClassesAtExit", ["-Xshare:auto", "-XX:SharedArchiveFile"]),
        (JAVA_25, "AOTCacheOutput", ["-XX:AOTCache"]),
    ],
)
def test_it_is_made_once_and_used_from_then_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, java: Java, making: str, using: list[str]
) -> None:
    """In the way of the Java at hand; the user hears of it."""
    seen = training_runs(monkeypatch, b"classes")
    said: list[str] = []
    for _ in range(2):
        options = list(class_archive.options(java, tmp_path, said.append))
        assert options == ["-Xlog:disable", *using[:-1], f"{using[-1]}={class_archive.path(java, tmp_path)}"]
    assert len(seen) == len(said) == 1
    assert seen[0][3].startswith(f"-XX:{making}=")
    assert class_archive.path(java, tmp_path).read_bytes() == b"classes"
    assert not [each for each in tmp_path.iterdir() if each.name.startswith(".")]


def test_it_can_be_made_ahead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By a command, whose output says how Java uses it."""
    seen = training_runs(monkeypatch, b"classes")
    monkeypatch.setattr(class_archive, "find", lambda: JAVA_17)
    monkeypatch.setattr(class_archive, "cache", lambda: tmp_path)
    assert class_archive.main() == 0
    made = class_archive.path(JAVA_17, tmp_path)
    assert capsys.readouterr().out.splitlines()[1:] == ["-Xshare:auto", f"-XX:SharedArchiveFile={made}"]
    assert len(seen) == 1


def test_a_java_that_makes_none_is_asked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And started without."""
    seen = training_runs(monkeypatch, None)
    for _ in range(2):
        assert list(class_archive.options(JAVA_17, tmp_path)) == ["-Xlog:disable"]
    assert len(seen) == 1


def test_without_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One process makes it, and others go on without; the environment may switch it off; a cache is needed."""
    seen = training_runs(monkeypatch, b"classes")
    with class_archive.path(JAVA_17, tmp_path).with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert list(class_archive.options(JAVA_17, tmp_path)) == ["-Xlog:disable"]
    assert list(class_archive.options(JAVA_17, None)) == ["-Xlog:disable"]
    assert list(class_archive.options(JAVA_17, tmp_path / "missing")) == ["-Xlog:disable"]
    monkeypatch.setenv(class_archive.SWITCH, "0")
    assert list(class_archive.options(JAVA_17, tmp_path)) == ["-Xlog:disable"]
    assert seen == []


@pytest.mark.deep
@pytest.mark.spark
def test_the_training_run(spark: SparkSession, tmp_path: Path) -> None:
    """With the Spark at hand: a table is written, and what is folded from it."""
    train(spark, tmp_path)
    assert list(tmp_path.glob("table/hour=*/*.parquet"))
    assert list(tmp_path.glob("joined/*.parquet"))
    assert list(tmp_path.glob("checkpoint/commits/1"))
