"""Brokers that do not know each other: producers and consumers are on the same one, whatever dies and comes back."""

import json
import signal
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.e2e.child import Child
from tests.e2e.ports import free_port
from tests.e2e.relay import Relay, relay, start
from tests.e2e.talker import Talker

pytestmark = pytest.mark.e2e

PAIRS = 10


class Pair:
    """Two embedded brokers, each a process of its own, `first` and `second` on the list, and a relay."""

    def __init__(self, directory: Path) -> None:
        self.port, self.admin, self.first, self.second = (free_port() for _ in range(4))
        self._directory = directory
        self._children: dict[int, Child] = {}
        self.relay: Relay | None = None

    def start(self, port: int) -> None:
        """A broker is there, or there again, and empty."""
        child = start(self._directory, ["stompbroker", "-l", f"tcp:{port}:interface=127.0.0.1"])
        self._children[port] = child
        child.wait_for_output(rf" starting on {port}$")

    def kill(self, port: int) -> None:
        """A broker dies at once."""
        self._children.pop(port).stop(signal.SIGKILL)

    def stop(self) -> None:
        """End all brokers."""
        for port in tuple(self._children):
            self.kill(port)

    def sessions(self) -> tuple[int, int]:
        """How many sessions each broker has."""
        return self.told("sessions")

    def told(self, what: str) -> tuple[int, int]:
        """What the relay says of each broker."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.admin}/brokers", timeout=30) as answer:
            first, second = json.loads(answer.read())["brokers"]
        return first[what], second[what]


@pytest.fixture(params=[1, 2], ids=["one process", "two workers"])
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Pair]:
    """Two brokers behind a relay of one process, or of two workers, with a list that has no options."""
    made = Pair(tmp_path)
    workers = request.param
    config = f"""
workers = {workers}
admin = "tcp:{made.admin}:interface=127.0.0.1"
[listener.main]
endpoint = "tcp:{made.port}:interface=127.0.0.1"
upstream = "main"
[upstream.main]
uri = "failover:(tcp://127.0.0.1:{made.first},tcp://127.0.0.1:{made.second})"
"""
    with ExitStack() as stack:
        stack.callback(made.stop)
        made.start(made.first)
        made.start(made.second)
        running = stack.enter_context(relay(tmp_path, config, [made.port, made.admin]))
        if workers > 1:
            running.wait_for_log(f"all {workers} workers serve")
        made.relay = running
        yield made


def all_meet(pair: Pair, consumers: list[Talker], queue: str) -> None:
    """A new producer for each consumer: its message arrives."""
    for number in range(len(consumers)):
        with Talker.at(pair.port) as producer:
            producer.send(f"{queue}.{number}", b"%d" % number)
            producer.leave()
    assert [consumer.bodies(1) for consumer in consumers] == [[b"%d" % at] for at in range(len(consumers))]


def consuming(pair: Pair, queue: str, count: int = PAIRS) -> list[Talker]:
    """Consumers, each of a queue of its own."""
    made = [Talker.at(pair.port) for _ in range(count)]
    for number, consumer in enumerate(made):
        consumer.subscribe(f"{queue}.{number}", "1")
    return made


def test_the_first_dies_and_is_there_again(pair: Pair, queue: str) -> None:
    """Old consumers are at the second broker by then, and so are new producers; what is left at the first is told."""
    assert pair.relay is not None
    consumers = consuming(pair, queue)
    assert pair.sessions() == (PAIRS, 0)
    all_meet(pair, consumers, queue)
    with Talker.at(pair.port) as producer:
        producer.send(f"{queue}.unread", b"1", b"2", b"3")
        producer.leave()
    pair.relay.wait_until(lambda: pair.sessions() == (PAIRS, 0))
    pair.kill(pair.first)
    pair.relay.wait_until(lambda: pair.sessions() == (0, PAIRS))
    pair.start(pair.first)
    assert pair.told("waiting") == (3, 0)
    all_meet(pair, consumers, queue)
    new = consuming(pair, f"{queue}.new")
    all_meet(pair, new, f"{queue}.new")
    assert pair.sessions() == (0, 2 * PAIRS)
    for consumer in (*consumers, *new):
        consumer.leave()


@pytest.mark.ci
def test_a_worker_that_has_seen_nothing(pair: Pair, queue: str) -> None:
    """One consumer, so that the other worker has no session when the broker dies; its clients meet it all the same."""
    assert pair.relay is not None
    consumers = consuming(pair, queue, 1)
    pair.kill(pair.first)
    pair.relay.wait_until(lambda: pair.sessions() == (0, 1))
    pair.start(pair.first)
    producers = [Talker.at(pair.port) for _ in range(PAIRS)]
    assert pair.sessions() == (0, PAIRS + 1)
    for number, producer in enumerate(producers):
        producer.send(f"{queue}.0", b"%d" % number)
        producer.leave()
    assert consumers[0].bodies(PAIRS) == [b"%d" % number for number in range(PAIRS)]
    consumers[0].leave()
