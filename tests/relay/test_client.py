"""A client that sent CONNECT, joined to its brokers: CONNECTED, what it sends while there is no broker, and its beats.

Whole conversations across a loss are in `test_failover`; here is what only the client's connection decides.
"""

from itertools import pairwise
from math import inf
from types import SimpleNamespace
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stomprelay.relay.client.turns import InputBuffer
from stomprelay.relay.effects import Effect, Outbox
from stomprelay.relay.flow import Flow
from stomprelay.session.effects import Event, How, Pause, Resume, Send
from stomprelay.session.heartbeat import Terms
from stomprelay.session.leg import Leg, Side, State
from stomprelay.wire.dialect import V1_2
from stomprelay.wire.head import Limits
from tests.playbook import (
    SAY_HELLO,
    SAY_WELCOME,
    VERSIONS,
    Cut,
    Playbook,
    in_all_cuts,
    in_cuts_of_halves,
    joined,
    listener,
    upstream,
)
from tests.relay.failing import STOPPING, asked, found, movable, said_welcome, started


def send(body: bytes, headers: bytes = b"") -> bytes:
    """A SEND with more headers."""
    return b"SEND\ndestination:/queue/a\n%b\n%b\0" % (headers, body)


def receipt(name: bytes) -> bytes:
    """A RECEIPT."""
    return b"RECEIPT\nreceipt-id:%b\n\n\0" % name


def own(number: int) -> bytes:
    """A receipt id of the relay's own."""
    return b"relay-session-receipt-%d" % number


# CONNECTED


def answered(
    version: bytes = b"1.2", broker: bytes = b"1.2", *, hello: bytes = b"", welcome: bytes = b""
) -> tuple[Playbook, bytes]:
    """A client of a listener that beats each 2 and wants a beat each 3 seconds, connected; and the CONNECTED that it
    got. `hello` and `welcome` are more headers of CONNECT and CONNECTED; `welcome` stands for all of a broker's.
    """
    over = upstream(versions=None if version == broker else frozenset({broker}))
    play = Playbook(listener(over, heart_beat=Terms(2000, 3000)))
    play.client_says(SAY_HELLO[version].replace(b"CONNECT\n", b"CONNECT\n" + hello))
    play.broker_accepts()
    play.broker_reads()
    play.broker_says(b"CONNECTED\nversion:%b\n%b\n\0" % (broker, welcome))
    return play, play.client_reads_all()


@pytest.mark.parametrize("broker", VERSIONS, ids=bytes.decode)
def test_the_version_is_the_clients(broker: bytes) -> None:
    """Whatever the broker settled on; its other headers pass."""
    play, connected = answered(broker=broker, welcome=b"session:s-1\nserver:x/1\n")
    assert connected == b"CONNECTED\nversion:1.2\nsession:s-1\nserver:x/1\n\n\0\n"
    assert play.counters["sessions_connected"] == 1


def test_a_session_without_a_name() -> None:
    """A broker that names none leaves it to the relay."""
    _, connected = answered(b"1.1", b"1.1")
    assert connected == b"CONNECTED\nversion:1.1\nsession:relay-session\n\n\0\n"


def test_heart_beats_are_the_listeners_own() -> None:
    """Not those of the broker's leg; they run from CONNECTED on."""
    play, connected = answered(hello=b"heart-beat:1000,10000\n", welcome=b"heart-beat:5,5\n")
    assert b"\nheart-beat:2000,3000\n" in connected
    heartbeat = play.client.leg.heartbeat
    assert heartbeat.deadline == play.now + 5.0
    assert not heartbeat.dead(play.now + 5.0)
    assert heartbeat.dead(play.now + 6.0)


@pytest.mark.parametrize(
    ("welcome", "line"), [(b"", b""), (b"heart-beat:5,5\n", b"\nheart-beat:0,0\n")], ids=["neither", "broker"]
)
def test_a_client_that_does_not_speak_of_heart_beats(welcome: bytes, line: bytes) -> None:
    """It is sent no such header, unless its broker sends one: then that there are none."""
    play, connected = answered(welcome=welcome)
    assert (b"heart-beat" in connected) is bool(line)
    assert line in connected
    assert not play.client.leg.heartbeat.due(1e9)
    assert not play.client.leg.heartbeat.dead(1e9)


