"""Brokers that do not know each other: producers and consumers are on the same one, whatever dies and comes back."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.brokers import Broker, memory
from tests.e2e.relay import Relay, served
from tests.e2e.talker import Talker

pytestmark = pytest.mark.e2e

PAIRS = 10


class Pair:
    """Two embedded brokers, each a process of its own, `first` and `second` on the list, and a relay."""

    def __init__(self, relay: Relay, first: Broker) -> None:
        self.relay, self.port, self.first = relay, relay.port, first

    def told(self, what: str = "sessions") -> tuple[int, int]:
        """What the relay says of each broker: how many sessions it has, if nothing else is asked for."""
        first, second = self.relay.admin.told("/brokers")["brokers"]
        return first[what], second[what]


@pytest.fixture(params=[1, pytest.param(2, marks=pytest.mark.ci)], ids=["one process", "two workers"])
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Pair]:
    """Two brokers behind a relay of one process, or of two workers, with a list that has no options."""
    with memory(tmp_path) as first, memory(tmp_path) as second:
        uri = f'uri = "failover:({first.uri},{second.uri})"'
        with served(tmp_path, uri, workers=request.param) as running:
            yield Pair(running, first)


def all_meet(pair: Pair, consumers: list[Talker], queue: str) -> None:
    """A new producer for each consumer: its message arrives."""
    for number in range(len(consumers)):
        with Talker.at(pair.port) as producer:
            producer.send(f"{queue}.{number}", b"%d" % number)
            producer.leave()
    assert [consumer.bodies(1) for consumer in consumers] == [[b"%d" % at] for at in range(len(consumers))]


def consuming(pair: Pair, queue: str) -> list[Talker]:
    """Consumers, each of a queue of its own."""
    made = [Talker.at(pair.port) for _ in range(PAIRS)]
    for number, consumer in enumerate(made):
        consumer.subscribe(f"{queue}.{number}", "1")
    return made


def test_the_first_dies_and_is_there_again(pair: Pair, queue: str) -> None:
    """Old consumers are at the second broker by then, and so are new producers; what is left at the first is told."""
    consumers = consuming(pair, queue)
    assert pair.told() == (PAIRS, 0)
    all_meet(pair, consumers, queue)
    with Talker.at(pair.port) as producer:
        producer.send(f"{queue}.unread", b"1", b"2", b"3")
        producer.leave()
    pair.relay.wait_until(lambda: pair.told() == (PAIRS, 0))
    pair.first.kill()
    pair.relay.wait_until(lambda: pair.told() == (0, PAIRS))
    pair.first.heal()
    assert pair.told("waiting") == (3, 0)
    all_meet(pair, consumers, queue)
    new = consuming(pair, f"{queue}.new")
    all_meet(pair, new, f"{queue}.new")
    assert pair.told() == (0, 2 * PAIRS)
    for consumer in (*consumers, *new):
        consumer.leave()
