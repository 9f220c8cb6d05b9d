"""The folder of one replay: the selected messages, which no longer change, and how many of them are confirmed.

    lock                    locked by the run that is at work
    replay.json             the options, and the names of the files; written last, when the selection is complete
    selection-<run>/        the messages, Parquet; a file for each connection, in the order in which they are sent
    progress/               how many messages of each file are confirmed; see `stomp.progress`

Only its owner can read the folder, because there are messages in it.
"""

import json
import shutil
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, NamedTuple

from stomprelay.journal.disk import lock, replace, sync_path
from stomprelay.pipeline.replay.selection import COLUMNS, TURN
from stomprelay.pipeline.spark.errors import as_value_error
from stomprelay.pipeline.stomp.progress import JobProgress

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


VERSION: Final = 1
BATCH: Final = "0"
"""The batch number of a replay for the sink. A replay is a single batch."""

_LOCK: Final = "lock"
_RECORD: Final = "replay.json"
_SELECTION: Final = "selection-"
_PROGRESS: Final = "progress"


_OCTETS: Final = 4 << 20
"""Approximate bytes of an Arrow batch in memory."""
_ROWS: Final = 2000


class StateError(ValueError):
    """The folder cannot be used for this replay. The error's text is for the user."""


@dataclass(frozen=True)
class Frozen:
    """A selection that no longer changes. `asked`: its options. `files`: name and number of messages of each file."""

    asked: Mapping[str, Any]
    files: Sequence[tuple[str, int]]

    @property
    def messages(self) -> int:
        """Return how many messages all files have together."""
        return sum(count for _, count in self.files)


class ReplayState(AbstractContextManager["ReplayState"]):
    """The folder of one replay. It is locked while the context is entered. Entering raises `StateError`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        self._lock: IO[bytes] | None = None

    def __enter__(self) -> "ReplayState":
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if any(self.folder.iterdir()) and not (self.folder / _LOCK).exists():
                raise self._error("is not empty, and no replay's: name a folder of its own")
            self._lock = (self.folder / _LOCK).open("ab")
            if lock(self._lock.fileno(), wait=False) is False:
                self._lock.close()
                raise self._error("is in use: another replay is at work on it")
        except OSError as error:
            raise self._error(f"cannot be used: {error.strerror}") from None
        return self

    def __exit__(self, *_: object) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    @property
    def progress(self) -> Path:
        """Return the folder that counts the confirmed messages."""
        return self.folder / _PROGRESS

    def frozen(self, asked: Mapping[str, Any]) -> Frozen | None:
        """Return the frozen selection, if any. Raises `StateError` if it is unreadable or has other options."""
        path = self.folder / _RECORD
        try:
            said = json.loads(path.read_text(encoding="utf-8"))
            version = said.pop("version")
            if version != VERSION:
                raise self._error(f"is of another version of this software (format {version})")
            known = Frozen(said["asked"], [(str(name), int(count)) for name, count in said["files"]])
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise StateError(f"{path} cannot be read: {error}") from None
        for name in {**known.asked, **asked}:
            before, now = known.asked.get(name), asked.get(name)
            if before != now:
                raise self._error(
                    f"is of a replay with {_option(name, before)}, this one has {_option(name, now)}: "
                    "say the same again to go on with that one, or name another folder"
                )
        for file, _ in known.files:
            if not (self.folder / file).is_file():
                raise self._error(f"lacks the file {file}, so that replay cannot go on")
        return known

    def place(self) -> Path:
        """Remove an unfinished selection. Return the path to which to write a new one. Call `freeze` afterwards."""
        for path in self.folder.glob(f"{_SELECTION}*"):
            shutil.rmtree(path, ignore_errors=True)
        shutil.rmtree(self.progress, ignore_errors=True)
        return self.folder / f"{_SELECTION}{uuid.uuid4().hex[:8]}"

    def freeze(self, asked: Mapping[str, Any], files: Sequence[tuple[Path, int]]) -> Frozen:
        """Sync these files to disk, then make them the selection and return it. Raises `OSError`."""
        frozen = Frozen(asked, [(path.relative_to(self.folder).as_posix(), count) for path, count in files])
        for path, _ in files:
            sync_path(path)
        for folder in {path.parent for path, _ in files}:
            sync_path(folder)
        replace(self.folder / _RECORD, json.dumps({"version": VERSION, **asdict(frozen)}, indent=1))
        return frozen

    def confirmed(self, frozen: Frozen) -> int:
        """Return how many messages the brokers have confirmed. Raises `ProgressError`."""
        progress = JobProgress(self.progress)
        return sum(progress.position(BATCH, number) for number in range(len(frozen.files)))

    def _error(self, text: str) -> StateError:
        return StateError(f"--state {self.folder} {text}")


def _option(name: str, value: Any) -> str:
    option = f"--{name.replace('_', '-')}"
    if value in (None, False, []):
        return f"no {option}"
    return option if value is True else f"{option} {value!r}"


class ConfirmedBatch(NamedTuple):
    """Stands for a batch of rows that earlier runs have sent and brokers have confirmed."""

    num_rows: int


def write(rows: "DataFrame", folder: Path, connections: int) -> list[tuple[Path, int]]:
    """Write the rows of `selected` that can be sent. All rows of a destination are in the same file. Return the files,
    each with its number of messages. Raises `ValueError`.
    """
    import pyarrow.parquet as pq
    from pyspark.sql import functions as f

    ordered = (
        rows.where(f.col("reason").isNull())
        .repartition(connections, "destination")
        .sortWithinPartitions(*TURN)
        .select(*COLUMNS)
    )
    with as_value_error():
        ordered.write.option("maxRecordsPerFile", 0).parquet(f"file://{folder}")
    paths = sorted(folder.glob("part-*.parquet"))
    return [(path, count) for path in paths if (count := pq.ParquetFile(path).metadata.num_rows)]


def read(path: Path, passed: int) -> Iterator[Any]:
    """Yield a file's messages as Arrow batches. The first `passed` messages are confirmed. For some of them a
    `ConfirmedBatch` may be yielded in place of a batch.
    """
    import pyarrow.parquet as pq

    with pq.ParquetFile(path, buffer_size=1 << 20) as file:
        known = file.metadata
        octets = sum(known.row_group(group).total_byte_size for group in range(known.num_row_groups))
        size = max(1, min(_ROWS, _OCTETS * known.num_rows // max(octets, 1)))
        done = 0
        for group in range(known.num_row_groups):
            count = known.row_group(group).num_rows
            done += count
            if done <= passed:
                yield ConfirmedBatch(count)
            else:
                yield from file.iter_batches(size, row_groups=[group])
