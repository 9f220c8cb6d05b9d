"""The upstreams of a session, the upstream of each destination, and each group's link with its waiting frames."""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from stomprelay.relay.effects import Outbox
from stomprelay.relay.link.link import Link
from stomprelay.relay.model.listener import Listener, Route
from stomprelay.relay.model.move import COPY, Mark, Move, Phase
from stomprelay.relay.model.upstream import Upstream
from stomprelay.relay.resend.resender import AGAIN, Resender
from stomprelay.relay.resend.unconfirmed import UNCONFIRMED, unknown_outcome
from stomprelay.session.delivery import THING, Delivery
from stomprelay.session.leg import LegState
from stomprelay.session.session import Session, cost
from stomprelay.session.subscriptions import Subscription
from stomprelay.wire.dialect import DeliveryNaming, Headers
from stomprelay.wire.errors import Refused, StompError
from stomprelay.wire.frame import Frame, compose
from stomprelay.wire.names import (
    ID,
    MESSAGE_ID,
    RECEIPT_HEADER,
    SEND,
    SUBSCRIPTION,
    TRANSACTION,
    UNSUBSCRIBE,
)

TOPICS: Final = (b"/topic/", b"/temp-topic/", b"/exchange/", b"topic://", b"jms.topic.")
"""The beginnings of destinations that are not queues. Each is used by one product or another."""

_MOST_KNOWN: Final = 4096
"""How many destinations are remembered, each with its target."""
_BROKERS: Final = (b"/remote-temp-queue/", b"/remote-temp-topic/")
OTHERS: Final = (*_BROKERS, b"/queue/relay-temp.")
"""The beginnings of the names that other clients' temporary queues have, at the broker that made them (the first two),
or by a map (see `BrokerMap.private`).
"""
_OWN: Final = b"/temp-"
"""Begins the names of a client's own temporary queues."""


class CumulativeAck(NamedTuple):
    """An ACK or NACK that covers all deliveries of a subscription with a number below `order`."""

    command: bytes
    subscription: bytes
    order: int
    transaction: bytes | None


