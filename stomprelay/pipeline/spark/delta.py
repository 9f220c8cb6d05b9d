"""Delta Lake for a Spark session: its jars, where they are or can be had, and the settings that switch it on.

Spark's own `spark.jars.packages` would do, but it fetches all that Delta Lake's build names, a second Hadoop among it,
writes some hundred lines to the terminal at each start, and asks for the network again. Two jars are all that is used;
Ivy, which comes with Spark, fetches them once.

As a module, `python -m stomprelay.pipeline.spark.delta` fetches them ahead of time and prints where they are.
"""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from stomprelay.pipeline.spark import ivy, java
from stomprelay.pipeline.spark.errors import MissingSpark

VERSION: Final = "4.4.0"
SPARK: Final = "4.2"
"""The Spark that this build of Delta Lake is for; setup.cfg asks for it."""
GROUP: Final = "io.delta"
ARTIFACTS: Final = (f"delta-spark_{SPARK}_2.13", "delta-storage")
_JARS: Final = tuple(ivy.Artifact(GROUP, name, VERSION) for name in ARTIFACTS)
MAVEN: Final = _JARS[0].maven
"""The command that puts the jars where `found` sees them, for people."""

EXTENSIONS: Final = "spark.sql.extensions"
JARS: Final = "spark.jars"
SETTINGS: Final = {
    EXTENSIONS: "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # Our logs are short: 50 tasks, the default, to read one take longer than to read it.
    "spark.databricks.delta.snapshotPartitions": "2",
}
_SOURCES: Final = (JARS, "spark.jars.packages", "spark.driver.extraClassPath")
_IVY_SETTINGS: Final = "spark.jars.ivySettings"


class MissingJars(MissingSpark):
    """The jars of Delta Lake are not on this machine and could not be fetched. The text is for the user."""


def settings(conf: Mapping[str, str], say: Callable[[str], None] | None = None) -> dict[str, str]:
    """Return the settings, those of the user in `conf` among them, of a session that has Delta Lake.

    Its jars are fetched where they are not there; `say` is called before that. Where `conf` names them, or lists
    packages of them, it is left to Spark. Raises `MissingJars`, and `java.MissingJava`.
    """
    given = dict(conf)
    theirs = [each for each in given.get(EXTENSIONS, "").split(",") if each]
    chosen = {**SETTINGS, **given, EXTENSIONS: ",".join(dict.fromkeys([SETTINGS[EXTENSIONS], *theirs]))}
    if not any("delta-spark" in given.get(name, "") for name in _SOURCES) and not any(
        ivy.spark_jars().glob("delta-spark*.jar")
    ):
        jars = found() or fetched(given.get(_IVY_SETTINGS), say)
        others = [given[JARS]] if given.get(JARS) else []
        chosen[JARS] = ",".join([*map(str, jars), *others])
    return chosen


def found() -> list[Path] | None:
    """Return the jars if they are in our cache, or where Maven keeps its own; None if not."""
    folder = java.folder()
    caches = [] if folder is None else [[folder / _FOLDER / jar.file for jar in _JARS]]
    maven = Path.home() / ".m2" / "repository" / Path(*GROUP.split("."))
    for jars in (*caches, [maven / jar.name / VERSION / jar.file for jar in _JARS]):
        if all(jar.is_file() for jar in jars):
            return jars
    return None


def fetched(ivy_settings: str | None = None, say: Callable[[str], None] | None = None) -> list[Path]:
    """Fetch the jars to our cache and return them. Raises `MissingJars` and `java.MissingJava`."""
    folder = java.folder()
    if folder is None:
        raise MissingJars(_sorry(f"there is no folder to keep them in: set {java.CACHE}"))
    if say is not None:
        say(f"fetching Delta Lake {VERSION}; this is done once")
    target = folder / _FOLDER
    if not ivy.fetch(_JARS, target, ivy_settings):
        raise MissingJars(_sorry("Maven Central was not reached, or has them not", target))
    return [target / jar.file for jar in _JARS]


_FOLDER: Final = f"delta-{VERSION}"


def _sorry(reason: str, folder: Path | None = None) -> str:
    into = "" if folder is None else f", or put {' and '.join(jar.file for jar in _JARS)} into {folder}"
    return (
        f"Delta Lake {VERSION} is not on this machine and could not be fetched: {reason}. "
        f"Where Maven is reachable: {MAVEN}{into}; --format parquet needs neither"
    )


def main() -> int:
    """Fetch the jars where they are not there, and print where they are. Return the exit status."""
    try:
        jars = found() or fetched()
    except (MissingJars, java.MissingJava) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write("".join(f"{jar}\n" for jar in jars))
    return 0


if __name__ == "__main__":
    sys.exit(main())
