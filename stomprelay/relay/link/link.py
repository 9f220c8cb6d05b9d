"""A session's link to one group of brokers: the broker that the session has, or the search for one."""

from collections.abc import Callable, Sequence
from dataclasses import InitVar, dataclass, field
from enum import Enum
from math import inf
from typing import ClassVar, Final, NamedTuple

from stomprelay.relay.bridge import (
    Bridges,
    asked,
    bridges_between,
    client_address,
    credentials,
    profile,
)
from stomprelay.relay.effects import Open, Outbox, fault, left, moved, vain, words
from stomprelay.relay.model.group import Broker, BrokerTally, Group, Reconnect, Sight, spread
from stomprelay.relay.model.listener import Listener
from stomprelay.relay.model.profile import Profile
from stomprelay.relay.model.upstream import Upstream
from stomprelay.relay.resend.resender import Resender
from stomprelay.session.effects import Close, Event, How, Note, Pause, Resume
from stomprelay.session.handshake import Accord, Offer, spell_versions, versions
from stomprelay.session.leg import Leg, LegState, Side
from stomprelay.session.session import Session
from stomprelay.wire.dialect import DIALECTS
from stomprelay.wire.errors import Refused, StompError
from stomprelay.wire.frame import Frame
from stomprelay.wire.names import CONNECTED, VERSION

_ONCE: Final = Reconnect(attempts=0, startup_attempts=1)

SHORTEST: Final = 0.01
"""The shortest pause between two passes. Without it, a link would loop if all brokers refuse connections at once."""

SETTLED: Final = 1.0
"""If a broker that was found after a loss is lost within so many seconds, the old search goes on."""

CLOSED: Final = "the broker closed the connection when it was sent CONNECT"
STRANGE: Final = "the broker did not answer CONNECT with CONNECTED"

PROOF: Final = 2
"""The number of attempts that must have ended at brokers that were well, before the client counts as the cause."""

REST: Final = 2.0
"""Seconds until the next attempt of a client that was turned away `PROOF` times. A probe is due within one second."""


class Attempt(NamedTuple):
    """Try this broker at this time. None: no broker may be tried; call `next` again when a broker is resumed."""

    broker: Broker | None
    at: float


@dataclass(slots=True, eq=False, repr=False)
class Suspicion:
    """Records the attempts of one client that no broker has accepted yet, to find out whether the client's CONNECT is
    the reason. RabbitMQ closes the connection for some logins without an ERROR, like a broker that dies.

    The client is the cause if two attempts ended at brokers that were well before and after, and that accepted other
    clients in the meantime (`Health.well_since`). After two attempts a pause leaves time for a probe, in case no other
    client comes.

    Call `turned_away` when a broker ended an attempt after CONNECT. Then ask `proved`, and ask again before the next
    attempt, which must wait `rest` seconds. `fault` describes the last attempt, for a client.
    """

    fault: str = ""
    _count: int = 0
    _attempts: tuple[tuple[Broker, Sight], ...] = ()

    def turned_away(self, broker: Broker, sight: Sight, fault: str) -> None:
        """A broker did not accept the session after CONNECT. `sight`: the broker's state when the attempt began."""
        self._count += 1
        self.fault = fault
        if sight.well:
            self._attempts = (*self._attempts[-PROOF:], (broker, sight))

    @property
    def proved(self) -> bool:
        """Whether the client's CONNECT is the reason why no broker accepted the session."""
        certain = (
            broker.health.answered_since(sight) and broker.health.well_since(sight)
            for broker, sight in self._attempts
        )
        return sum(certain) >= PROOF

    @property
    def rest(self) -> float:
        """Return how many seconds the next attempt has to wait at least."""
        return REST if self._count >= PROOF else 0.0


