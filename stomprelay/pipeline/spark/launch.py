"""A Spark session with the settings of this pipeline, on any Java, without noise on the terminal."""

import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakSet

from stomprelay.pipeline.spark import class_archive, executors, java, tasks
from stomprelay.pipeline.spark.errors import INSTALL, FailedSpark, MissingSpark, reason, thrown

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MASTER: Final = "local[*]"
LEVELS: Final = ("off", "error", "warn", "info")
"""How much Spark may write to standard error."""
_LOG: Final = Path(__file__).with_name("log4j2.properties")
_MIB: Final = 1 << 20
# With one level alone Java has room for 48 MiB of code, which fills after some batches. Then Java compiles no more.
_QUICK: Final = ("-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=240m")
_BRIEF: Final = (*_QUICK, "-XX:+UseSerialGC")

ROW_GROUP: Final = 64 << 20
"""A row group in a Parquet file has about so many bytes."""
ROW_GROUP_ROWS: Final = 1 << 17
"""A row group has at most so many rows. A writer has them all in memory."""
EVERYWHERE: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.compression.codec": "zstd",
    # All readers know this type of times, and its statistics tell them which rows they can skip.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Row groups: parts of a file that can be read in parallel, and that a writer keeps in memory.
    "spark.hadoop.parquet.block.size": str(ROW_GROUP),
    "spark.hadoop.parquet.block.row.count.limit": str(ROW_GROUP_ROWS),
    # A batch's rows go to a few folders: no need to sort them by these before they are written.
    "spark.sql.maxConcurrentOutputFileWriters": "16",
}
CHECKED: Final = {
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.LocalFileSystem",
    "spark.hadoop.fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.LocalFs",
}
"""These settings replace those of `LOCAL` if files are not on this machine. The file system s3a buffers data on this
machine, and needs Hadoop's own class for that.
"""
LOCAL: Final = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # Shuffles have a partition for each core, so Spark need not adapt them. To plan each stage anew would take longer
    # than many queries.
    "spark.sql.adaptive.enabled": "false",
    # Each sort and sum of a small batch takes one page. With pages of 512k a heap of 2 GiB ran out in large batches.
    "spark.buffer.pageSize": "4m",
    # To list folders of this machine is faster than to begin a job that lists them in parallel.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "1024",
    # Without Hadoop's native library each file would start a `chmod` or a `readlink` of its own.
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "spark.hadoop.fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.RawLocalFs",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}
CLUSTER: Final = {
    # Else Hive's class is taken, which replaces no file.
    **CHECKED,
    # As many partitions as there is data for, see `executors.fit`: each is a task in Python, and a file of a table.
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": "16m",
    # The same for rows that are kept in memory while several tables are written from them.
    "spark.sql.optimizer.canChangeCachedPlanOutputPartitioning": "true",
}
_started: Final[WeakSet[Any]] = WeakSet()
"""The sessions that `stop` may end."""


