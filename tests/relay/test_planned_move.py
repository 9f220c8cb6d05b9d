"""Sessions that are asked to leave a broker that is well: they go at a quiet moment, and the client hears nothing."""

from math import inf

import pytest

from stomprelay.relay import inputs
from stomprelay.relay.model.upstream import Upstream
from stomprelay.session.effects import Event, How
from stomprelay.session.heartbeat import Terms
from tests.playbook import SAY_HELLO, VERSIONS, Cut, Playbook, in_all_cuts, in_all_pairs, listener
from tests.relay.failing import (
    asked,
    asked_to_leave,
    found,
    link,
    movable,
    over,
    resumed,
    said_welcome,
    sent_away,
    started,
)
from tests.relay.several import begun, group
from tests.relay.test_failover import (
    ASKING,
    ASKING_AGAIN,
    BEGIN,
    INSIDE,
    RECEIPT,
    SEND,
    SUBSCRIBE,
    gets,
    marks,
    message,
    settle,
)

after_in_all_versions = pytest.mark.parametrize("after", VERSIONS, ids=bytes.decode)

GOODBYE = b"DISCONNECT\nreceipt:relay-session-receipt-%d\n\n\0"
OURS = b"relay-session-receipt-%d"


def parts(play: Playbook, number: int = 1) -> None:
    """The old broker was told DISCONNECT and nothing else, and confirms it."""
    gets(play, GOODBYE % number)
    play.broker_says(RECEIPT % (OURS % number))


@in_all_cuts
@in_all_pairs
def test_a_quiet_session_leaves_at_once(client: bytes, broker: bytes, cut: Cut) -> None:
    """DISCONNECT with a receipt, then the next broker, without a pause; the client notices nothing."""
    with started(client, broker, cut=cut) as play:
        play.client_says(SUBSCRIBE)
        play.broker_reads()
        first = play.brokers[0]
        sent_away(play)
        parts(play)
        assert first.closed is How.LINGER
        assert play.opened[-1].uri == "tcp://b"
        assert play.wake >= play.now
        found(play, broker)
        gets(play, SUBSCRIBE)
        play.broker_says(message(broker, b"1"))
        assert play.client_reads().endswith(b"\n\n1\0")
        play.client_says(SEND % b"x")
        gets(play, SEND % b"x")
        play.both_stay()
        assert (
            play.counters["brokers_moved"],
            play.counters["brokers_lost"],
            play.counters["failovers"],
        ) == (1, 0, 0)
        assert play.noted(Event.MOVED) == "leaving broker tcp://a"
        assert "tcp://b" in play.noted(Event.RECOVERED)
        assert [each.health.sessions for each in play.relay.listener.upstream.brokers] == [0, 1]


def test_the_next_broker_is_opened_at_once() -> None:
    """No delay of a search after a loss: the session is silent only for as long as it takes."""
    with started(options={"initial_delay": 10.0}) as play:
        sent_away(play)
        parts(play)
        assert [each.uri for each in play.opened] == ["tcp://a", "tcp://b"]


@in_all_pairs
@after_in_all_versions
def test_it_waits_for_acks(client: bytes, broker: bytes, after: bytes) -> None:
    """What was delivered is acknowledged where it came from, before the session leaves."""
    with started(client, broker) as play:
        play.client_says(SUBSCRIBE)
        play.broker_reads()
        play.broker_says(message(broker, b"1") + message(broker, b"2"))
        one, two = (each.lstrip(b"\n") for each in play.client_reads().split(b"\0")[:2])
        sent_away(play)
        gets(play, b"")
        for delivered in (one, two):
            play.client_says(settle(client, b"ACK", delivered))
        told = play.broker_reads()
        assert [each.partition(b"\n")[0] for each in told.split(b"\0")[:-1]] == [
            b"ACK",
            b"ACK",
            b"DISCONNECT",
        ]
        play.broker_says(RECEIPT % (OURS % 1))
        found(play, after)
        gets(play, SUBSCRIBE)
        assert play.counters["acks_stale"] == 0
        play.both_stay()


