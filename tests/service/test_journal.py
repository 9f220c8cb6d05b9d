"""The journal as a service: from start to end, what it tells, and what is held when it is full."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock, call, patch

import pytest
from twisted.internet.defer import Deferred

from stomprelay.journal.block import Block, Damage, pack_sizes
from stomprelay.journal.schema import JournalEvent, SegmentHeader
from stomprelay.journal.segment import FRAMES_DROPPED, read
from stomprelay.journal.settings import JournalSettings, WhenFull
from stomprelay.journal.writer import Writer
from stomprelay.service.journal import writer_thread
from stomprelay.service.journal.journal import GRACE, SOFTWARE, Journal
from stomprelay.service.journal.writer_thread import WriterThread
from stomprelay.service.network.endpoints import CannotStart
from stomprelay.session.effects import Event, Note
from tests.service.harness import Recorded, ThreadedReactor, told


class JournalOnDisk:
    """A journal in a reactor in memory, with a thread and files that are real."""

    def __init__(self, directory: Path, **settings: Any) -> None:
        self.directory = directory
        self.reactor = ThreadedReactor()
        self.session = Mock()
        defaults: dict[str, Any] = {"relay": "here", "flush_interval": 0.01}
        self.journal = Journal(
            str(directory),
            JournalSettings(str(directory), **{**defaults, **settings}),
            self.reactor,
            "0123abcd",
            lambda: [self.session],
        )

    def until(self, reached: Callable[[], object]) -> None:
        """Let the thread work until something is so."""
        for _ in range(20_000):
            self.reactor.turn()
            if reached():
                return
            time.sleep(0.001)
        raise AssertionError("not reached")

    def stop(self) -> None:
        """Until it ended."""
        ended: list[object] = []
        _ = self.journal.stopService().addBoth(ended.append)
        self.until(lambda: ended)
        assert ended == [None]

    def read(self) -> list[Recorded]:
        """What is in the files, all of which have ended; the headers name the relay."""
        found: list[Recorded] = []
        for path in sorted(self.directory.iterdir()):
            assert path.name.endswith("-here-0123abcd-000001.journal")
            for each in read(path):
                assert not isinstance(each, Damage) or FRAMES_DROPPED in each.reason
                if isinstance(each, SegmentHeader):
                    assert (each.relay, each.run, each.software) == ("here", "0123abcd", SOFTWARE)
                if isinstance(each, Block):
                    found.append(told(each))
        return found


def test_from_start_to_end(tmp_path: Path) -> None:
    """The folder is made; what was recorded lies between the two events, what was learnt of a broker, too."""
    disk = JournalOnDisk(tmp_path / "a" / "b")
    disk.journal.startService()
    disk.journal.record(b'["l","s"]', 3, pack_sizes(3, 0, 0), b"a\n\n")
    disk.journal.noted(Note(Event.LOST, "b is down", {"broker": "b"}), "main")
    disk.stop()
    disk.journal.happened(JournalEvent.PAUSED, "after its end", {})
    begun, frames, lost, ended = disk.read()
    assert begun.event == JournalEvent.BEGUN.value
    assert begun.facts.keys() == {"software", "pid", "within"}
    assert (frames.context.session, frames.number, frames.frames) == ("s", 3, (b"a\n\n",))
    assert (lost.event, lost.text, lost.facts) == ("lost", "b is down", {"upstream": "main", "broker": "b"})
    assert (lost.context.upstream, lost.context.session) == ("main", "")
    assert ended.event == JournalEvent.ENDED.value
    assert (tmp_path / "a" / "b").stat().st_mode & 0o007 == 0
    written = disk.journal.written
    assert (written.blocks, written.frames, written.errors) == (4, 1, 0)
    assert (disk.journal.waiting, disk.journal.dropped.blocks, disk.journal.state) == (0, 0, "is written")


def test_a_folder_that_cannot_be_used(tmp_path: Path) -> None:
    """The relay does not start; why is said in one line."""
    file = tmp_path / "file"
    file.write_text("")
    for place in (file, file / "below"):
        with pytest.raises(CannotStart, match=f"^journal: {place} cannot be used: "):
            JournalOnDisk(place).journal.startService()


def test_a_full_queue_holds_everybody(tmp_path: Path) -> None:
    """Until half of it is written; both are told, and nothing is left out."""
    disk = JournalOnDisk(tmp_path, queue=1000, when_full=WhenFull.BLOCK)
    with patch.object(WriterThread, "start"):
        disk.journal.startService()
    for _ in range(20):
        disk.journal.record(b"[]", 0, pack_sizes(100, 0, 0), b"x" * 100)
    assert disk.session.method_calls == [call.hold()]
    assert disk.journal.full
    assert not disk.journal.stuck
    assert disk.journal.state == "has no room: the relay reads from no session"
    disk.reactor.advance(2.5)
    disk.journal.written.start()
    disk.until(lambda: not disk.journal.full)
    assert disk.session.method_calls == [call.hold(), call.release()]
    disk.stop()
    found = disk.read()
    assert len([each for each in found if each.frames]) == 20
    events = {each.event: each.facts for each in found if each.event}
    assert events[JournalEvent.HELD.value] == {"side": "", "reason": "journal"}
    assert events[JournalEvent.RELEASED.value] == {"side": "", "seconds": 2.5}
    assert disk.journal.dropped.blocks == 0


def test_a_disk_that_fails(tmp_path: Path, log: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """It shows while it lasts; what waited is written when it is over."""
    monkeypatch.setattr(writer_thread, "IDLE", 0.01)  # the pause after a failure
    disk = JournalOnDisk(tmp_path)
    disk.journal.startService()
    disk.until(lambda: disk.journal.written.blocks == 1)
    failing = OSError(28, "No space left on device", "/j")
    with patch.object(Writer, "write", side_effect=failing):
        disk.journal.record(b'["l"]', 0, pack_sizes(3, 0, 0), b"a\n\n")
        disk.until(lambda: disk.journal.written.trouble)
        assert disk.journal.state == "cannot be written: /j: No space left on device"
        assert not disk.journal.stuck
        assert disk.journal.written.errors >= 1
    disk.until(lambda: not disk.journal.written.trouble)
    disk.stop()
    assert [each.frames for each in disk.read()][1] == (b"a\n\n",)
    assert log[:2] == [
        "warn: the journal cannot be written: /j: No space left on device",
        "info: the journal is written again",
    ]


def test_a_disk_that_hangs_at_the_end(tmp_path: Path, log: list[str]) -> None:
    """The relay does not wait for it for ever."""
    disk = JournalOnDisk(tmp_path)
    with patch.object(WriterThread, "start"):
        disk.journal.startService()
    stopped: Deferred[None] = disk.journal.stopService()
    ended: list[object] = []
    _ = stopped.addBoth(ended.append)
    disk.reactor.advance(GRACE - 0.1)
    assert ended == []
    disk.reactor.advance(0.1)
    assert ended == [None]
    assert log == [f"warn: the journal did not end in time: {disk.journal.waiting} bytes are lost"]
    disk.journal.written.start()
    disk.until(lambda: disk.journal.waiting == 0)
