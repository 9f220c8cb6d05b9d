"""Confirmed sending by the run: many SENDs in a chunk, their RECEIPTs in any portions and any order, and losses."""

import re

import pytest

from tests.playbook import Cut, Playbook, in_all_cuts
from tests.relay.failing import found, link, started

SEND = b"SEND\ndestination:/queue/a\n\n%02d\0"
RECEIPT = b"RECEIPT\nreceipt-id:%b\n\n\0"

in_all_products = pytest.mark.parametrize("product", ["generic", "rabbitmq"])


def sends(*bodies: int) -> bytes:
    """SENDs of one chunk."""
    return b"".join([SEND % body for body in bodies])


def ours(*numbers: int) -> bytes:
    """RECEIPTs of one chunk, of the relay's own."""
    return b"".join([RECEIPT % (b"relay-session-receipt-%d" % number) for number in numbers])


def reads(play: Playbook) -> list[tuple[int, int]]:
    """What the broker reads of SENDs: the number in the receipt that each asks for, 0 for the client's, and its body;
    the body below zero where it is marked as sent again.
    """
    told = []
    for frame in play.broker_reads().split(b"\0")[:-1]:
        number = re.search(rb"\nreceipt:relay-session-receipt-(\d+)\n", frame)
        body = int(frame.rpartition(b"\n")[2])
        told.append((int(number[1]) if number else 0, -body if b"\nrelay-resent:true\n" in frame else body))
    return told


@in_all_products
@pytest.mark.parametrize(
    ("received", "left"),
    [
        ((), (1, 2, 3, 4, 5)),
        ((1, 2), (3, 4, 5)),
        ((2, 4), (1, 3, 5)),
        ((5, 4, 3), (1, 2)),
        ((1, 1, 1), (2, 3, 4, 5)),
        ((99, 1, 2), (3, 4, 5)),
        ((1, 2, 3, 4, 5, 6), ()),
    ],
)
@in_all_cuts
def test_a_loss_in_the_middle_of_a_chunk(
    product: str, received: tuple[int, ...], left: tuple[int, ...], cut: Cut
) -> None:
    """What no RECEIPT named is sent again, in order and marked, before what comes then."""
    with started(product=product, cut=cut, confirm=True) as play:
        play.client_says(sends(1, 2, 3, 4, 5))
        play.broker_reads()
        play.broker_says(ours(*received))
        resender = link(play).resender
        assert resender is not None
        assert resender.unconfirmed.sends == len(left)
        play.broker_goes()
        found(play, product=product)
        play.client_says(sends(6, 7))
        assert [body for _, body in reads(play)] == [*[-body for body in left], 6, 7]
        play.broker_says(ours(*range(6, 8 + len(left))))
        play.client_gets(b"")
        assert link(play).quiet
        assert play.counters["frames_resent"] == len(left)
        assert play.counters["possibly_lost"] == 0
