"""Which brokers are told what."""

import pytest

from stomprelay.relay.fanout.dispatch import with_header
from stomprelay.session.effects import Event
from stomprelay.wire.decoder import Decoder
from stomprelay.wire.dialect import V1_2
from stomprelay.wire.limits import Limits
from stomprelay.wire.names import CLIENT_COMMANDS
from tests.playbook import Cut, Playbook, in_all_cuts, listener
from tests.relay.several import (
    begun,
    comes,
    comes_back,
    copied,
    fan_out,
    fanned,
    lasting,
    message,
    plain,
    receipt,
    routed,
    send,
    tell,
)

HERE, THERE = b"/queue/here", b"/queue/there.1"


def both_get(play: Playbook, expected: bytes) -> None:
    """Both brokers got these octets and no others."""
    play.broker_gets(expected, at="a")
    play.broker_gets(expected, at="b")


def two_upstreams(**settings: bool) -> Playbook:
    """A client whose second upstream has a broker, too."""
    play = begun(routed(lasting("main", "a"), lasting("there", "b", **settings)), b"1.2", "a")
    play.client_says(send(b"", THERE))
    comes(play, "b")
    play.broker_gets(send(b"", THERE), at="b")
    return play


# SEND


def test_a_frame_with_one_more_header() -> None:
    """All its offsets move, wherever in its chunk it stood, and CR LF is no obstacle."""
    decoder = Decoder(V1_2, CLIENT_COMMANDS, Limits())
    decoder.feed(b"\n\nSEND\r\ndestination:a\r\ncontent-length:2\r\n\r\n\0x\0\nSEND\nx:y\n\nbody\0")
    for frame in decoder.frames():
        copy = with_header(frame, b"relay-copy", b"n-1")
        assert copy.wire == frame.wire.replace(b"\n", b"\nrelay-copy:n-1\n", 1)
        assert copy.payload == frame.payload
        assert copy.headers(V1_2) == [(b"relay-copy", b"n-1"), *frame.headers(V1_2)]
        assert (copy.plain, copy.crlf) == (frame.plain, frame.crlf)


@in_all_cuts
def test_a_send_goes_to_all(cut: Cut) -> None:
    """Copies of one SEND carry the same id, others another one; the receipt is the client's, once."""
    with fanned(quorum=2) as play:
        play.cut = cut
        play.client_says(send(b"1", receipt="r") + send(b"2"))
        both_get(play, copied(1, send(b"1", receipt="r")) + copied(2, send(b"2")))
        play.broker_says(receipt("r"), at="a")
        play.client_gets(b"")
        play.broker_says(receipt("r"), at="b")
        play.client_gets(receipt("r"))


@pytest.mark.parametrize("quorum", [1, 2, 3])
def test_the_receipt_comes_with_the_quorum(quorum: int) -> None:
    """Not before it, and not again."""
    with fanned(3, quorum) as play:
        play.client_says(send(receipt="r"))
        for at in "abc":
            play.broker_reads(at=at)
        for number, at in enumerate("bca", 1):
            play.broker_says(receipt("r"), at=at)
            play.client_gets(receipt("r") if number == quorum else b"")


def test_a_receipt_passes_as_it_came() -> None:
    """With whatever else the broker said in the one that completes the quorum."""
    with fanned(quorum=2) as play:
        play.client_says(send(receipt="r"))
        play.broker_reads(at="a")
        play.broker_reads(at="b")
        play.broker_says(b"RECEIPT\nreceipt-id:r\nx:a\n\n\0", at="a")
        play.broker_says(b"RECEIPT\nreceipt-id:r\nx:b\n\n\0", at="b")
        play.client_gets(b"RECEIPT\nreceipt-id:r\nx:b\n\n\0")


