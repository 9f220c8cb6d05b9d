"""Whether a client's own CONNECT is why no broker accepts its session.

RabbitMQ closes the connection for `login:a\\q`, and says nothing. It would do so for ever, and so would every other
broker of its kind, while to the relay it looks like a broker that dies as soon as it is asked. What tells the two apart
is how others fare: a client is to blame when two of its attempts ended at brokers that were well at that time. They are
known to have been when they were before, have been since (`Health.well_since`), and answered somebody else meanwhile:
that a broker still serves those that it has does not show that it takes new ones. Where nobody else comes, a probe
shows it; so two attempts in vain are followed by a rest in which there is time for one.
"""

from typing import Final

from stomprelay.relay.model.group import Broker
from stomprelay.relay.model.health import Sight

CLOSED: Final = "the broker closed the connection when it was sent CONNECT"
STRANGE: Final = "the broker did not answer CONNECT with CONNECTED"

PROOF: Final = 2
"""So many attempts must have ended at brokers that were well."""

REST: Final = 2.0
"""Seconds until the next attempt of a client whose CONNECT as many brokers turned away: a probe is due within one."""


class Suspicion:
    """What became of the attempts of one client that no broker accepted yet.

    Call `turned_away` for each one that a broker ended after it was sent CONNECT. Ask `proved` then, and before the
    next attempt; `rest` is how long that has to wait. `fault` is what became of the last one, in words that a client
    may read.
    """

    __slots__ = ("_attempts", "_count", "fault")

    def __init__(self) -> None:
        self._count = 0
        self._attempts: tuple[tuple[Broker, Sight], ...] = ()
        self.fault = ""

    def turned_away(self, broker: Broker, sight: Sight, fault: str) -> None:
        """A broker that was sent CONNECT did not take the session; `sight` is how it was when it was asked."""
        self._count += 1
        self.fault = fault
        if sight.well:
            self._attempts = (*self._attempts[-PROOF:], (broker, sight))

    def cleared(self) -> None:
        """A broker accepted the session: nothing is wrong with its CONNECT."""
        self._count = 0
        self._attempts = ()

    @property
    def proved(self) -> bool:
        """Whether the client's CONNECT is to blame."""
        certain = (
            broker.health.answered_since(sight) and broker.health.well_since(sight)
            for broker, sight in self._attempts
        )
        return sum(certain) >= PROOF

    @property
    def rest(self) -> float:
        """The seconds until the next attempt, at least."""
        return REST if self._count >= PROOF else 0.0
