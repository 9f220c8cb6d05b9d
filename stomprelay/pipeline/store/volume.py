"""Files and folders that Spark can reach, through Hadoop's file systems."""

import posixpath
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def local(path: str) -> Path | None:
    """Return the path of a file on this machine, None for another URI. Escapes such as `%20` are kept."""
    scheme = urlsplit(path).scheme if ":" in path.split("/", 1)[0] else ""
    if not scheme:
        return Path(path)
    if scheme != "file":
        return None
    rest = path.partition(":")[2]
    if rest.startswith("//"):
        rest = "/" + rest[2:].partition("/")[2]
    return Path(rest)


def absolute(path: str) -> str:
    """Return the path as an absolute path, independent of Spark's working folder. A URI is unchanged."""
    place = local(path)
    return path if place is None or ":" in path.split("/", 1)[0] else str(place.absolute())


def literal(path: str) -> str:
    """Return the path with the special characters of Hadoop's patterns escaped, so that it matches only itself."""
    return "".join(f"\\{letter}" if letter in "*?[]{}\\" else letter for letter in path)


class Volume:
    """The files that a Spark session can reach. Arguments are paths, or URIs that Spark understands."""

    def __init__(self, spark: "SparkSession") -> None:
        jvm: Any = spark._jvm
        # To look up a name in Java, or to copy Hadoop's settings, takes as long as one of the calls below.
        self._path, self._files = jvm.org.apache.hadoop.fs.Path, jvm.org.apache.hadoop.fs.FileUtil
        self._settings = spark._jsparkSession.sessionState().newHadoopConf()
        self._systems: dict[tuple[str, str], Any] = {}

    def _at(self, path: str) -> tuple[Any, Any]:
        """Return the file system of a path, and the path, as Java's objects."""
        place = self._path(path)
        which = urlsplit(path)[:2] if ":" in path.split("/", 1)[0] else ("", "")
        system = self._systems.get(which)
        if system is None:
            system = self._systems[which] = place.getFileSystem(self._settings)
        return system, place

    def exists(self, path: str) -> bool:
        """Return whether there is a file or a folder of this name."""
        system, place = self._at(path)
        return bool(system.exists(place))

    def size(self, path: str) -> int:
        """Return the size of a file in bytes, 0 if there is no such file."""
        system, place = self._at(path)
        return int(system.getFileStatus(place).getLen()) if system.exists(place) else 0

    def find(self, root: str, pattern: str) -> list[str]:
        """Return the paths under `root` that match a pattern such as `hour=*/batch=3`, sorted."""
        system, place = self._at(posixpath.join(literal(root), pattern))
        return sorted(
            str(found.toString()) for found in self._files.stat2Paths(system.globStatus(place)) or []
        )

    def remove(self, path: str) -> None:
        """Remove a file, or a folder with its contents."""
        system, place = self._at(path)
        system.delete(place, True)

    def rename(self, path: str, target: str) -> None:
        """Rename a file or a folder. Missing folders above `target` are made. Raises `OSError`."""
        system, place = self._at(path)
        aim = self._at(target)[1]
        system.mkdirs(aim.getParent())
        if not (system.exists(place) and system.rename(place, aim)):
            raise OSError(f"{path} cannot be renamed to {target}")

    def text(self, path: str) -> str | None:
        """Return the text of a small file in UTF-8; None if there is no such file."""
        system, place = self._at(path)
        if not system.exists(place):
            return None
        source = system.open(place)
        try:
            return bytes(source.readAllBytes()).decode()
        finally:
            source.close()

    def put(self, path: str, text: str) -> None:
        """Write a small file in UTF-8. On this machine, this is one step, if the file system can. Raises `OSError`."""
        system, place = self._at(path)
        partial = self._at(posixpath.join(posixpath.dirname(path), f"_{posixpath.basename(path)}"))[1]
        out = system.create(partial, True)
        out.write(bytearray(text.encode()))
        out.close()
        if local(path) is not None and system.rename(partial, place):
            return
        system.delete(place, False)  # only some file systems replace a file
        if not system.rename(partial, place):
            raise OSError(f"{path} cannot be written")