def test_one_id_for_all_receipts() -> None:
    """A client that names all its receipts alike gets one for each."""
    with fanned(quorum=2) as play:
        play.client_says(send(b"1", receipt="r") + send(b"2", receipt="r"))
        play.broker_reads(at="a")
        play.broker_reads(at="b")
        play.broker_says(receipt("r", "r"), at="a")
        play.broker_says(receipt("r"), at="b")
        play.client_gets(receipt("r"))
        play.broker_says(receipt("r"), at="b")
        play.client_gets(receipt("r"))


@pytest.mark.parametrize("topic", ["/topic/a", "/exchange/e/k", "topic://a"])
def test_queues_that_do_not_fan_out(topic: str) -> None:
    """With `fanOutQueues=false` what is no topic goes to the first group that has a broker, as it came."""
    with fanned(quorum=2, fan_out_queues=False) as play:
        play.client_says(send(b"1", b"/queue/a", receipt="q") + send(b"2", topic.encode(), receipt="t"))
        one, two = send(b"1", b"/queue/a", receipt="q"), copied(1, send(b"2", topic.encode(), receipt="t"))
        play.broker_gets(one + two, at="a")
        play.broker_gets(two, at="b")
        play.broker_says(receipt("q", "t"), at="a")
        play.client_gets(receipt("q"))
        play.broker_goes(at="a")
        play.client_says(send(b"3", b"/queue/a"))
        play.broker_gets(send(b"3", b"/queue/a"), at="b")


def test_confirmed_sending() -> None:
    """Each group asks for its own receipts, which nobody else sees."""
    with fanned(quorum=2, confirm=True) as play:
        play.client_says(send(b"1"))
        for at in "ab":
            asked = copied(1, send(b"1")).replace(b"SEND\n", b"SEND\nreceipt:relay-session-receipt-1\n")
            play.broker_gets(asked, at=at)
        play.broker_goes(at="b")
        play.broker_says(receipt("relay-session-receipt-1"), at="a")
        comes_back(play, "b")
        again = b"SEND\nrelay-resent:true\nreceipt:relay-session-receipt-2\n"
        play.broker_gets(copied(1, send(b"1")).replace(b"SEND\n", again), at="b")
        play.broker_says(receipt("relay-session-receipt-2"), at="b")
        assert play.counters["possibly_lost"] == 0


def test_a_value_that_one_of_them_cannot_be_told() -> None:
    """It is changed for that one alone, and counted."""
    with begun(listener(fan_out(2)), b"1.2", "ab", b"1.2", b"1.0") as play:
        play.client_says(b"SEND\ndestination:/queue/a\nfoo:a\\nb\n\n\0")
        play.broker_gets(b"SEND\nrelay-copy:relay-session-1\ndestination:/queue/a\nfoo:a\\nb\n\n\0", at="a")
        play.broker_gets(b"SEND\nrelay-copy:relay-session-1\ndestination:/queue/a\nfoo:a b\n\n\0", at="b")
        assert play.counters["loss_value"] == 1


# Overflow


def test_a_group_that_is_full() -> None:
    """It misses SENDs, which is counted and noted once; the others have them, and it keeps what it has."""
    with fanned(quorum=1, resend_buffer=300) as play:
        play.broker_goes(at="a")
        wires = [copied(number + 1, send(b"x" * 150, receipt=str(number))) for number in range(4)]
        for number in range(4):
            play.client_says(send(b"x" * 150, receipt=str(number)))
            play.broker_gets(wires[number], at="b")
            play.broker_says(receipt(str(number)), at="b")
            play.client_gets(receipt(str(number)))
        assert not play.client.paused
        assert play.counters["fanout_overflowed"] == 2
        assert sum("misses what is sent" in note.text for note in play.notes) == 1
        comes_back(play, "a")
        play.broker_gets(wires[0] + wires[1], at="a")
        play.broker_says(receipt("0", "1"), at="a")
        play.client_says(send(b"5"))
        both_get(play, copied(5, send(b"5")))