def test_a_client_that_is_gone_is_not_answered() -> None:
    """Its session is connected all the same: what it sent is still to be delivered."""
    with Playbook() as play:
        play.client_says(SAY_HELLO[b"1.2"] + send(b"1"))
        play.client_goes()
        play.broker_accepts()
        play.broker_reads()
        play.broker_says(SAY_WELCOME[b"1.2"])
        assert play.client_reads_all() == b""
        play.broker_gets(send(b"1"))
        play.broker_is_closed()
        assert play.counters["sessions_connected"] == 1
        assert play.relay.over


# While there is no broker


@in_all_cuts
def test_what_is_sent_meanwhile_comes_in_order(cut: Cut) -> None:
    """Whole to the next broker, behind nothing and before what is sent then, however it was cut."""
    with started(cut=cut) as play:
        play.broker_goes()
        for number in range(3):
            play.client_says(send(b"%d" % number))
        assert play.client.pauses == 0
        found(play)
        play.client_says(send(b"3"))
        assert play.broker_reads() == b"".join(send(b"%d" % number) for number in range(4))
        play.both_stay()


@pytest.mark.parametrize("at", range(1, len(send(b"hello"))))
def test_a_frame_that_was_cut_by_the_loss(at: int) -> None:
    """Its first half came before the broker went, its second half after: the next broker gets it whole."""
    frame = send(b"hello")
    with started() as play:
        play.client_says(frame[:at])
        play.broker_goes()
        play.client_says(frame[at:] + send(b"world"))
        found(play)
        play.broker_gets(frame + send(b"world"))


def test_a_broker_that_goes_while_it_is_sent_what_waited() -> None:
    """What it was sent of it is sent again, before the rest, and marked."""
    with started(confirm=True, product="activemq") as play:
        play.broker_goes()
        play.client_says(send(b"1"))
        found(play, product="activemq")
        play.broker_gets(b"SEND\nreceipt:%b\ndestination:/queue/a\n\n1\0" % own(1))
        play.broker_goes()
        play.client_says(send(b"2"))
        found(play, product="activemq")
        marked = b"relay-resent:true\n"
        again, new = play.broker_reads().split(b"\0")[:2]
        assert again == b"SEND\n%breceipt:%b\ndestination:/queue/a\n\n1" % (marked, own(2))
        assert new == b"SEND\nreceipt:%b\ndestination:/queue/a\n\n2" % own(3)


def test_a_disconnect_among_what_is_buffered() -> None:
    """The next broker gets what was sent before it, then DISCONNECT when that is safe; what follows is ignored."""
    with started(confirm=True) as play:
        play.broker_goes()
        play.client_says(send(b"1") + b"DISCONNECT\nreceipt:bye\n\n\0")
        play.client_says(send(b"2"))
        found(play)
        play.broker_gets(b"SEND\nreceipt:%b\ndestination:/queue/a\n\n1\0" % own(1))
        play.broker_says(receipt(own(1)))
        play.broker_gets(b"DISCONNECT\nreceipt:bye\n\n\0")
        play.broker_says(receipt(b"bye"))
        play.client_gets(receipt(b"bye"))
        play.client_goes()
        play.client_is_closed(How.FLUSH)
        assert play.relay.over


@pytest.mark.parametrize("sent_before", [True, False])
def test_a_disconnect_without_a_broker(sent_before: bool) -> None:
    """It has its time from when there is one for it; the search has a time of its own."""
    disconnect = b"DISCONNECT\nreceipt:bye\n\n\0"
    with started() as play:
        if sent_before:
            play.client_says(disconnect)
            play.broker_gets(disconnect)
            assert play.wake == play.now + 5.0
        play.broker_goes()
        if not sent_before:
            play.client_says(disconnect)
        for _ in range(3):
            play.broker_refuses()
            asked(play)
        play.time_passes(8.0)
        assert play.client.closed is None
        found(play)
        play.broker_gets(disconnect)
        assert play.wake == play.now + 5.0


