"""HTML and SVG made from values, and tables of them. Text that is not Markup yet is escaped."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup, escape

from stomprelay.pipeline.report.text import Micros, clock, iso, visible

_VOID: Final = frozenset(("br", "rect", "path", "line", "circle"))

Content = str | int | float | None


def tag(element: str, *children: Content, **attributes: Content | bool) -> Markup:
    """Return one element. The attribute `class_` is written `class`, `aria_label` is written `aria-label`;
    None and False leave an attribute out, True writes only its name.
    """
    written = "".join(
        f" {name.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{escape(value)}"')
        for name, value in attributes.items()
        if value is not None and value is not False
    )
    if element in _VOID and not children:
        return Markup(f"<{element}{written}/>")
    return Markup(f"<{element}{written}>{join(*children)}</{element}>")


def join(*children: Content) -> Markup:
    """Return the pieces in their order, without those that are None."""
    return Markup("").join(escape(child) for child in children if child is not None)


def name(text: str, title: str | None = None) -> Markup:
    """Return a name that a client chose as HTML: with invisible characters shown, escaped, and isolated from
    the direction of the text around it. `title`: shown when pointed at.
    """
    shown = visible(text)
    return tag("bdi", shown, class_="name", title=title or shown)


def when(at: Micros, form: str, **attributes: Content) -> Markup:
    """Return an instant (microseconds since 1970) as a `time` element, which the page's script can show in
    the reader's time zone. `form`: see `text.clock`.
    """
    return tag("time", clock(at, form), datetime=iso(at), data_form=form, **attributes)


def place(share: float) -> str:
    """Return a share from 0 to 1 as a percentage for CSS."""
    return f"{100 * share:.2f}".rstrip("0").rstrip(".") + "%"


def number(value: float) -> str:
    """Return a coordinate as text, rounded to a tenth."""
    return f"{value:.1f}".removesuffix(".0")


@dataclass(frozen=True)
class Column:
    """A column of a table: its heading, and whether it has `figures`, which are aligned right."""

    title: str
    figures: bool = False


@dataclass(frozen=True)
class Sheet:
    """A table. The first cell of each row is the row's heading. Cells that are not Markup are escaped."""

    caption: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[str | Markup]]

    def __html__(self) -> str:
        """Return the table as HTML, in a box that scrolls."""
        head = tag(
            "tr", *(tag("th", column.title, scope="col", class_=_kind(column)) for column in self.columns)
        )
        table = tag(
            "table",
            tag("caption", self.caption),
            tag("thead", head),
            tag("tbody", *(self._row(row) for row in self.rows)),
        )
        return str(tag("div", table, class_="scroll", role="region", aria_label=self.caption, tabindex="0"))

    def labels(self, which: str) -> str:
        """Return CSS that writes its heading in front of each cell, for where a row is shown as a list. `which`: the
        HTML id of the element that has the table.
        """
        return "".join(
            f"#{which} td:nth-child({place}):before{{content:{quoted(column.title)}}}"
            for place, column in enumerate(self.columns[1:], 2)
        )

    def _row(self, row: Sequence[str | Markup]) -> Markup:
        first, *rest = row
        lead, *columns = self.columns
        return tag(
            "tr",
            tag("th", first, scope="row", class_=_kind(lead)),
            join(
                *(tag("td", cell, class_=_kind(column)) for column, cell in zip(columns, rest, strict=True))
            ),
        )


def quoted(text: str) -> str:
    """Return text as a string of CSS that can stand in a `style` element: whatever it holds, it stays a string."""
    safe = (
        sign if sign.isascii() and (sign.isalnum() or sign in " -_.") else f"\\{ord(sign):x} "
        for sign in text
    )
    return f'"{"".join(safe)}"'


def _kind(column: Column) -> str | None:
    return "figures" if column.figures else None


def words(*titles: str) -> list[Column]:
    """Return columns of text with these headings."""
    return [Column(title) for title in titles]


def figures(*titles: str) -> list[Column]:
    """Return columns of figures with these headings."""
    return [Column(title, figures=True) for title in titles]
