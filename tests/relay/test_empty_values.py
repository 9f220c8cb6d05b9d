"""Headers whose value is empty: they are there, and mean what they say."""

import pytest

from tests.playbook import in_all_pairs
from tests.relay.failing import found, started
from tests.relay.several import fanned, send, tell

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


def test_orders_without_a_transaction_leave_the_unnamed_one_alone() -> None:
    """In a fan-out, a COMMIT or ABORT that names none is the brokers' to refuse; the open one goes on."""
    with fanned(quorum=2) as play:
        play.client_says(BEGIN % b"" + tell(b"ABORT") + tell(b"COMMIT"))
        play.client_says(tell(b"COMMIT", transaction="", receipt="c"))
        for at in "ab":
            assert play.broker_reads(at=at).endswith(b"COMMIT\ntransaction:\nreceipt:c\n\n\0")
            play.broker_says(b"RECEIPT\nreceipt-id:c\n\n\0", at=at)
        play.client_gets(b"RECEIPT\nreceipt-id:c\n\n\0")
