"""Which rows are confirmed."""

from hypothesis import given
from hypothesis import strategies as st

from stomprelay.pipeline.stomp.sending import Window


def test_each_row_asks_for_a_receipt_of_its_own() -> None:
    """Where receipts vouch for one row each; out of order they mean nothing until the gap closes."""
    window = Window(3, 1)
    assert [window.sent() for _ in range(3)] == [b"0", b"1", b"2"]
    assert window.room == 0
    window.received(b"2", cumulative=False)
    window.received(b"1", cumulative=False)
    assert (window.room, window.confirmed, window.stuck) == (0, 0, False)
    window.received(b"0", cumulative=False)
    assert (window.room, window.confirmed) == (3, 3)


def test_one_receipt_may_vouch_for_several() -> None:
    """Where brokers confirm all before it."""
    window = Window(8, 3, first=10)
    assert [window.sent() for _ in range(4)] == [None, None, b"12", None]
    window.received(b"12", cumulative=True)
    assert (window.room, window.confirmed, window.next) == (7, 13, 14)
    window.settled()
    assert (window.room, window.confirmed) == (8, 14)


def test_a_receipt_of_another_broker_vouches_for_one_alone() -> None:
    """After a failover to a broker that confirms rows one by one nothing is safe until it has confirmed all."""
    window = Window(8, 2)
    for _ in range(6):
        window.sent()
    window.received(b"3", cumulative=False)
    assert not window.stuck
    window.received(b"1", cumulative=True)
    assert (window.room, window.confirmed, window.stuck) == (4, 2, True)
    window.received(b"5", cumulative=True)
    assert (window.room, window.confirmed, window.stuck) == (4, 2, True)
    window.settled()
    assert (window.room, window.confirmed, window.stuck) == (8, 6, False)


def test_what_was_not_asked_for_means_nothing() -> None:
    """Strange receipts, and those that come twice."""
    window = Window(4, 1)
    window.sent()
    for receipt in (b"bye", b"7", b"0", b"0"):
        window.received(receipt, cumulative=True)
    assert (window.room, window.confirmed) == (4, 1)


@given(st.integers(1, 5), st.permutations(range(20)))
def test_the_position_is_the_first_row_without_a_receipt(every: int, order: list[int]) -> None:
    """In whatever order receipts come."""
    window = Window(100, every)
    asked = {number: receipt for number in range(20) if (receipt := window.sent()) is not None}
    got: set[int] = set()
    for number in order:
        if number in asked:
            got.add(number)
            window.received(asked[number], cumulative=True)
            ends = sorted(asked)
            first = next((end for end in ends if end not in got), None)
            expected = (ends[-1] + 1) if first is None else first - every + 1
            assert window.confirmed == expected
