"""Sends the rows of one task to the broker, over one connection and in order: how many may be unconfirmed
(`Window`), how many a second (`SharedRate`), and which are confirmed.
"""

import fcntl
import os
import tempfile
import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from stomprelay.pipeline.stomp.client import Client, Lost
from stomprelay.pipeline.stomp.options import Sink
from stomprelay.pipeline.stomp.progress import JobProgress
from stomprelay.pipeline.stomp.sends import SendFrames
from stomprelay.wire.dialect import V1_2
from stomprelay.wire.names import RECEIPT, RECEIPT_ID

BREATH = 0.05
"""With a rate, the messages of so many seconds are sent together."""
OFTEN: Final = 0.5
"""Seconds between two writes of the progress, unless the window needs one earlier."""
CHUNK: Final = 250
"""Rows that are sent together."""
Row = tuple[bytes, bytes]
"""Header lines and body of a SEND, encoded."""


@dataclass
class _Group:
    first: int
    last: int
    told: bool = False
    sure: bool = False

    def received(self, *, cumulative: bool) -> None:
        """Record the RECEIPT for the last row; if `cumulative` it confirms all rows of the group."""
        self.told = True
        self.sure = cumulative or self.first == self.last


class Window:
    """The rows that were sent and not confirmed: `size` at most, from `confirmed` on; `next` is the next to send. Every
    `every`-th asks for a receipt. If that confirms itself alone, the window is `stuck`: the caller must have all
    confirmed by other means, such as DISCONNECT, and call `settled`.
    """

    def __init__(self, size: int, every: int, first: int = 0) -> None:
        self.confirmed = first
        self._size = size
        self._every = every
        self.next = self._begun = first
        self._groups: deque[_Group] = deque()
        self._by_last: dict[int, _Group] = {}

    @property
    def room(self) -> int:
        """Return how many rows may be sent now."""
        return self._size - (self.next - self.confirmed)

    @property
    def stuck(self) -> bool:
        """Return whether no receipt can confirm any more rows."""
        return bool(self._groups) and self._groups[0].told

    def sent(self) -> bytes | None:
        """Count one more row as sent. Return the receipt id that its SEND must ask for, or None."""
        number = self.next
        self.next += 1
        if number - self._begun + 1 < self._every:
            return None
        group = self._by_last[number] = _Group(self._begun, number)
        self._groups.append(group)
        self._begun = self.next
        return b"%d" % number

    def received(self, receipt: bytes, *, cumulative: bool) -> None:
        """Record a RECEIPT; unknown ids are ignored. `cumulative`: it confirms the rows before it, too."""
        group = self._by_last.pop(int(receipt), None) if receipt.isdigit() else None
        if group is None:
            return
        group.received(cumulative=cumulative)
        while self._groups and self._groups[0].told and self._groups[0].sure:
            self.confirmed = self._groups.popleft().last + 1

    def settled(self) -> None:
        """Record that the broker has confirmed every row that was sent."""
        self.confirmed = self._begun = self.next
        self._groups.clear()
        self._by_last.clear()


class SharedRate:
    """A rate in messages a second that all processes share which use the same file."""

    def __init__(self, file: Path, rate: float) -> None:
        self._path = file
        self._rate = rate

    @classmethod
    def shared(cls, rate: float | None, folder: Path | None, name: str) -> Self | None:
        """Return a job's rate, shared in `folder`, else by `name` on each machine; None without a rate."""
        if rate is None:
            return None
        if folder is not None:
            return cls(folder / ".pace", rate)
        return cls(Path(tempfile.gettempdir()) / f"stomprelay-{name}.pace", rate)

    @property
    def some(self) -> int:
        """Return how many messages to `take` at a time."""
        return max(1, int(self._rate * BREATH))

    def take(self, count: int) -> float:
        """Reserve `count` messages. Return when they may be sent (`time.time`). Raises `OSError`."""
        file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            now = time.time()
            said = os.pread(file, 64, 0)
            turn = max(now, float(said)) if said else now
            # A clock that was set back must not make everybody wait for the old time.
            turn = min(turn, now + max(60.0, 2 * count / self._rate))
            os.ftruncate(file, 0)
            os.pwrite(file, repr(turn + count / self._rate).encode(), 0)
            return turn
        finally:
            os.close(file)

    def forget(self) -> None:
        """Remove the file, at the end of the job."""
        self._path.unlink(missing_ok=True)


