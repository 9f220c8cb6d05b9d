"""Drives one probe: a connection to a broker that belongs to no client."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar, Final

from stomprelay.relay.effects import Open
from stomprelay.relay.link.probe import Probe
from stomprelay.service.connection.protocol import Driver, LegProtocol
from stomprelay.service.connection.relay_driver import Endpoints
from stomprelay.service.connection.repeats import log_note
from stomprelay.service.connection.runtime import Runtime
from stomprelay.service.journal.journal import Journal
from stomprelay.session.effects import Event, Note

LINGER: Final = 2.0
"""Seconds that a probed broker may take to close."""

_FORM: Final = "upstream {upstream}: {event}: {text}"


class ProbeDriver(Driver):
    """Drives one probe of a broker, from `begin` until `ended` is called. The result is logged and recorded."""

    __slots__ = ("_endpoints", "_journal", "_on_end", "_probe", "_upstream")

    def __init__(
        self,
        runtime: Runtime,
        upstream: str,
        probe: Probe,
        endpoints: Endpoints,
        ended: Callable[["ProbeDriver"], None],
        journal: Journal | None = None,
    ) -> None:
        super().__init__(runtime, LINGER)
        self._upstream = upstream
        self._probe = probe
        self._endpoints = endpoints
        self._on_end = ended
        self._journal = journal

    def begin(self) -> None:
        """Connect to the broker. The probe then continues until `ended` is called."""
        self.perform(self._probe.begin(self.runtime.seconds()))

    def stop(self) -> None:
        """End the probe without a result, because the service stops."""
        self.perform(self._probe.stopped())

    def connected(self, protocol: LegProtocol) -> None:
        """Send CONNECT: the connection is established."""
        self.perform(self._probe.connected(self.runtime.seconds()))

    def received(self, protocol: LegProtocol, data: bytes) -> None:
        """Give the probe the bytes that the broker sent: CONNECTED, a RECEIPT or an ERROR."""
        self.perform(self._probe.received(data, self.runtime.seconds()))

    def refused(self, protocol: LegProtocol, reason: str) -> None:
        """Report the probe failed: the broker cannot be connected to."""
        self.perform(self._probe.refused(reason, self.runtime.seconds()))

    def prevented(self, protocol: LegProtocol, reason: str) -> None:
        """End the probe without a result: the broker could not be asked."""
        self.stop()

    def lost(self, protocol: LegProtocol, reason: str) -> None:
        """Report to the probe that the connection ended."""
        self.perform(self._probe.lost(reason, self.runtime.seconds()))

    def woke(self, now: float) -> None:
        """Report the probe failed where its time is over; the timer calls this."""
        self.perform(self._probe.woke(now))

    def end(self) -> None:
        """Stop the timer and call `ended`: the probe is over."""
        super().end()
        self._on_end(self)

    def _note(self, effect: Note) -> None:
        self.runtime.probed(effect)
        if effect.event is not Event.REFUSED:
            effect = replace(effect, detail=True)  # the log has it of all sessions together
        kind = f"upstream {self._upstream}: a probe"
        log_note(effect, _FORM, self.runtime.repeats, kind, upstream=self._upstream)
        if self._journal is not None:
            self._journal.noted(effect, self._upstream)

    def _open(self, effect: Open) -> None:
        self.connect(effect.leg, self._endpoints[effect.broker])

    effects: ClassVar[dict[type[Any], Callable[[Any, Any], None]]] = {**Driver.effects, Open: _open}