def test_it_waits_for_a_transaction() -> None:
    """COMMIT, and its RECEIPT, belong to the broker that was told BEGIN."""
    with started() as play:
        play.client_says(BEGIN)
        sent_away(play)
        play.client_says(INSIDE % b"x")
        gets(play, BEGIN + INSIDE % b"x")
        play.client_says(b"COMMIT\ntransaction:t\nreceipt:c\n\n\0")
        gets(play, b"COMMIT\ntransaction:t\nreceipt:c\n\n\0")
        play.broker_says(RECEIPT % b"c")
        play.client_gets(RECEIPT % b"c")
        parts(play)
        found(play)
        gets(play, b"")


@pytest.mark.parametrize("product", ["rabbitmq", "activemq"])
def test_it_waits_for_receipts(product: str) -> None:
    """The client's and our own; what the client says meanwhile waits for the next broker."""
    with started(product=product, confirm=True) as play:
        play.client_says(ASKING % (b"r", b"1") + SEND % b"2")
        play.broker_reads()
        sent_away(play)
        play.client_says(SEND % b"3")
        gets(play, b"")
        play.broker_says(RECEIPT % b"r" + RECEIPT % (OURS % 1))
        play.client_gets(RECEIPT % b"r")
        parts(play, 2)
        found(play, b"1.2", product)
        assert play.broker_reads().endswith(b"\n\n3\0")
        assert play.counters["frames_resent"] == 0


def test_other_transactions_may_begin_meanwhile() -> None:
    """While deliveries are unacknowledged or a transaction is open the client is heard, or neither would ever end."""
    with started() as play:
        play.client_says(BEGIN)
        sent_away(play)
        play.client_says(BEGIN.replace(b":t", b":u") + b"ABORT\ntransaction:t\n\n\0")
        gets(play, BEGIN + BEGIN.replace(b":t", b":u") + b"ABORT\ntransaction:t\n\n\0")
        assert not link(play).quiet
        play.client_says(b"ABORT\ntransaction:u\n\n\0")
        gets(play, b"ABORT\ntransaction:u\n\n\0" + GOODBYE % 1)
        play.broker_says(RECEIPT % (OURS % 1))


@in_all_cuts
def test_the_time_is_over(cut: Cut) -> None:
    """Whoever is not quiet in time is moved all the same, as after a loss: nothing of it is lost."""
    with started(cut=cut) as play:
        play.client_says(SUBSCRIBE + BEGIN + INSIDE % b"x" + ASKING % (b"r", b"y"))
        play.broker_reads()
        play.broker_says(message(b"1.2", b"1"))
        play.client_reads()
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


def test_no_time_at_all() -> None:
    """`within` nothing: it leaves at once, whatever is open."""
    with started() as play:
        play.client_says(BEGIN)
        play.broker_reads()
        sent_away(play, within=0.0)
        play.time_passes(0.0)
        parts(play)
        found(play)
        gets(play, BEGIN)


@in_all_cuts
def test_what_the_old_broker_still_sends_is_the_clients(cut: Cut) -> None:
    """Messages and receipts before the RECEIPT of our DISCONNECT reach the client; that one does not."""
    with started(cut=cut) as play:
        play.client_says(b"SUBSCRIBE\nid:1\ndestination:/queue/a\n\n\0")
        play.broker_reads()
        play.client_says(ASKING % (b"r", b"x"))
        gets(play, ASKING % (b"r", b"x"))
        sent_away(play, within=0.0)
        play.time_passes(0.0)
        gets(play, GOODBYE % 1)
        play.broker_says(message(b"1.2", b"1", b"auto") + RECEIPT % b"r")
        play.client_gets(message(b"1.2", b"1", b"auto") + RECEIPT % b"r")
        play.broker_says(message(b"1.2", b"2", b"auto") + RECEIPT % (OURS % 1))
        play.client_gets(message(b"1.2", b"2", b"auto"))
        found(play)
        gets(play, b"SUBSCRIBE\nid:1\ndestination:/queue/a\n\n\0")


def test_the_old_broker_does_not_confirm() -> None:
    """It has `disconnect_timeout` for it; the session goes on without its word."""
    with started(disconnect_timeout=2.0) as play:
        sent_away(play)
        gets(play, GOODBYE % 1)
        play.time_passes(1.9)
        assert link(play).leaving
        play.time_passes(0.2)
        found(play)
        play.both_stay()
        assert play.counters["brokers_moved"] == 1


