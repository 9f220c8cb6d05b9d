"""What a session sent in transactions, and what became of them."""

from collections.abc import Callable, Iterator
from typing import Any, Final

from stomprelay.pipeline.match.sighting import ABORTED, ENDED_NS, KIND, Sighting, piece

REFUSED: Final = "the transaction cannot be committed"
"""How the relay's ERROR begins that answers COMMIT of a transaction which it cannot follow any more."""


class Transactions:
    """The open ones, each with its SENDs. `tell` is told of each SEND whose transaction ended."""

    __slots__ = ("_committed", "_committed_ns", "_doomed", "_open", "_refused_ns", "tell")

    def __init__(self, tell: Callable[[Sighting], None]) -> None:
        self.tell = tell
        self._open: dict[str, list[Sighting]] = {}
        self._doomed: set[str] = set()
        self._committed: list[Sighting] = []
        self._committed_ns = 0
        self._refused_ns = -1

    def __contains__(self, name: str) -> bool:
        return name in self._open

    def __iter__(self) -> Iterator[Sighting]:
        yield from self._committed
        for sent in self._open.values():
            yield from sent

    def begin(self, name: str) -> None:
        """BEGIN."""
        self._open.setdefault(name, [])

    def sent(self, name: str, sighting: Sighting) -> None:
        """A SEND in it, even if its BEGIN was not seen."""
        self._open.setdefault(name, []).append(sighting)

    def doom(self, name: str) -> None:
        """It answered for a delivery of a broker that was lost, so the relay will not commit it."""
        self._doomed.add(name)

    def commit(self, name: str, ns: int) -> bool:
        """COMMIT. Answers whether the relay can follow it."""
        self._committed, self._committed_ns = self._open.pop(name, []), ns
        doomed = name in self._doomed
        self._doomed.discard(name)
        if doomed or self._refused_ns == ns:
            self._undo(self._committed, ns)
            return False
        for sighting in self._committed:
            sighting[ENDED_NS] = ns
            self.tell(sighting)
        return True

    def abort(self, name: str, ns: int) -> None:
        """ABORT."""
        self._undo(self._open.pop(name, []), ns)
        self._doomed.discard(name)

    def refused(self, ns: int) -> None:
        """The relay answered the last COMMIT, or the next one of the same time, with an ERROR."""
        self._refused_ns = ns
        self._undo(self._committed, ns)

    def ended(self, ns: int) -> None:
        """The session is over."""
        for sent in self._open.values():
            self._undo(sent, ns)
        self._open.clear()

    def _undo(self, sent: list[Sighting], ns: int) -> None:
        for sighting in sent:
            sighting[ENDED_NS], sighting[ABORTED] = ns, True
            self.tell(sighting)

    # From batch to batch

    def dump(self, since: int) -> list[Any]:
        """As JSON has it; a COMMIT before `since` was not refused."""
        if self._committed_ns < since:
            self._committed = []
        opened = {name: [each[: KIND + 1] for each in sent] for name, sent in self._open.items()}
        committed = [each[: KIND + 1] for each in self._committed]
        return [opened, sorted(self._doomed), committed, self._committed_ns, self._refused_ns]

    def load(self, values: list[Any], pieces: dict[tuple[Any, ...], Sighting]) -> None:
        """Of what `dump` made. `pieces` are those that wait for a receipt: they may wait for COMMIT, too."""
        opened, doomed, committed, self._committed_ns, self._refused_ns = values

        def one(place: list[Any]) -> Sighting:
            return pieces.setdefault(tuple(place[:KIND]), piece(place))

        self._open = {name: [one(place) for place in sent] for name, sent in opened.items()}
        self._committed = [one(place) for place in committed]
        self._doomed = set(doomed)
