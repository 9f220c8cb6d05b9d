"""`stomprelay-pipeline replay` as its users run it, through a relay, to consumers that are no code of ours."""

import contextlib
import os
import random
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from bench.machine import family
from stomprelay.pipeline.stomp.progress import JobProgress
from tests.e2e import brokers
from tests.e2e.child import PATIENCE, Child
from tests.e2e.clients.client import Frame
from tests.e2e.clients.stomppy import StompPy
from tests.e2e.relay import served
from tests.e2e.stage import Place
from tests.pipeline.replay import archive

pytestmark = [pytest.mark.e2e, pytest.mark.spark]

COMMAND = Path(sys.executable).with_name("stomprelay-pipeline")
SLOW = 6 * PATIENCE
"""Seconds that Spark may take on a busy machine."""


def replay(tables: Path, port: int, state: Path, *more: str) -> Child:
    """Start a replay."""
    return Child(
        "replay",
        [
            *(str(COMMAND), "replay", "--tables", str(tables), "--to", f"tcp://127.0.0.1:{port}"),
            *("--state", str(state), "--master", "local[2]", "--conf", "spark.driver.memory=768m", *more),
        ],
    )


def ended(child: Child) -> int:
    """Wait for its end; answers its exit status."""
    assert child.exited(SLOW), child.output
    return child.stop()


def running(pid: int) -> bool:
    """Whether a process is there and has not ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False


def kill(child: Child) -> None:
    """SIGKILL the replay and its Java, and wait until Spark's Python processes have noticed."""
    below = [each for each in family(child.pid) if each != child.pid]
    child.send(signal.SIGKILL)
    for pid in below:
        with contextlib.suppress(OSError):  # it has ended
            if Path(f"/proc/{pid}/comm").read_text().strip() == "java":
                os.kill(pid, signal.SIGKILL)
    child.stop()
    until(lambda: not any(map(running, below)), child)


def until(reached: Callable[[], bool], child: Child) -> None:
    """Ask again and again."""
    for _ in range(int(SLOW / 0.02)):
        if reached():
            return
        time.sleep(0.02)
    raise AssertionError(child.output)


def confirmed(state: Path) -> int:
    """How many messages are, as far as it is noted."""
    return sum(JobProgress(state / "progress").position("0", number) for number in range(2))


def passed(state: Path, goal: int) -> bool:
    """Whether more than so many are."""
    return confirmed(state) > goal


@contextlib.contextmanager
def consumer(port: int, *destinations: str) -> Iterator[StompPy]:
    """A stomp.py that is subscribed to these."""
    client = StompPy()
    assert client.connect(port, "1.2", "guest", "guest").command == "CONNECTED"
    for number, destination in enumerate(destinations):
        client.subscribe(destination, {"id": str(number), "ack": "auto"})
    try:
        yield client
    finally:
        client.drop()


def by_destination(frames: list[Frame]) -> dict[str, list[Frame]]:
    """Messages in the order in which they came; what came again with its key is left out."""
    found: dict[str, dict[str, Frame]] = defaultdict(dict)
    for frame in frames:
        assert frame.command == "MESSAGE", frame
        found[frame.headers["destination"]].setdefault(frame.headers["relay-key"], frame)
    return {destination: list(each.values()) for destination, each in found.items()}


@pytest.mark.parametrize(
    "kills", [pytest.param(1, marks=pytest.mark.ci), pytest.param(3, marks=pytest.mark.long)]
)
def test_killed_again_and_again(tmp_path: Path, kills: int) -> None:
    """The same command goes on: nothing is lost, order stays, what comes twice is a window for each kill at most."""
    destinations, rate, window = 5, 500, 100
    count = 500 * (kills + 1)
    rows = archive.orders(count, destinations)
    for row in rows[::7]:
        row["headers"] = [pair for pair in row["headers"] if pair[0] != "content-length"]
    tables, state = archive.write(tmp_path / "tables", rows), tmp_path / "state"
    names = [f"/queue/d{number}" for number in range(destinations)]
    said = ("--rate", str(rate), "--window", str(window), "--connections", "2")
    began = time.time()
    with (
        brokers.memory(tmp_path) as broker,
        served(tmp_path, f'uri = "{broker.uri}"') as running_relay,
        consumer(port := running_relay.port, *names) as client,
    ):
        if kills > 1:
            child = replay(tables, port, state, *said)
            child.wait_for_output("selecting messages", within=SLOW)
            kill(child)
        for number in range(kills):
            goal = random.randint(number * 500, number * 500 + 400)
            child = replay(tables, port, state, *said)
            until(partial(passed, state, goal), child)
            kill(child)
            assert confirmed(state) < count, "it was through before it was killed"
        child = replay(tables, port, state, *said)
        assert ended(child) == 0, child.output
        assert "going on: " in child.output
        assert f"done: {count:,} messages are confirmed" in child.output

        # What is sent now comes last.
        for name in names:
            client.send(name, b"end", {"relay-key": "end"})
        frames: list[Frame] = []
        ends = 0
        while ends < destinations:
            frame = client.receive()
            ends += frame.body == b"end"
            if frame.body != b"end":
                frames.append(frame)
    found = by_destination(frames)
    assert {name: [int(each.body) for each in found[name]] for name in names} == {
        name: list(range(count // destinations)) for name in names
    }
    assert len({frame.headers["relay-key"] for frame in frames}) == count
    for name in names:
        for index, frame in enumerate(found[name]):
            number = index * destinations + names.index(name)
            assert (frame.headers["kind"], frame.headers["n"]) == ("order", str(number))
            assert not {"receipt", "transaction", "relay-trace", "persistent"} & set(frame.headers)
    again = len(frames) - count
    print(f"{again} messages came twice, after {kills} kills")
    assert again <= kills * 2 * window
    # The turns that were given for all messages reach at least so far.
    assert float((state / "progress" / ".pace").read_text()) - began >= count / rate


@pytest.mark.ci
@pytest.mark.broker
@pytest.mark.parametrize("broker", ["activemq", pytest.param("rabbitmq", marks=pytest.mark.long)])
def test_through_the_relay_to(
    broker: str, through: Callable[[str, str | None], Place], queue: str, tmp_path: Path
) -> None:
    """Real brokers get the messages in their order, each as text or as octets, as it was; the passcode is in a file."""
    rows = archive.orders(60, 2)
    for row in rows[::3]:
        row["headers"] = [pair for pair in row["headers"] if pair[0] != "content-length"]
    tables, state = archive.write(tmp_path / "tables", rows), tmp_path / "state"
    (tmp_path / "passcode").write_text("guest\n")
    port = through(broker, None).port
    names = [f"{queue}{number}" for number in range(2)]
    child = replay(
        *(tables, port, state, "--rename", "/queue/d", queue, "--login", "guest"),
        *("--passcode-file", str(tmp_path / "passcode"), "--stomp", "persistent=true"),
    )
    assert ended(child) == 0, child.output
    assert "done: 60 messages are confirmed, 60 of them now" in child.output
    assert "guest" not in child.output
    with consumer(port, *names) as client:
        found = by_destination([client.receive() for _ in range(60)])
    for parity, name in enumerate(names):
        assert [int(each.body) for each in found[name]] == list(range(30))
        if broker == "activemq":
            text = [number % 3 == 0 for number in range(parity, 60, 2)]
            assert ["content-length" not in each.headers for each in found[name]] == text
