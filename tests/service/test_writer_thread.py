"""From the queue to the disk: order, retries, what is told of losses, and what is removed."""

import errno
import itertools
import os
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from twisted.logger import Logger

from stomprelay.journal.block import Block, decode, pack_sizes
from stomprelay.journal.folder import Recovery, SegmentFile
from stomprelay.journal.settings import JournalSettings
from stomprelay.service.journal import writer_thread as module
from stomprelay.service.journal.portions import JournalQueue
from stomprelay.service.journal.writer_thread import WriterThread
from tests.service.conftest import Lines
from tests.service.harness import told

FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/j/x")


class FakeSegments:
    """Keeps what is written, and does not when it is told so."""

    def __init__(self) -> None:
        self.written = b""
        self.synced = self.rolled = self.closed = self.number = 0
        self.failure: Exception | None = None

    def _may(self) -> None:
        if self.failure is not None:
            raise self.failure

    def write(self, data: bytes | memoryview, now: int, event: bytes = b"") -> None:
        self._may()
        self.written += bytes(data) + event

    def sync(self) -> None:
        self._may()
        self.synced += 1

    def roll(self, now: int, *, alive: bytes = b"") -> bool:
        self._may()
        self.rolled += 1
        return False

    def close(self, now: int) -> None:
        self._may()
        self.closed += 1

    def blocks(self) -> list[Block]:
        """What was written, read."""
        return [each for each in decode(self.written) if isinstance(each, Block)]


class ThreadHarness:
    """A thread, all that is around it, and a clock that the test moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, room: int = 10**7, **settings: Any) -> None:
        self.now = 0.0
        monkeypatch.setattr(module, "time", self)
        self.queue = JournalQueue(room, itertools.count(1).__next__)
        self.segments, self.log = FakeSegments(), Lines()
        self.folder = Mock()
        self.folder.recover.return_value = self.folder.expire.return_value = []
        self.roomy: list[int] = []
        self.thread = WriterThread(
            JournalSettings("/j", **settings),
            self.queue,
            self.segments,  # type: ignore[arg-type]
            self.folder,
            lambda: 42,
            Logger("stomprelay", observer=self.log),
            lambda: self.roomy.append(self.queue.size),
        )

    def monotonic(self) -> float:
        """In place of that of the module `time`."""
        return self.now

    def put(self, *payloads: bytes) -> None:
        """Records of one frame each."""
        for payload in payloads:
            self.queue.put(b'["l"]', 0, pack_sizes(len(payload), 0, 0), payload)


@pytest.fixture
def harness(monkeypatch: pytest.MonkeyPatch) -> ThreadHarness:
    """With the default settings."""
    return ThreadHarness(monkeypatch)


@pytest.mark.parametrize("failure", [FULL, OSError("odd"), ValueError("a mistake of ours")])
def test_a_disk_that_fails(harness: ThreadHarness, failure: Exception) -> None:
    """It is tried again, with what was not written and all that came; the log is told once, and when it is over."""
    harness.put(b"a")
    harness.segments.failure = failure
    harness.thread.turn()
    harness.put(b"b")
    harness.thread.turn()
    assert harness.thread.errors == 2
    assert harness.thread.trouble
    assert harness.queue.size > 0
    assert [line.partition(": ")[0] for line in harness.log] == ["warn"]
    harness.segments.failure = None
    harness.thread.turn()
    assert harness.thread.trouble == ""
    assert harness.log[1:] == ["info: the journal is written again"]
    assert [each.payload for each in harness.segments.blocks()] == [b"a", b"b"]
    assert harness.queue.size == 0


def test_what_was_left_out_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a record with the counts, written along with what was there before; in the log once a second at most."""
    harness = ThreadHarness(monkeypatch, room=100)
    harness.put(b"x" * 100, b"y", b"z")
    harness.now = 10
    harness.thread.turn()
    first, second = map(told, harness.segments.blocks())
    assert first.frames == (b"x" * 100,)
    assert (second.event, second.context.session) == ("journal dropped", "")
    assert second.facts == {"blocks": 2, "frames": 2, "octets": 2 * (36 + 5 + 12 + 1), "since": 2}
    for _ in range(10):
        harness.put(b"x" * 100, b"y")
        harness.thread.turn()
    events = [told(each) for each in harness.segments.blocks() if told(each).event]
    assert [each.facts["blocks"] for each in events] == [2] + [1] * 10
    assert len(harness.log) == 1
    harness.now = 11
    harness.thread.turn()
    assert harness.log[1:] == [
        "warn: the journal: 10 blocks with 10 frames were left out: the queue was full"
    ]