@pytest.mark.parametrize("late", [False, True], ids=["before", "parting"])
def test_the_broker_is_lost_before_the_session_left(late: bool) -> None:
    """Then it is a loss, or as good as left."""
    with started() as play:
        play.client_says(ASKING % (b"r", b"x") if not late else SUBSCRIBE)
        play.broker_reads()
        sent_away(play)
        if late:
            gets(play, GOODBYE % 1)
        play.broker_goes()
        found(play)
        assert play.opened[-1].uri == "tcp://b"
        gets(play, SUBSCRIBE if late else ASKING_AGAIN % (b"r", b"x"))
        assert (play.counters["brokers_moved"], play.counters["brokers_lost"]) == ((1, 0) if late else (0, 1))
        play.time_passes(100)
        assert len(play.opened) == 2


def test_a_preferred_broker() -> None:
    """`to` comes first, whatever the order of the list says."""
    with started(brokers=3) as play:
        asked_to_leave(play, to=2)
        parts(play)
        assert play.opened[-1].uri == "tcp://c"
        found(play)
        asked_to_leave(play, at=2, to=0)
        parts(play, 2)
        assert play.opened[-1].uri == "tcp://a"
        found(play)


def stays(play: Playbook, why: str) -> None:
    """The session goes on where it is, and it is known why."""
    assert not link(play).moving
    assert link(play).stays == why
    play.client_says(SEND % b"x")
    gets(play, SEND % b"x")
    play.both_stay()


def test_a_preferred_broker_that_is_not_there() -> None:
    """Then there is no reason to go."""
    with started(brokers=3) as play:
        asked_to_leave(play, to=2, welcome=None)
        play.broker_refuses(at="tcp://c")
        assert [each.uri for each in play.opened] == ["tcp://a", "tcp://c"]
        stays(play, "tcp://c did not connect: Connection refused")


DENIED = b"ERROR\nmessage:Bad CONNECT\n\nAccess refused\0"


@pytest.mark.parametrize("goes", [False, True], ids=["with an ERROR", "without a word"])
def test_the_others_do_not_take_the_session(goes: bool) -> None:
    """Another login or virtual host there: the session stays where it is, and the client hears nothing of it."""
    with started(brokers=3) as play:
        play.client_says(SUBSCRIBE)
        play.broker_reads()
        sent_away(play, welcome=None)
        for uri in ("tcp://b", "tcp://c"):
            play.broker_accepts(at=uri)
            assert play.broker_reads(at=uri).startswith(b"CONNECT\n")
            if goes:
                play.broker_goes(at=uri)
            else:
                play.broker_says(DENIED, at=uri)
                play.broker_is_closed(at=uri)
        said = (
            "closed the connection: Connection was closed cleanly."
            if goes
            else "answered CONNECT with an ERROR"
        )
        stays(play, f"tcp://c {said}")
        play.time_passes(100)
        assert [each.uri for each in play.opened] == ["tcp://a", "tcp://b", "tcp://c"]
        assert (play.counters["brokers_moved"], play.counters["errors_passed"]) == (0, 0)


def test_another_broker_that_hangs() -> None:
    """It has `connect_timeout`; meanwhile the client is heard, and the session stays for longer than it was to."""
    with started(connect_timeout=3.0) as play:
        sent_away(play, within=1.0, welcome=None)
        play.client_says(SEND % b"1")
        gets(play, SEND % b"1")
        play.time_passes(2.9)
        assert link(play).moving
        play.time_passes(0.2)
        play.broker_is_closed(at="tcp://b")
        stays(play, "tcp://b no CONNECTED in time")


def test_the_next_broker_is_lost_while_the_session_waits() -> None:
    """Another one is asked; beats go both ways until the session is there."""
    with started(brokers=3, heart_beat=Terms(1000, 0)) as play:
        play.client_says(BEGIN)
        play.broker_reads()
        sent_away(play, within=5.0, welcome=said_welcome(b"1.2", welcome=b"heart-beat:0,1000\n"))
        play.time_passes(2.0)
        assert b"\n" in play.broker_reads(at="tcp://b")
        play.broker_goes(at="tcp://b")
        play.broker_accepts(at="tcp://c")
        assert play.broker_reads(at="tcp://c").startswith(b"CONNECT\n")
        play.broker_says(said_welcome(b"1.2"), at="tcp://c")
        play.time_passes(3.1)
        play.broker_reads(at="tcp://a")
        play.broker_says(RECEIPT % (OURS % 1), at="tcp://a")
        assert link(play).broker is not None
        assert str(link(play).broker) == "tcp://c"
        play.broker_gets(BEGIN, at="tcp://c")


