"""What Debian does not have, as Maven Central has it: the brokers Artemis and ActiveMQ 6, and Spring's STOMP clients,
in the cache folder.

As a module, `python -m tests.e2e.downloads` fetches what is not there and prints where it is.
"""

import hashlib
import sys
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from bench import spring
from bench.machine import AbsentError
from stomprelay.pipeline.spark import delta, java

_ARTEMIS: Final = delta.Artifact("org.apache.activemq", "apache-artemis", "2.44.0", "tar.gz", "bin")
_ACTIVEMQ: Final = (
    delta.Artifact("org.apache.activemq", "activemq-all", "6.1.4"),
    delta.Artifact("org.apache.activemq", "activemq-jaas", "6.1.4"),
    # What is in activemq-all wants these: Spring the first, each part of ActiveMQ the second.
    delta.Artifact("commons-logging", "commons-logging", "1.3.5"),
    delta.Artifact("org.apache.logging.log4j", "log4j-api", "2.25.2"),
)
_SHA256: Final = {
    "apache-artemis-2.44.0.tar.gz": "1030320a8d1af6376361cd750bef12ef3cf7babc7a363bc6097340961d1e3e29",
    "activemq-all-6.1.4.jar": "4e5631c086d583e0af47a54691ce29898e5962d2af5ae44545b71a4d07daaf09",
    "activemq-jaas-6.1.4.jar": "736063840bc7df5efbce337e64241bf46e7b653fe580a745639dcf28865ee6ca",
    "commons-logging-1.3.5.jar": "6d7a744e4027649fbb50895df9497d109f98c766a637062fe8d2eabbb3140ba4",
    "log4j-api-2.25.2.jar": "9fd66c9fe0bea06fa9666c147989a46cafaa92b4a88753697d3945cc43338cbb",
}


def artemis() -> Path | None:
    """Return Artemis' home; None where it has not been fetched."""
    home = _place(f"{_ARTEMIS.name}-{_ARTEMIS.version}")
    return home if home is not None and home.is_dir() else None


def activemq_6() -> list[Path] | None:
    """Return the jars of ActiveMQ 6; None where they have not been fetched."""
    folder = _place(f"activemq-{_ACTIVEMQ[0].version}")
    return [folder / jar.file for jar in _ACTIVEMQ] if folder is not None and folder.is_dir() else None


def _place(name: str) -> Path | None:
    folder = java.folder()
    return None if folder is None else folder / name


def _fetch(folder: Path) -> None:
    """Put both into the cache folder, each as a whole. Raises `SystemExit` where they cannot be had as they were."""
    with TemporaryDirectory(dir=folder, prefix=".brokers-") as name:
        files, brokers = Path(name) / "files", Path(name) / "brokers"
        if not delta.fetch((_ARTEMIS, *_ACTIVEMQ), files):
            raise SystemExit(f"Maven Central was not reached, or has not {' and '.join(_SHA256)}")
        for file, digest in _SHA256.items():
            if hashlib.sha256((files / file).read_bytes()).hexdigest() != digest:
                raise SystemExit(f"{file} of Maven Central is not the one that was pinned")
        with tarfile.open(files / _ARTEMIS.file) as archive:
            archive.extractall(brokers, filter="data")
        (files / _ARTEMIS.file).unlink()
        files.rename(brokers / f"activemq-{_ACTIVEMQ[0].version}")
        for broker in brokers.iterdir():
            if not (folder / broker.name).exists():
                broker.rename(folder / broker.name)


def main() -> int:
    """Fetch what is not there, and print where it is. Return the exit status."""
    folder = java.folder()
    if folder is None:
        raise SystemExit(f"there is no folder to keep the brokers in: set {java.CACHE}")
    if artemis() is None or activemq_6() is None:
        try:
            _fetch(folder)
        except java.MissingJava as error:
            raise SystemExit(str(error)) from None
    sys.stdout.write("".join(f"{path}\n" for path in (artemis(), *(activemq_6() or ()))))
    try:
        sys.stdout.write(f"{spring.jars()}\n")
    except AbsentError as error:
        sys.stderr.write(f"Spring's clients are not there: {error}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
