"""One client joined to its broker.

Inputs are told in the past tense with `now`, in seconds of one steady clock; each answers with the effects that
the service must perform, in order. No input raises. The life of a relay:

    opened      the client is there; CONNECT must come in time
    received    CONNECT: a broker is opened, the client is not read from meanwhile
    connected   the broker is there and is sent CONNECT; its CONNECTED is passed on, and frames flow
    lost        either side went: the other one is told, and closed

An ERROR of ours is written, then the client's leg lingers so that it arrives. Only whole frames are written.
"""

from math import inf

from stomprelay.relay.binding import Binding
from stomprelay.relay.effects import Effect
from stomprelay.relay.listener import Listener
from stomprelay.relay.tally import Tally
from stomprelay.relay.traffic import Goodbye, Traffic
from stomprelay.session.complaint import complain, not_stomp
from stomprelay.session.effects import Close, Event, How, Note, Pause, Resume, Send, Wake
from stomprelay.session.foreign import recognise
from stomprelay.session.handshake import Offer, spell_versions
from stomprelay.session.heartbeat import BEAT
from stomprelay.session.leg import Leg
from stomprelay.session.session import Session
from stomprelay.session.states import Side, State
from stomprelay.wire.dialect import V1_0, Dialect, demanding_utf8
from stomprelay.wire.errors import LimitError, Refused, StompError
from stomprelay.wire.names import CONNECTED


