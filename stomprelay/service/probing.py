"""Performing for one probe: a broker's connection, of which no client knows."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from stomprelay.relay.effects import Open
from stomprelay.relay.link.probe import Probe
from stomprelay.service.perform import Performer, Stage, log_note
from stomprelay.service.protocol import LegProtocol
from stomprelay.service.ways import Ways, take
from stomprelay.session.effects import Note

LINGER: Final = 2.0
"""Seconds that a probed broker may take to close."""

_FORM: Final = "upstream {upstream}: {event}: {text}"


@dataclass(frozen=True)
class _Place:
    name: str
    linger: float = LINGER


class Probing(Performer):
    """Performs the effects of one probe of a broker of this upstream, from `begin` until `over` is told of it."""

    __slots__ = ("_over", "_probe", "_ways")

    def __init__(
        self, stage: Stage, upstream: str, probe: Probe, ways: Ways, over: Callable[["Probing"], None]
    ) -> None:
        super().__init__(stage, _Place(upstream))
        self._probe = probe
        self._ways = ways
        self._over = over

    def begin(self) -> None:
        """Ask the broker."""
        self.perform(self._probe.begin(self.stage.seconds()))

    def stop(self) -> None:
        """The service stops."""
        self.perform(self._probe.stopped())

    def made(self, line: LegProtocol) -> None:
        """The connection is there."""
        self.perform(self._probe.connected(self.stage.seconds()))

    def received(self, line: LegProtocol, data: bytes) -> None:
        """The broker answers."""
        self.perform(self._probe.received(data, self.stage.seconds()))

    def refused(self, line: LegProtocol, reason: str) -> None:
        """The broker cannot be reached."""
        self.perform(self._probe.refused(reason, self.stage.seconds()))

    def lost(self, line: LegProtocol, reason: str) -> None:
        """The broker went."""
        self.perform(self._probe.lost(reason, self.stage.seconds()))

    def woke(self, now: float) -> None:
        """It takes too long."""
        self.perform(self._probe.woke(now))

    def end(self) -> None:
        """All is known."""
        self.stage.alarms.forget(self)
        self._over(self)

    def _note(self, effect: Note) -> None:
        log_note(effect, _FORM, upstream=self.place.name)
        if self.stage.journal is not None:
            self.stage.journal.noted(effect, self.place.name)

    def _open(self, effect: Open) -> None:
        take(self._ways, self, effect)

    effects: ClassVar[dict[type[Any], Callable[[Any, Any], None]]] = {**Performer.effects, Open: _open}
