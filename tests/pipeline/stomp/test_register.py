"""Spark finds `format("stomp")`, however it was started, and whatever Python the path has."""

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

import pyspark_stomp
import stomprelay
from stomprelay.pipeline.spark import java
from tests.pipeline.stomp.test_datasource import drain, fill

pytestmark = [pytest.mark.spark, pytest.mark.e2e]

ROOT = Path(stomprelay.__file__).parent.parent
BESIDE = Path(sys.executable).parent
"""Where the commands of the environment are."""
SPARK_HOME = Path(pyspark.__file__).parent
COPIES = """
rows = spark.read.format("stomp").options(subscribe="{queue}", spool="{folder}/spool", idleMs="300").load("{uri}")
sending = rows.select("body").write.format("stomp").option("destination", "{queue}-out")
sending.mode("append").save("{uri}")
"""
SESSION = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("{master}").config("spark.ui.enabled", "false").getOrCreate()
"""
REGISTER = """
import pyspark_stomp
pyspark_stomp.register(spark)
"""


@pytest.fixture
def elsewhere(tmp_path: Path) -> dict[str, str]:
    """An environment with another Python in its path, which knows nothing."""
    other = tmp_path / "bin" / "python3"
    other.parent.mkdir()
    other.write_text("#!/bin/sh\necho the wrong Python >&2\nexit 3\n")
    other.chmod(0o755)
    found, folder = java.find(), java.folder()
    return {
        "PATH": f"{other.parent}{os.pathsep}/usr/bin{os.pathsep}/bin",
        "PYTHONPATH": str(ROOT),
        "HOME": str(tmp_path),
        "JAVA_HOME": str(java.home(found, folder)),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


def copied(
    queue: str,
    uri: str,
    folder: Path,
    environ: dict[str, str],
    script: str,
    *command: str,
    master: str = "local[1]",
) -> None:
    """Run a program of Spark's that copies a queue, of which five messages arrive; a command that ends with `-` is told
    it line by line.
    """
    fill(uri, queue, 0, 5)
    text = script.format(queue=queue, uri=uri, folder=folder, master=master)
    program = folder / "program.py"
    program.write_text(text)
    typed = command[-1] == "-"
    given = [*command[:-1]] if typed else [*command, str(program)]
    lines = f"{text}\nexit()\n" if typed else ""
    ran = subprocess.run(
        given, input=lines, env=environ, cwd=folder, text=True, capture_output=True, timeout=300, check=False
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    assert sorted(int(body) for body, _ in drain(uri, f"{queue}-out", 5)) == list(range(5))


def test_a_session_that_is_there_is_told(spark: SparkSession) -> None:
    """Once more does no harm; its own Python for functions stays what it was."""
    before = spark.sparkContext.pythonExec
    for _ in range(2):
        pyspark_stomp.register(spark)
    assert spark.sparkContext.pythonExec == before
    assert spark._jsparkSession.sessionState().dataSourceManager().dataSourceExists("stomp")


def test_a_session_of_spark_connect_is_told_the_name_alone() -> None:
    """As Databricks gives: it has no context, and nothing of ours is sent."""
    told: list[object] = []

    class Registration:
        register = staticmethod(told.append)

    class SparkSession:
        __module__ = "pyspark.sql.connect.session"
        dataSource = Registration()  # noqa: N815 - Spark's name

    pyspark_stomp.register(SparkSession())  # type: ignore[arg-type]
    assert told == [pyspark_stomp.DefaultSource]


@pytest.mark.deep
def test_plain_python_with_another_one_in_the_path(
    uri: str, queue: str, tmp_path: Path, elsewhere: dict[str, str]
) -> None:
    """The session was made without a thought of Python."""
    copied(queue, uri, tmp_path, elsewhere, SESSION + REGISTER + COPIES, sys.executable)


@pytest.mark.long
@pytest.mark.parametrize("register", ["", REGISTER])
def test_spark_submit(uri: str, queue: str, tmp_path: Path, elsewhere: dict[str, str], register: str) -> None:
    """By the environment's name, or by Spark's setting and `register`."""
    submit = [str(BESIDE / "spark-submit")]
    if register:
        elsewhere["SPARK_HOME"] = str(SPARK_HOME)  # else it would be asked of the other Python
        submit += ["--conf", f"spark.pyspark.python={sys.executable}"]
    else:
        elsewhere["PYSPARK_PYTHON"] = sys.executable
    copied(queue, uri, tmp_path, elsewhere, SESSION + register + COPIES, *submit)


@pytest.mark.long
def test_the_shell(uri: str, queue: str, tmp_path: Path, elsewhere: dict[str, str]) -> None:
    """Typed in line by line, with the session that it brings."""
    elsewhere["PYSPARK_PYTHON"] = sys.executable
    elsewhere["PYSPARK_DRIVER_PYTHON_OPTS"] = "-i"  # or it would not take a pipe for somebody who types
    shell = [str(BESIDE / "pyspark"), "--master", "local[1]", "--conf", "spark.ui.enabled=false"]
    copied(queue, uri, tmp_path, elsewhere, COPIES, *shell, "-")


@pytest.mark.long
@pytest.mark.parametrize("register", ["", REGISTER], ids=["installed", "sent"])
def test_executors_in_processes_of_their_own(
    uri: str, queue: str, tmp_path: Path, elsewhere: dict[str, str], register: str
) -> None:
    """Those that have the package, and those that do not and are sent it."""
    elsewhere["PYSPARK_PYTHON"] = sys.executable
    if register:
        bare = tmp_path / "packages"
        bare.mkdir()
        for each in SPARK_HOME.parent.iterdir():
            if each.suffix != ".pth" and "stomp" not in each.name:
                (bare / each.name).symlink_to(each)
        python = tmp_path / "bin" / "bare"
        python.write_text(f'#!/bin/sh\nPYTHONPATH={bare} exec {sys.executable} -S "$@"\n')
        python.chmod(0o755)
        elsewhere["PYSPARK_PYTHON"] = str(python)
    script = SESSION + register + COPIES
    copied(queue, uri, tmp_path, elsewhere, script, sys.executable, master="local-cluster[1,1,1024]")


CONNECT = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.remote("{master}").config("spark.ui.enabled", "false").getOrCreate()
import pyspark_stomp
spark.dataSource.register(pyspark_stomp.DefaultSource)
pyspark_stomp.register(spark)
rows = spark.read.format("stomp").options(
    subscribe="{queue}", spool="{folder}/spool", idleMs="300", readId="it").load("{uri}")
assert rows.alias("a").join(rows.alias("b"), "sequence").count() == 5
sending = rows.select("body").write.format("stomp").option("destination", "{queue}-out")
sending.mode("append").save("{uri}")
spark.stop()
"""


@pytest.mark.long
def test_spark_connect(uri: str, queue: str, tmp_path: Path, elsewhere: dict[str, str]) -> None:
    """Against a real server, whose Python has the package."""
    pytest.importorskip("grpc_status", reason="PySpark's extra connect is not installed")
    elsewhere["PYSPARK_PYTHON"] = sys.executable
    copied(queue, uri, tmp_path, elsewhere, CONNECT, sys.executable)
