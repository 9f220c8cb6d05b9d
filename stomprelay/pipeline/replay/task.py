"""What a task of Spark does in a replay: it sends one file's messages over one connection, by the code of the sink."""

import fcntl
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final

import pyarrow as pa

from stomprelay.pipeline.replay.freezing import read
from stomprelay.pipeline.replay.state import BATCH, Share
from stomprelay.pipeline.stomp import sends
from stomprelay.pipeline.stomp.client import Lost
from stomprelay.pipeline.stomp.options import Sink
from stomprelay.pipeline.stomp.pace import Pace
from stomprelay.pipeline.stomp.progress import ProgressError
from stomprelay.pipeline.stomp.sending import Job, Sending

DDL: Final = "number int, sent bigint, error string"
"""What a task answers: its share, messages that were confirmed to it, and what it failed of."""
SCHEMA: Final = pa.schema([("number", pa.int32()), ("sent", pa.int64()), ("error", pa.string())])

_TURN: Final = 60.0
"""Seconds that the task of a run which was killed has to end."""
_PAUSE: Final = 0.05


class Sends(sends.Sends):
    """As the sink's, but for `content-length`, which is only said where the message had one: by it ActiveMQ tells
    octets from text.
    """

    def of(self, batch: Any, first: int) -> Iterator[tuple[bytes, bytes]]:
        """As the sink's."""
        had = batch.column("content_length").to_pylist()
        for (head, body), said in zip(super().of(batch, first), had, strict=True):
            if not said and b"\0" not in body:
                # A whole line, behind that of the destination; there is no other one of this name.
                head = head.replace(b"\ncontent-length:%d\n" % len(body), b"\n", 1)  # noqa: PLW2901
            yield head, body


class Replaying(Sending):
    """As the sink's, but what a crash may make it say again is bounded by the window, not by time: no more than `slack`
    confirmed messages are not noted.
    """

    def __init__(self, sink: Sink, job: Job, pace: Pace | None, slack: int) -> None:
        super().__init__(sink, job, pace)
        self._slack = slack
        self._sends = Sends(sink, f"{job.id}/{job.batch}/{job.partition}")

    def _note(self, *, always: bool = False) -> None:
        super()._note(always=always or self._window.confirmed - self._noted >= self._slack)


def sender(
    sink: Sink, shares: Sequence[Share], id: str, slack: int
) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """What runs in Spark's Python processes: numbers of shares to rows of `DDL`. A failure is told in the row, for
    Spark would make a page of it.
    """

    def send(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                sent, error = run(sink, shares[number], id, slack)
                yield pa.RecordBatch.from_arrays(
                    [
                        pa.array([number], pa.int32()),
                        pa.array([sent], pa.int64()),
                        pa.array([error], pa.string()),
                    ],
                    schema=SCHEMA,
                )

    return send


def run(sink: Sink, share: Share, id: str, slack: int) -> tuple[int, str | None]:
    """Send what is not confirmed of a share. Answers how many messages were, and what went wrong, if anything."""
    assert sink.progress is not None
    pace = None if sink.rate is None else Pace(sink.progress / ".pace", sink.rate)
    try:
        with alone(sink.progress / f".{share.number}"):
            sending = Replaying(sink, Job(id, BATCH, share.number), pace, slack)
            if sending.skipped >= share.messages:
                return 0, None
            return sending.run(read(share.path, sending.skipped)), None
    except (Lost, ProgressError, ValueError, OSError) as error:
        return 0, " ".join(str(error).split())


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