def test_a_group_that_is_needed_misses_nothing() -> None:
    """Rather than that the client waits."""
    with fanned(quorum=2, resend_buffer=300) as play:
        play.broker_goes(at="a")
        play.client_says(send(b"x" * 400) + send(b"y" * 400))
        assert play.client.paused
        assert play.counters["fanout_overflowed"] == 0
        play.broker_reads(at="b")
        comes_back(play, "a")
        assert play.broker_reads(at="a").count(b"SEND\n") == 2


# Subscriptions


def test_a_subscription_is_everywhere() -> None:
    """SUBSCRIBE and UNSUBSCRIBE reach all groups; each has one receipt."""
    with fanned(quorum=2) as play:
        for frame in (
            tell(b"SUBSCRIBE", id="1", destination="/topic/a", receipt="r"),
            tell(b"UNSUBSCRIBE", id="1", receipt="r"),
        ):
            play.client_says(frame)
            both_get(play, frame)
            play.broker_says(receipt("r"), at="a")
            play.client_gets(b"")
            play.broker_says(receipt("r"), at="b")
            play.client_gets(receipt("r"))


def test_a_group_that_was_not_there() -> None:
    """It is subscribed when it comes, and what was unsubscribed meanwhile is not."""
    with fanned(quorum=1) as play:
        play.broker_goes(at="a")
        kept = tell(b"SUBSCRIBE", id="1", destination="/topic/a")
        ended = tell(b"SUBSCRIBE", id="2", destination="/topic/b", receipt="s")
        play.client_says(kept + ended + tell(b"UNSUBSCRIBE", id="2", receipt="u"))
        play.broker_gets(kept + ended + tell(b"UNSUBSCRIBE", id="2", receipt="u"), at="b")
        play.client_gets(b"")  # nobody who has them answered
        play.broker_says(receipt("s", "u"), at="b")
        play.client_gets(receipt("s", "u"))
        comes_back(play, "a")
        play.broker_gets(kept.replace(b"\0", b"\0\n"), at="a")


# ACK


def consuming(ack: str, quorum: int = 1) -> Playbook:
    """A client that is subscribed at both."""
    play = fanned(quorum=quorum)
    play.client_says(tell(b"SUBSCRIBE", id="1", destination="/queue/a", ack=ack))
    play.broker_reads(at="a")
    play.broker_reads(at="b")
    return play


def delivers(play: Playbook, at: str, number: int) -> None:
    """A broker's message reaches the client."""
    told = message(b"", message_id=f"m{at}{number}", ack=f"{at}{number}")
    play.broker_says(told, at=at)
    play.client_gets(told)


@pytest.mark.parametrize("command", [b"ACK", b"NACK"])
def test_an_ack_goes_where_the_message_came_from(command: bytes) -> None:
    """And only there; its receipt is that broker's."""
    with consuming("client-individual", quorum=2) as play:
        delivers(play, "a", 1)
        delivers(play, "b", 1)
        play.client_says(tell(command, id="b1", receipt="k"))
        play.broker_gets(tell(command, id="b1", receipt="k"), at="b")
        play.broker_says(receipt("k"), at="b")
        play.client_gets(receipt("k"))


def test_a_cumulative_ack_covers_both() -> None:
    """What the client got before, from whomever, is acknowledged; what came later is not."""
    with consuming("client") as play:
        for at, number in [("a", 1), ("b", 1), ("a", 2), ("b", 2), ("a", 3)]:
            delivers(play, at, number)
        play.client_says(tell(b"ACK", id="b2", receipt="k"))
        play.broker_gets(tell(b"ACK", id="a2").replace(b"\0", b"\0\n"), at="a")
        play.broker_gets(tell(b"ACK", id="b2", receipt="k"), at="b")
        play.broker_says(receipt("k"), at="b")
        play.client_gets(receipt("k"))
        play.client_says(tell(b"ACK", id="a3"))
        play.broker_gets(tell(b"ACK", id="a3"), at="a")