@dataclass(slots=True, eq=False, repr=False)
class Schedule:
    """The order and the times of a session's attempts in one group. As in ActiveMQ's failover transport, a pass tries
    every broker once, and the pauses between passes grow. Brokers that failed come last; paused brokers are not tried.

    Call `begin`, then do what `next` returns, until a broker accepts or `next` returns None. When an attempt is due and
    `stands` is False, call `next` again. Call `reconsider` when a broker was resumed or came back, `found` when a
    broker accepted, `ended` when the session is over.

    `last`: the broker of the last attempt, or the broker that the session moved to. `passes`: passes without success.
    `vain`: so many passes had no success that a note must be logged now. `deadline`: when the session is given up, but
    see `kept`. `_rate` limits how many sessions return in a second. `offer`: what brokers are sent in CONNECT.
    `suspicion`: None until a broker turns the client away.
    """

    _group: Group
    _rate: float
    _chance: Callable[[], float]
    offer: Offer
    suspicion: Suspicion | None = None
    last: Broker | None = None
    passes: int = 0
    vain: bool = False
    deadline: float = inf
    _options: Reconnect = _ONCE
    _start: bool = True
    _found_at: float = -inf
    _left: list[Broker] = field(default_factory=list)
    _late: bool = False
    _held: bool = False
    _ready_at: float = 0.0
    _delay: float = 0.0
    _most: int = 0
    _before: Broker | None = None
    _bound: Broker | None = None
    _target: Broker | None = None
    _slot: tuple[Broker | None, float] = (None, 0.0)

    def __post_init__(self) -> None:
        self._options = self._group.reconnect or _ONCE

    def begin(self, now: float, *, start: bool, prefer: Broker | None = None) -> None:
        """Begin a search, for a new client (`start`), or for a client that lost or left its broker. If the last search
        found a broker that was lost at once, go on with that search. A session that moves does not wait, and has at
        least one pass.
        """
        if self._target is not None:
            self.ended()
        self._start = start
        sent = prefer is not None or (self.last is not None and self.last.health.paused)
        self._most = self._options.most(start=start) or int(sent)
        if not sent and now < self._found_at + SETTLED:
            self.passes = 0
            self._wait(now, max(self._delay, SHORTEST))
            self._left = self._pass(self._ready_at)
            return
        self._renew(now, prefer)
        self._late = not start
        if not start and not sent:
            self._wait(now, self._delay)

    def next(self, now: float) -> Attempt | None:
        """Return the next broker to try, and when; None if the search has ended without success."""
        if self._target is not None:
            self.ended()
        self.vain = False
        if self.kept():
            return Attempt(None, inf)
        if self._held:
            self._renew(now)
        if not self._most or now >= self.deadline:
            return None
        left = self._left
        for each in left:
            if each.health.paused:
                left = self._open()
                break
        if not left:
            # Waiting for the broker that has the sessions is no failed pass.
            if self._bound is None:
                self.passes += 1
                self.vain = self.passes % self._options.warn_after == 0
            if 0 < self._most <= self.passes:
                return None
            self._late = True
            self._wait(now, max(self._delay, SHORTEST))
            self._left = self._pass(self._ready_at)
            left = self._open()
        at = max(now, self._ready_at)
        broker = left[0]
        for each in left:
            if not each.health.out(at):
                broker = each
                break
        self._left.remove(broker)
        self._before, self.last = self.last, broker
        self._target = broker
        broker.health.coming += 1
        if self._late:  # at its turn, which `reconsider` does not change
            if self._slot[0] is not broker or self._slot[1] < now:
                self._slot = broker, broker.health.slot(self._rate, now)
            at += self._slot[1] - now
        return Attempt(broker, at)

    def stands(self, now: float) -> bool:
        """Whether to make the attempt that `next` returned, now that its time has come. If not, call `next` again."""
        broker = self.last
        if broker is None:
            return False
        health = broker.health
        if (self._home(now) if self._group.together else None) is not self._bound:
            self.last = self._before
            self._left = self._pass(now)
            return False
        if health.paused or (health.out(now) and any(not each.health.out(now) for each in self._open())):
            self._left.append(broker)
            self.last = self._before
            return False
        health.trial(now)
        return True

    def reconsider(self, now: float) -> None:
        """A broker was resumed or came back: begin a pass now. Its attempts wait only for the session's turn."""
        if self._target is not None:
            self.last = self._before
        self.ended()
        self._ready_at = now
        self._late = True
        self._left = self._pass(now)

    def found(self, now: float) -> None:
        """A broker accepted the session and counted it (`Health.joined`). Pauses are short again, if passes failed."""
        self.ended()
        if self.passes:
            self._delay = self._options.initial_delay
        self._found_at = -inf if self._start else now

    def explained(self) -> None:
        """A frame that is not sent again was why brokers were lost: pauses are short again after the next loss."""
        self._found_at = -inf

    def ended(self) -> None:
        """The attempt is over, with or without success: the session is not on its way to a broker any more."""
        if self._target is not None:
            self._target.health.coming -= 1
            self._target = None

    def verdict(self, now: float) -> str:
        """Return why the search ended, in words that a client may read."""
        if now >= self.deadline:
            return f"none could be had within {self._options.timeout:g} s"
        return f"none could be had in {self.passes} attempt{'s'[: self.passes != 1]}"

    def kept(self) -> bool:
        """Whether an operator paused all brokers. If so, the search has no deadline, and begins anew afterwards."""
        for each in self._group.brokers:
            if not each.health.paused:
                return False
        self._held = True
        self.deadline = inf
        return True

    def _renew(self, now: float, prefer: Broker | None = None) -> None:
        """Reset all counts, and begin a pass now."""
        self._held = False
        self._late = True
        self._ready_at = now
        self._delay = self._options.initial_delay
        self.deadline = now + self._options.timeout
        self.passes = 0
        self._left = self._pass(now, prefer)

    def _wait(self, now: float, delay: float) -> None:
        """Let the next pass begin after a delay. If delays grow, the delay after this one is longer."""
        options = self._options
        self._ready_at = now + spread(
            min(delay, max(options.longest_delay, SHORTEST)), self._chance, options.jitter
        )
        if options.exponential:
            self._delay = min(max(delay, SHORTEST) * options.multiplier, options.longest_delay)

    def _pass(self, now: float, prefer: Broker | None = None) -> list[Broker]:
        """Return the brokers to try in a pass, in order."""
        order = self._group.order(now, self._chance, prefer)
        if self._group.together:
            self._bound = self._home(now)
            if self._bound is None:
                order += [each for each in self._group.brokers if each not in order]
        if self.last in order and self.last is not prefer:
            order.remove(self.last)
            order.append(self.last)
        return order

    def _home(self, now: float) -> Broker | None:
        """Return the broker where all sessions should be, unless it turned this session away for what that sent."""
        return None if self.suspicion is not None and self.suspicion.proved else self._group.home(now)

    def _open(self) -> list[Broker]:
        """Return the brokers that this pass may still try."""
        return [each for each in self._left if not each.health.paused]


AGAIN: Final = 30.0
"""Seconds for which a session that another broker refused is not asked again to move for balance."""


class Accepted(NamedTuple):
    """An accepted session: the bridges to the broker, what CONNECTED says, the broker's product, a line for the log."""

    bridges: Bridges
    accord: Accord
    product: Profile
    text: str


