"""The scripts: each plays one part of the protocol with a client library and asserts what must be true.

What brokers and libraries do differently comes from the table of facts, through the stage.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass

from tests.e2e.clients.client import Frame
from tests.e2e.facts import BrokerFacts, LibraryFacts, Nack
from tests.e2e.stage import Conversation, Stage


def delivery(stage: Stage) -> None:
    """Automatic acknowledgement: messages come once, in order, until UNSUBSCRIBE."""
    client, queue = stage.connect(), stage.queue()
    client.subscribe(queue, "a")
    bodies = [b"one", b"", "żółć".encode(), b"line\n\nline\n"]
    client.publish(queue, *bodies)
    messages = client.messages(4)
    assert [message.body for message in messages] == bodies
    assert {message.headers["subscription"] for message in messages} == {"a"}
    assert {message.headers["destination"] for message in messages} == {queue}
    client.unsubscribe(queue, "a")
    client.publish(queue, b"later")
    client.subscribe(queue, "b")
    later = stage.behind(messages[-1], client)
    assert (later.body, later.headers["subscription"]) == (b"later", "b")
    client.disconnect()
    stage.saw("connected", client.connected)
    stage.saw("message", *messages, later)


def without_id(stage: Stage) -> None:
    """STOMP 1.0: a subscription without id is named by its destination, and MESSAGE has no `subscription`."""
    client, queue = stage.connect(), stage.queue()
    client.subscribe(queue)
    client.publish(queue, b"one")
    message = client.message()
    client.unsubscribe(queue)
    client.publish(queue, b"two")
    client.disconnect()
    other = stage.connect()
    other.subscribe(queue, ack="client")
    left = stage.behind(message, other)
    assert left.body == b"two"
    other.ack(left)
    other.disconnect()
    stage.saw("message", message, left)


def cumulative(stage: Stage) -> None:
    """`ack:client`: an ACK covers the messages before it; the others come again to another client."""
    client, queue = stage.connect(), stage.queue()
    client.subscribe(queue, "a", "client")
    client.publish(queue, b"1", b"2", b"3", b"4")
    messages = client.messages(4)
    client.ack(messages[2])
    client.drop()
    other = stage.connect()
    other.subscribe(queue, "b", "client")
    again = other.message()
    assert again.body == b"4"
    _marked(stage, again)
    other.ack(again)
    _nothing_left(other, queue)
    stage.saw("message", *messages)
    stage.saw("again", again)


def individual(stage: Stage) -> None:
    """`ack:client-individual`: an ACK covers one message; the others come again to another client."""
    client, queue = stage.connect(), stage.queue()
    client.subscribe(queue, "a", "client-individual")
    client.publish(queue, b"1", b"2", b"3")
    messages = client.messages(3)
    client.ack(messages[1])
    client.drop()
    other = stage.connect()
    other.subscribe(queue, "b", "client-individual")
    again = other.messages(2)
    assert [message.body for message in again] == [b"1", b"3"]
    _marked(stage, *again)
    for message in reversed(again):
        other.ack(message)
    _nothing_left(other, queue)
    stage.saw("message", *messages)
    stage.saw("again", *again)


def unacknowledged(stage: Stage) -> None:
    """A client that vanishes without ACK leaves its messages to the next one, in order."""
    client, queue = stage.connect(), stage.queue()
    client.subscribe(queue, "a", "client")
    client.publish(queue, b"1", b"2")
    assert client.bodies(2) == [b"1", b"2"]
    client.drop()
    other = stage.connect()
    other.subscribe(queue, "a", "auto")
    again = other.messages(2)
    assert [message.body for message in again] == [b"1", b"2"]
    other.disconnect()
    stage.saw("again", *again)


def nack(stage: Stage) -> None:
    """NACK has the effect that the broker gives it in the version of its own connection."""
    client, queue = stage.connect(), stage.queue()
    client.subscribe(queue, "a", "client-individual")
    client.publish(queue, b"one", b"two")
    one, two = client.messages(2)
    client.nack(one)
    _NACKED[stage.nack](stage, client, two, queue)


def _redelivered(stage: Stage, client: Conversation, other: Frame, queue: str) -> None:
    again = client.message()
    assert (again.body, again.headers["redelivered"]) == (b"one", "true")
    stage.saw("again", again)
    client.ack(again)
    client.ack(other)
    _nothing_left(client, queue)


def _dropped(stage: Stage, client: Conversation, other: Frame, queue: str) -> None:
    client.ack(other)
    _nothing_left(client, queue)


def _refused(stage: Stage, client: Conversation, other: Frame, queue: str) -> None:
    stage.saw("error", client.error())
    client.ack(other)
    client.disconnect()
    _comes_again(stage, queue, b"one")


def _ended(stage: Stage, client: Conversation, other: Frame, queue: str) -> None:
    client.error()
    client.ends()
    _comes_again(stage, queue, b"one", other.body)


def _comes_again(stage: Stage, queue: str, *bodies: bytes) -> None:
    """Show that `queue` still holds these messages, and no others."""
    client = stage.connect()
    client.subscribe(queue, "b")
    assert client.bodies(len(bodies)) == list(bodies)
    _nothing_left(client, queue)


_NACKED: dict[Nack, Callable[[Stage, Conversation, Frame, str], None]] = {
    "redelivered": _redelivered,
    "dropped": _dropped,
    "refused": _refused,
    "ended": _ended,
}


def transactions(stage: Stage) -> None:
    """What ABORT ends never happened; what COMMIT ends happened in order; an ACK can be part of it."""
    client, queue = stage.connect(), stage.queue()
    client.subscribe(queue, "a", "client-individual")
    client.begin("t1")
    client.send(queue, b"aborted", {"transaction": "t1"})
    client.publish(queue, b"outside")
    client.abort("t1")
    client.begin("t2")
    for body in (b"first", b"second"):
        client.send(queue, body, {"transaction": "t2"})
    client.commit("t2")
    messages = client.messages(3)
    assert [message.body for message in messages] == [b"outside", b"first", b"second"]
    client.begin("t3")
    client.ack(messages[0], "t3")
    client.ack(messages[2], "t3")
    client.commit("t3")
    client.drop()
    other = stage.connect()
    other.subscribe(queue, "b", "client-individual")
    again = other.message()
    assert again.body == b"first"
    other.ack(again)
    _nothing_left(other, queue)
    stage.saw("message", *messages)
    stage.saw("again", again)


def receipts(stage: Stage) -> None:
    """Many receipts may be under way at once; each comes once, and messages come in between."""
    client, queue = stage.connect(), stage.queue()
    client.subscribe(queue, "a", "client")
    bodies = [b"%d" % number for number in range(1, 51)]
    client.publish_together(queue, *bodies)
    messages = client.messages(50)
    assert [message.body for message in messages] == bodies
    client.ack(messages[-1])
    client.disconnect()
    other = stage.connect()
    other.subscribe(queue, "b")
    _nothing_left(other, queue)


def backlog(stage: Stage) -> None:
    """Messages that wait for a subscriber come in one rush, and all of them arrive, in order."""
    client, queue = stage.connect(), stage.queue()
    bodies = [b"%d" % number for number in range(1, 51)]
    for body in bodies:
        client.send(queue, body)
    client.publish(queue, b"", b"last")
    client.disconnect()
    other = stage.connect()
    other.subscribe(queue, "a", "client")
    messages = other.messages(52)
    assert [message.body for message in messages] == [*bodies, b"", b"last"]
    other.ack(messages[-1])
    _nothing_left(other, queue)


def headers(stage: Stage) -> None:
    """Header values with colons, backslashes, line breaks, spaces and non-ASCII text arrive as sent."""
    client, queue = stage.connect(), stage.queue()
    client.subscribe(queue, "a")
    for name, value, expected in stage.header_values:
        client.publish(queue, b"x", headers={f"x-{name}": value})
        message = client.message()
        assert message.headers[f"x-{name}"] == expected, (name, message.headers[f"x-{name}"])
        stage.saw(name, message)
    client.disconnect()


def bodies(stage: Stage) -> None:
    """Bodies are opaque: NULs, all bytes, what looks like frames, one mebibyte."""
    client, queue = stage.connect(), stage.queue()
    client.subscribe(queue, "a")
    mebibyte = random.Random(2).randbytes(1 << 20)
    sent = [
        b"\0",
        b"a\0\0b\0",
        bytes(range(256)),
        b"\0SEND\ndestination:/queue/x\n\nx\0",
        mebibyte,
        b"text" * 250000,
    ]
    client.publish(queue, *sent)
    messages = client.messages(len(sent))
    for message, body in zip(messages, sent, strict=True):
        assert message.body == body
    client.disconnect()
    stage.saw("message", *messages)


def two_subscriptions(stage: Stage) -> None:
    """Two subscriptions of one client keep apart: what comes, what is acknowledged, what ends."""
    client, one, two = stage.connect(), stage.queue("one"), stage.queue("two")
    client.subscribe(one, "a", "client-individual")
    client.subscribe(two, "b")
    client.publish(one, b"1")
    client.publish(two, b"2")
    client.publish(one, b"3")
    got = {(m.headers["subscription"], m.headers["destination"], m.body): m for m in client.messages(3)}
    assert set(got) == {("a", one, b"1"), ("b", two, b"2"), ("a", one, b"3")}
    client.ack(got["a", one, b"1"])
    client.unsubscribe(two, "b")
    client.publish(two, b"4")
    client.publish(one, b"5")
    assert client.message().body == b"5"
    client.drop()
    other = stage.connect()
    other.subscribe(one, "a")
    assert other.bodies(2) == [b"3", b"5"]
    other.subscribe(two, "b")
    assert other.bodies(1) == [b"4"]
    other.disconnect()


def topics(stage: Stage) -> None:
    """A topic gives each subscriber its own copy."""
    one, two, topic = stage.connect(), stage.connect(), stage.topic()
    one.subscribe(topic, "a")
    two.subscribe(topic, "b")
    two.publish(topic, b"news")
    messages = [one.message(), two.message()]
    assert [(m.body, m.headers["subscription"]) for m in messages] == [(b"news", "a"), (b"news", "b")]
    one.disconnect()
    two.disconnect()
    stage.saw("message", *messages)


def wrong_password(stage: Stage) -> None:
    """A failed login gives the client the broker's own ERROR, and harms nobody else."""
    other = stage.connect()
    error = stage.refused("wrong")
    assert error.headers["message"] == stage.broker.wrong_password
    stage.saw("error", error)
    other.publish(stage.queue(), b"still here")
    other.disconnect()


