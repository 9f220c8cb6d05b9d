"""One chart or list of the page with all that belongs to it, and each destination's colour."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from stomprelay.pipeline.report.findings import Name, Rest
from stomprelay.pipeline.report.markup import Sheet, name, tag

COLOURS: Final = 6
"""Destinations with a colour of their own: more could not be distinguished."""
OTHERS: Final = "c0"


class Palette:
    """Gives the colours `c1` to `c6` to the first names, and `c0` to all others."""

    def __init__(self, names: Iterable[Name]) -> None:
        named = [name for name in dict.fromkeys(names) if isinstance(name, str)]
        self._colours = {name: f"c{rank}" for rank, name in enumerate(named[:COLOURS], 1)}

    def of(self, name: Name) -> str:
        """The class for a destination."""
        return self._colours.get(name, OTHERS) if isinstance(name, str) else OTHERS


@dataclass(frozen=True)
class Key:
    """An entry of a legend: a colour's class and what it stands for."""

    kind: str
    label: str | Markup


@dataclass(frozen=True)
class Figure:
    """`note` says in a sentence what there is to see. `sheet` is the same in figures: shown at once where it is
    `open`, else on request. Without anything to show, `body` is empty and `note` says so.
    """

    key: str
    title: str
    note: str | Markup
    body: Markup | None = None
    legend: Sequence[Key] = ()
    sheet: Sheet | None = None
    open: bool = False
    remark: str = ""

    @property
    def sheet_id(self) -> str:
        """Of the element that holds the sheet."""
        return f"{self.key}-sheet"


def destination(which: Name) -> Markup:
    """A destination as legends and tables show it."""
    if isinstance(which, str):
        return name(which)
    return tag("i", "all others" if isinstance(which, Rest) else "none")


def swatch(colour: str, label: Markup) -> Markup:
    """A label with its colour before it."""
    return tag("span", tag("span", class_=f"swatch {colour}", aria_hidden="true"), label, class_="keyed")
