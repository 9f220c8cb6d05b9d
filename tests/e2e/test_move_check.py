"""What a move to another product would change, foretold before it: real brokers, a relay, and its journal."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.brokers import Broker, RabbitMQ
from tests.e2e.raw import headers
from tests.e2e.relay import Relay, served, stomprelay
from tests.e2e.talker import Talker

pytestmark = [pytest.mark.e2e, pytest.mark.broker]


def upstream(broker: Broker, product: str, settings: str = "") -> str:
    """The settings of an upstream of this name, behind its table's head."""
    credentials = 'login = "guest"\npasscode_file = "passcode"'
    return f'uri = "{broker.uri}"\nprofile = "{product}"\n{credentials}\n{settings}'


def checked(relay: Relay, *options: str) -> tuple[int, dict[str, Any]]:
    """Exit status and report of a check with these options."""
    done = stomprelay("move", "check", "main", "new", "-c", str(relay.file), "--json", *options)
    assert done.returncode in (0, 1), done.stderr
    return done.returncode, json.loads(done.stdout)


def found(report: dict[str, Any], verdict: str) -> set[tuple[str, str]]:
    """Clients and features with this verdict."""
    return {(each["client"], each["feature"]) for each in report["findings"] if each["verdict"] == verdict}


@pytest.fixture
def moving(tmp_path: Path, activemq: Broker, rabbitmq: RabbitMQ) -> Iterator[Relay]:
    """A relay before an ActiveMQ, whose clients are to move to a RabbitMQ."""
    (tmp_path / "passcode").write_text("guest")
    (tmp_path / "passcode").chmod(0o600)
    new = f'[upstream.new]\n{upstream(rabbitmq, "auto")}\n[upstream.new.map]\nclients = "activemq"\n'
    journal = f'[journal]\ndirectory = "{tmp_path}/journal"\nflush_interval = 0.05\n'
    with served(tmp_path, f"{upstream(activemq, 'activemq')}\n{new}{journal}") as relay:
        yield relay


def client(relay: Relay, name: str) -> Talker:
    """A client with this client-id."""
    talker = Talker.to(relay.port)
    talker.write(f"CONNECT\naccept-version:1.2\nhost:/\nclient-id:{name}\n\n\0".encode())
    assert talker.frame().startswith(b"CONNECTED\n")
    return talker


def test_clients_of_activemq_before_rabbitmq(moving: Relay, rabbitmq: RabbitMQ, queue: str) -> None:
    """Each client's features, how much a selector keeps away, and the lines with which the move may begin."""
    topic = queue.replace("/queue/", "/topic/")
    billing, producer = client(moving, "billing"), client(moving, "producer")
    billing.ask("SUBSCRIBE", destination=topic, id="1", selector="kind = 'a'", ack="auto")
    billing.ask("SUBSCRIBE", destination=f"{topic}/more.>", id="2", **{"activemq.prefetchSize": "5"})
    producer.ask("BEGIN", transaction="t")
    producer.ask("SEND", destination=topic, kind="b", transaction="t")
    producer.ask("ABORT", transaction="t")
    for number in range(10):
        producer.ask("SEND", destination=topic, kind="ab"[number >= 6], expires="0")
    assert [headers(billing.message())[b"kind"] for _ in range(6)] == [b"a"] * 6
    producer.write(f"SEND\ndestination:{queue}/x\nAMQ_SCHEDULED_DELAY:9\n\n\0".encode())
    producer.ask("SEND", destination=f"{queue}/x")
    recorded = "the journal: 15 frames of 2 clients"
    moving.wait_until(lambda: checked(moving, "--journal", "--login")[1]["looked_at"][1].startswith(recorded))

    before = rabbitmq.names()
    status, report = checked(moving, "--journal", "--login")
    assert (status, report["may_begin"], report["open"]) == (1, False, [])
    assert report["new"] == {"upstream": "new", "product": "rabbitmq"}
    assert found(report, "refused") == {("billing", "selectors"), ("producer", "delays")}
    mapped = {("billing", "names"), ("producer", "names"), ("billing", "prefetch"), ("producer", "expiry")}
    assert mapped <= found(report, "mapped")
    (selectors,) = [each for each in report["findings"] if each["feature"] == "selectors"]
    assert selectors["extra"] == [{"client": "billing", "place": topic, "sent": 10, "delivered": 6}]
    assert selectors["count"] == {"sessions that run": 1, "the journal": 1}
    assert selectors["setting"] == '[upstream.new.map] filter = ["/topic/*"]'
    assert [each["accepted"] for each in report["logins"]] == [True]
    assert rabbitmq.names() == before
    text = stomprelay(
        "move", "check", "main", "new", "-c", str(moving.file), "--journal", "--product", "rabbitmq"
    )
    assert text.returncode == 1
    assert f"billing uses selectors on {topic}: the broker delivers every message; 40 % of" in text.stdout

    # The lines that decide it let the move begin.
    said = moving.file.read_text()
    moving.file.write_text(
        said.replace('clients = "activemq"\n', 'clients = "activemq"\nignore = ["selectors", "delays"]\n')
    )
    status, report = checked(moving, "--journal", "--login")
    assert (status, report["may_begin"]) == (0, True)
    assert found(report, "chosen") == {("billing", "selectors"), ("producer", "delays")}
    (moving.file.parent / "passcode").write_text("another")
    status, report = checked(moving, "--no-sessions", "--login", "--product", "rabbitmq")
    assert [each["accepted"] for each in report["logins"]] == [False]
    assert "Bad CONNECT" in report["logins"][0]["text"], report
    billing.close()
    producer.close()


def queues(broker: Broker) -> str:
    """The names of a broker's queues; ActiveMQ tells no client."""
    if isinstance(broker, RabbitMQ):
        return broker.queues()
    if broker.name != "artemis":
        return ""
    with Talker.at(broker.port) as talker:
        talker.ask("SUBSCRIBE", destination="answers", id="1")
        talker.write(
            b"SEND\ndestination:activemq.management\nreply-to:answers\n_AMQ_ResourceName:broker\n"
            b"_AMQ_OperationName:getQueueNames\n\n[]\0"
        )
        names = talker.message().decode()
        assert "DLQ" in names
        return names


@pytest.mark.ci
@pytest.mark.parametrize("product", ["activemq", "artemis", "rabbitmq"])
def test_nothing_is_left_behind(tmp_path: Path, request: pytest.FixtureRequest, product: str) -> None:
    """The conversation of a login leaves no queue."""
    (tmp_path / "passcode").write_text("guest")
    (tmp_path / "passcode").chmod(0o600)
    there: Broker = request.getfixturevalue(product)
    file = tmp_path / "relay.toml"
    file.write_text(
        f'[listener.main]\nendpoint = "tcp:0:interface=127.0.0.1"\nupstream = "main"\n'
        f'[upstream.main]\nuri = "tcp://127.0.0.1:1"\nprofile = "activemq"\n'
        f'[upstream.new]\n{upstream(there, "auto")}\n[upstream.new.map]\nclients = "activemq"\n'
    )
    before = re.findall(r"relay-[\w.-]+", queues(there))
    done = stomprelay("move", "check", "main", "new", "-c", str(file), "--no-sessions", "--login", "--json")
    assert done.returncode == 0, done
    report = json.loads(done.stdout)
    assert report["new"]["product"] == product
    assert [each["accepted"] for each in report["logins"]] == [True]
    assert {*re.findall(r"relay-[\w.-]+", queues(there))} <= {*before}
