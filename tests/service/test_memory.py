"""What is kept of all clients together: who is not read from when it is much, who is sent away when it is too much."""

from pathlib import Path
from unittest.mock import patch

from stomprelay.service.admin.condition import OwnRelay
from stomprelay.service.admin.snapshot import snapshot
from stomprelay.service.connection.memory import EVERY, SESSION, TURN
from stomprelay.service.connection.protocol import LegProtocol
from stomprelay.service.process import available
from stomprelay.service.workers.loads import Loads
from tests.service.conftest import Lines
from tests.service.harness import FakeTransport, RelayHarness, listener, movable

LIMIT = 1_000_000
HEAD = b"SEND\ndestination:/queue/a\ncontent-length:250000\n\n"
FRAME = HEAD + bytes(250_000) + b"\0"


def relay(**settings: object) -> RelayHarness:
    """A relay that may keep so many bytes, before brokers of a failover."""
    return RelayHarness(listener(upstream=movable(**settings)), memory=LIMIT)


def kept(harness: RelayHarness) -> int:
    """How many bytes are kept of all clients."""
    return snapshot(harness.service.state, whole=False).memory.kept


def comes_on(harness: RelayHarness, client: FakeTransport, data: bytes) -> int:
    """The client sends this, as long as it is read from. Return how much of it was read."""
    read, piece = 0, 25_000
    while client.reading and read < len(data):
        client.sends(data[read : read + piece])
        read += piece
    harness.reactor.advance(0)
    return min(read, len(data))


def confirm_ends(sessions: list[tuple[FakeTransport, FakeTransport]]) -> None:
    """The brokers of the sessions that the relay ends confirm its DISCONNECT."""
    for _, broker in sessions:
        if b"DISCONNECT" in broker.value():
            broker.parts()


def test_memory_is_short(log: Lines) -> None:
    """From three quarters on only who keeps little is read; who waits gets turns, and all frames arrive."""
    harness = relay()
    sessions = [harness.session() for _ in range(5)]
    reads = [comes_on(harness, client, FRAME[:-50_000]) for client, _ in sessions[:4]]
    assert reads[0] == 200_050
    assert sum(reads) < 0.8 * LIMIT
    assert not sessions[3][0].reading
    small, its_broker = sessions[4]
    small.sends(b"SEND\ndestination:/queue/b\n\nhi\0")
    assert its_broker.written().endswith(b"hi\0")
    for _ in range(40):
        for number, (client, _) in enumerate(sessions[:4]):
            reads[number] += comes_on(harness, client, FRAME[reads[number] :])
        harness.reactor.advance(EVERY)
    assert [broker.written() == FRAME for _, broker in sessions[:4]] == [True] * 4
    assert [client.written() for client, _ in sessions] == [b""] * 5
    assert all(client.reading for client, _ in sessions)
    said = [each.partition(":")[0] for each in log if "memory is " in each]
    assert said == ["warn", "info"] * (len(said) // 2)


def test_at_the_limit() -> None:
    """Who keeps most is sent an ERROR that says so, as is who comes then; the others go on, and all is well again."""
    harness = relay()
    sessions = [harness.session() for _ in range(4)]
    large, _ = sessions[0]
    large.sends(FRAME[:200_000])
    for client, _ in sessions[1:]:
        client.sends(FRAME[:240_000])
    large.sends(FRAME[200_000:240_000])
    assert kept(harness) >= LIMIT
    assert OwnRelay(harness.service.state).obstacles()[-1] == "memory: as much is kept of clients as may be"
    late = harness.client()
    assert late.written().startswith(b"ERROR\nmessage:the relay is short of memory\n")
    harness.reactor.advance(EVERY)
    confirm_ends(sessions)
    told = [client.written() for client, _ in sessions]
    assert sorted(told)[-1].startswith(b"ERROR\nmessage:the relay is short of memory\n")
    assert sum(map(bool, told)) == 1
    assert kept(harness) < LIMIT
    assert harness.client().written() == b""
    assert harness.service.state.sessions.listeners["public"].counters["sessions_crowded"] == 1


def test_what_is_promised_is_kept() -> None:
    """Nobody is sent away whose SENDs no broker has confirmed; their receipts are read, behind a MESSAGE, too."""
    harness = relay(confirm=True)
    sessions = [harness.session() for _ in range(4)]
    said = []
    for client, broker in sessions:
        client.sends(b"SUBSCRIBE\nid:1\ndestination:/queue/a\n\n\0" + FRAME)
        receipt = broker.written().partition(b"receipt:")[2].partition(b"\n")[0]
        message = b"MESSAGE\nsubscription:1\nmessage-id:1\ndestination:/queue/a\n\n" + b"x" * 50_000
        said.append(message + b"\0RECEIPT\nreceipt-id:" + receipt + b"\n\n\0")
    assert kept(harness) >= LIMIT
    harness.reactor.advance(EVERY)
    assert [client.written() for client, _ in sessions] == [b""] * 4
    assert harness.client().written().startswith(b"ERROR\nmessage:the relay is short of memory\n")
    for _ in range(40):
        for number, (_, broker) in enumerate(sessions):
            said[number] = said[number][comes_on(harness, broker, said[number]) :]
        harness.reactor.advance(EVERY)
    assert [client.written().count(b"\0") for client, _ in sessions] == [1] * 4
    assert kept(harness) < 5 * SESSION
    assert all(client.reading for client, _ in sessions)


def test_a_frame_that_does_not_go_on() -> None:
    """While memory is short, a client of whose unfinished frame more than a share is kept has so long to send more."""
    harness = relay()
    sessions = [harness.session() for _ in range(4)]
    for client, _ in sessions:
        comes_on(harness, client, FRAME[:240_000])
    with patch.object(LegProtocol, "has_input", False):
        harness.reactor.pump([EVERY] * int(TURN / EVERY - 2))
        assert [client.written() for client, _ in sessions] == [b""] * 4
        harness.reactor.pump([EVERY] * 4)
    confirm_ends(sessions)
    assert [client.written()[:5] for client, _ in sessions] == [b"ERROR"] * 2 + [b""] * 2


def test_workers_share_it(tmp_path: Path) -> None:
    """Each of them knows what all of them keep, and of how many sessions; one that is away keeps nothing."""
    loads = Loads.create(tmp_path / "loads", 3)
    loads.write(1, 10)
    loads.write(2, 5)
    assert loads.kept(1, 1000) == (1000, 15)
    assert Loads(tmp_path / "loads").kept(2, 500) == (1500, 15)
    loads.ended(1)
    assert loads.kept(2, 500) == (500, 5)


def test_memory_of_a_control_group(tmp_path: Path) -> None:
    """The least of what the groups above it have, in either version; "max" and what cannot be read are no limit."""
    whole = available(tmp_path)
    for name, text in {
        "proc/self/cgroup": "0::/a/b\n",
        "sys/fs/cgroup/a/memory.max": "max\n",
        "sys/fs/cgroup/a/b/memory.max": "3000000\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert available(tmp_path) == 3_000_000 < whole
    (tmp_path / "sys/fs/cgroup/memory").mkdir()
    (tmp_path / "sys/fs/cgroup/memory/memory.limit_in_bytes").write_text("2000000\n")
    (tmp_path / "proc/self/cgroup").write_text("5:cpu:/x\n4:cpuset,memory:/gone\n0::/\n")
    assert available(tmp_path) == 2_000_000
