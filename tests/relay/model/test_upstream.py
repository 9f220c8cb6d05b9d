"""An upstream's and a listener's settings, each by what it does, and what a broker remembers."""

from stomprelay.relay.model.group import Broker, alone
from stomprelay.relay.model.listener import Match, Route
from stomprelay.relay.model.upstream import Upstream
from stomprelay.session.effects import Event
from stomprelay.session.handshake import Credentials
from stomprelay.session.leg import Terms
from stomprelay.wire.frame import Limits
from tests.playbook import SAY_HELLO, SAY_WELCOME, URI, Playbook, listener, upstream


def test_what_is_not_shown() -> None:
    """Its passcode, in any representation; its address, to clients: the log sees that."""
    over = upstream(credentials=Credentials(b"relay", b"SECRET"))
    assert "SECRET" not in repr(over) + repr(listener(over)) + str(over)
    assert "relay" in repr(over)
    broker = Broker("tcp://secret-host:61613", "tcp:secret-host:61613")
    with Playbook(listener(upstream(groups=alone(broker))), hello=SAY_HELLO[b"1.2"]) as play:
        assert play.opened == [broker]
        play.broker_is_asked()
        play.broker_said(SAY_WELCOME[b"1.2"])
        assert "secret-host" in play.noted(Event.CONNECTED)
        play.broker_goes()
        assert b"secret-host" not in play.client_reads()
        assert "secret-host" in play.noted(Event.LOST)


def test_limits_hold_for_what_the_broker_says() -> None:
    """A broker's frames have limits too, far above a client's: one that is out of its mind fills no memory."""
    assert Upstream("main", alone(Broker(URI, "tcp:broker:61613"))).limits.body > Limits().body
    for wrong in (
        b"MESSAGE\n" + b"a:b\n" * 5 + b"\n\0",
        b"MESSAGE\na:" + b"b" * 100 + b"\n\n\0",
        b"MESSAGE\ncontent-length:1001\n\n",
        b"MESSAGE\n\n" + b"b" * 1002,
    ):
        small = upstream(limits=Limits(headers=4, header_line=100, body=1000))
        with Playbook(listener(small), hello=SAY_HELLO[b"1.2"]) as play:
            play.broker_is_asked()
            play.broker_said(SAY_WELCOME[b"1.2"])
            play.broker_says(wrong)
            play.client_gets_error(b"the broker sent what is not STOMP")
            play.broker_is_closed()


def test_heart_beats_are_what_connected_says() -> None:
    """A listener's own terms are shown to clients that speak of heart-beats, and only to those."""
    with Playbook(listener(heart_beat=Terms(12000, 34000))) as play:
        play.client_says(SAY_HELLO[b"1.2"].replace(b"\n\n", b"\nheart-beat:1,1\n\n"))
        play.broker_is_asked()
        play.broker_says(b"CONNECTED\nversion:1.2\nsession:s\n\n\0")
        play.client_gets(b"CONNECTED\nversion:1.2\nsession:s\nheart-beat:12000,34000\n\n\0")


def to(name: str = "orders") -> Upstream:
    """An upstream of this name."""
    return Upstream(name, alone(Broker("tcp://a:61613", "tcp:a:61613")))


def test_a_pattern_cannot_be_made_to_take_for_ever() -> None:
    """Many wildcards against a long destination that almost fits: the suite's time limit is the judge."""
    assert not Route(Match.GLOB, "*a" * 30 + "b", to()).matches(b"a" * 100_000)
