"""The embedded broker and its clients' connections.

The inputs are methods of a `Connection`, named in the past tense. `now` is in seconds of one monotonic clock. Each
input returns the effects that the service must perform, in this order. Some effects are for legs of other connections.
No input raises an error.
"""

from itertools import islice
from math import inf
from typing import Final

from stomprelay import __version__
from stomprelay.broker.commands import ClientCommands
from stomprelay.broker.destinations import Destinations
from stomprelay.broker.message import DEFAULTS, Bounds
from stomprelay.broker.queue import Output, SendBuffer
from stomprelay.session.effects import Close, Effect, Event, GiveWay, How, Note, Pause, Resume, Wake
from stomprelay.session.handshake import Offer, read_opening, spell_versions
from stomprelay.session.leg import BEAT, NO_BEATS, Leg, LegState, Side, Terms
from stomprelay.session.refusal import Foreign, complain
from stomprelay.wire.dialect import DIALECTS
from stomprelay.wire.errors import LimitError, StompError
from stomprelay.wire.frame import Limits, compose_raw
from stomprelay.wire.names import CONNECTED, HEART_BEAT, SERVER, SESSION, VERSION

_SERVER = b"stomprelay/" + __version__.encode()
_VERSIONS = frozenset(DIALECTS)
_TURN: Final = 512
"""The most frames of one client that are executed before other clients get a turn."""
HALF_CLOSED: Final = 5.0
"""Seconds for which a half-closed client still gets messages."""