@in_cuts_of_halves
def test_an_error_among_what_is_buffered(cut: Cut) -> None:
    """The client is sent its ERROR when it is read; what was right before it has gone to the broker."""
    with started(cut=cut) as play:
        play.broker_goes()
        play.client_says(send(b"1") + b"SNED\n\n\0")
        assert play.client_reads() == b""
        found(play)
        play.broker_gets(send(b"1"))
        assert play.client_reads().startswith(b"ERROR\nmessage:")
        play.client_is_closed(How.LINGER)


# How the client is paced


@in_all_cuts
def test_a_client_that_sends_too_much_is_paused(cut: Cut) -> None:
    """At the bound, once; it goes on when all that was buffered is sent."""
    frame = send(b"x" * 60)
    with started(cut=cut, resend_buffer=2 * len(frame)) as play:
        pauses = play.client.pauses
        play.broker_goes()
        play.client_says(frame)
        assert play.client.pauses == pauses
        play.client_says(frame)
        assert play.client.pauses == pauses + 1
        play.client_says(frame)
        assert play.client.unheard
        found(play)
        assert not play.client.paused
        assert play.client.pauses == pauses + 1
        play.broker_gets(frame * 3)


def test_a_client_is_read_from_when_all_is_sent() -> None:
    """The last thing that is asked for when a broker was found is to read from the client again."""
    with started(resend_buffer=10) as play:
        play.broker_goes()
        play.client_says(send(b"1"))
        play.client_says(send(b"2"))
        assert play.client.unheard == [send(b"2")]
        found(play)
        play.broker_gets(send(b"1") + send(b"2"))
        assert play.client.unheard == []


def test_what_is_not_confirmed_paces_the_client() -> None:
    """With `confirm` it is paused when so much is unconfirmed, and goes on when half of that is."""
    frame = send(b"x" * 60)
    with started(confirm=True, resend_buffer=4 * len(frame)) as play:
        pauses = play.client.pauses
        play.client_says(frame * 3)
        assert play.client.pauses == pauses
        play.client_says(frame)
        assert play.client.pauses == pauses + 1
        play.broker_reads()
        play.broker_says(receipt(own(1)))
        assert play.client.paused
        play.broker_says(receipt(own(2)))
        assert not play.client.paused


def test_a_client_that_is_paused_for_one_broker_stays_so_for_the_next() -> None:
    """What is unconfirmed is sent again, and is still unconfirmed."""
    frame = send(b"x" * 60)
    with started(confirm=True, resend_buffer=4 * len(frame)) as play:
        play.client_says(frame * 4)
        assert play.client.paused
        play.broker_reads()
        play.broker_goes()
        found(play)
        assert play.client.paused
        assert play.broker_reads().count(b"\0") == 4
        for number in range(5, 9):
            play.broker_says(receipt(own(number)))
        assert not play.client.paused


def test_what_is_buffered_goes_no_faster_than_it_is_confirmed() -> None:
    """Chunks that were buffered fill the next broker's unconfirmed; the client waits for both."""
    frame = send(b"x" * 60)
    with started(confirm=True, resend_buffer=2 * len(frame)) as play:
        play.broker_goes()
        play.client_says(frame)
        play.client_says(frame)
        assert play.client.paused
        found(play)
        assert play.broker_reads().count(b"\0") == 2
        assert play.client.paused
        play.broker_says(receipt(own(1)))
        assert not play.client.paused


# The client goes


def test_a_client_that_goes_while_something_is_buffered() -> None:
    """It is delivered to the next broker, which is then left; the client's half frame is not."""
    with started() as play:
        play.broker_goes()
        play.client_says(send(b"1") + b"SEND\ndest")
        play.client_goes()
        assert not play.relay.over
        found(play)
        play.broker_gets(send(b"1"))
        play.broker_is_closed()
        assert play.relay.over


