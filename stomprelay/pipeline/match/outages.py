"""What became of the outages of sessions: what their conversations tell, and which deliveries were repeated later."""

from collections.abc import Iterable
from typing import Any, Final

from stomprelay.pipeline.match.outage import OUTAGE

_AT: Final = {name: at for at, name in enumerate(OUTAGE.names)}
_SESSION, _BROKER, _LOST = _AT["session"], _AT["broker"], _AT["lost_ns"]
_RECOVERED, _PLANNED, _DUPLICATES = _AT["recovered_ns"], _AT["planned"], _AT["duplicates"]
_GIVEN_UP: Final = _AT["given_up"]

Row = list[Any]
"""The values of `OUTAGE`."""
Repeat = tuple[str, str | None, int, int]
"""A delivery that was repeated: its session, its broker, its time, and the time of the next."""


class Outages:
    """Those whose `duplicates` may still change. Begin with what was `kept` of the batch before, then tell it what is
    `told` in this one, then of deliveries that were `repeated`. `changed` are the rows for this batch.
    """

    def __init__(self, kept: Iterable[Row]) -> None:
        self._rows = {(row[_SESSION], row[_BROKER], row[_LOST]): row for row in kept}
        self._changed: set[tuple[str, str, int]] = set()

    def told(self, rows: Iterable[Row]) -> None:
        """Outages that are new, or of which more is known."""
        for row in rows:
            key = (row[_SESSION], row[_BROKER], row[_LOST])
            before = self._rows.get(key)
            self._rows[key] = [*row]
            self._rows[key][_DUPLICATES] = 0 if before is None else before[_DUPLICATES]
            self._changed.add(key)

    def repeated(self, repeats: Iterable[Repeat]) -> None:
        """Deliveries of a broker before it was lost, and of their messages after that: the first loss counts."""
        losses: dict[tuple[str, str | None], list[Row]] = {}
        for (session, broker, _), row in sorted(self._rows.items()):
            losses.setdefault((session, broker), []).append(row)
        for session, broker, ns, again_ns in repeats:
            for row in losses.get((session, broker), ()):
                until = row[_RECOVERED] if row[_PLANNED] and row[_RECOVERED] is not None else row[_LOST]
                if ns <= until and row[_LOST] <= again_ns:
                    row[_DUPLICATES] += 1
                    self._changed.add((row[_SESSION], row[_BROKER], row[_LOST]))
                    break

    @property
    def sessions(self) -> set[str]:
        """Those that had any."""
        return {session for session, _, _ in self._rows}

    @property
    def changed(self) -> list[Row]:
        """Those of which something is new."""
        return [self._rows[key] for key in sorted(self._changed)]

    def kept(self, since: int) -> list[Row]:
        """Those that go on, or did so at `since`."""
        return [
            row
            for _, row in sorted(self._rows.items())
            if max(row[_LOST], row[_RECOVERED] or 0) >= since
            or (row[_RECOVERED] is None and not row[_GIVEN_UP])
        ]
