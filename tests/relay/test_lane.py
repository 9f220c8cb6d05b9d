"""What waits for one broker, and does not hold up another."""

import pytest

from stomprelay.relay.fanout.member import Cover, Member
from stomprelay.session.effects import Event
from tests.playbook import Playbook, listener
from tests.relay.several import (
    begun,
    comes,
    comes_back,
    copied,
    fan_out,
    fanned,
    group,
    lasting,
    message,
    receipt,
    routed,
    send,
    tell,
)

BEGIN, COMMIT, ABORT = (tell(command, transaction="t") for command in (b"BEGIN", b"COMMIT", b"ABORT"))


def lane_of(play: Playbook, at: int) -> Member:
    """A member of a playing relay."""
    connection = play.relay._connection
    assert connection is not None
    member: Member = connection._flow._places[play.relay.links[at]][1]  # type: ignore[attr-defined]
    return member


def waits(play: Playbook) -> bool:
    """Whether the client is not read from."""
    return play.client.paused


# Blocked


def test_a_slow_broker_holds_up_nobody() -> None:
    """What is for it waits, the other gets its own; when it has room, it is said in its order."""
    with fanned(quorum=1) as play:
        play.broker_is_blocked(at="a")
        wires = [send(b"%d" % number, receipt=f"{number}") for number in range(3)]
        for number, wire in enumerate(wires, 1):
            play.client_says(wire)
            play.broker_gets(copied(number, wire), at="b")
            play.broker_says(receipt(f"{number - 1}"), at="b")
            play.client_gets(receipt(f"{number - 1}"))
        play.broker_gets(b"", at="a")
        play.broker_is_unblocked(at="a")
        play.broker_gets(b"".join(copied(number, wire) for number, wire in enumerate(wires, 1)), at="a")
        assert not waits(play)


def test_all_kinds_of_frames_wait() -> None:
    """Also those that are not SENDs: nothing overtakes anything."""
    said = [
        tell(b"SUBSCRIBE", id="1", destination="/queue/a", ack="client"),
        BEGIN,
        COMMIT,
        BEGIN,
        ABORT,
        tell(b"UNSUBSCRIBE", id="1"),
        send(b"1"),
    ]
    with fanned(quorum=1) as play:
        play.broker_is_blocked(at="a")
        play.client_says(b"".join(said))
        other = play.broker_reads(at="b")
        play.broker_gets(b"", at="a")
        play.broker_is_unblocked(at="a")
        play.broker_gets(other, at="a")
        assert [each.split(b"\n")[0] for each in other.split(b"\0")][:-1] == [
            each.split(b"\n")[0] for each in said
        ]


def test_a_slow_broker_is_lost() -> None:
    """What waited is kept for the next one, whether or not anybody asked for it."""
    with fanned(quorum=1) as play:
        play.broker_is_blocked(at="a")
        play.client_says(send(b"1") + send(b"2", receipt="r"))
        play.broker_reads(at="b")
        play.broker_goes(at="a")
        assert play.counters["possibly_lost"] == 0
        comes_back(play, "a")
        play.broker_gets(copied(1, send(b"1")) + copied(2, send(b"2", receipt="r")), at="a")


def test_an_ack_that_waited_for_a_broker_that_was_lost() -> None:
    """It is stale, and its receipt is given."""
    with fanned(quorum=1) as play:
        play.client_says(tell(b"SUBSCRIBE", id="1", destination="/queue/a", ack="client-individual"))
        play.broker_reads(at="a")
        play.broker_reads(at="b")
        play.broker_says(message(message_id="m", ack="k"), at="a")
        play.client_reads()
        play.broker_is_blocked(at="a")
        play.client_says(tell(b"ACK", id="k", receipt="r"))
        play.client_gets(b"")
        play.broker_goes(at="a")
        play.client_gets(receipt("r"))
        assert play.counters["acks_stale"] == 1


