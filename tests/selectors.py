"""The table of what selectors fit, `selectors.txt`, which says how to read it."""

import re
from pathlib import Path
from typing import Final, NamedTuple

CONVERTING: Final = "convert_string_expressions:"
PLACES: Final = ("activemq", "artemis", "artemis_converting")
"""The columns."""


class Answer(NamedTuple):
    """What a broker answers: the messages that fit, or an ERROR. `usable`: no SEND got an ERROR. `refused`: the relay
    refuses the selector, or answers otherwise.
    """

    fits: tuple[int, ...]
    error: bool
    usable: bool
    refused: bool


class Cell(NamedTuple):
    """A selector at a place."""

    selector: str
    place: str
    answer: Answer

    @property
    def said(self) -> str:
        """What the client says there."""
        return (CONVERTING if self.place == PLACES[2] else "") + self.selector

    @property
    def marked(self) -> str:
        """The same, which also fits a message with `mark:end`."""
        *prefixes, bare = re.split(r"(?<=_props:)|(?<=_expressions:)", self.said)
        return f"{''.join(prefixes)}({bare}) OR mark = 'end'"


def read() -> tuple[list[dict[str, str]], list[Cell]]:
    """Return the messages' headers, and all cells."""
    _, messages, table = Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").split("\n== ")
    lines = messages.partition("\n\n")[2].splitlines()
    found = [dict(each.split(":", 1) for each in line.split("; ") if ":" in each) for line in lines if line]
    cells: list[Cell] = []
    for row in table.partition("\n\n")[2].splitlines():
        selector, *answers = row.split(" | ")
        first = answers[0]
        wide = [first, first, first] if len(answers) == 1 else [*answers, first][:3]
        cells += [
            Cell(selector, place, _answer(each, len(found))) for place, each in zip(PLACES, wide, strict=True)
        ]
    return found, cells


def _answer(text: str, count: int) -> Answer:
    said = text.removesuffix(" ~")
    all_but = said.startswith("all")
    named = {int(each) for each in said.split() if each.isdigit()}
    fits = tuple([each for each in range(count) if (each in named) is not all_but])
    error, usable = said == "ERROR", said != "!"
    return Answer(fits if usable and not error else (), error, usable, said != text)
