"""The whole of the embedded broker.

`opened` gives each client a `Connection`, whose inputs answer with the effects that the service must perform; they
may concern other clients' legs. Nothing here survives the process, and nobody is asked who they are.
"""

from stomprelay.broker.bounds import DEFAULTS, Bounds
from stomprelay.broker.connection import Connection
from stomprelay.broker.destinations import Destinations
from stomprelay.broker.outbox import Outbox
from stomprelay.session.effects import Effect, Event, Note, Send, Wake
from stomprelay.session.heartbeat import Terms
from stomprelay.wire.errors import LimitError, StompError


class Broker:
    """Queues and topics, and the connections that use them.

    `heart_beat` is what it offers to clients that ask for beats. `name` begins every session's and message's id: let
    it be letters and digits, and another one at each start, for clients may remember ids.
    """

    __slots__ = (
        "_connections",
        "_opened",
        "_overrun",
        "bounds",
        "destinations",
        "effects",
        "heart_beat",
        "name",
        "touched",
    )

    def __init__(
        self,
        bounds: Bounds = DEFAULTS,
        heart_beat: Terms = Terms(1000, 1000),
        name: bytes = b"stomprelay",
    ) -> None:
        self.bounds = bounds
        self.heart_beat = heart_beat
        self.name = name
        self.destinations = Destinations(bounds, name, self._overran, self._lost)
        self.touched: list[Outbox] = []
        self.effects: list[Effect] = []
        self._connections: dict[Outbox, Connection] = {}
        self._overrun: dict[Outbox, None] = {}
        self._opened = 0

    def __len__(self) -> int:
        """How many clients there are."""
        return len(self._connections)

    def opened(self, now: float) -> tuple[Connection, list[Effect]]:
        """A client connected. Perform what is answered, then tell its connection what it sends."""
        self._opened += 1
        until = now + self.bounds.connect_timeout
        connection = Connection(self, b"%b-session-%d" % (self.name, self._opened), until)
        self._connections[connection.outbox] = connection
        return connection, [Wake(until)]

    def stopped(self, now: float) -> list[Effect]:
        """The service stops: every client is told, and its connection closed."""
        connections = list(self._connections.values())
        for connection in connections:
            connection.outbox.closed()
        for connection in connections:
            connection.fail(StompError("the broker is stopping", "connect again later"))
        return self.collected(now)

    # For connections

    def note(self, event: Event, text: str) -> None:
        """Say something at the end of this input."""
        self.effects.append(Note(event, text))

    def forgot(self, connection: Connection) -> None:
        """The connection is no more."""
        self._connections.pop(connection.outbox, None)

    def collected(self, now: float) -> list[Effect]:
        """The effects of this input: what is written, one `Send` a leg, then the rest."""
        while self._overrun:
            outbox, _ = self._overrun.popitem()
            connection = self._connections.get(outbox)
            if connection is not None:
                detail = (
                    f"{self.bounds.topic_messages} messages or {self.bounds.topic_bytes} bytes wait at most"
                )
                connection.fail(LimitError("too slow for a topic", detail))
        effects: list[Effect] = []
        for outbox in self.touched:
            outbox.leg.heartbeat.sent(now)
            effects.append(Send(outbox.leg, outbox.drained()))
        self.touched.clear()
        if self.effects:
            effects += self.effects
            self.effects.clear()
        return effects

    def _overran(self, outbox: Outbox) -> None:
        self._overrun[outbox] = None

    def _lost(self, letters: int) -> None:
        self.note(Event.IGNORED, f"dead letters thrown away for want of room: {letters}")
