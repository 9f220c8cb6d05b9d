"""SENDs that a broker reads and never confirms, as RabbitMQ from 4.3 on does with what a queue rejects: the client is
told, and the session goes on.

`Silent` plays a broker that confirms what the relay asks for itself to find out whether it reads, and no SEND unless
the script says so.
"""

import re
from typing import Final

import pytest

from stomprelay.session.effects import Event
from tests.playbook import Playbook
from tests.relay.failing import client_waits, found, goes_by_itself, link, moves, started
from tests.relay.frames import BEGIN, COMMIT, INSIDE, RECEIPT, SUBSCRIBE, message, send, settle, tell
from tests.relay.several import HERE, THERE, fanned, two_upstreams

PATIENCE: Final = 60.0
"""The default of `confirm_timeout`."""
SAYS: Final = b"ERROR\nmessage:a message was not accepted\n"
WHY: Final = b": the broker did not confirm it in time\0"


def is_silent(play: Playbook, seconds: float, *at: str, reads: bool = True) -> bytes:
    """Time passes. The broker, or each of those `at` these addresses, answers the relay's checks if it `reads`, and
    nothing else. Return what else they were sent.
    """
    until, rest = play.now + seconds, b""
    while True:
        for place in at or (None,):
            for frame in play.broker_reads(at=place).replace(b"\0\n", b"\0").split(b"\0")[:-1]:
                check = re.match(
                    rb"(?:BEGIN|ABORT)\ntransaction:(relay-session-receipt-\d+)\n(receipt)?", frame
                )
                if check is None:
                    rest += frame + b"\0"
                elif reads and check[2]:
                    play.broker_says(RECEIPT % check[1], at=place)
        if play.now >= until:
            return rest
        play.time_passes(min(1.0, until - play.now))


@pytest.mark.parametrize("product", ["rabbitmq", "activemq", "generic"])
def test_a_send_that_is_never_confirmed(product: str) -> None:
    """Its ERROR names it, nobody is sent it again, and the session goes on; what comes late passes to nobody."""
    with started(product=product) as play:
        play.client_said(send(b"1", receipt="1"))
        assert is_silent(play, PATIENCE) == b""
        play.client_gets(b"")
        assert is_silent(play, PATIENCE) == b""
        error = play.client_reads()
        assert error.startswith(SAYS + b"receipt-id:1\n")
        assert error.endswith(b"SEND /queue/a (receipt 1)" + WHY)
        play.both_stay()
        assert play.counters["sends_overdue"] == 1
        assert play.counters["possibly_lost"] == play.counters["brokers_lost"] == 0
        assert "a message was not accepted (SEND /queue/a (receipt 1)" in play.noted(Event.ERROR)
        play.broker_says(RECEIPT % b"1")
        play.client_gets(b"")
        goes_by_itself(play)
        found(play, b"1.2", product)
        assert play.broker_reads() == b""
        play.client_tells_broker(send(b"2", receipt="2"))
        play.broker_tells_client(RECEIPT % b"2")


def test_sends_around_it() -> None:
    """What RabbitMQ confirms is confirmed, whatever was sent before it; only those that it passes over are refused."""
    with started(product="rabbitmq", confirm=True) as play:
        play.client_said(b"".join([send(b"%d" % at) for at in range(1, 6)]))
        play.broker_says(b"".join([RECEIPT % (b"relay-session-receipt-%d" % at) for at in (1, 3, 5)]))
        said = b""
        for at in range(60):  # a session that always has something unconfirmed
            play.client_said(send(b"more", receipt=f"more{at}"))
            assert is_silent(play, 2.0) == b""
            said += play.client_reads()
            play.broker_tells_client(RECEIPT % (b"more%d" % at))
        assert said.count(SAYS) == said.count(b"ERROR\n") == play.counters["sends_overdue"] == 2
        assert b"receipt-id" not in said  # the client asked for none
        assert link(play).quiet


@pytest.mark.parametrize("reads", [True, False])
def test_a_broker_that_reads_nothing(reads: bool) -> None:
    """One that does not read at present, as RabbitMQ in a memory alarm, has all the time that it needs, and then again
    its time to confirm.
    """
    with started(product="rabbitmq") as play:
        play.client_said(send(b"1", receipt="1"))
        before = is_silent(play, 10 * PATIENCE, reads=False)
        assert before == b""
        play.client_gets(b"")
        number = link(play).resender._check.receipt  # type: ignore[union-attr]
        play.broker_says(RECEIPT % number)
        is_silent(play, PATIENCE / 2)
        play.client_gets(b"")
        if reads:
            play.broker_tells_client(RECEIPT % b"1")
        else:
            is_silent(play, PATIENCE)
            assert play.client_reads().startswith(SAYS + b"receipt-id:1\n")


