"""Receipts that a session waits for."""

from stomprelay.pipeline.sessions import transfer as s
from stomprelay.pipeline.sessions.publishing import PendingReceipts


def _sent(number: int) -> s.Transfer:
    row: s.Transfer = [None] * len(s.FIELDS)
    row[: s.KIND + 1] = ["k", number, "segment", 0, number, 0]
    return row


def test_each_of_several_brokers_answers_each() -> None:
    """The first answer counts; it is over when all have answered, or when the others took too long."""
    awaited = PendingReceipts(1000, 100)
    first, second = _sent(1), _sent(2)
    awaited.ask("r", 1, first)
    awaited.ask("r", 1, second)
    assert awaited.given("r", "a", 2, 2) is first
    assert awaited.given("r", "a", 3, 2) is second
    assert awaited.given("r", "b", 4, 2) is None
    assert awaited.given("r", "b", 5, 2) is None
    assert not awaited
    awaited.ask("r", 1, _sent(3))
    awaited.given("r", "a", 2, 2)
    assert awaited
    awaited.forget(103)
    assert not awaited


def test_a_refusal() -> None:
    """What asked first is answered for good."""
    awaited = PendingReceipts(1000, 100)
    second = _sent(2)
    awaited.ask("r", 1, _sent(1))
    awaited.ask("r", 1, second)
    awaited.refused("r")
    awaited.refused("other")
    assert awaited.given("r", "a", 2, 1) is second
    awaited.ask("r", 1, second)
    awaited.refused("r")
    assert not awaited


def test_nobody_waits_for_ever() -> None:
    """After `give_up` a RECEIPT is for the next that asked, or for nobody."""
    awaited = PendingReceipts(1000, 100)
    second = _sent(2)
    awaited.ask("r", 1, _sent(1))
    awaited.ask("r", 500, second)
    assert awaited.given("r", "a", 1002, 1) is second
    awaited.ask("r", 1, _sent(1))
    awaited.forget(1001)
    assert awaited
    awaited.forget(1002)
    assert not awaited