class Job(NamedTuple):
    """Which task of which job this is. Keys of messages begin with `id/batch/partition`."""

    id: str
    batch: str
    partition: int
    attempt: int = 0


class TaskSender:
    """Sends the rows of one task; `run` returns once all are confirmed, and raises `Lost`, `ProgressError` and
    `SchemaError`. However it ends, one window of rows at most was sent beyond the stored progress.
    """

    def __init__(self, sink: Sink, job: Job, pace: SharedRate | None) -> None:
        self._sink = sink
        self._job = job
        self._pace = pace
        self._progress = None if sink.progress is None else JobProgress(sink.progress)
        self.skipped = self._progress.position(job.batch, job.partition) if self._progress else 0
        self._noted = self.skipped
        self._noted_at = time.monotonic()
        self._last_receipt = 0.0
        self._sends = SendFrames(sink, f"{job.id}/{job.batch}/{job.partition}")
        self._window = Window(sink.window, 1, self.skipped)
        # Less than what a window has room for beside a group that has not asked for its receipt yet.
        self._size = min(CHUNK, max(1, sink.window // 2), pace.some if pace else CHUNK)

    def run(self, batches: Iterable[Any]) -> int:
        """Send the rows that no earlier run has confirmed. Return how many were sent."""
        rows = self._rows(batches)
        chunk = list(islice(rows, self._size))
        try:
            while chunk:
                chunk = self._session(chunk, rows)
        finally:
            self._note(always=True)
        return self._window.confirmed - self.skipped

    def _session(self, chunk: list[Row], rows: Iterator[Row]) -> list[Row]:
        """Send `chunk` and further `rows` over one connection. Return rows that need a new one, after a failover."""
        number = self._job.partition + self._job.attempt * 100_000
        with self._sink.connection.client(f"spark-sink-{self._job.partition}", number) as client:
            client.connect(self._sink.connection.timeout)
            grouped = client.cumulative and self._pace is None
            every = max(1, self._sink.window // 4) if grouped else 1
            self._window = Window(self._sink.window, every, self._window.confirmed)
            self._last_receipt = time.monotonic()
            while chunk and self._wait(client, len(chunk)):
                self._send(client, chunk)
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

    def _send(self, client: Client, rows: list[Row]) -> None:
        frames = []
        for head, body in rows:
            receipt = self._window.sent()
            asked = b"" if receipt is None else b"receipt:%b\n" % receipt
            frames.append(b"SEND\n%b%b\n%b\0" % (head, asked, body))
        client.send(b"".join(frames))
        self._receive(client, 0.0)

    def _wait(self, client: Client, count: int) -> bool:
        """Wait for room for `count` rows. Return False if there can be none here. Raises `Lost`."""
        if self._pace is not None:
            turn = self._pace.take(count)
            while (left := turn - time.time()) > 0:
                self._receive(client, min(left, 1.0))
            self._last_receipt = time.monotonic()
        patience = self._sink.connection.timeout
        while self._window.room < count:
            if self._window.stuck:
                return False
            self._receive(client, 1.0)
            if time.monotonic() - self._last_receipt > patience:
                raise Lost(
                    f"no receipt came within {patience:g} s; {self._window.confirmed} rows are confirmed"
                )
        if self._window.next + count > self._noted + self._sink.window:
            self._note(always=True)
        return True

    def _receive(self, client: Client, timeout: float) -> None:
        cumulative = client.cumulative
        for frame in client.frames(timeout):
            if frame.command is RECEIPT:
                self._window.received(frame.header(RECEIPT_ID, V1_2) or b"", cumulative=cumulative)
                self._last_receipt = time.monotonic()
        self._note()

    def _note(self, *, always: bool = False) -> None:
        """Store how many rows are confirmed, if the last time is long enough ago, or `always`."""
        confirmed, now = self._window.confirmed, time.monotonic()
        if (
            self._progress is None
            or confirmed == self._noted
            or (now - self._noted_at < OFTEN and not always)
        ):
            return
        self._progress.advance(self._job.batch, self._job.partition, confirmed)
        self._noted, self._noted_at = confirmed, now
