"""Frames for which a broker closes the connection: ActiveMQ does so for a priority that is no number."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.brokers import Broker
from tests.e2e.fleet import Fleet, surviving
from tests.e2e.load import drain
from tests.e2e.talker import Talker

pytestmark = [pytest.mark.e2e, pytest.mark.broker]


@pytest.fixture
def one(tmp_path: Path, activemq: Broker) -> Iterator[Fleet]:
    """Run a relay whose sessions survive their only broker, ActiveMQ."""
    with surviving(tmp_path, activemq) as running:
        yield running


def wait_until_left(running: Fleet, sessions: int) -> None:
    """Wait until the frame was refused and the relay has only so many sessions."""
    (node,) = running.nodes
    running.relay.wait_until(lambda: running.admin.counted("poison_refused") == 1)
    running.relay.wait_until(lambda: running.admin.brokers()[node.uri]["sessions"] == sessions)


def test_a_client_that_stays_is_sent_an_error(one: Fleet, queue: str) -> None:
    """It names the frame; what was sent before and after it is delivered, and a good client is not disturbed."""
    with Talker.at(one.port) as good, Talker.at(one.port) as client:
        client.send(queue, b"before")
        receipt = client.ask_later("SEND", b"bad", destination=queue, priority="abc")
        client.tell("SEND", b"after", destination=queue, persistent="true")
        error = client.error()
        assert f"receipt-id:{receipt}\n".encode() in error
        assert f"SEND {queue} (receipt {receipt})".encode() in error
        wait_until_left(one, 1)
        good.send(f"{queue}-good", b"1")
        good.leave()
    wait_until_left(one, 0)
    assert one.nodes[0].proxy.accepted < 15
    assert drain(one.nodes[0].broker.port, queue, 2) == [b"before", b"after"]
    assert drain(one.nodes[0].broker.port, f"{queue}-good", 1) == [b"1"]
    assert one.admin.counted("possibly_lost") == 0
