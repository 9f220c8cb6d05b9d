"""What clients may do, by a relay that runs: what is denied, what is not, and rules that change under clients."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.brokers import Broker, memory
from tests.e2e.relay import ROOT, served
from tests.e2e.talker import Talker

pytestmark = pytest.mark.e2e

RULES = """
[[rule]]
name = "secrets"
action = "deny"
send = "/queue/secret"
subscribe = "/queue/secret"

[[rule]]
action = "allow"
send = "/queue/*"
subscribe = "/queue/*"
size = 1000
"""


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
def test_rules(tmp_path: Path, version: str) -> None:
    """A client that breaks one is sent an ERROR, and nobody else is disturbed; new ones hold at once."""
    with served(tmp_path, listener=RULES) as running, Talker.at(running.port, version) as good:
        text = running.file.read_text()
        good.subscribe("/queue/a", "1")
        for frame in (
            b"SEND\ndestination:/queue/a\n\nlast\0SEND\ndestination:/queue/secret\nreceipt:r\n\nx\0",
            b"SUBSCRIBE\nid:1\ndestination:/queue/secret\nreceipt:r\n\n\0",
            b"SEND\ndestination:/topic/a\nreceipt:r\n\nx\0",
            b"SEND\ndestination:/queue/a\nreceipt:r\n\n" + b"x" * 1001 + b"\0",
        ):
            with Talker.at(running.port, version) as bad:
                bad.write(frame)
                said = bad.error()
                assert b"message:not allowed\n" in said
                assert b"receipt-id:r\n" in said
                assert bad.rest().strip(b"\n") == b""
        assert good.bodies(1) == [b"last"]
        good.send("/queue/a", b"x" * 1000)
        assert good.bodies(1) == [b"x" * 1000]
        assert "/queue/secret" not in running.log

        asked = [
            sys.executable,
            "-m",
            "stomprelay",
            "check",
            "-c",
            "stomprelay.toml",
            "subscribe",
            "/queue/a",
        ]
        for new, status in ((text, 0), (text.replace('"/queue/*"', '"/queue/b"'), 1)):
            running.file.write_text(new)
            done = subprocess.run(asked, cwd=tmp_path, env={"PYTHONPATH": str(ROOT)}, check=False, timeout=60)
            assert done.returncode == status
        assert "the configuration is reloaded; changed: listener.main.rule" in running.reload()
        assert b"message:a subscription is no longer allowed\n" in good.error()
        with Talker.at(running.port, version) as later:
            later.send("/queue/b", b"x")
            later.leave()


def test_rules_that_come_while_frames_pass_straight_on(tmp_path: Path) -> None:
    """From the reload on no SEND reaches the broker that a rule denies, though they went from socket to socket."""
    (tmp_path / "broker").mkdir()
    with (
        memory(tmp_path / "broker") as broker,
        served(tmp_path, f'uri = "{broker.uri}"') as running,
        Talker.at(broker.port) as consumer,
        Talker.at(running.port) as client,
    ):
        consumer.subscribe("/queue/secret", "1")
        for number in range(20):
            client.send("/queue/secret", b"%d" % number)
        assert consumer.bodies(20) == [b"%d" % number for number in range(20)]
        line = running.reload(running.file.read_text() + RULES)
        assert "the configuration is reloaded; changed: listener.main.rule" in line
        client.write(b"SEND\ndestination:/queue/a\n\nx\0SEND\ndestination:/queue/secret\n\nlate\0")
        assert b"message:not allowed\n" in client.error()
        consumer.subscribe("/queue/a", "2")
        assert consumer.bodies(1) == [b"x"]


SECRET = "/queue/secret"
POSTURE = """
rules_default = "allow"
[[rule]]
action = "deny"
send = "{0}"
subscribe = "{0}"
"""
BOUND = {"destination": "/topic/a", "durable": "true", "auto_delete": "false", "x_queue_name": "secret"}
LETTER = {
    "destination": "/queue/secret-letters",
    "x_dead_letter_exchange": "",
    "x_dead_letter_routing_key": "secret",
    "x_message_ttl": "0",
}
NAMES = {
    "rabbitmq": ["secret", "/amq/queue/secret", "/reply-queue/secret"],
    "activemq": ["secret", " secret", "/queue/ secret", "/queue/secret ", "/queue/secret?a=b", "/topic/queue://secret,b"],
    "artemis": ["secret"],
}  # fmt: skip


@pytest.mark.broker
@pytest.mark.parametrize("profile", ["auto", "own"])
@pytest.mark.parametrize("product", ["rabbitmq", "activemq", "activemq_6", "artemis"])
def test_a_queue_by_its_other_names(
    product: str, profile: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Each of these reaches the queue at the broker itself, and is denied by the relay before it."""
    broker: Broker = request.getfixturevalue(product)
    own = product.partition("_")[0]
    name = f"secret-{profile}"  # a broker may give again what it had sent to a consumer that is gone
    secret = f"/queue/{name}"
    sends: list[dict[str, str]] = [{"destination": each} for each in NAMES[own]]
    subscribes = [each for each in sends if "," not in each["destination"]]
    if own == "rabbitmq":
        sends.append(LETTER)
        subscribes.append(BOUND)
    if own == "artemis":
        sends.append({"destination": "/topic/secret", "destination_type": "ANYCAST"})
        subscribes.append({"destination": "/topic/secret", "subscription_type": "ANYCAST"})
    sends, subscribes = (
        [{key: value.replace("secret", name) for key, value in headers.items()} for headers in each]
        for each in (sends, subscribes)
    )
    upstream = f'uri = "{broker.uri}"\nprofile = "{own if profile == "own" else profile}"'
    with (
        served(tmp_path, upstream, POSTURE.format(secret)) as running,
        Talker.at(broker.port) as witness,
    ):
        witness.subscribe(secret, "1")
        for headers in sends:
            with Talker.at(broker.port) as direct:
                direct.tell("SEND", b"x", **headers)
                assert witness.bodies(1) == [b"x"], headers
            with Talker.at(running.port) as client:
                client.tell("SEND", b"denied", **headers)
                assert b"message:not allowed\n" in client.error(), headers
        witness.ask("UNSUBSCRIBE", id="1", destination=secret)
        for headers in subscribes:
            witness.send(secret, b"y")
            with Talker.at(running.port) as client:
                client.tell("SUBSCRIBE", id="1", ack="auto", **headers)
                assert b"message:not allowed\n" in client.error(), headers
            with Talker.at(broker.port) as direct:
                direct.ask("SUBSCRIBE", id="1", ack="auto", **headers)
                assert direct.bodies(1) == [b"y"], headers
                direct.ask("UNSUBSCRIBE", id="1", **headers)
        with Talker.at(running.port) as client:
            client.send("/queue/open", b"z")
            client.subscribe("/queue/open", "1")
            assert client.bodies(1) == [b"z"]
