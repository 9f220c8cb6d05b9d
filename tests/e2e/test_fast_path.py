"""With the fast path and without it: the same conversation leaves the same bytes, counters and log."""

import re
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.e2e.raw import Connection, ScriptedBroker
from tests.e2e.relay import Admin, Relay, served, stomprelay
from tests.e2e.rig import CONNECT

pytestmark = pytest.mark.e2e

SUBSCRIBE = b"SUBSCRIBE\nid:1\ndestination:/queue/a\nack:client-individual\n\n\0"
DISCONNECT = b"DISCONNECT\nreceipt:bye\n\n\0"
OWN_RECEIPT = "RECEIPT receipt-id:-"  # Of a request of the relay's own; `cat` hides the rest.


SHOWN = ("client_frames", "broker_frames", "client_bytes", "broker_bytes", "to_broker_bytes")
"""To the client the EOLs behind frames may go together with them or not."""


class Outcome(NamedTuple):
    """What a conversation left: frames as they came to broker and client, counters, what is shown of the session, and
    the last line of the log.
    """

    at_broker: list[bytes]
    at_client: list[bytes]
    counters: dict[str, float]
    shown: list[int | list[str]]
    last_line: str


def send(number: int, extra: bytes = b"", body: bytes = b"hello") -> bytes:
    """A SEND of a number of its own."""
    return b"SEND\ndestination:/queue/a\nnumber:%d\n%b\n%b\0" % (number, extra, body)


def message(number: int, body: bytes = b"hello") -> bytes:
    """A MESSAGE that awaits an ACK."""
    return b"MESSAGE\nsubscription:1\nmessage-id:m%d\nack:a%d\ndestination:/queue/a\n\n%b\0" % (
        number,
        number,
        body,
    )


def ack(number: int) -> bytes:
    """And that ACK."""
    return b"ACK\nid:a%d\n\n\0" % number


class Conversation:
    """A client and its broker; each takes what the other one says."""

    def __init__(self, port: int, played: ScriptedBroker) -> None:
        self.client = Connection.to(port)
        self.client.write(CONNECT)
        self.broker = played.accept()
        self.at_broker = [self.broker.connected()]
        self.at_client = [self.client.frame()]

    def says(self, *pieces: bytes, frames: int = 1) -> None:
        """The client writes this; all of it reaches the broker, which confirms what the relay itself asks it to."""
        for piece in pieces:
            self.client.write(piece)
        for _ in range(frames):
            frame = self.broker.frame()
            self.at_broker.append(frame)
            if asked := re.search(rb"\nreceipt:(relay-.*)", frame.partition(b"\n\n")[0]):
                self.broker.write(b"RECEIPT\nreceipt-id:%b\n\n\0" % asked[1])

    def hears(self, *pieces: bytes, frames: int = 1) -> None:
        """The broker writes this; all of it reaches the client."""
        for piece in pieces:
            self.broker.write(piece)
        self.at_client += [self.client.frame() for _ in range(frames)]


def play(conversation: Conversation) -> None:
    """Frames alone and together, whole and cut, small and large, of every kind."""
    say, hear = conversation.says, conversation.hears
    say(SUBSCRIBE)
    for number in range(30):
        say(send(number))
        hear(message(number))
        say(ack(number))
    many = range(100, 200)
    say(b"".join(map(send, many)), frames=len(many))
    hear(b"".join(map(message, many)), frames=len(many))
    say(b"".join(map(ack, many)), frames=len(many))
    say(send(1, b"receipt:r1\n"))
    hear(b"RECEIPT\nreceipt-id:r1\n\n\0")
    say(send(2) + send(3, b"receipt:r3\n") + send(4), frames=3)
    hear(message(2) + b"RECEIPT\nreceipt-id:r3\n\n\0\n" + message(3), frames=3)
    say(b"\n", ack(2) + b"\n" + ack(3), frames=2)
    for cut in (1, 5, 30):
        say(send(5)[:cut], send(5)[cut:] + send(6), frames=2)
        hear(message(cut)[:cut], message(cut)[cut:] + message(cut + 1), frames=2)
        say(ack(cut) + ack(cut + 1)[:cut], ack(cut + 1)[cut:], frames=2)
    say(b"BEGIN\ntransaction:t\n\n\0")
    say(send(7, b"transaction:t\n") + send(8) + b"COMMIT\ntransaction:t\n\n\0", frames=3)
    for size in (16_000, 16_384, 100_000, 1_000_000):
        say(send(9, b"content-length:%d\n" % size, bytes(size)))
        hear(message(9, b"x" * size))
        say(ack(9))
    say(b"UNSUBSCRIBE\nid:1\n\n\0")
    say(DISCONNECT)
    hear(b"RECEIPT\nreceipt-id:bye\n\n\0")


