"""Headers whose value is empty: they are there, and mean what they say."""

import pytest

from tests.playbook import in_all_pairs
from tests.relay.failing import found, started
from tests.relay.several import comes_back, fanned, receipt, send, tell

BEGIN = b"BEGIN\ntransaction:%b\n\n\0"
COMMIT = b"COMMIT\ntransaction:%b\nreceipt:\n\n\0"
EMPTY = b"RECEIPT\nreceipt-id:\n\n\0"


@in_all_pairs
@pytest.mark.parametrize("name", [b"t", b""], ids=["named", "unnamed"])
def test_a_commit_that_asks_for_an_empty_receipt(client: bytes, broker: bytes, name: bytes) -> None:
    """The broker is asked for it, and the client has it."""
    with started(client, broker) as play:
        play.client_says(BEGIN % name + COMMIT % name)
        play.broker_gets(BEGIN % name + COMMIT % name)
        play.broker_says(EMPTY)
        play.client_gets(EMPTY)
        play.broker_goes()
        found(play, broker)
        play.both_stay()


def test_a_commit_in_doubt_that_asked_for_an_empty_receipt() -> None:
    """The ERROR names it."""
    with started() as play:
        play.client_says(BEGIN % b"" + COMMIT % b"")
        play.broker_reads()
        play.broker_goes()
        play.client_gets_error(b"the outcome of a transaction is unknown", receipt=b"")


@pytest.mark.parametrize("confirm", [False, True], ids=["plain", "confirm"])
@pytest.mark.parametrize("product", ["rabbitmq", "activemq"])
def test_a_send_that_asks_for_an_empty_receipt(product: str, confirm: bool) -> None:
    """It is kept until that receipt comes, which is passed once."""
    with started(product=product, confirm=confirm) as play:
        frame = send(b"x", receipt="")
        play.client_says(frame)
        play.broker_gets(frame)
        play.broker_goes()
        found(play, b"1.2", product)
        play.broker_gets(frame.replace(b"SEND\n", b"SEND\nrelay-resent:true\n"))
        play.broker_says(EMPTY)
        play.client_gets(EMPTY)
        play.broker_goes()
        found(play, b"1.2", product)


def test_what_asks_for_empty_receipts_while_a_group_has_no_broker() -> None:
    """A message and a transaction of an empty name: the next broker is asked for the same receipts."""
    with fanned() as play:
        play.broker_goes(at="b")
        frames = send(b"x", receipt="") + BEGIN % b"" + send(b"y", transaction="") + COMMIT % b""
        play.client_says(frames)
        first = play.broker_reads(at="a")
        play.broker_says(EMPTY * 2, at="a")
        play.client_gets(EMPTY * 2)
        comes_back(play, "b")
        assert play.broker_reads(at="b") == first
        play.broker_says(EMPTY * 2, at="b")


def test_an_abort_without_a_transaction_while_a_group_has_no_broker() -> None:
    """It does not give the receipts of the transaction whose name is empty."""
    with fanned(quorum=2) as play:
        play.broker_goes(at="b")
        play.client_says(BEGIN % b"" + send(b"y", transaction="", receipt="r") + tell(b"ABORT"))
        play.broker_reads(at="a")
        play.broker_says(receipt("r"), at="a")
        play.client_gets(b"")


def test_orders_without_a_transaction_leave_the_unnamed_one_alone() -> None:
    """In a fan-out, a COMMIT or ABORT that names none is the brokers' to refuse; the open one goes on."""
    with fanned(quorum=2) as play:
        play.client_says(BEGIN % b"" + tell(b"ABORT") + tell(b"COMMIT"))
        play.client_says(tell(b"COMMIT", transaction="", receipt="c"))
        for at in "ab":
            assert play.broker_reads(at=at).endswith(b"COMMIT\ntransaction:\nreceipt:c\n\n\0")
            play.broker_says(b"RECEIPT\nreceipt-id:c\n\n\0", at=at)
        play.client_gets(b"RECEIPT\nreceipt-id:c\n\n\0")