def settings(master: str, *, cores: int, memory: int, brief: bool = False) -> dict[str, str]:
    """Return Spark's default settings for this pipeline. `cores` and `memory` (bytes) are those of this machine."""
    chosen = {**EVERYWHERE, "spark.master": master}
    if is_local(master):
        heap = 768 if brief else min(max(memory // _MIB // 4, 1024), 4096)
        chosen |= LOCAL
        chosen["spark.driver.memory"] = f"{heap}m"
        chosen[tasks.PARTITIONS] = str(min(cores, 2) if brief else max(cores, 2))
    else:
        chosen |= CLUSTER
    return chosen


def is_local(master: str | None) -> bool:
    """Return whether all of Spark runs in one process on this machine."""
    return master is not None and (master == "local" or master.startswith("local["))


def java_options(
    found: java.Java, *, brief: bool = False, quick: bool = False, log: str = "off"
) -> list[str]:
    """Return the options of the driver's Java, without the options for class archives."""
    # Without these options Java 24 and later print warnings.
    newer = ("--enable-native-access=ALL-UNNAMED", "--sun-misc-unsafe-memory-access=allow")
    return [
        *(_BRIEF if brief else _QUICK if quick else ()),
        *(newer if found.feature >= 24 else ()),
        f"-Dlog4j2.configurationFile={_LOG.as_uri()}",
        f"-Dstomprelay.spark.log={log}",
    ]


def session(
    name: str,
    *,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    brief: bool = False,
    quick: bool = False,
    log: str = "off",
    say: Callable[[str], None] | None = None,
    further: tuple[str, ...] | None = None,
) -> "SparkSession":
    """Return a Spark session. End it with `stop`. If this process has a running Spark already, the session uses it.

    `conf`: settings as users of Spark know them; they replace our settings. `brief`: the session is used for a short
    time, so it must start quickly. `quick`: the session is used for some minutes, so thorough compiling by Java does
    not pay. `log`: one of `LEVELS`. `say` is called before a long step that is done only once. `further`: options of
    Java in place of those that use a class archive. Raises `MissingSpark` and `java.MissingJava`.
    """
    try:
        import pyarrow  # noqa: F401 - missing it shows late and unclearly
        from pyspark import SparkContext
    except ImportError as error:
        raise MissingSpark(f"the pipeline needs the package {error.name}: {INSTALL}") from None
    given = dict(conf or {})
    if master is not None:
        given["spark.master"] = master
    if SparkContext._active_spark_context is not None:
        spark = _beside(given)
    elif "PYSPARK_GATEWAY_PORT" in os.environ:
        spark = _submitted(name, given)
    else:
        spark = _own(name, given, brief=brief, quick=quick, log=log, say=say, further=further)
    if not is_local(spark.sparkContext.master):
        try:
            executors.equip(spark)
        except BaseException:
            stop(spark)
            raise
    return spark


def _beside(given: Mapping[str, str]) -> "SparkSession":
    """Return a session with its own settings on a running Spark that belongs to other code."""
    from pyspark.sql import SparkSession

    running = SparkSession.builder.getOrCreate()
    spark = running.newSession()
    wanted = settings(running.sparkContext.master or MASTER, cores=os.cpu_count() or 1, memory=_memory())
    needed = {"spark.sql.session.timeZone": "UTC"}  # whatever others have chosen for their sessions
    for key, value in {**wanted, **running.conf.getAll, **needed, **given}.items():
        if spark.conf.isModifiable(key):
            spark.conf.set(key, value)
    return spark


def _submitted(name: str, given: Mapping[str, str]) -> "SparkSession":
    """Return a session on the Java that spark-submit has started, with settings of its own."""
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

    submitted = SparkConf()
    master = given.get("spark.master") or submitted.get("spark.master", MASTER) or MASTER
    ours = EVERYWHERE if is_local(master) else {**EVERYWHERE, **CLUSTER}
    chosen = {**{key: value for key, value in ours.items() if not submitted.contains(key)}, **given}
    return _created(SparkSession.builder.appName(name), chosen)


def _own(
    name: str,
    given: Mapping[str, str],
    *,
    brief: bool,
    quick: bool,
    log: str,
    say: Callable[[str], None] | None,
    further: tuple[str, ...] | None,
) -> "SparkSession":
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway
    from pyspark.logger import PySparkLogger
    from pyspark.sql import SparkSession

    master = given.get("spark.master", MASTER)
    chosen = {**settings(master, cores=os.cpu_count() or 1, memory=_memory(), brief=brief), **given}
    executors.knock(master)
    folder = java.folder()
    found = java.find()
    if further is None:
        further = tuple(class_archive.options(found, folder, say))
    options = [*further, *java_options(found, brief=brief, quick=quick, log=log)]
    environ = {
        "JAVA_HOME": str(java.home(found, folder)),
        "SPARK_SUBMIT_OPTS": " ".join([*options, os.environ.get("SPARK_SUBMIT_OPTS", "")]).strip(),
        "PYSPARK_PYTHON": given.get("spark.pyspark.python")
        or os.environ.get("PYSPARK_PYTHON", sys.executable),
    }
    if is_local(master):
        environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    with _environment(environ), _Heard(loud=log != "off") as heard:
        if SparkContext._gateway is None:
            conf = SparkConf(loadDefaults=False).setAll(list(chosen.items()))
            try:
                gateway = launch_gateway(conf, {"stderr": heard.end})  # type: ignore[no-untyped-call]
            except PySparkRuntimeError as error:
                if error.getCondition() != "JAVA_GATEWAY_EXITED":
                    raise
                said = heard.text()
                why = thrown(said) or said.strip() or "Java says above what is wrong"
                raise MissingSpark(
                    f"Spark did not start on Java {found.version} of {found.home}: {why}"
                ) from None
            SparkContext._ensure_initialized(gateway=gateway, conf=conf)
        spark = _created(SparkSession.builder.appName(name), chosen)
    for logger in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):  # these errors are raised, too
        PySparkLogger.getLogger(logger).setLevel(logging.CRITICAL if log == "off" else logging.WARNING)
    return spark


def _created(builder: Any, chosen: Mapping[str, str]) -> "SparkSession":
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        spark: SparkSession = builder.config(map=dict(chosen)).getOrCreate()
    except (PySparkException, Py4JError) as error:
        why = reason(error)
        _end_java()
        raise MissingSpark(
            f"Spark did not start on {chosen.get('spark.master', 'its master')}: {why}"
        ) from None
    _started.add(spark)
    return spark


@contextmanager
def ending(spark: "SparkSession") -> Iterator[None]:
    """End the session when the context is left. Raises `FailedSpark` in place of Spark's exceptions."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise FailedSpark(reason(error)) from error
    finally:
        stop(spark)


def stop(spark: "SparkSession") -> None:
    """End a session that `session` returned. If this process started Spark and Java for the session, end these, too."""
    if spark not in _started:
        return
    _started.discard(spark)
    spark.stop()
    _end_java()


def _end_java() -> None:
    from pyspark import SparkContext

    gateway: Any = SparkContext._gateway
    process = getattr(gateway, "proc", None)
    if process is None or "PYSPARK_GATEWAY_PORT" in os.environ:
        return
    SparkContext._gateway = None
    SparkContext._jvm = None
    gateway.shutdown()
    process.stdin.close()
    try:
        process.wait(60)  # it may be writing a class archive
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class _Heard:
    """What Java writes to standard error; `end` is the descriptor to which it writes. While the context is entered,
    the text is kept, so that a failed start can be explained. Afterwards, and always if `loud`, the text is written to
    our own standard error.
    """

    def __init__(self, *, loud: bool) -> None:
        self._source, self.end = os.pipe()
        self._kept: list[bytes] = []
        self._loud = loud
        self._thread = threading.Thread(target=self._read, daemon=True, name="Java's standard error")

    def __enter__(self) -> "_Heard":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._loud = True
        if self.end >= 0:
            os.close(self.end)

    def text(self) -> str:
        """Return everything that Java wrote. Java must have ended."""
        os.close(self.end)
        self.end = -1
        self._thread.join()
        return b"".join(self._kept).decode(errors="replace")

    def _read(self) -> None:
        with open(self._source, "rb", buffering=0) as source, suppress(OSError):
            while said := source.read(65536):
                if self._loud:
                    os.write(2, said)
                else:
                    self._kept.append(said)


def _memory() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return 4096 * _MIB


@contextmanager
def _environment(changes: Mapping[str, str]) -> Iterator[None]:
    """Set these environment variables while the context is entered. Java is started meanwhile and gets them."""
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
