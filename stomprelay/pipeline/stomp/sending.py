"""The rows of one task on their way to the broker, over one connection, in their order."""

import time
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final, NamedTuple

from stomprelay.pipeline.stomp.client import Client, Lost
from stomprelay.pipeline.stomp.options import Sink
from stomprelay.pipeline.stomp.pace import Pace
from stomprelay.pipeline.stomp.progress import Progress
from stomprelay.pipeline.stomp.sends import Sends
from stomprelay.pipeline.stomp.window import Window
from stomprelay.wire.dialect import V1_2
from stomprelay.wire.names import RECEIPT, RECEIPT_ID

OFTEN: Final = 0.5
"""Seconds between two notes of the progress, unless the window asks for one before."""
CHUNK: Final = 250
"""Rows that are written together."""


Row = tuple[bytes, bytes]
"""Header lines and body of a SEND."""


class Job(NamedTuple):
    """What a task is part of: keys begin with `id/batch/partition`."""

    id: str
    batch: str
    partition: int
    attempt: int = 0


class Sending:
    """Sends the rows of one task; `run` returns when the broker has confirmed all of them. Raises `Lost`,
    `ProgressError`, and `SchemaError` for a row that cannot be sent.

    Whenever it ends, however it ends, no more than a window has been sent of which the progress does not know: before
    more goes out it is noted, at most once for what is written together.
    """

    def __init__(self, sink: Sink, job: Job, pace: Pace | None) -> None:
        self._sink = sink
        self._job = job
        self._pace = pace
        self._progress = None if sink.progress is None else Progress(sink.progress)
        self.skipped = self._progress.position(job.batch, job.partition) if self._progress else 0
        self._noted = self.skipped
        self._noted_at = time.monotonic()
        self._heard = 0.0
        self._sends = Sends(sink, f"{job.id}/{job.batch}/{job.partition}")
        self._window = Window(sink.window, 1, self.skipped)
        # Less than what a window has room for beside a group that has not asked for its receipt yet.
        self._size = min(CHUNK, max(1, sink.window // 2), pace.some if pace else CHUNK)

    def run(self, batches: Iterable[Any]) -> int:
        """Send what is not confirmed from an earlier run. Answers how many were. Without rows nobody is spoken to."""
        rows = self._rows(batches)
        chunk = list(islice(rows, self._size))
        try:
            while chunk:
                chunk = self._session(chunk, rows)
        finally:
            self._note(always=True)
        return self._window.confirmed - self.skipped

    def _session(self, chunk: list[Row], rows: Iterator[Row]) -> list[Row]:
        """Send this and the further rows over one connection until all are confirmed. Answers what it did not send:
        after a failover to a broker whose receipts vouch for one row each it takes a session that asks for those.
        """
        number = self._job.partition + self._job.attempt * 100_000
        with self._sink.connection.client(f"spark-sink-{self._job.partition}", number) as client:
            client.connect(self._sink.connection.timeout)
            grouped = client.cumulative and self._pace is None
            every = max(1, self._sink.window // 4) if grouped else 1
            self._window = Window(self._sink.window, every, self._window.confirmed)
            self._heard = time.monotonic()
            while chunk and self._wait(client, len(chunk)):
                self._say(client, chunk)
                chunk = list(islice(rows, self._size))
            client.disconnect(self._sink.connection.timeout)
            self._window.settled()
            return chunk

    def _rows(self, batches: Iterable[Any]) -> Iterator[Row]:
        number = 0
        for batch in batches:
            after = number + batch.num_rows
            if after > self.skipped:
                at = max(number, self.skipped)
                yield from self._sends.of(batch.slice(at - number), at)
            number = after

    def _say(self, client: Client, rows: list[Row]) -> None:
        frames = []
        for head, body in rows:
            receipt = self._window.sent()
            asked = b"" if receipt is None else b"receipt:%b\n" % receipt
            frames.append(b"SEND\n%b%b\n%b\0" % (head, asked, body))
        client.say(b"".join(frames))
        self._hear(client, 0.0)

    def _wait(self, client: Client, count: int) -> bool:
        """Until so many more may go out. Answers whether they ever may over this connection."""
        if self._pace is not None:
            turn = self._pace.take(count)
            while (left := turn - time.time()) > 0:
                self._hear(client, min(left, 1.0))
            self._heard = time.monotonic()
        patience = self._sink.connection.timeout
        while self._window.room < count:
            if self._window.stuck:
                return False
            self._hear(client, 1.0)
            if time.monotonic() - self._heard > patience:
                raise Lost(
                    f"no receipt came within {patience:g} s; {self._window.confirmed} rows are confirmed"
                )
        if self._window.next + count > self._noted + self._sink.window:
            self._note(always=True)
        return True

    def _hear(self, client: Client, timeout: float) -> None:
        cumulative = client.cumulative
        for frame in client.frames(timeout):
            if frame.command is RECEIPT:
                self._window.received(frame.header(RECEIPT_ID, V1_2) or b"", cumulative=cumulative)
                self._heard = time.monotonic()
        self._note()

    def _note(self, *, always: bool = False) -> None:
        """Keep the position, now and then or now."""
        confirmed, now = self._window.confirmed, time.monotonic()
        if (
            self._progress is None
            or confirmed == self._noted
            or (now - self._noted_at < OFTEN and not always)
        ):
            return
        self._progress.advance(self._job.batch, self._job.partition, confirmed)
        self._noted, self._noted_at = confirmed, now
