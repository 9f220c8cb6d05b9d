"""A client whose CONNECT brokers close the connection for: what counts against whom, and when it is given up.

The service's probes are told in test_probe and tests/service/test_brokers; here somebody else answers, or nobody does.
"""

import pytest

from stomprelay.relay import inputs
from stomprelay.relay.link.link import AGAIN, PROOF, REST, Denied, Ended, Handshake, Waiting
from stomprelay.relay.model.group import Broker, Checks, Group, Policy, Reconnect
from stomprelay.relay.model.upstream import Upstream
from stomprelay.wire.errors import StompError
from tests.playbook import SAY_HELLO, Playbook, listener, upstream
from tests.relay.failing import asked, movable, over
from tests.relay.link.scene import Scene, started

CLOSED = "the broker closed the connection when it was sent CONNECT"
DENIED = b"ERROR\nmessage:Bad CONNECT\n\nno such user\0"


def well(over: Upstream) -> tuple[Broker, ...]:
    """The brokers of an upstream, each of which has answered somebody."""
    for broker in over.brokers:
        broker.health.answered()
    return over.brokers


def turned_away(play: Scene, answered: Broker | None = None) -> None:
    """The broker that is asked closes on CONNECT; before that it has answered somebody else."""
    play.accepts()
    if answered is not None:
        answered.health.answered()
    play.refuses("connection closed before CONNECTED")


def test_who_tries_a_broker_first_may_show_nothing() -> None:
    """If it leaves, or has the wrong passcode: a probe finds out for all others, who wait for that."""
    play = Scene(brokers=1, checks=Checks(pause=10.0))
    (only,) = play.over.brokers
    only.health.failed(play.over.checks, play.now, lambda: 0.5)
    play.now = 110.0
    play.seeks()
    play.accepts()
    only.health.doubted = False
    play.link.end()
    assert only.health.out(play.now)
    assert only.health.doubted
    play = Scene(checks=Checks(pause=10.0))
    first, _ = play.over.brokers
    first.health.failed(play.over.checks, play.now, lambda: 0.5)
    play.now = 111.0
    play.seeks()
    play.accepts()
    answer = play.answers(DENIED)
    assert isinstance(answer, Denied)
    assert answer.wire == DENIED
    assert first.health.out(play.now)
    assert first.health.doubted


@pytest.mark.parametrize("serves", [0, 1])
def test_a_plain_address(serves: int) -> None:
    """Nobody probes it: it has failed, unless it serves others."""
    play = Scene(upstream())
    (only,) = play.over.brokers
    play.seeks()
    play.accepts()
    for _ in range(serves):
        only.health.joined()
    with pytest.raises(StompError, match="broker not available"):
        play.refuses("connection closed before CONNECTED")
    assert only.health.up is (None if serves else False)


def test_two_brokers_that_are_well() -> None:
    """Each answered somebody before and while it closed on this one: the session ends, and nobody is asked again."""
    play = Scene()
    first, second = well(play.over)
    play.seeks()
    turned_away(play, first)
    play.accepts()
    second.health.answered()
    play.is_over(CLOSED, "upstream main")
    assert play.link.state == Ended(CLOSED, unwelcome=True)
    assert play.counters["connects_rejected"] == 1
    assert [each.health.up for each in play.over.brokers] == [True, True]
    assert [each.health.coming for each in play.over.brokers] == [0, 0]


def test_nobody_else_is_answered() -> None:
    """A balancer without a backend closes on everybody: the session waits, with rests, and is served in the end."""
    play = Scene(options={"startup_attempts": -1})
    well(play.over)
    play.seeks()
    turned_away(play)
    for _ in range(20):
        turned_away(play)
        assert play.link.until >= play.now + REST
        while isinstance(play.link.state, Waiting):
            play.wakes()
    play.finds()
    assert play.link.up
    assert play.counters["connects_rejected"] == 0


def test_it_had_a_broker_before() -> None:
    """Where all others are, CONNECT is not answered: it goes elsewhere, and may come back half a minute later."""
    listed = movable().brokers
    play = started(upstream(groups=(Group("main", listed, Reconnect(), Policy.TOGETHER),)))
    first, second = well(play.over)
    second.health.joined()
    play.loses()
    for _ in range(PROOF):
        play.wakes()
        turned_away(play)
        second.health.answered()  # a probe
    play.wakes()
    assert play.asked() == [str(second)] * PROOF + [str(first)]
    play.finds()
    play.leaves(to=second)
    assert play.link.following is not None
    play.hears(inputs.BrokerConnected(play.link.following.leg))
    play.hears(inputs.NotConnected(play.link.following.leg, "connection closed before CONNECTED"))
    assert play.link.broker is first
    assert (play.link.movable(play.now + AGAIN - 1.0), play.link.movable(play.now + AGAIN)) == (False, True)


@pytest.mark.parametrize("trouble", ["failed", "lost"])
def test_a_broker_that_was_in_trouble_meanwhile(trouble: str) -> None:
    """That it answers now is no proof that it was well then: it may have been restarted."""
    play = Scene()
    first, second = well(play.over)
    play.seeks()
    turned_away(play, first)
    turned_away(play)
    if trouble == "failed":
        second.health.failed(play.over.checks, play.now, lambda: 0.5)
    else:
        second.health.lost(suspect=False)
    second.health.answered()
    play.wakes()
    assert isinstance(play.link.state, Handshake)


def test_the_client_is_gone() -> None:
    """Its session ends as well, and with it the search; what it sent behind CONNECT is counted."""
    front = listener(movable())
    brokers = well(front.upstream)
    with Playbook(front, hello=SAY_HELLO[b"1.2"]) as play:
        play.client_says(b"SEND\ndestination:/queue/x\n\nhi\0", unasked=True)
        play.client_goes()
        for broker in brokers:
            asked(play)
            play.broker_is_asked()
            broker.health.answered()
            play.broker_goes()
        assert over(play)
        assert len(play.opened) == 2
        assert play.counters["possibly_lost"] == 1
