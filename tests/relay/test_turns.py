"""A peer that sends many small frames at once gives way to others, and loses nothing by it."""

import pytest

from stomprelay.relay.effects import TURN
from tests.playbook import joined
from tests.relay.failing import started
from tests.relay.frames import ASKING, RECEIPT


def sends(first: int, count: int) -> bytes:
    """SENDs with bodies that are numbered from `first` on."""
    return b"".join(b"SEND\ndestination:/queue/a\n\n%d\0" % (first + at) for at in range(count))


def messages(count: int) -> bytes:
    """MESSAGEs, numbered, of a subscription that needs no ACKs."""
    one = b"MESSAGE\nsubscription:1\nmessage-id:%d\ndestination:/queue/a\n\nx\0"
    return b"".join(one % at for at in range(count))


def test_who_sends_much_gives_way() -> None:
    """A turn's worth of a client's or a broker's frames goes at once; the rest, and what comes meanwhile, later."""
    with joined(b"1.2", b"1.2") as play:
        play.busy = True
        play.client_tells_broker(sends(0, 2 * TURN + 1), sends(0, TURN))
        play.client_says(sends(2 * TURN + 1, 3))
        play.broker_gets(b"")
        assert play.turn_comes() is play.client.leg
        play.broker_gets(sends(TURN, TURN))
        play.turn_comes()
        play.broker_gets(sends(2 * TURN, 4))
        play.client_tells_broker(sends(0, 1))
    with joined(b"1.2", b"1.2") as play:
        play.busy = True
        data = messages(TURN + 10)
        play.broker_says(data)
        first = play.client_reads()
        assert first.count(b"\0") == TURN
        play.broker_says(b"RECEIPT\nreceipt-id:r\n\n\0")
        play.client_gets(b"")
        assert play.turn_comes() is play.broker.leg
        assert first + play.client_reads() == data + b"RECEIPT\nreceipt-id:r\n\n\0"


@pytest.mark.parametrize("survives", [False, True], ids=["plain", "failover"])
def test_a_broker_that_goes_meanwhile(survives: bool) -> None:
    """The client gets all that the broker sent, before anything that its loss leads to."""
    with started(b"1.2") if survives else joined(b"1.2", b"1.2") as play:
        play.busy = True
        data = messages(3 * TURN)
        play.broker_says(data)
        play.broker_goes()
        heard = play.client_reads()
        assert heard.startswith(data)
        assert heard.removeprefix(data).startswith(b"" if survives else b"ERROR\n")
        assert play.turn_comes() is play.brokers[0].leg
        play.client_gets(b"")


def test_the_last_words_of_a_client_with_many_subscriptions_give_way() -> None:
    """Its broker is told in turns that it wants no more; then the session ends."""
    with started(b"1.2") as play:
        told = [b"SUBSCRIBE\nid:%d\ndestination:/queue/a\n\n\0" % at for at in range(TURN + 1)]
        play.client_said(b"".join(told) + ASKING % (b"0", b"x"))
        play.busy = True
        play.client_goes()
        assert play.broker_reads().count(b"UNSUBSCRIBE\n") == TURN
        play.broker_says(RECEIPT % b"0")
        assert not play.relay.over
        assert play.turn_comes() is play.broker.leg
        assert play.broker_reads().replace(b"\0\n", b"\0") == b"UNSUBSCRIBE\nid:%d\n\n\0" % TURN
        assert play.relay.over