@dataclass(frozen=True)
class Script:
    """A script and the question whether it makes sense for a library in a version on a broker."""

    play: Callable[[Stage], None]
    applies: Callable[[LibraryFacts, str, BrokerFacts], bool] = lambda library, version, broker: True

    @property
    def name(self) -> str:
        return self.play.__name__


NACK = Script(nack, lambda library, version, broker: version in library.nack)
HEADERS = Script(headers)

FACTS = (NACK, HEADERS)
"""The scripts whose outcome the table of facts gives for each broker, pair of versions and library."""

SCRIPTS = (
    Script(delivery),
    Script(without_id, lambda library, version, broker: version == "1.0"),
    Script(cumulative),
    Script(individual),
    Script(unacknowledged),
    NACK,
    Script(transactions, lambda library, version, broker: library.transactions),
    Script(receipts),
    Script(backlog),
    HEADERS,
    Script(bodies),
    Script(two_subscriptions),
    Script(topics),
    Script(wrong_password, lambda library, version, broker: broker.wrong_password is not None),
)


def _marked(stage: Stage, *again: Frame) -> None:
    """Show that messages that come again say so, where the broker does."""
    if stage.broker.marks_redelivered:
        assert [message.headers["redelivered"] for message in again] == ["true"] * len(again)


def _nothing_left(client: Conversation, queue: str) -> None:
    """Show that `queue`, to which `client` has subscribed, is empty: the next message is one published now."""
    client.publish(queue, b"marker")
    assert client.message().body == b"marker"
    client.disconnect()
