"""Spring's relay, to be measured beside: jars by Maven, once, then compiled and started before a null broker."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final
from zlib import crc32

from bench.contenders import PLAIN, Contender, listening
from bench.machine import AbsentError, which
from stomprelay.pipeline.spark import java
from tests.e2e.ports import free_port

SPRING: Final = "spring"
LOGIN: Final = "bench"
"""The null broker takes any."""

_SOURCES: Final = Path(__file__).parent
_POM: Final = _SOURCES / "pom.xml"
_FETCH: Final = "org.apache.maven.plugins:maven-dependency-plugin:copy-dependencies"
_PATIENCE: Final = 300.0
"""Seconds after which fetching or compiling is given up."""


def _place() -> Path | None:
    cache = java.folder()
    return None if cache is None else cache / f"bench-spring-{crc32(_POM.read_bytes()):08x}"


def fetched() -> Path | None:
    """The folder with the jars that `pom.xml` names and what they need; None where nobody has fetched them."""
    folder = _place()
    return folder if folder is not None and folder.is_dir() else None


def jars() -> Path:
    """The folder with the jars, fetched where it is not there. Raises `AbsentError`."""
    folder = _place()
    if folder is None:
        raise AbsentError(f"there is no folder to keep Spring's jars in: set {java.CACHE}")
    if folder.is_dir():
        return folder
    maven = which("mvn")
    if maven is None:
        raise AbsentError("Spring's jars are fetched by Maven (Debian package maven)")
    with TemporaryDirectory(dir=folder.parent, prefix=".spring-") as name:
        place = Path(name) / "jars"
        _run("fetching Spring", maven, "-q", "-B", "-f", str(_POM), _FETCH, f"-DoutputDirectory={place}")
        place.replace(folder)
    return folder


def _run(doing: str, *command: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE, check=False)
    except subprocess.TimeoutExpired:
        raise AbsentError(f"{doing} took more than {_PATIENCE:.0f} seconds") from None
    if done.returncode:
        raise AbsentError(f"{doing} failed: {(done.stdout + done.stderr).strip()[-400:]}")


@contextmanager
def spring(broker: int, directory: Path) -> Iterator[Contender]:
    """Spring's relay in front of a broker's port. Raises `AbsentError`, or `RuntimeError` when it does not listen."""
    compiler, runtime = which("javac"), which("java")
    if compiler is None or runtime is None:
        raise AbsentError("Spring's relay needs a JDK (Debian package default-jdk-headless)")
    classes, place = directory / "classes", directory / "tomcat"
    path = f"{jars()}/*"
    _run("compiling Relay.java", compiler, "-cp", path, "-d", str(classes), str(_SOURCES / "Relay.java"))
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    port = free_port()
    command = [
        *(runtime, "-Xmx512m", "-cp", f"{path}:{classes}", "Relay"),
        *(str(port), str(broker), LOGIN, str(place)),
    ]
    with listening(SPRING, command, [port], directory) as child:
        yield Contender(SPRING, {PLAIN: port}, child.pid)
