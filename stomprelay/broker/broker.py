"""The whole of the embedded broker.

`opened` returns a `Connection` for each client, whose inputs return the effects that the service must perform;
they may concern other clients' legs. Nothing here outlives the process, and no login is checked.
"""

from stomprelay.broker.bounds import DEFAULTS, Bounds
from stomprelay.broker.connection import Connection
from stomprelay.broker.destinations import Destinations
from stomprelay.broker.output import Output
from stomprelay.session.effects import Effect, Event, Wake
from stomprelay.session.heartbeat import Terms
from stomprelay.wire.errors import StompError


class EmbeddedBroker:
    """Queues and topics, and the connections that use them.

    `heart_beat` is the broker's offer to clients that ask for beats. `name` begins the id of each session and message:
    it should be letters and digits, and different at each start, because clients may remember ids.
    """

    __slots__ = ("_connections", "_opened", "_output", "bounds", "destinations", "heart_beat", "name")

    def __init__(
        self,
        bounds: Bounds = DEFAULTS,
        heart_beat: Terms = Terms(1000, 1000),
        name: bytes = b"stomprelay",
    ) -> None:
        self.bounds = bounds
        self.heart_beat = heart_beat
        self.name = name
        self._output = Output()
        self.destinations = Destinations(bounds, name, self._dropped)
        self._connections: dict[Connection, None] = {}
        self._opened = 0

    def __len__(self) -> int:
        """Return the number of connected clients."""
        return len(self._connections)

    def opened(self, now: float) -> tuple[Connection, list[Effect]]:
        """Return the connection of a new client and the effects to perform first. Then call the connection's methods
        for its events.
        """
        self._opened += 1
        connect_by = now + self.bounds.connect_timeout
        connection = Connection(
            b"%b-session-%d" % (self.name, self._opened),
            self.bounds,
            self.heart_beat,
            self.destinations,
            self._output,
            connect_by,
            self._ended,
        )
        self._connections[connection] = None
        outbox = self._output.outbox
        outbox.put(Wake(connect_by))
        return connection, outbox.drain()

    def stopped(self, now: float) -> list[Effect]:
        """End all connections because the service stops, and return the effects to perform: each client is sent an
        ERROR, and its connection is closed.
        """
        connections = list(self._connections)
        for connection in connections:
            connection.stop_messages()
        for connection in connections:
            connection.fail(StompError("the broker is stopping", "connect again later"))
        self._output.flush(now)
        return self._output.outbox.drain()

    def _ended(self, connection: Connection) -> None:
        del self._connections[connection]

    def _dropped(self, letters: int) -> None:
        self._output.note(Event.IGNORED, f"dead letters thrown away for want of room: {letters}")