def test_the_broker_dies_when_another_has_accepted() -> None:
    """The session is there at once."""
    with started() as play:
        play.client_says(SUBSCRIBE + BEGIN)
        play.broker_reads()
        sent_away(play)
        play.broker_goes(at="tcp://a")
        assert str(link(play).broker) == "tcp://b"
        gets(play, SUBSCRIBE + BEGIN)
        assert (play.counters["brokers_lost"], play.counters["failovers"]) == (1, 1)


def test_all_are_paused() -> None:
    """The client is held, and beaten to, until one is resumed; it is never given up meanwhile."""
    with started(
        hello=b"heart-beat:0,1000\n", front={"heart_beat": Terms(1000, 0)}, options={"timeout": 5.0}
    ) as play:
        play.relay.listener.upstream.brokers[1].health.paused = True
        sent_away(play)
        parts(play)
        play.client_says(SEND % b"x")
        play.time_passes(60)
        assert play.client_reads_all() == b"\n" * 120
        assert len(play.opened) == 1
        resumed(play, at=1)
        assert play.opened[-1].uri == "tcp://b"
        found(play)
        gets(play, SEND % b"x")
        play.both_stay()


def test_a_client_that_comes_while_all_are_paused() -> None:
    """It waits for its CONNECTED, longer than any time-out of ours, and connects when a broker is resumed."""
    with Playbook(listener(movable(connect_timeout=1.0), connect_timeout=1.0)) as play:
        for broker in play.relay.listener.upstream.brokers:
            broker.health.paused = True
        play.client_says(SAY_HELLO[b"1.2"])
        assert play.opened == []
        play.time_passes(100)
        assert play.client.closed is None
        resumed(play)
        assert play.opened[-1].uri == "tcp://a"
        play.broker_accepts()
        play.broker_reads()
        play.broker_says(said_welcome(b"1.2"))
        assert play.client_reads().startswith(b"CONNECTED\n")


def test_a_broker_comes_back_while_the_session_waits() -> None:
    """The session does not wait for the end of its pause."""
    with started(options={"initial_delay": 60.0, "longest_delay": 60.0}) as play:
        play.broker_goes()
        assert play.wake - play.now > 30
        play._perform(play.relay.handle(inputs.Reconsidered(), play.now))
        play.time_passes(1)
        assert len(play.opened) == 2


def test_reconsidering_while_all_is_well() -> None:
    """Nothing happens to a session that has its broker, or asks one."""
    with started() as play:
        play._perform(play.relay.handle(inputs.Reconsidered(), play.now))
        assert len(play.opened) == 1
        play.broker_goes()
        asked(play)
        play._perform(play.relay.handle(inputs.Reconsidered(), play.now))
        assert len(play.opened) == 2
        found(play)


def test_a_broker_is_paused_while_it_is_asked() -> None:
    """A session that came to it just then leaves it again, as those did that were there."""
    with started() as play:
        play.broker_goes()
        asked(play)
        play.broker_accepts()
        play.broker_reads()
        sent_away(play, at=1)
        play.broker_says(said_welcome(b"1.2"))
        assert play.opened[-1].uri == "tcp://a"
        play.broker_accepts(at="tcp://a")
        assert play.broker_reads(at="tcp://a").startswith(b"CONNECT\n")
        play.broker_says(said_welcome(b"1.2"), at="tcp://a")
        gets(play, GOODBYE % 1)
        play.broker_says(RECEIPT % (OURS % 1))
        play.both_stay()


def test_a_broker_is_paused_before_its_turn_to_be_asked() -> None:
    """It is not asked: the next one is."""
    with started(brokers=3, reconnect_rate=1.0) as play:
        second = play.relay.listener.upstream.brokers[1]
        second.health.slot(1.0, play.now)
        asked_to_leave(play, 10.0)
        assert len(play.opened) == 1
        second.health.paused = True
        play.time_passes(1)
        assert [each.uri for each in play.opened] == ["tcp://a", "tcp://c"]
        play.broker_accepts(at="tcp://c")
        assert play.broker_reads(at="tcp://c").startswith(b"CONNECT\n")
        play.broker_says(said_welcome(b"1.2"), at="tcp://c")
        parts(play)
        found(play)


