"""A client with several brokers: how its session begins, goes on without one of them, and ends."""

import pytest

from stomprelay.relay.model.upstream import Upstream
from tests.playbook import SAY_HELLO, Playbook, listener
from tests.relay.frames import send
from tests.relay.several import begun, fan_out, group, lasting, routed

DENIED = b"ERROR\nmessage:Bad CONNECT\n\nno\0"


@pytest.mark.parametrize("quorum", [1, 2, 3])
def test_connected_with_the_quorum(quorum: int) -> None:
    """The client is sent one CONNECTED, that of the broker which completes the quorum."""
    with Playbook(listener(fan_out(3, quorum=quorum)), hello=SAY_HELLO[b"1.2"]) as play:
        assert sorted(map(str, play.opened)) == ["a", "b", "c"]
        for number, at in enumerate("cab", 1):
            play.broker_welcomes(at=at)
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


def test_a_group_of_a_route_that_gives_up() -> None:
    """A client cannot go on without an upstream that it uses."""
    there = Upstream("there", (group("there", "b", timeout=3.0),))
    play = begun(routed(lasting("main", "a"), there), b"1.2", "a")
    play.client_says(send(b"1", b"/queue/there.1"))
    play.broker_welcomes(at="b")
    play.broker_goes(at="b")
    play.time_passes(10)
    play.client_gets_error(b"no broker available", detail=b"upstream there: none could be had within 3 s")
