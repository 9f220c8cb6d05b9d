"""How far a job of writing has come, in a folder, so that after a crash the same job goes on where it was.

The option `progress` names the folder, which driver and executors share. In it are

    id                      the first part of the job's message keys: the same in each run
    <batch>-<partition>     for each partition the number of rows that the broker has confirmed, synced

A run skips, in each partition, the rows that it finds there as confirmed. Those behind them which were sent before the
crash go out again, with the same keys: at most `window` of each partition for each time that its task was cut short. So
each run must have the same rows in the same partitions and in the same order: write from stored data with an explicit
sort within partitions (`repartition(n, "destination").sortWithinPartitions(...)`), with adaptive execution not
coalescing them (`spark.sql.adaptive.coalescePartitions.enabled=false`). A job that is through writes nothing when it is
run again. Another job needs another folder.
"""

import os
import uuid
from pathlib import Path

from stomprelay.journal.disk import sync_folder


class ProgressError(Exception):
    """A folder that cannot be used; the text has which, and why."""


class JobProgress:
    """The folder of one job. Raises `ProgressError` for what cannot be read or written."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def identity(self, wanted: str | None) -> str:
        """The id of the job: what stands in the folder, else the one that is wanted, else one never used before."""
        path = self._folder / "id"
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            if not path.exists():
                _replace(path, wanted or uuid.uuid4().hex)
            said = path.read_text(encoding="utf-8").strip()
        except OSError as error:
            raise ProgressError(f"progress {path}: {error.strerror}") from None
        if wanted is not None and said != wanted:
            raise ProgressError(
                f"progress {self._folder} is of the job {said}, not of {wanted}: each job needs a folder of its own"
            )
        return said

    def position(self, batch: str, partition: int) -> int:
        """How many rows of a partition are confirmed."""
        path = self._path(batch, partition)
        try:
            return int(path.read_text(encoding="ascii"))
        except FileNotFoundError:
            return 0
        except (OSError, ValueError) as error:
            raise ProgressError(f"progress {path}: {error}") from None

    def advance(self, batch: str, partition: int, position: int) -> None:
        """So many are."""
        path = self._path(batch, partition)
        try:
            _replace(path, str(position))
        except OSError as error:
            raise ProgressError(f"progress {path}: {error.strerror}") from None

    def _path(self, batch: str, partition: int) -> Path:
        return self._folder / f"{batch}-{partition}"


def _replace(path: Path, text: str) -> None:
    """Write a file as a whole, or not at all."""
    new = path.with_name(f".{path.name}.{os.getpid()}")
    with new.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
    sync_folder(path.parent)
