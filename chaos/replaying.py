"""A replay is killed, again and again.

`stomprelay-pipeline replay` sends messages of the tables through a relay to a consumer that is no code of ours. Its
Java and all its Python get SIGKILL at random moments, and the same command is said again, until it gets through.
Nothing may be lost or out of order; what comes twice must have the key it had before, and be no more than a window for
each connection and kill.
"""

import contextlib
import random
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from chaos.source import end
from chaos.tables import through
from chaos.verdict import Verdict
from stomprelay.pipeline.stomp.progress import JobProgress
from tests.e2e import brokers
from tests.e2e.child import Child
from tests.e2e.clients.stomppy import StompPy
from tests.e2e.ports import free_port
from tests.e2e.relay import relay
from tests.pipeline.replay import archive

CONNECTIONS: Final = 2
WINDOW: Final = 100
RATE: Final = 400
"""Messages a second."""
EACH: Final = 500
"""Messages for each kill."""
DESTINATIONS: Final = 5
MOMENT: Final = 0.2
"""Seconds after that up to which it is killed; not so long that it is through."""
PATIENCE: Final = 300.0
END: Final = b"end"


@dataclass(frozen=True)
class Heard:
    """A message that the consumer got."""

    destination: str
    key: str
    number: int


def judged(heard: Sequence[Heard], count: int, destinations: int, kills: int) -> tuple[int, int, list[str]]:
    """How many were lost, how many came more than once, and which promises were broken. There are `count` messages, in
    turn to each destination; the number of one is its place there.
    """
    broken = []
    names: Mapping[str, list[Heard]] = defaultdict(list)
    for each in heard:
        names[each.destination].append(each)
    whole = {f"/queue/d{at}": list(range(len(range(at, count, destinations)))) for at in range(destinations)}
    lost = sum(len(set(numbers) - {each.number for each in names[name]}) for name, numbers in whole.items())
    if lost:
        broken.append(f"{lost:,} messages were lost")
    once = {each.key: each for each in reversed(heard)}
    again = len(heard) - (count - lost)
    if len(once) != count - lost or any(once[each.key] != each for each in heard):
        broken.append(f"{count - lost:,} messages came with {len(once):,} keys")
    for name in whole:
        seen = list(dict.fromkeys(each.number for each in names[name]))
        if seen != sorted(seen):
            broken.append(f"{name} is out of order")
    if again > kills * CONNECTIONS * WINDOW:
        broken.append(f"{again:,} came twice, more than {kills} * {CONNECTIONS} * {WINDOW}")
    return lost, again, broken


def replay(tables: Path, port: int, state: Path) -> Child:
    """Start it as its users do, or go on with it."""
    command = [sys.executable, "-m", "stomprelay.pipeline.cli", "replay", "--master", f"local[{CONNECTIONS}]"]
    command += ["--conf", "spark.driver.memory=768m", "--tables", str(tables), "--state", str(state)]
    command += ["--to", f"tcp://127.0.0.1:{port}", "--rate", str(RATE), "--window", str(WINDOW)]
    command += ["--connections", str(CONNECTIONS)]
    return Child("replay", command, cwd=Path(__file__).resolve().parent.parent)


def confirmed(state: Path) -> int:
    """How many messages are, as far as it is noted."""
    return sum(JobProgress(state / "progress").position("0", number) for number in range(CONNECTIONS))


def passes(child: Child, state: Path, goal: int) -> None:
    """Wait until more than so many are confirmed. Raises `AssertionError` where the replay ends before."""
    for _ in range(int(PATIENCE / 0.02)):
        if confirmed(state) > goal:
            return
        assert not child.exited(0.02), f"the replay ended:\n{child.last_words}"
    raise AssertionError(f"the replay is slow: {confirmed(state)} of {goal}\n{child.last_words}")


def goals(chance: random.Random, rounds: int) -> Iterator[int | None]:
    """After how many confirmed messages to kill it, in another part of them each time; None: while it starts."""
    yield None
    for number in range(1, rounds):
        yield (number - 1) * EACH + chance.randrange(EACH * 4 // 5)


@contextlib.contextmanager
def consumer(port: int) -> Iterator[StompPy]:
    """A stomp.py that is subscribed to all destinations."""
    client = StompPy()
    assert client.connect(port, "1.2", "guest", "guest").command == "CONNECTED"
    for number in range(DESTINATIONS):
        client.subscribe(f"/queue/d{number}", {"id": str(number), "ack": "auto"})
    try:
        yield client
    finally:
        client.drop()


def drained(client: StompPy) -> list[Heard]:
    """What it got, up to a message that is sent now."""
    for number in range(DESTINATIONS):
        client.send(f"/queue/d{number}", END, {})
    heard: list[Heard] = []
    ends = 0
    while ends < DESTINATIONS:
        frame = client.receive()
        if frame.body == END:
            ends += 1
        else:
            headers = frame.headers
            heard.append(Heard(headers["destination"], headers["relay-key"], int(frame.body)))
    return heard


def run(home: Path, rounds: int, seed: int) -> Verdict:
    """So many kills. `home` is an empty folder."""
    chance = random.Random(seed)
    count = rounds * EACH
    tables = archive.write(home / "tables", archive.orders(count, DESTINATIONS))
    state, port = home / "state", free_port()
    config = f"""
[listener.main]
endpoint = "tcp:{port}:interface=127.0.0.1"
[upstream.main]
uri = "tcp://127.0.0.1:%d"
"""
    began = time.monotonic()
    kills = 0
    with (
        brokers.memory(home) as broker,
        relay(home, config % broker.port, [port]),
        consumer(port) as client,
    ):
        for goal in goals(chance, rounds):
            child = replay(tables, port, state)
            try:
                if goal is None:
                    assert not child.exited(chance.uniform(0, 5)), child.last_words
                else:
                    passes(child, state, goal)
                    time.sleep(chance.uniform(0, MOMENT))
            finally:
                end(child)
            kills += 1
            print(
                f"  {time.monotonic() - began:6.1f} s  kill {kills}, {confirmed(state):,} confirmed",
                flush=True,
            )
        child = replay(tables, port, state)
        try:
            assert through(child, PATIENCE), f"it does not end:\n{child.last_words}"
        finally:
            end(child)
        heard = drained(client)
    lost, again, broken = judged(heard, count, DESTINATIONS, kills)
    keys = Counter(each.key for each in heard)
    return Verdict(
        f"replay: {kills} kills of Java and Python",
        (
            ("messages in the tables", f"{count:,}"),
            ("MESSAGEs that the consumer got", f"{len(heard):,}"),
            ("lost", f"{lost:,}"),
            ("came more than once, at most", f"{again:,}, {kills * CONNECTIONS * WINDOW:,}"),
            ("different keys", f"{len(keys):,}"),
        ),
        tuple(broken),
    )
