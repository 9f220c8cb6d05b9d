"""Which upstreams are used."""

from stomprelay.relay.fanout.router import Router
from stomprelay.relay.link.link import Link
from stomprelay.relay.model.counters import Counters
from stomprelay.relay.model.listener import Listener
from stomprelay.relay.model.upstream import Upstream
from stomprelay.session.handshake import Offer
from stomprelay.session.session import Session
from stomprelay.wire.dialect import V1_2
from tests.playbook import listener
from tests.relay.several import begun, comes, fan_out, lasting, plain, routed, send


def router(front: Listener) -> Router:
    """The router of a session that has not said anything."""
    session = Session(b"s", V1_2, 10, Counters())
    offer = Offer([], frozenset({b"1.2"}), None)

    def links(upstream: Upstream) -> list[Link]:
        return [
            Link(front, upstream, group, offer, session.beside(), float, carried=True)
            for group in upstream.groups
        ]

    return Router(front, links)


def test_without_routes() -> None:
    """Everything leads to the one upstream."""
    each = router(listener(fan_out(2)))
    assert not each.forks
    assert each.target(b"/queue/a") is each.main
    assert len(each.places) == len(each.opened) == 2


def test_a_way_is_opened_once() -> None:
    """When it is first asked for, and for all destinations that lead there."""
    there = fan_out(3)
    each = router(routed(plain("main", "a"), Upstream("there", there.groups)))
    assert each.forks
    assert [link.group.name for link in each.opened] == ["a"]
    each.opened.clear()
    assert each.target(b"/queue/here") is each.main
    assert each.opened == []
    found = each.target(b"/queue/there.1")
    assert [link.group.name for link in each.opened] == ["main-1", "main-2", "main-3"]
    each.opened.clear()
    assert each.target(b"/queue/there.2") is found
    assert each.target(b"/queue/there.1") is found
    assert each.opened == []
    assert each.targets == [each.main, found]
    assert [target for target, _ in each.places.values()] == [each.main, found, found, found]


def test_two_routes_to_one_upstream() -> None:
    """There is one leg for both, and for the listener's own where a route leads back to it."""
    main, there = lasting("main", "a"), lasting("there", "b")
    front = routed(main, there, there, main)
    each = router(front)
    assert each.target(b"/queue/main.1") is each.main
    assert each.target(b"/queue/there.1").upstream is there
    assert len(each.targets) == 2


def test_many_destinations() -> None:
    """What is remembered of them is bounded."""
    each = router(routed(plain("main", "a"), plain("there", "b")))
    for number in range(10_000):
        assert each.target(b"/queue/there.%d" % number).upstream.name == "there"
    assert len(each._known) <= 4096


def test_frames_wait_for_their_way() -> None:
    """Those of other ways do not, and a client that says too much waits too."""
    with begun(routed(lasting("main", "a"), lasting("there", "b", resend_buffer=300)), b"1.2", "a") as play:
        first, second = send(b"1", b"/queue/there.1"), send(b"2")
        assert [str(broker) for broker in play.opened] == ["a"]
        play.client_says(first + second)
        assert [str(broker) for broker in play.opened] == ["a", "b"]
        play.broker_gets(second, at="a")
        more = send(b"x" * 300, b"/queue/there.1")
        play.client_says(more)
        assert play.client.paused
        comes(play, "b")
        play.broker_gets(first + more, at="b")


def test_every_way_speaks_its_own_version() -> None:
    """A broker that is found later need not speak the version of the first."""
    with begun(routed(lasting("main", "a"), lasting("there", "b")), b"1.2", "a") as play:
        play.client_says(b"SEND\ndestination:/queue/there.1\nfoo:a\\cb\n\n\0")
        comes(play, "b", b"1.0")
        play.broker_gets(b"SEND\ndestination:/queue/there.1\nfoo:a:b\n\n\0", at="b")
