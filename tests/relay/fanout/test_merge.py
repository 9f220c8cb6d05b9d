"""What brokers send, as the client receives it."""

import pytest

from stomprelay.session.effects import Event, How
from tests.relay.failing import STOPPING
from tests.relay.frames import copied, message, receipt, send
from tests.relay.several import SOON, begun, both_get, comes_back, fanned, lasting, routed, subscribed

ERROR = b"ERROR\nmessage:access refused\n\nwhy\0"


def error(receipt: str, message: str = "no") -> bytes:
    """An ERROR that names a receipt."""
    return f"ERROR\nreceipt-id:{receipt}\nmessage:{message}\n\n\0".encode()


# ERROR


def test_receipts_that_were_not_asked_for() -> None:
    """They do not pass, with a name or without; a broker alone in its upstream may send one without."""
    with fanned() as play:
        play.broker_says(receipt("x") + b"RECEIPT\n\n\0", at="a")
        play.client_gets(b"")
    with begun(routed(lasting("main", "a"), lasting("there", "b")), b"1.2", "a") as play:
        play.broker_tells_client(b"RECEIPT\n\n\0")


@pytest.mark.parametrize("at", ["a", "b"])
def test_an_error_is_no_confirmation(at: str) -> None:
    """The client gets its RECEIPT from the others, when they are enough; the log tells the ERROR."""
    with fanned(3, 2) as play:
        play.client_says(send(receipt="r"))
        for each in "abc":
            play.broker_reads(at=each)
        play.broker_says(error("r"), at=at)
        play.broker_says(receipt("r"), at="c")
        play.client_gets(b"")
        assert play.noted(Event.IGNORED) == f"group main-{'ab'.index(at) + 1}: it answered ERROR: no"
        assert play.counters["fanout_errors"] == 1
        play.broker_tells_client(receipt("r"), at="b" if at == "a" else "a")
        play.both_stay()


def test_an_error_that_costs_the_quorum() -> None:
    """The client is told its receipt, who failed and why, and none of the others."""
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


def test_an_error_of_one_alone() -> None:
    """A broker that goes wrong on its own, in STOMP or not, is left and sought again; the client hears nothing."""
    with subscribed(fanned()) as play:
        play.broker_tells_client(message(b"1") + ERROR + message(b"2"), message(b"1"), at="a")
        play.broker_is_closed(How.ABORT, at="a")
        assert "broker a is left: it answered ERROR: access refused" in [note.text for note in play.notes]
        assert play.counters["fanout_errors"] == 1
        comes_back(play, "a")
        assert play.broker_reads(at="a").startswith(b"SUBSCRIBE\n")
        play.broker_tells_client(message(b"2"), at="a")
    with subscribed(fanned()) as play:
        play.broker_tells_client(message(b"1") + b"garbage\n\n\0", message(b"1"), at="a")
        play.broker_is_closed(How.ABORT, at="a")
        comes_back(play, "a")
        assert play.broker_reads(at="a").startswith(b"SUBSCRIBE\n")


def test_an_error_of_one_after_the_other() -> None:
    """The client is told of a SEND that no broker takes; a MESSAGE behind an ERROR shows that a broker goes on."""
    with fanned() as play:
        play.client_says(send(b"1"))
        both_get(play, copied(1, send(b"1")))
        play.broker_says(ERROR, at="a")
        comes_back(play, "a")
        play.client_gets(b"")
        play.broker_tells_client(ERROR, at="b")
    with subscribed(fanned()) as play:
        play.broker_says(ERROR, at="a")
        play.broker_tells_client(ERROR, at="b")
        play.broker_tells_client(message(b"1"), at="b")
        play.broker_goes(at="b")
        play.time_passes(SOON)
        assert play.client.closed is None
        assert play.counters["errors_passed"] == 1


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
        play.client_tells_broker(send(b"1", receipt="r"), copied(1, send(b"1", receipt="r")), at="b")


def test_an_error_of_a_route() -> None:
    """The ERROR of a broker alone in its upstream passes, and the session ends with it."""
    play = begun(routed(lasting("main", "a"), lasting("there", "b")), b"1.2", "a")
    play.client_says(send(b"1", b"/queue/there.1", receipt="r"))
    play.broker_welcomes(at="b")
    play.broker_reads(at="b")
    play.broker_tells_client(error("r"), at="b")
    assert play.counters["errors_passed"] == 1
    play.broker_goes(at="b")
    play.client_is_closed()
    play.broker_is_closed(at="a")


def test_an_error_by_which_a_broker_goes_away() -> None:
    """It refuses nothing and is no count against the group, whose next broker is sent what it answered."""
    with fanned() as play:
        for _ in range(3):
            play.time_passes(1.5)
            play.broker_says(STOPPING, at="a")
            play.broker_goes(at="a")
            comes_back(play, "a")
        assert play.counters["errors_withheld"] == 3
        assert play.counters["fanout_errors"] == 0
    with fanned(quorum=2) as play:
        play.client_said(send(b"1", receipt="r"))
        play.broker_says(receipt("r"), at="b")
        play.broker_says(STOPPING.replace(b"\n\n", b"\nreceipt-id:r\n\n"), at="a")
        play.broker_is_closed(How.ABORT, at="a")
        comes_back(play, "a")
        assert b"relay-resent:true\n" in play.broker_reads(at="a")
        play.client_gets(b"")
        play.broker_tells_client(receipt("r"), at="a")
        assert (play.counters["errors_withheld"], play.counters["brokers_lost"]) == (1, 1)
        assert play.counters["fanout_errors"] == 0
