"""Transactions, and where they cannot be committed."""

from stomprelay.relay.fanout.dispatch import Placement
from stomprelay.session.transaction import Transaction
from tests.relay.test_trunk import target


def test_a_transaction_in_good_order() -> None:
    """It can be committed everywhere."""
    placement = Placement(target(2, 1), [(b"transaction", b"t")])
    assert placement.spoiled(b"t") == []
    assert not placement.used


def test_what_spoils_it() -> None:
    """A group that is out, that missed a part, or whose broker was lost with a part; each with its reason."""
    placement = Placement(target(4, 1), [])
    out, short, doomed, fine = placement.target.members
    out.out = True
    out.blame = "it gave up"
    placement.short.add(short)
    for member in (doomed, fine):
        member.session.transactions[b"t"] = Transaction()
    doomed.session.transactions[b"t"].doomed = "its broker was lost"
    fine.session.transactions[b"u"] = Transaction()
    fine.session.transactions[b"u"].doomed = "another one"
    assert placement.spoiled(b"t") == [out, short, doomed]
    assert [member.blame for member in placement.target.members] == [
        "it gave up",
        "it was full",
        "its broker was lost",
        "",
    ]
