"""A session's place in one group of brokers: the broker that it has, or the search for one."""

from collections.abc import Callable
from enum import Enum
from math import inf

from stomprelay.relay.bridge.negotiation import Bridges
from stomprelay.relay.effects import Effect
from stomprelay.relay.link.handshake import Accepted, Handshake
from stomprelay.relay.link.schedule import Schedule
from stomprelay.relay.model.group import Broker, Group
from stomprelay.relay.model.listener import Listener
from stomprelay.relay.model.profile import unavailable
from stomprelay.relay.model.upstream import Upstream
from stomprelay.relay.notes import refused, vain
from stomprelay.relay.resend.resender import Resender
from stomprelay.session.effects import Close, Event, How, Resume, Send
from stomprelay.session.handshake import Offer
from stomprelay.session.leg import Leg
from stomprelay.session.session import Session
from stomprelay.session.states import State
from stomprelay.wire.names import CONNECTED, DISCONNECT, MESSAGE_HEADER, RECEIPT_HEADER


class Stage(Enum):
    """The stages of a `Link`. From UP on it is SEARCHING again whenever it lost or left its broker."""

    SEARCHING = "searching"
    """It waits for the time of the next attempt."""
    BINDING = "handshake"
    """A broker was asked for its connection, or for CONNECTED."""
    UP = "up"
    """Frames flow."""
    PARTING = "parting"
    """The broker was told DISCONNECT because the session moves: what it still sends is the client's."""
    ENDED = "ended"
    """No broker could be had, or the session is over."""