@pytest.mark.parametrize("quorum", [1, 2])
def test_a_commit_that_waited(quorum: int) -> None:
    """It was never said: the next broker is told the whole transaction."""
    with fanned(quorum=quorum) as play:
        play.client_says(BEGIN + send(b"1", transaction="t"))
        play.broker_reads(at="a")
        play.broker_reads(at="b")
        play.broker_is_blocked(at="a")
        play.client_says(tell(b"COMMIT", transaction="t", receipt="c"))
        play.broker_reads(at="b")
        play.broker_goes(at="a")
        play.broker_says(receipt("c"), at="b")
        play.client_gets(receipt("c") if quorum == 1 else b"")
        comes_back(play, "a")
        whole = BEGIN + copied(1, send(b"1", transaction="t")) + tell(b"COMMIT", transaction="t", receipt="c")
        play.broker_gets(whole, at="a")
        play.broker_says(receipt("c"), at="a")
        play.client_gets(receipt("c") if quorum == 2 else b"")


def test_a_commit_that_waited_too_long() -> None:
    """It acknowledged what its broker does not have any more."""
    play = fanned(quorum=1)
    play.client_says(tell(b"SUBSCRIBE", id="1", destination="/queue/a", ack="client-individual"))
    play.broker_says(message(message_id="m", ack="k"), at="a")
    play.client_reads()
    play.client_says(BEGIN + tell(b"ACK", id="k", transaction="t"))
    play.broker_is_blocked(at="a")
    play.client_says(tell(b"COMMIT", transaction="t", receipt="c"))
    play.broker_goes(at="a")
    data = play.client_reads()
    assert data.startswith(b"ERROR\nmessage:the quorum cannot be reached\nreceipt-id:c\n")
    assert b"main-1 (it acknowledged messages of a broker that was lost)" in data


def test_a_slow_broker_that_misses_sends() -> None:
    """Its queue is bounded, whatever the quorum of the others does."""
    with fanned(quorum=1, resend_buffer=300) as play:
        play.broker_is_blocked(at="a")
        for number in range(5):
            play.client_says(send(b"x" * 150))
            assert copied(number + 1, send(b"x" * 150)) == play.broker_reads(at="b")
        assert play.counters["fanout_overflowed"] == 3
        assert not waits(play)
        play.broker_is_unblocked(at="a")
        assert play.broker_reads(at="a").count(b"SEND\n") == 2


def test_a_slow_broker_that_is_needed() -> None:
    """Then the client waits, and goes on when there is room."""
    with fanned(quorum=2, resend_buffer=300) as play:
        play.broker_is_blocked(at="a")
        play.client_says(send(b"x" * 400))
        assert waits(play)
        play.broker_reads(at="b")
        play.broker_is_unblocked(at="a")
        assert not waits(play)
        play.broker_gets(copied(1, send(b"x" * 400)), at="a")


def test_a_slow_broker_of_a_route() -> None:
    """Only what is for it waits; when that is too much, the client does."""
    with begun(routed(lasting("main", "a"), lasting("there", "b", resend_buffer=300)), b"1.2", "a") as play:
        there = send(b"x" * 200, b"/queue/there.1")
        play.client_says(there)
        comes(play, "b")
        play.broker_gets(there, at="b")
        play.broker_is_blocked(at="b")
        play.client_says(there + send(b"1"))
        play.broker_gets(send(b"1"), at="a")
        assert not waits(play)
        play.client_says(there)
        assert waits(play)
        play.broker_is_unblocked(at="b")
        assert not waits(play)
        play.broker_gets(there + there, at="b")


def test_a_flood_that_is_no_sends() -> None:
    """A broker that takes nothing at all is left before what waits for it grows without bound."""
    with fanned(quorum=1, resend_buffer=300) as play:
        play.broker_is_blocked(at="a")
        for number in range(40):
            play.client_says(tell(b"SUBSCRIBE", id=f"{number}", destination="/topic/a"))
            play.client_says(tell(b"UNSUBSCRIBE", id=f"{number}"))
            assert play.broker_reads(at="b")
        assert "broker a is left: it takes nothing any more" in [note.text for note in play.notes]
        assert lane_of(play, 0).octets == 0
        assert play.counters["brokers_lost"] == 1
        comes_back(play, "a")
        play.broker_gets(b"", at="a")


def test_goodbye_to_a_slow_broker() -> None:
    """It is waited for as long as for any answer, and then told all at once."""
    with fanned(quorum=1) as play:
        play.broker_is_blocked(at="a")
        play.client_says(send(b"1") + b"DISCONNECT\n\n\0")
        play.broker_gets(copied(1, send(b"1")), at="b")
        play.time_passes(6)
        play.broker_gets(copied(1, send(b"1")) + b"DISCONNECT\n\n\0", at="a")
        play.broker_gets(b"DISCONNECT\n\n\0", at="b")