def test_a_client_that_goes_before_any_broker_was_there() -> None:
    """What it sent with its CONNECT is delivered when there is one."""
    with Playbook(listener(movable())) as play:
        play.client_says(SAY_HELLO[b"1.2"] + send(b"1"))
        play.client_goes()
        play.broker_refuses()
        asked(play)
        play.broker_accepts()
        play.broker_reads()
        play.broker_says(said_welcome(b"1.2"))
        play.broker_gets(send(b"1"))
        play.broker_is_closed()
        assert play.relay.over


def test_what_comes_for_a_closed_leg() -> None:
    """Bytes and losses of a leg that was closed ask for nothing."""
    with started() as play:
        play.client_goes()
        play.client_goes()
        play.broker_goes()
        play.client_says(send(b"1"), unasked=True)
        play.broker_says(receipt(b"1"), unasked=True)
        assert play.counters["clients_vanished"] == 1
        assert play.relay.over


# Brokers come and go


def test_connected_is_sent_once() -> None:
    """That of the second broker is not passed on; both are in the log."""
    with started() as play:
        play.broker_goes()
        found(play)
        play.nobody_gets_more()
        assert play.noted(Event.CONNECTED).endswith("at tcp://a")
        assert play.noted(Event.RECOVERED).endswith("at tcp://b")
        assert (play.counters["sessions_connected"], play.counters["failovers"]) == (1, 1)


def test_what_the_next_broker_is_sent() -> None:
    """The same CONNECT; subscriptions as they were made; what is not confirmed; open transactions; what was sent
    meanwhile. So durable subscriptions keep their names, and temporary queues are made anew where they were named.
    """
    orders = [
        b"SUBSCRIBE\nid:1\ndestination:/topic/a\ndurable:true\nauto-delete:false\nx-odd:1\n\n\0",
        b"SUBSCRIBE\nid:0\ndestination:/temp-queue/b\nack:client\nselector:c = 1\n\n\0",
    ]
    transaction = b"BEGIN\ntransaction:t\n\n\0" + send(b"2", b"transaction:t\n")
    with Playbook(listener(movable())) as play:
        play.client_says(b"CONNECT\naccept-version:1.2\nhost:/\nclient-id:me\nlogin:a\npasscode:b\n\n\0")
        play.broker_accepts()
        hello = play.broker_reads()
        assert b"\nclient-id:me\nlogin:a\npasscode:b\n" in hello
        play.broker_says(said_welcome(b"1.2"))
        play.client_reads()
        play.client_says(b"".join(orders) + transaction + send(b"1", b"receipt:r\n"))
        play.broker_reads()
        play.broker_goes()
        play.client_says(send(b"3"))
        asked(play)
        play.broker_accepts()
        play.broker_gets(hello)
        play.broker_says(said_welcome(b"1.2"))
        again = send(b"1", b"receipt:r\n").replace(b"SEND\n", b"SEND\nrelay-resent:true\n")
        told = play.broker_reads().replace(b"\0\n", b"\0")
        assert told == b"".join(orders) + again + transaction + send(b"3")


def test_a_broker_that_tells_that_it_stops() -> None:
    """The client need not know, whether it says so by itself or in answer to something."""
    with started() as play:
        play.broker_says(STOPPING)
        play.broker_goes()
        found(play)
        play.both_stay()
        assert play.counters["errors_withheld"] == 1
        play.broker_says(STOPPING.replace(b"\n\n", b"\nreceipt-id:1\n\n"))
        play.broker_is_closed(How.ABORT, at="tcp://b")
        found(play)
        play.both_stay()
        assert play.counters["brokers_lost"] == play.counters["errors_withheld"] == 2


