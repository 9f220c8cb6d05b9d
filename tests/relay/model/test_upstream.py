"""An upstream's settings, each by what it does, and what a broker remembers."""

from stomprelay.relay.model.group import Broker, alone
from stomprelay.relay.model.upstream import Upstream
from stomprelay.session.effects import Event
from stomprelay.session.handshake import Credentials
from stomprelay.wire.frame import Limits
from tests.playbook import SAY_HELLO, SAY_WELCOME, URI, Playbook, listener, upstream


def test_its_passcode_is_not_shown() -> None:
    """Neither in its own representation nor in that of the listener that leads to it."""
    over = upstream(credentials=Credentials(b"relay", b"SECRET"))
    assert "SECRET" not in repr(over) + repr(listener(over)) + str(over)
    assert "relay" in repr(over)


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


def test_its_address_stays_out_of_what_clients_are_told() -> None:
    """Clients see the upstream's name; the log sees the address."""
    broker = Broker("tcp://secret-host:61613", "tcp:secret-host:61613")
    with Playbook(listener(upstream(groups=alone(broker))), hello=SAY_HELLO[b"1.2"]) as play:
        assert play.opened == [broker]
        play.broker_is_asked()
        play.broker_said(SAY_WELCOME[b"1.2"])
        assert "secret-host" in play.noted(Event.CONNECTED)
        play.broker_goes()
        assert b"secret-host" not in play.client_reads()
        assert "secret-host" in play.noted(Event.LOST)