# Cumulative ACKs


def covering() -> Playbook:
    """A client with a cumulative subscription, and a message of a and then one of b."""
    play = fanned(quorum=1)
    play.client_says(tell(b"SUBSCRIBE", id="1", destination="/queue/a", ack="client"))
    for at in "ab":
        play.broker_reads(at=at)
        play.broker_says(message(message_id=at, ack=at), at=at)
    play.client_reads()
    return play


def test_covering_a_broker_that_does_not_listen() -> None:
    """It is acknowledged once, when it listens, however often it was covered."""
    with covering() as play:
        play.broker_is_blocked(at="a")
        play.client_says(tell(b"ACK", id="b"))
        play.broker_says(message(message_id="b2", ack="b2"), at="b")
        play.client_reads()
        play.client_says(tell(b"ACK", id="b2"))
        play.broker_gets(tell(b"ACK", id="b") + tell(b"ACK", id="b2"), at="b")
        play.broker_is_unblocked(at="a")
        play.broker_gets(tell(b"ACK", id="a").replace(b"\0", b"\0\n"), at="a")


def test_covering_what_is_settled() -> None:
    """There is nothing to say then."""
    with covering() as play:
        play.client_says(tell(b"ACK", id="a") + tell(b"ACK", id="b"))
        play.broker_gets(tell(b"ACK", id="a"), at="a")
        play.broker_gets(tell(b"ACK", id="b"), at="b")


def test_covering_what_is_lost() -> None:
    """It is settled without a word."""
    with covering() as play:
        play.broker_goes(at="a")
        play.client_says(tell(b"ACK", id="b"))
        play.broker_gets(tell(b"ACK", id="b"), at="b")
        assert len(lane_of(play, 0).session.ledger) == 0
        comes_back(play, "a")
        assert play.broker_reads(at="a").startswith(b"SUBSCRIBE\n")


def test_covering_in_a_transaction() -> None:
    """Each broker commits its own part, and both are needed."""
    play = covering()
    play.client_says(
        BEGIN + tell(b"ACK", id="b", transaction="t") + tell(b"COMMIT", transaction="t", receipt="c")
    )
    ends = tell(b"COMMIT", transaction="t", receipt="c")
    told = tell(b"ACK", id="a", transaction="t").replace(b"\0", b"\0\n")
    play.broker_gets(BEGIN + told + ends, at="a")
    play.broker_gets(BEGIN + tell(b"ACK", id="b", transaction="t") + ends, at="b")
    play.broker_says(receipt("c"), at="b")
    play.client_gets(b"")
    play.broker_says(receipt("c"), at="a")
    play.client_gets(receipt("c"))


@pytest.mark.parametrize(("client", "naming"), [(b"1.0", b""), (b"1.1", b"subscription:1\n")])
@pytest.mark.parametrize("broker", [b"1.0", b"1.1", b"1.2"])
def test_covering_in_other_versions(client: bytes, naming: bytes, broker: bytes) -> None:
    """The broker's own names are used, in its version."""
    with begun(listener(fan_out(2)), client, "ab", broker, client) as play:
        play.client_says(tell(b"SUBSCRIBE", id="1", destination="/queue/a", ack="client"))
        play.broker_reads(at="a")
        play.broker_reads(at="b")
        play.broker_says(message(message_id="a", ack="k"), at="a")
        play.broker_says(message(message_id="b"), at="b")
        play.client_reads()
        play.client_says(b"ACK\n%bmessage-id:b\n\n\0" % naming)
        told = play.broker_reads(at="a")
        assert told.startswith(b"ACK\n")
        assert (b"\nid:k\n" if broker == b"1.2" else b"\nmessage-id:a\n") in told
        assert broker != b"1.1" or b"\nsubscription:1\n" in told
        assert b"relay-ack" not in told
        play.broker_gets(b"ACK\n%bmessage-id:b\n\n\0" % naming, at="b")


def test_a_cover_is_a_value() -> None:
    """So that a later one can take the place of an earlier one."""
    cover = Cover(b"ACK", b"1", 3, None)
    assert cover._replace(order=4) == Cover(b"ACK", b"1", 4, None)


# Moving


