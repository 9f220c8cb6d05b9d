"""Scripts of plain calls against the embedded broker: what clients send and receive, who reads slowly, who leaves.

A `Scene` performs effects as the service does and checks in every script what must always be true: one `Send` for
each leg and input, an EOL behind every frame (which the scripts leave out), nothing written after a `Close`,
no connection woken in the past.

    scene = Scene()
    alice, bob = scene.client(), scene.client(b"1.0")
    bob.sends(b"SUBSCRIBE\\ndestination:/queue/a\\n\\n\\0")
    alice.sends(b"SEND\\ndestination:/queue/a\\n\\nhello\\0")
    bob.receives(b"MESSAGE\\ndestination:/queue/a\\nmessage-id:b-1\\n\\nhello\\0")
"""

import re
from collections.abc import Iterable
from math import inf
from typing import Any, Final

import pytest

from stomprelay.broker.broker import Connection, EmbeddedBroker
from stomprelay.broker.message import Bounds
from stomprelay.session.effects import Close, Effect, Event, GiveWay, How, Note, Pause, Resume, Send, Wake
from stomprelay.session.leg import Leg, Terms
from tests.playbook import SAY_HELLO as HELLO

in_every_version = pytest.mark.parametrize("version", HELLO, ids=bytes.decode)
"""Runs a test in each version; it takes `version`."""

in_named_versions = pytest.mark.parametrize("version", [b"1.1", b"1.2"], ids=bytes.decode)
"""Runs a test in the versions that name subscriptions; it takes `version`."""

_ACK: Final = {b"1.0": b"message-id:%b\n", b"1.1": b"subscription:%b\nmessage-id:%b\n", b"1.2": b"id:%b\n"}


class Peer:
    """One client's socket: what was written, how it was closed, whether the service reads from it."""

    def __init__(self, scene: "Scene", connection: Connection, version: bytes) -> None:
        self.scene = scene
        self.connection = connection
        self.version = version
        self.written = b""
        self.writes = 0
        self.closed: How | None = None
        self.read_from = True
        self.wake = inf

    @property
    def leg(self) -> Leg:
        return self.connection.leg

    # What happens

    def sends(self, data: bytes) -> None:
        """The client sends this."""
        self.scene.perform(self, self.connection.received(data, self.scene.now))

    def subscribes(
        self, destination: bytes, ack: bytes = b"auto", id: bytes = b"1", more: bytes = b""
    ) -> None:
        """A SUBSCRIBE, named in each version."""
        line = b"SUBSCRIBE\nid:%b\ndestination:%b\nack:%b\n%b\n\0"
        self.sends(line % (id, destination, ack, more))

    def sends_to(self, destination: bytes, *bodies: bytes) -> None:
        """SENDs of these bodies, in one chunk."""
        self.sends(b"".join([b"SEND\ndestination:%b\n\n%b\0" % (destination, body) for body in bodies]))

    def acknowledges(self, command: bytes, message: bytes, more: bytes = b"") -> None:
        """An ACK or NACK of a MESSAGE frame, in the way of the client's version."""
        if self.version == b"1.2":
            named: tuple[bytes, ...] = (header(message, b"ack"),)
        elif self.version == b"1.1":
            named = (header(message, b"subscription"), header(message, b"message-id"))
        else:
            named = (header(message, b"message-id"),)
        self.sends(b"%b\n%b%b\n\0" % (command, _ACK[self.version] % named, more))

    def half_closes(self) -> None:
        """The client closed its direction: it sends nothing more."""
        self.scene.perform(self, self.connection.half_closed(self.scene.now))

    def is_lost(self) -> None:
        """The connection ended."""
        self.scene.perform(self, self.connection.lost(self.scene.now))

    def stops_reading(self) -> None:
        """The client does not read: what is written stays in the transport."""
        self.scene.perform(self, self.connection.paused())

    def reads_again(self) -> None:
        """The transport has room again."""
        self.scene.perform(self, self.connection.resumed(self.scene.now))

    # What is expected

    def reads(self) -> bytes:
        """What was written since the last look."""
        data, self.written = self.written, b""
        return data

    def messages(self) -> list[bytes]:
        """The frames since the last look, each without its NUL."""
        return self.reads().split(b"\0")[:-1]

    def bodies(self) -> list[bytes]:
        """The bodies of the frames since the last look."""
        return [frame.partition(b"\n\n")[2] for frame in self.messages()]

    def receives(self, expected: bytes) -> None:
        """These bytes were written since the last look, and no others."""
        assert self.reads() == expected

    def receives_error(self, message: bytes, *, receipt: bytes | None = None, detail: bytes = b"") -> None:
        """The last thing written was this ERROR, and the connection was closed so that it arrives."""
        data = self.reads()
        error = data[data.rindex(b"ERROR\n") :]
        named = b"" if receipt is None else b"receipt-id:" + receipt + b"\n"
        assert error.startswith(b"ERROR\nmessage:" + message + b"\n" + named), error
        assert receipt is not None or b"\nreceipt-id:" not in error
        assert detail in error.partition(b"\n\n")[2]
        assert error.endswith(b"\0")
        assert self.closed is How.LINGER


