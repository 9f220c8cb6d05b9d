"""What a relay asks of the service beside the effects of any conversation: a connection to a broker."""

from dataclasses import dataclass

from stomprelay.relay.model.group import Broker
from stomprelay.session import effects
from stomprelay.session.leg import Leg


@dataclass(slots=True)
class Open:
    """Open a connection to `broker` for this upstream leg; report `connected` or `refused`."""

    leg: Leg
    broker: Broker


Effect = effects.Effect | Open