def moving(quorum: int = 1, **settings: int) -> Playbook:
    """A client of two groups, the first of which has two brokers."""
    main = fan_out(2, quorum=quorum)
    groups = (group("main-1", "a", "c"), main.groups[1])
    return begun(listener(type(main)("main", groups, quorum=quorum, **settings)))  # type: ignore[arg-type]


def leaves(play: Playbook, within: float = 5.0) -> None:
    """The session is to leave broker a for c."""
    one, other = play.relay.listener.upstream.groups[0].brokers
    one.health.paused = True
    play._perform(play.relay.leave(one, play.now, within, other))


def test_moving_at_a_quiet_moment() -> None:
    """What is said meanwhile waits for the new broker; the other group does not notice."""
    with moving() as play:
        play.client_says(send(b"1", receipt="r"))
        first = copied(1, send(b"1", receipt="r"))
        play.broker_gets(first, at="a")
        play.broker_gets(first, at="b")
        leaves(play)
        play.client_says(send(b"2"))
        play.broker_gets(copied(2, send(b"2")), at="b")
        play.broker_gets(b"", at="a")
        play.broker_says(receipt("r"), at="a")
        play.client_gets(receipt("r"))
        disconnect = play.broker_reads(at="a")
        assert disconnect.startswith(b"DISCONNECT\nreceipt:relay-session-receipt-1\n")
        play.client_says(send(b"3"))
        play.broker_gets(copied(3, send(b"3")), at="b")
        play.broker_says(receipt("relay-session-receipt-1"), at="a")
        comes(play, "c")
        play.broker_gets(copied(2, send(b"2")) + copied(3, send(b"3")), at="c")
        assert play.counters["brokers_moved"] == 1
        assert play.counters["frames_resent"] == 0
        assert play.noted(Event.MOVED)


def test_moving_with_a_message_that_still_comes() -> None:
    """Its ACK has to reach the broker that it came from: what waited goes there before."""
    with moving() as play:
        play.client_says(tell(b"SUBSCRIBE", id="1", destination="/queue/a", ack="client-individual"))
        play.client_says(send(b"1", receipt="r"))
        play.broker_reads(at="a")
        play.broker_reads(at="b")
        leaves(play)
        play.client_says(send(b"2", receipt="s"))
        play.broker_gets(b"", at="a")
        play.broker_says(message(message_id="m", ack="k"), at="a")
        play.client_gets(message(message_id="m", ack="k"))
        play.broker_gets(copied(2, send(b"2", receipt="s")), at="a")
        play.client_says(tell(b"ACK", id="k"))
        play.broker_gets(tell(b"ACK", id="k"), at="a")
        play.broker_says(receipt("r", "s"), at="a")
        assert play.broker_reads(at="a").startswith(b"DISCONNECT\n")
        play.broker_reads(at="b")
        play.client_gets(receipt("r", "s"))


def test_moving_when_the_time_is_over() -> None:
    """The next broker is told what the old one did not confirm."""
    with moving() as play:
        play.client_says(send(b"1", receipt="r"))
        play.broker_reads(at="a")
        play.broker_reads(at="b")
        leaves(play, 1.0)
        play.time_passes(1)
        assert play.broker_reads(at="a").startswith(b"DISCONNECT\n")
        play.broker_goes(at="a")
        comes(play, "c")
        again = copied(1, send(b"1", receipt="r")).replace(b"SEND\n", b"SEND\nrelay-resent:true\n")
        play.broker_gets(again, at="c")


def test_moving_off_a_route() -> None:
    """A session moves in any upstream that it uses."""
    there = lasting("there", "b")
    there = type(there)("there", (group("there", "b", "c"),))
    with begun(routed(lasting("main", "a"), there), b"1.2", "a") as play:
        play.client_says(send(b"1", b"/queue/there.1"))
        comes(play, "b")
        play.broker_reads(at="b")
        one, other = there.brokers
        one.health.paused = True
        play._perform(play.relay.leave(one, play.now, 5, other))
        play.broker_gets(tell(b"DISCONNECT", receipt="relay-session-receipt-2") + b"\n", at="b")
        play.client_says(send(b"2", b"/queue/there.1") + send(b"3"))
        play.broker_gets(send(b"3"), at="a")
        play.broker_says(receipt("relay-session-receipt-2"), at="b")
        comes(play, "c")
        play.broker_gets(send(b"2", b"/queue/there.1"), at="c")
