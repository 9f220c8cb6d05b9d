"""Publications and deliveries of one key, as scripts of several sessions."""

from typing import Any

import pytest

from stomprelay.pipeline.match.matching import MatchedMessage, TransferMatching
from stomprelay.pipeline.schema import MESSAGES
from stomprelay.pipeline.sessions import transfer as s
from stomprelay.pipeline.settings import SECOND, TimeLimits
from tests.pipeline.journals import BEGUN
from tests.pipeline.script import MS, Script, rows

TERMS = TimeLimits(patience=600 * SECOND, linger=10 * SECOND, give_up=3600 * SECOND)


def _seen(*scripts: Script, until: int | None = None) -> list[dict[str, Any]]:
    transfers = [each for script in scripts for each in script.transfers]
    return rows(transfers, TERMS, until or max(script.ns for script in scripts))


def _saw(*scripts: Script) -> TransferMatching:
    matching = TransferMatching("tt", TERMS)
    for each in (transfer for script in scripts for transfer in script.transfers):
        matching.saw([*each])
    return matching


def _three(*modes: str, to: str = "/queue/a", **settings: Any) -> tuple[Script, ...]:
    """A producer, and a consumer for each mode."""
    consumers = [Script(name=f"c{at}") for at in range(len(modes))]
    for mode, consumer in zip(modes, consumers, strict=True):
        consumer.subscribes(mode, to=to)
    return Script(name="p", at=BEGUN + 100 * MS, **settings), *consumers


def _at(script: Script, ms: float) -> Script:
    script.ns = BEGUN + round(ms * MS)
    return script


def test_in_order() -> None:
    """Without anything that carries through, the first that was sent is the first that comes, of the same size."""
    p, c = _three("auto")
    p.sends(body_size=1)
    p.sends(body_size=2)
    p.sends(body_size=1)
    _at(c, 200).gets("m1", trace=None, body_size=2)
    _at(c, 201).gets("m2", trace=None, body_size=1)
    first, second, third = _seen(p, c)
    assert [len(each["deliveries"]) for each in (first, second, third)] == [1, 1, 0]
    assert (first["deliveries"][0][6], second["deliveries"][0][6]) == ("m2", "m1")
    assert (first["matched"], first["key"], third["matched"]) == ("order", None, None)


def test_by_the_publisher_s_id() -> None:
    """It is matched exactly, but a reply to another destination is another message."""
    p, c = _three("auto")
    p.sends(own="7", body_size=3)
    p.sends(own="8", body_size=3)
    _at(c, 200).gets("m1", trace=None, own="8", body_size=4)
    _at(c, 201).gets("m2", trace=None, own="7", destination="/queue/replies")
    first, second, reply = _seen(p, c)
    assert (first["outcome"], second["outcome"], second["matched"]) == ("undelivered", "acked", "id")
    assert (second["key"], reply["producer"], reply["matched"]) == ("8", None, None)


@pytest.mark.parametrize("answer", ["NACK", "end", "lost"])
@pytest.mark.parametrize("named", [True, False])
def test_a_redelivery(answer: str, named: bool) -> None:
    """After a NACK or a return the next delivery is of the same message, with or without a trace."""
    p, one, two = _three("client-individual", "client-individual")
    p.sends("t" if named else None)
    _at(one, 200).gets("m1", trace="t" if named else None)
    if answer == "NACK":
        one.says("NACK", ack="m1")
    elif answer == "end":
        one.happens("vanished", end="client")
    else:
        one.loses("a")
    _at(two, 300).gets("m2", trace="t" if named else None)
    two.says("ACK", ack="m2")
    (row,) = _seen(p, one, two)
    assert (row["outcome"], row["redelivered"], row["ack_us"]) == ("acked", 1, 1000)
    assert [each[-1] for each in row["deliveries"]] == ["nacked" if answer == "NACK" else "returned", "acked"]