def test_a_broker_that_was_paused_meanwhile_is_left_again() -> None:
    """An operator took it out while it was answering: the client has its answer, and goes on at one that is in."""
    with Playbook(listener(movable())) as play:
        play.client_says(SAY_HELLO[b"1.2"])
        play.opened[0].health.paused = True
        play.broker_accepts()
        play.broker_reads()
        play.broker_says(said_welcome(b"1.2"))
        play.client_gets(b"CONNECTED\nversion:1.2\nsession:s-1\n\n\0")
        other = play.opened[1].uri
        play.broker_accepts(at=other)
        play.broker_reads(at=other)
        play.broker_says(said_welcome(b"1.2"), at=other)
        play.broker_gets(b"DISCONNECT\nreceipt:%b\n\n\0\n" % own(1))
        play.client_says(send(b"1"))
        play.broker_gets(b"")
        play.broker_says(receipt(own(1)))
        assert play.brokers[0].closed is How.LINGER
        found(play)
        assert play.opened[1] is not play.opened[0]
        play.broker_gets(send(b"1"))
        play.both_stay()


def test_a_client_that_is_given_up() -> None:
    """One that was connected is counted; one that never was is only sent an ERROR."""
    with started(options={"attempts": 1}) as play:
        play.broker_goes()
        for _ in range(2):
            asked(play)
            play.broker_refuses()
        play.client_gets_error(b"no broker available")
        assert play.counters["sessions_given_up"] == 1
    with Playbook(listener(movable(options={"startup_attempts": 1}))) as play:
        play.client_says(SAY_HELLO[b"1.2"])
        play.broker_refuses()
        play.broker_refuses()
        play.client_gets_error(b"broker not available")
        assert play.counters["sessions_given_up"] == 0


def test_bytes_are_counted_on_every_leg() -> None:
    """Those that are buffered as well, when they come."""
    with started() as play:
        before = play.counters["client_bytes"]
        play.broker_goes()
        play.client_says(send(b"1"))
        assert play.counters["client_bytes"] == before + len(send(b"1"))
        found(play)
        play.broker_reads()
        assert play.counters["client_bytes"] == before + len(send(b"1"))


def test_one_broker_at_a_time_sets_the_pace() -> None:
    """Before CONNECT there is none to set it."""
    assert not Playbook(listener(movable())).relay.coupled
    assert started().relay.coupled
    assert joined(b"1.2", b"1.2").relay.coupled


# Beats

HOURLY = Terms(3_600_000, 3_600_000)


def leg(
    side: Side = Side.UPSTREAM, *, ours: Terms = Terms(1000, 1000), theirs: Terms = Terms(1000, 1000)
) -> Leg:
    """A leg that is connected since 0, with a beat each second, either way."""
    made = Leg(side, Limits())
    made.enter(State.CONNECTED, V1_2)
    made.heartbeat.agree(ours, theirs, 0.0)
    return made


def beaten(*legs: Leg | None, now: float) -> tuple[list[Effect], Leg | None]:
    """What is written to them now, and the first whose peer is dead."""
    outbox = Outbox()
    dead = outbox.beat(legs, now)
    return outbox.drain(), dead


def test_a_leg_that_was_sent_nothing_for_half_the_interval_is_sent_a_beat() -> None:
    """Every leg on its own, and once: the beat is something sent."""
    client, broker = leg(Side.DOWNSTREAM), leg()
    assert beaten(client, broker, now=0.4) == ([], None)
    client.heartbeat.sent_at = 0.4
    assert beaten(client, broker, now=0.5) == ([Send(broker, b"\n")], None)
    assert beaten(client, broker, now=0.5) == ([], None)
    assert beaten(client, broker, now=0.9) == ([Send(client, b"\n")], None)
    assert beaten(client, broker, now=1.0) == ([Send(broker, b"\n")], None)


def test_a_client_has_its_beats_while_there_is_no_broker() -> None:
    """A link without a leg is passed over."""
    client = leg(Side.DOWNSTREAM)
    assert beaten(client, None, None, now=0.5) == ([Send(client, b"\n")], None)


def test_no_beats_were_agreed() -> None:
    """None are sent, and no silence is too long."""
    silent = leg(ours=Terms(1000, 1000), theirs=Terms(0, 0))
    assert beaten(silent, now=1e9) == ([], None)


