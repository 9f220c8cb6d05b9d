"""A loss."""

from stomprelay.pipeline.match.outages import OUTAGE, BrokerLoss


def test_its_row_is_one_of_outages() -> None:
    """Column by column."""
    loss = BrokerLoss("me", "main", "a", 5, planned=True)
    loss.stale()
    row = dict(zip(OUTAGE.names, loss.row("relay", "s"), strict=True))
    assert (row["broker"], row["lost_ns"], row["recovered_ns"], row["planned"]) == ("a", 5, None, True)
    assert (row["stale_acks"], row["given_up"], row["moved_to"]) == (1, False, None)


def test_when_it_is_over() -> None:
    """When another broker is there, or will never be."""
    first, second = (BrokerLoss(None, None, "a", 5, planned=False) for _ in range(2))
    assert (first.over, first.ended_ns) == (False, 5)
    first.recovered("b", 7, 1)
    second.gave_up()
    assert (first.over, first.ended_ns, second.over, second.ended_ns) == (True, 7, True, 5)


def test_it_goes_on_in_the_next_batch() -> None:
    """What was told is not new then."""
    loss = BrokerLoss("me", "main", "a", 5, planned=True)
    loss.recovered("b", 7, 3)
    again = BrokerLoss.load(loss.dump())
    assert (again.dump(), again.dirty, loss.dirty) == (loss.dump(), False, True)
