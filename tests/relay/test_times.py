"""What is measured each time: how long a client waits for CONNECTED, and a session for its next broker; and what is
counted of each broker.
"""

import pytest

from stomprelay.relay.model.group import BrokerTally
from tests.playbook import Cut, Playbook, joined

SEND = b"SEND\ndestination:/queue/a\n\nx\0"
MESSAGE = b"MESSAGE\nsubscription:1\nmessage-id:1\ndestination:/queue/a\n\nx\0"


def tallies(play: Playbook) -> list[BrokerTally]:
    """What was counted of each broker that the relay turned to, on all connections."""
    found = {broker: broker.tally for broker in play.opened}
    for link in play.relay.links:
        if link.broker is not None:
            found[link.broker] = found[link.broker].plus(link.connection.tally)
    return [*found.values()]


@pytest.mark.parametrize("cut", [Cut.WHOLE, Cut.PASSED])
def test_frames_of_a_broker(cut: Cut) -> None:
    """Both ways, whether they passed or were looked at; CONNECT and CONNECTED are none."""
    play = joined(b"1.2", b"1.2", cut=cut)
    play.client_says(b"SUBSCRIBE\nid:1\ndestination:/queue/a\n\n\0")
    for _ in range(3):
        play.client_says(SEND)
    play.broker_says(MESSAGE * 2)
    assert tallies(play) == [BrokerTally(sent_frames=4, received_frames=2)]
    assert bool(play.passed) is (cut is Cut.PASSED)
    play.client_goes()
    assert tallies(play) == [BrokerTally(sent_frames=4, received_frames=2)]