def test_a_peer_that_is_silent_for_twice_the_interval_is_dead() -> None:
    """Received from at the very last moment it is not; a dead peer is sent no beat."""
    client, broker = leg(Side.DOWNSTREAM), leg()
    client.heartbeat.received_at = 0.1
    effects, dead = beaten(client, broker, now=2.0)
    assert dead is broker
    assert effects == [Send(client, b"\n")]


def test_the_first_of_the_dead() -> None:
    """A dead client ends the session: it is looked at first. The legs behind a dead one are looked at next time."""
    client, one, other = leg(Side.DOWNSTREAM), leg(), leg()
    assert beaten(client, one, other, now=2.0) == ([], client)
    client.heartbeat.received_at = 2.0
    client.heartbeat.sent_at = 2.0
    assert beaten(client, one, other, now=2.0) == ([], one)


def test_a_peer_that_is_not_read_from_is_not_dead() -> None:
    """A client that was paused for sending too much has its beats, and its time anew when it is read again."""
    client = leg(Side.DOWNSTREAM)
    client.heartbeat.paused()
    assert beaten(client, now=50.0) == ([Send(client, b"\n")], None)
    client.heartbeat.resumed(51.0)
    assert beaten(client, now=52.9) == ([Send(client, b"\n")], None)
    assert beaten(client, now=53.0) == ([], client)


def in_state(side: Side, state: State) -> Leg:
    """A leg with beats that has come so far."""
    made = Leg(side, Limits())
    if state is State.LEAVING:
        made.enter(State.CONNECTED)
    if state is not State.OPENING:
        made.enter(state)
    made.heartbeat.agree(Terms(1000, 1000), Terms(1000, 1000), 0.0)
    return made


@pytest.mark.parametrize(
    ("side", "state"),
    [
        (Side.UPSTREAM, State.OPENING),
        (Side.UPSTREAM, State.LEAVING),
        (Side.UPSTREAM, State.CLOSED),
        (Side.DOWNSTREAM, State.OPENING),
        (Side.DOWNSTREAM, State.CONNECTING),
        (Side.DOWNSTREAM, State.CLOSED),
    ],
)
def test_a_leg_that_has_no_beats(side: Side, state: State) -> None:
    """Before CONNECTED nothing may be written, after DISCONNECT a broker expects nothing, a closed leg is no leg."""
    one, other = in_state(side, state), leg()
    other.heartbeat.received_at = 99.0
    assert not one.beating
    assert other.beating
    assert beaten(one, other, now=100.0) == ([Send(other, b"\n")], None)


def test_a_client_that_waits_for_the_answer_to_disconnect() -> None:
    """It is sent beats until then; it need not send any, for `Shutdown` pauses its heart-beat."""
    client = in_state(Side.DOWNSTREAM, State.LEAVING)
    client.heartbeat.paused()
    assert client.beating
    assert beaten(client, now=100.0) == ([Send(client, b"\n")], None)


def test_what_is_due_is_what_the_deadline_tells() -> None:
    """Woken at the deadline of a leg there is something to do, and afterwards the deadline lies ahead."""
    client = leg(Side.DOWNSTREAM, theirs=HOURLY)
    now = client.heartbeat.deadline
    assert now < inf
    effects, dead = beaten(client, now=now)
    assert effects == [Send(client, b"\n")]
    assert dead is None
    assert client.heartbeat.deadline > now


# The input buffer

CLIENT = Leg(Side.DOWNSTREAM, Limits())


class Buffered(InputBuffer):
    """An input buffer of so many bytes, with an outbox of its own."""

    def __init__(self, most: int = 10) -> None:
        self.outbox = Outbox()
        super().__init__(CLIENT, self.outbox, most)

    def asks(self, *, full: bool = False, crowded: bool = False) -> list[Effect]:
        """What it asks for when the flow is so full."""
        self.paced(cast(Flow, SimpleNamespace(full=full, crowded=crowded)))
        return self.outbox.drain()