def test_an_ack_for_a_broker_that_was_lost() -> None:
    """It is swallowed and its receipt given; the other broker's deliveries are not touched."""
    with consuming("client-individual", quorum=2) as play:
        delivers(play, "a", 1)
        delivers(play, "b", 1)
        play.broker_goes(at="a")
        play.client_says(tell(b"ACK", id="a1", receipt="k"))
        play.client_gets(receipt("k"))
        assert play.counters["acks_stale"] == 1
        play.client_says(tell(b"ACK", id="b1"))
        play.broker_gets(tell(b"ACK", id="b1"), at="b")


def test_an_ack_that_was_on_its_way() -> None:
    """The broker is lost before it answers: there is nothing to wait for any more."""
    with consuming("client-individual") as play:
        delivers(play, "a", 1)
        play.client_says(tell(b"ACK", id="a1", receipt="k"))
        play.broker_reads(at="a")
        play.broker_goes(at="a")
        play.client_gets(receipt("k"))


def test_an_ack_of_nothing() -> None:
    """No broker can be asked what it means."""
    play = consuming("client-individual")
    play.client_says(tell(b"ACK", id="z", receipt="k"))
    play.client_gets_error(b"ACK names no message that awaits one", receipt=b"k")


@pytest.mark.parametrize("client", [b"1.0", b"1.1"])
def test_message_ids_of_two_brokers(client: bytes) -> None:
    """Where both give the same id the client is given another one, and each ACK finds its broker."""
    with begun(listener(fan_out(2)), client) as play:
        play.client_says(tell(b"SUBSCRIBE", id="1", destination="/queue/a", ack="client-individual"))
        play.broker_reads(at="a")
        play.broker_reads(at="b")
        told = message(b"", message_id="7")
        play.broker_says(told, at="a")
        play.broker_says(told, at="b")
        renamed = told.replace(b"message-id:7\n", b"").replace(
            b"MESSAGE\n", b"MESSAGE\nmessage-id:relay-ack-2\n"
        )
        play.client_gets(told + renamed)
        named = b"subscription:1\n" if client == b"1.1" else b""
        play.client_says(b"ACK\n%bmessage-id:relay-ack-2\n\n\0" % named)
        play.broker_gets(b"ACK\nmessage-id:7\n%b\n\0" % named, at="b")
        play.client_says(b"ACK\n%bmessage-id:7\n\n\0" % named)
        play.broker_gets(b"ACK\n%bmessage-id:7\n\n\0" % named, at="a")


def test_tokens_of_another_relay() -> None:
    """A broker that is such a relay gives names like ours: they are never taken for each other."""
    with consuming("client-individual") as play:
        for at in "ab":
            play.broker_says(
                message(b"", message_id=at, ack="relay-ack-2" if at == "a" else "relay-ack-1"), at=at
            )
        got = play.client_reads()
        assert got.count(b"ack:relay-ack-1\n") == 1
        assert (
            got.index(b"ack:relay-ack-1\n") < got.index(b"message-id:a\n") < got.index(b"ack:relay-ack-2\n")
        )
        play.client_says(tell(b"ACK", id="relay-ack-2"))
        play.broker_gets(tell(b"ACK", id="relay-ack-1"), at="b")
        play.client_says(tell(b"ACK", id="relay-ack-1"))
        play.broker_gets(tell(b"ACK", id="relay-ack-2"), at="a")


# Transactions


BEGIN, COMMIT, ABORT = (tell(command, transaction="t") for command in (b"BEGIN", b"COMMIT", b"ABORT"))


def test_a_transaction_goes_to_all() -> None:
    """COMMIT counts when the quorum confirmed it, though the client did not ask."""
    with fanned(quorum=2) as play:
        play.client_says(BEGIN + send(b"1", transaction="t") + COMMIT)
        asked = COMMIT.replace(b"COMMIT\n", b"COMMIT\nreceipt:relay-session-vote-1\n")
        both_get(play, BEGIN + copied(1, send(b"1", transaction="t")) + asked)
        for at in "ab":
            play.broker_says(receipt("relay-session-vote-1"), at=at)
        play.client_gets(b"")


