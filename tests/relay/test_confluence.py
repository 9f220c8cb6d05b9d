"""What brokers say, as the client hears it."""

import pytest

from stomprelay.session.effects import Event, How
from tests.playbook import CUTS, Cut, Playbook, listener
from tests.relay.several import (
    SOON,
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

ERROR = b"ERROR\nmessage:access refused\n\nwhy\0"


def error(receipt: str, message: str = "no") -> bytes:
    """An ERROR that names a receipt."""
    return f"ERROR\nreceipt-id:{receipt}\nmessage:{message}\n\n\0".encode()


def subscribed(play: Playbook, **headers: str) -> Playbook:
    """The client is subscribed everywhere."""
    play.client_says(tell(b"SUBSCRIBE", id="1", destination="/queue/a", **headers))
    for peer in play.brokers:
        peer.written = b""
    return play


# MESSAGE


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("ack", ["auto", "client-individual"])
def test_messages_are_merged(cut: Cut, ack: str) -> None:
    """As they come, untouched, whoever sends them."""
    with subscribed(fanned(), ack=ack) as play:
        play.cut = cut
        for number, at in enumerate("abba"):
            told = message(b"x", message_id=str(number), ack=str(number))
            play.broker_says(told, at=at)
            play.client_gets(told)


def test_ack_values_of_two_brokers() -> None:
    """Where both give the same one the client gets another for the second, until the first is settled."""
    with subscribed(fanned(), ack="client-individual") as play:
        told = message(b"", message_id="m", ack="7")
        play.broker_says(told, at="a")
        play.client_gets(told)
        play.broker_says(told, at="b")
        renamed = told.replace(b"ack:7\n", b"").replace(b"MESSAGE\n", b"MESSAGE\nack:relay-ack-2\n")
        play.client_gets(renamed)
        play.client_says(tell(b"ACK", id="7"))
        play.broker_gets(tell(b"ACK", id="7"), at="a")
        play.broker_says(told, at="a")
        play.client_gets(told)  # the client knows that of b by another name
        play.client_says(tell(b"ACK", id="relay-ack-2") + tell(b"ACK", id="7"))
        play.broker_gets(tell(b"ACK", id="7"), at="a")
        play.broker_gets(tell(b"ACK", id="7"), at="b")
        play.broker_says(told, at="b")
        play.client_gets(told)


def test_a_client_that_waits_for_the_lf() -> None:
    """The LF behind a frame comes with it where the broker writes one."""
    with fanned() as play:
        play.broker_says(message() + b"\n", at="a")
        play.client_gets_exactly(message() + b"\n")
        play.broker_says(message(), at="a")
        play.client_gets_exactly(message() + b"\n")


def test_receipts_among_messages() -> None:
    """What does not pass is cut out."""
    with fanned(quorum=2) as play:
        play.client_says(send(receipt="r"))
        play.broker_reads(at="a")
        play.broker_reads(at="b")
        play.broker_says(message(b"1") + receipt("r") + message(b"2"), at="a")
        play.client_gets(message(b"1") + message(b"2"))
        play.broker_says(message(b"3") + receipt("r") + message(b"4"), at="b")
        play.client_gets(message(b"3") + receipt("r") + message(b"4"))


def test_receipts_of_nobody() -> None:
    """A broker's RECEIPT that nobody asked for, or without a name, is nobody's business."""
    with fanned() as play:
        play.broker_says(receipt("x") + b"RECEIPT\n\n\0", at="a")
        play.client_gets(b"")
    with begun(routed(lasting("main", "a"), lasting("there", "b")), b"1.2", "a") as play:
        play.broker_says(b"RECEIPT\n\n\0")
        play.client_gets(b"RECEIPT\n\n\0")


# ERROR


@pytest.mark.parametrize("at", ["a", "b"])
def test_an_error_is_no_success(at: str) -> None:
    """It counts as a refusal: the client gets its RECEIPT from the others, when they are enough."""
    with fanned(3, 2) as play:
        play.client_says(send(receipt="r"))
        for each in "abc":
            play.broker_reads(at=each)
        play.broker_says(error("r"), at=at)
        play.broker_says(receipt("r"), at="c")
        play.client_gets(b"")
        assert play.noted(Event.IGNORED) == f"group main-{'ab'.index(at) + 1}: it answered ERROR: no"
        assert play.counters["fanout_errors"] == 1
        play.broker_says(receipt("r"), at="b" if at == "a" else "a")
        play.client_gets(receipt("r"))
        play.both_stay()


def test_an_error_that_costs_the_quorum() -> None:
    """The client is told its receipt, who failed and why, and nobody else."""
    play = fanned(3, 2)
    play.client_says(send(receipt="r"))
    for each in "abc":
        play.broker_reads(at=each)
    play.broker_says(error("r", "disk full"), at="c")
    play.broker_says(receipt("r"), at="b")
    play.broker_says(error("r", "too large"), at="a")
    data = play.client_reads()
    assert data.startswith(b"ERROR\nmessage:the quorum cannot be reached\nreceipt-id:r\n")
    needs = b"upstream main needs 2 of 3 groups; failed: "
    assert needs + b"main-3 (it answered ERROR: disk full), main-1 (it answered ERROR: too large)" in data
    assert b"main-2" not in data
    play.client_is_closed()
    assert play.counters["errors_passed"] == 0


def test_a_broker_that_leaves_after_an_error() -> None:
    """What it refused is not said to it again; the rest is."""
    with fanned(quorum=1) as play:
        play.client_says(send(b"1", receipt="1") + send(b"2", receipt="2"))
        play.broker_reads(at="a")
        play.broker_reads(at="b")
        play.broker_says(error("1"), at="a")
        play.broker_goes(at="a")
        comes_back(play, "a")
        again = copied(2, send(b"2", receipt="2")).replace(b"SEND\n", b"SEND\nrelay-resent:true\n")
        play.broker_gets(again, at="a")
        play.broker_says(receipt("1", "2"), at="b")
        play.client_gets(receipt("1", "2"))


def test_an_error_of_one_alone() -> None:
    """A broker that goes wrong on its own is left and asked again; the client does not notice."""
    with subscribed(fanned()) as play:
        play.broker_says(message(b"1") + ERROR + message(b"2"), at="a")
        play.client_gets(message(b"1"))
        play.broker_is_closed(How.ABORT, at="a")
        assert "broker a is left: it answered ERROR: access refused" in [note.text for note in play.notes]
        assert play.counters["fanout_errors"] == 1
        comes_back(play, "a")
        assert play.broker_reads(at="a").startswith(b"SUBSCRIBE\n")
        play.broker_says(message(b"2"), at="a")
        play.client_gets(message(b"2"))


def test_an_error_again() -> None:
    """A second one, with nothing confirmed between, is the last."""
    with fanned() as play:
        play.broker_says(ERROR, at="a")
        comes_back(play, "a")
        play.broker_says(ERROR, at="a")
        assert "group main-1 is given up: it answered ERROR: access refused" in play.noted(Event.LOST)
        opened = len(play.opened)
        play.time_passes(10)
        assert len(play.opened) == opened
        play.client_says(send(b"1", receipt="r"))
        play.broker_gets(copied(1, send(b"1", receipt="r")), at="b")


def test_an_error_long_after_another() -> None:
    """With something confirmed between they do not add up."""
    with fanned() as play:
        for number in range(4):
            play.time_passes(1.5)
            play.broker_says(ERROR, at="a")
            comes_back(play, "a")
            play.client_says(send(b"1", receipt=f"{number}"))
            play.broker_reads(at="a")
            play.broker_reads(at="b")
            play.broker_says(receipt(f"{number}"), at="a")
            play.broker_says(receipt(f"{number}"), at="b")
            play.client_gets(receipt(f"{number}"))


def test_an_error_of_all() -> None:
    """The last of them is the client's, whole; the session ends with its broker."""
    play = fanned()
    play.broker_says(ERROR, at="a")
    play.broker_says(ERROR, at="b")
    play.client_gets(ERROR)
    assert play.client.closed is None
    play.broker_goes(at="b")
    play.client_is_closed()


def test_an_error_after_which_it_goes_on() -> None:
    """What a broker says afterwards shows that the ERROR was not its last word."""
    with subscribed(fanned()) as play:
        play.broker_says(ERROR, at="a")
        play.broker_says(ERROR, at="b")
        play.client_gets(ERROR)
        play.broker_says(message(b"1"), at="b")
        play.client_gets(message(b"1"))
        play.broker_goes(at="b")
        play.time_passes(SOON)
        assert play.client.closed is None
        assert play.counters["errors_passed"] == 1


def test_an_error_of_the_only_group_left() -> None:
    """There is nobody who thinks otherwise."""
    once = {"attempts": 0}
    play = fanned(options=once)
    play.broker_goes(at="a")
    play.time_passes(1)
    play.broker_says(ERROR, at="b")
    play.client_gets(ERROR)


def test_an_error_about_our_own_receipt() -> None:
    """The client is not told a receipt-id that it never gave."""
    front = listener(type(up := fan_out(2, confirm=True))("main", up.groups, confirm=True))
    play = begun(front)
    play.client_says(send(b"1"))
    for at in "ab":
        play.broker_reads(at=at)
        play.broker_says(error("relay-session-receipt-1"), at=at)
    play.client_gets(b"ERROR\nmessage:no\n\n\0")


def test_an_error_of_a_route() -> None:
    """A broker alone speaks for itself, and the session ends with it."""
    play = begun(routed(lasting("main", "a"), lasting("there", "b")), b"1.2", "a")
    play.client_says(send(b"1", b"/queue/there.1", receipt="r"))
    comes(play, "b")
    play.broker_reads(at="b")
    play.broker_says(error("r"), at="b")
    play.client_gets(error("r"))
    assert play.counters["errors_passed"] == 1
    play.broker_goes(at="b")
    play.client_is_closed()
    play.broker_is_closed(at="a")


def test_garbage_of_one() -> None:
    """What is not STOMP costs the broker that sent it its connection, and nobody else anything."""
    with subscribed(fanned()) as play:
        play.broker_says(message(b"1") + b"garbage\n\n\0", at="a")
        play.client_gets(message(b"1"))
        play.broker_is_closed(How.ABORT, at="a")
        comes_back(play, "a")
        assert play.broker_reads(at="a").startswith(b"SUBSCRIBE\n")


def test_garbage_of_a_route() -> None:
    """With one broker the session cannot go on."""
    play = begun(routed(lasting("main", "a"), lasting("there", "b")), b"1.2", "a")
    play.broker_says(b"garbage\n\n\0", at="a")
    play.client_gets_error(b"the broker sent what is not STOMP")


def test_an_error_of_a_group_with_two() -> None:
    """The next broker of the group is as good as the same one."""
    main = fan_out(2)
    groups = (group("main-1", "a", "c"), main.groups[1])
    with begun(listener(type(main)("main", groups)), b"1.2", "ab") as play:
        play.broker_says(ERROR, at="a")
        play.time_passes(SOON)
        comes(play, "c")
        play.client_says(send(b"1"))
        play.broker_gets(copied(1, send(b"1")), at="c")
        play.broker_gets(copied(1, send(b"1")), at="b")


def test_an_error_by_which_a_broker_goes_away() -> None:
    """It is nobody's fault: the client need not know, and the group is not blamed."""
    with fanned() as play:
        for _ in range(3):
            play.time_passes(1.5)
            play.broker_says(b"ERROR\nmessage:broker is shutting down\n\n\0", at="a")
            play.broker_goes(at="a")
            comes_back(play, "a")
        assert play.counters["errors_withheld"] == 3
        assert play.counters["fanout_errors"] == 0
