"""CONNECTED for a client: its own version, our beats, the broker's words, and once."""

from typing import NamedTuple

from stomprelay.relay.bridge.negotiation import pair
from stomprelay.relay.client import Welcome
from stomprelay.relay.effects import Effect
from stomprelay.relay.link.handshake import Accepted
from stomprelay.relay.model.counters import Counters
from stomprelay.relay.model.listener import LossPolicy
from stomprelay.relay.model.profile import GENERIC
from stomprelay.session.effects import Send
from stomprelay.session.handshake import Accord, Offer
from stomprelay.session.heartbeat import Terms
from stomprelay.session.leg import Leg
from stomprelay.session.session import Session
from stomprelay.session.states import Side, State
from stomprelay.wire.decoder import Decoder
from stomprelay.wire.dialect import DIALECTS, V1_0
from stomprelay.wire.frame import Frame
from stomprelay.wire.limits import Limits
from stomprelay.wire.names import CONNECT, CONNECTED
from tests.playbook import SAY_HELLO, SAY_WELCOME, listener


class Scene(NamedTuple):
    """A client that said CONNECT, and what will answer it."""

    client: Leg
    session: Session
    welcome: Welcome

    def waits(self) -> bool:
        """Whether the client is still to be answered."""
        return self.welcome.awaited

    def say(self, bound: Accepted, *, gone: bool = False) -> list[Effect]:
        """It is said at 7."""
        effects: list[Effect] = []
        self.welcome.say(bound, effects, 7.0, gone=gone)
        return effects


def scene(version: bytes, hello: bytes = b"") -> Scene:
    """`hello`: more headers of CONNECT."""
    front = listener(heart_beat=Terms(2000, 3000))
    client = Leg(Side.DOWNSTREAM, front.limits)
    session = Session(b"relay-session", DIALECTS[version], 10, Counters())
    offer = Offer.read(frame(SAY_HELLO[version].replace(b"CONNECT\n", b"CONNECT\n" + hello)))
    welcome = Welcome(client, front, offer, session)
    client.enter(State.CONNECTING, session.dialect)
    return Scene(client, session, welcome)


def frame(wire: bytes) -> Frame:
    """The one frame of some octets, which open a connection."""
    decoder = Decoder(V1_0, frozenset({CONNECT, CONNECTED}), Limits())
    decoder.feed(wire)
    (found,) = decoder.frames()
    return found


def bound(client: bytes, broker: bytes, welcome: bytes = b"") -> Accepted:
    """A broker's CONNECTED, with more headers."""
    said = SAY_WELCOME[broker].replace(b"CONNECTED\n", b"CONNECTED\n" + welcome)
    accord = Accord.read(frame(said))
    return Accepted(
        pair(client, broker, "generic", LossPolicy.REPLACE), accord, GENERIC, "a line for the log"
    )


def test_a_client_is_answered_once() -> None:
    """From then on it does not wait any more."""
    play = scene(b"1.2")
    assert play.waits()
    effects = play.say(bound(b"1.2", b"1.2"))
    assert effects == [
        Send(play.client, b"CONNECTED\nversion:1.2\nsession:s-1\n\n\0\n"),
    ]
    assert not play.waits()
    assert play.client.state is State.CONNECTED
    assert play.session.counters["sessions_connected"] == 1


def test_it_is_not_awaited_by_a_client_that_went() -> None:
    """Closed before any broker answered, it gets nothing any more."""
    play = scene(b"1.2")
    play.client.enter(State.CLOSED)
    assert not play.waits()


def test_the_version_is_the_clients() -> None:
    """Whatever the broker settled on."""
    for broker in (b"1.0", b"1.1"):
        play = scene(b"1.2")
        (sent,) = play.say(bound(b"1.2", broker, b"server:x/1\n"))
        assert isinstance(sent, Send)
        assert b"\nversion:1.2\n" in sent.data
        assert b"\nserver:x/1\n" in sent.data
        assert sent.data.count(b"version:") == 1


def test_a_session_without_a_name() -> None:
    """A broker that names none leaves it to the relay."""
    play = scene(b"1.1")
    nameless = bound(b"1.1", b"1.1")
    headers = [header for header in nameless.accord.headers if header[0] != b"session"]
    accord = Accord(headers, nameless.accord.dialect, nameless.accord.terms, b"", b"")
    (sent,) = play.say(nameless._replace(accord=accord))
    assert sent == Send(play.client, b"CONNECTED\nversion:1.1\nsession:relay-session\n\n\0\n")


def test_heart_beats_are_the_listeners_own() -> None:
    """Not those of the broker's leg; they run from now on."""
    play = scene(b"1.2", b"heart-beat:1000,10000\n")
    (sent,) = play.say(bound(b"1.2", b"1.2", b"heart-beat:5,5\n"))
    assert isinstance(sent, Send)
    assert b"\nheart-beat:2000,3000\n" in sent.data
    assert play.client.heartbeat.deadline == 7.0 + 5.0
    assert play.client.heartbeat.dead(7.0 + 6.0)


def test_a_client_that_does_not_speak_of_heart_beats() -> None:
    """It is told of none, unless its broker speaks of them: then of none in numbers."""
    play = scene(b"1.2")
    (sent,) = play.say(bound(b"1.2", b"1.2"))
    assert isinstance(sent, Send)
    assert b"heart-beat" not in sent.data
    assert not play.client.heartbeat.due(1e9)
    assert not play.client.heartbeat.dead(1e9)
    play = scene(b"1.2")
    (sent,) = play.say(bound(b"1.2", b"1.2", b"heart-beat:5,5\n"))
    assert isinstance(sent, Send)
    assert b"\nheart-beat:0,0\n" in sent.data


def test_a_client_that_is_gone_hears_nothing() -> None:
    """Its session is connected all the same: what it said is still to be delivered."""
    play = scene(b"1.2")
    assert play.say(bound(b"1.2", b"1.2"), gone=True) == []
    assert play.client.state is State.CONNECTED
    assert not play.waits()
    assert play.session.counters["sessions_connected"] == 1
