"""The progress of a writing job, stored in a folder, so that after a crash the job continues where it was.

The option `progress` names the folder, which driver and executors share. In it are

    id                      the first part of the job's message keys: the same in each run
    <batch>-<partition>     for each partition the number of rows that the broker has confirmed, synced

In each partition a run skips the rows that the folder records as confirmed. At most `window` of the next rows may be
sent again, with the same keys. So each run must have the same rows in the same partitions and in the same order: write
from stored data, sorted within partitions (`repartition(n, "destination").sortWithinPartitions(...)`), with
`spark.sql.adaptive.coalescePartitions.enabled=false`. Each job needs a folder of its own.
"""

import uuid
from pathlib import Path

from stomprelay.journal.disk import replace


class ProgressError(Exception):
    """The progress folder cannot be used. The error's text names the folder and the reason."""


class JobProgress:
    """The folder of one job. Every method raises `ProgressError` if a file cannot be read or written."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def identity(self, wanted: str | None) -> str:
        """Return the id of the job. The first call stores the id. Raises `ProgressError` if that id is not `wanted`."""
        path = self._folder / "id"
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            if not path.exists():
                replace(path, wanted or uuid.uuid4().hex)
            said = path.read_text(encoding="utf-8").strip()
        except OSError as error:
            raise ProgressError(f"progress {path}: {error.strerror}") from None
        if wanted is not None and said != wanted:
            raise ProgressError(
                f"progress {self._folder} is of the job {said}, not of {wanted}: each job needs a folder of its own"
            )
        return said

    def position(self, batch: str, partition: int) -> int:
        """Return how many rows of a partition the broker has confirmed; 0 if there is no record."""
        path = self._path(batch, partition)
        try:
            return int(path.read_text(encoding="ascii"))
        except FileNotFoundError:
            return 0
        except (OSError, ValueError) as error:
            raise ProgressError(f"progress {path}: {error}") from None

    def advance(self, batch: str, partition: int, position: int) -> None:
        """Store on disk that the broker has confirmed the first `position` rows of a partition."""
        path = self._path(batch, partition)
        try:
            replace(path, str(position))
        except OSError as error:
            raise ProgressError(f"progress {path}: {error.strerror}") from None

    def _path(self, batch: str, partition: int) -> Path:
        return self._folder / f"{batch}-{partition}"
