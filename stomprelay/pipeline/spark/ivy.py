"""Files from Maven Central, fetched by Ivy, which comes with Spark: only the named files, without their
dependencies.
"""

import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from stomprelay.pipeline.spark import java

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
    """A file as Maven names it; `classifier` tells it from others of the same name, version and kind."""

    group: str
    name: str
    version: str
    kind: str = "jar"
    classifier: str = ""

    @property
    def file(self) -> str:
        """Return the name of its file after `fetch`, without the classifier."""
        return f"{self.name}-{self.version}.{self.kind}"

    @property
    def maven(self) -> str:
        """Return its Maven coordinates."""
        more = f":{self.kind}:{self.classifier}" if self.classifier else ""
        return f"mvn dependency:get -Dartifact={self.group}:{self.name}:{self.version}{more}"


def fetch(artifacts: Sequence[Artifact], into: Path, ivy_settings: str | None = None) -> bool:
    """Fetch the files from Maven Central, or from the source in the file `ivy_settings`, into a folder, which is made.
    Return whether all came; if not, no file is left there. Raises `java.MissingJava`.
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
    """Return the folder of Spark's own jars, Ivy among them."""
    from pyspark.find_spark_home import _find_spark_home

    return Path(_find_spark_home()) / "jars"


def _dependency(wanted: Artifact) -> str:
    """Return the lines that ask for a file. One with a classifier hangs on a project that has no file of its own."""
    if not wanted.classifier:
        return _DEPENDENCY.format(wanted, "master", "")
    return _DEPENDENCY.format(wanted, "default", f' m:classifier="{wanted.classifier}"')
