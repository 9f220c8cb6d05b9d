"""The stages of a session with one group of brokers, in the order of its life."""

from stomprelay.relay.link.link import Stage
from stomprelay.relay.model.group import Broker, Group, Reconnect
from tests.playbook import SAY_HELLO, SAY_WELCOME, Playbook, listener, upstream


def test_a_life_in_stages() -> None:
    """A broker is asked, serves, is lost; the next one is asked after a pause, serves, is left; the client goes."""
    a, b = Broker("tcp://a", "tcp:a:1"), Broker("tcp://b", "tcp:b:1")
    group = Group("main", (a, b), Reconnect(randomize=False))
    seen = []
    with Playbook(listener(upstream(groups=(group,)))) as play:
        play.client_says(SAY_HELLO[b"1.2"])
        (link,) = play.relay.links
        seen.append(link.stage)
        play.broker_accepts()
        play.broker_says(SAY_WELCOME[b"1.2"])
        seen.append(link.stage)
        play.broker_reads()
        play.broker_goes()
        seen.append(link.stage)
        play.time_passes(0.02)
        seen.append(link.stage)
        play.broker_accepts()
        play.broker_says(SAY_WELCOME[b"1.2"])
        seen.append(link.stage)
        play.broker_reads()
        play.relay.leave(b, play.now, 5.0)
        seen.append(link.stage)
        play.client_goes()
        seen.append(link.stage)
        play.client_reads()
    assert seen == [
        Stage.BINDING,
        Stage.UP,
        Stage.SEARCHING,
        Stage.BINDING,
        Stage.UP,
        Stage.PARTING,
        Stage.ENDED,
    ]
