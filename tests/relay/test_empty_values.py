"""Headers whose value is empty: they are there, and mean what they say."""

from tests.relay.several import fanned, tell

BEGIN = b"BEGIN\ntransaction:%b\n\n\0"


def test_orders_without_a_transaction_leave_the_unnamed_one_alone() -> None:
    """In a fan-out, a COMMIT or ABORT that names none is the brokers' to refuse; the open one goes on."""
    with fanned(quorum=2) as play:
        play.client_says(BEGIN % b"" + tell(b"ABORT") + tell(b"COMMIT"))
        play.client_says(tell(b"COMMIT", transaction="", receipt="c"))
        for at in "ab":
            assert play.broker_reads(at=at).endswith(b"COMMIT\ntransaction:\nreceipt:c\n\n\0")
            play.broker_says(b"RECEIPT\nreceipt-id:c\n\n\0", at=at)
        play.client_gets(b"RECEIPT\nreceipt-id:c\n\n\0")
