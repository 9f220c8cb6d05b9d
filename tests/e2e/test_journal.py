"""The journal of a relay that runs: what clients said is in it, whatever is done to the relay or to its disk."""

import contextlib
import json
import random
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from stomprelay.journal.block import Block, BlockKind, Damage
from stomprelay.journal.folder import Folder
from stomprelay.journal.schema import Context, SegmentHeader
from stomprelay.journal.segment import read
from tests.e2e.child import PATIENCE
from tests.e2e.clients.client import Client
from tests.e2e.facts import NET_STOMP, PHP_STOMP, STOMP_GEM, STOMP_PY, STOMPEST, LibraryFacts
from tests.e2e.raw import Connection
from tests.e2e.relay import Relay, served

pytestmark = pytest.mark.e2e

SEED = random.randrange(10**6)


class Entry(NamedTuple):
    """A frame of the journal (`event` is empty), or an event."""

    context: Context
    head: bytes
    kept: bytes
    size: int
    event: str
    facts: Any

    @property
    def command(self) -> str:
        return self.head.partition(b"\n")[0].strip().decode()


class Journal:
    """A folder's segments, read: nothing in them may be damaged, and each leg's frames must be counted through."""

    def __init__(self, directory: Path) -> None:
        self.entries: list[Entry] = []
        self._next: Counter[tuple[str, ...]] = Counter()
        for segment in Folder(directory).segments():
            header: SegmentHeader | None = None
            for found in read(segment.path):
                assert not isinstance(found, Damage), (segment, found)
                if isinstance(found, SegmentHeader):
                    header = found
                else:
                    assert header is not None
                    self._take(header.contexts(found.context), found)

    def _take(self, context: Context, block: Block) -> None:
        if block.kind is BlockKind.EVENT:
            told = json.loads(block.payload)
            self.entries.append(Entry(context, b"", b"", 0, told["event"], told["facts"]))
            return
        leg = (context.session, context.side, context.upstream, context.broker)
        assert block.number == self._next[leg], (context, block)
        frames = list(block.frames)
        self._next[leg] = block.number + len(frames)
        self.entries += [Entry(context, *each, "", None) for each in frames]

    def frames(self, command: str, side: str) -> list[Entry]:
        """Those of a kind, in the order in which they came."""
        return [each for each in self.entries if each.context.side == side and each.command == command]

    def events(self, name: str) -> list[Entry]:
        """Those of a name."""
        return [each for each in self.entries if each.event == name]


def metric(relay: Relay, name: str) -> int:
    """What the metrics of a relay say of its journal."""
    return int(relay.admin.metrics()[f"journal_{name}"])


@contextlib.contextmanager
def running(directory: Path, *settings: str) -> Iterator[tuple[Relay, Path]]:
    """Run a relay, before the embedded broker, with these settings of its journal; yield it and the journal's place."""
    place = directory / "journal"
    lines = "\n".join((f'[journal]\ndirectory = "{place}"\nflush_interval = 0.05', *settings))
    with served(directory, listener=lines) as relay:
        yield relay, place


LINES = [
    (STOMP_PY, "1.2", STOMPEST, "1.2"),
    (STOMPEST, "1.1", STOMP_PY, "1.0"),
    (STOMP_GEM, "1.2", NET_STOMP, "1.0"),
    (NET_STOMP, "1.0", PHP_STOMP, "1.0"),
]


