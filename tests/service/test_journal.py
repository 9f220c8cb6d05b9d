"""The journal as a service: from start to end, what it tells, and what is held when it is full."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from twisted.internet.defer import Deferred

from stomprelay.journal.block import Block, Damage
from stomprelay.journal.schema import Header, JournalEvent
from stomprelay.journal.segment import read
from stomprelay.journal.settings import JournalSettings, WhenFull
from stomprelay.journal.writer import Writer
from stomprelay.service.endpoints import CannotStart
from stomprelay.service.journal import GRACE, SOFTWARE, Journal
from stomprelay.service.scribe import Scribe
from stomprelay.session.effects import Event, Note
from tests.service.diary import Threaded, Told, told


class Session:
    """Keeps whether it is held."""

    def __init__(self) -> None:
        self.held: list[bool] = []

    def hold(self) -> None:
        self.held.append(True)

    def release(self) -> None:
        self.held.append(False)


class Room:
    """A journal in a reactor in memory, with a thread and files that are real."""

    def __init__(self, directory: Path, **settings: Any) -> None:
        self.directory = directory
        self.reactor = Threaded()
        self.session = Session()
        defaults: dict[str, Any] = {"relay": "here", "flush_interval": 0.01}
        self.journal = Journal(
            JournalSettings(str(directory), **{**defaults, **settings}),
            self.reactor,
            "0123abcd",
            lambda: [self.session],
        )

    def until(self, reached: Callable[[], object]) -> None:
        """Let the thread work until something is so."""
        for _ in range(6000):
            self.reactor.turn()
            if reached():
                return
            time.sleep(0.01)
        raise AssertionError("not reached")

    def stop(self) -> None:
        """Until it ended."""
        ended: list[object] = []
        _ = self.journal.stopService().addBoth(ended.append)
        self.until(lambda: ended)
        assert ended == [None]

    def read(self) -> list[Told]:
        """What is in the files, all of which have ended; the headers name the relay."""
        found: list[Told] = []
        for path in sorted(self.directory.iterdir()):
            assert path.name.endswith("-here-0123abcd-000001.journal")
            for each in read(path):
                assert not isinstance(each, Damage)
                if isinstance(each, Header):
                    assert (each.relay, each.run, each.software) == ("here", "0123abcd", SOFTWARE)
                if isinstance(each, Block):
                    found.append(told(each))
        return found


def test_from_start_to_end(tmp_path: Path) -> None:
    """The folder is made; what was recorded lies between the two events."""
    room = Room(tmp_path / "a" / "b")
    room.journal.startService()
    room.journal.record(b'["l","s"]', 3, (3, 0, 0), b"a\n\n")
    room.stop()
    begun, frames, ended = room.read()
    assert begun.event == JournalEvent.BEGUN.value
    assert begun.facts.keys() == {"software", "pid"}
    assert (frames.context.session, frames.number, frames.frames) == ("s", 3, (b"a\n\n",))
    assert ended.event == JournalEvent.ENDED.value
    assert (tmp_path / "a" / "b").stat().st_mode & 0o007 == 0
    written = room.journal.written
    assert (written.blocks, written.frames, written.errors) == (3, 1, 0)
    assert (room.journal.waiting, room.journal.dropped.blocks, room.journal.state) == (0, 0, "is written")


def test_what_comes_after_the_end_is_left_out(tmp_path: Path) -> None:
    """And counted."""
    room = Room(tmp_path)
    room.journal.startService()
    room.stop()
    room.journal.record(b"[]", 0, (), b"{}")
    assert room.journal.dropped.blocks == 1
    assert len(room.read()) == 2


def test_a_folder_that_cannot_be_used(tmp_path: Path) -> None:
    """The relay does not start; why is said in one line."""
    file = tmp_path / "file"
    file.write_text("")
    for place in (file, file / "below"):
        with pytest.raises(CannotStart, match=f"^journal: {place} cannot be used: "):
            Room(place).journal.startService()


def test_events_that_are_nobodys(tmp_path: Path) -> None:
    """What the relay learns of brokers, and what is done to them."""
    room = Room(tmp_path)
    room.journal.startService()
    note = Note(Event.LOST, "broker b is down", {"broker": "b"})
    room.journal.noted(note, "main")
    room.journal.happened(JournalEvent.PAUSED, "paused", {"x": 1}, "main", "b")
    room.stop()
    _, lost, paused, _ = room.read()
    assert (lost.event, lost.text) == ("lost", "broker b is down")
    assert lost.facts == {"upstream": "main", "broker": "b"}
    assert (lost.context.upstream, lost.context.session) == ("main", "")
    assert (paused.event, paused.facts) == ("broker paused", {"x": 1})
    assert (paused.context.upstream, paused.context.broker) == ("main", "b")


def test_the_machines_name(tmp_path: Path) -> None:
    """Where none is configured."""
    with patch("socket.gethostname", return_value="box"):
        assert Room(tmp_path, relay=None).journal.relay == "box"


def test_a_full_queue_holds_everybody(tmp_path: Path) -> None:
    """Until half of it is written; both are told, and nothing is left out."""
    room = Room(tmp_path, queue=1000, when_full=WhenFull.BLOCK)
    with patch.object(Scribe, "start"):
        room.journal.startService()
    for _ in range(20):
        room.journal.record(b"[]", 0, (100, 0, 0), b"x" * 100)
    assert room.session.held == [True]
    assert room.journal.full
    assert not room.journal.stuck
    assert room.journal.state == "has no room: nobody is read from"
    room.reactor.advance(2.5)
    room.journal.written.start()
    room.until(lambda: not room.journal.full)
    assert room.session.held == [True, False]
    room.stop()
    found = room.read()
    assert len([each for each in found if each.frames]) == 20
    events = {each.event: each.facts for each in found if each.event}
    assert events[JournalEvent.HELD.value] == {"side": "", "reason": "journal"}
    assert events[JournalEvent.RELEASED.value] == {"side": "", "seconds": 2.5}
    assert room.journal.dropped.blocks == 0


def test_a_full_queue_that_drops(tmp_path: Path) -> None:
    """Nobody is held."""
    room = Room(tmp_path, queue=1000)
    with patch.object(Scribe, "start"):
        room.journal.startService()
    for _ in range(30):
        room.journal.record(b"[]", 0, (100, 0, 0), b"x" * 100)
    assert room.session.held == []
    assert room.journal.dropped.blocks > 10
    room.journal.written.start()
    room.stop()
    assert JournalEvent.DROPPED.value in {each.event for each in room.read()}


def test_a_disk_that_fails(tmp_path: Path, log: list[str]) -> None:
    """It shows while it lasts; what waited is written when it is over."""
    room = Room(tmp_path)
    room.journal.startService()
    room.until(lambda: room.journal.written.blocks == 1)
    failing = OSError(28, "No space left on device", "/j")
    with patch.object(Writer, "write", side_effect=failing):
        room.journal.record(b'["l"]', 0, (3, 0, 0), b"a\n\n")
        room.until(lambda: room.journal.trouble)
        assert room.journal.state == "cannot be written: /j: No space left on device"
        assert not room.journal.stuck
        assert room.journal.written.errors >= 1
    room.until(lambda: not room.journal.trouble)
    room.stop()
    assert [each.frames for each in room.read()][1] == (b"a\n\n",)
    assert log[:2] == [
        "warn: the journal cannot be written: /j: No space left on device",
        "info: the journal is written again",
    ]


def test_a_disk_that_hangs_at_the_end(tmp_path: Path, log: list[str]) -> None:
    """The relay does not wait for it for ever."""
    room = Room(tmp_path)
    with patch.object(Scribe, "start"):
        room.journal.startService()
    stopped: Deferred[None] = room.journal.stopService()
    ended: list[object] = []
    _ = stopped.addBoth(ended.append)
    room.reactor.advance(GRACE - 0.1)
    assert ended == []
    room.reactor.advance(0.1)
    assert ended == [None]
    assert log == [f"warn: the journal did not end in time: {room.journal.waiting} bytes are lost"]
    room.journal.written.start()
    room.until(lambda: room.journal.waiting == 0)