def test_the_next_broker_is_paused_before_the_session_leaves() -> None:
    """It has accepted the session, and loses it again; another one is looked for."""
    with started(brokers=3) as play:
        play.client_says(BEGIN)
        play.broker_reads()
        sent_away(play, 10.0)
        play.relay.listener.upstream.brokers[1].health.paused = True
        play.client_says(b"ABORT\ntransaction:t\n\n\0")
        gets(play, b"ABORT\ntransaction:t\n\n\0" + GOODBYE % 1)
        play.broker_says(RECEIPT % (OURS % 1), at="tcp://a")
        play.broker_is_closed(at="tcp://b")
        found(play)
        assert play.opened[-1].uri == "tcp://c"


def test_asked_twice() -> None:
    """The later order counts; a session that is leaving already goes on with that."""
    with started(brokers=3) as play:
        play.client_says(BEGIN)
        play.broker_reads()
        asked_to_leave(play, 10.0, to=2)
        asked_to_leave(play, 1.0, to=1)
        play.time_passes(1.1)
        gets(play, GOODBYE % 1)
        asked_to_leave(play, 1.0, to=2)
        gets(play, b"")
        play.broker_says(RECEIPT % (OURS % 1))
        assert play.opened[-1].uri == "tcp://b"
        found(play)
        gets(play, BEGIN)


def test_asked_to_leave_another_broker() -> None:
    """It is not there: nothing happens."""
    with started() as play:
        asked_to_leave(play, 0.0, at=1)
        play.time_passes(10)
        gets(play, b"")
        assert play.counters["brokers_moved"] == 0


def test_a_plain_address_cannot_be_left() -> None:
    """Its sessions know no other broker, and stay at once."""
    with Playbook() as play:
        play.client_says(SAY_HELLO[b"1.2"])
        play.broker_accepts()
        play.broker_reads()
        play.broker_says(said_welcome(b"1.2"))
        play.client_reads()
        asked_to_leave(play, 0.0)
        assert link(play).stays == "there is no other"
        play.time_passes(10)
        play.broker_gets(b"")
        play.both_stay()


# The client leaves as well


@pytest.mark.parametrize("quiet", [False, True], ids=["owing", "quiet"])
def test_the_client_says_goodbye_meanwhile(quiet: bool) -> None:
    """It leaves by way of the broker that it has: there is nothing to move any more."""
    with started() as play:
        play.client_says(SUBSCRIBE)
        play.broker_reads()
        play.broker_says(message(b"1.2", b"1"))
        play.client_reads()
        sent_away(play, within=2.0)
        ack = b"ACK\nid:k-1\n\n\0" if quiet else b""
        play.client_says(ack + b"DISCONNECT\nreceipt:bye\n\n\0")
        gets(play, ack + b"DISCONNECT\nreceipt:bye\n\n\0")
        play.time_passes(2.5)
        gets(play, b"")
        play.broker_says(RECEIPT % b"bye")
        play.client_gets(RECEIPT % b"bye")
        play.broker_goes()
        play.client_is_closed()
        play.broker_is_closed(at="tcp://b")
        assert play.counters["brokers_moved"] == 0


def test_the_client_says_goodbye_while_the_session_parts() -> None:
    """Its DISCONNECT is for the next broker then."""
    with started() as play:
        sent_away(play)
        gets(play, GOODBYE % 1)
        play.client_says(SEND % b"x" + b"DISCONNECT\nreceipt:bye\n\n\0")
        gets(play, b"")
        play.broker_says(RECEIPT % (OURS % 1))
        found(play)
        gets(play, SEND % b"x" + b"DISCONNECT\nreceipt:bye\n\n\0")
        play.broker_says(RECEIPT % b"bye")
        play.client_gets(RECEIPT % b"bye")
        play.broker_goes()
        play.client_is_closed()


