"""Effects that only a relay asks of the service, and the outbox that collects all effects."""

from collections.abc import Iterable
from dataclasses import dataclass

from stomprelay.relay.model.group import Broker
from stomprelay.relay.model.rules import Claim
from stomprelay.session import effects
from stomprelay.session.effects import Close, Send
from stomprelay.session.leg import BEAT, Leg
from stomprelay.wire.run import Passing


@dataclass(slots=True)
class Open:
    """Open a connection to `broker` for this upstream leg; report `BrokerConnected` or `NotConnected`."""

    leg: Leg
    broker: Broker


@dataclass(slots=True)
class Identify:
    """Find out who the client is. Report `Identified`, `Unwanted` or `Unknown` after these effects."""

    leg: Leg
    claim: Claim


@dataclass(slots=True)
class Pass:
    """Until the relay's next input, chunks of `leg` may go straight on to `to`: whole frames that `passing` lets pass
    (with their last LF if the peer `trails`), a run as it came or as `instead`. The rest goes to `received`. None: no
    chunk may. Report with `Relay.passed` what passed. The service need not do it.
    """

    leg: Leg
    to: Leg
    passing: Passing | None
    trails: bool = False


@dataclass(slots=True)
class Took:
    """Count that something took so many seconds: `name` is one of `TIMES`, `label` the listener's or upstream's."""

    name: str
    label: str
    seconds: float


@dataclass(slots=True)
class Report:
    """Log this error with its traceback: the relay has a bug. The error's text may quote a peer."""

    error: Exception


Effect = effects.Effect | Identify | Open | Pass | Report | Took


class Outbox(list[Effect]):
    """The effects of one client's relay, in order; it is empty after each input. `legs`: those that are open."""

    __slots__ = ("legs",)

    def __init__(self) -> None:
        super().__init__()
        self.legs: tuple[Leg, ...] = ()

    def put(self, *effects: Effect) -> None:
        """Append these effects."""
        for effect in effects:
            if type(effect) is Open:
                self.opened(effect.leg)
            elif type(effect) is Close and effect.leg in self.legs:
                self.legs = tuple([leg for leg in self.legs if leg is not effect.leg])
        self += effects

    def drain(self) -> list[Effect]:
        """Return all effects since the last call, and forget them; the caller must perform them in order."""
        effects = [*self]
        self.clear()
        return effects

    def opened(self, leg: Leg) -> None:
        """Record a leg whose connection exists or was asked for (the client's needs no `Open`)."""
        self.legs = (*self.legs, leg)

    def send(self, leg: Leg, data: bytes, now: float) -> None:
        """Write `data`, whole frames or a heart-beat, to a leg. A leg whose connection has ended is sent nothing."""
        if not leg.gone:
            leg.heartbeat.sent_at = now
            self.append(Send(leg, data))

    def sent_to(self, leg: Leg) -> list[bytes]:
        """Return what was written to a leg since the last drain."""
        return [each.data for each in self if type(each) is Send and each.leg is leg]

    def beat(self, legs: Iterable[Leg | None], now: float) -> Leg | None:
        """Write the heart-beats that are due on connected legs. Returns the first leg whose peer is silent for too
        long.
        """
        for leg in legs:
            if leg is None or not leg.beating:
                continue
            if leg.heartbeat.dead(now):
                return leg
            if leg.heartbeat.due(now):
                self.send(leg, BEAT, now)
        return None
