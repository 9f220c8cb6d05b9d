"""A standalone cluster on this machine, of the classes that PySpark's package has: a master, and workers.

Nothing of ours is on the executors' path: they have the Python that they are told, in folders of their own.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from signal import SIGKILL
from typing import Final

from bench.machine import family
from stomprelay.pipeline.spark import class_archive, java
from tests.e2e.child import Child

PATIENCE: Final = 120.0
"""Seconds that a part may take to start, on a busy machine."""
_LOG: Final = """\
rootLogger.level = info
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %p %c{1}: %m%n
"""
LOOPBACK: Final = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "768m",
    "spark.executor.memory": "768m",
    # A machine that is busy with other things is no reason to give up.
    "spark.network.timeout": "600s",
}
"""Settings of a driver whose cluster is on its own machine, a small one."""
_BRIEF: Final = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_DEPLOY: Final = "org.apache.spark.deploy"


@dataclass
class Standalone:
    """One that runs; `url` is its master's."""

    home: Path
    url: str
    master: Child
    workers: list[Child]
    memory: str

    def join(self) -> Child:
        """Start one more worker of one core, and wait until the master knows it."""
        number = len(self.workers)
        known = len(self.master.output)
        place = self.home / f"worker-{number}"
        given = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0", "--cores", "1"]
        given += ["--memory", self.memory, "--work-dir", str(place), self.url]
        worker = _started(f"worker {number}", self.home, "worker.Worker", given)
        self.workers.append(worker)
        self.master.wait_for_output("Registering worker", start=known, within=PATIENCE)
        return worker

    def executors(self) -> list[int]:
        """Return the ids of the executors that run now."""
        found = []
        for worker in self.workers:
            for child in family(worker.pid):
                with suppress(OSError):
                    if b"CoarseGrainedExecutorBackend" in Path(f"/proc/{child}/cmdline").read_bytes():
                        found.append(child)
        return found

    def stop(self) -> None:
        """End all of it, executors too."""
        left = [pid for each in self.workers for pid in family(each.pid) if pid != each.pid]
        for each in (*self.workers, self.master):
            each.stop(SIGKILL)
        for pid in left:
            with suppress(OSError):
                os.kill(pid, SIGKILL)


def _started(name: str, home: Path, what: str, given: list[str]) -> Child:
    import pyspark

    found, folder = java.find(), java.folder()
    archive = folder and class_archive.path(found, folder)
    options = [*_BRIEF, f"-Djava.io.tmpdir={home}"]
    if archive and archive.exists():
        options.append(f"-XX:SharedArchiveFile={archive}")
    spark = Path(pyspark.__file__).parent
    (home / "log4j2.properties").write_text(_LOG)
    environ = {
        "JAVA_HOME": str(java.home(found, folder)),
        "SPARK_HOME": str(spark),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": f"-Dlog4j2.configurationFile={home / 'log4j2.properties'}",
        # Executors have it of their worker. All are killed in the end, and leave what they have in their folders.
        "JAVA_TOOL_OPTIONS": " ".join(options),
        "PYTHONPATH": "",
    }
    return Child(
        name, [str(spark / "bin" / "spark-class"), f"{_DEPLOY}.{what}", *given], env=environ, cwd=home
    )


@contextmanager
def standalone(home: Path, workers: int = 2, memory: str = "1g") -> Iterator[Standalone]:
    """Yield a cluster with so many workers of one core each, which is gone afterwards. `home`: an empty folder."""
    given = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
    master = _started("master", home, "master.Master", given)
    cluster = Standalone(home, "", master, [], memory)
    try:
        said = master.wait_for_output(r"Starting Spark master at (spark://\S+)", within=PATIENCE)
        cluster.url = said[1]
        for _ in range(workers):
            cluster.join()
        yield cluster
    finally:
        cluster.stop()


def once(master: str, journal: Path | str, into: Path | str, *further: str, **conf: str) -> Child:
    """Start the pipeline on a cluster, as its users do."""
    given = [sys.executable, "-m", "stomprelay.pipeline.cli", "once", "--master", master]
    given += ["--journal", str(journal), "--tables", str(into)]
    for name, value in {**LOOPBACK, **conf}.items():
        given += ["--conf", f"{name}={value}"]
    return Child("once", [*given, *further], cwd=Path(__file__).parents[3])
