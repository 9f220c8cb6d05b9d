"""A task of Spark in a replay: it sends one file's messages over one connection, with the code of the sink."""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from stomprelay.journal.disk import lock
from stomprelay.pipeline.replay.state import BATCH, read
from stomprelay.pipeline.stomp.client import SessionLost
from stomprelay.pipeline.stomp.options import Sink
from stomprelay.pipeline.stomp.progress import ProgressError
from stomprelay.pipeline.stomp.sending import Job, SharedRate, TaskSender

DDL: Final = "number int, sent bigint, error string"
"""The columns of a task's result: the file's number, how many messages were sent, and why the task failed, or null."""
SCHEMA: Final = pa.schema([("number", pa.int32()), ("sent", pa.int64()), ("error", pa.string())])

LOGGER: Final = "stomprelay.stomp"
"""The name of the sink's logger."""

_TURN: Final = 60.0
"""Seconds to wait for the end of a task of an earlier run that was killed."""
_PAUSE: Final = 0.05


def sender(sink: Sink, paths: Sequence[Path], id: str, log: str) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Return the function that runs in each task. It gets numbers of files, sends these files, and yields a row of
    `DDL` for each file. `log`: one of `LEVELS`.
    """

    def send(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                with logged(log):
                    sent, error = run(sink, number, paths[number], id)
                row = {"number": number, "sent": sent, "error": error}
                yield pa.RecordBatch.from_pylist([row], SCHEMA)

    return send


def run(sink: Sink, number: int, path: Path, id: str) -> tuple[int, str | None]:
    """Send the unconfirmed messages of a file. Return their number and None; or, after a failure, 0 and its reason."""
    assert sink.progress is not None
    try:
        with alone(sink.progress / f".{number}"):
            pace = SharedRate.shared(sink.rate, sink.progress, id)
            sending = TaskSender(sink, Job(id, BATCH, number), pace)
            return sending.run(read(path, sending.skipped)), None
    except (SessionLost, ProgressError, ValueError, OSError) as error:
        return 0, " ".join(str(error).split())


@contextmanager
def logged(level: str) -> Iterator[None]:
    """Limit the sink's log to this level while the context is entered. A task's result has the sink's errors, too."""
    log = logging.getLogger(LOGGER)
    before = log.level
    if level == "info":
        logging.basicConfig()  # without this, only warnings and errors are written
    log.setLevel(logging.CRITICAL + 1 if level == "off" else level.upper())
    try:
        yield
    finally:
        log.setLevel(before)


@contextmanager
def alone(path: Path, within: float = _TURN) -> Iterator[None]:
    """Lock `path` while the context is entered. Raises `ProgressError` if it is still locked after `within` seconds."""
    with path.open("ab") as file:
        deadline = time.monotonic() + within
        while lock(file.fileno(), wait=False) is False:
            if time.monotonic() > deadline:
                raise ProgressError(f"progress {path}: another process has been sending for {within:g} s")
            time.sleep(_PAUSE)
        yield
