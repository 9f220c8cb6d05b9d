"""What passes from socket to socket without the core is recorded: in the blocks, and in the order, of what does not."""

import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stomprelay.journal.block import Block, decode
from stomprelay.journal.settings import ALL, SECRETS, BodyRule, JournalSettings
from stomprelay.journal.tail import TailRequest, TailWatch
from stomprelay.relay.effects import Effect, Pass
from stomprelay.service.connection.failures import PRESSURE
from stomprelay.service.connection.protocol import PIPE, LegProtocol
from stomprelay.service.connection.reactor import RelayReactor
from stomprelay.service.connection.relay_driver import RelayDriver
from stomprelay.service.journal.journal import Journal
from stomprelay.service.journal.tails import Tapped
from stomprelay.session.effects import Close, Event, How, Note
from stomprelay.session.leg import Leg
from stomprelay.wire.run import Passing
from tests.service.harness import CONNECT, SEND, Recorded, told
from tests.service.scripted import ScriptedRelay
from tests.service.sockets import turning
from tests.service.test_pipes import ODD, RULES, Scene

pytestmark = pytest.mark.skipif(PIPE is None, reason="pipes are not compiled here")


class ReadingRelay(ScriptedRelay):
    """Reads the client's frames, and answers with what was laid out for it."""

    def received(self, leg: Leg, data: bytes, now: float) -> list[Effect]:
        leg.decoder.feed(data)
        for _ in leg.decoder.frames():
            pass
        return super().received(leg, data, now)


class RecordedScene(Scene):
    """A session with a journal that nobody writes; its client has sent CONNECT."""

    driver: RelayDriver

    def __init__(self, reactor: Any, directory: Path, *, trace: bool = False, **settings: Any) -> None:
        self._settings = JournalSettings(str(directory), **settings)
        relay = ReadingRelay()
        relay.listener = replace(relay.listener, trace=trace)
        super().__init__(reactor, relay=relay)
        self.recorded()

    def driver_of(self, core: Any, endpoints: Any) -> RelayDriver:
        """One that records."""
        settings = self._settings
        self.journal = Journal(str(settings.directory), settings, self.reactor, "0" * 8, self._sessions)
        self.journal.running = 1
        driver = RelayDriver(self.runtime, core, endpoints, self.ended.append)
        driver.record_to(self.journal)
        return driver

    def _sessions(self) -> list[Any]:
        return [self.driver]

    def accept(self, protocol: LegProtocol) -> socket.socket:
        """The client's first frame is there with its connection."""
        theirs = super().accept(protocol)
        if protocol.leg is self.relay.client:
            self.driver.perform(self.relay.received(protocol.leg, CONNECT, 0.0))
        return theirs

    def blocks(self) -> list[Recorded]:
        """What was recorded since the last look."""
        data = b""
        while batch := self.journal._queue.take():
            data += batch.data
            self.journal._queue.done()
        return [told(block) for block in decode(data) if isinstance(block, Block)]

    def recorded(self) -> list[str | tuple[str, ...]]:
        """The same in short: names of events, and the commands of each block."""
        return [each.event or tuple(map(command, each.frames)) for each in self.blocks()]


def command(frame: bytes) -> str:
    """What a frame that was recorded is."""
    return frame.partition(b"\n")[0].decode()


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[RecordedScene]:
    """One whose journal has heads and bodies."""
    yield from scene_of(tmp_path, bodies=ALL, redact=SECRETS)


def scene_of(directory: Path, **settings: Any) -> Iterator[RecordedScene]:
    """One with these settings."""
    with turning(RelayReactor) as reactor:
        scene = RecordedScene(reactor, directory, **settings)
        yield scene
        scene.close()


NOTED = Note(Event.RECOVERED, "as the relay says")


def test_what_passes_is_recorded(scene: RecordedScene) -> None:
    """A block for each chunk, at once, counted through; its bytes are with the broker."""
    scene.lets_pass()
    scene.sends(SEND + SEND + b"\n")
    scene.sends(SEND)
    assert scene.received() == SEND + SEND + b"\n" + SEND
    first, second = scene.blocks()
    assert first.frames == (SEND[:-1], SEND[:-1])
    assert second.frames == (SEND[:-1],)
    assert (first.number, second.number) == (1, 3)
    assert first.context.side == "client"
    assert scene.said() == []


def test_events_stand_behind_what_passed(scene: RecordedScene) -> None:
    """Those of the same chunk, those that come later, and the end."""
    scene.lets_pass()
    scene.relay.answers.append([NOTED])
    scene.sends(SEND + ODD)
    scene.does(NOTED)
    scene.sends(SEND)
    scene.does(NOTED)
    scene.sends(SEND)
    scene.does(Close(scene.relay.client, How.ABORT))
    assert scene.recorded() == [("SEND", "SEND"), "recovered", "recovered", ("SEND",), "recovered", ("SEND",)]


@pytest.mark.parametrize(
    "settings", [{"rules": (BodyRule("/queue/*", 2),)}, {"trace": True}], ids=["by destination", "traces"]
)
def test_where_each_frame_needs_a_look(tmp_path: Path, settings: dict[str, Any]) -> None:
    """Nothing passes, and all is recorded."""
    for scene in scene_of(tmp_path, **settings):
        scene.lets_pass()
        scene.sends(SEND + SEND)
        assert scene.said() == [scene.heard(SEND + SEND)]
        assert scene.recorded() == [("SEND", "SEND")]


def test_it_passes_whoever_takes_the_records(scene: RecordedScene) -> None:
    """Others beside the journal, nobody, or others alone: from the next chunk on, and nothing stops for it."""
    capture = scene.journal.capture
    watch = TailWatch(TailRequest("one"), b"", capture, lambda: 0)
    scene.lets_pass()
    scene.relay.allowed = (Pass(scene.relay.client, scene.upstream, Passing(RULES, scene.takes)),)
    scene.sends(SEND)
    scene.driver.record_to(Tapped(capture, scene.journal, (watch,)))
    scene.sends(SEND + SEND)
    assert scene.recorded() == [("SEND",), ("SEND", "SEND")]
    assert [each.sizes[0::3] for each in watched(watch)] == [(len(SEND) - 6,) * 2]
    scene.driver.record_to(None)
    scene.sends(SEND)
    assert (scene.recorded(), watched(watch)) == ([], [])
    scene.driver.record_to(Tapped(capture, None, (watch,)))
    scene.sends(SEND)
    assert (scene.recorded(), len(watched(watch))) == ([], 1)
    assert scene.received() == SEND * 5
    assert {what for what, *_ in scene.reported()} == {"passed"}


def watched(watch: TailWatch) -> list[Block]:
    """The blocks that were kept since the last look."""
    return [block for block in decode(watch.take().segment) if isinstance(block, Block)]


def test_a_stop_ends_with_the_records(scene: RecordedScene) -> None:
    """A leg that is not read from when nobody records any more, and goes on then."""
    scene.protocol(scene.relay.client).hold(PRESSURE)
    assert scene.recorded() == ["back-pressure on"]
    scene.driver.record_to(None)
    assert scene.recorded() == ["back-pressure off"]
    scene.protocol(scene.relay.client).release(PRESSURE)
    scene.sends(SEND)
    assert scene.recorded() == []
