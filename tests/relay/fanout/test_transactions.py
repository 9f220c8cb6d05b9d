"""Transactions of a client with several brokers: where they are, and where they can be committed."""

import pytest

from tests.relay.frames import BEGIN, COMMIT, copied, message, receipt, send, tell
from tests.relay.several import HERE, THERE, both_get, comes_back, delivers, fanned, subscribed, two_upstreams

# Several groups


def test_a_transaction_goes_to_all() -> None:
    """COMMIT counts when the quorum confirmed it, though the client asked for no receipt."""
    with fanned(quorum=2) as play:
        play.client_says(BEGIN + send(b"1", transaction="t") + COMMIT)
        asked = COMMIT.replace(b"COMMIT\n", b"COMMIT\nreceipt:relay-session-receipt-vote-1\n")
        both_get(play, BEGIN + copied(1, send(b"1", transaction="t")) + asked)
        for at in "ab":
            play.broker_says(receipt("relay-session-receipt-vote-1"), at=at)
        play.client_gets(b"")


def test_a_transaction_that_acknowledged() -> None:
    """What only a lost broker delivered cannot be committed without it, also where COMMIT has to wait."""
    play = subscribed(fanned(), ack="client-individual")
    delivers(play, "a", 1)
    play.client_says(BEGIN + tell(b"ACK", id="a1", transaction="t") + send(b"1", transaction="t"))
    play.broker_gets(BEGIN + copied(1, send(b"1", transaction="t")), at="b")
    play.broker_goes(at="a")
    play.client_says(tell(b"COMMIT", transaction="t", receipt="c"))
    detail = b"group main-1: it acknowledged messages of a broker that was lost"
    play.client_gets_error(b"the transaction cannot be committed", receipt=b"c", detail=detail)
    play.broker_gets(b"", at="b")
    play = fanned(quorum=1)
    play.client_says(tell(b"SUBSCRIBE", id="1", destination="/queue/a", ack="client-individual"))
    play.broker_said(message(message_id="m", ack="k"), at="a")
    play.client_says(BEGIN + tell(b"ACK", id="k", transaction="t"))
    play.broker_is_blocked(at="a")
    play.client_says(tell(b"COMMIT", transaction="t", receipt="c"))
    play.broker_goes(at="a")
    play.broker_says(receipt("c"), at="b")
    detail = b"main-1 (it acknowledged messages of a broker that was lost)"
    play.client_gets_error(b"the quorum cannot be reached", receipt=b"c", detail=detail)


def test_a_group_that_missed_a_part() -> None:
    """It is sent ABORT, or confirms what it will not be sent; the others commit, if they are enough."""
    with fanned(quorum=1, resend_buffer=300) as play:
        play.broker_goes(at="a")
        play.client_says(send(b"x" * 400))
        play.client_says(BEGIN + send(b"1", transaction="t") + tell(b"COMMIT", transaction="t", receipt="c"))
        assert play.broker_reads(at="b").endswith(tell(b"COMMIT", transaction="t", receipt="c"))
        play.broker_tells_client(receipt("c"), at="b")
        assert play.counters["fanout_overflowed"] == 1
        comes_back(play, "a")
        assert play.broker_reads(at="a").count(b"\0") == 1  # what it had room for
    with fanned(quorum=2, resend_buffer=400) as play:
        play.broker_goes(at="a")
        play.client_says(BEGIN)
        for number, given in enumerate(("", "", "0 1 2", "3")):
            body = b"x" * (500 if number == 2 else 1)
            play.client_says(send(body, transaction="t", receipt=str(number)))
            play.broker_reads(at="b")
            play.broker_tells_client(receipt(str(number)), receipt(*given.split()), at="b")
        play.client_says(tell(b"COMMIT", transaction="t", receipt="c"))
        play.client_gets_error(b"the transaction cannot be committed", receipt=b"c")


def test_orders_without_a_transaction_leave_the_unnamed_one_alone() -> None:
    """In a fan-out, a COMMIT or ABORT that names none is the brokers' to refuse; the open one goes on."""
    with fanned(quorum=2) as play:
        play.client_says(tell(b"BEGIN", transaction="") + tell(b"ABORT") + tell(b"COMMIT"))
        play.client_says(tell(b"COMMIT", transaction="", receipt="c"))
        for at in "ab":
            assert play.broker_reads(at=at).endswith(b"COMMIT\ntransaction:\nreceipt:c\n\n\0")
            play.broker_says(b"RECEIPT\nreceipt-id:c\n\n\0", at=at)
        play.client_gets(b"RECEIPT\nreceipt-id:c\n\n\0")


def test_a_queue_in_a_transaction() -> None:
    """With `fanOutQueues=false` one group alone has it: that one has to commit."""
    play = fanned(quorum=1, fan_out_queues=False)
    play.client_tells_broker(
        BEGIN + send(b"1", transaction="t") + tell(b"COMMIT", transaction="t", receipt="c"), at="a"
    )
    play.broker_gets(BEGIN + tell(b"COMMIT", transaction="t", receipt="c"), at="b")
    play.broker_says(receipt("c"), at="b")
    play.client_gets(b"")
    play.broker_goes(at="a")
    play.client_gets_error(b"the quorum cannot be reached", receipt=b"c")


@pytest.mark.parametrize("quorum", [1, 2])
def test_a_commit_that_waited_for_a_blocked_broker(quorum: int) -> None:
    """The lost broker was not sent it: the next one is sent the whole transaction."""
    with fanned(quorum=quorum) as play:
        play.client_said(BEGIN + send(b"1", transaction="t"))
        play.broker_is_blocked(at="a")
        play.client_says(tell(b"COMMIT", transaction="t", receipt="c"))
        play.broker_reads(at="b")
        play.broker_goes(at="a")
        play.broker_tells_client(receipt("c"), receipt("c") if quorum == 1 else b"", at="b")
        comes_back(play, "a")
        whole = BEGIN + copied(1, send(b"1", transaction="t")) + tell(b"COMMIT", transaction="t", receipt="c")
        play.broker_gets(whole, at="a")
        play.broker_tells_client(receipt("c"), receipt("c") if quorum == 2 else b"", at="a")


# Routes


@pytest.mark.parametrize("order", [(HERE, THERE), (THERE, HERE)])
def test_a_transaction_that_spans_upstreams(order: tuple[bytes, bytes]) -> None:
    """It ends in an ERROR that names it and both; no broker is sent COMMIT."""
    play = two_upstreams()
    play.client_says(BEGIN + send(b"1", order[0], transaction="t"))
    play.client_says(send(b"2", order[1], transaction="t", receipt="r") + COMMIT)
    names = (b"main", b"there") if order[0] == HERE else (b"there", b"main")
    detail = b"t is at upstream %b, this belongs to upstream %b" % names
    play.client_gets_error(b"a transaction cannot span upstreams", receipt=b"r", detail=detail)
    for at in "ab":
        assert b"COMMIT" not in play.broker_reads(at=at)
        play.broker_is_closed(at=at)
