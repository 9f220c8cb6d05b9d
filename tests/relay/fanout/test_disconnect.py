"""The DISCONNECT of a client with several brokers."""

import pytest

from stomprelay.session.effects import Event, How
from tests.playbook import SAY_HELLO, Playbook, listener
from tests.relay.failing import sent_away
from tests.relay.frames import copied, header, receipt, send, tell
from tests.relay.several import (
    SOON,
    THERE,
    begun,
    both_get,
    comes_back,
    delivers,
    fan_out,
    fanned,
    lasting,
    routed,
    subscribed,
    two_upstreams,
)

DISCONNECT = tell(b"DISCONNECT", receipt="end")
OURS = b"receipt:relay-session-receipt-1\nrelay"


# It is sent to all


@pytest.mark.parametrize("quorum", [1, 2])
def test_all_brokers_are_sent_it(quorum: int) -> None:
    """The receipt comes once, with the quorum; then the first broker that closes ends the session."""
    with fanned(quorum=quorum) as play:
        play.client_says(DISCONNECT)
        both_get(play, DISCONNECT)
        play.broker_tells_client(receipt("end"), receipt("end") if quorum == 1 else b"", at="b")
        play.broker_tells_client(receipt("end"), receipt("end") if quorum == 2 else b"", at="a")
        play.broker_says(receipt("end"), at="a")  # as ActiveMQ does
        assert play.client.closed is None
        last, other = "ba" if quorum == 1 else "ab"
        play.broker_is_closed(at=other)
        play.broker_goes(at=last)
        play.client_is_closed()
        assert play.counters["brokers_lost"] == 0


def test_a_group_that_owes_the_receipt_of_an_ack() -> None:
    """Its RECEIPT is waited for, though another group's is enough; and a quorum of each upstream."""
    with subscribed(fanned(quorum=1), ack="client-individual") as play:
        delivers(play, "a", 1)
        play.client_tells_broker(tell(b"ACK", id="a1", receipt="k") + DISCONNECT, at="a")
        play.broker_gets(DISCONNECT, at="b")
        play.broker_says(receipt("end"), at="b")
        play.client_gets(b"")
        play.broker_tells_client(receipt("k", "end"), at="a")
    with begun(routed(lasting("main", "a"), lasting("there", "b")), b"1.2", "a") as play:
        play.client_says(send(b"1", b"/queue/there.1"))
        play.broker_welcomes(at="b")
        play.client_tells_broker(DISCONNECT, at="a")
        play.broker_gets(send(b"1", b"/queue/there.1") + DISCONNECT, at="b")
        play.broker_says(receipt("end"), at="a")
        play.client_gets(b"")
        play.broker_tells_client(receipt("end"), at="b")


# Brokers that are lost, or do not confirm


def test_an_upstream_whose_only_broker_is_paused() -> None:
    """The session has left it when the client's DISCONNECT may go: where nothing is missed, nothing is sought."""
    with two_upstreams() as play:
        sent_away(play)
        leaves = play.broker_reads(at="a")
        play.client_says(tell(b"SUBSCRIBE", id="1", destination="/queue/here", receipt="s") + DISCONNECT)
        play.broker_says(receipt(header(leaves, b"receipt").decode()), at="a")
        play.client_gets(receipt("s"))
        play.broker_gets(DISCONNECT, at="b")
        play.broker_tells_client(receipt("end"), at="b")


@pytest.mark.parametrize("answers", [True, False])
def test_the_group_that_was_waited_for_is_lost(answers: bool) -> None:
    """Then it is not waited for any more; the other one's answer has its time, after which the next broker is asked."""
    play = fanned(quorum=1)
    play.client_says(send(b"1", receipt="r") + DISCONNECT)
    both_get(play, copied(1, send(b"1", receipt="r")))
    play.broker_tells_client(receipt("r"), at="b")
    play.broker_goes(at="a")
    play.broker_gets(DISCONNECT, at="b")
    assert play.client.closed is None
    if answers:
        play.broker_tells_client(receipt("end"), at="b")
        play.time_passes(10)
        play.client_is_closed()
    else:
        silent = play.at("b")
        play.time_passes(6)
        assert silent.closed is How.ABORT
        play.broker_welcomes(at="b")
        play.broker_gets(DISCONNECT, at="b")
        play.broker_tells_client(receipt("end"), at="b")


