"""Other ways to a cluster, and executors that are not as they must be."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from chaos import source, tables
from stomprelay.pipeline.schema import TABLES
from tests.e2e.child import Child
from tests.pipeline.cluster.standalone import LOOPBACK, Standalone, once, standalone
from tests.pipeline.cluster.test_tables import PATIENCE, here, small, through

pytestmark = [pytest.mark.long, pytest.mark.spark]

__all__ = ["small"]

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    """One worker of one core."""
    with standalone(tmp_path_factory.mktemp("cluster"), workers=1) as made:
        yield made


@pytest.fixture(params=["local[2]", "cluster"])
def master(request: pytest.FixtureRequest, cluster: Standalone) -> str:
    """This machine's, and the cluster's."""
    return cluster.url if request.param == "cluster" else request.param


def failed(child: Child) -> str:
    """Wait for the end of a run that must fail. Return the only line that it wrote."""
    try:
        assert child.exited(PATIENCE), f"it does not end:\n{child.last_words}"
        assert child.stop() == 1, child.output
    finally:
        source.end(child)
    (line,) = child.output.splitlines()
    return line


def test_executors_of_the_drivers_own_machine(spark: SparkSession, small: Path, tmp_path: Path) -> None:
    """`local-cluster` is one, too: executors are processes of their own."""
    child = once("local-cluster[2,1,1024]", small, tmp_path / "far")
    near = here(spark, small, tmp_path / "near")
    through(child)
    assert tables.compared(near, tmp_path / "far", list(TABLES)) == []


def test_spark_submit(spark: SparkSession, master: str, small: Path, tmp_path: Path) -> None:
    """It starts Java, and then the program, by its file."""
    import pyspark

    from stomprelay.pipeline import cli

    command = [str(Path(pyspark.__file__).parent / "bin" / "spark-submit"), "--master", master]
    for name, value in LOOPBACK.items():
        command += ["--conf", f"{name}={value}"]
    command += [cli.__file__, "once", "--journal", str(small), "--tables", str(tmp_path / "far")]
    environ = {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT)}
    child = Child("spark-submit", command, env=environ, cwd=tmp_path)
    near = here(spark, small, tmp_path / "near")
    assert "3 segments" in through(child)
    assert tables.compared(near, tmp_path / "far", list(TABLES)) == []


def test_python_that_is_not_there(cluster: Standalone, small: Path, tmp_path: Path) -> None:
    """It is named, and how to name another."""
    said = failed(once(cluster.url, small, tmp_path / "t", **{"spark.pyspark.python": "/no/python"}))
    assert said == (
        "stomprelay-pipeline: there is no /no/python on the executors: name their Python by "
        "--conf spark.pyspark.python=PATH"
    )


def test_python_without_arrow(cluster: Standalone, small: Path, tmp_path: Path) -> None:
    """An environment with nothing in it."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True)
    python = str(tmp_path / "bare" / "bin" / "python")
    said = failed(once(cluster.url, small, tmp_path / "t", **{"spark.pyspark.python": python}))
    assert " has no pyarrow: install it on all machines of the cluster" in said


def test_more_memory_than_any_worker_has(cluster: Standalone, small: Path, tmp_path: Path) -> None:
    """No executor comes, which is waited for no longer than Spark's own time-out."""
    conf = {
        "spark.executor.memory": "900g",
        "spark.network.timeout": "15s",
        "spark.network.timeoutInterval": "5s",
        "spark.executor.heartbeatInterval": "5s",
    }
    said = failed(once(cluster.url, small, tmp_path / "t", **conf))
    assert f"no executor of {cluster.url} took work within 15 s" in said


def test_a_disk_that_is_full(spark: SparkSession, master: str, small: Path, tmp_path: Path) -> None:
    """A sentence; where there is room again, the next run makes the tables that the first would have made."""

    disk = tmp_path / "disk"
    disk.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", disk], check=False)
    if made.returncode:
        pytest.skip("needs the right to mount a small disk")
    try:
        said = failed(once(master, small, disk / "t"))
        assert said == "stomprelay-pipeline: No space left on device (--spark-log error says more)"
        subprocess.run(["mount", "-o", "remount,size=16m", disk], check=True)
        through(once(master, small, disk / "t"))
        near = here(spark, small, tmp_path / "near")
        assert tables.compared(near, disk / "t", list(TABLES)) == []
    finally:
        subprocess.run(["umount", disk], check=True)


def test_a_checkpoint_that_cannot_be_written(master: str, small: Path, tmp_path: Path) -> None:
    """It is named."""
    (tmp_path / "file").touch()

    place = tmp_path / "file" / "checkpoint"
    said = failed(once(master, small, tmp_path / "t", "--checkpoint", str(place)))
    assert str(tmp_path / "file") in said


def test_the_same_code_installed(cluster: Standalone, small: Path, tmp_path: Path) -> None:
    """Nothing is sent to executors that have it to the letter."""
    conf = {"spark.executorEnv.PYTHONPATH": str(ROOT)}
    child = once(cluster.url, small, tmp_path / "t", "--spark-log", "info", **conf)
    said = through(child)
    assert "3 segments" in said
    assert "Added file" not in said
    assert os.path.isdir(tmp_path / "t" / "frames")