class Connection:
    """A client's leg and its state. `name`: its CONNECTED's header `session`. `buffer`: the bytes for the client."""

    def __init__(self, broker: "EmbeddedBroker", name: bytes, now: float) -> None:
        bounds = broker.bounds
        self.leg = Leg(Side.DOWNSTREAM, Limits(bounds.headers, bounds.header_line, bounds.body))
        self.name = name
        self._broker = broker
        self._bounds = bounds
        self._output = broker.output
        self._connect_by = now + bounds.connect_timeout
        self._finish_by = inf
        self.buffer = SendBuffer(self.leg, broker.output, self._too_slow)
        self._commands: ClientCommands | None = None
        self._reading = True
        self._deferred = False
        self._output.put(Wake(self._connect_by))

    # Inputs

    def received(self, data: bytes, now: float) -> list[Effect]:
        """Receive bytes from the client, and execute the frames that are complete."""
        leg = self.leg
        if leg.closed:
            return []
        leg.heartbeat.received_at = now
        self._start_turn()
        try:
            if leg.state is LegState.OPENING:
                opening = read_opening(leg.decoder, data, self._bounds.before_connect)
                if isinstance(opening, Foreign):
                    self._note(Event.FOREIGN, opening.what)
                    if opening.answer:
                        self.buffer.reply(opening.answer)
                    self._close()
                elif opening is not None:
                    self._received_connect(opening, now)
            else:
                leg.decoder.feed(data)
            if not self._deferred:
                self._execute(_TURN)
        except StompError as error:
            self.fail(error)
        return self._drain(now)

    def gave_way(self, now: float) -> list[Effect]:
        """Continue with the client's frames: the other connections have had their turn after a `GiveWay`."""
        if self.leg.closed:
            return []
        self._deferred = False
        self._start_turn()
        try:
            self._execute(_TURN)
        except StompError as error:
            self.fail(error)
        self._finish(now)
        return self._drain(now)

    def _execute(self, most: int | None) -> None:
        """Execute the waiting frames, at most `most` of them; the others wait for the next turn."""
        commands, decoder = self._commands, self.leg.decoder
        if commands is None:
            return
        for frame in islice(decoder.frames(), most):
            commands.execute(frame)
            if commands.left:
                self._note(Event.DISCONNECTED, "client disconnected")
                self._close()
                return
        if decoder.behind:
            self._deferred = True
            self._output.put(GiveWay(self.leg))

    def half_closed(self, now: float) -> list[Effect]:
        """The client sends nothing more. Before CONNECT the connection is closed now. Later it is closed when all
        frames are executed and the client has no subscription, or after `HALF_CLOSED` seconds. An EOL is sent to find
        out whether the client still reads.
        """
        if self._commands is None:
            return self.lost(now)
        self._finish_by = now + HALF_CLOSED
        self.leg.heartbeat.reading = False
        self._start_turn()
        self.buffer.reply(BEAT)
        self._finish(now)
        return self._drain(now, wake=True)

    def _finish(self, now: float) -> None:
        """Close a half-closed connection if all frames are executed, and no subscription or no time is left."""
        if self._finish_by == inf or self._commands is None or self._deferred:
            return
        if now >= self._finish_by or not self._commands.consumers:
            self._note(Event.VANISHED, "client left without DISCONNECT")
            self._close()

    def lost(self, now: float) -> list[Effect]:
        """The connection has ended: messages that the client did not acknowledge go to other consumers."""
        if self.leg.closed:
            return []
        if self._deferred:
            self._start_turn()
            try:
                self._execute(None)
            except StompError as error:
                self.fail(error)
        if not self.leg.closed:
            self._note(Event.VANISHED, "client left without DISCONNECT")
            self._end()
        return self._drain(now)

    def woke(self, now: float) -> list[Effect]:
        """The time of the last `Wake` has come: send due heart-beats and messages, or end the connection."""
        if self.leg.closed:
            return []
        heartbeat = self.leg.heartbeat
        self._start_turn()
        if now >= self._connect_by:
            limit = f"the limit is {self._bounds.connect_timeout:g} s"
            self.fail(StompError("no CONNECT in time", limit))
        elif self._commands is not None and heartbeat.dead(now):
            self._note(Event.LOST, "client fell silent")
            self.fail(StompError("heart-beat missed", "nothing came for longer than was agreed"))
        elif self._commands is not None and heartbeat.due(now):
            self.buffer.reply(BEAT)
        self._finish(now)
        return self._drain(now, wake=True)

    def paused(self) -> list[Effect]:
        """The transport is full. No message is written until `resumed` is called."""
        self.buffer.paused()
        return []

    def resumed(self, now: float) -> list[Effect]:
        """The transport has room again. The messages that wait are sent."""
        if self.leg.closed:
            return []
        self.buffer.resumed()
        self._start_turn(again=True)
        if not self._reading:
            self._reading = True
            if self._finish_by == inf:
                self.leg.heartbeat.resumed(now)
            self._output.put(Resume(self.leg))
        return self._drain(now, wake=True)

    # For the broker

    def fail(self, error: StompError) -> None:
        """End the connection with an ERROR. The input that calls this returns the effects."""
        text = f"{error.message} ({error.detail})" if error.detail else error.message
        supported = spell_versions(_VERSIONS) if self._commands is None else None
        self._note(Event.ERROR, text)
        self.buffer.reply(complain(error, self.leg.dialect, supported))
        self._close()

    # The handshake

    def _received_connect(self, offer: Offer, now: float) -> None:
        """Answer a CONNECT; any login and host are accepted. Raises `StompError` for a CONNECT that is refused."""
        leg = self.leg
        dialect = offer.agree(_VERSIONS)
        theirs = offer.terms
        ours = NO_BEATS if theirs is None else self._broker.heart_beat
        headers = [
            (VERSION, dialect.version),
            (SESSION, self.name),
            (SERVER, _SERVER),
            (HEART_BEAT, bytes(ours)),
        ]
        self.buffer.reply(compose_raw(CONNECTED, headers))
        leg.enter(LegState.CONNECTED, dialect)
        leg.heartbeat.agree(ours, theirs or NO_BEATS, now)
        self._connect_by = inf
        self._commands = ClientCommands(dialect, self.buffer, self._broker.destinations, self._bounds)
        self._note(Event.CONNECTED, f"STOMP {dialect.version.decode()}")
        self._output.put(Wake(leg.heartbeat.deadline))

    # Ends

    def _too_slow(self) -> None:
        """End the connection with an ERROR: too many messages of a topic wait for the client."""
        if not self.leg.closed:
            bounds = self._bounds
            detail = f"{bounds.topic_messages} messages or {bounds.topic_bytes} bytes wait at most"
            self.fail(LimitError("too slow for a topic", detail))

    def _close(self) -> None:
        """Close the connection after the buffer is written."""
        self._output.put(Close(self.leg, How.LINGER))
        self._end()

    def _end(self) -> None:
        """End the client's subscriptions and transactions: the connection is closed or lost."""
        self._connect_by = inf
        self.buffer.closed()
        self.leg.enter(LegState.CLOSED)
        del self._broker.connections[self]
        commands, self._commands = self._commands, None
        if commands is not None:
            commands.closed()

    # One input

    def _start_turn(self, *, again: bool = False) -> None:
        """Allow the messages of one turn, `Bounds.burst` bytes. `again`: also send messages that wait already."""
        again = again or self.buffer.at_limit
        self.buffer.start_turn(self._bounds.burst)
        if again and self._commands is not None:
            self.buffer.go_on()

    def _drain(self, now: float, *, wake: bool = False) -> list[Effect]:
        """Return the effects of this input. `wake`: add a `Wake` for the next time at which something is due."""
        buffer, outbox = self.buffer, self._output
        buffer.limit = inf
        outbox.flush(now)
        if self.leg.closed:
            outbox.put(Wake(inf))
        else:
            if buffer.unread > self._bounds.unread and self._reading:
                self._reading = False
                self.leg.heartbeat.reading = False
                outbox.put(Pause(self.leg))
            if buffer.at_limit:
                outbox.put(Wake(now))
            elif wake:
                outbox.put(Wake(min(self._connect_by, self._finish_by, self.leg.heartbeat.deadline)))
        return outbox.drain()

    def _note(self, event: Event, text: str) -> None:
        self._output.put(Note(event, f"{self.name.decode()}: {text}"))


# All connections


class EmbeddedBroker:
    """Queues and topics, and their connections. `heart_beat`: the terms that the broker offers. `name` begins all ids.
    It must have only letters and digits, and be different at each start, because clients may remember ids.
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
        self.output = Output()
        self.destinations = Destinations(bounds, name, self._dropped)
        self.connections: dict[Connection, None] = {}
        self._opened = 0

    def opened(self, now: float) -> tuple[Connection, list[Effect]]:
        """Return a new client's connection and its first effects. Then call the methods of the connection."""
        self._opened += 1
        connection = Connection(self, b"%b-session-%d" % (self.name, self._opened), now)
        self.connections[connection] = None
        return connection, self.output.drain()

    def stopped(self, now: float) -> list[Effect]:
        """The service stops: end all connections, each with an ERROR, and return the effects."""
        connections = list(self.connections)
        for connection in connections:
            connection.buffer.closed()
        for connection in connections:
            connection.fail(StompError("the broker is stopping", "connect again later"))
        self.output.flush(now)
        return self.output.drain()

    def _dropped(self, letters: int) -> None:
        self.output.put(Note(Event.IGNORED, f"dead letters thrown away for want of room: {letters}"))
