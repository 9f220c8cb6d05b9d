"""Selectors: what real brokers answer is what the table says, and a relay before RabbitMQ answers the same."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e import relay
from tests.e2e.brokers import Broker, RabbitMQ
from tests.e2e.ports import free_port
from tests.e2e.raw import body
from tests.e2e.talker import Talker
from tests.selectors import PLACES, Answer, Cell, read

pytestmark = [pytest.mark.e2e, pytest.mark.broker, pytest.mark.ci]

MESSAGES, CELLS = read()


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace(":", "\\c")


class Asking:
    """Asks for the answers of one broker, or of a relay before one."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._reader, self._sender = Talker.at(port), Talker.at(port)
        soon = str(int(time.time() * 1000) + 600_000)
        self._messages = [
            {name: soon if name == "expires" else value for name, value in each.items()} for each in MESSAGES
        ]

    def answer(self, cell: Cell, topic: str) -> Answer:
        """Subscribe to a topic of the cell's own, send all messages there, and return what came."""
        for place, selector in ((f"{topic}.alone", cell.said), (topic, cell.marked)):
            said = _escaped(selector)
            self._reader.tell("SUBSCRIBE", destination=place, id=place, selector=said, receipt="r")
            if self._reader.frame().startswith(b"ERROR\n"):
                self._reader = Talker.at(self._port)
                return Answer((), error=True, usable=True, refused=False)
        fails = False
        for at, each in enumerate([*self._messages, {"mark": "end"}]):
            named = {name.replace("-", "_"): _escaped(value) for name, value in each.items()}
            self._sender.tell("SEND", str(at).encode(), destination=topic, receipt="r", **named)
            fails = self._sender.frame().startswith(b"ERROR\n") or fails
        found: set[int] = set()
        if fails:
            self._reader = Talker.at(self._port)
            return Answer((), error=False, usable=False, refused=False)
        while (at := int(body(self._reader.message()))) != len(MESSAGES):
            found.add(at)
        return Answer(tuple(sorted(found)), error=False, usable=True, refused=False)


@pytest.mark.parametrize("place", PLACES)
def test_what_the_products_answer(place: str, queue: str, request: pytest.FixtureRequest) -> None:
    """Each cell of the table."""
    broker: Broker = request.getfixturevalue(place.partition("_")[0])
    topic = queue.replace("/queue/", "/topic/")
    cells = [each for each in CELLS if each.place == place]
    asking = Asking(broker.port)
    found = [(each, asking.answer(each, f"{topic}.{at}")) for at, each in enumerate(cells)]
    assert {cell.said: came for cell, came in found if came != cell.answer._replace(refused=False)} == {}


@pytest.fixture
def before_rabbitmq(tmp_path: Path, rabbitmq: RabbitMQ) -> Iterator[dict[str, int]]:
    """Ports of a relay before RabbitMQ, by the product of its clients."""
    ports = {each: free_port() for each in ("activemq", "artemis")}
    config = "".join(
        f'[listener.{name}]\nendpoint = "tcp:{port}:interface=127.0.0.1"\nupstream = "{name}"\n'
        f'[upstream.{name}]\nuri = "{rabbitmq.uri}"\n'
        f'[upstream.{name}.map]\nclients = "{name}"\nfilter = ["/topic/*", "/queue/*-dropping"]\n'
        for name, port in ports.items()
    )
    with relay.relay(tmp_path, config, [*ports.values()]):
        yield ports


@pytest.mark.parametrize("place", PLACES)
def test_what_the_relay_answers(place: str, queue: str, before_rabbitmq: dict[str, int]) -> None:
    """Each cell, at a broker without selectors."""
    topic = queue.replace("/queue/", "/topic/")
    asking = Asking(before_rabbitmq[place.partition("_")[0]])
    cells = [each for each in CELLS if each.place == place and each.answer.usable]
    found = [(each, asking.answer(each, f"{topic}.{at}")) for at, each in enumerate(cells)]
    assert {
        cell.said: came
        for cell, came in found
        if (came != cell.answer._replace(refused=False)) is not cell.answer.refused and not cell.answer.error
    } == {}


def test_acks_at_rabbitmq(queue: str, rabbitmq: RabbitMQ, before_rabbitmq: dict[str, int]) -> None:
    """A durable subscription with cumulative ACKs and a prefetch of two: all that fits comes, what is not acknowledged
    comes again, and nothing else is left.
    """
    topic, name = queue.replace("/queue/", "/topic/"), queue.rpartition("/")[2]

    def reader() -> Talker:
        talker = Talker.to(before_rabbitmq["activemq"])
        talker.write(f"CONNECT\naccept-version:1.2\nhost:/\nclient-id:{name}\n\n\0".encode())
        assert talker.frame().startswith(b"CONNECTED\n")
        talker.ask(
            "SUBSCRIBE",
            destination=topic,
            id="1",
            ack="client",
            selector="n BETWEEN 10 AND 19 OR n = 40",
            **{"activemq.subscriptionName": "s", "activemq.prefetchSize": "2"},
        )
        return talker

    with reader() as first, Talker.at(before_rabbitmq["activemq"]) as sender:
        for number in range(40):
            sender.ask("SEND", str(number).encode(), destination=topic, n=str(number))
        for number in range(10, 19):
            message = first.message()
            assert body(message) == str(number).encode()
            first.acknowledge(message)
        assert body(first.message()) == b"19"
    with reader() as second, Talker.at(before_rabbitmq["activemq"]) as sender:
        sender.ask("SEND", b"end", destination=topic, n="40")
        for expected in (b"19", b"end"):
            message = second.message()
            assert body(message) == expected
            second.acknowledge(message)
        second.leave()
    with Talker.at(rabbitmq.port) as direct:
        direct.ask("SUBSCRIBE", destination=f"/amq/queue/stomp-subscription-{name}.s", id="1")
        direct.ask("SEND", b"x", destination=topic)
        assert body(direct.message()) == b"x"
