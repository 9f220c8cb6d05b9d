"""Confirmed sending by the run: many SENDs in a chunk, their RECEIPTs in any portions and any order, and losses."""

import re

import pytest

from tests.playbook import Cut, Playbook, in_all_cuts, in_all_pairs
from tests.relay.failing import client_waits, found, link, started

SEND = b"SEND\ndestination:/queue/a\n\n%02d\0"
ASKING = b"SEND\ndestination:/queue/a\nreceipt:%b\n\n%02d\0"
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


@in_all_cuts
@in_all_pairs
def test_a_chunk_is_confirmed_in_portions(client: bytes, broker: bytes, cut: Cut) -> None:
    """Each SEND asks for a receipt of its own; the client sees none of them."""
    with started(client, broker, product="rabbitmq", cut=cut, confirm=True) as play:
        play.client_says(sends(1, 2, 3, 4, 5) + sends(6))
        assert reads(play) == [(number, number) for number in range(1, 7)]
        play.broker_says(ours(1, 2))
        play.broker_says(ours(3, 4, 5))
        assert link(play).uncertain == 1
        play.broker_says(ours(6))
        play.client_gets(b"")
        assert link(play).quiet


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
        assert link(play).uncertain == len(left)
        play.broker_goes()
        found(play, product=product)
        play.client_says(sends(6, 7))
        assert [body for _, body in reads(play)] == [*[-body for body in left], 6, 7]
        play.broker_says(ours(*range(6, 8 + len(left))))
        play.client_gets(b"")
        assert link(play).quiet
        assert play.counters["frames_resent"] == len(left)
        assert play.counters["possibly_lost"] == 0


def test_a_client_that_asks_for_a_receipt_of_ours() -> None:
    """It is given its own, and what the relay asked about before is confirmed first."""
    with started(confirm=True) as play:
        play.client_says(sends(1, 2) + ASKING % (b"relay-session-receipt-2", 3))
        play.broker_reads()
        play.broker_says(ours(1, 2))
        play.client_gets(ours(2))
        assert link(play).uncertain == 1
        play.broker_goes()
        found(play)
        assert reads(play) == [(2, -3)]


def test_receipts_in_runs_let_the_client_go_on() -> None:
    """When half of what may be unconfirmed is."""
    with started(confirm=True, resend_buffer=4 * len(SEND % 0)) as play:
        play.client_says(sends(1, 2, 3, 4))
        assert client_waits(play)
        play.broker_reads()
        play.broker_says(ours(1))
        assert client_waits(play)
        play.broker_says(ours(2, 3, 4))
        assert not client_waits(play)
