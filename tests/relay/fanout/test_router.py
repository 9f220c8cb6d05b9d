"""Where destinations lead, and how many groups of an upstream it takes."""

from itertools import product

from stomprelay.relay.effects import Outbox
from stomprelay.relay.fanout.router import Member, Router
from stomprelay.relay.model.listener import Listener
from stomprelay.relay.model.upstream import Upstream
from tests.relay.fanout.parts import MOST, links_of, target
from tests.relay.several import begun, comes, fan_out, lasting, plain, routed, send

SIZES = [(count, quorum) for count in range(1, 4) for quorum in range(1, count + 1)]
"""How many groups, and how many of them it takes."""


def router(front: Listener) -> Router:
    """The router of a session that has not sent anything."""
    outbox = Outbox()
    return Router(front, outbox, lambda upstream: links_of(front, upstream, outbox))


def fill(member: Member, size: int) -> None:
    """So many bytes are unconfirmed."""
    if size:
        member.resender.unconfirmed.keep(b"x" * size, b"r", sent=True)


# Routes


def test_an_upstream_is_opened_once() -> None:
    """When a destination first leads there, and for all that do."""
    there = fan_out(3)
    each = router(routed(plain("main", "a"), Upstream("there", there.groups)))
    assert each.forks
    assert [link.group.name for link in each.take_opened()] == ["a"]
    assert each.target(b"/queue/here") is each.main
    assert each.take_opened() == []
    found = each.target(b"/queue/there.1")
    assert [link.group.name for link in each.take_opened()] == ["main-1", "main-2", "main-3"]
    assert each.target(b"/queue/there.2") is found
    assert each.target(b"/queue/there.1") is found
    assert each.take_opened() == []
    assert each.targets == [each.main, found]
    assert [target for target, _ in each.places.values()] == [each.main, found, found, found]


def test_many_destinations() -> None:
    """The number that are remembered is bounded."""
    each = router(routed(plain("main", "a"), plain("there", "b")))
    for number in range(10_000):
        assert each.target(b"/queue/there.%d" % number).upstream.name == "there"
    assert len(each._known) <= 4096


def test_frames_wait_for_their_own_broker() -> None:
    """Those for other upstreams do not wait; where too much does, the client is not read from."""
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


# One upstream and its groups


def test_room() -> None:
    """It is full when fewer than a quorum have room, crowded when fewer have much of it."""
    for count, quorum in SIZES:
        for fillings in product((0, MOST // 2 + 1, MOST), repeat=count):
            each = target(count, quorum)
            for member, size in zip(each.members, fillings, strict=True):
                fill(member, size)
            assert each.full is (sum(size < MOST for size in fillings) < quorum)
            assert each.crowded is (fillings.count(0) < quorum)


def test_receivers() -> None:
    """All that have room, never fewer than a quorum, and of the full ones the emptiest; in their order or not."""
    for count, quorum in SIZES:
        for fillings in product((0, MOST, 2 * MOST), repeat=count):
            each = target(count, quorum)
            for member, size in zip(each.members, fillings, strict=True):
                fill(member, size)
            receivers = each.receivers()
            roomy = [member for member, size in zip(each.members, fillings, strict=True) if not size]
            assert set(roomy) <= set(receivers)
            assert len(receivers) == max(len(roomy), quorum)
            least = sorted(fillings)[: len(receivers)]
            assert sorted(member.size for member in receivers) == least


def test_destinations_that_are_copied() -> None:
    """With `fanOutQueues=false` those of topics alone, otherwise all; with one group none is."""
    table = {
        b"/queue/a": False,
        b"a": False,
        b"": False,
        b"/topic/a": True,
        b"/topic": False,
        b"/temp-topic/a": True,
        b"/exchange/amq.topic/a": True,
        b"topic://a": True,
        b"jms.topic.a": True,
        b"/amq/queue/a": False,
    }
    topics, everything, one = target(2, 1, fan_out_queues=False), target(2, 1), target(1, 1)
    assert {destination: topics.copies(destination) for destination in table} == table
    assert all(map(everything.copies, table))
    assert not any(map(one.copies, table))


def test_the_primary() -> None:
    """The first group with room, where none has a broker."""
    each = target(3, 1)
    assert each.primary is each.members[0]
    fill(each.members[0], MOST)
    assert each.primary is each.members[1]
    each.members[1].given_up = True
    fill(each.members[2], MOST)
    assert each.primary is each.members[0]


def test_safe() -> None:
    """A quorum has everything that was sent, if it missed nothing; one of two is enough here."""
    table = {
        # unconfirmed, missed something
        ("", ""): True,
        ("a", ""): True,
        ("a", "b"): False,
        ("a", "a"): True,
        ("ab", ""): False,
        ("", "ab"): True,
    }
    for (unconfirmed, short), safe in table.items():
        each = target(2, 1)
        for name, member in zip("ab", each.members, strict=True):
            fill(member, name in unconfirmed)
            if name in short:
                member.short = True
        assert each.safe is safe, (unconfirmed, short)


def test_a_gap_that_was_closed() -> None:
    """When all that was sent is confirmed everywhere, no group misses anything that is still to be confirmed."""
    each = target(2, 1)
    each.members[0].short = True
    fill(each.members[1], 1)
    each.receivers()
    assert [member.short for member in each.members] == [True, False]
    each.members[1].resender.unconfirmed.received(b"r")
    each.receivers()
    assert [member.short for member in each.members] == [False, False]
