"""Parts of a client's fan-out, for tests that look at one of them."""

from typing import Final

from stomprelay.relay.effects import Outbox
from stomprelay.relay.fanout.router import Member, Target
from stomprelay.relay.link.link import Link
from stomprelay.relay.model.counters import Counters
from stomprelay.relay.model.listener import Listener
from stomprelay.relay.model.upstream import Upstream
from stomprelay.session.handshake import Offer
from stomprelay.session.session import Session
from stomprelay.wire.dialect import V1_2
from tests.playbook import Playbook, listener
from tests.relay.several import fan_out

MOST: Final = 1000
"""How many bytes may be unconfirmed in each group of a `target`."""


def member_of(play: Playbook, at: int) -> Member:
    """Return the member of a relay's flow whose link is at this place."""
    connection = play.relay._connection
    assert connection is not None
    member: Member = connection.flow._places[play.relay.links[at]][1]  # type: ignore[union-attr]
    return member


def links_of(front: Listener, upstream: Upstream, outbox: Outbox) -> list[Link]:
    """Return the links of a session to an upstream; none has sought a broker yet."""
    session = Session(b"s", V1_2, 10, Counters())
    offer = Offer([], frozenset({b"1.2"}), None)
    return [
        Link(front, upstream, group, offer, session.beside(), outbox, float, resends=True)
        for group in upstream.groups
    ]


def target(count: int, quorum: int) -> Target:
    """Return a target none of whose links has a broker."""
    upstream = fan_out(count, quorum=quorum, resend_buffer=MOST)
    outbox = Outbox()
    return Target(upstream, links_of(listener(upstream), upstream, outbox), outbox)