class Link:
    """One session in one group. `session` is what the brokers here are told of it.

    `seek` begins the search; then tell what comes: `connected`, `answered`, `refused`, `lost`, `woke`, the last one
    at `until`. `leg` is the one with the broker that it has or asks. `resender` is there where the session survives
    its broker, and where it is `carried` for having other links beside this one. A link that moves says
    DISCONNECT with the receipt `parting`, and `parted` is set when that came. `before` is the broker that it had
    before, `news` what the next one means, `verdict` says why none could be had, in words that a client may read.
    """

    __slots__ = (
        "_chance",
        "_handshake",
        "_listener",
        "_offer",
        "_patience",
        "_schedule",
        "_target",
        "_to",
        "before",
        "bridges",
        "broker",
        "group",
        "leg",
        "moving",
        "news",
        "parted",
        "parting",
        "resender",
        "session",
        "stage",
        "until",
        "upstream",
        "verdict",
    )

    def __init__(
        self,
        listener: Listener,
        upstream: Upstream,
        group: Group,
        offer: Offer,
        session: Session,
        chance: Callable[[], float],
        *,
        carried: bool = False,
    ) -> None:
        self.upstream = upstream
        self.group = group
        self.session = session
        self.stage = Stage.SEARCHING
        self.leg: Leg | None = None
        self.broker: Broker | None = None
        self.before: Broker | None = None
        self.bridges: Bridges | None = None
        self.parting: bytes | None = None
        self.parted = False
        self.moving = False
        self.news = Event.CONNECTED
        self.verdict = ""
        self.until = inf
        self.resender: Resender | None = None
        if carried or upstream.movable:
            self.resender = Resender(
                session, listener.limits, most=upstream.resend_buffer, confirm=upstream.confirm
            )
        self._listener = listener
        self._offer = offer
        self._chance = chance
        self._schedule = Schedule(group, upstream.reconnect_rate, chance)
        self._handshake: Handshake | None = None
        self._patience = inf
        self._target: Broker | None = None
        self._to: Broker | None = None

    @property
    def up(self) -> bool:
        """Whether there is a broker to speak to."""
        return self.stage is Stage.UP

    @property
    def fresh(self) -> bool:
        """Whether no broker accepted the session yet."""
        return self.bridges is None

    @property
    def quiet(self) -> bool:
        """Whether its broker could be left without a trace: no open transaction, nothing unacknowledged, nothing
        unconfirmed.
        """
        return self.up and self.resender is not None and self.resender.quiet

    @property
    def asked(self) -> Broker | None:
        """The broker that is asked for CONNECTED now."""
        return None if self._handshake is None else self._handshake.broker

    @property
    def uncertain(self) -> int:
        """How many SENDs may be lost if the session ended now."""
        if self.resender is None:
            return len(self.session.receipts)
        return len(self.resender.unconfirmed) + self.resender.unconfirmed.unproved

    # The search

    def seek(self, effects: list[Effect], now: float, prefer: Broker | None = None) -> None:
        """Look for a broker, first of all for this one where one is preferred."""
        self._schedule.begin(now, start=self.fresh, prefer=prefer)
        self._next(effects, now)

    def _next(self, effects: list[Effect], now: float) -> None:
        attempt = self._schedule.next(now)
        if attempt is None:
            self._give_up(now)
            return
        if self._schedule.vain:
            effects.append(vain(self.group, self.upstream, self._schedule.passes))
        self.stage = Stage.SEARCHING
        self._target = attempt.broker
        self.until = min(attempt.at, self._schedule.deadline)
        if attempt.at <= now:
            self._open(effects, now)

    def _give_up(self, now: float) -> None:
        self.verdict = self._schedule.verdict(now)
        self._schedule.ended()
        self.stage = Stage.ENDED
        self.until = inf

    def _open(self, effects: list[Effect], now: float) -> None:
        """The time of an attempt has come."""
        if self._target is None or not self._schedule.stands(now):
            self._next(effects, now)
            return
        self._handshake = Handshake(
            self._listener,
            self.upstream,
            self._target,
            self._offer,
            self.session,
            tracked=self.resender is not None,
        )
        self._ask(self._handshake, effects, now)

    def _ask(self, handshake: Handshake, effects: list[Effect], now: float) -> None:
        self.stage = Stage.BINDING
        self.leg = handshake.leg
        self._patience = now + self.upstream.connect_timeout
        self.until = min(self._patience, self._schedule.deadline)
        effects += handshake.opened()

    def connected(self, leg: Leg, effects: list[Effect], now: float) -> None:
        """The connection that was asked for is there."""
        if self._handshake is None or leg is not self.leg:
            effects.append(Close(leg, How.ABORT))
            return
        leg.heartbeat.said_at = now
        effects.append(Send(leg, self._handshake.connect()))

    def answered(self, data: bytes, effects: list[Effect], now: float) -> Accepted | bytes | None:
        """The broker sent something before it was CONNECTED. Answers what the session is bound by, or the ERROR that
        is the client's; None when the search goes on.

        Raises `StompError` for what is not STOMP.
        """
        leg, handshake = self.leg, self._handshake
        assert leg is not None
        assert handshake is not None
        leg.decoder.feed(data)
        for frame in leg.decoder.frames():
            if frame.command is CONNECTED:
                bound = handshake.accepted(frame, now)
                self._bound(handshake, bound, now)
                return bound
            note = handshake.retried(frame)
            if note is not None:
                effects += [note, Close(leg, How.FLUSH)]
                self._ask(handshake, effects, now)
                return None
            if self.upstream.movable and unavailable(frame.raw(MESSAGE_HEADER) or b""):
                self.refused("it answered CONNECT with an ERROR: unavailable", effects, now)
                return None
            return frame.wire
        return None

    def _bound(self, handshake: Handshake, bound: Accepted, now: float) -> None:
        self._handshake = None
        self.stage = Stage.UP
        self.until = inf
        self.broker = handshake.broker
        self.bridges = bound.bridges
        self.broker.health.answered()
        self.broker.health.sessions += 1
        self._schedule.found(now)
        if self.resender is not None:
            self.resender.bound(handshake.leg, bound.bridges.to_broker, cumulative=bound.product.cumulative)

    def refused(self, reason: str, effects: list[Effect], now: float) -> None:
        """The broker cannot be reached, or did not answer CONNECT in time: the next one."""
        handshake = self._handshake
        assert handshake is not None
        broker = handshake.broker
        broker.versions = None  # when it comes back it may be another one
        broker.health.failed(self.upstream.checks, now, self._chance)
        self.session.counters["brokers_refused"] += 1
        effects.append(refused(broker, self.upstream, f"did not connect: {reason}"))
        self._handshake = None
        if self.resender is not None:
            self.hang_up(How.ABORT, effects)
        self._next(effects, now)

    def reconsidered(self, effects: list[Effect], now: float) -> None:
        """A broker came back: where none is being asked, try again at once."""
        if self.stage is Stage.SEARCHING:
            self._schedule.reconsider(now)
            self._next(effects, now)

    def woke(self, effects: list[Effect], now: float) -> None:
        """`until` has come."""
        if self.stage is Stage.BINDING and now >= self._patience:
            self.refused("no CONNECTED in time", effects, now)
        elif self.stage is Stage.BINDING:
            self.hang_up(How.ABORT, effects)
            self._give_up(now)
        elif self.stage is Stage.SEARCHING and now >= self._schedule.deadline:
            self._give_up(now)
        elif self.stage is Stage.SEARCHING:
            self._open(effects, now)

    # Ends

    def failed(self, now: float) -> None:
        """The broker that it has fell silent: it is no better for others."""
        if self.broker is not None:
            self.broker.health.failed(self.upstream.checks, now, self._chance)

    def hang_up(self, how: How, effects: list[Effect]) -> None:
        """The leg is no more, or shall be no more; another one may follow."""
        leg = self.leg
        if leg is not None and not leg.closed:
            leg.enter(State.CLOSED)
            effects.append(Close(leg, how))
        if self.broker is not None:
            self.broker.health.sessions -= 1
            self.before, self.broker = self.broker, None
        self._handshake = None
        self.parting = None
        self.parted = self.moving = False

    def end(self, effects: list[Effect]) -> None:
        """The session is over."""
        self.hang_up(How.FLUSH, effects)
        self._schedule.ended()
        self.stage = Stage.ENDED
        self.until = inf

    # Moving

    def leave(self, now: float, within: float, to: Broker | None) -> None:
        """The session shall move to another broker at a quiet moment, or when the time is over."""
        if self.up and self.upstream.movable:
            self.moving = True
            self.until = now + within
            self._to = to

    def stay(self) -> None:
        """The session need not move any more: its client leaves."""
        if self.up and self.moving:
            self.moving = False
            self.until = inf

    def part(self, effects: list[Effect], now: float) -> None:
        """Say DISCONNECT; when it is confirmed, or the leg is lost, go on with `move`."""
        leg, bridges, resender = self.leg, self.bridges, self.resender
        assert leg is not None
        assert bridges is not None
        assert resender is not None
        self.parted = False
        self.parting = resender.unconfirmed.ask()
        disconnect = bridges.to_broker.compose(DISCONNECT, [(RECEIPT_HEADER, self.parting)], self.session)
        leg.enter(State.LEAVING)
        leg.heartbeat.said_at = now
        # What it still has to say may wait behind messages that the client owes too many ACKs for.
        effects += [Send(leg, disconnect), Resume(leg)]
        self.stage = Stage.PARTING
        self.until = now + self.upstream.disconnect_timeout

    def move(self, effects: list[Effect], now: float) -> None:
        """The old broker was left: look for the next one."""
        self.session.counters["brokers_moved"] += 1
        self.news = Event.MOVED
        self.hang_up(How.FLUSH, effects)
        self.seek(effects, now, self._to)