def test_the_broker_s_message_id_tells_a_redelivery() -> None:
    """Where it stays the same."""
    p, one = _three("client-individual")
    p.sends()
    p.sends()
    _at(one, 200).gets("m1", trace=None)
    _at(one, 300).gets("m1", trace=None)
    assert [len(each["deliveries"]) for each in _seen(p, one)] == [2, 0]


def test_topics() -> None:
    """All subscribers get each message, from their subscription on, and each in order."""
    p, one, two = _three("auto", "auto", to="/topic/t")
    late = Script(name="late")
    _at(late, 150).subscribes("auto", to="/topic/t")
    _at(p, 110).sends(destination="/topic/t")
    for consumer in (one, two):
        _at(consumer, 120).gets(f"{consumer.conversation.name}-1", trace=None, destination="/topic/t")
    _at(p, 210).sends(destination="/topic/t")
    for at, consumer in enumerate((one, two, late)):
        _at(consumer, 220 + at).gets(f"{consumer.conversation.name}-2", trace=None, destination="/topic/t")
    first, second = _seen(p, one, two, late)
    assert [each[2] for each in first["deliveries"]] == ["c0", "c1"]
    assert [each[2] for each in second["deliveries"]] == ["c0", "c1", "late"]
    assert (first["redelivered"], second["outcome"]) == (0, "acked")


def test_a_subscription_that_the_broker_saw_before_the_send() -> None:
    """The relay may have seen them the other way round."""
    p, one = _three(to="/topic/t"), Script(name="one")
    _at(p[0], 110).sends(destination="/topic/t")
    _at(one, 111).subscribes("auto", to="/topic/t")
    _at(one, 112).gets("m", trace=None, destination="/topic/t")
    assert [len(each["deliveries"]) for each in _seen(p[0], one)] == [1]


def test_copies() -> None:
    """A fan-out's copies of one SEND are one message."""
    p, one = _three("client-individual")
    p.sends()
    p.sends()
    one.finds("b")
    _at(one, 200).gets("m1", trace=None, copy="p-1")
    _at(one, 201).gets("x1", trace=None, copy="p-1", at="b")
    _at(one, 202).gets("m2", trace=None, copy="p-2")
    assert [len(each["deliveries"]) for each in _seen(p, one)] == [2, 1]


def test_nobody_sent_it() -> None:
    """A message of a producer that is not behind a relay is a row, with what is known."""
    (one,) = _three("auto")[1:]
    one.gets("m1", trace=None)
    (row,) = _seen(one)
    assert (row["producer"], row["sent_at"], row["delivery_us"], row["matched"]) == (None, None, None, None)
    assert (row["seen_at"], row["outcome"]) == (one.ns, "acked")


@pytest.mark.parametrize("traced", [True, False])
def test_another_relay_s_clock(traced: bool) -> None:
    """A MESSAGE may seem to come before its SEND."""
    p, one = Script(name="p", relay="other", at=BEGUN + 100 * MS), _three("auto")[1]
    _at(one, 50).gets("m1", trace="t" if traced else None)
    p.sends("t" if traced else None)
    (row,) = _seen(p, one)
    assert (row["delivery_us"], row["producer"]) == (0, "client of p")


# Until when


def _went(script: Script, *others: Script, after: float) -> list[bool]:
    last = max(each.ns for each in (script, *others))
    return [row["final"] for row in _seen(script, *others, until=last + round(after * SECOND))]


def test_a_settled_message_is_final_after_a_while() -> None:
    """After `linger`, and not before."""
    p, one = _three("auto")
    p.sends("t")
    _at(one, 200).gets("m", trace="t")
    assert (_went(p, one, after=10), _went(p, one, after=10.001)) == ([False], [True])