class Denied(NamedTuple):
    """The ERROR with which a broker refused a session: for the client, and in words for the log and for operators."""

    wire: bytes
    reason: str


@dataclass(slots=True, eq=False, repr=False)
class Handshake:
    """A session asks one broker for CONNECTED.

    Call `ask`, then `connect` when the connection is there, then `read` with what the broker sends. `until`: before
    `ask`, when to call `ask`; after it, when CONNECTED must have come. `told`: CONNECT was sent. `sight`: the broker's
    state at `ask`. `accepted`: the broker's acceptance, once it has come.
    """

    _link: "Link"
    broker: Broker
    _offer: Offer
    _outbox: Outbox
    leg: Leg = field(init=False)
    until: float = inf
    told: bool = False
    sight: Sight | None = None
    accepted: Accepted | None = None
    _asked: frozenset[bytes] = frozenset()
    _tried: frozenset[bytes] = frozenset()
    _retried: bool = False

    def __post_init__(self) -> None:
        link = self._link
        self._asked = self._tried = asked(link.upstream, self.broker, link.session.dialect)
        self.leg = Leg(Side.UPSTREAM, link.upstream.limits)

    def ask(self, now: float) -> None:
        """Ask for a connection to the broker."""
        self.until = now + self._link.upstream.connect_timeout
        self.told = False
        self.sight = self.broker.health.sight()
        self._outbox.put(Open(self.leg, self.broker))

    def connect(self, address: str | None, now: float) -> None:
        """Send CONNECT. `address`: the client's IP address, None if it is unknown."""
        upstream, added = self._link.upstream, None
        self.told = True
        if upstream.client_address_header is not None:
            added = client_address(upstream, self.broker, upstream.client_address_header, address)
        frame = self._offer.connect(
            self._asked,
            upstream.heart_beat,
            host=upstream.map.hosts.get(self.broker.uri, upstream.host),
            credentials=credentials(upstream, self.broker, self._offer.credentials),
            added=added,
        )
        self._outbox.send(self.leg, frame, now)

    def read(self, data: bytes, now: float) -> Accepted | Frame | None:
        """Return what CONNECTED says, or the frame that came instead; None while no answer is complete. Raises
        `StompError` for bytes that are not STOMP, and for an unknown version.
        """
        self.leg.decoder.feed(data)
        for frame in self.leg.decoder.frames():
            if frame.command is CONNECTED:
                self.accepted = self._accept(frame, now)
                return self.accepted
            return None if self._retry(frame, now) else frame
        return None

    def _accept(self, frame: Frame, now: float) -> Accepted:
        upstream = self._link.upstream
        accord = Accord.read(frame)
        product = profile(upstream, self.broker, accord, self._offer)
        if self._retried:
            self.broker.versions = self._asked
        dialect = self._link.session.dialect
        spoken = upstream.map.at(product.name)
        bridges = bridges_between(
            dialect.version,
            accord.dialect.version,
            product.name,
            self._link.listener.loss,
            tracked=self._link.resender is not None,
            parting=product.parts_silently and self.broker.path is not None,
            spoken=spoken,
        )
        self.leg.enter(LegState.CONNECTED, bridges.broker)
        self.leg.heartbeat.agree(
            self._offer.terms_toward(self._asked, upstream.heart_beat),
            accord.terms,
            now,
        )
        if upstream.keep_alive and not accord.dialect.heart_beats:
            self.leg.heartbeat.keep_alive(upstream.keep_alive, now)
        pair_of_versions = f"STOMP {dialect.version.decode()} to {accord.dialect.version.decode()}"
        mapped = "" if spoken is None else spoken.summary
        text = f"{pair_of_versions}, {product.name} at {self.broker.uri}{mapped}"
        return Accepted(bridges, accord, product, text)

    def _retry(self, frame: Frame, now: float) -> bool:
        """Read an ERROR that came instead of CONNECTED. If it names other versions, close the leg, ask for these
        versions on a new leg, and return True. The relay believes that the broker has these versions only after a
        CONNECTED: ActiveMQ does not escape an ERROR, so the `version` in it may be the client's text.
        """
        upstream = self._link.upstream
        spoken = versions(frame.raw(VERSION) or b"") & frozenset(DIALECTS)
        # RabbitMQ names its versions in every ERROR. Only versions that were not asked for mean something.
        if not spoken or spoken & self._tried or upstream.versions is not None:
            return False
        self._asked = spoken
        self._retried = True
        self._tried |= spoken
        only = spell_versions(spoken).decode()
        facts = {"broker": str(self.broker), "upstream": upstream.name, "versions": only}
        self._outbox.put(Note(Event.RETRIED, f"broker {self.broker} speaks {only} only", facts))
        self._close(How.FLUSH)
        self.leg = Leg(Side.UPSTREAM, upstream.limits)
        self.ask(now)
        return True

    def denied(self, error: Frame) -> Denied:
        """Return the ERROR that `read` returned. What it says decides nothing."""
        upstream, client = self._link.upstream, self._offer.credentials
        sent = (client, upstream.credentials, credentials(upstream, self.broker, client))
        secrets = [*self._offer.secrets, *[each.passcode or b"" for each in sent if each is not None]]
        text = words(error, self.leg.dialect, secrets)
        return Denied(error.wire, f"answered CONNECT with ERROR{text and ': '}{text}")

    def drop(self) -> None:
        """Close the connection to the broker, if there is one, because the session does not need it."""
        if self.sight is not None and not self.leg.closed:
            self._close(How.LINGER)

    def _close(self, how: How) -> None:
        self.leg.enter(LegState.CLOSED)
        self._outbox.put(Close(self.leg, how))


