"""The receivers of a source, and offsets over their spools. A receiver is a connection to a broker, with a thread that
reads from the connection and writes to a spool.

With `ack=commit` a delivery's ACK waits until Spark has committed the message. A broker that got no ACK in time may
deliver the message again, although the message is in the spool. `PendingAcks` recognises the message by its id and its
body, so that the message is not written twice.
"""

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Mapping
from itertools import takewhile
from pathlib import Path
from typing import Final, NamedTuple
from zlib import crc32

from stomprelay.pipeline.stomp.client import Client, SessionLost
from stomprelay.pipeline.stomp.columns import Columns
from stomprelay.pipeline.stomp.options import OptionError, ReaderOptions
from stomprelay.pipeline.stomp.spool import MessageSpool, SpoolError, covered, read, segments
from stomprelay.wire.frame import Frame
from stomprelay.wire.names import ACK_HEADER, MESSAGE, MESSAGE_ID, SUBSCRIPTION

DISCONNECT_WITHIN: Final = 5.0
"""Seconds to wait for the RECEIPT of DISCONNECT. The time is short because another driver may wait for the spool."""
MOST: Final = 32 * 1024 * 1024
"""A group is written when its bodies have this many bytes, even if it has few messages."""
_log: Final = logging.getLogger("stomprelay.stomp")
POLL: Final = 0.05
"""Seconds to wait for frames before other work is done."""


class PendingAck(NamedTuple):
    """A delivery that was not acknowledged yet: the sequence of its message in the spool, and its `ack` header."""

    sequence: int
    ack: bytes


