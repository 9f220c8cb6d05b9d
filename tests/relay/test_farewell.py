"""A client says DISCONNECT to several brokers."""

import pytest

from stomprelay.session.effects import How
from tests.playbook import Playbook
from tests.relay.several import (
    begun,
    comes,
    comes_back,
    copied,
    fanned,
    lasting,
    message,
    plain,
    receipt,
    routed,
    send,
    tell,
)

BYE = tell(b"DISCONNECT", receipt="bye")


def both_get(play: Playbook, expected: bytes) -> None:
    """Both brokers got these octets and no others."""
    play.broker_gets(expected, at="a")
    play.broker_gets(expected, at="b")


@pytest.mark.parametrize("quorum", [1, 2])
def test_goodbye_to_all(quorum: int) -> None:
    """The receipt comes once, with the quorum; then the first broker that closes ends the session."""
    with fanned(quorum=quorum) as play:
        play.client_says(BYE)
        both_get(play, BYE)
        play.broker_says(receipt("bye"), at="b")
        play.client_gets(receipt("bye") if quorum == 1 else b"")
        play.broker_says(receipt("bye"), at="a")
        play.client_gets(receipt("bye") if quorum == 2 else b"")
        play.broker_says(receipt("bye"), at="a")  # as ActiveMQ does
        assert play.client.closed is None
        last, other = "ba" if quorum == 1 else "ab"
        play.broker_is_closed(at=other)
        play.broker_goes(at=last)
        play.client_is_closed()
        assert play.counters["brokers_lost"] == 0


def test_goodbye_without_a_receipt() -> None:
    """It is said to all, and nobody is waited for."""
    with fanned(quorum=2) as play:
        play.client_says(b"DISCONNECT\n\n\0")
        both_get(play, b"DISCONNECT\n\n\0")
        play.broker_goes(at="a")
        play.client_is_closed()
        play.broker_is_closed(at="b")


@pytest.mark.parametrize("quorum", [1, 2])
def test_it_waits_for_receipts(quorum: int) -> None:
    """A broker may answer it before what was said earlier; one that is there is given the time."""
    with fanned(quorum=quorum) as play:
        play.client_says(send(b"1", receipt="r") + BYE)
        both_get(play, copied(1, send(b"1", receipt="r")))
        play.broker_says(receipt("r"), at="a")
        play.client_gets(receipt("r") if quorum == 1 else b"")
        both_get(play, b"")
        play.broker_says(receipt("r"), at="b")
        play.client_gets(receipt("r") if quorum == 2 else b"")
        both_get(play, BYE)
        play.broker_says(receipt("bye"), at="a")
        play.broker_says(receipt("bye"), at="b")
        play.client_gets(receipt("bye"))


def test_it_does_not_wait_for_a_group_that_is_away() -> None:
    """A quorum has all of it; what the other misses is counted."""
    with fanned(quorum=1) as play:
        play.broker_goes(at="a")
        play.client_says(send(b"1", receipt="r") + BYE)
        play.broker_gets(copied(1, send(b"1", receipt="r")), at="b")
        play.broker_says(receipt("r"), at="b")
        play.broker_gets(BYE, at="b")
        assert play.counters["possibly_lost"] == 1
        play.broker_says(receipt("bye"), at="b")
        play.client_gets(receipt("r") + receipt("bye"))


def test_it_waits_for_a_group_that_is_needed() -> None:
    """Until it is back and has all of it."""
    with fanned(quorum=2) as play:
        play.broker_goes(at="a")
        play.client_says(send(b"1", receipt="r") + BYE)
        play.broker_gets(copied(1, send(b"1", receipt="r")), at="b")
        play.broker_says(receipt("r"), at="b")
        play.client_gets(b"")
        comes_back(play, "a")
        play.broker_gets(copied(1, send(b"1", receipt="r")), at="a")
        play.broker_says(receipt("r"), at="a")
        play.client_gets(receipt("r"))
        both_get(play, BYE)
        play.broker_says(receipt("bye"), at="a")
        play.broker_says(receipt("bye"), at="b")
        play.client_gets(receipt("bye"))


def test_lost_during_goodbye() -> None:
    """The next broker of the group is told it, too, without any subscriptions."""
    with fanned(quorum=2) as play:
        play.client_says(tell(b"SUBSCRIBE", id="1", destination="/queue/a") + BYE)
        both_get(play, tell(b"SUBSCRIBE", id="1", destination="/queue/a") + BYE)
        play.broker_goes(at="a")
        play.broker_says(receipt("bye"), at="b")
        play.client_gets(b"")
        comes_back(play, "a")
        play.broker_gets(BYE, at="a")
        play.broker_says(receipt("bye"), at="a")
        play.client_gets(receipt("bye"))


