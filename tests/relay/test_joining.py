"""Which clients have which flow."""

import pytest

from stomprelay.relay.fanout.fanout import Fanout
from stomprelay.relay.flow import Flow
from stomprelay.relay.model.counters import Counters
from stomprelay.relay.model.listener import Listener
from stomprelay.relay.relay import join
from stomprelay.relay.single import Single
from stomprelay.session.handshake import Offer
from stomprelay.session.leg import Leg
from stomprelay.session.session import Session
from stomprelay.session.states import Side
from stomprelay.wire.dialect import V1_2
from tests.playbook import listener
from tests.relay.several import fan_out, lasting, plain, routed


def joined(front: Listener) -> tuple[Flow, Session]:
    """The flow of a client that has just come."""
    session = Session(b"s", V1_2, 10, Counters())
    offer = Offer([], frozenset({b"1.2"}), None)
    return join(Leg(Side.DOWNSTREAM, front.limits), front, offer, session, float), session


@pytest.mark.parametrize("front", [listener(), listener(lasting("main", "a")), listener(fan_out(1))])
def test_one_broker_at_a_time(front: Listener) -> None:
    """What is for one broker is not copied."""
    flow, session = joined(front)
    assert isinstance(flow, Single)
    assert [link.session for link in flow.links] == [session]


@pytest.mark.parametrize(
    ("front", "groups"),
    [
        (listener(fan_out(3)), ["main-1", "main-2", "main-3"]),
        (routed(plain("main", "a"), plain("there", "b")), ["a"]),
        (routed(fan_out(2), plain("there", "c")), ["main-1", "main-2"]),
    ],
)
def test_several(front: Listener, groups: list[str]) -> None:
    """Each link has an account of its own, the client's own being the first; all are still to be sought."""
    flow, session = joined(front)
    assert isinstance(flow, Fanout)
    assert [link.group.name for link in flow.links] == groups
    sessions = [link.session for link in flow.links]
    assert sessions[0] is session
    assert len(set(map(id, sessions))) == len(groups)
    assert all(link.resender is not None for link in flow.links)
    assert flow.opened() == []
    assert not flow.ready
    assert not flow.flowing