@dataclass(slots=True, eq=False, repr=False)
class Member:
    """A link with a resender, and the frames that wait, in order, until its broker can be written to again. If the
    broker is lost, the resender keeps these frames.

    `blocked`: the broker's connection accepts no more. `disconnecting`: the broker was sent DISCONNECT. `ended`: ids of
    subscriptions that a move ended. `erred`: the group's last frame was an ERROR that answers no request. `faults`: the
    broker's errors since it last confirmed something. `given_up`: the group is left out for the rest of the session.
    `reason`: what went wrong last, in words for a client. `short`: the group missed SENDs while it was `full`. `sole`:
    since it was last `safe`, it was sent SENDs that no other group has. `_ending`: the receipts of those UNSUBSCRIBEs
    in `ended` that are still to come.
    """

    link: Link
    resender: Resender
    _outbox: Outbox
    session: Session = field(init=False)
    blocked: bool = False
    disconnecting: bool = False
    ended: set[bytes] = field(default_factory=set)
    erred: bool = False
    faults: int = 0
    given_up: bool = False
    reason: str = ""
    short: bool = False
    sole: bool = False
    _ending: set[bytes] = field(default_factory=set)
    _there: bool = False
    _waiting: deque[bytes | CumulativeAck] = field(default_factory=deque)
    _size: int = 0
    _most: int = 0

    def __post_init__(self) -> None:
        self.session = self.link.session
        self._most = self.session.kept.room(self.link.upstream.resend_buffer)

    def __str__(self) -> str:
        return self.link.group.name

    @property
    def up(self) -> bool:
        """Whether the member has a broker that it is not about to leave."""
        return self._there and self.link.up

    @property
    def served(self) -> bool:
        """Whether the member has a broker that was sent all that was kept for it."""
        return self.up and self.resender.line is None

    @property
    def writable(self) -> bool:
        """Whether the member's broker may be written to now."""
        return self.served and not (self.blocked or (self.link.departing and self.session.quiet))

    @property
    def size(self) -> int:
        """The number of bytes that wait or are unconfirmed."""
        return self.resender.unconfirmed.size + self._size

    @property
    def cost(self) -> int:
        """The number of bytes that the member costs, receipt ids included."""
        return self.resender.unconfirmed.cost + self._size + THING * len(self._waiting)

    @property
    def full(self) -> bool:
        """Whether no more bytes may wait or be unconfirmed."""
        return self.size >= self._most

    @property
    def crowded(self) -> bool:
        """Whether more than half of the allowed bytes wait or are unconfirmed."""
        return self.size * 2 > self._most

    @property
    def flooded(self) -> bool:
        """Whether twice the allowed bytes wait, so that the broker should be treated as lost."""
        return self._size >= 2 * self._most

    @property
    def waits(self) -> bool:
        """Whether frames wait until the broker can be written to."""
        return bool(self._waiting)

    @property
    def safe(self) -> bool:
        """Whether all SENDs and COMMITs of this member have arrived, as far as receipts were asked for."""
        return not self._waiting and self.resender.safe

    @property
    def holds(self) -> bool:
        """Whether the broker alone was sent SENDs without a receipt, and has not shown that it has them."""
        return self.sole and self.link.unproved > 0

    def take(self) -> list[Frame]:
        """Forget and return the client's SENDs that are not confirmed, because another upstream gets them. Those that
        the broker may have are marked. Copies are only forgotten.
        """
        frames: list[Frame] = []
        for kept in self.resender.unconfirmed.take():
            for each in self.resender.offline.read(kept.wire):
                again = kept.sent and each.command is SEND
                self.session.counters["frames_resent"] += again
                lines = b"\n" + AGAIN + each.data[each.head : each.body]
                frames.append(each.with_lines(lines) if again else each)
        for wire in self._waiting:
            if isinstance(wire, bytes) and wire.startswith(SEND):
                frames += self.resender.offline.read(wire)
        self.write_off()
        return [each for each in frames if Mark.parse(each.raw(COPY)) is None]

    def write_off(self) -> int:
        """Forget the waiting and the unconfirmed frames. Return the number of SENDs among them."""
        waiting, self._waiting = self._waiting, deque()
        self._size = 0
        sends = sum(isinstance(each, bytes) and each.startswith(b"SEND") for each in waiting)
        return self.link.write_off() + sends

    # What is sent

    def send(self, frame: Frame) -> None:
        """Add a client's frame. Raises `StompError` for a frame that cannot be sent."""
        if self._waits:
            self._waiting.append(frame.wire)
            self._size += frame.after - frame.start
        else:
            self._put(frame)

    def _put(self, frame: Frame) -> None:
        if self.link.broker is not None:
            self.link.connection.sent_frames += 1
        self.resender.send(frame)

    def compose(self, command: bytes, headers: Headers) -> None:
        """Add a frame that the relay sends in the client's name. Raises as `send` does."""
        for frame in self.resender.offline.read(compose(command, headers, self.session.dialect)):
            self.send(frame)

    def end(self, subscription: Subscription, named: tuple[bytes, bytes]) -> None:
        """End a subscription of the client, because of a move. Raises as `send` does."""
        receipt = self.resender.unconfirmed.ask()
        self.compose(UNSUBSCRIBE, [named, (RECEIPT_HEADER, receipt)])
        self._ending.add(receipt)
        self.ended.add(subscription.id)

    def answered(self, receipt: bytes) -> None:
        """The broker sent this receipt, or an ERROR that names it."""
        self._ending.discard(receipt)

    @property
    def ending(self) -> bool:
        """Whether MESSAGEs may come that the broker sent before a subscription ended: then none is made there."""
        return bool(self._ending)

    def acknowledge(self, ack: CumulativeAck) -> bool:
        """Record a cumulative ACK or NACK of another broker's delivery. Return whether it concerns this broker."""
        if self._waits:
            last = self._waiting[-1] if self._waiting else None
            if isinstance(last, CumulativeAck) and last._replace(order=ack.order) == ack:
                self._waiting.pop()
            self._waiting.append(ack)
            return True
        subscription = self.session.subscriptions.delivered(ack.subscription, b"")
        delivery = None if subscription is None else self.session.ledger.latest(subscription, ack.order)
        if delivery is None:
            return False
        if delivery.lost:
            self.session.ledger.settled(delivery, other=True)
            return False
        self.compose(ack.command, self._named(delivery, ack.transaction))
        return True

    def _named(self, delivery: Delivery, transaction: bytes | None) -> Headers:
        """Return the headers of an ACK that names a delivery by its token."""
        naming = self.session.dialect.delivery
        headers: Headers = [(ID if naming is DeliveryNaming.ACK else MESSAGE_ID, delivery.token)]
        if naming is DeliveryNaming.SUBSCRIPTION_AND_MESSAGE_ID:
            headers.insert(0, (SUBSCRIPTION, delivery.subscription.id))
        if transaction is not None:
            headers.append((TRANSACTION, transaction))
        return headers

    @property
    def _waits(self) -> bool:
        return bool(self._waiting) or (self._there and not self.writable)

    def flush(self, now: float) -> None:
        """Write the waiting frames, then the collected frames, if the broker can be written to. Raises like `send`."""
        try:
            if self.resender.line is not None and self.up:
                self.resender.go_on(now)
            while self._waiting and self.writable:
                self._go_on()
        finally:
            self.resender.flush(now)

    def _go_on(self) -> None:
        first = self._waiting.popleft()
        rest, self._waiting = self._waiting, deque()
        try:
            if isinstance(first, CumulativeAck):
                self.acknowledge(first)
            else:
                self._size -= len(first)
                for frame in self.resender.offline.read(first):
                    self._put(frame)
        finally:
            self._waiting = rest

    def send_disconnect(self, wire: bytes, now: float) -> None:
        """Write the collected frames, then this DISCONNECT."""
        leg = self.link.connection.leg
        self.blocked = False
        self.flush(now)
        self.disconnecting = True
        leg.enter(LegState.LEAVING)
        self._outbox.send(leg, wire, now)

    # Brokers come and go

    def connected(self) -> None:
        """There is a new broker: reset everything that belonged to the old one."""
        self._there = True
        self.blocked = self.disconnecting = False
        self.ended, self._ending = set(), set()

    def overdue(self, now: float) -> list[StompError]:
        """Refuse what the broker did not confirm in time. Return errors for COMMITs whose outcome is unknown."""
        return [unknown_outcome(receipt, UNCONFIRMED) for receipt in self.resender.review(now)]

    def lost(self, now: float) -> list[StompError]:
        """The broker is lost: keep waiting frames for the next one. Return errors for frames that cannot be kept."""
        doubts = self.resender.lost(by=self.link.dropped_by, now=now)
        failures: list[StompError] = [unknown_outcome(receipt) for receipt in doubts]
        waiting, self._waiting = self._waiting, deque()
        self._size = 0
        self._there = self.blocked = self.disconnecting = False
        for each in waiting:
            if isinstance(each, bytes):
                for frame in self.resender.offline.read(each):
                    try:
                        self.resender.send(frame)
                    except StompError as error:
                        failures.append(error)
        return failures


