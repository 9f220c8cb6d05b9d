"""One colour per destination, the same in all charts. `report.css` says which; here they are classes."""

from collections.abc import Iterable
from typing import Final

from stomprelay.pipeline.report.findings import Name

COLOURS: Final = 6
"""Destinations with a colour of their own: more could not be told apart."""
OTHERS: Final = "c0"


class Palette:
    """Gives the colours `c1` to `c6` to the first names, and `c0` to all others."""

    def __init__(self, names: Iterable[Name]) -> None:
        named = [name for name in dict.fromkeys(names) if isinstance(name, str)]
        self._colours = {name: f"c{rank}" for rank, name in enumerate(named[:COLOURS], 1)}

    def of(self, name: Name) -> str:
        """The class for a destination."""
        return self._colours.get(name, OTHERS) if isinstance(name, str) else OTHERS