@dataclass(slots=True)
class Waiting:
    """The link waits for the time to try `target`. If that is None, it waits until an operator resumes a broker."""

    leg: ClassVar[None] = None
    target: Broker | None = None


@dataclass(slots=True)
class Connected:
    """Frames flow between the client and this broker.

    `done`: leave the broker at once. `silent`: the broker did not answer. `place`: the session's number at the broker.
    `sent_frames`: how many frames the client sent. `received_frames`: how many frames the broker sent. `queue_sends`
    and `queue_messages` are the numbers of SENDs to queues and MESSAGEs from queues. `tally` has all four numbers.
    `paused`: the broker is not read from, because the client owes too many ACKs.
    """

    leg: Leg
    broker: Broker
    bridges: Bridges
    product: Profile
    done: bool = False
    silent: bool = False
    place: int = 0
    sent_frames: int = 0
    received_frames: int = 0
    queue_sends: int = 0
    queue_messages: int = 0
    paused: bool = False

    @property
    def tally(self) -> BrokerTally:
        """Return the counts of frames since the broker accepted the session."""
        return BrokerTally(
            sent_frames=self.sent_frames,
            received_frames=self.received_frames,
            queue_sends=self.queue_sends,
            queue_messages=self.queue_messages,
        )


@dataclass(slots=True, kw_only=True)
class Leaving(Connected):
    """The session moves: the broker was sent DISCONNECT with `receipt`. The broker's frames still go to the client."""

    receipt: bytes


@dataclass(slots=True)
class Ended:
    """The link has no broker and looks for none. If no broker was found, `reason` says why, in words that a client may
    read. `leg`: the leg of the last attempt, if it is still open. `unwelcome`: the client's CONNECT is the reason.
    """

    reason: str = ""
    leg: Leg | None = None
    unwelcome: bool = False


@dataclass(slots=True)
class BalanceMove:
    """The session leaves its broker after another broker has accepted it: at a quiet moment, or at `leave_by`. With
    `may_stay`, it stays if no quiet moment came before `leave_by`.

    `target`: the only broker to go to. `left`: brokers that were not asked yet. `refusal`: why the last broker refused.
    `again`: before this time, the session is not asked to move for balance.
    """

    target: Broker | None
    may_stay: bool
    leave_by: float
    left: list[Broker] = field(default_factory=list)
    refusal: str = ""
    again: float = 0.0


