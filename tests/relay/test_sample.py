"""Sessions that are watched: how long their clients wait for a RECEIPT, and their brokers for an ACK."""

import pytest

from stomprelay.relay import inputs, sample
from stomprelay.relay.model.counters import ACK, RECEIPT
from stomprelay.relay.sample import Looks
from tests.playbook import Cut, Playbook, in_all_pairs, joined
from tests.relay.frames import send, settle
from tests.relay.several import THERE, two_upstreams

SEND = b"SEND\ndestination:/queue/a\nreceipt:r%d\n\nx\0"
CONFIRMED = b"RECEIPT\nreceipt-id:r%d\n\n\0"
PLAIN = b"SEND\ndestination:/queue/a\n\nx\0"


def watched(play: Playbook, looks: int = 1000) -> Looks:
    """From now on."""
    found = Looks(looks)
    play._perform(play.relay.handle(inputs.Watched(found), play.now))
    assert play.relay.watched
    return found


def took(play: Playbook) -> list[tuple[str, str, float]]:
    """What was measured since the client was connected, with the seconds rounded."""
    return [
        (each.name, each.label, round(each.seconds, 6)) for each in play.took if each.name in (ACK, RECEIPT)
    ]


def looked_after(play: Playbook, seconds: float = 0.0) -> None:
    """So long later somebody looks whether it still has to be watched."""
    play.time_passes(seconds)
    play._perform(play.relay.handle(inputs.Looked(), play.now))


def subscribe(ack: bytes) -> bytes:
    """In each version."""
    return b"SUBSCRIBE\nid:1\ndestination:/queue/a\nack:%b\n\n\0" % ack


def message(number: int, version: bytes) -> bytes:
    """In each version."""
    names = {
        b"1.0": b"message-id:m%d\n" % number,
        b"1.1": b"subscription:1\nmessage-id:m%d\n" % number,
        b"1.2": b"subscription:1\nmessage-id:m%d\nack:a%d\n" % (number, number),
    }
    return b"MESSAGE\n%bdestination:/queue/a\n\nx\0" % names[version]


def ack(play: Playbook, version: bytes, command: bytes = b"ACK") -> bytes:
    """The ACK of the last MESSAGE that the client got."""
    return settle(version, command, play.client_reads().split(b"\0")[-2])


@pytest.mark.parametrize("cut", [Cut.WHOLE, Cut.OCTETS, Cut.PASSED])
@in_all_pairs
def test_from_a_send_to_its_receipt(client: bytes, broker: bytes, cut: Cut) -> None:
    """Of the next SEND that asks for one, whatever comes between, until the RECEIPT is sent on."""
    play = joined(client, broker, cut=cut)
    watched(play)
    play.client_says(PLAIN + SEND % 1 + SEND % 2)
    play.time_passes(0.25)
    play.broker_says(CONFIRMED % 2)
    play.time_passes(0.25)
    play.broker_says(CONFIRMED % 1)
    assert took(play) == [(RECEIPT, "main", 0.5)]


def test_an_ack_that_covers_it() -> None:
    """Where an ACK is of all before it, too, it is the next one on the same subscription."""
    play = joined(b"1.2", b"1.2")
    play.client_says(subscribe(b"client") + subscribe(b"client").replace(b"id:1", b"id:2"))
    watched(play)
    play.broker_says(message(1, b"1.2"))
    play.time_passes(0.25)
    play.broker_says(message(2, b"1.2").replace(b"subscription:1", b"subscription:2"))
    play.client_says(ack(play, b"1.2"))
    assert took(play) == []
    play.broker_says(message(3, b"1.2"))
    play.time_passes(0.25)
    play.client_says(ack(play, b"1.2", b"NACK"))
    assert took(play) == [(ACK, "public", 0.5)]


def test_a_route_has_its_own_upstream() -> None:
    """The time is that of the upstream that the destination leads to."""
    play = two_upstreams()
    watched(play)
    play.client_says(send(b"", THERE, receipt="r1"))
    play.time_passes(0.5)
    play.broker_says(CONFIRMED % 1, at="b")
    assert took(play) == [(RECEIPT, "there", 0.5)]


def test_nothing_passes_meanwhile() -> None:
    """Frames come by, until there is a sample of both, or nothing to be one."""
    play = joined(b"1.2", b"1.2", cut=Cut.PASSED)
    play.client_says(PLAIN)
    assert play.passing
    watched(play)
    assert not play.passing
    play.client_says(SEND % 1)
    play.broker_says(CONFIRMED % 1)
    assert not play.passing
    looked_after(play, sample.BEGIN)
    assert play.relay.watched
    looked_after(play, 0.1)
    assert play.passing
    assert not play.relay.watched


def test_what_takes_too_long_counts_as_long() -> None:
    """Else the worst of all would be missing."""
    play = joined(b"1.2", b"1.2")
    play.client_says(subscribe(b"client"))
    watched(play)
    play.client_says(SEND % 1)
    play.broker_says(message(1, b"1.2"))
    looked_after(play, sample.LONGEST)
    assert play.relay.watched
    looked_after(play, 1.0)
    assert took(play) == [(RECEIPT, "main", sample.LONGEST + 1), (ACK, "public", sample.LONGEST + 1)]
    assert not play.relay.watched


def test_enough_was_looked_at() -> None:
    """Frames are looked at as long as there are looks left, of all sessions together; no more than may be are given."""
    play = joined(b"1.2", b"1.2")
    looks = watched(play, 10)
    play.client_says(SEND % 1 + PLAIN * 4)
    assert looks.left == 5
    play.client_says(PLAIN * 5)
    assert not play.relay.watched
    play.broker_says(CONFIRMED % 1)
    assert took(play) == []
    looks = Looks(5)
    looks.add(3, 10)
    assert looks.left == 8
    looks.add(3, 10)
    assert looks.left == 10
