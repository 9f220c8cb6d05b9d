"""Delta Lake for a Spark session: where its jars are, how to fetch them, and the settings that enable it.

Spark's own `spark.jars.packages` would work, too. But it fetches everything that Delta Lake's build names, even a
second Hadoop. At each start it needs the network and writes some hundred lines to the terminal. Only two jars are
needed. Ivy, which comes with Spark, fetches these jars once.

The command `python -m stomprelay.pipeline.spark.delta` fetches the jars ahead of time and prints where they are.
"""

import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from stomprelay.pipeline.spark import java
from stomprelay.pipeline.spark.errors import MissingSpark

_PATIENCE: Final = 300
"""Seconds after which fetching is given up."""
_MODULE: Final = """<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
<info organisation="stomprelay" module="wanted"/>
<configurations><conf name="default"/></configurations><dependencies>{}</dependencies></ivy-module>"""
_DEPENDENCY: Final = (
    '<dependency org="{0.group}" name="{0.name}" rev="{0.version}" transitive="false" conf="default-&gt;{1}">'
    '<artifact name="{0.name}" type="{0.kind}" ext="{0.kind}"{2}/></dependency>'
)


class Artifact(NamedTuple):
    """A file in Maven. `classifier` distinguishes it from other files with the same name, version and kind."""

    group: str
    name: str
    version: str
    kind: str = "jar"
    classifier: str = ""

    @property
    def file(self) -> str:
        """Return the name that the file has after `fetch`, without the classifier."""
        return f"{self.name}-{self.version}.{self.kind}"

    @property
    def maven(self) -> str:
        """Return the Maven command that fetches the file."""
        more = f":{self.kind}:{self.classifier}" if self.classifier else ""
        return f"mvn dependency:get -Dartifact={self.group}:{self.name}:{self.version}{more}"


VERSION: Final = "4.4.0"
SPARK: Final = "4.2"
"""The Spark for which this build of Delta Lake is made; setup.cfg requires it."""
GROUP: Final = "io.delta"
ARTIFACTS: Final = (f"delta-spark_{SPARK}_2.13", "delta-storage")
_JARS: Final = tuple(Artifact(GROUP, name, VERSION) for name in ARTIFACTS)
MAVEN: Final = _JARS[0].maven
"""The command with which users put the jars where `found` looks for them."""

EXTENSIONS: Final = "spark.sql.extensions"
JARS: Final = "spark.jars"
SETTINGS: Final = {
    EXTENSIONS: "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # Our logs are short: 50 tasks, the default, take longer to start than to read such a log.
    "spark.databricks.delta.snapshotPartitions": "2",
}
_SOURCES: Final = (JARS, "spark.jars.packages", "spark.driver.extraClassPath")


class MissingJars(MissingSpark):
    """The jars of Delta Lake are not on this machine and could not be fetched. The text is for the user."""


def settings(conf: Mapping[str, str], say: Callable[[str], None] | None = None) -> dict[str, str]:
    """Return the settings of a session that has Delta Lake, including the user's settings `conf`. If `conf` does not
    name the jars or their package, missing jars are fetched. `say` is called before that. Raises `MissingJars` and
    `java.MissingJava`.
    """
    given = dict(conf)
    theirs = [each for each in given.get(EXTENSIONS, "").split(",") if each]
    chosen = {**SETTINGS, **given, EXTENSIONS: ",".join(dict.fromkeys([SETTINGS[EXTENSIONS], *theirs]))}
    if not any("delta-spark" in given.get(name, "") for name in _SOURCES) and not any(
        spark_jars().glob("delta-spark*.jar")
    ):
        jars = found() or fetched(given.get("spark.jars.ivySettings"), say)
        others = [given[JARS]] if given.get(JARS) else []
        chosen[JARS] = ",".join([*map(str, jars), *others])
    return chosen


def found() -> list[Path] | None:
    """Return the jars if they are in our cache or in Maven's cache; else None."""
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
    if not fetch(_JARS, target, ivy_settings):
        raise MissingJars(_sorry("Maven Central was not reached, or has them not", target))
    return [target / jar.file for jar in _JARS]


_FOLDER: Final = f"delta-{VERSION}"


def _sorry(reason: str, folder: Path | None = None) -> str:
    into = "" if folder is None else f", or put {' and '.join(jar.file for jar in _JARS)} into {folder}"
    return (
        f"Delta Lake {VERSION} is not on this machine and could not be fetched: {reason}. "
        f"Where Maven is reachable: {MAVEN}{into}; --format parquet needs neither"
    )


# Files from Maven Central, by Ivy


def fetch(artifacts: Sequence[Artifact], into: Path, ivy_settings: str | None = None) -> bool:
    """Fetch the files from Maven Central, or from the source in the file `ivy_settings`, into a folder. A missing
    folder is made. Return whether all files came; if not, no file is left there. Raises `java.MissingJava`.
    """
    found_java = java.find()
    with TemporaryDirectory(dir=into.parent, prefix=f".{into.name}-") as name:
        place = Path(name)
        module = place / "ivy.xml"
        module.write_text(_MODULE.format("".join(map(_dependency, artifacts))), encoding="utf-8")
        command = [
            str(found_java.home / "bin" / "java"), "-cp", str(spark_jars() / "*"), "org.apache.ivy.Main",
            *(() if ivy_settings is None else ("-settings", ivy_settings)),
            "-ivy", str(module), "-cache", str(place / "cache"),
            "-types", *sorted({each.kind for each in artifacts}), "-m2compatible", "-error",
            "-retrieve", f"{place}/[artifact]-[revision].[ext]",
        ]  # fmt: skip
        with suppress(subprocess.TimeoutExpired):
            subprocess.run(command, capture_output=True, check=False, timeout=_PATIENCE)
        files = [place / each.file for each in artifacts]
        if not all(file.is_file() for file in files):
            return False
        into.mkdir(exist_ok=True)
        for file in files:
            file.replace(into / file.name)
    return True


def spark_jars() -> Path:
    """Return the folder of Spark's own jars, which include Ivy."""
    from pyspark.find_spark_home import _find_spark_home

    return Path(_find_spark_home()) / "jars"


def _dependency(wanted: Artifact) -> str:
    """Return the XML element that asks Ivy for a file. With a classifier, the project need not have a main file."""
    if not wanted.classifier:
        return _DEPENDENCY.format(wanted, "master", "")
    return _DEPENDENCY.format(wanted, "default", f' m:classifier="{wanted.classifier}"')


def main() -> int:
    """Fetch the jars if they are missing, and print where they are. Return the exit status."""
    try:
        jars = found() or fetched()
    except (MissingJars, java.MissingJava) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write("".join(f"{jar}\n" for jar in jars))
    return 0


if __name__ == "__main__":
    sys.exit(main())
