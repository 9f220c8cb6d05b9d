"""A table of the page: what a chart shows, in figures, or a list of its own."""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from stomprelay.pipeline.report.markup import join, tag


@dataclass(frozen=True)
class Column:
    """Its heading; figures are set to the right."""

    title: str
    figures: bool = False


@dataclass(frozen=True)
class Sheet:
    """The first cell of each row is the row's heading. Cells that are not Markup are escaped."""

    caption: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[str | Markup]]

    def __html__(self) -> str:
        """As HTML: a table in a box that scrolls sideways where the page is narrow."""
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


def _kind(column: Column) -> str | None:
    return "figures" if column.figures else None


def words(*titles: str) -> list[Column]:
    """Columns of text."""
    return [Column(title) for title in titles]


def figures(*titles: str) -> list[Column]:
    """Columns of figures."""
    return [Column(title, figures=True) for title in titles]