def test_a_group_that_is_away() -> None:
    """It is not asked any more: nothing is left for it."""
    with fanned(quorum=1) as play:
        play.broker_goes(at="a")
        play.client_tells_broker(DISCONNECT, at="b")
        opened = len(play.opened)
        play.time_passes(SOON)
        assert (len(play.opened), play.at("a").closed is not None) == (opened, True)
        play.broker_tells_client(receipt("end"), at="b")


def test_what_waits_for_a_route() -> None:
    """The client gets an ERROR in place of its RECEIPT, which says that it may be lost, and it is counted."""
    there = lasting("there", "b")
    there.brokers[0].health.paused = True
    with begun(routed(lasting("main", "a"), there), b"1.2", "a") as play:
        play.client_says(send(b"1", THERE) + send(b"2", THERE) + DISCONNECT)
        play.time_passes(5)
        play.client_gets_error(b"connection to the broker was lost", receipt=b"end")
        assert (play.counters["possibly_lost"], play.counters["brokers_lost"]) == (2, 0)
    with two_upstreams() as play:
        play.broker_goes(at="b")
        play.client_says(send(b"1", THERE) + b"NONSENSE\n\n\0")
        play.client_gets(b"")
        play.time_passes(2.5)
        assert b"may come here; what has no receipt may be lost:" in play.client_reads()
        assert play.counters["possibly_lost"] == 2


def test_what_only_one_group_has() -> None:
    """Which is lost, or takes nothing: the client gets an ERROR, for no other group has it, and it is counted."""
    with fanned(quorum=1, confirm=True, resend_buffer=64) as play:
        play.client_says(send(b"1" * 64) + send(b"2" * 64))
        play.broker_gets(copied(1, send(b"1" * 64)).replace(b"relay", OURS, 1), at="b")
        play.broker_says(receipt("relay-session-receipt-1"), at="b")
        assert play.broker_reads(at="a").count(b"\0") == 2
        play.broker_goes(at="a")
        play.client_says(DISCONNECT)
        play.time_passes(5)
        play.time_passes(5)
        play.client_gets_error(b"the quorum cannot be reached", receipt=b"end")
        assert play.counters["possibly_lost"] == 2
    with fanned(quorum=1, fan_out_queues=False, confirm=True, disconnect_timeout=1.0) as play:
        play.client_says(send(b"1"))
        assert play.broker_reads(at="a")
        play.broker_goes(at="a")
        play.client_says(tell(b"DISCONNECT", receipt="d"))
        play.broker_gets(b"", at="b")
        play.time_passes(10.0)
        play.client_gets_error(b"the quorum cannot be reached", receipt=b"d")
        assert play.counters["possibly_lost"] == 1
    with fanned(quorum=2, fan_out_queues=False, confirm=True) as play:
        play.client_says(send(b"1") + send(b"2"))
        for _ in range(2):  # from now on it is sent one frame at a time
            assert play.broker_reads(at="a")
            play.broker_goes(at="a")
            comes_back(play, "a")
        play.client_says(DISCONNECT)
        for more in (True, True, False):
            asked = play.broker_reads(at="a").partition(b"receipt:")[2].partition(b"\n")[0]
            play.broker_says(receipt(asked.decode()), at="a")
            assert play.broker_reads(at="a").count(b"\0") == 1
            play.time_passes(5.0)
            if more:
                comes_back(play, "a")
        play.client_gets_error(b"the quorum cannot be reached", receipt=b"end")
        assert play.counters["possibly_lost"] == 2
    play = fanned(disconnect_timeout=1.0)
    play.broker_is_blocked(at="b")
    play.client_says(send(b"1") + send(b"2") + DISCONNECT)
    play.time_passes(5)
    assert play.counters["possibly_lost"] == 4


