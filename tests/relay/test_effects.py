"""Effects are plain values in the order in which they are to be done."""

from stomprelay.relay import inputs
from stomprelay.relay.effects import Open, Took
from stomprelay.relay.link.link import DISCONNECTING
from stomprelay.relay.model.counters import Counters
from stomprelay.relay.relay import Relay
from stomprelay.session.effects import Close, Event, How, Note, Send, Wake
from tests.playbook import SAY_HELLO, SAY_WELCOME, listener


def test_the_order_of_a_session() -> None:
    """From the first byte to the last, effect by effect, as the service is told them."""
    relay = Relay(listener(), b"s", Counters())
    assert list(relay.handle(inputs.Opened(), 1.0)) == [Wake(11.0)]
    effects = list(relay.received(relay.client, SAY_HELLO[b"1.2"], 2.0))
    leg = relay.links[0].state.leg
    assert leg is not None
    assert effects == [Wake(12.0), Open(leg, relay.listener.upstream.brokers[0])]
    assert list(relay.handle(inputs.BrokerConnected(leg), 3.0)) == [
        Send(leg, b"CONNECT\naccept-version:1.0,1.1,1.2\nhost:/\nheart-beat:10000,10000\n\n\0"),
    ]
    effects = list(relay.received(leg, SAY_WELCOME[b"1.2"], 4.0))
    kinds = [type(effect) for effect in effects if not isinstance(effect, Wake)]
    assert kinds == [Note, Send, Took]
    assert Send(relay.client, SAY_WELCOME[b"1.2"] + b"\n") in effects
    frame = b"SEND\ndestination:/queue/a\n\nx\0"
    assert list(relay.received(relay.client, frame, 5.0)) == [Send(leg, frame)]
    effects = list(relay.handle(inputs.Lost(relay.client, "gone"), 6.0))
    assert effects == [
        Note(Event.VANISHED, "client left: gone", {"end": "client"}),
        Close(relay.client, How.FLUSH),
        Send(leg, DISCONNECTING),
        Close(leg, How.LINGER),
        Wake(float("inf")),
    ]
