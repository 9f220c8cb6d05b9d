"""Messages as they become known."""

from typing import Any

import pytest

from stomprelay.pipeline.match.matching import Message
from stomprelay.pipeline.schema import MESSAGES
from stomprelay.pipeline.sessions import transfer as s
from stomprelay.pipeline.settings import TimeLimits

TERMS = TimeLimits(patience=600, linger=10, give_up=100)


def _seen(kind: s.Kind, ns: int, **values: Any) -> s.Transfer:
    known = {"key": "tt", "ns": ns, "segment": "g", "position": ns, "number": 0, "kind": int(kind), **values}
    return [known.get(name) for name, _ in s.FIELDS]


def _delivered(ns: int, session: str = "c", **values: Any) -> s.Transfer:
    return _seen(
        s.Kind.DELIVERED,
        ns,
        **{"session": session, "client": session, "subscription": "1", "mode": "client", **values},
    )


@pytest.mark.parametrize(
    ("receipt", "given", "aborted", "outcome", "until"),
    [
        (None, False, False, "undelivered", 105),
        ("r", False, False, "unconfirmed", 105),
        ("r", True, False, "undelivered", 106),
        ("r", False, True, "aborted", 16),
        (None, False, True, "aborted", 16),
    ],
)
def test_without_a_delivery(
    receipt: str | None, given: bool, aborted: bool, outcome: str, until: int
) -> None:
    """Cell by cell: what it is called, and up to when a sign of it counts."""
    message = Message(5, topic=False)
    message.sent = _seen(s.Kind.SENT, 5, receipt=receipt, receipt_ns=6 if given else None)
    message.aborted, message.last = aborted, 6 if given or aborted else 5
    assert (message.outcome, message.until(TERMS)) == (outcome, until)


@pytest.mark.parametrize(
    ("first", "second", "queue", "topic"),
    [
        ("acked", "acked", ("acked", 0), ("acked", 0)),
        ("nacked", "acked", ("acked", 1), ("nacked", 0)),
        ("returned", "acked", ("acked", 1), ("returned", 0)),
        ("acked", "returned", ("returned", 0), ("returned", 0)),
        ("acked", "nacked", ("nacked", 0), ("nacked", 0)),
        (None, "acked", ("acked", 0), ("delivered", 0)),
        ("acked", None, ("delivered", 0), ("delivered", 0)),
        ("returned", None, ("delivered", 1), ("delivered", 0)),
    ],
)
def test_two_deliveries(
    first: str | None, second: str | None, queue: tuple[str, int], topic: tuple[str, int]
) -> None:
    """Cell by cell, to two clients: of a queue's message the last counts, of a topic's each."""
    for is_topic, (outcome, again) in ((False, queue), (True, topic)):
        message = Message(1, topic=is_topic)
        deliveries = [_delivered(1, "c"), _delivered(3, "d")]
        for delivery, answer in zip(deliveries, (first, second), strict=True):
            message.was_delivered(delivery, delivery[s.NS])
            if answer is not None:
                message.was_settled(delivery, delivery[s.NS] + 1, delivery[s.NS] + 1, answer)
        assert (message.outcome, message.redelivered) == (outcome, again)
        assert message.settled == (None not in (first, second) and outcome != "returned")


def test_an_answer_counts_once() -> None:
    """What is told in two continuations is one thing."""
    message = Message(1, topic=False)
    delivery = _delivered(1)
    message.was_delivered(delivery, 1)
    message.was_settled(delivery, 2, 2, "acked")
    message.was_settled(delivery, 3, 3, "returned")
    assert (message.outcome, message.settled) == ("acked", True)


def test_its_row() -> None:
    """Column by column."""
    message = Message(1000, topic=False)
    sent = _seen(s.Kind.SENT, 1000, relay="r", destination="/q", client="p", session="s", size=3)
    sent[s.HEADERS] = '{"kind":"new"}'
    message.sent = sent
    delivery = _delivered(5000, upstream="main", broker="a", message_id="m")
    message.was_delivered(delivery, 5000)
    message.was_settled(delivery, 9000, 8000, "acked")
    row = dict(zip(MESSAGES.names, message.row("tt", "trace", final=True), strict=True))
    assert row == {
        "seen_at": 1000,
        "relay": "r",
        "destination": "/q",
        "producer": "p",
        "producer_session": "s",
        "sent_at": 1000,
        "size": 3,
        "receipt": None,
        "transaction": None,
        "headers": '{"kind":"new"}',
        "key": "t",
        "matched": "trace",
        "outcome": "acked",
        "deliveries": [(5000, "c", "c", "1", "main", "a", "m", "client", 8000, "acked")],
        "redelivered": 0,
        "receipt_us": None,
        "delivery_us": 4,
        "ack_us": 3,
        "final": True,
        "segment": "g",
        "position": 1000,
        "number": 0,
    }


@pytest.mark.parametrize("answer", [None, "acked", "returned"])
def test_it_goes_on_in_the_next_batch(answer: str | None) -> None:
    """As it was."""
    message = Message(1, topic=False)
    message.sent = _seen(s.Kind.SENT, 1)
    for ns in (2, 4):
        delivery = _delivered(ns)
        message.was_delivered(delivery, ns)
        if answer is not None:
            message.was_settled(delivery, ns + 1, ns + 1, answer)
    again = Message.load("tt", message.dump())
    assert again.dump() == message.dump()
    assert (again.outcome, again.settled, again.until(TERMS)) == (
        message.outcome,
        message.settled,
        message.until(TERMS),
    )
