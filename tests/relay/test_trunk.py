"""How many of an upstream's groups it takes."""

from itertools import product

import pytest

from stomprelay.relay.fanout.member import Member
from stomprelay.relay.fanout.router import Target
from stomprelay.relay.link.link import Link
from stomprelay.relay.model.counters import Counters
from stomprelay.session.handshake import Offer
from stomprelay.session.session import Session
from stomprelay.wire.dialect import V1_2
from tests.playbook import listener
from tests.relay.several import fan_out

MOST = 1000


def target(count: int, quorum: int, *, fan_out_queues: bool = True) -> Target:
    """A target whose links have not found anybody yet."""
    upstream = fan_out(count, quorum=quorum, fan_out_queues=fan_out_queues, resend_buffer=MOST)
    session = Session(b"s", V1_2, 10, Counters())
    offer = Offer([], frozenset({b"1.2"}), None)
    return Target(
        upstream,
        [
            Link(listener(upstream), upstream, group, offer, session.beside(), float, carried=True)
            for group in upstream.groups
        ],
    )


def fill(member: Member, octets: int) -> None:
    """So much is unconfirmed."""
    if octets:
        member.resender.unconfirmed.keep(b"x" * octets, b"r", said=True)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_room(count: int) -> None:
    """Cell by cell: it is full when fewer than a quorum have room, crowded when fewer have much of it."""
    for quorum in range(1, count + 1):
        for fillings in product((0, MOST // 2 + 1, MOST), repeat=count):
            each = target(count, quorum)
            for member, octets in zip(each.members, fillings, strict=True):
                fill(member, octets)
            assert each.full is (sum(octets < MOST for octets in fillings) < quorum)
            assert each.crowded is (fillings.count(0) < quorum)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_takers(count: int) -> None:
    """All that have room, never fewer than a quorum, and of the full ones the emptiest; in their order or not."""
    for quorum in range(1, count + 1):
        for fillings in product((0, MOST, 2 * MOST), repeat=count):
            each = target(count, quorum)
            for member, octets in zip(each.members, fillings, strict=True):
                fill(member, octets)
            takers = each.takers()
            roomy = [member for member, octets in zip(each.members, fillings, strict=True) if not octets]
            assert set(roomy) <= set(takers)
            assert len(takers) == max(len(roomy), quorum)
            least = sorted(fillings)[: len(takers)]
            assert sorted(member.octets for member in takers) == least


def test_a_group_that_is_out() -> None:
    """It counts for nothing."""
    each = target(3, 2)
    each.members[0].out = True
    assert each.live == each.members[1:]
    assert each.takers() == each.members[1:]
    assert each.reachable is True
    each.members[1].out = True
    assert each.reachable is False


@pytest.mark.parametrize(
    ("destination", "copied"),
    [
        (b"/queue/a", False),
        (b"a", False),
        (b"", False),
        (b"/topic/a", True),
        (b"/topic", False),
        (b"/temp-topic/a", True),
        (b"/exchange/amq.topic/a", True),
        (b"topic://a", True),
        (b"jms.topic.a", True),
        (b"/amq/queue/a", False),
    ],
)
def test_what_is_copied(destination: bytes, copied: bool) -> None:
    """Queues are not where they shall not be; with one group nothing is."""
    assert target(2, 1, fan_out_queues=False).copied(destination) is copied
    assert target(2, 1).copied(destination)
    assert not target(1, 1).copied(destination)


def test_the_primary() -> None:
    """The first with room; nobody is there yet."""
    each = target(3, 1)
    assert each.primary is each.members[0]
    fill(each.members[0], MOST)
    assert each.primary is each.members[1]
    each.members[1].out = True
    fill(each.members[2], MOST)
    assert each.primary is each.members[0]


def test_a_quorum_of_more_than_there_are() -> None:
    """ActiveMQ's default of two is all of one."""
    assert target(1, 2).quorum == 1


@pytest.mark.parametrize(
    ("unconfirmed", "short", "safe"),
    [
        ("", "", True),
        ("a", "", True),
        ("a", "b", False),
        ("a", "a", True),
        ("ab", "", False),
        ("", "ab", True),
    ],
)
def test_safe(unconfirmed: str, short: str, safe: bool) -> None:
    """A quorum without anything outstanding, if it missed nothing."""
    each = target(2, 1)
    for name, member in zip("ab", each.members, strict=True):
        fill(member, name in unconfirmed)
        member.short = name in short
    assert each.safe is safe


def test_a_gap_that_was_closed() -> None:
    """When everything has arrived everywhere, nobody lacks anything that is still to arrive."""
    each = target(2, 1)
    each.members[0].short = True
    fill(each.members[1], 1)
    each.takers()
    assert [member.short for member in each.members] == [True, False]
    each.members[1].resender.unconfirmed.received(b"r")
    each.takers()
    assert [member.short for member in each.members] == [False, False]


def test_the_failure() -> None:
    """It names the upstream, what it takes, and who failed with the reason, where there is one."""
    each = target(3, 2)
    each.members[0].blame = "it was full"
    failure = each.failure([each.members[0], each.members[2]], b"r")
    assert failure.message == "the quorum cannot be reached"
    assert failure.detail == "upstream main needs 2 of 3 groups; failed: main-1 (it was full), main-3"
    assert failure.receipt == b"r"
