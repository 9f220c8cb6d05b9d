"""Where destinations lead, and how many groups of an upstream it takes."""

from stomprelay.relay.effects import Outbox
from stomprelay.relay.fanout.router import Member, Router
from stomprelay.relay.model.listener import Listener
from tests.relay.fanout.parts import MOST, links_of, target
from tests.relay.several import plain, routed


def router(front: Listener) -> Router:
    """The router of a session that has not sent anything."""
    outbox = Outbox()
    return Router(front, outbox, lambda upstream: links_of(front, upstream, outbox))


def fill(member: Member, size: int) -> None:
    """So many bytes are unconfirmed."""
    if size:
        member.resender.unconfirmed.keep(b"x" * size, b"r", sent=True)


def test_many_destinations() -> None:
    """The number that are remembered is bounded."""
    each = router(routed(plain("main", "a"), plain("there", "b")))
    for number in range(10_000):
        assert each.target(b"/queue/there.%d" % number).upstream.name == "there"
    assert len(each._known) <= 4096


def test_the_primary() -> None:
    """The first group with room, where none has a broker."""
    each = target(3, 1)
    assert each.primary is each.members[0]
    fill(each.members[0], MOST)
    assert each.primary is each.members[1]
    each.members[1].given_up = True
    fill(each.members[2], MOST)
    assert each.primary is each.members[0]