class Target:
    """One upstream of a session, with a member for each group. `quorum`: how many members must confirm a frame.
    `new`: a move leads there. `optional`: no SEND of the client goes there. `spare`: only copies of SENDs do, for which
    nobody waits.
    """

    __slots__ = ("members", "new", "optional", "quorum", "spare", "upstream")

    def __init__(self, upstream: Upstream, links: Iterable[Link], outbox: Outbox) -> None:
        self.upstream = upstream
        self.members = [Member(link, link.resender, outbox) for link in links if link.resender is not None]
        self.quorum = min(upstream.quorum, len(self.members))
        self.new = self.optional = self.spare = False

    def __str__(self) -> str:
        return self.upstream.name

    @property
    def fans(self) -> bool:
        """Whether the target has several groups."""
        return len(self.members) > 1

    @property
    def live(self) -> list[Member]:
        """The members that are not given up."""
        return [member for member in self.members if not member.given_up]

    @property
    def ready(self) -> bool:
        """Whether at least `quorum` members have brokers."""
        return sum(member.link.up for member in self.members) >= self.quorum

    @property
    def subscribed(self) -> bool:
        """Whether a subscription is open there."""
        return any(member.session.subscriptions for member in self.live)

    @property
    def reachable(self) -> bool:
        """Whether at least `quorum` members are not given up."""
        return len(self.live) >= self.quorum

    @property
    def full(self) -> bool:
        """Whether the client must not be read from, because fewer members than the quorum have room."""
        return sum(not member.full for member in self.live) < self.quorum

    @property
    def crowded(self) -> bool:
        """Whether, after the target was `full`, the client must still not be read from."""
        return sum(not member.crowded for member in self.live) < self.quorum

    @property
    def safe(self) -> bool:
        """Whether a quorum (`short` members do not count) has everything, and no other connected broker waits."""
        unsafe = [member for member in self.live if not member.safe]
        if not unsafe:
            return True
        if any(member.up or member.sole for member in unsafe):
            return False
        return sum(member.safe and not member.short for member in self.live) >= self.quorum

    @property
    def wanting(self) -> list[Member]:
        """The members not `served` that have what too few others were sent; none if these were sent all."""
        away = [member for member in self.live if not (member.served or member.safe)]
        whole = sum(not member.short for member in self.live if member not in away)
        return away if whole < self.quorum else [member for member in away if member.sole]

    def copies(self, destination: bytes) -> bool:
        """Whether a SEND goes to all groups, and not only to one."""
        return self.fans and (self.upstream.fan_out_queues or destination.startswith(TOPICS))

    @property
    def primary(self) -> Member:
        """The member for frames that go to one group only. If possible, it is a member with a broker and with room."""
        live = self.live
        roomy = [member for member in live if not member.full]
        return next((member for member in roomy if member.up), (roomy or live)[0])

    def receivers(self) -> list[Member]:
        """Return the members for a SEND: all with room; if these are fewer than the quorum, the least full ones."""
        live = self.live
        roomy = [member for member in live if not member.full]
        for member in live:
            member.sole = member.holds or (member.sole and not member.safe)
        if len(roomy) == len(live):
            if any(member.short for member in live) and all(member.safe for member in live):
                for member in live:
                    member.short = False
            return live
        return (
            roomy
            if len(roomy) >= self.quorum
            else sorted(live, key=lambda member: member.size)[: self.quorum]
        )

    def failure(self, members: Iterable[Member], receipt: bytes | None = None) -> Refused:
        """Return the error for the client: these members failed, so the quorum cannot be reached."""
        failed = ", ".join(
            f"{member} ({member.reason})" if member.reason else str(member) for member in members
        )
        needed = f"upstream {self} needs {self.quorum} of {len(self.members)} groups"
        return Refused("the quorum cannot be reached", f"{needed}; failed: {failed}", receipt=receipt)