def test_chunks_come_back_as_they_came() -> None:
    """In their order, small ones together; the length is in bytes."""
    buffer = Buffered()
    large = b"x" * 65536
    for chunk in (b"SEND\n", b"\n", large, b"\0"):
        buffer.append(chunk)
    assert buffer.cost == 7 + len(large)
    assert [buffer.take(), buffer.take()] == [b"SEND\n\n", large]
    assert buffer.cost == 1
    buffer.append(b"ACK")
    assert buffer.take() == b"\0ACK"
    assert not buffer.cost


def test_the_client_is_paused_at_the_bound() -> None:
    """Not a byte earlier, and once, however much more comes."""
    buffer = Buffered(10)
    buffer.append(b"123456789")
    assert buffer.asks() == []
    buffer.append(b"0")
    assert buffer.asks() == [Pause(CLIENT)]
    assert buffer.paused
    buffer.append(b"what was in the socket")
    assert buffer.asks() == []


def test_one_chunk_may_go_past_the_bound() -> None:
    """What was read is kept whole."""
    buffer = Buffered(10)
    buffer.append(b"x" * 1000)
    assert buffer.asks() == [Pause(CLIENT)]
    assert buffer.take() == b"x" * 1000


def test_the_client_is_resumed_when_all_is_taken() -> None:
    """Not before: what it sends next belongs behind what is kept."""
    buffer = Buffered(10)
    for chunk in (b"12345", b"6" * 65536, b"1"):
        buffer.append(chunk)
    assert buffer.asks() == [Pause(CLIENT)]
    for _ in range(2):
        buffer.take()
        assert buffer.asks() == []
    buffer.take()
    assert buffer.asks() == [Resume(CLIENT)]
    assert not buffer.paused
    assert buffer.asks() == []


def test_a_crowded_flow_is_waited_for() -> None:
    """With nothing kept, too; being full no longer is not enough."""
    buffer = Buffered(10)
    buffer.append(b"1234567890")
    assert buffer.asks() == [Pause(CLIENT)]
    buffer.take()
    assert buffer.asks(full=True, crowded=True) == []
    assert buffer.asks(crowded=True) == []
    assert buffer.paused
    assert buffer.asks() == [Resume(CLIENT)]


def test_a_full_flow_pauses_the_client() -> None:
    """Without a byte kept."""
    buffer = Buffered(10)
    assert buffer.asks(crowded=True) == []
    assert buffer.asks(full=True, crowded=True) == [Pause(CLIENT)]
    assert buffer.asks(full=True, crowded=True) == []
    assert buffer.asks() == [Resume(CLIENT)]


def test_a_buffer_that_is_cleared() -> None:
    """It is forgotten, and fills nothing."""
    buffer = Buffered(10)
    buffer.append(b"1234567890")
    buffer.clear()
    assert not buffer.cost
    assert buffer.asks() == []
    buffer.append(b"12")
    assert buffer.take() == b"12"


chunks = st.binary(min_size=1, max_size=6)
steps = st.lists(st.one_of(chunks, st.none(), st.sampled_from(["full", "crowded", "free"])))


@given(most=st.integers(1, 12), script=steps)
def test_nothing_is_lost_and_the_client_is_not_paused_twice(
    most: int, script: list[bytes | str | None]
) -> None:
    """Bytes stay in their order, Pause and Resume alternate, and a client is paused whenever the bound is reached."""
    buffer = Buffered(most)
    expected = b""
    effects: list[Effect] = []
    full = crowded = False
    for step in script:
        match step:
            case bytes():
                buffer.append(step)
                expected += step
            case str():
                full, crowded = step == "full", step != "free"
            case None if expected:
                taken = buffer.take()
                assert taken
                assert expected.startswith(taken)
                expected = expected.removeprefix(taken)
        effects += buffer.asks(full=full, crowded=crowded)
        assert buffer.cost == len(expected)
        assert buffer.paused or (buffer.cost < most and not full)
        assert buffer.paused is (len(effects) % 2 == 1)
    assert effects[:1] in ([], [Pause(CLIENT)])
    assert all(one != other for one, other in pairwise(effects))
