"""A Spark session with what this pipeline needs of it, on whatever Java there is, without noise on the terminal."""

import logging
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from stomprelay.pipeline.spark import class_archive, java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MASTER: Final = "local[*]"
LEVELS: Final = ("off", "error", "warn", "info")
"""How much Spark may write to standard error."""
_LOG: Final = Path(__file__).with_name("log4j2.properties")
_GOODBYE: Final = 60.0
"""Seconds that Java has to end; it may be writing a class archive."""
_MIB: Final = 1 << 20
_BRIEF: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
_NEWER: Final = ("--enable-native-access=ALL-UNNAMED", "--sun-misc-unsafe-memory-access=allow")
"""Options that keep Java 24 and later from printing warnings."""

ROW_GROUP: Final = 64 << 20
"""Bytes of a row group in a Parquet file, about."""
ROW_GROUP_ROWS: Final = 1 << 17
"""Rows of one, at most: whoever writes one has so many in memory."""
EVERYWHERE: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.compression.codec": "zstd",
    # The type of times that all readers know, and that has statistics by which they skip what they need not read.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Parts of a file that can be read side by side, and that a writer keeps in memory.
    "spark.hadoop.parquet.block.size": str(ROW_GROUP),
    "spark.hadoop.parquet.block.row.count.limit": str(ROW_GROUP_ROWS),
    # A batch's rows go to a few folders: no need to sort them by these before they are written.
    "spark.sql.maxConcurrentOutputFileWriters": "16",
}
LOCAL: Final = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # Without Hadoop's native library each file would start a `chmod` or a `readlink` of its own.
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "spark.hadoop.fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.RawLocalFs",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}


class MissingSpark(Exception):
    """PySpark, or what it needs from other packages, is not installed or does not start. The text is for the user."""


def settings(master: str, *, cores: int, memory: int, brief: bool = False) -> dict[str, str]:
    """Return Spark's settings by default; `cores` and `memory` (bytes) are this machine's."""
    chosen = {**EVERYWHERE, "spark.master": master}
    if is_local(master):
        heap = 768 if brief else min(max(memory // _MIB // 4, 1024), 4096)
        chosen |= LOCAL
        chosen["spark.driver.memory"] = f"{heap}m"
        chosen["spark.sql.shuffle.partitions"] = str(min(cores, 2) if brief else max(cores, 2))
    return chosen


def is_local(master: str) -> bool:
    """Return whether all of Spark runs in one process on this machine."""
    return master == "local" or master.startswith("local[")


def java_options(found: java.Java, *, brief: bool = False, log: str = "off") -> list[str]:
    """Return the options that the driver's Java is started with, without those for class archives."""
    return [
        *(_BRIEF if brief else ()),
        *(_NEWER if found.feature >= 24 else ()),
        f"-Dlog4j2.configurationFile={_LOG.as_uri()}",
        f"-Dstomprelay.spark.log={log}",
    ]


def session(
    name: str,
    *,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    brief: bool = False,
    log: str = "off",
    say: Callable[[str], None] | None = None,
    further: tuple[str, ...] | None = None,
) -> "SparkSession":
    """A session, the one that runs already where there is one. End it with `stop`.

    `conf`: settings as Spark's users know them; they go before ours. `brief`: it will be used for a short while, so
    start quickly. `log`: one of `LEVELS`. `say` is called before what takes long once. `further`: options to Java
    in place of those that use a class class_archive. Raises `MissingSpark` and `java.MissingJava`.
    """
    try:
        import pyarrow  # noqa: F401 - missing it shows late and unclearly
        from pyspark.errors import PySparkRuntimeError
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise MissingSpark(
            f"the pipeline needs the package {error.name}: pip install 'stomprelay[pipeline]'"
        ) from None
    builder = SparkSession.builder.appName(name)
    given = dict(conf or {})
    if master is not None:
        given["spark.master"] = master
    if (
        "PYSPARK_GATEWAY_PORT" in os.environ
    ):  # spark-submit started both Java and us, with settings of its own
        from pyspark import SparkConf

        submitted = SparkConf()
        given = {**{k: v for k, v in EVERYWHERE.items() if not submitted.contains(k)}, **given}
        return builder.config(map=_widened(given)).getOrCreate()
    chosen = settings(
        given.get("spark.master", MASTER), cores=os.cpu_count() or 1, memory=_memory(), brief=brief
    )
    chosen |= given
    folder = java.folder()
    found = java.find()
    if further is None:
        further = tuple(class_archive.options(found, folder, say))
    options = [*further, *java_options(found, brief=brief, log=log)]
    environ = {
        "JAVA_HOME": str(java.home(found, folder)),
        "SPARK_SUBMIT_OPTS": " ".join([*options, os.environ.get("SPARK_SUBMIT_OPTS", "")]).strip(),
        "PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON", sys.executable),
    }
    if is_local(chosen["spark.master"]):
        environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    with _environment(environ):
        try:
            spark = builder.config(map=_widened(chosen)).getOrCreate()
        except PySparkRuntimeError as error:
            if error.getCondition() != "JAVA_GATEWAY_EXITED":
                raise
            raise MissingSpark(
                f"Spark did not start on Java {found.version} of {found.home}; Java says above what is wrong"
            ) from None
    _hush(log)
    if not chosen["spark.master"].startswith("local"):
        _ship(spark)
    return spark


def stop(spark: "SparkSession") -> None:
    """End the session and, where it was ours, its Java; nothing of it runs when this returns."""
    from pyspark import SparkContext

    gateway: Any = SparkContext._gateway
    spark.stop()
    process = getattr(gateway, "proc", None)
    if process is None or "PYSPARK_GATEWAY_PORT" in os.environ:
        return
    SparkContext._gateway = None
    SparkContext._jvm = None
    gateway.shutdown()
    process.stdin.close()
    try:
        process.wait(_GOODBYE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _hush(log: str) -> None:
    """Limit PySpark's own log of errors, as it raises them, too. `log`: one of `LEVELS`."""
    from pyspark.logger import PySparkLogger

    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL if log == "off" else logging.WARNING)


def _widened(conf: Mapping[str, str]) -> dict[str, Any]:
    return dict(conf)


def _memory() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return 4096 * _MIB


@contextmanager
def _environment(changes: Mapping[str, str]) -> Iterator[None]:
    """What Java inherits, without leaving it to our own later children."""
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _ship(spark: "SparkSession") -> None:
    """Give the executors of a cluster our own code: they need Python with pyarrow, and nothing of ours installed."""
    import stomprelay

    package = Path(stomprelay.__file__).parent
    with tempfile.TemporaryDirectory() as place:
        packed = shutil.make_archive(f"{place}/stomprelay", "zip", package.parent, package.name)
        spark.sparkContext.addPyFile(packed)
