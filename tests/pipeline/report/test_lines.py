"""Lines that break where there is no value."""

from stomprelay.pipeline.report.findings import Span
from stomprelay.pipeline.report.plot import between, line, linear, lines, runs
from stomprelay.pipeline.report.text import SECOND
from tests.pipeline.report.outline import outline

SPAN = Span(0, 4 * SECOND, SECOND)
SCALE = linear([4])


def test_runs() -> None:
    """A zero is a value."""
    assert list(runs([None, 0, 1, None, None, 2])) == [[(1, 0), (2, 1)], [(5, 2)]]
    assert list(runs([None])) == list(runs([])) == []


def test_a_line() -> None:
    """Goes through the middle of its bins."""
    assert line(SPAN, SCALE, [1, 2, 3, 4]) == "M125 750L375 500L625 250L875 0"


def test_a_gap() -> None:
    """Breaks it; what stands alone is a dash."""
    assert line(SPAN, SCALE, [1, 2, None, 4]) == "M125 750L375 500M750 0H1000"


def test_the_area_between_two_lines() -> None:
    """Is where both are known."""
    made = outline(between(SPAN, SCALE, [1, 1, None, 1], [2, 3, 4, 2], "spread")).one("path")
    assert made.attributes == {
        "class": "between spread",
        "d": "M125 500L375 250L375 750L125 750ZM750 500L1000 500L1000 750L750 750Z",
    }


def test_several_lines() -> None:
    """Each with its class."""
    made = outline(lines(SPAN, SCALE, [("a", [1] * 4), ("b", [None] * 4)]))
    assert [path.attributes["class"] for path in made.all("path")] == ["line a", "line b"]
    assert made.all("path")[1].attributes["d"] == ""
