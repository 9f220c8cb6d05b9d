"""An upstream's settings, each by what it does, and what a broker remembers."""

import dataclasses

import pytest

from stomprelay.relay.model.group import Broker, alone
from stomprelay.relay.model.profile import AUTO
from stomprelay.relay.model.upstream import ClientTLS, Upstream
from stomprelay.session.effects import Event
from stomprelay.session.handshake import Credentials
from stomprelay.session.heartbeat import Terms
from stomprelay.wire.head import Limits
from tests.playbook import SAY_HELLO, SAY_WELCOME, URI, Playbook, joined, listener, upstream


def test_a_new_broker_is_unknown() -> None:
    """Nothing is known of an address before something answers there; logs show it as it was configured."""
    broker = Broker("ssl://h:61614", "tcp:h:61614", "h", tls=True)
    assert str(broker) == broker.uri == "ssl://h:61614"
    assert (broker.endpoint, broker.host, broker.tls) == ("tcp:h:61614", "h", True)
    assert broker.versions is None
    assert broker.profile is None


def test_the_defaults() -> None:
    """Without settings the client's own words pass, and the broker decides."""
    plain = Upstream("main", alone(Broker(URI, "tcp:broker:61613")))
    assert (plain.host, plain.credentials, plain.versions, plain.connect_escape) == (None, None, None, None)
    assert plain.profile is AUTO
    assert plain.close_on_error is False
    assert plain.heart_beat == Terms(10000, 10000, tolerance=2.5)
    assert plain.tls == ClientTLS()


def test_it_cannot_change() -> None:
    """Sessions share it."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        upstream().name = "other"  # type: ignore[misc]


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
        with Playbook(listener(small)) as play:
            play.client_says(SAY_HELLO[b"1.2"])
            play.broker_accepts()
            play.broker_reads()
            play.broker_says(SAY_WELCOME[b"1.2"])
            play.client_reads()
            play.broker_says(wrong)
            play.client_gets_error(b"the broker sent what is not STOMP")
            play.broker_is_closed()


def test_a_brokers_big_frame_passes() -> None:
    """Brokers add headers to what clients sent: their heads may be larger than a client's."""
    head = b"".join(b"header-%d:%d\n" % (n, n) for n in range(2000))
    with joined(b"1.2", b"1.2") as play:
        play.broker_says(b"MESSAGE\nsubscription:0\nmessage-id:1\n" + head + b"\n" + b"x" * 100_000 + b"\0")
        assert len(play.client_reads()) > 100_000
        play.both_stay()


def test_its_address_stays_out_of_what_clients_are_told() -> None:
    """Clients see the upstream's name; the log sees the address."""
    broker = Broker("tcp://secret-host:61613", "tcp:secret-host:61613")
    with Playbook(listener(upstream(groups=alone(broker)))) as play:
        play.client_says(SAY_HELLO[b"1.2"])
        assert play.opened == [broker]
        play.broker_accepts()
        play.broker_reads()
        play.broker_says(SAY_WELCOME[b"1.2"])
        play.client_reads()
        assert "secret-host" in play.noted(Event.CONNECTED)
        play.broker_goes()
        assert b"secret-host" not in play.client_reads()
        assert "secret-host" in play.noted(Event.LOST)