@dataclass(slots=True, eq=False, repr=False)
class Link:
    """One session in one group. `session` is what is open at the brokers of this group.

    Call `seek` first, then the method for each event; call `woke` at `until`. `resends`: the session has other links,
    too. `resender`: None if the session ends with its broker. `before`: the broker before this one. `recovering`:
    `before` was lost. `seeks_since`: when the search for the present broker began. `fresh`: no broker has accepted the
    session yet. `moving`: the present move. `following`: the broker that is asked to accept the move. `stays`: why the
    session kept the broker that it was to leave.
    """

    listener: Listener
    upstream: Upstream
    group: Group
    offer: InitVar[Offer]
    session: Session
    _outbox: Outbox
    _chance: Callable[[], float]
    resends: InitVar[bool] = False
    state: Waiting | Handshake | Connected | Ended = field(default_factory=Waiting)
    resender: Resender | None = None
    moving: BalanceMove | None = None
    following: Handshake | None = None
    stays: str = ""
    before: Broker | None = None
    recovering: bool = False
    fresh: bool = True
    seeks_since: float = 0.0
    until: float = inf
    _again: float = 0.0
    _resent: int = 0
    _eager: bool = False
    _schedule: Schedule | None = None

    def __post_init__(self, offer: Offer, resends: bool) -> None:
        upstream = self.upstream
        if resends or upstream.movable:
            self.resender = Resender(
                self.session,
                self._outbox,
                self.listener.limits,
                most=upstream.resend_buffer,
                confirm=upstream.confirm,
                patience=upstream.confirm_timeout,
            )
        self._schedule = Schedule(self.group, upstream.reconnect_rate, self._chance, offer)

    # State of the link

    @property
    def offered(self) -> Offer:
        """What brokers are sent in CONNECT. Raises `AssertionError` if the session ends with its broker."""
        return self._search.offer

    @property
    def up(self) -> bool:
        """Whether the link has a broker that it is not leaving."""
        return type(self.state) is Connected

    @property
    def leaving(self) -> bool:
        """Whether the link's broker was sent DISCONNECT, because the session moves."""
        return type(self.state) is Leaving

    @property
    def ended(self) -> bool:
        """Whether the link has no broker and looks for none."""
        return type(self.state) is Ended

    @property
    def departing(self) -> bool:
        """Whether the link leaves at the next quiet moment: another broker accepted it, or none is there to ask."""
        at = self.following
        return self.moving is not None and (at is None or bool(at.accepted and not at.broker.health.paused))

    def leaves(self, now: float) -> bool:
        """Return whether a `departing` link leaves its broker now: it is quiet, or the time of its move is over."""
        move = self.moving
        return self.quiet or (self.up and move is not None and now >= move.leave_by and not move.may_stay)

    def movable(self, now: float) -> bool:
        """Return whether the session may be asked to move for balance. After a refusal this is False for a while."""
        return self.moving is None and now >= self._again

    @property
    def done(self) -> bool:
        """Whether the link must leave its broker at once."""
        return isinstance(self.state, Connected) and self.state.done

    @property
    def connection(self) -> Connected:
        """Return the link's broker, with leg and bridges. Raises `LookupError` if the link has no broker."""
        if not isinstance(self.state, Connected):
            raise LookupError("there is no broker")
        return self.state

    @property
    def broker(self) -> Broker | None:
        """The broker that the link has, if any."""
        return self.state.broker if isinstance(self.state, Connected) else None

    @property
    def dropped_by(self) -> Broker | None:
        """The link's broker, if it is certain that this broker ended the connection. None if the session was leaving
        the broker, or if the broker did not answer any more.
        """
        state = self.state
        return state.broker if type(state) is Connected and not (state.done or state.silent) else None

    @property
    def legs(self) -> list[Leg]:
        """The legs to the broker that the link has or asks, and to the broker that it will move to."""
        legs = [] if self.state.leg is None else [self.state.leg]
        return legs if self.following is None else [*legs, self.following.leg]

    def broker_at(self, leg: Leg) -> Broker | None:
        """Return the broker to which a leg of this link leads; None if the link has no such leg."""
        for each in (self.state, self.following):
            if isinstance(each, Handshake | Connected) and each.leg is leg:
                return each.broker
        return None

    @property
    def reason(self) -> str:
        """Return why no broker was found, in words that a client may read."""
        return self.state.reason if isinstance(self.state, Ended) else ""

    @property
    def quiet(self) -> bool:
        """Whether leaving the broker loses nothing: nothing is open, unacknowledged or unconfirmed there."""
        return self.up and self.resender is not None and self.resender.quiet

    @property
    def unproved(self) -> int:
        """How many SENDs may be lost if the broker is lost now, even if the next broker confirms all that is kept."""
        return self.session.unproved if self.resender is None else self.resender.unconfirmed.unproved

    def write_off(self) -> int:
        """Forget what is unconfirmed, because the session ends. Return how many SENDs may be lost."""
        lost = self.unproved
        if self.resender is None:
            lost += len(self.session.receipts)
        else:
            lost += self.resender.unconfirmed.sends
            self.resender.unconfirmed.write_off()
        self.session.received_all([*self.session.receipts])
        return lost

    # The search

    @property
    def _search(self) -> Schedule:
        """Return the schedule of the search. A link without a resender has no schedule once a broker accepted."""
        assert self._schedule is not None
        return self._schedule

    def seek(self, now: float, prefer: Broker | None = None) -> None:
        """Look for a broker. If `prefer` is given, try this broker first."""
        self.seeks_since = now
        if self._schedule is None:
            self.state = Ended()
        else:
            self._schedule.begin(now, start=self.fresh, prefer=prefer)
            self._next(self._schedule, now)

    def _next(self, schedule: Schedule, now: float, rest: float = 0.0) -> None:
        attempt = schedule.next(now)
        if attempt is None:
            self._give_up(schedule.verdict(now))
            return
        broker, at = attempt.broker, max(attempt.at, now + rest)
        if schedule.vain:
            self._outbox.put(vain(self.group, self.upstream, schedule.passes))
        if isinstance(self.state, Handshake):
            self.hang_up(How.ABORT)
        if broker is None or at > now:
            self.state = Waiting(broker)
            self.until = min(at, schedule.deadline)
        elif schedule.suspicion is None or not self._rejected(schedule):
            broker.health.trial(now)
            self._ask(schedule, broker, now)

    def _give_up(self, reason: str, *, unwelcome: bool = False) -> None:
        self._search.ended()
        self.state = Ended(reason, self.state.leg, unwelcome)
        self.until = inf

    def _ask(self, schedule: Schedule, broker: Broker, now: float) -> None:
        handshake = self.state = Handshake(self, broker, schedule.offer, self._outbox)
        handshake.ask(now)
        self.until = min(handshake.until, schedule.deadline)

    def _rejected(self, schedule: Schedule) -> bool:
        """Return whether the session was given up, because its client's CONNECT is the cause."""
        suspicion = schedule.suspicion
        if suspicion is None or not (self.fresh and suspicion.proved):
            return False
        self.session.counters["connects_rejected"] += 1
        self._give_up(suspicion.fault, unwelcome=True)
        return True

    def connected(self, leg: Leg, now: float, address: str | None = None) -> None:
        """The connection that was asked for is there. `address`: the client's IP address, if it is known."""
        asked = self.state if isinstance(self.state, Handshake) else self.following
        if asked is not None and asked.leg is leg:
            asked.connect(address, now)
        else:
            self._outbox.put(Close(leg, How.ABORT))

    def answered(self, data: bytes, now: float) -> Accepted | Denied | None:
        """Read what the asked broker sent. Return its acceptance, or the ERROR for the client; None while the
        search goes on. Raises `StompError` for bytes that are not STOMP.
        """
        handshake = self.state
        if not isinstance(handshake, Handshake):
            return None
        answer = handshake.read(data, now)
        if isinstance(answer, Accepted):
            self._accepted(handshake, answer, now)
            return answer
        self.until = min(handshake.until, self._search.deadline)
        if answer is None:
            return None
        if self.upstream.movable and self.upstream.profile.unavailable(answer):
            self.refused("it answered CONNECT with an ERROR: unavailable", now, STRANGE)
            return None
        self._undecided(handshake)
        return handshake.denied(answer)

    def _accepted(self, handshake: Handshake, accepted: Accepted, now: float) -> None:
        leg, broker, bridges, product = handshake.leg, handshake.broker, accepted.bridges, accepted.product
        broker.health.answered()
        place = broker.health.joined()
        self.state = Connected(leg, broker, bridges, product, place=place, queue_sends=self._resent)
        self._resent = 0
        self.until = inf
        self.fresh = False
        schedule = self._search
        schedule.suspicion = None
        schedule.found(now)
        if self.resender is None:
            self._schedule = None
        else:
            self.resender.connected(
                leg,
                bridges.to_broker,
                broker,
                cumulative=product.cumulative,
                commits_early=product.commits_early,
            )

    def refused(self, reason: str, now: float, blame: str = CLOSED) -> None:
        """The asked broker failed or refused CONNECT: ask the next one. `blame`: the error for a client at fault."""
        asked = self.state
        if not isinstance(asked, Handshake) or asked.sight is None:
            return
        broker = asked.broker
        if not asked.told:
            self._fail(broker, now)
        elif self.upstream.movable:
            broker.health.doubt(asked.sight)
            suspicion = self._search.suspicion = self._search.suspicion or Suspicion()
            suspicion.turned_away(broker, asked.sight, blame)
        elif not broker.health.sessions and not broker.health.answered_since(asked.sight):
            self._fail(broker, now)  # nobody probes a plain address
        self._refused(broker, reason, now)

    def _undecided(self, asked: Handshake) -> None:
        """The attempt ended without a result. If the broker counts as down, ask for a probe."""
        health = asked.broker.health
        if health.up is False and asked.sight is not None:
            health.doubt(asked.sight)

    def _fail(self, broker: Broker, now: float) -> None:
        broker.versions = None  # when it comes back it may be another one
        broker.health.failed(self.upstream.checks, now, self._chance)

    def _refused(self, broker: Broker, reason: str, now: float) -> None:
        self.session.counters["brokers_refused"] += 1
        self._outbox.put(fault(Event.REFUSED, broker, self.upstream, f"did not connect: {reason}"))
        if self.resender is not None:
            self.hang_up(How.ABORT)
        schedule = self._search
        suspicion = schedule.suspicion if self.fresh else None
        if not self._rejected(schedule):
            self._next(schedule, now, 0.0 if suspicion is None else suspicion.rest)

    def prevented(self, reason: str, now: float) -> None:
        """This process could not connect to the broker: ask the next one. The broker's health does not change."""
        if not isinstance(self.state, Handshake):
            return
        self.session.counters["connects_prevented"] += 1
        self._outbox.put(
            fault(Event.REFUSED, self.state.broker, self.upstream, f"could not be asked: {reason}")
        )
        if self.resender is not None:
            self.hang_up(How.ABORT)
        self._next(self._search, now)

    def reconsidered(self, now: float) -> None:
        """A broker came back: if the link waits for an attempt, try now."""
        if isinstance(self.state, Waiting):
            self._search.reconsider(now)
            self._next(self._search, now)

    def woke(self, now: float) -> None:
        """The time `until` has come: begin or end an attempt, leave the broker, or decide to stay."""
        match self.state:
            case Handshake(until=until, broker=broker) as asked if now >= until:
                if asked.sight is None or not broker.health.answered_since(asked.sight):
                    self._fail(broker, now)
                self._refused(broker, "no CONNECTED in time", now)
            case Handshake() as asked if self._search.kept():
                self.until = asked.until
            case Handshake() as asked:
                self._undecided(asked)
                self.hang_up(How.ABORT)
                self._give_up(self._search.verdict(now))
            case Waiting(target=target):
                schedule = self._search
                if not schedule.kept() and now >= schedule.deadline:
                    self._give_up(schedule.verdict(now))
                elif not self._rejected(schedule):
                    if target is None or not schedule.stands(now):
                        self._next(schedule, now)
                    else:
                        self._ask(schedule, target, now)
            case Connected() if self.moving is not None and self.up:
                self._move_due(self.moving, now)

    # Ends

    def fell_silent(self, now: float) -> None:
        """Record in the broker's health that the broker sent nothing for longer than the heart-beats allow."""
        if isinstance(self.state, Connected):
            self.state.silent = True
            self.state.broker.health.failed(self.upstream.checks, now, self._chance, silent=True)

    @property
    def hasty(self) -> bool:
        """Whether the broker must be sent more in the next turn. If so, call `Flow.to_client` in that turn."""
        line = None if self.resender is None else self.resender.line
        return line is not None and line.hasty and self.up

    def unconfirmed(self) -> None:
        """Record a doubt about the broker, which did not confirm in time. The client's frames may be the cause."""
        if isinstance(self.state, Connected):
            self.state.silent = True
            self.state.broker.health.doubt(self.state.broker.health.sight())

    def lost(self, reason: str) -> None:
        """Record that the broker is lost. Then call `hang_up` and `seek`. No change if the link was leaving it."""
        if type(self.state) is Connected and not self.state.done:
            self._lost(self.state)
            self._outbox.put(fault(Event.LOST, self.state.broker, self.upstream, reason))

    def _lost(self, connection: Connected) -> None:
        self.session.counters["brokers_lost"] += 1
        self.recovering = True
        self._goes_back()
        suspect = self.resender is not None and self.resender.suspect
        connection.broker.health.lost(suspect=suspect or connection.done or connection.silent)

    def take_refused(self) -> Sequence[Refused]:
        """Return the errors of `Resender.take_refused`. The brokers were lost because of these frames."""
        refused = () if self.resender is None else self.resender.take_refused()
        if refused:
            self._search.explained()
        return refused

    def queue_sent(self, count: int) -> None:
        """Count SENDs to queues of the present broker."""
        if isinstance(self.state, Connected):
            self.state.queue_sends += count

    def queue_gave(self, count: int) -> None:
        """Count MESSAGEs from queues of the present broker."""
        if isinstance(self.state, Connected):
            self.state.queue_messages += count

    def _goes_back(self) -> None:
        """Correct the counts of queues: unacknowledged messages go back, and kept SENDs go to the next broker."""
        state = self.state
        if isinstance(state, Connected):
            kept = 0 if self.resender is None else self.resender.unconfirmed.sends
            again = min(kept, state.queue_sends)
            self._resent += again
            state.queue_sends -= again
            state.queue_messages -= min(self.session.unacknowledged, state.queue_messages)

    def hang_up(self, how: How) -> None:
        """Close the leg in this way, if it is open. Then the link has no broker; call `seek` for another one."""
        leg = self.state.leg
        if leg is not None and not leg.closed:
            leg.enter(LegState.CLOSED)
            self._outbox.put(Close(leg, how))
        if self.following is not None:
            self._drop()
        self.moving, self.stays, self._again = None, "", 0.0
        if isinstance(self.state, Connected):
            self.before = self.state.broker
            self.before.health.left(self.state.place)
            self.before.count(self.state.tally)
        self.state = Waiting()

    def end(self) -> None:
        """Close the leg and end the search. The service still reads from the connection until the broker closes it."""
        reason = self.state.reason if isinstance(self.state, Ended) else ""
        self._goes_back()
        if isinstance(self.state, Handshake):
            self._undecided(self.state)
        self.hang_up(How.LINGER)
        if self._schedule is not None:
            self._schedule.ended()
        self.state = Ended(reason)
        self.until = inf

    # Reading from the broker

    def read_all(self) -> None:
        """Read from the link's brokers from now on, whatever ACKs they are owed. The awaited receipts can come after
        MESSAGEs for which the client owes too many ACKs, or which nobody gets any more.
        """
        self._eager = True
        if type(self.state) is Connected:
            self.state.paused = False
            self._outbox.put(Resume(self.state.leg))

    def pace(self, *, crowded: bool) -> None:
        """Read from the broker, unless the client owes it too many ACKs. If the client is not read from (`crowded`), or
        the broker was not sent its whole line, answers are awaited: then the broker is read from all the same.
        """
        state, session, resender = self.state, self.session, self.resender
        if type(state) is not Connected or state.leg.closed:
            return
        waits = crowded or self._eager or (resender is not None and resender.line is not None)
        if state.paused and (waits or not session.crowded):
            state.paused = False
            self._outbox.put(Resume(state.leg))
        elif session.full and not (state.paused or waits):
            state.paused = True
            self._outbox.put(Pause(state.leg))

    # Moving

    def leave(self, now: float, within: float, target: Broker | None, *, may_stay: bool = False) -> None:
        """Move the session to `target`, or to any other broker that accepts it. The move is at a quiet moment, or after
        `within` seconds; with `may_stay` it is only at a quiet moment. If no broker accepts the session, it stays.
        """
        if not self.up:
            return
        if not self.upstream.movable:
            self.stays, self._again = "there is no other", inf
            return
        move = self.moving
        if move is not None and target not in (None, move.target):
            self._drop()
        left = [] if move is None or self.following is None else move.left
        self.stays, self._again = "", 0.0
        self.moving = move = BalanceMove(target, may_stay, now + within, left)
        if self.following is None:
            move.left = [target] if target is not None else self._others(self.connection.broker, now)
            if move.left:
                self._ask_next(move, now)
        self._look_again()

    def _others(self, broker: Broker, now: float) -> list[Broker]:
        """Return the brokers to which the session may move, in the order in which it asks them."""
        order = self.group.order(now, self._chance)
        order += [each for each in self.group.brokers if each not in order]
        return [each for each in order if each is not broker and not each.health.paused]

    def _ask_next(self, move: BalanceMove, now: float) -> None:
        """Ask the next broker for CONNECTED, when its turn comes. If no broker is left, the session does not move."""
        move.left = [each for each in move.left if not each.health.paused]
        if not move.left:
            self.moving, self.stays, self._again = None, move.refusal, move.again
            return
        broker = move.left.pop(0)
        self.following = Handshake(self, broker, self._search.offer, self._outbox)
        self.following.until = broker.health.slot(self.upstream.reconnect_rate, now)
        if self.following.until <= now:
            self.following.ask(now)

    def _look_again(self) -> None:
        """Set `until` to the time of the next step of a move."""
        if not self.up:
            return  # another state has set `until`
        move, self.until = self.moving, inf
        if move is None:
            return
        asked = None if self.following is None or self.following.accepted else self.following
        if asked is None or move.may_stay:
            self.until = move.leave_by
        if asked is not None:
            self.until = min(self.until, asked.until)

    def _move_due(self, move: BalanceMove, now: float) -> None:
        following = self.following
        if now >= move.leave_by and move.may_stay:
            self.stay()
        elif now >= move.leave_by and self.departing:
            self.disconnect(now)
        elif following is not None and following.broker.health.paused:
            self.next_refused("is paused", now)
        elif following is not None and following.accepted is None:
            if following.sight is None:
                following.ask(now)
            elif now >= following.until:
                self.next_refused("no CONNECTED in time", now)
        self._look_again()

    def next_answered(self, data: bytes, now: float) -> None:
        """The broker that the session will move to sent something. After its CONNECTED the session can leave."""
        if self.following is None:
            return
        try:
            answer = self.following.read(data, now)
            if isinstance(answer, Accepted):
                self.following.broker.health.answered()
            elif answer is not None:
                self.next_refused(self.following.denied(answer).reason, now, alive=True)
        except StompError as error:
            self.next_refused(f"answered CONNECT with what is not STOMP: {error.message}", now)
        self._look_again()

    def next_refused(self, reason: str, now: float, *, alive: bool = False) -> None:
        """The next broker of a move did not accept: ask another one, or stay. `alive`: the broker answered."""
        move, following = self.moving, self.following
        if move is None or following is None:
            return
        broker, sight = following.broker, following.sight
        if sight is not None and not alive and following.accepted is None:
            if following.told:
                broker.health.doubt(sight)
            else:
                self._fail(broker, now)
        self.session.counters["brokers_refused"] += 1
        self._outbox.put(fault(Event.REFUSED, broker, self.upstream, reason))
        self._drop()
        if self.up:
            move.refusal, move.again = f"{broker} {reason}", now + AGAIN if alive or following.told else 0.0
            self._ask_next(move, now)
            self._look_again()

    def _drop(self) -> None:
        """Close the connection to the broker that the session was to move to."""
        following, self.following = self.following, None
        if following is not None:
            following.drop()

    def stay(self) -> None:
        """End the move without leaving the broker: the client leaves, or there was no quiet moment in time."""
        move = self.moving
        if self.up and move is not None:
            self._drop()
            self.moving, self.stays, self._again = None, move.refusal, move.again
            self.until = inf

    def broker_leaves(self) -> None:
        """The broker said that it goes away: treat it as lost, because it may answer every frame with this ERROR."""
        if type(self.state) is Connected:
            self._outbox.put(left(self.state.broker, self.upstream, "it said that it goes away"))
            self._lost(self.state)
        self.connection.done = True

    def proved(self) -> None:
        """The broker has confirmed that it read everything it was sent."""
        if self.resender is not None:
            self.resender.unconfirmed.unproved = 0

    def received_receipt(self, receipt: bytes) -> None:
        """The broker sent this RECEIPT. If it answers our DISCONNECT, the broker can be left now."""
        if isinstance(self.state, Leaving) and receipt == self.state.receipt:
            self.proved()
            self.state.done = True

    def disconnect(self, now: float) -> None:
        """Move: send DISCONNECT. After the answer or a loss call `go_on`. Raises `LookupError` if it cannot move."""
        if self.resender is None:
            raise LookupError("a session without a resender stays with its broker")
        up = self.connection
        receipt = self.resender.unconfirmed.ask()
        frame = up.bridges.to_broker.leave(receipt, self.session)
        self._outbox.put(moved(up.broker, self.upstream))
        up.leg.enter(LegState.LEAVING)
        self._outbox.send(up.leg, frame, now)
        # The broker's remaining frames may come after messages for which the client owes too many ACKs.
        self._outbox.put(Resume(up.leg))
        self._goes_back()
        up.broker.count(up.tally)
        self.state = Leaving(up.leg, up.broker, up.bridges, up.product, place=up.place, receipt=receipt)
        self.until = now + self.upstream.disconnect_timeout

    def go_on(self, now: float) -> Accepted | None:
        """Close the leg to a broker that was lost or left. If the next broker of the move has accepted the session, use
        that broker and return its acceptance. Otherwise look for a broker, and return None.
        """
        how = How.ABORT
        if self.leaving:
            self.session.counters["brokers_moved"] += 1
            self.recovering = False
            how = How.LINGER
        move, following, self.following = self.moving, self.following, None
        self.hang_up(how)
        if following is not None and following.accepted is not None and not following.broker.health.paused:
            self.seeks_since = now
            self._search.last = following.broker
            self._accepted(following, following.accepted, now)
            return following.accepted
        if following is not None:
            following.drop()
        self.seek(now, None if move is None else move.target)
        return None


