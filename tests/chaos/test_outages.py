"""What outages explain."""

import pytest

from chaos.outages import Outages, Span


def _outages(*brokers: list[Span]) -> Outages:
    made = Outages(len(brokers))
    for number, spans in enumerate(brokers):
        for began, ended in spans:
            made.began(number, began)
            made.ended(number, ended)
    return made


@pytest.mark.parametrize(
    ("spans", "well"),
    [
        ([], 10.0),
        ([(0.0, 1.0), (90.0, 99.0)], 10.0),
        ([(10.0, 20.0)], 0.0),
        ([(12.0, 15.0)], 5.0),
        ([(5.0, 13.0), (14.0, 18.0)], 2.0),
        ([(18.0, 30.0)], 8.0),
    ],
)
def test_how_long_a_broker_was_well(spans: list[Span], well: float) -> None:
    """Between 10 and 20 s, at a stretch."""
    assert _outages(spans).well((10.0, 20.0)) == well


def test_one_that_is_well_is_enough() -> None:
    """Sessions need a broker, whichever it is."""
    assert _outages([(10.0, 20.0)], [(10.0, 13.0)]).well((10.0, 20.0)) == 7.0


def test_a_wait_without_a_reason() -> None:
    """It went on though a broker was well; one that ends soon after, or that was short, is explained."""
    outages = _outages([(10.0, 20.0), (28.0, 40.0)])
    waits = [(10.0, 21.0), (10.0, 27.0), (20.0, 23.0)]
    assert outages.unexplained(waits, 5.0) == [(10.0, 27.0)]
