"""What clients may do, by a relay that runs before real brokers: what is denied, by whatever name."""

from pathlib import Path

import pytest

from tests.e2e.brokers import Broker
from tests.e2e.relay import served
from tests.e2e.talker import Talker

pytestmark = pytest.mark.e2e


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
    with served(tmp_path, upstream, POSTURE.format(secret)) as running, Talker.at(broker.port) as witness:
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