class Scene:
    """A broker, its clients and a clock of plain numbers. `bounds` are keyword arguments of `Bounds`."""

    def __init__(self, *, heart_beat: Terms = Terms(1000, 1000), **bounds: Any) -> None:
        self.broker = EmbeddedBroker(Bounds(**bounds), heart_beat, b"b")
        self.now = 1000.0
        self.peers: list[Peer] = []
        self.notes: list[Note] = []
        self.busy = False
        self._behind: list[Peer] = []

    @property
    def memory(self) -> int:
        """Bytes of messages that the broker keeps."""
        return self.broker.destinations.memory.used

    @property
    def kept(self) -> dict[bytes, int]:
        """Messages that each destination keeps."""
        return self.broker.destinations.kept

    def opens(self, version: bytes = b"1.2") -> Peer:
        """A client whose socket is open and that has sent nothing yet."""
        connection, effects = self.broker.opened(self.now)
        peer = Peer(self, connection, version)
        self.peers.append(peer)
        self.perform(peer, effects)
        return peer

    def client(self, version: bytes = b"1.2") -> Peer:
        """A client that received CONNECTED."""
        peer = self.opens(version)
        peer.sends(HELLO[version])
        assert peer.reads().startswith(b"CONNECTED\nversion:%b\n" % version)
        return peer

    def stops(self) -> None:
        """The service is told to stop."""
        self.perform(None, self.broker.stopped(self.now))

    def time_passes(self, seconds: float) -> None:
        """The clock goes on; connections that asked to be woken meanwhile are, at that time."""
        end = self.now + seconds
        for _ in range(10_000):
            next_one = min(self.peers, key=lambda peer: peer.wake, default=None)
            if next_one is None or next_one.wake > end:
                self.now = end
                return
            self.now = max(self.now, next_one.wake)
            next_one.wake = inf
            self.perform(next_one, next_one.connection.woke(self.now))
        raise AssertionError("the broker asks to be woken again and again")

    def noted(self, event: Event) -> str:
        """The text of the last note of this kind; it fails when there is none."""
        texts = [note.text for note in self.notes if note.event is event]
        assert texts, f"no note of {event}"
        return texts[-1]

    def perform(self, peer: Peer | None, effects: Iterable[Effect]) -> None:
        """The service's part: all effects of one input, in order."""
        written = set()
        for effect in effects:
            match effect:
                case Send(leg, data):
                    other = self._peer(leg)
                    assert other.closed is None, f"written after Close: {data!r}"
                    assert leg not in written, "two Sends for one leg"
                    assert data, "nothing was written"
                    written.add(leg)
                    assert data == b"\n" or data.endswith(b"\0\n") or data[:4] == b"HTTP", (
                        "a frame without an EOL behind it"
                    )
                    other.written += data.replace(b"\0\n", b"\0")
                    other.writes += 1
                    assert leg.heartbeat.sent_at == self.now
                case Close(leg, how):
                    other = self._peer(leg)
                    assert other.closed is None, "closed twice"
                    other.closed = how
                case Pause(leg):
                    self._peer(leg).read_from = False
                case Resume(leg):
                    self._peer(leg).read_from = True
                case GiveWay(leg):
                    self._behind.append(self._peer(leg))
                case Wake(at):
                    assert at >= self.now, "woken in the past"
                    assert peer is not None
                    peer.wake = at
                case Note():
                    self.notes.append(effect)
        while self._behind and not self.busy:
            self.turn_comes()

    def turn_comes(self) -> None:
        """Others had their turn: the client that gave way first goes on."""
        other = self._behind.pop(0)
        self.perform(other, other.connection.gave_way(self.now))

    def _peer(self, leg: Leg) -> Peer:
        return next(peer for peer in self.peers if peer.leg is leg)


def header(frame: bytes, name: bytes) -> bytes:
    """The first value of a header of a frame, as it stands."""
    found = re.search(rb"\n%b:([^\n]*)\n" % re.escape(name), frame.partition(b"\n\n")[0] + b"\n")
    assert found, f"no {name!r} in {frame!r}"
    return found[1]
