"""What a session has under way when its broker is lost, with another product behind the relay to take over."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.brokers import Broker
from tests.e2e.fleet import Fleet, surviving
from tests.e2e.load import drain
from tests.e2e.raw import body
from tests.e2e.talker import Talker

pytestmark = [pytest.mark.e2e, pytest.mark.broker]


@pytest.fixture
def pair(
    request: pytest.FixtureRequest, tmp_path: Path, activemq: Broker, rabbitmq: Broker
) -> Iterator[Fleet]:
    """Run a relay whose sessions begin on one product and go on on the other: on ActiveMQ, or on that of the test."""
    brokers = (rabbitmq, activemq) if getattr(request, "param", "") == "rabbitmq" else (activemq, rabbitmq)
    with surviving(tmp_path, *brokers) as running:
        yield running


def emptied(running: Fleet, queue: str, due: int = 0) -> list[list[bytes]]:
    """Make all brokers well and return what each holds in a queue, which is empty then.

    At the first one `due` messages are waited for: it gives them back when it has noticed that their client is gone.
    """
    running.heal()
    lost, next_ = running.nodes
    return [drain(lost.broker.port, queue, due), drain(next_.broker.port, queue)]


@pytest.mark.parametrize(
    ("pair", "version"),
    [("activemq", "1.0"), ("activemq", "1.1"), ("activemq", "1.2"), ("rabbitmq", "1.2")],
    indirect=["pair"],
)
def test_subscriptions_go_on(pair: Fleet, queue: str, version: str) -> None:
    """Subscriptions of each ack mode work on the next broker; ACKs of what the lost one delivered are swallowed."""
    queues = {mode: f"{queue}-{mode}" for mode in ("auto", "client", "client-individual")}
    lost, next_ = pair.nodes
    with Talker.at(pair.port, version) as client, Talker.at(lost.broker.port) as other:
        stale = {}
        for number, (mode, place) in enumerate(queues.items()):
            client.subscribe(place, str(number), mode)
            other.send(place, b"old")
            stale[mode] = client.message()
            assert body(stale[mode]) == b"old"
        lost.proxy.cut()
        with Talker.at(next_.broker.port) as another:
            for mode, place in queues.items():
                another.send(place, b"new-1", b"new-2")
                fresh = [client.message(), client.message()]
                assert [body(each) for each in fresh] == [b"new-1", b"new-2"]
                if mode != "auto":
                    client.acknowledge(stale[mode])
                for each in {"auto": [], "client": fresh[-1:], "client-individual": fresh[::-1]}[mode]:
                    client.acknowledge(each)
        client.leave()
    assert emptied(pair, queues["auto"]) == [[], []]
    assert emptied(pair, queues["client"], 1) == [[b"old"], []]
    assert emptied(pair, queues["client-individual"], 1) == [[b"old"], []]
    assert pair.admin.counted("errors_sent") == 0


@pytest.mark.ci
@pytest.mark.parametrize("version", ["1.0", "1.2"])
def test_a_transaction_goes_on(pair: Fleet, queue: str, version: str) -> None:
    """BEGIN and SENDs are said again to the next broker; the COMMIT there delivers each once."""
    with Talker.at(pair.port, version) as client:
        client.tell("BEGIN", transaction="t")
        client.tell("SEND", b"1", destination=queue, transaction="t", persistent="true")
        client.tell("SEND", b"2", destination=queue, transaction="t", persistent="true")
        client.send(queue, b"outside")  # so the broker has all of it
        pair.nodes[0].proxy.cut()
        client.send(
            queue, b"outside"
        )  # a COMMIT to a broker whose death nobody knows yet has no known outcome
        client.tell("SEND", b"3", destination=queue, transaction="t", persistent="true")
        client.ask("COMMIT", transaction="t")
        client.leave()
    assert emptied(pair, queue) == [[b"outside"], [b"outside", b"1", b"2", b"3"]]


@pytest.mark.ci
@pytest.mark.parametrize("pair", ["rabbitmq"], indirect=True)
def test_what_was_committed_survives_its_broker(pair: Fleet, queue: str) -> None:
    """RabbitMQ is killed as soon as the client has the RECEIPT of its last COMMIT: none of the messages is missing."""
    sent = []
    with Talker.at(pair.port) as client:
        for number in range(30):
            client.tell("BEGIN", transaction=f"t{number}")
            sent += (bodies := [f"{number}-{each}".encode() for each in range(3)])
            for each in bodies:
                client.tell("SEND", each, destination=queue, transaction=f"t{number}", persistent="true")
            client.ask("COMMIT", transaction=f"t{number}")
        pair.nodes[0].broker.kill()
    assert emptied(pair, queue, due=len(sent)) == [sent, []]
