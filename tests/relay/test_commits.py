"""Brokers that answer COMMIT before they have its messages: when the client is told that they are safe."""

from collections.abc import Iterator
from itertools import count

import pytest

from stomprelay.relay.resend.unconfirmed import Committing
from tests.playbook import in_all_pairs
from tests.relay.failing import link, over, started
from tests.relay.frames import ABORT, BEGIN, INSIDE, RECEIPT

ASKING = b"SEND\ndestination:/queue/a\ntransaction:t\nreceipt:%b\n\n%b\0"
OURS = b"SEND\nreceipt:relay-session-receipt-%d\ndestination:/queue/a\ntransaction:t\n\n%b\0"
COMMIT = b"COMMIT\ntransaction:t\nreceipt:c\n\n\0"
MINE = b"relay-session-receipt-%d"


@in_all_pairs
def test_commit_waits_for_its_sends(client: bytes, broker: bytes) -> None:
    """RabbitMQ's RECEIPT of COMMIT is held back until it confirmed each SEND of the transaction."""
    with started(client, broker, product="rabbitmq", confirm=True) as play:
        play.client_says(BEGIN + INSIDE % b"1" + INSIDE % b"2" + COMMIT)
        play.broker_gets(BEGIN + OURS % (1, b"1") + OURS % (1, b"2") + COMMIT)
        play.broker_says(RECEIPT % b"c" + RECEIPT % (MINE % 1))
        play.client_gets(b"")
        assert not link(play).quiet
        play.broker_tells_client(RECEIPT % (MINE % 1), RECEIPT % b"c")
        assert link(play).quiet


def test_a_broker_that_dies_behind_its_receipt_of_commit() -> None:
    """Its messages may be gone with it: the client is told that the outcome is unknown, and gets no receipt."""
    with started(product="rabbitmq", confirm=True) as play:
        play.client_said(BEGIN + INSIDE % b"1" + ASKING % (b"s", b"2") + COMMIT)
        play.broker_says(RECEIPT % b"c")
        play.broker_goes()
        play.client_gets_error(b"the outcome of a transaction is unknown", receipt=b"c")
        assert over(play)


def test_receipts_that_do_not_come() -> None:
    """RabbitMQ names none in an ERROR, and gives none for what is aborted: nothing waits, the relay gives those."""
    with started(product="rabbitmq", confirm=True) as play:
        play.client_said(BEGIN + INSIDE % b"1" + INSIDE % b"2" + COMMIT)
        play.broker_says(b"ERROR\nmessage:Unknown destination\n\n\0" + RECEIPT % b"c" + RECEIPT % (MINE % 1))
        play.client_gets(b"ERROR\nmessage:Unknown destination\n\n\0" + RECEIPT % b"c")
    with started(product="rabbitmq", confirm=True) as play:
        play.client_says(BEGIN + ASKING % (b"s", b"1") + INSIDE % b"2" + ABORT)
        play.broker_gets(BEGIN + ASKING % (b"s", b"1") + OURS % (1, b"2") + ABORT)
        play.client_gets(RECEIPT % b"s")
        assert link(play).quiet
        play.client_tells_broker(b"DISCONNECT\nreceipt:d\n\n\0")
        play.broker_tells_client(RECEIPT % b"d")


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


@pytest.mark.parametrize("held", [True, False])
def test_what_is_overdue(held: bool) -> None:
    """Only what was open at the last mark, and still is, is given up: then nothing of it is kept, and nothing doubted
    twice.
    """
    kept = committed(b"1", ours=2)
    if held:
        assert kept.received(b"c")
    kept.mark()
    kept.asked(b"u", b"2")
    kept.committed(b"u", b"d", ours=False)
    assert kept.overdue() == [b"c", b"1"]
    assert kept.overdue() == []
    assert not kept.safe
    assert kept.received(b"d")
    kept.received(b"2")
    assert kept.take_late() == [b"d"]
    assert not keeps(kept)


def test_what_is_not_overdue() -> None:
    """A transaction that was confirmed after the mark."""
    kept = committed(b"1")
    kept.mark()
    kept.received(b"1")
    assert not kept.received(b"c")
    assert kept.overdue() == []
