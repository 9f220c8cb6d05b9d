"""Layers on top of each other."""

from stomprelay.pipeline.report.findings import Span
from stomprelay.pipeline.report.plot import linear, stack, totals
from stomprelay.pipeline.report.text import SECOND
from tests.pipeline.report.outline import outline

SPAN = Span(0, 4 * SECOND, SECOND)


def test_layers() -> None:
    """The second begins where the first ends; equal neighbours are one step."""
    made = outline(stack(SPAN, linear([4]), [("c1", [1, 1, 2, 0]), ("c2", [1, 1, 2, 0])]))
    first, second = made.all("path")
    assert first.attributes == {
        "class": "area c1",
        "d": "M0 1000V750H500V500H750V1000H1000V1000H0Z",
    }
    assert second.attributes == {
        "class": "area c2",
        "d": "M0 750V500H500V0H750V1000H1000V1000H750V500H500V750H0Z",
    }


def test_a_layer_without_anything() -> None:
    """Is not drawn, and lifts nothing."""
    made = outline(stack(SPAN, linear([4]), [("c1", [0, 0, 0, 0]), ("c2", [4, 4, 4, 4])]))
    assert [path.attributes["d"] for path in made.all("path")] == ["M0 1000V0H1000V1000H0Z"]


def test_totals() -> None:
    """By bin."""
    assert totals([[1, 2], [3, 4]]) == [4, 6]
    assert totals([]) == []