def test_a_disconnect_behind_a_send_that_one_group_alone_has() -> None:
    """It waits for this group, though the SEND asked for nothing: if its broker is lost, the SEND is counted."""
    with fanned(quorum=1, fan_out_queues=False) as play:
        play.client_says(send(b"1") + tell(b"DISCONNECT", receipt="d"))
        assert play.broker_reads(at="a").count(b"\0") == 2
        play.broker_gets(tell(b"DISCONNECT", receipt="d"), at="b")
        play.broker_says(receipt("d"), at="b")
        play.client_gets(b"")
        play.broker_goes(at="a")
        comes_back(play, "a")
        play.broker_gets(tell(b"DISCONNECT", receipt="d"), at="a")
        play.broker_says(receipt("d"), at="a")
        play.client_gets(receipt("d"))
        assert play.counters["possibly_lost"] == 1


def test_a_broker_that_closes_at_disconnect_while_another_one_alone_has_a_send() -> None:
    """The session's end waits for the other one. If that does not answer in time, the SEND is counted."""
    with fanned(quorum=1, fan_out_queues=False) as play:
        play.part = False
        play.client_says(send(b"1") + b"NONSENSE\n\n\0")
        for at in "ab":
            assert b"DISCONNECT" in play.broker_reads(at=at)
        play.broker_goes(at="b")
        play.client_gets(b"")
        play.time_passes(10)
        assert b"what has no receipt may be lost" in play.client_reads()
        assert play.counters["possibly_lost"] == 1


def test_a_send_that_one_group_alone_has_before_one_that_all_have() -> None:
    """The RECEIPT of another group for the second says nothing about the first, though both came together."""
    play = Playbook(listener(fan_out(quorum=1, fan_out_queues=False, confirm=True)))
    play.client_says(SAY_HELLO[b"1.2"])
    for at in "ab":
        play.broker_welcomes(at=at, product="artemis")
    play.client_reads()
    play.client_says(send(b"1") + send(b"2", b"/topic/t"))
    assert play.broker_reads(at="a").count(b"\0") == 2
    asked = play.broker_reads(at="b").partition(b"receipt:")[2].partition(b"\n")[0]
    play.broker_says(receipt(asked.decode()), at="b")
    play.broker_goes(at="a")
    play.client_goes()
    comes_back(play, "a")
    assert play.broker_reads(at="a").count(b"SEND\n") == 2


@pytest.mark.parametrize(
    "says", [b"", DISCONNECT, b"NONSENSE\n\n\0", None], ids=["leaves", "asks", "errs", "stop"]
)
@pytest.mark.parametrize("late", [False, True])
def test_what_a_group_lacks_at_the_end(says: bytes | None, late: bool) -> None:
    """The quorum has it: the client is told nothing, and it is counted once, however the session ends."""
    play = fanned(confirm=True)
    play.client_says(send(b"1"))
    play.broker_goes(at="a")
    asked = header(play.broker_reads(at="b"), b"receipt").decode()
    if not late:
        play.broker_says(receipt(asked), at="b")
    if says is None:
        play.relay_begins_to_stop()
    elif says:
        play.client_says(says)
    else:
        play.client_goes()
    if late:
        play.broker_says(receipt(asked), at="b")
    if says == DISCONNECT:
        play.broker_tells_client(receipt("end"), at="b")
        play.client_goes()
    assert b"may be lost" not in play.client_reads()
    assert play.counters["possibly_lost"] == 1
    ends = play.facts(Event.DISCONNECTED) + play.facts(Event.VANISHED)
    assert [each.get("possibly_lost") for each in ends if "delivering" not in each] == [1]