@dataclass(slots=True, eq=False, repr=False)
class TransactionTarget:
    """The target on which a client's open transaction is. The first frame after BEGIN decides which target; then the
    transaction is `used`.

    `turned`: that of the router at BEGIN. `cost` is in bytes. `bearing`: members with a part that no other member has;
    without them the transaction cannot be committed. `short`: members that missed a part of the transaction. `copies`:
    members that get a copy of it.
    """

    target: Target
    headers: Headers
    turned: int
    cost: int = 0
    used: bool = False
    bearing: set[Member] = field(default_factory=set)
    short: set[Member] = field(default_factory=set)
    copies: list[Member] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.cost = cost(self.headers)

    def spoiled(self, name: bytes) -> list[Member]:
        """Return the members that cannot commit the transaction. The `reason` of each says why."""
        spoiled = []
        for member in self.target.members:
            transaction = member.session.transactions.get(name)
            doomed = None if transaction is None else transaction.doomed
            if not member.given_up:
                if doomed is None and member in self.short:
                    doomed = "it was full"
                if doomed is None:
                    continue
                member.reason = doomed
            spoiled.append(member)
        return spoiled


class Way(NamedTuple):
    """Where a destination's frames go: SENDs to `target`, and a copy of each to `copy`; subscriptions to all of
    `subscribed`, of which the first answers the client. `move`: the move that leads there. `either`: its two upstreams,
    at each of which a transaction may stay that began before the move went on.
    """

    target: Target
    subscribed: tuple[Target, ...]
    copy: Target | None = None
    move: Move | None = None
    either: tuple[Upstream, ...] = ()


