"""Both sides of a move in the phase `shadow` are compared: real brokers, of which one does not keep what it got."""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.brokers import Broker
from tests.e2e.child import Child
from tests.e2e.raw import body, headers
from tests.e2e.relay import Relay, launch, served, stomprelay
from tests.e2e.talker import Talker

pytestmark = [pytest.mark.e2e, pytest.mark.broker]

MESSAGES = 50


class Shadow:
    """A relay whose queues are in the phase `shadow`, from ActiveMQ to another broker."""

    def __init__(self, running: Relay, directory: Path, new: Broker, queue: str) -> None:
        self.running, self.directory, self.new = running, directory, new
        self.queue = f"{queue}/orders"
        self.there = self.queue.replace("/orders", "%2Forders") if new.name == "rabbitmq" else self.queue

    def compare(self, *options: str) -> Child:
        """Begin to compare."""
        assert self.running.file is not None
        command = [
            sys.executable,
            "-m",
            "stomprelay",
            "move",
            "compare",
            "queues",
            "-c",
            str(self.running.file),
        ]
        return launch(self.running.file.parent, [*command, "--json", *options])

    def takes(self, change: Callable[[list[bytes]], list[bytes]]) -> None:
        """NEW has the copies that `change` returns in place of those that it was sent."""
        with Talker.at(self.new.port) as client:
            routing = {"subscription_type": "ANYCAST"} if self.new.name == "artemis" else {}
            client.ask("SUBSCRIBE", destination=self.there, id="1", ack="client-individual", **routing)
            came = [client.message() for _ in range(MESSAGES)]
            for each in came:
                client.acknowledge(each)
            client.ask("UNSUBSCRIBE", id="1")
            for each in change(came):
                mark = headers(each)[b"relay-copy"].decode()
                client.ask("SEND", body(each), destination=self.there, relay_copy=mark)
            client.leave()


def result(command: Child, status: int) -> dict[str, Any]:
    """Wait for the end of a command. Return its result."""
    found = command.wait_for_output(r"^\{.*\}$").group()
    assert command.exited(within=60)
    assert command.stop() == status, found
    told: dict[str, Any] = json.loads(found)
    return told


@pytest.fixture(params=["rabbitmq", pytest.param("artemis", marks=pytest.mark.long)])
def shadow(request: pytest.FixtureRequest, tmp_path: Path, activemq: Broker, queue: str) -> Iterator[Shadow]:
    """Run a relay before an ActiveMQ, from which all queues are to move to another broker."""
    new: Broker = request.getfixturevalue(request.param)
    upstreams = f"""uri = "failover:({activemq.uri})"
profile = "activemq"
[upstream.new]
uri = "failover:({new.uri})"
login = "guest"
passcode = "guest"
host = "/"
profile = "{new.name}"
[upstream.new.map]
clients = "activemq"
[move.queues]
prefix = "/queue/"
to = "new"
"""
    more = f'moves_file = "{tmp_path / "moves.json"}"\n[journal]\nbodies = 100\ndirectory = "{tmp_path / "journal"}"'
    with served(tmp_path, upstreams, more=more) as running:
        began = Shadow(running, tmp_path, new, queue)
        with Talker.at(running.port) as client:  # a session that is older than the phase
            client.send(began.queue, b"before")
            found = stomprelay("move", "next", "queues", "--admin", running.admin.url)
            assert found.returncode == 0, found.stderr
            running.wait_until(lambda: running.admin.told("/moves")["moves"][0]["followed"] == 1)
            client.send(began.queue, *[b"%d" % each for each in range(MESSAGES)])
            client.leave()
        yield began


def counts(told: dict[str, Any], destination: str) -> dict[str, int]:
    """Return the counts of a destination that are not 0."""
    [found] = [each for each in told["counts"] if each["destination"] == destination]
    return {
        name: found[name] for name in ("sent", "same", "other", "missing", "twice", "late") if found[name]
    }


def test_both_sides_are_the_same(shadow: Shadow) -> None:
    """What waited and what comes, also to a destination that is new; what is no copy stays."""
    with Talker.at(shadow.new.port) as client:
        client.send(shadow.there, b"no copy")
    command = shadow.compare("--for", "6")
    another = f"{shadow.queue}-2"
    with Talker.at(shadow.running.port) as producer:
        producer.send(shadow.queue, *[b"%d" % each for each in range(10)])
        producer.send(another, b"x" * 1_000_000)
        told = result(command, 0)
    assert told["same"]
    assert counts(told, shadow.queue) == {"sent": MESSAGES + 10, "same": MESSAGES + 10}
    assert counts(told, another) == {"sent": 1, "same": 1}
    assert (told["others"], told["unknown"], told["uncompared"]) == ({shadow.queue: 1}, 0, 0)
    assert told["only"] == ""
    # The copies are gone, and nothing else.
    with Talker.at(shadow.new.port) as client:
        routing = {"subscription_type": "ANYCAST"} if shadow.new.name == "artemis" else {}
        client.ask("SUBSCRIBE", destination=shadow.there, id="1", ack="auto", **routing)
        client.send(shadow.there, b"last")
        assert client.bodies(2) == [b"no copy", b"last"]


@pytest.mark.ci
def test_a_broker_that_does_not_keep_what_it_was_sent(shadow: Shadow) -> None:
    """A body that is another one, a message that is missing, two in the wrong order, and one that is there twice."""

    def change(copies: list[bytes]) -> list[bytes]:
        copies[3] = copies[3].replace(body(copies[3]) + b"\0", b"x\0")
        copies[20], copies[21] = copies[21], copies[20]
        return [*copies[:10], *copies[11:], copies[40]]

    shadow.takes(change)
    told = result(shadow.compare("--for", "3", "--keep", "journal"), 1)
    assert not told["same"]
    expected = {"sent": MESSAGES, "same": MESSAGES - 2, "other": 1, "missing": 1, "twice": 1, "late": 1}
    assert counts(told, shadow.queue) == expected
    # The journal of the relay has both sides now.
    command = ["journal", "cat", f"{shadow.directory / 'journal'}", "--json"]
    found = [json.loads(line) for line in stomprelay(*command).stdout.splitlines()]
    kept = [each for each in found if each["relay"] == "compare"]
    assert len([each for each in kept if each.get("command") == "MESSAGE"]) == MESSAGES
    [event] = [each for each in kept if each.get("event") == "compared"]
    assert (event["facts"]["destination"], event["listener"]) == (shadow.queue, "compare")
