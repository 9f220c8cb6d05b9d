"""Receipts that a session waits for, and its transactions."""

from stomprelay.pipeline.sessions import transfer as s
from stomprelay.pipeline.sessions.publishing import PendingReceipts, Transactions


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


def _sent_in(number: int) -> s.Transfer:
    row: s.Transfer = [None] * len(s.FIELDS)
    row[: s.KIND + 1] = ["k", number, "segment", 0, number, 0]
    return row


def test_what_is_doomed_is_not_committed() -> None:
    """A transaction of that name that is begun later may be."""
    transactions = Transactions(lambda _: None)
    transactions.begin("x")
    transactions.doom("x")
    assert not transactions.commit("x", 5)
    transactions.begin("x")
    assert transactions.commit("x", 6)


def test_the_relay_refuses() -> None:
    """Afterwards, or before."""
    transactions = Transactions(lambda _: None)
    first, second = _sent_in(1), _sent_in(2)
    transactions.sent("x", first)
    transactions.commit("x", 5)
    transactions.refused(6)
    transactions.sent("y", second)
    assert not transactions.commit("y", 6)
    assert (first[s.ABORTED], second[s.ABORTED]) == (True, True)