@pytest.mark.parametrize("line", LINES, ids=lambda line: f"{line[0].name}-{line[2].name}")
def test_every_frame_of_foreign_clients(
    line: tuple[LibraryFacts, str, LibraryFacts, str],
    tmp_path: Path,
    client: Callable[[LibraryFacts], Client],
    queue: str,
) -> None:
    """After SIGTERM all is there, in closed segments: what they sent and got, by whom, in which version."""
    source, source_version, sink, sink_version = line
    bodies = [f"{number} ".encode() + b"x" * (number % 50) for number in range(200)]
    with running(tmp_path, 'bodies = "all"') as (relay, place):
        producer, consumer = client(source), client(sink)
        producer.connect(relay.port, source_version, "producer", "geheim")
        consumer.connect(relay.port, sink_version, "consumer", "geheim")
        consumer.subscribe(queue, {"id": "1", "ack": "auto"})
        for body in bodies:
            producer.send(queue, body, {})
        assert [consumer.receive().body for _ in bodies] == bodies
        producer.disconnect()
        consumer.disconnect()
    assert all(segment.closed for segment in Folder(place).segments())
    journal = Journal(place)
    sends, messages = journal.frames("SEND", "client"), journal.frames("MESSAGE", "broker")
    for entries, name, version in ((sends, "producer", source_version), (messages, "consumer", sink_version)):
        assert [each.kept for each in entries] == bodies
        assert [each.size for each in entries] == list(map(len, bodies))
        assert {each.context.client for each in entries} == {name}
        assert entries[0].context.listener == "main"
        assert {each.context.version for each in journal.frames("SEND", "client")} == {source_version}
        assert version in {each.context.version for each in journal.entries}
    assert len(journal.events("connected")) == 2
    assert (journal.entries[0].event, journal.entries[-1].event) == ("journal begun", "journal ended")
    assert not any(b"geheim" in path.read_bytes() for path in place.iterdir())


class Flood(threading.Thread):
    """A client that sends numbered messages as fast as it is let, until its connection is gone or it is told."""

    def __init__(self, port: int, name: str) -> None:
        super().__init__(daemon=True)
        self.connection = Connection.to(port)
        self.connection.connect(login=name)
        self.sender = name
        self.sent = 0
        self.stopping = False

    def run(self) -> None:
        try:
            while not self.stopping:
                self.connection.write(
                    b"".join(
                        b"SEND\ndestination:/topic/%b\nnumber:%d\n\n%d\0"
                        % (self.sender.encode(), number, number)
                        for number in range(self.sent, self.sent + 20)
                    )
                )
                self.sent += 20
        except OSError:
            pass


def numbers(journal: Journal, name: str) -> list[int]:
    """The numbers of a flood's messages, as the journal has them."""
    return [
        int(re.findall(rb"\nnumber:(\d+)\n", each.head)[0])
        for each in journal.frames("SEND", "client")
        if each.context.client == name
    ]


@pytest.mark.parametrize(
    "round_", [0, 1, *(pytest.param(each, marks=pytest.mark.deep) for each in range(2, 6))]
)
def test_a_relay_that_is_killed(tmp_path: Path, round_: int) -> None:
    """Frames flow, SIGKILL comes at any moment: nothing that was written before it is missing, nothing is damaged."""
    print(f"seed {SEED}")
    killed(tmp_path, random.Random(f"{SEED} {round_}"))


def killed(directory: Path, chance: random.Random) -> None:
    """Kill a relay under load, and look at its journal."""
    with (
        running(directory, "segment_size = 200000", "segment_age = 1") as (relay, place),
        contextlib.ExitStack() as end,
    ):
        floods = [Flood(relay.port, f"flood-{number}") for number in range(3)]
        for flood in floods:
            end.callback(flood.connection.close)
            flood.start()
        relay.wait_until(lambda: metric(relay, "frames_total") > 1000)
        time.sleep(chance.uniform(0, 0.7))  # any moment will do
        written, octets = metric(relay, "frames_total"), metric(relay, "bytes_total")
        relay.kill()
        for flood in floods:
            flood.join(PATIENCE)
    before = Folder(place).segments()
    assert [each.closed for each in before].count(False) <= 1
    recovered = Folder(place).recover(time.time_ns())
    assert not any(each.failure for each in recovered)
    journal = Journal(place)
    found = [each for each in journal.entries if each.head]
    print(
        f"{written} frames ({octets} bytes) written before, {len(found)} found, "
        f"{sum(flood.sent for flood in floods)} sent; cut: {[each.cut for each in recovered]}"
    )
    assert len(found) >= written
    for flood in floods:
        assert numbers(journal, flood.sender) == list(range(len(numbers(journal, flood.sender))))
        assert len(numbers(journal, flood.sender)) <= flood.sent + 20
