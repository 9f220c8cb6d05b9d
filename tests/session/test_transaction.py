"""What is kept of an open transaction, and when it cannot be committed any more."""

import pytest

from stomprelay.session.session import Transaction

BEGIN = b"BEGIN\ntransaction:t\n\n\0"
SEND = b"SEND\ndestination:/queue/a\ntransaction:t\n\nhello\0"


def begun(room: int = 1000) -> Transaction:
    """A transaction whose BEGIN passed."""
    transaction = Transaction()
    assert transaction.keep(BEGIN, room) == len(BEGIN)
    return transaction


def doom(transaction: Transaction) -> str:
    """Why it cannot be committed."""
    return transaction.doomed or ""


def test_it_is_kept_in_order() -> None:
    """BEGIN and each SEND as they came; what is kept grows by their size."""
    transaction = begun()
    assert transaction.keep(SEND, 1000) == len(SEND)
    assert transaction.keep(SEND * 2, 1000) == 2 * len(SEND)
    assert transaction.frames == [BEGIN, SEND, SEND * 2]
    assert transaction.size == len(BEGIN) + 3 * len(SEND)
    assert not transaction.cut


def test_what_does_not_fit_cuts_it() -> None:
    """All but BEGIN goes, and is told to be given back; nothing more is kept then, however small."""
    transaction = begun()
    transaction.keep(SEND, 1000)
    assert transaction.keep(SEND, len(SEND) - 1) == -len(SEND)
    assert transaction.cut
    assert transaction.frames == [BEGIN]
    assert transaction.size == len(BEGIN)
    assert transaction.keep(b"SEND\n\n\0", 1000) == 0
    assert transaction.frames == [BEGIN]


@pytest.mark.parametrize("room", [0, 5, -100])
def test_a_begin_is_kept_in_any_case(room: int) -> None:
    """Without it the next broker would not know the transaction that is to be aborted."""
    transaction = begun(room)
    assert transaction.frames == [BEGIN]
    assert not transaction.cut


def test_a_loss_does_not_matter_to_one_that_only_sends() -> None:
    """It can be said again."""
    transaction = begun()
    transaction.keep(SEND, 1000)
    transaction.lost()
    assert transaction.doomed is None


def test_a_loss_dooms_one_that_acknowledged() -> None:
    """Nobody can acknowledge for a broker that is gone; the reason is one that a client may read."""
    transaction = begun()
    transaction.acknowledged = True
    assert doom(transaction) == ""
    transaction.lost()
    assert doom(transaction) == "it acknowledged messages of a broker that was lost"


def test_a_loss_dooms_one_that_was_cut() -> None:
    """What was not kept cannot be said again; without a loss there was nothing wrong with it."""
    transaction = begun()
    transaction.keep(SEND, 0)
    assert doom(transaction) == ""
    transaction.lost()
    assert "too large" in doom(transaction)


def test_what_doomed_it_first_stays() -> None:
    """An ACK of a lost delivery doomed it; another loss does not take that back."""
    transaction = begun()
    transaction.doomed = "it acknowledges messages of a broker that was lost"
    transaction.lost()
    assert transaction.doomed == "it acknowledges messages of a broker that was lost"
