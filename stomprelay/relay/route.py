"""Which upstream a destination belongs to."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from fnmatch import translate

from stomprelay.relay.upstream import Upstream


class Match(Enum):
    """How a route's pattern is meant."""

    EXACT = "destination"
    """The destination itself."""
    PREFIX = "prefix"
    """What the destination begins with."""
    GLOB = "glob"
    """`*` for any octets, `?` for one character, `[...]` for one out of a set; all of the destination."""


@dataclass(frozen=True)
class Route:
    """Destinations that match go to `upstream`. Of several routes the first that matches counts."""

    match: Match
    pattern: str
    upstream: Upstream
    _matches: Callable[[str], object] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        exact, prefix = self.pattern.__eq__, self.pattern
        found: dict[Match, Callable[[str], object]] = {
            Match.EXACT: exact,
            Match.PREFIX: lambda destination: destination.startswith(prefix),
            Match.GLOB: re.compile(translate(self.pattern)).match,
        }
        object.__setattr__(self, "_matches", found[self.match])

    def matches(self, destination: bytes) -> bool:
        """Whether a destination goes this way."""
        return bool(self._matches(destination.decode("utf-8", "surrogateescape")))
