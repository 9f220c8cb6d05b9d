"""How carefully a line of frames is sent again, and which of them are to blame for lost connections.

A line goes out in one piece until a connection is lost soon after, without an answer; then `WINDOW` parts at a time,
after one more loss one by one. A frame is struck when it was alone on its way to a broker that had just answered and
closed the connection `SOON` after, and that is well later (`Health.well_since`). After `ENOUGH` strikes in a row it is
refused.
"""

from typing import Final

from stomprelay.relay.model.group import Broker, Health, Sight
from stomprelay.wire.errors import Refused

WINDOW: Final = 64
FEW: Final = 8
"""So many parts may go one by one at once."""
SOON: Final = 5.0
"""Seconds in which a broker closes the connection for what it was sent."""
ENOUGH: Final = 2


def poison(command: bytes, name: bytes, receipt: bytes | None) -> Refused:
    """Return the error that the client is sent about a frame that costs brokers their connection."""
    shown = f"{command.decode()} {name[:200].decode('utf-8', 'backslashreplace')}".rstrip()
    if receipt is not None:
        shown = f"{shown} (receipt {receipt[:200].decode('utf-8', 'backslashreplace')})"
    why = "the broker closed the connection twice when it was sent"
    return Refused("a frame cannot be delivered", f"{shown}: {why}", receipt=receipt)


class Strike:
    """A connection that ended with one thing alone on its way. `sight`: when it was sent. `counts`: the broker was
    well.
    """

    __slots__ = ("_health", "_sight", "counts")

    def __init__(self, health: Health, sight: Sight) -> None:
        self._health = health
        self._sight = health.unanswered(sight)
        self.counts = False

    def review(self) -> bool:
        """Look at what is known of the broker by now, until it `counts`. Returns False where it never will."""
        self.counts = self.counts or self._health.well_since(self._sight)
        return self.counts or not self._health.disproved(self._sight)


class Caution:
    """The pace of a session's lines: `window` parts may await their answers at a time; 0: all of them.

    Call `began` for each broker, `sent` for each part of the line, `answered` for each receipt, `through` at its end,
    `lost` with the broker. The key of a part is the same for each broker; bytes for one that is sent only once.
    """

    __slots__ = (
        "_answered",
        "_broker",
        "_flight",
        "_progress",
        "_resent",
        "_sent_at",
        "_sight",
        "_strikes",
        "_suspect",
        "window",
    )

    def __init__(self) -> None:
        self.window = 0
        self._broker: Broker | None = None
        self._flight: dict[bytes, object] = {}
        self._answered = False
        self._progress = False
        self._resent = 0
        self._sent_at = 0.0
        self._sight: Sight | None = None
        self._suspect: object = None
        self._strikes: list[Strike] = []

    @property
    def idle(self) -> bool:
        """Whether nothing is awaited."""
        return not self._flight

    @property
    def room(self) -> bool:
        """Whether one more part may be sent now."""
        return len(self._flight) < self.window

    def began(self, broker: Broker | None, now: float) -> None:
        """There is a broker, and a line to send it."""
        self._broker = broker
        self._flight.clear()
        self._answered = self._progress = False
        self._resent = 0
        self._sent_at = now

    def resent(self, parts: int, now: float) -> None:
        """So many parts of the line were sent at once; no answers to them are awaited."""
        self._resent += parts
        self._sent_at = now

    def sent(self, receipt: bytes, key: object, now: float) -> None:
        """A part of the line was sent that this receipt answers; without a key it is never to blame."""
        self._flight[receipt] = key
        self._sent_at = now
        self._resent += 1
        if self._broker is not None:
            self._sight = self._broker.health.sight()

    def answered(self, receipt: bytes) -> None:
        """The broker answered with this receipt."""
        self._answered = True
        if receipt in self._flight:
            key = self._flight.pop(receipt)
            # Subscriptions are no progress: the next broker is sent them again.
            self._progress = self._progress or isinstance(key, bytes)
            if key == self._suspect:
                self._acquit()

    def through(self) -> None:
        """All of the line was sent and answered: the next one goes as fast as it can."""
        self.window = 0
        self._acquit()

    def _acquit(self) -> None:
        self._suspect = None
        self._strikes = []

    def lost(self, broker: Broker | None, now: float) -> None:
        """The connection was lost; `broker` closed it, None where it was left for another reason."""
        flight, self._flight = self._flight, {}
        if broker is None or now > self._sent_at + SOON or not self._resent:
            return
        if self.window == 1:
            (key,) = flight.values() or (None,)
            if key is not None and self._answered and self._sight is not None:
                if key != self._suspect:
                    self._suspect = key
                    self._strikes = []
                self._strikes.append(Strike(broker.health, self._sight))
        elif not self.window:
            if not self._answered:
                self.window = 1 if self._resent <= FEW else WINDOW
        elif not self._progress:
            self.window = 1

    def condemns(self, key: object) -> bool:
        """Whether this part of the line is to blame for lost connections, so that it must not be sent again."""
        if key != self._suspect or not self._strikes:
            return False
        self._strikes = [strike for strike in self._strikes if strike.review()]
        return sum(strike.counts for strike in self._strikes) >= ENOUGH
