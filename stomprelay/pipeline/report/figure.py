"""One chart or list of the page, with all that belongs to it."""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from stomprelay.pipeline.report.findings import Name, Rest
from stomprelay.pipeline.report.markup import name, tag
from stomprelay.pipeline.report.sheet import Sheet


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
    """A destination as legends and tables say it."""
    if isinstance(which, str):
        return name(which)
    return tag("i", "all others" if isinstance(which, Rest) else "none")


def swatch(colour: str, label: Markup) -> Markup:
    """A label with its colour before it."""
    return tag("span", tag("span", class_=f"swatch {colour}", aria_hidden="true"), label, class_="keyed")
