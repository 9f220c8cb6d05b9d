"""Clusters that are not there, or not as they must be: a sentence, in bounded time."""

import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from stomprelay.pipeline import cli
from stomprelay.pipeline.spark import errors, executors, launch, tasks
from stomprelay.pipeline.spark.errors import MissingSpark

_UNRESOLVED = """\
:: loading settings :: url = jar:file:/ivy-2.5.3.jar!/org/apache/ivy/core/settings/ivysettings.xml
\t\t::          UNRESOLVED DEPENDENCIES         ::
Exception in thread "main" java.lang.RuntimeException: [unresolved dependency: io.delta#delta;1: not found]
\tat org.apache.spark.util.MavenUtils$.resolveMavenCoordinates(MavenUtils.scala:544)
"""
_ASKED = "master 'yarn' either HADOOP_CONF_DIR or YARN_CONF_DIR must be set in the environment."
_YARN = f"""\
Exception in thread "main" org.apache.spark.SparkException: When running with {_ASKED}
\tat org.apache.spark.deploy.SparkSubmitArguments.error(SparkSubmitArguments.scala:654)
"""


_OLDER = "Python in worker has different version:"


def test_a_master_that_is_not_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Java is not even started, where Spark does not run already; of several masters one is enough."""
    monkeypatch.setattr("pyspark.SparkContext._active_spark_context", None)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        there = taken.getsockname()[1]
        executors.knock(f"spark://127.0.0.1:1,127.0.0.1:{there}")
    with socket.socket() as silent:  # it has a port, and does not listen there
        silent.bind(("127.0.0.1", 0))
        master = "spark://{}:{}".format(*silent.getsockname())
        place = str(tmp_path)
        assert cli.main(["once", "--master", master, "--journal", place, "--tables", place]) == 1
    said = capsys.readouterr().err
    assert said == f"stomprelay-pipeline: no Spark master answers at {master}: Connection refused\n"
    with pytest.raises(MissingSpark, match="no Spark master answers at spark://no port"):
        executors.knock("spark://no port:x")
    executors.knock("yarn")


@pytest.mark.parametrize(
    ("log", "said"),
    [
        (_UNRESOLVED, "[unresolved dependency: io.delta#delta;1: not found]"),
        (_YARN, f"When running with {_ASKED}"),
        ("Error: Master must either be yarn\n", "Master must either be yarn"),
        ("nothing of use", None),
    ],
)
def test_why_java_did_not_start(log: str, said: str | None) -> None:
    """One line of many."""
    assert errors.thrown(log) == said


@pytest.mark.parametrize(
    ("failure", "said"),
    [
        (f"{_OLDER} 3.9 than that in driver: 3.11, PySpark", "Python on the executors is 3.9 and 3.11 here"),
        ('Cannot run program "/opt/python": error=2, No', "there is no /opt/python on the executors"),
        ("ModuleNotFoundError: No module named 'pyspark'", "Python on the executors has no pyspark"),
        ("something else", ""),
    ],
)
def test_what_executors_lack(failure: str, said: str) -> None:
    """What their tasks failed by says what is to be done, where it is known."""
    assert (executors._why(failure) or "").startswith(said)


class Asked:
    """What executors answer, without any."""

    def __init__(self, *found: Any) -> None:
        self.found = list(found)
        self.paths: list[str] = []

    def __call__(self, spark: object, probe: object, paths: list[str]) -> list[Any]:
        self.paths = paths
        assert all(Path(path).exists() for path in paths)
        return self.found


def test_folders_that_they_do_not_see(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some file of each is looked for there; of those that are written one that is put there for this."""
    journal, tables = tmp_path / "journal", tmp_path / "tables"
    journal.mkdir()
    (journal / "one.journal").touch()
    asked = Asked(executors._Found("here", "22", "a", []))
    monkeypatch.setattr(executors, "_asked", asked)
    spark: Any = None
    executors.see(spark, [journal], [tables])
    assert asked.paths[0] == str(journal / "one.journal")
    assert [Path(path).parent for path in asked.paths] == [journal, tables]
    assert list(tables.iterdir()) == []
    asked.found.append(executors._Found("there", "22", "a", [str(tables / "_seen")]))
    with pytest.raises(MissingSpark, match=f"there, where tasks run, does not see {tables} as it is here"):
        executors.see(spark, [journal], [tables])


def test_executors_without_arrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are named, each once."""
    lacking = [executors._Found(host, None, None, []) for host in ("b", "a", "b")]
    monkeypatch.setattr(executors, "_asked", Asked(*lacking))
    spark: Any = None
    with pytest.raises(MissingSpark, match="Python on a, b has no pyarrow: install it"):
        executors.equip(spark)


@pytest.mark.spark
@pytest.mark.ci
def test_a_session_beside_another(spark: SparkSession) -> None:
    """Ours has the settings that it needs, and those of the other but for these; it ends without the other."""
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        ours = launch.session("beside", conf={"spark.sql.parquet.compression.codec": "gzip"})
        assert ours is not spark
        assert ours.conf.get("spark.sql.session.timeZone") == "UTC"
        assert ours.conf.get("spark.sql.parquet.compression.codec") == "gzip"
        assert ours.conf.get("spark.sql.shuffle.partitions") == "1"
        launch.stop(ours)
        assert spark.conf.get("spark.sql.session.timeZone") == "Asia/Tokyo"
        assert spark.range(3).count() == 3
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


@pytest.mark.spark
def test_partitions_fit_the_cores(spark: SparkSession) -> None:
    """Two for each core that is there; what the user chose stays."""
    executors.fit(spark)
    assert spark.conf.get(tasks.PARTITIONS) == "1"
    other = spark.newSession()
    nothing = SimpleNamespace(contains=lambda name: False)
    cores = SimpleNamespace(getConf=lambda: nothing, defaultParallelism=5)
    made: Any = SimpleNamespace(conf=other.conf, sparkContext=cores)
    other.conf.set(tasks.PARTITIONS, "200")
    executors.fit(made)
    assert other.conf.get(tasks.PARTITIONS) == "10"
    cores.defaultParallelism = 7
    executors.fit(made)
    assert other.conf.get(tasks.PARTITIONS) == "14"
    other.conf.set(tasks.PARTITIONS, "33")
    executors.fit(made)
    assert other.conf.get(tasks.PARTITIONS) == "33"