def counters(admin: Admin) -> dict[str, float]:
    """What the relay has counted, as its metrics have it, whatever its broker is called."""
    counted = admin.metrics().items()
    return {
        name: each for name, each in counted if name.endswith("_total") and not name.startswith("process_")
    }


def shown(admin: Admin) -> list[int | list[str]]:
    """What passed in the one session that there is, and where it sent to."""
    [row] = admin.told("/sessions")["sessions"]
    return [row[name] for name in (*SHOWN, "sent_to")]


def played(directory: Path, uri: str, fast: bool, more: str = "") -> Outcome:
    """Play it on a relay of its own, whose configuration has `more`."""
    directory.mkdir()
    with ScriptedBroker() as broker:
        upstream, path = f'uri = "{uri.format(broker.uri)}"\n{more}', f"fast_path = {str(fast).lower()}"
        with served(directory, upstream, "heart_beat = [0, 0]", path) as running:
            conversation = Conversation(running.port, broker)
            play(conversation)
            counted, seen = counters(running.admin), shown(running.admin)
            conversation.client.close()
            last_line = _last_line(running)
            conversation.broker.close()
    # Names that the relay gives have a part that differs from run to run.
    at_broker = [re.sub(rb"relay-[0-9a-f]{8}", b"relay", frame) for frame in conversation.at_broker]
    return Outcome(at_broker, conversation.at_client, counted, seen, last_line)


def _last_line(running: Relay) -> str:
    line = running.wait_for_log(r": disconnected: ")
    return re.sub(r".*: disconnected: |[0-9.]+ s, ", "", line)


@pytest.mark.parametrize("uri", ["{}", "failover:({})"])
def test_nobody_can_tell(tmp_path: Path, uri: str) -> None:
    """Neither client nor broker nor who looks after the relay."""
    fast = played(tmp_path / "fast", uri, True)
    slow = played(tmp_path / "slow", uri, False)
    assert fast == slow
    assert fast.shown[-1] == ["/queue/a"]
    assert len(fast.at_broker) == 294


def cat(folder: Path) -> list[str]:
    """What `stomprelay journal cat` shows, without what differs from run to run: times, names, ports and the like."""
    shown = stomprelay("journal", "cat", "--bodies", str(folder))
    assert shown.stderr == ""
    hidden = r"^\S+ |relay-[0-9a-f]{8}|127\.0\.0\.1:\d+|\b[0-9.]+ s\b|(?<=pid=)\d+"
    return [re.sub(hidden, "", line) for line in shown.stdout.splitlines()]


def test_the_journal_is_the_same(tmp_path: Path) -> None:
    """What passed is in it as all else, in the same order: but for what confirms a request of the relay's own, as the
    client does not wait for that.
    """
    shown, confirmed = [], []
    for fast in (True, False):
        folder = tmp_path / f"journal-{fast}"
        more = f'[journal]\ndirectory = "{folder}"\nbodies = 3\n'
        played(tmp_path / str(fast), "failover:({})", fast, more)
        lines = cat(folder)
        confirmed.append([line for line in lines if OWN_RECEIPT in line])
        shown.append([line for line in lines if OWN_RECEIPT not in line])
    assert shown[0] == shown[1]
    assert confirmed[0] == confirmed[1] != []
    assert sum("SEND" in line for line in shown[0]) > 100
