"""Transactions whose COMMIT alone does not say that they are safe."""

from collections.abc import Iterator
from itertools import count

import pytest

from stomprelay.relay.resend.unconfirmed import Committing


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


def keeps(kept: Committing) -> bool:
    """Whether it keeps anything."""
    return bool(kept._open or kept._committed or kept._held or kept._parts)


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
    assert not keeps(kept)


def test_errors_that_name_a_receipt() -> None:
    """That of a SEND is an answer; that of COMMIT ends the transaction."""
    kept = committed(b"1")
    assert kept.received(b"c")
    kept.refused(b"1")
    assert kept.take_late() == [b"c"]
    kept = committed(b"1")
    kept.refused(b"c")
    assert kept.safe
    assert not keeps(kept)
