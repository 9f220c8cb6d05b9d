"""A client with several brokers: how its session begins, goes on without one of them, and ends."""

import pytest

from stomprelay.relay.model.upstream import Upstream
from tests.playbook import SAY_HELLO, Playbook, listener
from tests.relay.several import (
    begun,
    comes,
    comes_back,
    copied,
    fan_out,
    fanned,
    group,
    lasting,
    receipt,
    routed,
    send,
    tell,
)

DENIED = b"ERROR\nmessage:Bad CONNECT\n\nno\0"


# CONNECT


@pytest.mark.parametrize("quorum", [1, 2, 3])
def test_connected_with_the_quorum(quorum: int) -> None:
    """The client is sent one CONNECTED, that of the broker which completes the quorum."""
    with Playbook(listener(fan_out(3, quorum=quorum))) as play:
        play.client_says(SAY_HELLO[b"1.2"])
        assert sorted(map(str, play.opened)) == ["a", "b", "c"]
        for number, at in enumerate("cab", 1):
            comes(play, at)
            welcome = b"CONNECTED\nversion:1.2\nsession:s-1\n\n\0" if number == quorum else b""
            play.client_gets(welcome)
        assert not play.relay.coupled


@pytest.mark.parametrize(("quorum", "denied"), [(1, "ab"), (2, "a"), (2, "b")])
def test_a_quorum_that_denies(quorum: int, denied: str) -> None:
    """The client is sent the last broker's ERROR whole, and the other leg ends."""
    play = Playbook(listener(fan_out(2, quorum=quorum)))
    play.client_says(SAY_HELLO[b"1.2"])
    for at in denied:
        assert play.client.closed is None
        play.broker_accepts(at=at)
        play.broker_says(DENIED, at=at)
    play.client_gets(DENIED)
    play.client_is_closed()
    assert all(peer.closed for peer in play.brokers)


# Brokers that are lost


def test_one_broker_is_lost() -> None:
    """The client is sent nothing of it; the next broker is sent all that the lost one may not have received."""
    with fanned() as play:
        sends = send(b"1", receipt="r") + send(b"2")
        play.client_says(tell(b"SUBSCRIBE", id="1", destination="/queue/a") + sends)
        both = tell(b"SUBSCRIBE", id="1", destination="/queue/a")
        first, second = copied(1, send(b"1", receipt="r")), copied(2, send(b"2"))
        for at in "ab":
            play.broker_gets(both + first + second, at=at)
        play.broker_goes(at="a")
        play.broker_says(receipt("r"), at="b")
        play.client_gets(receipt("r"))
        play.client_says(send(b"3"))
        play.broker_gets(copied(3, send(b"3")), at="b")
        comes_back(play, "a")
        resent = first.replace(b"SEND\n", b"SEND\nrelay-resent:true\n")
        play.broker_gets(both.replace(b"\0", b"\0\n") + resent + copied(3, send(b"3")), at="a")
        play.broker_says(receipt("r"), at="a")
        assert play.counters["possibly_lost"] == 1  # the second, which asked for no receipt
        play.both_stay()


def test_a_group_of_a_route_that_gives_up() -> None:
    """A client cannot go on without an upstream that it uses."""
    there = Upstream("there", (group("there", "b", timeout=3.0),))
    play = begun(routed(lasting("main", "a"), there), b"1.2", "a")
    play.client_says(send(b"1", b"/queue/there.1"))
    comes(play, "b")
    play.broker_goes(at="b")
    play.time_passes(10)
    data = play.client_reads()
    assert data.startswith(b"ERROR\nmessage:no broker available\n")
    assert b"upstream there: none could be had within 3 s" in data
