"""A chart or list of the page with its text, legend and table, and the colour of each destination."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from stomprelay.pipeline.report.findings import Name, Rest
from stomprelay.pipeline.report.markup import Sheet, name, tag

COLOURS: Final = 6
"""How many destinations have a colour of their own; more could not be told apart."""
OTHERS: Final = "c0"


class Palette:
    """Assigns the CSS classes `c1` to `c6` to the first names, and `c0` to all others."""

    def __init__(self, names: Iterable[Name]) -> None:
        named = [name for name in dict.fromkeys(names) if isinstance(name, str)]
        self._colours = {name: f"c{rank}" for rank, name in enumerate(named[:COLOURS], 1)}

    def of(self, name: Name) -> str:
        """Return the CSS class of a destination's colour."""
        return self._colours.get(name, OTHERS) if isinstance(name, str) else OTHERS


@dataclass(frozen=True)
class Key:
    """An entry of a legend: the CSS class of its colour, and its text."""

    kind: str
    label: str | Markup


@dataclass(frozen=True)
class Figure:
    """A section of the page. `note`: one sentence on what it shows. `sheet`: a table with all that its chart shows,
    visible at once if `open`, else on request; `listing`: a table beside the chart, always visible. If there is nothing
    to show, `body` is None and `note` says so.
    """

    key: str
    title: str
    note: str | Markup
    body: Markup | None = None
    legend: Sequence[Key] = ()
    sheet: Sheet | None = None
    open: bool = False
    remark: str = ""
    listing: Sheet | None = None

    @property
    def listing_id(self) -> str:
        """Return the HTML id of the element with the listing."""
        return f"{self.key}-listing"

    @property
    def labels(self) -> str:
        """Return the CSS that the tables need where the page is narrow."""
        tables = ((self.sheet_id, self.sheet), (self.listing_id, self.listing))
        return "".join(sheet.labels(which) for which, sheet in tables if sheet is not None)

    @property
    def sheet_id(self) -> str:
        """Return the HTML id of the element with the sheet."""
        return f"{self.key}-sheet"


def destination(which: Name) -> Markup:
    """Return a destination's name as HTML for legends and tables."""
    if isinstance(which, str):
        return name(which)
    return tag("i", "all others" if isinstance(which, Rest) else "none")


def swatch(colour: str, label: Markup) -> Markup:
    """Return a label as HTML with its colour before it."""
    return tag("span", tag("span", class_=f"swatch {colour}", aria_hidden="true"), label, class_="keyed")
