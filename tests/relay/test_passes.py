"""What may be sent straight on, past the relay: while nothing else is to be done, and no longer."""

import pytest

from stomprelay.session.heartbeat import Terms
from stomprelay.session.recent import COMPILED
from tests.playbook import Cut, Playbook, in_all_pairs, joined
from tests.relay.failing import started

keeps_names = pytest.mark.skipif(COMPILED is None, reason="not built, or not wanted")
SEND = b"SEND\ndestination:/queue/a\n\nx\0"
SUBSCRIBE = b"SUBSCRIBE\nid:1\ndestination:/queue/a\nack:client-individual\n\n\0"


def message(number: int) -> bytes:
    """A MESSAGE of a subscription that wants ACKs."""
    return b"MESSAGE\nsubscription:1\nmessage-id:m%d\nack:a%d\ndestination:/queue/a\n\nx\0" % (number, number)


def passing(play: Playbook) -> set[str]:
    """Whose frames may pass."""
    return {leg.side.value for leg in play.passing}


def say(play: Playbook, data: bytes, frames: int = 1) -> None:
    """The client says frames that pass without the relay, and the broker gets them."""
    before = play.passed
    play.client_says(data)
    assert play.passed == before + frames
    play.broker_gets(data)


def begin(play: Playbook) -> None:
    """The client says its first frame: from then on frames pass."""
    assert passing(play) == set()
    play.client_says(SEND)
    play.broker_gets(SEND)
    assert passing(play) == {"client", "broker"}


def test_nothing_passes_before_the_first_frame() -> None:
    """Many sessions only wait: nothing is made ready for them."""
    with joined(b"1.2", b"1.2", cut=Cut.PASSED) as play:
        play.client_says(b"\n")
        play.broker_says(b"\n")
        begin(play)


@in_all_pairs
def test_plain_heads_pass_between_all_versions(client: bytes, broker: bytes) -> None:
    """A SEND whose head means the same everywhere."""
    with joined(client, broker, cut=Cut.PASSED) as play:
        begin(play)
        say(play, SEND * 3, 3)
        assert play.counters["client_frames"] == 4
        assert play.counters["client_bytes"] >= 4 * len(SEND)


def test_what_needs_a_look_comes_to_the_relay() -> None:
    """A chunk passes up to the first such frame; what is behind it follows it."""
    with joined(b"1.2", b"1.2", cut=Cut.PASSED) as play:
        begin(play)
        forged = b"SEND\ndestination:/queue/a\nmessage-id:1\n\nx\0"
        play.client_says(SEND + forged + SEND)
        assert play.passed == 1
        play.broker_gets(SEND + b"SEND\ndestination:/queue/a\n\nx\0" + SEND)


def test_half_a_frame() -> None:
    """Until the rest of it has come nothing passes it."""
    with joined(b"1.2", b"1.2", cut=Cut.PASSED) as play:
        begin(play)
        play.client_says(SEND[:9])
        assert passing(play) == {"broker"}
        play.client_says(SEND[9:])
        play.broker_gets(SEND)
        assert passing(play) == {"client", "broker"}


def test_a_receipt_is_owed_and_given() -> None:
    """A DISCONNECT waits for the receipts of what passed, and for no others."""
    asked = b"SEND\ndestination:/queue/a\nreceipt:r\n\nx\0"
    with joined(b"1.2", b"1.2", cut=Cut.PASSED) as play:
        begin(play)
        say(play, asked)
        play.broker_says(b"RECEIPT\nreceipt-id:r\n\n\0")
        play.client_gets(b"RECEIPT\nreceipt-id:r\n\n\0")
        say(play, asked)
        play.client_says(b"DISCONNECT\n\n\0")
        play.broker_gets(b"")
        play.broker_says(b"RECEIPT\nreceipt-id:r\n\n\0")
        play.client_gets(b"RECEIPT\nreceipt-id:r\n\n\0")
        play.broker_gets(b"DISCONNECT\n\n\0")
        assert passing(play) == set()


def test_an_error_ends_it_until_the_broker_goes_on() -> None:
    """What comes behind an ERROR has to be known."""
    with joined(b"1.2", b"1.2", cut=Cut.PASSED) as play:
        play.broker_says(b"ERROR\nmessage:no\n\n\0")
        play.client_gets(b"ERROR\nmessage:no\n\n\0")
        assert passing(play) == set()
        play.broker_says(message(1))
        play.client_gets(message(1))
        assert passing(play) == {"client", "broker"}


@keeps_names
def test_deliveries_that_passed_are_accounted_for() -> None:
    """After a loss, the ACK of a lost broker's message goes to nobody, and its receipt is given."""
    with started(cut=Cut.PASSED) as play:
        play.client_says(SUBSCRIBE)
        play.broker_gets(SUBSCRIBE)
        play.broker_says(message(1) + message(2))
        assert play.passed == 2
        play.client_gets(message(1) + message(2))
        say(play, b"ACK\nid:a1\n\n\0")
        play.broker_goes()
        assert passing(play) == set()


@keeps_names
def test_who_owes_too_many_acks() -> None:
    """The relay sees when it is enough, and stops reading from the broker."""
    with started(cut=Cut.PASSED, front={"unacknowledged": 3}) as play:
        play.client_says(SUBSCRIBE)
        play.broker_gets(SUBSCRIBE)
        for number in range(3):
            play.broker_says(message(number))
            play.client_gets(message(number))
        assert play.passed == 2
        assert (play.broker.paused, passing(play)) == (True, set())
        play.client_says(b"ACK\nid:a0\n\n\0ACK\nid:a1\n\n\0")
        play.broker_gets(b"ACK\nid:a0\n\n\0ACK\nid:a1\n\n\0")
        assert (play.broker.paused, passing(play)) == (False, {"client", "broker"})


@keeps_names
def test_what_has_to_be_confirmed_comes_to_the_relay() -> None:
    """It asks for a receipt, which concerns nobody else, and keeps the SEND; ACKs pass."""
    with started(cut=Cut.PASSED, confirm=True) as play:
        play.client_says(SUBSCRIBE)
        play.broker_gets(SUBSCRIBE)
        play.broker_says(message(1))
        play.client_gets(message(1))
        say(play, b"ACK\nid:a1\n\n\0")
        before = play.passed
        play.client_says(SEND)
        asked = play.broker_reads().split(b"receipt:")[1].split(b"\n")[0]
        play.broker_says(b"RECEIPT\nreceipt-id:%b\n\n\0" % asked)
        play.client_gets(b"")
        assert play.passed == before


def test_heart_beats_count_what_passed() -> None:
    """Who sends what passes is not silent, and who was sent it needs no beat."""
    terms = Terms(1000, 1000)
    with joined(b"1.2", b"1.2", cut=Cut.PASSED, hello=b"heart-beat:1000,1000\n", heart_beat=terms) as play:
        begin(play)
        for _ in range(8):
            play.time_passes(0.4)
            say(play, SEND)
        assert play.counters["beats_missed"] == 0
        play.client_reads_all()


def test_what_passes_is_activity() -> None:
    """As any frame is, and beats are not."""
    with Playbook() as play:
        assert play.relay.active_at is None
    with joined(b"1.2", b"1.2", cut=Cut.PASSED) as play:
        begin(play)
        play.time_passes(5)
        say(play, SEND)
        at = play.now
        for who in (play.client_says, play.broker_says, play.client_says):
            play.time_passes(5)
            who(b"\n")
            assert play.relay.active_at == at
