"""What is sent in transactions."""

from stomprelay.pipeline.match import transfer as s
from stomprelay.pipeline.match.publishing import Transactions


def _sent(number: int) -> s.Transfer:
    row: s.Transfer = [None] * len(s.FIELDS)
    row[: s.KIND + 1] = ["k", number, "segment", 0, number, 0]
    return row


def test_commit_and_abort() -> None:
    """Each SEND is told of once."""
    told: list[s.Transfer] = []
    transactions = Transactions(told.append)
    first, second = _sent(1), _sent(2)
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
    first, second = _sent(1), _sent(2)
    transactions.sent("x", first)
    transactions.commit("x", 5)
    transactions.refused(6)
    transactions.sent("y", second)
    assert not transactions.commit("y", 6)
    assert (first[s.ABORTED], second[s.ABORTED]) == (True, True)


def test_the_session_ends() -> None:
    """What is open is aborted."""
    transactions = Transactions(lambda _: None)
    first = _sent(1)
    transactions.sent("x", first)
    transactions.ended(5)
    assert (first[s.ABORTED], list(transactions)) == (True, [])


def test_it_goes_on_in_the_next_batch() -> None:
    """A SEND that waits for its receipt, too, stays one row."""
    transactions, after = Transactions(lambda _: None), Transactions(lambda _: None)
    first, second = _sent(1), _sent(2)
    transactions.sent("x", first)
    transactions.sent("x", second)
    transactions.doom("x")
    waiting = s.continuation(first)
    after.load(transactions.dump(0), {tuple(first[: s.KIND]): waiting})
    assert next(iter(after)) is waiting
    assert not after.commit("x", 5)
    assert len(after.dump(5)[2]) == 2
    assert after.dump(6)[2] == []
