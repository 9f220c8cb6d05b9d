"""Who is next."""

from typing import Any

from stomprelay.pipeline.match import transfer as s
from stomprelay.pipeline.match.message import Message
from stomprelay.pipeline.match.order import SendOrder
from stomprelay.pipeline.settings import TimeLimits

TERMS = TimeLimits(patience=600, linger=10, give_up=100)


def _seen(ns: int, **values: Any) -> s.Transfer:
    known = {"key": "o", "ns": ns, "segment": "g", "offset": ns, "number": 0, "relay": "r", **values}
    return [known.get(name) for name, _ in s.FIELDS]


class _Line:
    """A order, and the messages in it by number."""

    def __init__(self, *, topic: bool = False, by_id: bool = False) -> None:
        self.order = SendOrder(TERMS, by_id=by_id)
        self.messages: list[Message] = []
        self.topic = topic

    def sends(self, ns: int, relay: str = "r") -> None:
        transfer = _seen(ns, relay=relay)
        message = self.order.adopted(transfer, ns)
        if message is None:
            message = Message(ns, topic=self.topic)
            self.messages.append(message)
        message.was_sent(transfer, ns)
        message.available = ns
        self.order.available(message)

    def gets(self, ns: int, session: str = "c", **values: Any) -> int:
        transfer = _seen(ns, session=session, client=session, subscription="1", broker="a", **values)
        message = self.order.next(transfer, ns, topic=self.topic)
        if message is None:
            message = Message(ns, topic=self.topic)
            self.messages.append(message)
        message.was_delivered(transfer, ns)
        self.order.delivered(message, transfer)
        return self.messages.index(message)

    def answers(self, at: int, ns: int, outcome: str) -> None:
        self.messages[at].was_settled(self.messages[at].deliveries[-1], ns, ns, outcome)
        self.order.settled(self.messages[at])

    def goes_on(self) -> None:
        """In the next batch."""
        again = SendOrder(TERMS, by_id=False)
        again.load(self.order.dump(), self.messages)
        self.order = again


def test_a_queue() -> None:
    """First in, first out; what went back is next when there is nothing new, or when the broker says so."""
    line = _Line()
    for ns in (1, 2, 3):
        line.sends(ns)
    assert [line.gets(10), line.gets(11)] == [0, 1]
    line.answers(1, 12, "nacked")
    line.answers(0, 13, "returned")
    assert line.gets(14, again=True) == 1
    line.goes_on()
    assert [line.gets(15), line.gets(16), line.gets(17)] == [2, 0, 3]


def test_what_was_answered_for_good_does_not_come_again() -> None:
    """Nor what was given up."""
    line = _Line()
    line.sends(1)
    assert line.gets(2) == 0
    line.answers(0, 3, "acked")
    assert line.gets(4) == 1
    line.sends(5)
    assert line.gets(106) == 3
    assert line.messages[2].deliveries == []


def test_the_broker_knows_first_that_somebody_is_gone() -> None:
    """Then what another session has is given again; never what the same one has."""
    line = _Line()
    for ns in (1, 2):
        line.sends(ns)
    line.gets(10, "c")
    assert line.gets(11, "c", again=True) == 1
    line.goes_on()
    assert line.gets(12, "d", again=True) == 0


def test_names_that_come_again() -> None:
    """The broker's message-id, and the relay's mark on copies."""
    line = _Line()
    for ns in (1, 2):
        line.sends(ns)
    assert line.gets(10, message_id="m", copy="x") == 0
    line.goes_on()
    assert [line.gets(11, message_id="m"), line.gets(12, copy="x"), line.gets(13, message_id="n")] == [
        0,
        0,
        1,
    ]


def test_a_topic() -> None:
    """Each subscriber gets each message since it subscribed."""
    line = _Line(topic=True)
    for ns in (1, 5, 9):
        line.sends(ns)
    assert [line.gets(10, "c", since_ns=0), line.gets(10, "d", since_ns=4)] == [0, 1]
    line.goes_on()
    assert [line.gets(11, "c", since_ns=0), line.gets(11, "d", since_ns=4)] == [1, 2]
    line.order.swept(line.messages[1:])
    assert [line.gets(12, "c", since_ns=0), line.gets(12, "d", since_ns=4)] == [2, 3]


def test_a_subscriber_that_was_quicker_than_the_send() -> None:
    """At the broker, but not at the relay."""
    line = _Line(topic=True)
    line.sends(1)
    line.sends(5)
    assert [line.gets(8, "c", since_ns=6), line.gets(8, "d", since_ns=40)] == [1, 1]


def test_orphans() -> None:
    """A delivery before the SEND, by another relay's clock; by one relay's clock it is another message."""
    line = _Line()
    line.gets(1)
    line.sends(2)
    assert len(line.messages) == 2
    line.sends(3, "other")
    assert len(line.messages) == 2
    line.gets(4)
    line.gets(5)
    line.sends(16, "other")
    assert len(line.messages) == 4
    named = _Line(by_id=True)
    named.gets(1)
    named.sends(50)
    assert len(named.messages) == 1
    assert named.gets(60) == 0


def test_what_is_swept_is_forgotten() -> None:
    """All names of it."""
    line = _Line()
    line.sends(1)
    line.gets(2, message_id="m", copy="x")
    line.answers(0, 3, "nacked")
    line.order.swept([])
    del line.messages[:]
    assert [line.gets(4, message_id="m"), line.gets(5, copy="x"), line.gets(6, again=True)] == [0, 1, 2]
