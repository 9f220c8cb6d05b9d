"""A table of the page."""

import pytest

from stomprelay.pipeline.report.markup import Column, Sheet, figures, tag, words
from tests.pipeline.report.outline import cells, outline


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


def test_a_row_of_another_length() -> None:
    """Is a mistake of ours."""
    with pytest.raises(ValueError, match="shorter"):
        Sheet("x", [Column("a"), Column("b")], [["only one"]]).__html__()
