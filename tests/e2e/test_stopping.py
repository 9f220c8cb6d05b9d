"""SIGTERM while brokers keep the relay waiting: what `confirm` took is delivered in time, or said to be lost."""

import contextlib
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.brokers import Broker
from tests.e2e.fleet import Fleet, Node, nodes
from tests.e2e.load import drain
from tests.e2e.relay import served
from tests.e2e.talker import Talker

pytestmark = [pytest.mark.e2e, pytest.mark.broker]

BODIES = [b"%d" % number for number in range(50)]


@contextlib.contextmanager
def stopping(directory: Path, members: list[Node], within: float) -> Iterator[Fleet]:
    """Run a relay that the test itself stops; it must be gone at the end."""
    places = ",".join(node.uri for node in members)
    upstream = f"""
uri = "failover:({places})?randomize=false"
confirm = true
heart_beat = [0, 0]
[journal]
directory = "{directory}/journal"
"""
    with served(directory, upstream, more=f"stop_timeout = {within}") as running:
        yield Fleet(running, running.port, running.admin, members)
        running.ends()


def sent(client: Talker, queue: str) -> list[str]:
    """Fifty SENDs are written; their receipts are owed."""
    return [client.ask_later("SEND", each, destination=queue, persistent="true") for each in BODIES]


def journalled(directory: Path) -> str:
    """All bytes of the journal, where events stand as text."""
    return "".join(
        path.read_bytes().decode("latin-1")
        for path in sorted((directory / "journal").rglob("*"))
        if path.is_file()
    )


def test_a_frozen_broker_that_thaws(tmp_path: Path, rabbitmq: Broker, queue: str) -> None:
    """All fifty arrive, each receipt comes, and then the ERROR."""
    with nodes(rabbitmq) as members:
        with stopping(tmp_path, members, 60.0) as running, Talker.at(running.port) as client:
            client.send(queue, b"first")
            rabbitmq.freeze()
            owed = sent(client, queue)
            running.relay.wait_until(lambda: running.admin.counted("client_frames") >= 51)
            running.relay.send(signal.SIGTERM)
            running.relay.wait_for_log("1 session with something left to deliver, within 60 s")
            rabbitmq.thaw()
            client.receipts(*owed)
            assert b"the relay is stopping" in client.error()
            client.close()
            running.relay.wait_for_log("all is delivered")
        assert drain(rabbitmq.port, queue, 51) == [b"first", *BODIES]


def test_a_broker_that_does_not_come_back(tmp_path: Path, rabbitmq: Broker, queue: str) -> None:
    """The relay ends when its time is over; log and journal say how many may be lost, and no receipt came."""
    with nodes(rabbitmq) as members:
        with stopping(tmp_path, members, 2.0) as running, Talker.at(running.port) as client:
            client.send(queue, b"first")
            running.admin.told("/brokers/pause", broker="*")
            running.relay.wait_until(lambda: members[0].proxy.connections == 0)
            sent(client, queue)
            running.relay.wait_until(lambda: running.admin.counted("client_bytes") > 50 * 60)
            running.relay.send(signal.SIGTERM)
            error = client.error()  # no receipt before it
            assert b"the relay is stopping" in error
            assert b"what has no receipt may be lost" in error
            client.close()
            line = running.relay.wait_for_log("SENDs that may be lost")
            assert re.search(
                r"1 session ended with the relay after 2\.\d s, SENDs that may be lost: 50$", line
            )
        assert re.search(r'"possibly_lost": ?50', journalled(tmp_path))
        assert drain(rabbitmq.port, queue, 1) == [b"first"]