@pytest.mark.parametrize("step", ["begin", "send", "abort", "commit"])
def test_a_transaction_whose_client_asks(step: str) -> None:
    """Each receipt comes once, when the quorum gave it."""
    asks = {"begin": BEGIN, "abort": ABORT, "commit": COMMIT, "send": send(b"", transaction="t")}
    frames = [asks[each] for each in ("begin", "send", "abort" if step == "abort" else "commit")]
    with fanned(quorum=2) as play:
        for frame in frames:
            said = frame
            if frame is asks[step]:
                said = frame.replace(b"\n\n", b"\nreceipt:r\n\n", 1)
            play.client_says(said)
        for at in "ab":
            assert b"receipt:r\n" in play.broker_reads(at=at)
        play.broker_says(receipt("r"), at="b")
        play.client_gets(b"")
        play.broker_says(receipt("r"), at="a")
        play.client_gets(receipt("r"))


@pytest.mark.parametrize("quorum", [1, 2])
def test_a_commit_in_doubt(quorum: int) -> None:
    """A broker that is lost before it answered has not confirmed; that counts only where it was needed."""
    play = fanned(quorum=quorum)
    play.client_says(BEGIN + send(b"1", transaction="t") + tell(b"COMMIT", transaction="t", receipt="c"))
    play.broker_reads(at="a")
    play.broker_reads(at="b")
    play.broker_goes(at="a")
    if quorum == 2:
        data = play.client_reads()
        assert data.startswith(b"ERROR\nmessage:the quorum cannot be reached\nreceipt-id:c\n")
        assert b"main-1 (its broker was lost after COMMIT)" in data
        assert b"main-2" not in data
        play.client_is_closed()
        return
    play.broker_says(receipt("c"), at="b")
    play.client_gets(receipt("c"))
    comes_back(play, "a")
    play.broker_gets(b"", at="a")
    play.nobody_gets_more()


def test_a_transaction_is_said_again() -> None:
    """A broker that was lost within it hears all of it from the next."""
    with fanned(quorum=2) as play:
        play.client_says(BEGIN + send(b"1", transaction="t"))
        play.broker_reads(at="a")
        play.broker_reads(at="b")
        play.broker_goes(at="a")
        play.client_says(send(b"2", transaction="t"))
        second = copied(2, send(b"2", transaction="t"))
        play.broker_gets(second, at="b")
        comes_back(play, "a")
        play.broker_gets(BEGIN + copied(1, send(b"1", transaction="t")) + second, at="a")


def test_a_transaction_that_acknowledged() -> None:
    """What only a broker that is lost had cannot be committed without it: nobody commits."""
    play = consuming("client-individual")
    delivers(play, "a", 1)
    play.client_says(BEGIN + tell(b"ACK", id="a1", transaction="t") + send(b"1", transaction="t"))
    play.broker_gets(BEGIN + copied(1, send(b"1", transaction="t")), at="b")
    play.broker_goes(at="a")
    play.client_says(tell(b"COMMIT", transaction="t", receipt="c"))
    data = play.client_reads()
    assert data.startswith(b"ERROR\nmessage:the transaction cannot be committed\nreceipt-id:c\n")
    assert b"group main-1: it acknowledged messages of a broker that was lost" in data
    play.broker_gets(b"", at="b")


def test_a_transaction_of_a_lost_delivery() -> None:
    """An ACK that comes too late spoils it all the same."""
    play = consuming("client-individual")
    delivers(play, "a", 1)
    play.client_says(BEGIN)
    play.broker_goes(at="a")
    play.client_says(tell(b"ACK", id="a1", transaction="t") + COMMIT)
    play.client_gets_error(b"the transaction cannot be committed")


def test_a_group_that_missed_a_part() -> None:
    """It is told ABORT; the others commit, if they are enough."""
    with fanned(quorum=1, resend_buffer=300) as play:
        play.broker_goes(at="a")
        play.client_says(send(b"x" * 400))
        play.client_says(BEGIN + send(b"1", transaction="t") + tell(b"COMMIT", transaction="t", receipt="c"))
        assert play.broker_reads(at="b").endswith(tell(b"COMMIT", transaction="t", receipt="c"))
        play.broker_says(receipt("c"), at="b")
        play.client_gets(receipt("c"))
        assert play.counters["fanout_overflowed"] == 1
        comes_back(play, "a")
        assert play.broker_reads(at="a").count(b"\0") == 1  # what it had room for


