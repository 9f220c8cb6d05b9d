"""What may be sent straight on, past the relay: while nothing else is to be done, and no longer."""

import pytest

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
    play.client_tells_broker(SEND)
    assert passing(play) == {"client", "broker"}


@in_all_pairs
def test_plain_heads_pass_between_all_versions(client: bytes, broker: bytes) -> None:
    """A SEND whose head means the same everywhere."""
    with joined(client, broker, cut=Cut.PASSED) as play:
        begin(play)
        say(play, SEND * 3, 3)
        assert play.counters["client_frames"] == 4
        assert play.counters["client_bytes"] >= 4 * len(SEND)


def test_half_a_frame_or_an_error_ends_it() -> None:
    """Until the rest of the frame has come, or the broker goes on, for what comes next has to be known."""
    with joined(b"1.2", b"1.2", cut=Cut.PASSED) as play:
        begin(play)
        play.client_says(SEND[:9])
        assert passing(play) == {"broker"}
        play.client_tells_broker(SEND[9:], SEND)
        assert passing(play) == {"client", "broker"}
    with joined(b"1.2", b"1.2", cut=Cut.PASSED) as play:
        play.broker_tells_client(b"ERROR\nmessage:no\n\n\0")
        assert passing(play) == set()
        play.broker_tells_client(message(1))
        assert passing(play) == {"client", "broker"}


@keeps_names
def test_deliveries_that_passed_are_accounted_for() -> None:
    """After a loss, the ACK of a lost broker's message goes to nobody, and its receipt is given."""
    with started(cut=Cut.PASSED) as play:
        play.client_tells_broker(SUBSCRIBE)
        play.broker_says(message(1) + message(2))
        assert play.passed == 2
        play.client_gets(message(1) + message(2))
        say(play, b"ACK\nid:a1\n\n\0")
        play.broker_goes()
        assert passing(play) == set()
