"""What a replay would send, without sending it."""

from typing import TYPE_CHECKING, Final, NamedTuple, TextIO

from stomprelay.pipeline.commands.query import failing
from stomprelay.pipeline.replay.selection import FATES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_HEAD: Final = ("destination", "messages", "octets", "first", "last")


class Line(NamedTuple):
    """A destination: where messages would go, how many, with how many octets of bodies, and when the first and the last
    of them were sent, UTC.
    """

    destination: str
    messages: int
    octets: int
    first: str
    last: str


class Preview(NamedTuple):
    """A selection by destination, what is left out of it by why, and the headers that are."""

    lines: list[Line]
    left_out: dict[str, int]
    blanked: list[str]

    @property
    def messages(self) -> int:
        """How many would be sent."""
        return sum(line.messages for line in self.lines)

    def show(self, out: TextIO) -> None:
        """As a table."""
        rows = [
            (each.destination, f"{each.messages:,}", f"{each.octets:,}", *each[3:]) for each in self.lines
        ]
        widths = [max(map(len, column)) for column in zip(_HEAD, *rows, strict=True)]
        for row in (_HEAD, tuple("-" * width for width in widths), *rows):
            cells = [
                cell.rjust(width) if at in (1, 2) else cell.ljust(width)
                for at, (cell, width) in enumerate(zip(row, widths, strict=True))
            ]
            out.write("  ".join(cells).rstrip() + "\n")


def preview(rows: "DataFrame") -> Preview:
    """Count what `selected` answered. Raises `ValueError` where the query fails."""
    from pyspark.sql import functions as f

    counted = rows.groupBy("fate", "destination").agg(
        f.count("*"),
        f.coalesce(f.sum(f.length("body")), f.lit(0)),
        f.min("at").cast("string"),
        f.max("at").cast("string"),
        f.array_distinct(f.flatten(f.collect_set("blanked"))),
    )
    with failing():
        found = counted.collect()
    left_out = {fate: sum(count for why, _, count, *_ in found if why == fate) for fate in FATES}
    return Preview(
        sorted(Line(to, *values) for fate, to, *values, _ in found if fate is None),
        {fate: count for fate, count in left_out.items() if count},
        sorted({name for *_, names in found for name in names or ()}),
    )