def test_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits is written, and what was left out, and the segment ends."""
    harness = ThreadHarness(monkeypatch, room=100)
    harness.put(b"x" * 100, b"y")
    harness.thread.turn()
    harness.put(b"x" * 100, b"y")
    harness.thread.stop(lambda: None)
    harness.thread.end()
    assert [told(each).event for each in harness.segments.blocks()] == ["", "journal dropped"] * 2
    assert harness.segments.closed == 1
    assert harness.thread.lost.blocks == 0


def test_an_end_without_a_disk(harness: ThreadHarness) -> None:
    """What cannot be written is lost; that is counted and told."""
    harness.put(*[b"a"] * 10_000)
    harness.segments.failure = FULL
    harness.thread.turn()
    harness.thread.stop(lambda: None)
    harness.thread.end()
    assert harness.thread.lost.blocks == harness.thread.lost.frames == 10_000
    assert harness.queue.size == 0
    assert "warn: 10000 blocks of the journal are lost" in harness.log


def test_relays_that_died(harness: ThreadHarness) -> None:
    """What was done with what they left is told; a folder that cannot be looked through is no reason to stop."""
    harness.folder.recover.return_value = [
        Recovery(Path("/j/a.open"), Path("/j/a"), 7),
        Recovery(Path("/j/b.open"), None, 3),
        Recovery(Path("/j/c.open"), None, 0, "no"),
    ]
    harness.thread.begin()
    assert [line.replace(" of a relay that died", "") for line in harness.log] == [
        "info: segment /j/a is ended; 7 octets at its end were torn",
        "info: segment /j/b.open is ended; 3 octets at its end were torn",
        "warn: segment /j/c.open cannot be ended: no",
    ]
    harness.folder.recover.side_effect = FULL
    harness.thread.begin()
    assert harness.log[-1] == "warn: the journal's folder cannot be listed: /j/x: No space left on device"


def test_old_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are removed with each that begins, and once a minute; without a bound nobody looks. New ones are synced."""
    harness = ThreadHarness(monkeypatch, retain_age=5.0, retain_size=7, sync_interval=60.0)
    for now in (0, 1, 59):
        harness.now = now
        harness.thread.turn()
    assert [each.args[1:] for each in harness.folder.expire.call_args_list] == [(5.0, 7)]
    harness.now = 61
    harness.folder.expire.return_value = [SegmentFile(Path("/j/a"), "a", 0, "r", "0", 1, 5, 0, True)]
    harness.thread.turn()
    harness.segments.number = 1
    harness.thread.turn()
    assert harness.folder.expire.call_count == 3
    assert (harness.segments.synced, harness.segments.rolled) == (2, 5)
    assert harness.log == ["info: 1 old segments were removed"] * 2
    harness.folder.expire.side_effect = FULL
    harness.segments.number = 2
    harness.thread.turn()
    assert harness.thread.trouble == ""
    assert harness.log[-1] == "warn: old segments cannot be removed: /j/x: No space left on device"
    harness = ThreadHarness(monkeypatch)
    harness.segments.number = 1
    harness.thread.turn()
    harness.folder.expire.assert_not_called()


def test_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever waits for it is told once half of what is there is written, and not while the disk fails."""
    harness = ThreadHarness(monkeypatch, room=1000)
    harness.thread.ask_for_room()
    harness.put(b"x" * 1000)
    harness.segments.failure = FULL
    harness.thread.turn()
    assert harness.roomy == []
    harness.segments.failure = None
    harness.thread.turn()
    harness.thread.turn()
    assert harness.roomy == [0]