def test_the_client_goes_while_the_session_parts() -> None:
    """With nothing left to deliver all ends; otherwise the next broker gets it."""
    for rest in (b"", SEND % b"x"):
        with started() as play:
            sent_away(play)
            gets(play, GOODBYE % 1)
            if rest:
                play.client_says(rest)
            play.client_goes()
            assert over(play) is not bool(rest)
            if rest:
                play.broker_says(RECEIPT % (OURS % 1))
                play.broker_gets(rest, at="tcp://b")
            assert over(play)
            assert play.wake == inf


@pytest.mark.parametrize("parting", [False, True], ids=["goes first", "parts first"])
def test_the_client_goes_and_the_broker_does_not_confirm_that_the_session_parts(parting: bool) -> None:
    """That broker has half of the time, as any other has; the next one gets what the client left."""
    with started(product="rabbitmq", confirm=True, disconnect_timeout=4.0) as play:
        play.client_says(SEND % b"1")
        assert marks(play.broker_reads()) == [b"1:1"]
        if not parting:
            play.client_goes()
        sent_away(play, within=0.0, welcome=said_welcome(b"1.2", "rabbitmq"))
        play.time_passes(0.0)
        gets(play, GOODBYE % 2)
        if parting:
            play.time_passes(0.5)
            play.client_goes()
        play.time_passes(1.9)
        assert link(play).leaving
        play.time_passes(0.2)
        assert [each.uri for each in play.opened] == ["tcp://a", "tcp://b"]
        found(play, product="rabbitmq")
        assert marks(play.broker_reads()) == [b"!3:1"]
        play.broker_says(RECEIPT % (OURS % 3))
        play.broker_is_closed()
        assert over(play)
        assert play.facts(Event.LOST) == []
        assert (play.counters["brokers_moved"], play.counters["clients_undelivered"]) == (1, 0)


def test_the_time_of_a_client_that_went_ends_while_the_session_parts() -> None:
    """The loss names no broker: the session had left the one that it had."""
    with started(brokers=1, product="rabbitmq", confirm=True, disconnect_timeout=4.0) as play:
        play.client_says(SEND % b"1")
        play.client_goes()
        play.broker_reads()
        play.time_passes(2.1)
        found(play, product="rabbitmq")
        play.broker_reads()
        sent_away(play, within=0.0)
        play.time_passes(0.0)
        gets(play, GOODBYE % 3)
        play.time_passes(1.8)
        assert not over(play)
        play.time_passes(0.2)
        assert over(play)
        *_, last = play.facts(Event.LOST)
        assert last == {"upstream": "main", "reason": "did not confirm all that was said", "possibly_lost": 1}


def test_whoever_said_goodbye_is_not_moved() -> None:
    """The order to leave comes too late."""
    with started() as play:
        play.client_says(b"DISCONNECT\nreceipt:bye\n\n\0")
        play.broker_reads()
        sent_away(play, within=0.0)
        play.time_passes(1)
        gets(play, b"")
        play.broker_says(RECEIPT % b"bye")
        play.client_gets(RECEIPT % b"bye")


# Nobody must go


@in_all_cuts
def test_it_may_stay(cut: Cut) -> None:
    """Whoever is asked for the sake of balance and always has something open goes on where it is."""
    with started(cut=cut) as play:
        play.client_says(SUBSCRIBE)
        play.broker_reads()
        play.broker_says(message(b"1.2", b"1"))
        play.client_reads()
        asked_to_leave(play, 3.0, to=1, may_stay=True)
        assert link(play).may_stay
        play.time_passes(3.1)
        assert not link(play).moving
        play.client_says(b"ACK\nid:k-1\n\n\0" + SEND % b"x")
        gets(play, b"ACK\nid:k-1\n\n\0" + SEND % b"x")
        assert play.counters["brokers_moved"] == play.counters["acks_stale"] == 0
        play.both_stay()


def test_between_two_deliveries() -> None:
    """A moment is enough for it, however short: the ACK of one delivery, before the next one comes."""
    with started() as play:
        play.client_says(SUBSCRIBE)
        play.broker_reads()
        play.broker_says(message(b"1.2", b"1"))
        play.client_reads()
        asked_to_leave(play, 3.0, to=1, may_stay=True)
        play.client_says(b"ACK\nid:k-1\n\n\0")
        gets(play, b"ACK\nid:k-1\n\n\0" + GOODBYE % 1)
        play.broker_says(RECEIPT % (OURS % 1))
        found(play)
        gets(play, SUBSCRIBE)
        assert play.counters["brokers_moved"] == 1


