"""A client that closes its direction and reads on: it gets what it is owed, and its session ends in good time."""

import pytest

from stomprelay.relay.client.shutdown import ECHO
from stomprelay.relay.model.listener import Listener
from stomprelay.relay.model.upstream import Upstream
from stomprelay.session.effects import Event, How
from tests.playbook import Playbook, in_all_pairs, joined, listener, upstream
from tests.relay.frames import GOODBYE, copied, receipt, send
from tests.relay.several import begun, both_get, fanned, group

EOL = b"\n"


@pytest.fixture(autouse=True)
def _scripted(monkeypatch: pytest.MonkeyPatch) -> None:
    """What brokers say to it stands in the scripts."""
    monkeypatch.setattr(Playbook, "part", False)


@in_all_pairs
def test_a_client_that_is_owed_nothing(client: bytes, broker: bytes) -> None:
    """Its broker is sent the DISCONNECT that it did not send; when that closes, all its answers have come."""
    with joined(client, broker) as play:
        play.client_tells_broker(send(b"x"))
        play.client_half_closes()
        play.client_gets(EOL)
        play.time_passes(ECHO)
        play.broker_gets(GOODBYE)
        play.broker_tells_client(b"ERROR\nmessage:no such queue\n\n\0")
        play.broker_goes()
        play.client_is_closed(How.LINGER)
        assert play.noted(Event.VANISHED) == "client left, and has its answers"
        assert play.counters["clients_vanished"] == 1


SUBSCRIBE = b"SUBSCRIBE\nid:0\ndestination:/queue/a\n\n\0"
MESSAGE = b"MESSAGE\nsubscription:0\nmessage-id:1\ndestination:/queue/a\n\nhello\0"


def test_a_subscribed_client() -> None:
    """Messages come until the time is over: nobody knows which is the last. Then its broker is left."""
    with joined(b"1.2", b"1.2", over=lambda each: upstream(disconnect_timeout=5.0)) as play:
        play.client_tells_broker(SUBSCRIBE)
        play.client_half_closes()
        play.client_gets(EOL)
        play.time_passes(ECHO)
        play.time_passes(4.9)
        play.broker_tells_client(MESSAGE)
        play.both_stay()
        play.time_passes(0.1)
        play.broker_gets(GOODBYE)
        play.broker_goes()
        play.client_is_closed()
        assert play.counters["clients_vanished"] == 1


@pytest.mark.parametrize("goodbye", [b"", b"DISCONNECT\nreceipt:bye\n\n\0"])
def test_brokers_that_never_come_back(goodbye: bytes) -> None:
    """A client that reads on is not waited for without end: it is given up, and what it sent has its own time."""
    with begun(lasting_pair(), brokers="a") as play:
        play.client_says(send(b"x", receipt="1") + goodbye)
        play.broker_reads(at="a")
        play.client_half_closes()
        play.client_gets(EOL)
        play.broker_goes(at="a")
        for _ in range(40):
            play.time_passes(0.5)
            if play.brokers[-1].closed is None and not play.brokers[-1].accepted:
                play.broker_refuses(at=play.brokers[-1].uri)
        play.client_is_closed(How.FLUSH)
        assert play.counters["possibly_lost"] == 1


def lasting_pair() -> Listener:
    """A listener whose sessions survive the broker a, at b."""
    return listener(Upstream("main", (group("main", "a", "b"),), confirm=False))


def test_several_brokers() -> None:
    """The client gets its receipt when a quorum has what it sent; then each broker is left."""
    with fanned(2, quorum=2) as play:
        play.client_says(send(b"x", receipt="1"))
        both_get(play, copied(1, send(b"x", receipt="1")))
        play.client_half_closes()
        play.client_gets(EOL)
        play.time_passes(ECHO)
        play.broker_says(receipt("1"), at="a")
        play.broker_tells_client(receipt("1"), at="b")
        both_get(play, GOODBYE)
        play.broker_goes(at="a")
        play.client_is_closed()
        play.broker_is_closed(at="b")
