"""What a relay asks of the service beside the effects of any conversation, and where all of it is put."""

from dataclasses import dataclass

from stomprelay.relay.model.group import Broker
from stomprelay.session import effects
from stomprelay.session.effects import Send
from stomprelay.session.leg import Leg


@dataclass(slots=True)
class Open:
    """Open a connection to `broker` for this upstream leg; report `connected` or `refused`."""

    leg: Leg
    broker: Broker


Effect = effects.Effect | Open


class Outbox(effects.Outbox[Effect]):
    """The effects of one client's relay. All that takes part puts them in; `Relay` drains it after each input."""

    __slots__ = ()

    def send(self, leg: Leg, data: bytes, now: float) -> None:
        """Write `data`, whole frames or a heart-beat, to a leg. A leg whose connection has ended is sent nothing."""
        if not leg.gone:
            leg.heartbeat.sent(now)
            self._effects.append(Send(leg, data))