@pytest.mark.parametrize("answers", [True, False])
def test_the_group_that_was_waited_for_is_lost(answers: bool) -> None:
    """Then it is not waited for any more; for the other one's answer there is a time, as ever."""
    play = fanned(quorum=1)
    play.client_says(send(b"1", receipt="r") + BYE)
    both_get(play, copied(1, send(b"1", receipt="r")))
    play.broker_says(receipt("r"), at="b")
    play.client_gets(receipt("r"))
    play.broker_goes(at="a")
    play.broker_gets(BYE, at="b")
    assert play.client.closed is None
    if answers:
        play.broker_says(receipt("bye"), at="b")
        play.client_gets(receipt("bye"))
        play.time_passes(10)
        play.client_is_closed()
    else:
        silent = play.at("b")
        play.time_passes(6)
        assert silent.closed is How.ABORT
        comes(play, "b")
        play.broker_gets(BYE, at="b")
        play.broker_says(receipt("bye"), at="b")
        play.client_gets(receipt("bye"))


def test_the_client_is_gone_before_a_broker_is() -> None:
    """When the one that was waited for is lost too, a quorum has all there is: the session ends."""
    with fanned(quorum=1) as play:
        play.client_says(send(b"1", receipt="r"))
        both_get(play, copied(1, send(b"1", receipt="r")))
        play.broker_says(receipt("r"), at="b")
        play.client_gets(receipt("r"))
        play.client_goes()
        assert not play.relay.over
        play.broker_goes(at="a")
        assert play.relay.over


def test_a_broker_that_does_not_answer() -> None:
    """When the time is over the client is told."""
    play = begun(routed(plain("main", "a"), plain("there", "b")), b"1.2", "a")
    play.client_says(send(b"", b"/queue/there.1"))
    comes(play, "b")
    play.client_says(BYE)
    play.time_passes(100)
    play.client_gets_error(b"connection to the broker was lost", receipt=b"bye")


def test_all_upstreams_confirm() -> None:
    """One upstream does not speak for the other."""
    with begun(routed(lasting("main", "a"), lasting("there", "b")), b"1.2", "a") as play:
        play.client_says(send(b"1", b"/queue/there.1"))
        comes(play, "b")
        play.client_says(BYE)
        play.broker_gets(BYE, at="a")
        play.broker_gets(send(b"1", b"/queue/there.1") + BYE, at="b")
        play.broker_says(receipt("bye"), at="a")
        play.client_gets(b"")
        play.broker_says(receipt("bye"), at="b")
        play.client_gets(receipt("bye"))


def test_an_upstream_that_was_not_needed() -> None:
    """Nobody says disconnect where nobody was."""
    with begun(routed(lasting("main", "a"), lasting("there", "b")), b"1.2", "a") as play:
        play.client_says(BYE)
        play.broker_gets(BYE, at="a")
        play.broker_says(receipt("bye"), at="a")
        play.client_gets(receipt("bye"))
        assert len(play.opened) == 1


def test_messages_that_still_come() -> None:
    """Until the brokers close they are the client's."""
    with fanned(quorum=2) as play:
        play.client_says(BYE)
        both_get(play, BYE)
        play.broker_says(message(b"1") + receipt("bye"), at="a")
        play.client_gets(message(b"1"))
        play.broker_says(message(b"2") + receipt("bye"), at="b")
        play.client_gets(message(b"2") + receipt("bye"))


def test_the_client_closes_first() -> None:
    """All legs end when it has its receipt."""
    with fanned(quorum=1) as play:
        play.client_says(BYE)
        both_get(play, BYE)
        play.broker_says(receipt("bye"), at="a")
        play.client_gets(receipt("bye"))
        play.client_goes()
        play.broker_is_closed(How.FLUSH, at="a")
        play.broker_is_closed(How.FLUSH, at="b")


@pytest.mark.parametrize("at", ["a", "b"])
def test_a_broker_that_closes_before_the_other_answers(at: str) -> None:
    """It has done its duty, plain address or not."""
    play = begun(routed(plain("main", "a"), plain("there", "b")), b"1.2", "a")
    play.client_says(send(b"1", b"/queue/there.1"))
    comes(play, "b")
    play.client_says(BYE)
    other = "b" if at == "a" else "a"
    play.broker_says(receipt("bye"), at=at)
    play.broker_is_closed(at=at)
    play.client_gets(b"")
    play.broker_says(receipt("bye"), at=other)
    play.client_gets(receipt("bye"))
    play.broker_goes(at=other)
    play.client_is_closed()
    assert play.counters["brokers_lost"] == 0


def test_a_broker_that_confirms_late() -> None:
    """The client has its receipt already."""
    with fanned(3, 1) as play:
        play.client_says(BYE)
        for at in "abc":
            play.broker_gets(BYE, at=at)
        for number, at in enumerate("abc"):
            play.broker_says(receipt("bye"), at=at)
            play.client_gets(b"" if number else receipt("bye"))
        play.time_passes(3)
        play.client_is_closed()