def test_a_queue_in_a_transaction() -> None:
    """With `fanOutQueues=false` one group alone has it: that one has to commit."""
    play = fanned(quorum=1, fan_out_queues=False)
    play.client_says(BEGIN + send(b"1", transaction="t") + tell(b"COMMIT", transaction="t", receipt="c"))
    play.broker_gets(
        BEGIN + send(b"1", transaction="t") + tell(b"COMMIT", transaction="t", receipt="c"), at="a"
    )
    play.broker_gets(BEGIN + tell(b"COMMIT", transaction="t", receipt="c"), at="b")
    play.broker_says(receipt("c"), at="b")
    play.client_gets(b"")
    play.broker_goes(at="a")
    play.client_gets_error(b"the quorum cannot be reached", receipt=b"c")


# Routes


def test_destinations_lead_apart() -> None:
    """Frames pass as they came, each to the upstream of its destination."""
    with two_upstreams() as play:
        play.client_says(send(b"1", HERE, receipt="1") + send(b"2", THERE, receipt="2") + send(b"3", HERE))
        play.broker_gets(send(b"1", HERE, receipt="1") + send(b"3", HERE), at="a")
        play.broker_gets(send(b"2", THERE, receipt="2"), at="b")
        play.broker_says(receipt("2"), at="b")
        play.broker_says(receipt("1"), at="a")
        play.client_gets(receipt("2", "1"))


def test_many_sends_of_one_head() -> None:
    """Heads that repeat are not looked into again, and find the same way."""
    with two_upstreams() as play:
        play.client_says(send(b"1", THERE) + send(b"2", THERE) + send(b"1", HERE) + send(b"2", HERE) * 2)
        play.broker_gets(send(b"1", THERE) + send(b"2", THERE), at="b")
        play.broker_gets(send(b"1", HERE) + send(b"2", HERE) * 2, at="a")


def test_subscriptions_of_two_upstreams() -> None:
    """UNSUBSCRIBE and ACK go where the subscription is."""
    with two_upstreams() as play:
        here = tell(b"SUBSCRIBE", id="1", destination=HERE.decode(), ack="client")
        there = tell(b"SUBSCRIBE", id="2", destination=THERE.decode(), ack="client")
        play.client_says(here + there)
        play.broker_gets(here, at="a")
        play.broker_gets(there, at="b")
        told = b"MESSAGE\nsubscription:2\nmessage-id:7\nack:7\n\n\0"
        play.broker_says(told, at="b")
        play.client_gets(told)
        play.client_says(tell(b"ACK", id="7") + tell(b"UNSUBSCRIBE", id="2") + tell(b"UNSUBSCRIBE", id="1"))
        play.broker_gets(tell(b"ACK", id="7") + tell(b"UNSUBSCRIBE", id="2"), at="b")
        play.broker_gets(tell(b"UNSUBSCRIBE", id="1"), at="a")


def test_an_id_that_is_open_elsewhere() -> None:
    """A subscription id is the client's, not an upstream's."""
    play = two_upstreams()
    play.client_says(tell(b"SUBSCRIBE", id="1", destination=HERE.decode()))
    play.client_says(tell(b"SUBSCRIBE", id="1", destination=THERE.decode(), receipt="r"))
    play.client_gets_error(b"SUBSCRIBE repeats the id of an open subscription", receipt=b"r")


def test_unsubscribing_by_destination() -> None:
    """As 1.0 clients may."""
    with begun(routed(lasting("main", "a"), lasting("there", "b")), b"1.0", "a") as play:
        play.client_says(tell(b"SUBSCRIBE", destination=THERE.decode()))
        comes(play, "b", b"1.0")
        play.broker_reads(at="b")
        play.client_says(tell(b"UNSUBSCRIBE", destination=THERE.decode()))
        play.broker_gets(tell(b"UNSUBSCRIBE", destination=THERE.decode()), at="b")