def test_what_was_held_goes_on_when_it_stays() -> None:
    """The client was not heard while only the broker owed something; it is, as soon as the session need not move."""
    with started(confirm=True, product="rabbitmq") as play:
        play.client_says(SEND % b"1")
        play.broker_reads()
        asked_to_leave(play, 3.0, to=1, may_stay=True)
        play.client_says(SEND % b"2")
        gets(play, b"")
        play.time_passes(3.1)
        assert play.broker_reads().endswith(b"\n\n2\0")
        play.both_stay()


def test_who_may_stay_is_sent_away() -> None:
    """An operator's word counts more."""
    with started() as play:
        play.client_says(BEGIN)
        play.broker_reads()
        asked_to_leave(play, 1.0, to=1, may_stay=True)
        sent_away(play, within=2.0)
        assert not link(play).may_stay
        play.time_passes(2.1)
        parts(play)
        found(play)
        gets(play, BEGIN)


# Quiet


def test_what_is_quiet() -> None:
    """Nothing unacknowledged, no open transaction, nothing unconfirmed, no receipt owed."""
    with started(confirm=True, product="rabbitmq") as play:

        def quiet() -> bool:
            play.broker_reads()
            play.client_reads()
            return link(play).quiet

        assert quiet()
        play.client_says(SUBSCRIBE)
        assert quiet()
        play.broker_says(message(b"1.2", b"1"))
        assert not quiet()
        play.client_says(b"ACK\nid:k-1\n\n\0")
        assert quiet()
        play.client_says(SEND % b"x")
        assert not quiet()
        play.broker_says(RECEIPT % (OURS % 1))
        assert quiet()
        play.client_says(BEGIN)
        assert not quiet()
        play.client_says(b"ABORT\ntransaction:t\nreceipt:x\n\n\0")
        assert not quiet()
        play.broker_says(RECEIPT % b"x")
        assert quiet()
        play.broker_says(message(b"1.2", b"2"))
        assert not quiet()
        play.client_says(b"UNSUBSCRIBE\nid:1\n\n\0")
        assert quiet()  # what it did not acknowledge is given to others anyway
        play.broker_goes()
        assert not quiet()


def test_lost_deliveries_do_not_matter() -> None:
    """After a loss the session is quiet again, though the client still has messages of the lost broker."""
    with started() as play:
        play.client_says(SUBSCRIBE)
        play.broker_says(message(b"1.2", b"1"))
        play.client_reads()
        play.broker_reads()
        play.broker_goes()
        found(play)
        play.broker_reads()
        assert link(play).quiet
        asked_to_leave(play, at=1, to=0)
        parts(play)
        found(play)
        gets(play, SUBSCRIBE)


def test_a_client_that_leaves_by_a_broker_that_was_paused_meanwhile() -> None:
    """It accepted the session all the same, and DISCONNECT was sent to it: there is nothing left to move."""
    with started() as play:
        play.client_says(b"DISCONNECT\nreceipt:bye\n\n\0")
        play.broker_reads()
        play.broker_goes()
        asked(play)
        play.broker_accepts()
        assert play.broker_reads().startswith(b"CONNECT\n")
        for each in play.relay.listener.upstream.brokers:
            each.health.pause()
        play.broker_says(said_welcome(b"1.2"))
        play.broker_gets(b"DISCONNECT\nreceipt:bye\n\n\0")
        play.broker_says(b"RECEIPT\nreceipt-id:bye\n\n\0")
        play.client_gets(b"RECEIPT\nreceipt-id:bye\n\n\0")


def test_the_next_broker_takes_no_more_for_now() -> None:
    """Nothing but CONNECT is on its way to it: that concerns nobody."""
    upstream = Upstream("main", (group("main-1", "a", "c"), group("main-2", "b")))
    with begun(listener(upstream)) as play:
        asked_to_leave(play, welcome=None)
        play.broker_accepts(at="c")
        assert play.broker_reads(at="c").startswith(b"CONNECT\n")
        leg = play.at("c").leg
        play.relay.handle(inputs.Blocked(leg), play.now)
        assert play.relay.handle(inputs.Unblocked(leg), play.now) == []
        assert play.counters["faults"] == 0
