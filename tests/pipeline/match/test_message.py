"""Messages as they become known."""

from typing import Any

import pytest

from stomprelay.pipeline.match.matching import Message
from stomprelay.pipeline.schema import MESSAGES
from stomprelay.pipeline.sessions import transfer as s


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
