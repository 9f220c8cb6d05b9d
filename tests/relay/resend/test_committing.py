"""Transactions whose COMMIT alone does not say that they are safe."""

from collections.abc import Iterator
from itertools import count

import pytest

from stomprelay.relay.resend.committing import Committing


def ids() -> Iterator[bytes]:
    """Receipts of the relay's own."""
    return (b"ours-%d" % number for number in count(1))


def committed(*receipts: bytes, ours: int = 0) -> Committing:
    """A transaction whose SENDs ask for these receipts, and so many more for one of the relay's, and its COMMIT `c`."""
    kept, made = Committing(), ids()
    for receipt in receipts:
        kept.asked(b"t", receipt)
    for _ in range(ours):
        kept.ask(b"t", lambda: next(made))
    kept.committed(b"t", b"c", ours=False)
    return kept


def test_nothing_asked_inside() -> None:
    """The RECEIPT of COMMIT is true when it comes."""
    kept = committed()
    assert not kept.received(b"c")
    assert kept.take_late() == []
    assert kept.safe


@pytest.mark.parametrize("order", [b"c 1 2", b"1 c 2", b"2 1 c"])
def test_the_last_answer_counts(order: bytes) -> None:
    """In whatever order they come, and COMMIT is said to be done once."""
    kept = committed(b"1", b"2")
    told = []
    for receipt in order.split():
        assert not kept.safe
        if not kept.received(receipt) and receipt == b"c":
            told.append(receipt)
        told += kept.take_late()
    assert told == [b"c"]
    assert kept.safe
    assert len(kept) == 0


def test_one_id_for_all_sends_of_a_transaction() -> None:
    """It comes once for each, so that a transaction of any length costs the same."""
    kept = committed(ours=1000)
    assert len(kept) == 2
    assert kept.received(b"c")
    for _ in range(999):
        kept.received(b"ours-1")
        assert kept.take_late() == []
    kept.received(b"ours-1")
    assert kept.take_late() == [b"c"]
    assert len(kept) == 0


def test_each_transaction_for_itself() -> None:
    """Two at a time, one of which is aborted: nothing is awaited of that."""
    kept, made = Committing(), ids()
    for name in (b"t", b"u", b"v"):
        kept.ask(name, lambda: next(made))
    kept.aborted(b"u")
    kept.committed(b"t", b"c", ours=False)
    kept.committed(b"v", b"d", ours=False)
    assert kept.received(b"c")
    assert kept.received(b"d")
    kept.received(b"ours-3")
    assert kept.take_late() == [b"d"]
    kept.received(b"ours-1")
    assert kept.take_late() == [b"c"]
    assert len(kept) == 0


@pytest.mark.parametrize("held", [True, False])
def test_an_error_that_names_no_receipt(held: bool) -> None:
    """Any SEND may be the one that has no answer any more: the broker's RECEIPT of COMMIT counts as it is."""
    kept = committed(b"1", ours=2)
    if held:
        assert kept.received(b"c")
        kept.erred()
        assert kept.take_late() == [b"c"]
    else:
        kept.erred()
        assert not kept.received(b"c")
    kept.received(b"1")
    kept.received(b"ours-1")
    assert kept.take_late() == []
    assert kept.safe
    assert len(kept) == 0


def test_an_error_in_an_open_transaction() -> None:
    """What it asks for afterwards is awaited all the same."""
    kept, made = Committing(), ids()
    kept.ask(b"t", lambda: next(made))
    kept.erred()
    assert kept.ask(b"t", lambda: next(made)) == b"ours-2"
    kept.committed(b"t", b"c", ours=False)
    assert kept.received(b"c")
    kept.received(b"ours-1")
    assert kept.take_late() == []
    kept.received(b"ours-2")
    assert kept.take_late() == [b"c"]


def test_errors_that_name_a_receipt() -> None:
    """That of a SEND is an answer; that of COMMIT ends the transaction."""
    kept = committed(b"1")
    assert kept.received(b"c")
    kept.refused(b"1")
    assert kept.take_late() == [b"c"]
    kept = committed(b"1")
    kept.refused(b"c")
    assert kept.safe
    assert len(kept) == 0


@pytest.mark.parametrize("answered", [False, True])
def test_a_broker_that_is_lost(answered: bool) -> None:
    """COMMIT is in doubt until all answers are there, and so is what the client asked for in it. It is told once."""
    kept = committed(b"1", b"2", ours=1)
    kept.received(b"2")
    if answered:
        kept.received(b"c")
    kept.ask(b"open", lambda: b"x")
    assert kept.lost() == [b"c", b"1"]
    assert kept.take_doubts() == [b"c", b"1"]
    assert kept.take_doubts() == []
    assert len(kept) == 0
    assert kept.safe


def test_ids_that_are_used_for_several_things() -> None:
    """A client may use one for all: each answer counts for something, and nothing is awaited for ever."""
    kept = Committing()
    for name in (b"t", b"u"):
        kept.asked(name, b"r")
        kept.asked(name, b"r")
        kept.committed(name, b"r", ours=False)
    for _ in range(6):
        kept.received(b"r")
    assert kept.safe
    assert len(kept) == 0
