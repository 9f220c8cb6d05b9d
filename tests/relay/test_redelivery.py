"""A broker that gives what it delivers again the same message-ids, as ActiveMQ does, and says ERROR to an ACK that it
does not await; and a client that acknowledges each copy that it read.
"""

from collections import deque

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.playbook import VERSIONS, Cut, Playbook
from tests.relay.failing import found, started

SUBSCRIBE = b"SUBSCRIBE\nid:1\ndestination:/queue/a\nack:%b\n\n\0"


def frames_of(data: bytes) -> list[tuple[bytes, dict[bytes, bytes]]]:
    """The commands and headers of frames without escapes."""
    found = []
    for frame in data.split(b"\0")[:-1]:
        command, *lines = frame.lstrip(b"\n").split(b"\n")
        found.append((command, dict(line.split(b":", 1) for line in lines if line)))
    return found


def name_of(headers: dict[bytes, bytes]) -> bytes:
    """What a MESSAGE or an ACK goes by."""
    return headers.get(b"ack") or headers.get(b"id") or headers[b"message-id"]


class Queue:
    """ActiveMQ's side: what awaits an ACK is delivered again to the next connection, before anything else.

    A connection of 1.2 gives each delivery an `ack` value of its own. Those after the first are of version `after`.
    """

    def __init__(self, play: Playbook, version: bytes, after: bytes, *, covers: bool) -> None:
        self._play = play
        self._version = version
        self._after = after
        self._covers = covers
        self._waiting = deque(range(40))
        self._connections = 0
        self.dispatched: list[bytes] = []
        self._numbers: dict[bytes, int] = {}

    def delivers(self, count: int) -> None:
        """So many more MESSAGEs."""
        said = b""
        for _ in range(min(count, len(self._waiting))):
            number = self._waiting.popleft()
            ack = b"a-%d-%d" % (self._connections, number) if self._version == b"1.2" else None
            name = b"m-%d" % number if ack is None else ack
            self.dispatched.append(name)
            self._numbers[name] = number
            line = b"" if ack is None else b"ack:%b\n" % ack
            said += b"MESSAGE\nsubscription:1\nmessage-id:m-%d\n%b\n\0" % (number, line)
        if said:
            self._play.broker_says(said)

    def hears(self) -> None:
        """All that is on its way. Each ACK must name what awaits one, and what asks for a receipt gets it."""
        while said := self._play.broker_reads():
            for command, headers in frames_of(said):
                if command == b"ACK":
                    name = name_of(headers)
                    assert name in self.dispatched, f"Unexpected ACK received for message-id [{name!r}]"
                    at = self.dispatched.index(name)
                    del self.dispatched[0 if self._covers else at : at + 1]
                if b"receipt" in headers:
                    self._play.broker_says(b"RECEIPT\nreceipt-id:%b\n\n\0" % headers[b"receipt"])

    def dies(self) -> None:
        """What it did not hear is lost; another connection takes its place."""
        self._play.broker_reads()
        self._play.broker_goes()
        self._waiting.extendleft(self._numbers[name] for name in reversed(self.dispatched))
        self.dispatched = []
        self._connections += 1
        self._version = self._after
        found(self._play, self._version)
        self.hears()


class Reader:
    """The client: MESSAGEs wait until it reads them, then until it acknowledges what it read."""

    def __init__(self, play: Playbook, version: bytes, *, covers: bool) -> None:
        self._play = play
        self._version = version
        self._covers = covers
        self._coming = b""
        self._read: list[bytes] = []

    def reads(self, count: int) -> None:
        """So many of those that wait."""
        self._coming += self._play.client_reads()
        frames = self._coming.split(b"\0")
        assert not self._coming.startswith(b"ERROR")
        self._read += [name_of(each) for _, each in frames_of(b"\0".join([*frames[:-1][:count], b""]))]
        self._coming = b"\0".join(frames[count:]) if count < len(frames) else b""

    def acknowledges(self) -> None:
        """All that it read: by its last one, or one by one."""
        lines = {b"1.0": b"message-id:%b\n", b"1.1": b"subscription:1\nmessage-id:%b\n", b"1.2": b"id:%b\n"}
        told = self._read[-1:] if self._covers else self._read
        said = b"".join([b"ACK\n" + lines[self._version] % name + b"\n\0" for name in told])
        self._read = []
        if said:
            self._play.client_says(said)


steps = st.tuples(
    st.sampled_from([*["delivers", "reads", "acknowledges"] * 3, "hears", "dies"]), st.integers(1, 6)
)


@given(
    st.sampled_from(VERSIONS),
    st.tuples(st.sampled_from(VERSIONS), st.sampled_from(VERSIONS)),
    st.sampled_from([b"client", b"client-individual"]),
    st.sampled_from([Cut.WHOLE, Cut.PASSED]),
    st.lists(steps, min_size=30, max_size=40),
)
@settings(max_examples=3 * settings().max_examples)
def test_every_copy_is_acknowledged(
    version: bytes, brokers: tuple[bytes, bytes], mode: bytes, cut: Cut, script: list[tuple[str, int]]
) -> None:
    """Whatever crosses on the way: no ACK reaches a broker that does not await it, and in the end none is awaited."""
    with started(version, brokers[0], cut=cut) as play:
        play.client_says(SUBSCRIBE % mode)
        covers = mode == b"client"
        queue, reader = Queue(play, *brokers, covers=covers), Reader(play, version, covers=covers)
        for step, count in script:
            match step:
                case "delivers":
                    queue.delivers(count)
                case "reads":
                    reader.reads(count)
                case "acknowledges":
                    reader.acknowledges()
                case "hears":
                    queue.hears()
                case "dies":
                    queue.dies()
        reader.reads(1000)
        reader.acknowledges()
        queue.hears()
        assert not queue.dispatched
        play.both_stay()