def test_an_unknown_ack_of_a_route() -> None:
    """A broker that speaks the client's version judges for itself."""
    with two_upstreams() as play:
        play.client_says(tell(b"ACK", id="z"))
        play.broker_gets(tell(b"ACK", id="z"), at="a")


def test_a_transaction_that_goes_elsewhere() -> None:
    """BEGIN is said to the listener's own upstream, which answers it; the first frame takes it with it."""
    with two_upstreams() as play:
        play.client_says(tell(b"BEGIN", transaction="t", receipt="b"))
        play.broker_gets(tell(b"BEGIN", transaction="t", receipt="b"), at="a")
        play.client_says(send(b"1", THERE, transaction="t"))
        play.broker_gets(ABORT.replace(b"\0", b"\0\n"), at="a")
        play.broker_gets(BEGIN.replace(b"\0", b"\0\n") + send(b"1", THERE, transaction="t"), at="b")
        play.broker_says(receipt("b"), at="a")
        play.client_gets(receipt("b"))
        play.client_says(tell(b"COMMIT", transaction="t", receipt="c"))
        play.broker_gets(tell(b"COMMIT", transaction="t", receipt="c"), at="b")
        play.broker_says(receipt("c"), at="b")
        play.client_gets(receipt("c"))


@pytest.mark.parametrize("order", [(HERE, THERE), (THERE, HERE)])
def test_a_transaction_that_spans_upstreams(order: tuple[bytes, bytes]) -> None:
    """It ends in an ERROR that names it and both; nobody is told COMMIT."""
    play = two_upstreams()
    play.client_says(BEGIN + send(b"1", order[0], transaction="t"))
    play.client_says(send(b"2", order[1], transaction="t", receipt="r") + COMMIT)
    data = play.client_reads()
    assert data.startswith(b"ERROR\nmessage:a transaction cannot span upstreams\nreceipt-id:r\n")
    names = (b"main", b"there") if order[0] == HERE else (b"there", b"main")
    assert b"t is at upstream %b, this belongs to upstream %b" % names in data
    for at in "ab":
        assert b"COMMIT" not in play.broker_reads(at=at)
        play.broker_is_closed(at=at)


def test_an_ack_in_a_transaction_elsewhere() -> None:
    """ACKs take a transaction with them, too."""
    with two_upstreams() as play:
        play.client_says(tell(b"SUBSCRIBE", id="2", destination=THERE.decode(), ack="client"))
        play.broker_reads(at="b")
        play.broker_says(b"MESSAGE\nsubscription:2\nmessage-id:7\nack:7\n\n\0", at="b")
        play.client_reads()
        play.client_says(BEGIN + tell(b"ACK", id="7", transaction="t"))
        play.broker_gets(BEGIN + ABORT.replace(b"\0", b"\0\n"), at="a")
        play.broker_gets(BEGIN.replace(b"\0", b"\0\n") + tell(b"ACK", id="7", transaction="t"), at="b")


def test_a_route_to_a_fan_out() -> None:
    """Both together: copies there, one here."""
    main = plain("main", "a")
    there = fan_out(3, quorum=2)
    groups = there.groups[1:]
    play = begun(routed(main, type(there)("there", groups, quorum=2)), b"1.2", "a")
    with play:
        play.client_says(send(b"1", HERE) + send(b"2", THERE, receipt="r"))
        play.broker_gets(send(b"1", HERE), at="a")
        for at in "bc":
            comes(play, at)
            play.broker_gets(copied(1, send(b"2", THERE, receipt="r")), at=at)
        play.broker_says(receipt("r"), at="c")
        play.client_gets(b"")
        play.broker_says(receipt("r"), at="b")
        play.client_gets(receipt("r"))
        assert play.noted(Event.CONNECTED)
