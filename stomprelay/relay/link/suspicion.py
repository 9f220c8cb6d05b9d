"""Whether a client's own CONNECT is why no broker accepts its session. RabbitMQ closes the connection for some logins
without a word, like a broker that dies.

The client is to blame when two attempts ended at brokers that were well before and since, and answered others meanwhile
(`Health.well_since`). After two attempts a rest leaves time for a probe, in case nobody else comes.
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
    """The attempts of one client that no broker accepted yet.

    Call `turned_away` when a broker ended one after CONNECT, then ask `proved`, and again before the next attempt,
    which has to wait `rest` seconds. `fault` describes the last one, for a client.
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