DISCONNECTING: Final = b"DISCONNECT\n\n\0"
"""The frame, in every version, with which the relay leaves brokers for a client that is gone."""
GOODBYE: Final = b"-goodbye"
"""The last part of the receipt id of the relay's own DISCONNECT, after the session's name."""
LOST: Final = "what has no receipt may be lost"
"""What a client is told about SENDs that nobody confirmed."""


class DisconnectState(Enum):
    """The progress of a client's DISCONNECT."""

    NONE = "none"
    """The client has not sent DISCONNECT."""
    WAITING = "waiting"
    """DISCONNECT waits for the receipts of earlier SENDs, because a broker may answer DISCONNECT before these."""
    SENT = "sent"
    """The broker was sent DISCONNECT."""
    CONFIRMED = "confirmed"
    """DISCONNECT was answered: the client got the receipt that it asked for."""


def broker_lost(upstream: Upstream, receipt: bytes | None) -> StompError:
    """Return the error for a client whose session ends with its broker."""
    detail = f"upstream {upstream.name}; connect again; {LOST}"
    return StompError("connection to the broker was lost", detail, receipt=receipt)


def not_to_be_had(link: Link, receipt: bytes | None) -> StompError:
    """Return the error for a client if a link finds no broker. The log has the reason, which may contain addresses."""
    name = link.upstream.name
    if isinstance(link.state, Ended) and link.state.unwelcome:
        return StompError(link.reason, f"upstream {name}", receipt=receipt)
    advice = "try again later; the relay's log says why"
    if link.fresh or not link.upstream.movable:
        return StompError(
            "broker not available", f"upstream {name} did not connect; {advice}", receipt=receipt
        )
    return StompError("no broker available", f"upstream {name}: {link.reason}; {advice}", receipt=receipt)