@pytest.mark.parametrize("before", [1.0, 25.0, 35.0, 55.0, 65.0])
def test_a_broker_that_the_relay_does_not_read_from(before: float) -> None:
    """While the client owes ACKs, RECEIPTs wait where the relay does not see them: the SEND is not refused."""
    with started(product="rabbitmq", front={"unacknowledged": 1}) as play:
        play.client_said(SUBSCRIBE + send(b"1", receipt="1"))
        is_silent(play, before)
        play.broker_says(message(message_id="m", ack="m"))
        play.broker_says(RECEIPT % b"1")
        delivered = play.client_reads()
        is_silent(play, 10 * PATIENCE)
        play.client_gets(b"")
        play.client_says(settle(b"1.2", b"ACK", delivered))
        is_silent(play, 1.0)
        play.client_gets(RECEIPT % b"1")
        assert link(play).quiet


def test_nobody_waits_where_all_is_confirmed() -> None:
    """An idle session is not woken for this, and a check is sent only while something is unconfirmed."""
    with started(product="rabbitmq", confirm=True) as play:
        play.client_said(send(b"1"))
        play.broker_says(RECEIPT % b"relay-session-receipt-1")
        play.time_passes(2 * PATIENCE)
        assert link(play).resender.review_at == float("inf")  # type: ignore[union-attr]


def test_without_a_limit() -> None:
    """With `confirm_timeout = 0` a SEND is kept for as long as the session lasts."""
    with started(product="rabbitmq", confirm_timeout=0.0) as play:
        play.client_said(send(b"1", receipt="1"))
        play.time_passes(100 * PATIENCE)
        assert play.broker_reads() == b""
        assert link(play).resender.unconfirmed.sends == 1  # type: ignore[union-attr]


def test_a_send_that_is_sent_alone_is_never_confirmed() -> None:
    """What is sent with care waits for its answer; then the rest is sent, and the client is read from again."""
    with started(product="rabbitmq", confirm=True, resend_buffer=100) as play:
        play.client_said(send(b"x" * 100, receipt="1"))
        for _ in range(3):
            play.broker_reads()
            play.broker_goes()
            found(play, b"1.2", "rabbitmq")
        assert is_silent(play, 1.0).count(b"SEND\n") == 1
        play.client_says(send(b"2", receipt="2"), unasked=True)
        assert client_waits(play)
        sent = is_silent(play, 2 * PATIENCE)
        assert play.client_reads().startswith(SAYS + b"receipt-id:1\n")
        assert not client_waits(play)
        assert sent.endswith(b"\n\n2\0")
        play.broker_tells_client(RECEIPT % b"2")


def test_disconnect_that_waited_for_it() -> None:
    """It is sent when nothing is unconfirmed any more."""
    with started(product="rabbitmq", disconnect_timeout=1000.0) as play:
        play.client_said(send(b"1", receipt="1") + tell(b"DISCONNECT", receipt="bye"))
        assert is_silent(play, 2 * PATIENCE) == tell(b"DISCONNECT", receipt="bye")
        assert play.client_reads().startswith(SAYS + b"receipt-id:1\n")
        play.broker_tells_client(RECEIPT % b"bye")


@pytest.mark.parametrize("told", [True, False])
def test_a_transaction_of_which_a_part_is_never_confirmed(told: bool) -> None:
    """RabbitMQ confirms COMMIT at once, and its SENDs by themselves: the outcome is unknown."""
    with started(product="rabbitmq", confirm=True) as play:
        play.client_said(BEGIN + INSIDE % b"1" + COMMIT.replace(b"\n\n", b"\nreceipt:c\n\n"))
        if told:
            play.broker_says(RECEIPT % b"c")
        is_silent(play, 2 * PATIENCE)
        why = b"its broker did not confirm it in time"
        play.client_gets_error(b"the outcome of a transaction is unknown", receipt=b"c", detail=why)


def test_a_transaction_whose_outcome_is_unknown_when_the_broker_is_lost() -> None:
    """Its ERROR is the only answer, also if the session has to end at another broker."""
    with started(product="rabbitmq", confirm=True) as play:
        play.client_said(BEGIN + INSIDE % b"1" + COMMIT.replace(b"\n\n", b"\nreceipt:c\n\n"))
        play.broker_says(RECEIPT % b"c")
        is_silent(play, PATIENCE)
        play.client_said(send(b"2", receipt="2"))
        while not play.relay.ending:
            is_silent(play, 1.0)
        moves(play, b"1.2", "rabbitmq")
        assert play.broker_reads().endswith(b"\n\n2\0")
        play.broker_says(RECEIPT % b"2")
        said = play.client_reads()
        assert said.startswith(
            RECEIPT % b"2" + b"ERROR\nmessage:the outcome of a transaction is unknown\nreceipt-id:c\n"
        )


