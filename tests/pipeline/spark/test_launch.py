"""Spark sessions."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from stomprelay.pipeline.spark import launch
from stomprelay.pipeline.spark.errors import FailedSpark, reason
from stomprelay.pipeline.spark.java import Java

GIB = 1 << 30


_CHILD = """
import os, sys
from pathlib import Path
from stomprelay.pipeline.spark import launch
spark = launch.session("child", master="local[1]", conf={"spark.sql.shuffle.partitions": "7"}, brief=True)
assert spark.conf.get("spark.sql.shuffle.partitions") == "7"
assert spark.range(3).count() == 3
try:
    spark.sql("SELECT nonsense")
except Exception as error:
    assert type(error).__name__ == "AnalysisException"
launch.stop(spark)
assert not Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
spark = launch.session("again", master="local[1]", brief=True)
assert spark.range(4).count() == 4
launch.stop(spark)
"""


@pytest.mark.parametrize(
    ("master", "local"),
    [
        ("local", True),
        ("local[4]", True),
        ("local[*,3]", True),
        ("local-cluster[1,1,1024]", False),
        ("spark://h", False),
    ],
)
def test_settings_for_one_machine_do_not_go_to_a_cluster(master: str, local: bool) -> None:
    """Addresses and memory are its own affair. Its file system for `file:` is Hadoop's, which replaces files."""
    chosen = launch.settings(master, cores=4, memory=8 * GIB)
    assert ("Raw" in chosen["spark.hadoop.fs.file.impl"]) is local
    assert launch.is_local(master) is local
    assert chosen["spark.master"] == master
    assert ("spark.driver.host" in chosen) is ("spark.driver.memory" in chosen) is local
    assert chosen["spark.sql.session.timeZone"] == "UTC"
    assert (chosen["spark.sql.adaptive.enabled"] == "false") is local


def test_a_quarter_of_the_memory_is_sparks() -> None:
    """Within bounds; short work needs little."""
    for gib, brief, heap in (
        (1, False, "1024m"),
        (8, False, "2048m"),
        (64, False, "4096m"),
        (64, True, "768m"),
    ):
        chosen = launch.settings("local", cores=1, memory=gib * GIB, brief=brief)
        assert chosen["spark.driver.memory"] == heap


def test_java_is_told_how_much_to_log(tmp_path: Path) -> None:
    """By the file that comes with the package; later Javas are told to be quiet of what Spark does."""
    options = launch.java_options(Java(tmp_path, "17.0.1", True), log="warn")
    assert "-Dstomprelay.spark.log=warn" in options
    (file,) = [each.partition("=file://")[2] for each in options if "log4j2" in each]
    assert Path(file).is_file()
    assert not any("native-access" in each for each in options)
    assert any("native-access" in each for each in launch.java_options(Java(tmp_path, "25", True)))
    assert "-XX:+UseSerialGC" in launch.java_options(Java(tmp_path, "25", True), brief=True)
    quick = launch.java_options(Java(tmp_path, "25", True), quick=True)
    assert {"-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=240m"} <= {*quick}
    assert "-XX:+UseSerialGC" not in quick


@pytest.mark.spark
def test_a_session_is_set_up(spark: SparkSession) -> None:
    """Its settings hold, its Python processes are this Python, and our own environment is as before."""
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.sql.shuffle.partitions") == "1"
    assert spark.sparkContext.pythonExec == os.environ.get("PYSPARK_PYTHON", sys.executable)
    assert "-Dstomprelay" not in os.environ["SPARK_SUBMIT_OPTS"]


@pytest.mark.spark
def test_what_failed_is_asked_while_java_is_there(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only then the session ends, after which nothing can be asked."""
    done: list[str] = []

    def asked(error: Exception) -> str:
        done.append("asked")
        return reason(error)

    monkeypatch.setattr(launch, "reason", asked)
    monkeypatch.setattr(launch, "stop", lambda _: done.append("stopped"))
    jvm: Any = spark._jvm
    with pytest.raises(FailedSpark, match=r'^For input string: "x"$'), launch.ending(spark):
        jvm.java.lang.Integer.parseInt("x")
    assert done == ["asked", "stopped"]


@pytest.mark.deep
@pytest.mark.spark
def test_nothing_is_said_and_nothing_is_left(spark: SparkSession, tmp_path: Path) -> None:
    """In a process of its own without a cache: the terminal stays empty, Java ends with it, another can follow."""
    (tmp_path / "file").touch()
    environ = {**os.environ, "STOMPRELAY_CACHE": str(tmp_path / "file"), "STOMPRELAY_CLASS_ARCHIVE": "0"}
    done = subprocess.run(
        [sys.executable, "-c", _CHILD], capture_output=True, text=True, env=environ, cwd=tmp_path, check=False
    )
    said = [line for line in done.stderr.splitlines() if "incubator" not in line]
    assert (done.returncode, done.stdout, said) == (0, "", [])
    assert [each.name for each in tmp_path.iterdir()] == ["file"]
