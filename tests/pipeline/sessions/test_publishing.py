"""Receipts that a session waits for, and its transactions."""

from stomprelay.pipeline.sessions import transfer as s
from stomprelay.pipeline.sessions.publishing import PendingReceipts, Transactions


def _sent(number: int) -> s.Transfer:
    row: s.Transfer = [None] * len(s.FIELDS)
    row[: s.KIND + 1] = ["k", number, "segment", 0, number, 0]
    return row


def test_the_first_that_asked_is_the_first_that_is_answered() -> None:
    """Frames that are no SEND count, and answer nothing."""
    awaited = PendingReceipts(1000, 100)
    first, second = _sent(1), _sent(2)
    awaited.ask("r", 1, first)
    awaited.ask("r", 2, None)
    awaited.ask("r", 3, second)
    assert awaited.given("r", "a", 4, 1) is first
    assert awaited.given("r", "a", 5, 1) is None
    assert awaited.given("r", "a", 6, 1) is second
    assert (first[s.RECEIPT_NS], second[s.RECEIPT_NS]) == (4, 6)
    assert awaited.given("r", "a", 7, 1) is None
    assert not awaited


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


def test_it_goes_on_in_the_next_batch() -> None:
    """Who was told, too."""
    awaited, after = PendingReceipts(1000, 100), PendingReceipts(1000, 100)
    awaited.ask("r", 1, _sent(1))
    awaited.ask("q", 1, None)
    awaited.given("r", "a", 2, 2)
    after.load(awaited.dump())
    assert after.dump() == [
        ["r", 1, ["a"], 2, ["k", 1, "segment", 0, 1, 1 + s.LATER]],
        ["q", 1, [], None, None],
    ]
    assert after.given("r", "a", 3, 2) is None
    assert [each[s.NS] for each in after] == [1]


def _sent_in(number: int) -> s.Transfer:
    row: s.Transfer = [None] * len(s.FIELDS)
    row[: s.KIND + 1] = ["k", number, "segment", 0, number, 0]
    return row


def test_commit_and_abort() -> None:
    """Each SEND is told of once."""
    told: list[s.Transfer] = []
    transactions = Transactions(told.append)
    first, second = _sent_in(1), _sent_in(2)
    transactions.begin("x")
    transactions.sent("x", first)
    transactions.sent("y", second)
    assert ("x" in transactions, "y" in transactions, "z" in transactions) == (True, True, False)
    assert transactions.commit("x", 5)
    transactions.abort("y", 6)
    assert told == [first, second]
    assert (first[s.ENDED_NS], first[s.ABORTED]) == (5, None)
    assert (second[s.ENDED_NS], second[s.ABORTED]) == (6, True)


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


def test_the_session_ends() -> None:
    """What is open is aborted."""
    transactions = Transactions(lambda _: None)
    first = _sent_in(1)
    transactions.sent("x", first)
    transactions.ended(5)
    assert (first[s.ABORTED], list(transactions)) == (True, [])


def test_transactions_go_on_in_the_next_batch() -> None:
    """A SEND that waits for its receipt, too, stays one row."""
    transactions, after = Transactions(lambda _: None), Transactions(lambda _: None)
    first, second = _sent_in(1), _sent_in(2)
    transactions.sent("x", first)
    transactions.sent("x", second)
    transactions.doom("x")
    waiting = s.continuation(first)
    after.load(transactions.dump(0), {tuple(first[: s.KIND]): waiting})
    assert next(iter(after)) is waiting
    assert not after.commit("x", 5)
    assert len(after.dump(5)[2]) == 2
    assert after.dump(6)[2] == []
