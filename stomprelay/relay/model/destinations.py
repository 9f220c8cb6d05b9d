"""The destinations with most traffic."""

from dataclasses import dataclass, field
from typing import Final, NamedTuple

PLACES: Final = 100
"""Destinations that are counted by name at a time, at most."""
FORMER: Final = 1000
"""Destinations that had a place, whose counts are kept for when they have one again, at most."""
LONGEST: Final = 200
"""Bytes of a name; of a longer one its beginning is counted."""


class DestinationTally(NamedTuple):
    """The counts of a destination: SENDs to it, MESSAGEs from it, and the bytes of both, with their heads."""

    sends: int = 0
    send_bytes: int = 0
    messages: int = 0
    message_bytes: int = 0

    def plus(self, other: "DestinationTally") -> "DestinationTally":
        """Return the sum of both."""
        return DestinationTally(
            self.sends + other.sends,
            self.send_bytes + other.send_bytes,
            self.messages + other.messages,
            self.message_bytes + other.message_bytes,
        )


NOTHING: Final = DestinationTally()
_CANDIDATES: Final = 64
"""Destinations without a place of which is remembered how busy they are."""
_CHANGES: Final = 10
"""Places that go to another destination in a turn, at most: who stores what is shown stores each name for ever."""


@dataclass(slots=True, eq=False, repr=False)
class _Place:
    """A destination that is counted by name: its counts since it first was, and how many frames it had lately."""

    tally: DestinationTally
    recent: int


@dataclass(slots=True, eq=False, repr=False)
class DestinationCounts:
    """Counts of `PLACES` destinations, and of all `other` together. Call `turn` once a minute.

    A destination takes the place of the least busy one if it was twice as busy lately, and begins at nothing. The count
    of one that lost its place is kept for its return, for `FORMER` of them. Busy others are found by a vote: each name
    adds to its ballot or takes from another name's.
    """

    other: DestinationTally = NOTHING
    _places: dict[bytes, _Place] = field(default_factory=dict)
    _former: dict[bytes, DestinationTally] = field(default_factory=dict)
    _ballots: list[tuple[bytes, int]] = field(default_factory=lambda: [(b"", 0)] * _CANDIDATES)

    def count(self, name: bytes, more: DestinationTally) -> None:
        """Count this for a destination, by the beginning of its name."""
        name = name[:LONGEST]
        frames = more.sends + more.messages
        place = self._places.get(name)
        if place is None and len(self._places) < PLACES:
            place = self._places[name] = _Place(NOTHING, 0)
        if place is not None:
            place.tally = place.tally.plus(more)
            place.recent += frames
            return
        self.other = self.other.plus(more)
        at = hash(name) % _CANDIDATES
        leader, votes = self._ballots[at]
        if leader == name:
            self._ballots[at] = name, votes + frames
        elif votes >= frames:
            self._ballots[at] = leader, votes - frames
        else:
            self._ballots[at] = name, frames - votes

    def turn(self) -> None:
        """Give places to the destinations that are now busier than those with a place. Recent frames count half from
        now on.
        """
        weakest = sorted(self._places, key=lambda name: self._places[name].recent)[:_CHANGES]
        strongest = sorted(self._ballots, key=lambda ballot: -ballot[1])[: len(weakest)]
        for old, (new, votes) in zip(weakest, strongest, strict=True):
            if votes <= 2 * self._places[old].recent:
                break
            self._former[old] = self._places.pop(old).tally
            self._places[new] = _Place(self._former.pop(new, NOTHING), votes)
            self._ballots[hash(new) % _CANDIDATES] = b"", 0
        while len(self._former) > FORMER:
            del self._former[next(iter(self._former))]
        for place in self._places.values():
            place.recent //= 2
        self._ballots = [(name, votes // 2) for name, votes in self._ballots]

    @property
    def shown(self) -> dict[bytes, DestinationTally]:
        """The counts of destinations that have a place."""
        return {name: place.tally for name, place in self._places.items()}

    @property
    def former(self) -> dict[bytes, DestinationTally]:
        """The counts of destinations that had a place."""
        return dict(self._former)