@dataclass(slots=True, eq=False, repr=False)
class Router:
    """The targets of a session: `main` for the listener's own upstream, others by routes and moves. `links` makes the
    links of an upstream. `places` has the target and the member of each link. `opened`: links that must seek a broker,
    because they are new or left their broker.

    `phases`: how far the session has followed each move. `unsettled`: some subscriptions are not yet where they should
    be. `turned`: how often destinations began to lead elsewhere. `left_out`: by upstream's name, why the session does
    without the NEW of a move, and stays at OLD. `placed`: where the client's open transactions are. `memo`: the member
    for SENDs with this `Frame.memo`, until ways change. `_replies`: where temporary queues are that messages named for
    replies.
    """

    _listener: Listener
    _outbox: Outbox
    _links: Callable[[Upstream], list[Link]]
    targets: list[Target] = field(default_factory=list)
    places: dict[Link, tuple[Target, Member]] = field(default_factory=dict)
    main: Target = field(init=False)
    _known: dict[bytes, Way] = field(default_factory=dict)
    opened: list[Link] = field(default_factory=list)
    phases: dict[Move, Phase] = field(init=False)
    unsettled: bool = False
    turned: int = 0
    left_out: dict[str, str] = field(default_factory=dict)
    placed: dict[bytes, TransactionTarget] = field(default_factory=dict)
    memo: tuple[bytes, Member] | None = None
    _replies: dict[bytes, Target] = field(default_factory=dict)
    _plain: Way = field(init=False)

    def __post_init__(self) -> None:
        self.phases = {move: move.phase for move in self._listener.moves}
        self.main = self._open(self._listener.upstream)
        self._plain = Way(self.main, (self.main,))

    @property
    def forks(self) -> bool:
        """Whether destinations lead to more than one upstream."""
        return bool(self._listener.routes)

    def way(self, destination: bytes) -> Way:
        """Return where a destination leads. The first use of a target makes its links: see `Fanout.opened`."""
        if not self.forks:
            return self._plain
        way = self._known.get(destination)
        if way is None:
            way = self._find(destination)
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[destination] = way
        return way

    def _find(self, destination: bytes) -> Way:
        old, route = self._listener.unmoved(destination), self._listener.moving(destination)
        move = None if route is None else route.move
        phase = Phase.OFF if move is None else self.phases[move]
        new = old if route is None else route.upstream
        asked = self._replies.get(destination)
        if asked is not None and asked in self.targets and asked.upstream.name not in self.left_out:
            return Way(asked, (asked,), None, move, (old, new))
        if phase is Phase.OFF or new is old or new.name in self.left_out or destination.startswith(_BROKERS):
            target = self._open(old)
            return Way(target, (target,), None, move, (old, new))
        target = self._open(new)
        if phase is Phase.DONE:
            return Way(target, (target,), None, move, (old, new))
        there = self._open(old)
        if phase is Phase.SHADOW:
            return Way(
                there, (there,), None if destination.startswith((*OTHERS, _OWN)) else target, move, (old, new)
            )
        first, second = (target, there) if phase.sends_new else (there, target)
        return Way(first, (first, second), None, move, (old, new))

    def asked(self, target: Target, reply_to: bytes) -> None:
        """A message of this target asks for a reply to a temporary queue: that queue is there in every phase."""
        if self._replies.get(reply_to) is not target:
            if len(self._replies) >= _MOST_KNOWN:
                del self._replies[next(iter(self._replies))]
            self._replies[reply_to] = target
            self._known.pop(reply_to, None)
            self.memo = None

    def _forget_ways(self) -> None:
        self._known.clear()
        self.memo = None

    def _open(self, upstream: Upstream) -> Target:
        for target in self.targets:
            if target.upstream is upstream:
                return target
        links = self._links(upstream)
        target = Target(upstream, links, self._outbox)
        self.targets.append(target)
        self.places.update((member.link, (target, member)) for member in target.members)
        self.opened += links
        self._weigh()
        return target

    # Moves

    def begin(self) -> None:
        """Begin each move with its first phase, because the session is older than the moves."""
        self.phases = dict.fromkeys(self.phases, Phase.OFF)
        self._weigh()

    @property
    def turns(self) -> bool:
        """Whether the session can `turn_to` another listener: it follows moves, or did so."""
        return bool(self.phases) or not (self.forks or self.main.fans)

    def turn_to(self, listener: Listener) -> bool:
        """Follow the moves of another listener from now on, if its own upstream is here, and is the NEW of each move
        that was done and is there no more, and nothing is at an upstream that it does not have. Return whether that was
        possible.
        """
        known = {
            target: upstream
            for target in self.targets
            for upstream in listener.upstreams()
            if upstream.groups[0] is target.upstream.groups[0]
        }
        main = next((each for each, upstream in known.items() if upstream is listener.upstream), None)
        ended = [phase for move, phase in self.phases.items() if move not in listener.moves]
        left = [each for each in self.targets if each not in known]
        done = [each for each in self._listener.routes if each.move and self.phases[each.move] is Phase.DONE]
        if (
            main is None
            or any(each.upstream is not main.upstream for each in done if each.move not in listener.moves)
            or self.unsettled
            or main.upstream.name in self.left_out
            or not {Phase.OFF, Phase.DONE}.issuperset(ended)
            or any(self._holds(each) or each.subscribed or not each.safe for each in left)
        ):
            return False
        for target, upstream in known.items():
            target.upstream = upstream
        self._listener, self.main, self._plain = listener, main, Way(main, (main,))
        self.phases = {move: self.phases.get(move, Phase.OFF) for move in listener.moves}
        self.unsettled = True
        self._turn()
        return True

    @property
    def behind(self) -> bool:
        """Whether the session has to follow a move. If so, call `Fanout.to_broker`, also without frames."""
        return self.unsettled or any(phase is not move.phase for move, phase in self.phases.items())

    def step(self) -> bool:
        """Follow one move by one phase, if that is possible now. Return whether it was."""
        if any(member.waits for _, member in self.places.values()):
            return False  # its subscriptions are not known yet
        for route in self._listener.routes:
            move = route.move
            if move is None or self.phases[move] is move.phase:
                continue
            phase = self.phases[move].toward(move.phase)
            target = next((each for each in self.targets if each.upstream is route.upstream), None)
            if target is not None and route.upstream.name in self.left_out:
                self.forget(target)  # the next phase tries again
                target = None
            if target is not None:
                if phase is Phase.NEW and not (self.phases[move].sends_new or target.ready):
                    continue
                if phase is Phase.SHADOW and not target.safe:
                    continue
            if target is not None and target.spare and phase is Phase.BOTH:
                for member in target.members:  # nobody waits for copies that are on their way
                    move.fault("", 0 if member.up else member.write_off())
                    member.write_off()
            self.phases[move] = phase
            self._turn()
            return True
        return False

    def _turn(self) -> None:
        """Destinations lead elsewhere from now on."""
        self.turned += 1
        self._forget_ways()
        self._weigh()

    def standing(self, move: Move) -> tuple[bool, str] | None:
        """Return whether the session has followed a move to its phase; and why it does without NEW, or "". None: the
        session began before the move was configured.
        """
        if move not in self.phases:
            return None
        upstreams = [each.upstream for each in self._listener.routes if each.move is move]
        reason = "".join([self.left_out.get(each.name, "") for each in upstreams])
        there = all(each.ready for each in self.targets if each.upstream in upstreams)
        return self.phases[move] is move.phase and not self.unsettled and (there or bool(reason)), reason

    def replaceable(self, target: Target) -> bool:
        """Whether the session can do without a target: no SEND must reach it, or it never had a broker."""
        if target.upstream is self._listener.upstream or target.fans or self._holds(target, used=True):
            return False
        ways = [each.move for each in self._listener.routes if each.upstream is target.upstream]
        return None not in ways and (target.optional or all(each.link.fresh for each in target.members))

    def _holds(self, target: Target, *, used: bool = False) -> bool:
        """Whether an open transaction of the client is at this target; `used`: one that has more than BEGIN."""
        return any(each.target is target and each.used >= used for each in self.placed.values())

    def leave_out(self, target: Target, reason: str) -> None:
        """Do without this target, which is `replaceable`, until the next phase."""
        self.left_out[target.upstream.name] = reason
        self._turn()

    def fault(self, target: Target, reason: str, count: int = 1) -> None:
        """Record in the moves to this target that something went wrong there. Moves that are done are not judged."""
        for route in self._listener.routes:
            move = route.move if route.upstream is target.upstream else None
            if move is not None and self.phases[move] not in (Phase.OFF, Phase.DONE):
                move.fault(reason, count)

    @property
    def given_back(self) -> list[Target]:
        """The targets with SENDs that they did not confirm and whose moves go back, while no broker is there."""
        back = [
            each.upstream for each in self._listener.routes if each.move and not each.move.phase.sends_new
        ]
        return [
            each
            for each in self.targets
            if each.optional and each.upstream in back and not (each.spare or each.safe or each.ready)
        ]

    @property
    def idle(self) -> list[Target]:
        """The targets of moves that are all off again, and those that the listener does not have any more."""
        used = {each.upstream.name for each in self._listener.routes if self._phase(each) is not Phase.OFF}
        free = [] if self.unsettled else [each for each in self.targets if each.optional]
        return [each for each in free if each.upstream.name not in used]

    def _phase(self, route: Route) -> Phase:
        return Phase.DONE if route.move is None else self.phases[route.move]

    def forget(self, target: Target) -> None:
        """Forget a target that is left out or `idle`."""
        self.left_out.pop(target.upstream.name, None)
        self.targets.remove(target)
        for member in target.members:
            del self.places[member.link]
            if len(member.session.ledger):  # the client may still acknowledge them
                self.main.members[0].session.ledger.forgot = True

    def _weigh(self) -> None:
        """Decide for each target which of the client's frames depend on it now."""
        moving = {each.upstream.name for each in self._listener.routes if each.move is not None}
        sent, subscribed = {self._listener.upstream.name}, set[str]()
        for route in self._listener.routes:
            phase = self._phase(route)
            if phase.sends_new:
                sent.add(route.upstream.name)
            if phase.subscribes_new:
                subscribed.add(route.upstream.name)
        for target in self.targets:
            name = target.upstream.name
            target.new = name in moving
            target.optional = name not in sent or name in self.left_out
            target.spare = target.optional and (name not in subscribed or name in self.left_out)
