"""Java's class archive: Spark's classes as Java holds them in memory, so that a session starts in a third of the time.

The archive is made once for each Java and each Spark, by a child process that does a little of all that the pipeline
does. It is kept in the cache (about 200 MB). Java ignores an archive that does not fit.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final
from zlib import crc32

from stomprelay.journal.disk import lock
from stomprelay.pipeline.spark.java import Java, MissingJava, find
from stomprelay.pipeline.spark.java import folder as cache

SWITCH: Final = "STOMPRELAY_CLASS_ARCHIVE"
"""The environment variable that switches the class archive off if it is 0."""
_PATIENCE: Final = 300
"""Seconds after which a training run is given up."""
_QUIET: Final = "-Xlog:disable"
_AHEAD: Final = 25
"""From this version on, Java has a new kind of archive, which holds more (JEP 514)."""

Say = Callable[[str], None]


def path(java: Java, folder: Path) -> Path:
    """Return the path of the archive for this Java and the installed Spark. The file need not exist."""
    import pyspark
    from pyspark.find_spark_home import _find_spark_home

    ending = "aot" if java.feature >= _AHEAD else "jsa"
    which = crc32(f"{java.home} {java.version} {pyspark.__version__} {_find_spark_home()}".encode())
    return folder / f"spark-{pyspark.__version__}-java-{java.version}-{which:08x}.{ending}"


def options(java: Java, folder: Path | None, say: Say | None = None) -> Iterator[str]:
    """Yield the options with which Java uses the archive. If the archive is missing, it is made in `folder`. This
    takes a while, so `say` is called first.
    """
    yield _QUIET
    if folder is None or os.environ.get(SWITCH) == "0":
        return
    file = path(java, folder)
    if not file.exists():
        with suppress(OSError), file.with_suffix(".lock").open("w") as held:
            if lock(held.fileno(), wait=False) and not file.exists():
                if say is not None:
                    say("preparing Spark for quick starts; this is done once")
                make(java, file)
    if file.exists() and file.stat().st_size:
        if java.feature >= _AHEAD:
            yield f"-XX:AOTCache={file}"
        else:
            yield "-Xshare:auto"
            yield f"-XX:SharedArchiveFile={file}"


def make(java: Java, file: Path) -> None:
    """Make the archive. If Java makes none, leave an empty file, so that later starts do not try again."""
    partial = file.with_name(f".{os.getpid()}-{file.name}")
    making = "AOTCacheOutput" if java.feature >= _AHEAD else "ArchiveClassesAtExit"
    command = [sys.executable, "-m", "stomprelay.pipeline.spark.training", f"-XX:{making}={partial}", _QUIET]
    try:
        subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_PATIENCE,
            check=False,
        )
        if not partial.exists():
            partial.touch()
        partial.replace(file)
    except (OSError, subprocess.TimeoutExpired):
        with suppress(OSError):
            partial.unlink()


def main() -> int:
    """Make the archive if it is missing, and print the options with which Java uses it. Return the exit status."""
    try:
        java = find()
    except MissingJava as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write("".join(f"{option}\n" for option in options(java, cache())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
