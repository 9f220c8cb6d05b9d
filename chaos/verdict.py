"""What a crash run has to say for itself."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Verdict:
    """Figures by their names, in words, and what was promised and not kept."""

    title: str
    figures: Sequence[tuple[str, str]]
    broken: Sequence[str] = ()

    def __str__(self) -> str:
        names = max((len(name) for name, _ in self.figures), default=0)
        values = max((len(value) for _, value in self.figures), default=0)
        lines = [self.title, *(f"  {name:<{names}}  {value:>{values}}" for name, value in self.figures)]
        return "\n".join([*lines, *(f"  BROKEN: {each}" for each in self.broken)])