@pytest.mark.parametrize("missing", ["delivery", "answer", "receipt", "return"])
def test_any_other_when_it_is_given_up(missing: str) -> None:
    """As long as something may still come: a delivery, an answer, a RECEIPT, another delivery."""
    p, one = _three("client-individual")
    p.sends("t", receipt="r" if missing == "receipt" else None)
    if missing != "delivery":
        _at(one, 200).gets("m", trace="t")
    if missing == "receipt":
        one.says("ACK", ack="m")
    if missing == "return":
        one.happens("vanished", end="client")
    assert (_went(p, one, after=3600), _went(p, one, after=3600.001)) == ([False], [True])


def test_the_other_half_is_waited_for() -> None:
    """A delivery whose SEND was not seen is final after `patience`; an aborted SEND needs no other half."""
    _, one = _three("auto")
    one.gets("m")
    assert (_went(one, after=600), _went(one, after=600.001)) == ([False], [True])
    p = Script(name="p")
    p.says("BEGIN", transaction="x")
    p.sends("t", transaction="x", receipt="r")
    p.says("ABORT", transaction="x")
    assert _went(p, after=10.001) == [True]


def test_signs_that_come_too_late_are_another_message() -> None:
    """However much was read at once: time decides."""
    p, one = _three("auto")
    p.sends("t")
    _at(one, 200).gets("m1", trace="t")
    _at(one, 20_000).gets("m2", trace="t")
    assert [len(each["deliveries"]) for each in _seen(p, one)] == [1, 1]


def test_repeats() -> None:
    """What outages count as duplicates: the delivery that was repeated, and when."""
    p, one = _three("client-individual")
    p.sends("t")
    _at(one, 200).gets("m1", trace="t")
    _at(one, 300).gets("m2", trace="t")
    matching = _saw(p, one)
    matching.go(one.ns)
    assert matching.repeats == [("c0", "a", BEGUN + 201 * MS, BEGUN + 301 * MS)]
    assert (matching.finals, len(list(matching.open()))) == ([], 1)


# From batch to batch


def test_what_is_ahead_of_others_is_a_foretaste() -> None:
    """It shows in rows that are not final, and is done again when all were read so far."""
    p, one = _three("auto")
    p.sends("t")
    _at(one, 200).gets("m", trace="t")
    matching = _saw(p, one)
    matching.go(p.ns)
    (row,) = matching.open()
    assert row[MESSAGES.names.index("outcome")] == "acked"
    again = TransferMatching("tt", TERMS)
    for text in matching.kept:
        kept: s.Transfer = [None] * len(s.FIELDS)
        kept[s.KIND], kept[s.TEXT] = s.RowKind.KEPT, text
        again.saw(kept)
    again.go(one.ns + 11 * SECOND)
    assert [each[MESSAGES.names.index("outcome")] for each in again.finals] == ["acked"]


# One message


def _transfer(kind: s.RowKind, ns: int, **values: Any) -> s.Transfer:
    known = {"key": "tt", "ns": ns, "segment": "g", "position": ns, "number": 0, "kind": int(kind), **values}
    return [known.get(name) for name, _ in s.FIELDS]


def _delivered(ns: int, session: str = "c", **values: Any) -> s.Transfer:
    known = {"session": session, "client": session, "subscription": "1", "mode": "client", **values}
    return _transfer(s.RowKind.DELIVERED, ns, **known)


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
        message = MatchedMessage(1, topic=is_topic)
        deliveries = [_delivered(1, "c"), _delivered(3, "d")]
        for delivery, answer in zip(deliveries, (first, second), strict=True):
            message.was_delivered(delivery, delivery[s.NS])
            if answer is not None:
                message.was_settled(delivery, delivery[s.NS] + 1, delivery[s.NS] + 1, answer)
        assert (message.outcome, message.redelivered) == (outcome, again)
        assert message.settled == (None not in (first, second) and outcome != "returned")


def test_its_row() -> None:
    """Column by column."""
    message = MatchedMessage(1000, topic=False)
    sent = _transfer(s.RowKind.SENT, 1000, relay="r", destination="/q", client="p", session="s", size=3)
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