class PendingAcks:
    """The deliveries that one receiver acknowledges after Spark has committed them. For each delivery call `known`. If
    the message is new, call `remember`. Then call `owe` in both cases. The last `memory` committed messages stay known.
    """

    def __init__(self, memory: int) -> None:
        self._memory = memory
        self._known: dict[bytes, tuple[int, int]] = {}
        self._owed: dict[bytes, deque[PendingAck]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count  # other threads ask, too

    def remember(self, sequence: int, message_id: bytes, body: bytes) -> None:
        """Record that a message is in the spool or about to be written. Sequences must not decrease."""
        self._known[message_id] = (sequence, crc32(body))

    def known(self, message_id: bytes, body: bytes) -> int | None:
        """Return the sequence that the message with this id and body has in the spool; None if it is not known."""
        found = self._known.get(message_id)
        return found[0] if found is not None and found[1] == crc32(body) else None

    def owe(self, subscription: bytes, owed: PendingAck) -> None:
        """Record a delivery on this subscription that has to be acknowledged."""
        self._owed.setdefault(subscription, deque()).append(owed)
        self._count += 1

    def due(self, committed: int) -> dict[bytes, bytes]:
        """Remove all deliveries below the sequence `committed`. Return for each subscription the `ack` header of its
        last removed delivery. An ACK with it also acknowledges all earlier deliveries.
        """
        found: dict[bytes, bytes] = {}
        for subscription, owed in self._owed.items():
            while owed and owed[0].sequence < committed:
                found[subscription] = owed.popleft().ack
                self._count -= 1
        below = committed - self._memory
        for message_id in [*takewhile(lambda each: self._known[each][0] < below, self._known)]:
            del self._known[message_id]
        return found


class Receiver:
    """Receives all messages of one connection into a spool. After `start`, `spool` grows until `failure` has a reason.
    Call `commit` with the sequence up to which Spark has committed messages. At the end call `stop`, then `close`. The
    constructor raises `SpoolError`.
    """

    def __init__(self, source: ReaderOptions, number: int, folder: Path, *, first: int = 0) -> None:
        self.number = number
        self.failure: str | None = None
        self._source = source
        self.spool = MessageSpool(folder, first=first)
        self._columns = Columns(list(source.destinations), headers=source.include_headers)
        self._pending_acks = PendingAcks(2 * source.prefetch) if source.late else None
        self._acks: dict[bytes, bytes] = {}
        self._committed = self.spool.begin
        self._settled = self.spool.begin
        self._began: float | None = None
        self._last_frame = 0.0
        self._busy = False
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name=f"stomp receiver {number}", daemon=True)

    # From any thread

    @property
    def running(self) -> bool:
        """Return whether the receiver's thread was started and has not ended."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Start the thread, which connects and receives. Call this method once."""
        self._thread.start()

    def commit(self, sequence: int) -> None:
        """Record that Spark has committed all messages below `sequence`, so that they are acknowledged. Old segments of
        the spool are removed. Raises `SpoolError`.
        """
        if sequence == self._committed:
            return
        self._committed = sequence
        kept = 2 * self._source.prefetch if self._source.late else 0
        self.spool.drop_below(sequence - kept)

    @property
    def settled(self) -> bool:
        """Return whether all committed messages are acknowledged."""
        return self._pending_acks is None or self._settled >= self._committed

    @property
    def unacknowledged(self) -> int:
        """Return how many deliveries still need an ACK."""
        return len(self._columns) if self._pending_acks is None else len(self._pending_acks)

    @property
    def held(self) -> bool:
        """Return whether the broker may hold messages back until Spark has committed earlier rows."""
        owes = self._pending_acks is not None and len(self._pending_acks) >= self._source.prefetch
        return not self._busy and (self._full or owes)

    @property
    def _full(self) -> bool:
        return self.spool.end - self._committed >= self._source.backlog

    def quiet(self, seconds: float) -> bool:
        """Return True if all messages are on disk and none came for `seconds`, or if the thread does not run."""
        if not self.running:
            return True
        return self._began is not None and not self._busy and time.monotonic() - self._last_frame >= seconds

    def stop(self) -> None:
        """Make the thread write and acknowledge its messages, then disconnect. Call `close` next."""
        self._stopping = True

    def close(self) -> None:
        """Wait for the thread to end, up to twice `DISCONNECT_WITHIN`, and release the spool."""
        if self._thread.ident is not None:
            self._thread.join(2 * DISCONNECT_WITHIN)
        self.spool.close()  # a thread that still searches for a broker cannot write any more

    # The thread

    def _run(self) -> None:
        source = self._source
        try:
            self._recall()
            with source.connection.client(f"spark-source-{self.number}", self.number) as client:
                client.connect(source.connection.timeout)
                for number, destination in enumerate(source.destinations):
                    client.subscribe(b"%d" % number, destination.encode(), source.headers)
                self._began = self._last_frame = time.monotonic()
                while not self._stopping:
                    self._receive(client)
                self._flush(client)
                try:
                    client.disconnect(min(DISCONNECT_WITHIN, source.connection.timeout))
                except (
                    SessionLost
                ) as error:  # everything is on disk; messages without a confirmed ACK come again
                    _log.warning("receiver %d: %s", self.number, error)
        except (SessionLost, SpoolError, OptionError) as error:
            self.failure = str(error)
        except Exception as error:
            _log.exception("receiver %d failed", self.number)
            self.failure = f"{type(error).__name__}: {error}"

    def _recall(self) -> None:
        """Remember the messages that are already in the spool, in case the broker delivers them again."""
        if self._pending_acks is None:
            return
        for group in read(self.spool.folder, self.spool.begin, self.spool.end):
            named = zip(group.batch.column("message_id"), group.batch.column("body"), strict=True)
            for sequence, (message_id, body) in enumerate(named, group.first):
                if message_id.is_valid:
                    self._pending_acks.remember(sequence, str(message_id).encode(), body.as_py())

    def _receive(self, client: Client) -> None:
        """Read the frames that have arrived. Write a group that is large or old enough. Send the ACKs that are due."""
        source, columns = self._source, self._columns
        if self._full:
            time.sleep(POLL)
        else:
            waits = self._last_frame + source.group_age - time.monotonic() if columns else POLL
            for frame in client.frames(max(0.0, min(waits, POLL))):
                if frame.command is MESSAGE:
                    self._take(frame)
                    if len(columns) >= source.group_size or columns.octets >= MOST:
                        self._flush(client)
        if columns and time.monotonic() - self._last_frame >= source.group_age:
            self._flush(client)
        if not client.relay_thread.has_brokers:
            self._last_frame = time.monotonic()
        if self._pending_acks is not None:
            committed = self._committed
            client.acknowledge(self._pending_acks.due(committed))
            self._settled = committed

    def _take(self, frame: Frame) -> None:
        if not self._busy:
            self._busy = True
            self._last_frame = time.monotonic()
        named, body = self._columns.read(frame), frame.payload
        subscription, ack = named.get(SUBSCRIPTION, b"0"), named.get(ACK_HEADER, b"")
        if self._pending_acks is None:
            self._acks[subscription] = ack
        else:
            message_id = named.get(MESSAGE_ID, b"")
            known = self._pending_acks.known(message_id, body)
            if known is not None:
                self._pending_acks.owe(subscription, PendingAck(known, ack))
                if not self._columns:
                    self._last_frame = time.monotonic()
                    self._busy = False
                return
            sequence = self.spool.end + len(self._columns)
            self._pending_acks.remember(sequence, message_id, body)
            self._pending_acks.owe(subscription, PendingAck(sequence, ack))
        self._columns.add(named, body, time.time_ns() // 1000)

    def _flush(self, client: Client) -> None:
        """Write the received messages to disk. Acknowledge them now if ACKs do not wait for Spark's commit."""
        if self._columns:
            self.spool.append(self._columns.batch())
            if self._pending_acks is None:
                client.acknowledge(self._acks)
                self._acks.clear()
        self._last_frame = time.monotonic()
        self._busy = False


Offset = Mapping[str, int]
"""An offset of the query: for each receiver (`r0`, `r1`) the sequence after its last row."""

PIECE: Final = 10_000
"""The least number of rows that a task reads, if there are so many."""
_LOOK: Final = 0.02
_SETTLE: Final = 30.0


class SourceError(Exception):
    """The source cannot continue. The error's text has the reason."""


class Piece(NamedTuple):
    """The rows that one task reads from one receiver's spool: the sequences from `first` up to `end`, not included."""

    receiver: int
    first: int
    end: int


def place(source: ReaderOptions, number: int) -> Path:
    """Return the folder of a receiver's spool."""
    return source.spool / f"r{number}"


class Receivers:
    """The receivers of one query, with their spools. `start` is the offset at which the query continues; None for a new
    query. The constructor raises `SpoolError`, and `SourceError` if messages are missing.
    """

    def __init__(self, source: ReaderOptions, start: Offset | None = None) -> None:
        self._source = source
        self._parent = os.getppid()
        self._receivers: dict[int, Receiver] = {}
        try:
            for number in sorted(
                {*range(source.receivers), *(int(name[1:]) for name in start or ()), *_spooled(source)}
            ):
                self._open(number, None if start is None else start.get(f"r{number}", 0))
        except BaseException:
            self.close()
            raise

    def _open(self, number: int, start: int | None) -> None:
        source, folder = self._source, place(self._source, number)
        if start and not segments(folder):
            self._lost(folder, "is new", start)  # before the folder is made: the next attempt must fail, too
        receiver = self._receivers[number] = Receiver(source, number, folder, first=start or 0)
        if start is None:
            return
        if start < receiver.spool.begin:
            self._lost(folder, f"begins at message {receiver.spool.begin}", start)
        if start > receiver.spool.end:
            self._lost(folder, f"ends at message {receiver.spool.end}", start)
            receiver.spool.skip(start)

    def _lost(self, folder: Path, what: str, start: int) -> None:
        text = (
            f"spool {folder} {what}, and the query goes on from message {start}: what was received meanwhile is lost,"
            " or this is not the query's spool"
        )
        if self._source.strict:
            raise SourceError(f"{text}. Set failOnDataLoss to false to go on with what there is")
        _log.warning("%s", text)

    def start(self) -> None:
        """Start the receivers that do not run and have not failed. Calling this method again does no harm."""
        for number, receiver in self._receivers.items():
            if number < self._source.receivers and not receiver.running and receiver.failure is None:
                receiver.start()

    # What there is

    @property
    def begin(self) -> dict[str, int]:
        """Return the offset of the first rows in the spools."""
        return {f"r{number}": receiver.spool.begin for number, receiver in self._receivers.items()}

    @property
    def end(self) -> dict[str, int]:
        """Return the offset after the last rows on disk."""
        return {f"r{number}": receiver.spool.end for number, receiver in self._receivers.items()}

    @property
    def unacknowledged(self) -> int:
        """Return how many deliveries of all brokers still need an ACK."""
        return sum(receiver.unacknowledged for receiver in self._receivers.values())

    def check(self) -> None:
        """Raise `SourceError` if a receiver has failed, or if the driver's process has ended."""
        for number, receiver in self._receivers.items():
            if receiver.failure is not None:
                raise SourceError(f"receiver {number} has ended: {receiver.failure}")
        if os.getppid() != self._parent:
            raise SourceError("the driver is gone")

    def commit(self, offset: Offset) -> None:
        """Record that Spark has committed all rows before this offset. Raises `SpoolError`."""
        for number, receiver in self._receivers.items():
            receiver.commit(offset.get(f"r{number}", receiver.spool.begin))

    def settle(self) -> None:
        """Wait until all committed messages are acknowledged, for up to half a minute. Raises `SourceError`."""
        deadline = time.monotonic() + _SETTLE
        while not all(each.settled for each in self._receivers.values()) and time.monotonic() < deadline:
            self.check()
            time.sleep(_LOOK)

    @property
    def held(self) -> bool:
        """Return whether a broker may have more messages that it cannot deliver before Spark commits some."""
        return any(receiver.held for receiver in self._receivers.values())

    def drained(self, until: float) -> dict[str, int]:
        """Wait until no more messages come, or until the monotonic time `until`. Return `end`. Raises `SourceError`."""
        idle = self._source.idle
        while time.monotonic() < until and not all(
            each.held or each.quiet(idle) for each in self._receivers.values()
        ):
            self.check()
            time.sleep(_LOOK)
        self.check()
        return self.end

    def deadline(self) -> float:
        """Return the monotonic time until which `drained` may wait. It follows from the option `drainMs`."""
        drain = self._source.drain
        return float("inf") if drain is None else time.monotonic() + drain

    def drop_older(self, seconds: float) -> None:
        """Remove from the spools the rows that were written more than this many seconds ago. Raises `SpoolError`."""
        for receiver in self._receivers.values():
            receiver.spool.drop_older(seconds)

    def close(self) -> None:
        """Disconnect and close the spools. Call `check` afterwards to learn whether a receiver has failed."""
        for receiver in self._receivers.values():
            receiver.stop()
        for receiver in self._receivers.values():
            receiver.close()


def limited(start: Offset, end: Offset, most: int) -> dict[str, int]:
    """Return an offset that has at most `most` rows after `start` and is not after `end`. Each receiver contributes an
    equal share of the rows, or all its rows if it has fewer.
    """
    chosen = {name: start.get(name, 0) for name in end}
    left = most
    waiting = sorted(end, key=lambda name: end[name] - chosen[name])
    for number, name in enumerate(waiting):
        part = left // (len(waiting) - number)
        taken = max(0, min(end[name] - chosen[name], part))
        chosen[name] += taken
        left -= taken
    return chosen


def pieces(source: ReaderOptions, start: Offset, end: Offset) -> list[Piece]:
    """Return the rows that each task reads. Raises `SpoolError` if rows are missing and `failOnDataLoss` is set."""
    ranges: list[Piece] = []
    for name in sorted(end):
        number, first, last = int(name[1:]), start.get(name, 0), end[name]
        folder = place(source, number)
        try:
            found = covered(folder, first, last)
        except SpoolError:
            if source.strict:
                raise
            _log.warning("spool %s lacks messages between %d and %d", folder, first, last)
            found = [(first, last)]
        ranges += [Piece(number, low, high) for low, high in found]
    rows = sum(each.end - each.first for each in ranges)
    size = max(PIECE, -(-rows // (source.partitions or os.cpu_count() or 1)))
    if source.partitions is not None:
        size = max(1, min(size, rows // source.partitions))
    return [
        Piece(each.receiver, low, min(low + size, each.end))
        for each in ranges
        for low in range(each.first, each.end, size)
    ]


def _spooled(source: ReaderOptions) -> set[int]:
    """Return the numbers of all receivers that have a spool. There may be more than the options ask for."""
    if not source.spool.is_dir():
        return set()
    names = [each.name for each in source.spool.iterdir() if each.is_dir()]
    return {int(name[1:]) for name in names if name[:1] == "r" and name[1:].isdigit()}
