"""HTML and SVG from values."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import Markup

from stomprelay.pipeline.report.markup import (
    Column,
    Sheet,
    figures,
    join,
    name,
    number,
    place,
    quoted,
    tag,
    when,
    words,
)
from tests.pipeline.report.outline import cells, outline
from tests.pipeline.report.sample import BEGIN, HOSTILE


def test_a_tag() -> None:
    """Text and attributes are escaped, markup is not, and what is None is left out."""
    made = tag("p", "a<b", None, tag("b", 1), class_="x", aria_label='"', hidden=True, title=None, open=False)
    assert made == '<p class="x" aria-label="&#34;" hidden>a&lt;b<b>1</b></p>'


def test_an_empty_element() -> None:
    """Shapes need no closing tag."""
    assert tag("path", d="M0 0") == '<path d="M0 0"/>'


def test_join() -> None:
    """Keeps markup and escapes text."""
    assert join("<", Markup("<br>"), None, 5) == "&lt;<br>5"


@pytest.mark.parametrize("text", HOSTILE)
def test_a_name(text: str) -> None:
    """Is text only, in an element that keeps its direction to itself."""
    made = outline(name(text)).one("bdi")
    assert made.children == []
    assert made.attributes["title"] == made.text
    assert "\u202e" not in made.text


@given(st.text(), st.text())
def test_whatever_text_comes_out_as_it_was(text: str, attribute: str) -> None:
    """No text becomes markup."""
    made = outline(tag("p", "x", text, title="x" + attribute)).one("p")
    assert made.children == []
    assert made.text.replace("\r", "\n") == "x" + text.replace("\r", "\n")
    assert made.attributes["title"] == "x" + attribute


def test_a_time() -> None:
    """For people, and for the script."""
    made = outline(when(BEGIN, "hour", style="left:0%")).one("time")
    assert made.text == "08:00"
    assert made.attributes == {
        "datetime": "2026-11-21T08:00:00.000Z",
        "data-form": "hour",
        "style": "left:0%",
    }


@pytest.mark.parametrize(
    ("share", "said"), [(0, "0%"), (1, "100%"), (1 / 3, "33.33%"), (0.125, "12.5%"), (0.1, "10%")]
)
def test_a_place(share: float, said: str) -> None:
    """As CSS takes it."""
    assert place(share) == said


def test_a_coordinate() -> None:
    """To a tenth."""
    assert [number(value) for value in (0, 1.04, 333.333, 999.99)] == ["0", "1", "333.3", "1000"]


def test_a_table() -> None:
    """Has a caption, headings for columns and rows, and can be scrolled with the keyboard."""
    rows = [["<a>", "1"], [tag("b", "b"), "2"]]
    made = outline(Sheet("Things & more", [*words("Thing"), *figures("Number")], rows).__html__())
    box = made.one("div", "scroll")
    assert (box.attributes["tabindex"], box.attributes["role"]) == ("0", "region")
    assert box.attributes["aria-label"] == made.one("caption").text == "Things & more"
    assert [(head.text, head.attributes.get("class")) for head in made.one("thead").all("th")] == [
        ("Thing", None),
        ("Number", "figures"),
    ]
    assert cells(made) == [["<a>", "1"], ["b", "2"]]
    assert [head.attributes["scope"] for head in made.all("th")] == ["col", "col", "row", "row"]


def test_labels() -> None:
    """CSS that writes the heading of each cell but the row's own in front of it."""
    sheet = Sheet("x", words("Time", "/queue/a", "Silence, median"), [])
    assert sheet.labels("traffic-sheet") == (
        r'#traffic-sheet td:nth-child(2):before{content:"\2f queue\2f a"}'
        r'#traffic-sheet td:nth-child(3):before{content:"Silence\2c  median"}'
    )


@given(st.text())
def test_whatever_text_is_a_string_of_css(text: str) -> None:
    """Nothing in it ends the string, the rule or the element that it stands in; it reads as it was."""
    made = quoted(text)
    assert re.fullmatch(r'"[A-Za-z0-9 _.\\-]*"', made)
    assert re.sub(r"\\([0-9a-f]+) ", lambda found: chr(int(found[1], 16)), made[1:-1]) == text


def test_a_row_of_another_length() -> None:
    """Is a mistake of ours."""
    with pytest.raises(ValueError, match="shorter"):
        Sheet("x", [Column("a"), Column("b")], [["only one"]]).__html__()
