"""The whole of the embedded broker. Inputs of a `Connection` return effects, also on other clients' legs."""

from stomprelay.broker.connection import Connection
from stomprelay.broker.destinations import Destinations
from stomprelay.broker.message import DEFAULTS, Bounds
from stomprelay.broker.output import Output
from stomprelay.session.effects import Effect, Event, Note, Wake
from stomprelay.session.heartbeat import Terms
from stomprelay.wire.errors import StompError


class EmbeddedBroker:
    """Queues and topics, and their connections. `heart_beat`: the broker's offer. `name` begins all ids: letters and
    digits, different at each start, because clients may remember ids.
    """

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
        """Return a new client's connection and its first effects. Then call the connection's methods."""
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
        outbox = self._output
        outbox.put(Wake(connect_by))
        return connection, outbox.drain()

    def stopped(self, now: float) -> list[Effect]:
        """End all connections, each with an ERROR, and return the effects: the service stops."""
        connections = list(self._connections)
        for connection in connections:
            connection.stop_messages()
        for connection in connections:
            connection.fail(StompError("the broker is stopping", "connect again later"))
        self._output.flush(now)
        return self._output.drain()

    def _ended(self, connection: Connection) -> None:
        del self._connections[connection]

    def _dropped(self, letters: int) -> None:
        self._output.put(Note(Event.IGNORED, f"dead letters thrown away for want of room: {letters}"))