def test_a_transaction_that_is_confirmed_in_time() -> None:
    """One that was open when the relay looked, and is committed later, has its own time."""
    with started(product="rabbitmq", confirm=True) as play:
        play.client_said(send(b"0") + BEGIN + INSIDE % b"1")
        is_silent(play, PATIENCE)
        play.client_said(COMMIT.replace(b"\n\n", b"\nreceipt:c\n\n"))
        play.broker_says(RECEIPT % b"c" + RECEIPT % b"relay-session-receipt-1")
        is_silent(play, 10.0)
        play.broker_tells_client(RECEIPT % b"relay-session-receipt-2", RECEIPT % b"c")
        assert link(play).quiet


def test_a_group_that_does_not_confirm() -> None:
    """To the quorum it is an ERROR: where another group is enough, the client has its RECEIPT, and it is counted."""
    with fanned(quorum=1) as play:
        play.client_said(send(b"1", receipt="1"))
        play.broker_tells_client(RECEIPT % b"1", at="a")
        is_silent(play, 2 * PATIENCE, "b")
        play.client_gets(b"")
        assert play.counters["sends_overdue"] == play.counters["fanout_errors"] == 1
        assert "SEND /queue/a (receipt 1): the broker did not confirm it in time" in play.noted(Event.IGNORED)
        play.both_stay()


def test_a_quorum_that_does_not_confirm() -> None:
    """The ERROR names the receipt and the group, and the session goes on."""
    with fanned(quorum=2) as play:
        play.client_said(send(b"1", receipt="1"))
        play.broker_says(RECEIPT % b"1", at="a")
        is_silent(play, 2 * PATIENCE, "b")
        error = play.client_reads()
        assert error.startswith(SAYS + b"receipt-id:1\n")
        assert (
            b"upstream main needs 2 of 2 groups; failed: main-2 (SEND /queue/a (receipt 1): the broker did"
            in error
        )
        play.both_stay()
        play.client_said(send(b"2", receipt="2"))
        play.broker_says(RECEIPT % b"2", at="a")
        play.broker_tells_client(RECEIPT % b"2", at="b")
        play.client_said(tell(b"DISCONNECT", receipt="bye"))
        play.broker_says(RECEIPT % b"bye", at="a")
        play.broker_tells_client(RECEIPT % b"bye", at="b")


def test_a_quorum_that_does_not_confirm_where_an_error_ends_sessions() -> None:
    """With `close_on_error` it is as any ERROR of too many groups."""
    with fanned(quorum=2, close_on_error=True) as play:
        play.client_said(send(b"1", receipt="1"))
        play.broker_says(RECEIPT % b"1", at="a")
        is_silent(play, 2 * PATIENCE, "b")
        why = b"did not confirm it in time"
        play.client_gets_error(b"the quorum cannot be reached", receipt=b"1", detail=why)


def test_a_group_that_does_not_confirm_what_the_client_does_not_ask_for() -> None:
    """It is counted, and neither group is given up, however often it happens."""
    with fanned(quorum=1, confirm=True) as play:
        for at in range(1, 4):
            play.client_said(send(b"%d" % at))
            play.broker_says(RECEIPT % (b"relay-session-receipt-%d" % at), at="a")
            is_silent(play, 2 * PATIENCE, "b")
            play.broker_reads(at="a")
            assert play.counters["sends_overdue"] == at
        play.client_says(send(b"4", receipt="4"))
        assert b"\n\n4\0" in play.broker_reads(at="a")
        assert b"\n\n4\0" in play.broker_reads(at="b")
        play.both_stay()


def test_a_route_that_does_not_confirm() -> None:
    """The client has the ERROR, the session goes on, and DISCONNECT does not wait for that receipt."""
    with two_upstreams() as play:
        play.client_said(send(b"1", THERE, receipt="1") + send(b"2", HERE, receipt="2"))
        play.broker_tells_client(RECEIPT % b"2", at="a")
        is_silent(play, 2 * PATIENCE, "b")
        assert play.client_reads().startswith(SAYS + b"receipt-id:1\n")
        play.client_says(tell(b"DISCONNECT", receipt="bye"))
        for at in "ab":
            play.broker_gets(tell(b"DISCONNECT", receipt="bye"), at=at)
            play.broker_says(RECEIPT % b"bye", at=at)
        play.client_gets(RECEIPT % b"bye")
