"""Sessions that are asked to leave a broker that is well: they go at a quiet moment, and the client hears nothing."""

import pytest

from stomprelay.session.effects import Event, How
from stomprelay.session.leg import Terms
from tests.playbook import SAY_HELLO, Cut, Playbook, in_all_cuts, in_all_pairs, said_welcome
from tests.relay.failing import asked_to_leave, found, link, sent_away, started
from tests.relay.frames import ASKING, ASKING_AGAIN, BEGIN, INSIDE, OURS, RECEIPT, SEND, SUBSCRIBE
from tests.relay.test_failover import gets, message

GOODBYE = b"DISCONNECT\nreceipt:relay-session-receipt-%d\n\n\0"


def parts(play: Playbook) -> None:
    """The old broker was told DISCONNECT and nothing else, and confirms it."""
    gets(play, GOODBYE % 1)
    play.broker_says(RECEIPT % (OURS % 1))


def test_the_next_broker_is_paused_as_well() -> None:
    """Before the session leaves: then another broker is asked, and where it refuses the session stays."""
    with started(b"1.2", b"1.2", brokers=3) as play:
        play.client_said(BEGIN)
        first = play.brokers[0]
        sent_away(play, 1.0)
        play.relay.listener.upstream.brokers[1].health.paused = True
        play.time_passes(1.0)
        assert play.broker_is_asked(at="tcp://c").startswith(b"CONNECT\n")
        play.broker_says(b"ERROR\nmessage:no\n\n\0", at="tcp://c")
        play.time_passes(1.0)
        assert first.closed is None
        assert play.client_reads() == b""


def test_a_client_that_falls_silent_while_its_session_leaves() -> None:
    """The old broker's last RECEIPT reaches the client before the ERROR; the broker is sent no second DISCONNECT."""
    hello, front = b"heart-beat:1000,0\n", {"heart_beat": Terms(0, 1000)}
    with started(b"1.2", b"1.2", brokers=1, hello=hello, front=front) as play:
        play.client_said(b"SEND\ndestination:/queue/a\nreceipt:r\n\n\0")
        sent_away(play, 1.5)
        play.time_passes(1.5)
        gets(play, GOODBYE % 1)
        play.time_passes(1.0)
        play.broker_says(RECEIPT % b"r")
        assert play.client_reads().startswith(RECEIPT % b"r" + b"ERROR\nmessage:heart-beat missed\n")


@in_all_cuts
@in_all_pairs
def test_a_quiet_session_leaves_at_once(client: bytes, broker: bytes, cut: Cut) -> None:
    """DISCONNECT with a receipt, then the next broker, without a pause; the client notices nothing."""
    with started(client, broker, cut=cut) as play:
        play.client_said(SUBSCRIBE + SEND % b"0")
        first = play.brokers[0]
        sent_away(play)
        parts(play)
        assert play.counters["possibly_lost"] == 0
        assert first.closed is How.LINGER
        assert play.opened[-1].uri == "tcp://b"
        assert play.wake >= play.now
        found(play, broker)
        gets(play, SUBSCRIBE)
        play.broker_says(message(broker, b"1"))
        assert play.client_reads().endswith(b"\n\n1\0")
        play.client_tells_broker(SEND % b"x")
        play.both_stay()
        assert (
            play.counters["brokers_moved"],
            play.counters["brokers_lost"],
            play.counters["failovers"],
        ) == (1, 0, 0)
        assert play.noted(Event.MOVED) == "leaving broker tcp://a"
        assert "tcp://b" in play.noted(Event.RECOVERED)
        assert [each.health.sessions for each in play.relay.listener.upstream.brokers] == [0, 1]


@in_all_cuts
def test_the_time_is_over(cut: Cut) -> None:
    """Whoever is not quiet in time is moved all the same, as after a loss: nothing of it is lost."""
    with started(cut=cut) as play:
        play.client_said(SUBSCRIBE + BEGIN + INSIDE % b"x" + ASKING % (b"r", b"y"))
        play.broker_said(message(b"1.2", b"1"))
        sent_away(play, within=3.0)
        play.time_passes(2.9)
        gets(play, b"")
        play.time_passes(0.2)
        parts(play)
        found(play)
        gets(play, SUBSCRIBE + ASKING_AGAIN % (b"r", b"y") + BEGIN + INSIDE % b"x")
        play.client_says(b"ACK\nid:k-1\n\n\0")
        gets(play, b"")
        assert play.counters["acks_stale"] == 1
        play.both_stay()


def stays(play: Playbook, why: str) -> None:
    """The session goes on where it is, and it is known why."""
    assert not link(play).moving
    assert link(play).stays == why
    play.client_tells_broker(SEND % b"x")
    play.both_stay()


def test_nowhere_to_go() -> None:
    """Another that is not there, or hangs for `connect_timeout`, or is none: the session stays, and is heard."""
    with started(brokers=3) as play:
        asked_to_leave(play, to=2, welcome=None)
        play.broker_refuses(at="tcp://c")
        assert [each.uri for each in play.opened] == ["tcp://a", "tcp://c"]
        stays(play, "tcp://c did not connect: Connection refused")
    with started(connect_timeout=3.0) as play:
        sent_away(play, within=1.0, welcome=None)
        play.client_tells_broker(SEND % b"1")
        play.time_passes(2.9)
        assert link(play).moving
        play.time_passes(0.2)
        play.broker_is_closed(at="tcp://b")
        stays(play, "tcp://b no CONNECTED in time")
    with Playbook(hello=SAY_HELLO[b"1.2"]) as play:
        play.broker_is_asked()
        play.broker_said(said_welcome(b"1.2"))
        asked_to_leave(play, 0.0)
        assert link(play).stays == "there is no other"
        play.time_passes(10)
        play.broker_gets(b"")
        play.both_stay()


DENIED = b"ERROR\nmessage:Bad CONNECT\n\nAccess refused\0"


@pytest.mark.parametrize("goes", [False, True], ids=["with an ERROR", "without a word"])
def test_the_others_do_not_take_the_session(goes: bool) -> None:
    """Another login or virtual host there: the session stays where it is, and the client hears nothing of it."""
    with started(brokers=3) as play:
        play.client_said(SUBSCRIBE)
        sent_away(play, welcome=None)
        for uri in ("tcp://b", "tcp://c"):
            assert play.broker_is_asked(at=uri).startswith(b"CONNECT\n")
            if goes:
                play.broker_goes(at=uri)
            else:
                play.broker_says(DENIED, at=uri)
                play.broker_is_closed(at=uri)
        said = (
            "closed the connection: Connection was closed cleanly."
            if goes
            else "answered CONNECT with ERROR: Bad CONNECT: Access refused"
        )
        stays(play, f"tcp://c {said}")
        play.time_passes(100)
        assert [each.uri for each in play.opened] == ["tcp://a", "tcp://b", "tcp://c"]
        assert (play.counters["brokers_moved"], play.counters["errors_passed"]) == (0, 0)


@in_all_cuts
def test_it_may_stay(cut: Cut) -> None:
    """Whoever is asked for the sake of balance and always has something open goes on where it is."""
    with started(cut=cut) as play:
        play.client_said(SUBSCRIBE)
        play.broker_said(message(b"1.2", b"1"))
        asked_to_leave(play, 3.0, to=1, may_stay=True)
        move = link(play).moving
        assert move is not None
        assert move.may_stay
        play.time_passes(3.1)
        assert not link(play).moving
        play.client_tells_broker(b"ACK\nid:k-1\n\n\0" + SEND % b"x")
        assert play.counters["brokers_moved"] == play.counters["acks_stale"] == 0
        play.both_stay()
