"""What a task of Spark does in a replay: it sends one file's messages over one connection, by the code of the sink."""

import fcntl
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final

import pyarrow as pa

from stomprelay.pipeline.replay.state import BATCH, Share, read
from stomprelay.pipeline.stomp.client import Lost
from stomprelay.pipeline.stomp.options import Sink
from stomprelay.pipeline.stomp.progress import ProgressError
from stomprelay.pipeline.stomp.sending import Job, SharedRate, TaskSender

DDL: Final = "number int, sent bigint, error string"
"""What a task returns: its share, messages that were confirmed to it, and what it failed of."""
SCHEMA: Final = pa.schema([("number", pa.int32()), ("sent", pa.int64()), ("error", pa.string())])

LOGGER: Final = "stomprelay.stomp"
"""The sink's log."""

_TURN: Final = 60.0
"""Seconds that the task of a run which was killed has to end."""
_PAUSE: Final = 0.05


def sender(
    sink: Sink, shares: Sequence[Share], id: str, log: str
) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """What runs in Spark's Python processes: numbers of shares to rows of `DDL`. A failure is in the row, for
    Spark would make a page of it. `log`: how much of what the sink logs is written, one of `launch.LEVELS`.
    """

    def send(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                with logged(log):
                    sent, error = run(sink, shares[number], id)
                yield pa.RecordBatch.from_arrays(
                    [
                        pa.array([number], pa.int32()),
                        pa.array([sent], pa.int64()),
                        pa.array([error], pa.string()),
                    ],
                    schema=SCHEMA,
                )

    return send


def run(sink: Sink, share: Share, id: str) -> tuple[int, str | None]:
    """Send what is not confirmed of a share. Returns how many messages were, and what went wrong, if anything."""
    assert sink.progress is not None
    try:
        with alone(sink.progress / f".{share.number}"):
            pace = SharedRate.shared(sink.rate, sink.progress, id)
            sending = TaskSender(sink, Job(id, BATCH, share.number), pace)
            return sending.run(read(share.path, sending.skipped)), None
    except (Lost, ProgressError, ValueError, OSError) as error:
        return 0, " ".join(str(error).split())


@contextmanager
def logged(level: str) -> Iterator[None]:
    """While no more than this of what the sink logs is written: its reasons are in the answer, too."""
    log = logging.getLogger(LOGGER)
    before = log.level
    if level == "info":
        logging.basicConfig()  # without it warnings are the least that is written
    log.setLevel(logging.CRITICAL + 1 if level == "off" else level.upper())
    try:
        yield
    finally:
        log.setLevel(before)


@contextmanager
def alone(path: Path, within: float = _TURN) -> Iterator[None]:
    """While no other process sends the same: after a run was killed its tasks may live for a moment. Raises
    `ProgressError` when the other one does not end.
    """
    with path.open("ab") as file:
        deadline = time.monotonic() + within
        while not _locked(file):
            if time.monotonic() > deadline:
                raise ProgressError(f"progress {path}: another process has been sending for {within:g} s")
            time.sleep(_PAUSE)
        yield


def _locked(file: IO[bytes]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        pass  # a file system without locks
    return True