class Relay:
    """The join of one client's leg, its session and one broker's leg.

    `name` tells it apart in logs and is the `session` of a client whose broker gives none. `client` and `broker`
    are the legs that effects and inputs speak of; `broker` is None until a CONNECT was understood.
    """

    __slots__ = (
        "_binding",
        "_gone",
        "_traffic",
        "_until",
        "broker",
        "client",
        "listener",
        "name",
        "session",
        "tally",
    )

    def __init__(self, listener: Listener, name: bytes, tally: Tally) -> None:
        self.listener = listener
        self.name = name
        self.tally = tally
        self.client = Leg(Side.DOWNSTREAM, listener.limits)
        self.broker: Leg | None = None
        self.session: Session | None = None
        self._binding: Binding | None = None
        self._traffic: Traffic | None = None
        self._until = inf
        self._gone = False

    # Inputs

    def opened(self, now: float) -> list[Effect]:
        """A client connected. Perform what is answered, then tell what it sends with `received`."""
        self.tally["sessions_opened"] += 1
        self._until = now + self.listener.connect_timeout
        return [Wake(self._until)]

    def received(self, leg: Leg, data: bytes, now: float) -> list[Effect]:
        """Octets came on a leg."""
        downstream = leg is self.client
        self.tally["client_bytes" if downstream else "broker_bytes"] += len(data)
        leg.heartbeat.heard_at = now
        try:
            match leg.state:
                case State.CONNECTED:
                    leg.decoder.feed(data)
                    return self._carried(leg, now)
                case State.OPENING if downstream:
                    return self._greeted(data, now)
                case State.OPENING:
                    leg.decoder.feed(data)
                    return self._answered(now)
                case State.BINDING:
                    leg.decoder.feed(data)
                case State.LEAVING if not downstream:
                    leg.decoder.feed(data)
                    return self._carried(leg, now)
        except StompError as error:
            return self._failed(leg, error)
        return []

    def connected(self, leg: Leg, now: float) -> list[Effect]:
        """The connection that an `Open` asked for is there."""
        if leg.closed or self._binding is None:
            return [Close(leg, How.ABORT)]
        leg.heartbeat.said_at = now
        return [Send(leg, self._binding.connect())]

    def refused(self, leg: Leg, reason: str, now: float) -> list[Effect]:
        """The connection that an `Open` asked for cannot be had, and why."""
        if leg.closed:
            return []
        upstream = self.listener.upstream
        upstream.broker.versions = None  # when it comes back it may be another one
        self.tally["brokers_refused"] += 1
        note = Note(Event.REFUSED, f"broker {upstream.broker} did not connect: {reason}")
        # The client is told which, not why: reasons hold addresses and certificates.
        error = StompError("broker not available", f"upstream {upstream.name} did not connect")
        return [note, *self._failed(self.client, error)]

    def lost(self, leg: Leg, reason: str, now: float) -> list[Effect]:
        """A leg's connection ended without our `Close`."""
        if leg.closed:
            return []
        leaving = self._traffic is not None and self._traffic.goodbye is not Goodbye.UNSAID
        if leg is self.client:
            if not leaving:
                self.tally["clients_vanished"] += 1
            if leg.state is State.BINDING and leg.decoder.buffered:
                self._gone = True
                return [Note(Event.VANISHED, "client left; what it said behind CONNECT is still delivered")]
            event = Event.DISCONNECTED if leaving else Event.VANISHED
            return [Note(event, f"client left: {reason}"), *self._closed(How.FLUSH)]
        if self._traffic is None:
            return self.refused(leg, f"connection closed before CONNECTED: {reason}", now)
        if self._traffic.erred or self._traffic.settled:
            self.tally["possibly_lost"] += bool(self._traffic.session.receipts)
            return [Note(Event.DISCONNECTED, f"broker closed: {reason}"), *self._closed(How.LINGER)]
        return self._broker_failed(f"closed the connection: {reason}")

    def paused(self, leg: Leg) -> None:
        """The leg is not read from any more, by back-pressure or by a `Pause`."""
        leg.heartbeat.paused()

    def resumed(self, leg: Leg, now: float) -> list[Effect]:
        """The leg is read from again."""
        leg.heartbeat.resumed(now)
        return [Wake(self._deadline())]

    def woke(self, now: float) -> list[Effect]:
        """The time of the last `Wake` has come."""
        if now >= self._until:
            return self._overdue(now)
        effects: list[Effect] = []
        for leg in (self.client, self.broker):
            if leg is None or leg.state is not State.CONNECTED:
                continue
            if leg.heartbeat.dead(now):
                return self._silent(leg)
            if leg.heartbeat.due(now):
                leg.heartbeat.said_at = now
                effects.append(Send(leg, BEAT))
        return [*effects, Wake(self._deadline())]

    def stopped(self, now: float) -> list[Effect]:
        """The service stops: the client is told, and both legs are closed."""
        if self.client.closed:
            return []
        return self._failed(self.client, StompError("the relay is stopping", "connect again"))

    # The handshake

    def _greeted(self, data: bytes, now: float) -> list[Effect]:
        """The client's first octets, up to its CONNECT. What follows in the chunk waits for the broker."""
        client = self.client
        foreign = None if client.decoder.buffered else recognise(data)
        if foreign is not None:
            self.tally["foreign"] += 1
            answer: list[Effect] = [Send(client, foreign.answer)] if foreign.answer else []
            return [Note(Event.FOREIGN, foreign.what), *answer, *self._closed(How.LINGER)]
        client.decoder.feed(data)
        for frame in client.decoder.frames():
            offer = Offer.read(frame)
            dialect = offer.agree(self.listener.versions)
            self.session = Session(self.name, dialect, self.listener.unacknowledged, self.tally)
            client.enter(State.BINDING, demanding_utf8(dialect) if self.listener.require_utf8 else dialect)
            self._binding = Binding(self.listener, offer, self.session)
            return [Pause(client), *self._bind(self._binding, now)]
        if client.decoder.buffered > self.listener.before_connect:
            raise LimitError("too much before CONNECT", f"the limit is {self.listener.before_connect} bytes")
        return []

    def _bind(self, binding: Binding, now: float) -> list[Effect]:
        self.broker = binding.leg
        self._until = now + self.listener.upstream.connect_timeout
        return binding.opened(now)

    def _answered(self, now: float) -> list[Effect]:
        """The broker's first frame: the session is bound, tried again, or denied in the broker's own words."""
        binding, session, leg = self._binding, self.session, self.broker
        assert binding is not None
        assert session is not None
        assert leg is not None
        for frame in leg.decoder.frames():
            if frame.command is CONNECTED:
                bound = binding.accepted(self.client, frame, now)
                self.tally["sessions_connected"] += 1
                self._binding = None
                self._traffic = Traffic(self.client, leg, session, bound.pairing)
                self._until = inf
                if self._gone:
                    return [*self._carried(self.client, now), *self._closed(How.FLUSH)]
                return [
                    Note(Event.CONNECTED, bound.note),
                    Send(self.client, bound.connected),
                    Wake(self._deadline()),
                    *self._carried(leg, now),
                    *self._carried(self.client, now),
                    Resume(self.client),  # last: what it answers is reckoned anew
                ]
            note = binding.retried(frame)
            if note is not None:
                return [note, Close(leg, How.FLUSH), *self._bind(binding, now)]
            self.tally["errors_passed"] += 1
            denied = Note(
                Event.REFUSED, f"broker {self.listener.upstream.broker} answered CONNECT with ERROR"
            )
            return [denied, Send(self.client, frame.wire), *self._closed(How.LINGER)]
        return []

    # Frames

    def _carried(self, leg: Leg, now: float) -> list[Effect]:
        """A leg has frames for the other one."""
        traffic = self._traffic
        if traffic is None or leg.closed:
            return []
        effects: list[Effect] = []
        goodbye = traffic.goodbye
        failure = (traffic.to_broker if leg is self.client else traffic.to_client)(effects, now)
        if traffic.goodbye is not goodbye:
            effects.append(self._left(traffic, now))
        if failure is not None:
            effects += self._failed(leg, failure)
        elif traffic.erred and self.listener.upstream.close_on_error:
            effects += self._closed(How.LINGER)
        return effects

    def _left(self, traffic: Traffic, now: float) -> Wake:
        """The goodbye came a step further; each step has its time."""
        done = traffic.goodbye is Goodbye.CONFIRMED
        self._until = now + (self.listener.linger if done else self.listener.upstream.disconnect_timeout)
        return Wake(self._deadline())

    # Ends

    def _overdue(self, now: float) -> list[Effect]:
        """What had to happen by now did not."""
        traffic = self._traffic
        if traffic is not None:
            if traffic.goodbye is Goodbye.WAITING:
                effects: list[Effect] = []
                traffic.say_goodbye(effects, now)
                return [*effects, self._left(traffic, now)]
            if traffic.settled:
                return self._closed(How.LINGER)
            return self._broker_failed("did not confirm DISCONNECT in time")
        if self.broker is not None:
            return self.refused(self.broker, "no CONNECTED in time", now)
        limit = f"the limit is {self.listener.connect_timeout:g} s"
        return self._failed(self.client, StompError("no CONNECT in time", limit))

    def _silent(self, leg: Leg) -> list[Effect]:
        """A peer missed its beats."""
        self.tally["beats_missed"] += 1
        if leg is not self.client:
            return self._broker_failed("sent nothing for too long (heart-beat)")
        error = StompError("heart-beat missed", "nothing came for longer than was agreed")
        return [Note(Event.LOST, "client fell silent"), *self._failed(leg, error)]

    def _broker_failed(self, reason: str) -> list[Effect]:
        """The broker went under a connected client."""
        upstream, traffic = self.listener.upstream, self._traffic
        assert traffic is not None
        self.tally["brokers_lost"] += 1
        self.tally["possibly_lost"] += bool(traffic.session.receipts)
        note = Note(Event.LOST, f"broker {upstream.broker} {reason}")
        error = StompError(
            "connection to the broker was lost", f"upstream {upstream.name}", receipt=traffic.bye
        )
        return [note, *self._failed(self.client, error)]

    def _failed(self, leg: Leg, error: StompError) -> list[Effect]:
        """The session ends in an ERROR to the client; `leg` is whose octets are to blame."""
        text = f"{error.message} ({error.detail})" if error.detail else error.message
        if leg is not self.client and not isinstance(error, Refused):
            error = not_stomp(error)
        supported = spell_versions(self.listener.versions) if self.session is None else None
        said: Dialect = V1_0 if self.session is None else self.session.dialect
        self.tally["errors_sent"] += 1
        return [
            Note(Event.ERROR, f"{leg.side.value}: {text}"),
            Send(self.client, complain(error, said, supported)),
            *self._closed(How.LINGER),
        ]

    def _closed(self, how: How) -> list[Effect]:
        """Both legs end, the client's in this way; nothing is due any more."""
        effects: list[Effect] = []
        if not self.client.closed:
            self.client.enter(State.CLOSED)
            effects.append(Close(self.client, how))
        if self.broker is not None and not self.broker.closed:
            self.broker.enter(State.CLOSED)
            effects.append(Close(self.broker, How.FLUSH))
        self._until = inf
        return [*effects, Wake(inf)]

    def _deadline(self) -> float:
        deadline = self._until
        for leg in (self.client, self.broker):
            if leg is not None and leg.state is State.CONNECTED:
                deadline = min(deadline, leg.heartbeat.deadline)
        return deadline
