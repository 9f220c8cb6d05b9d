"""What belongs to a chart."""

from stomprelay.pipeline.report.figure import Figure, destination, swatch
from stomprelay.pipeline.report.findings import Rest
from tests.pipeline.report.outline import outline


def test_a_destination() -> None:
    """By its name, or in words of ours that no name can be taken for."""
    assert outline(destination("all others")).one("bdi").text == "all others"
    assert outline(destination(Rest.OTHERS)).one("i").text == "all others"
    assert outline(destination(None)).one("i").text == "none"


def test_a_swatch() -> None:
    """A colour is for the eye only."""
    made = outline(swatch("c3", destination("/queue/a")))
    assert made.one("span", "c3").attributes["aria-hidden"] == "true"
    assert made.text == "/queue/a"


def test_the_sheet_has_an_id() -> None:
    """By which the script finds it."""
    assert Figure("traffic", "Traffic", "").sheet_id == "traffic-sheet"
