"""Which brokers a client's frame is for: by routes, by what it refers to, and by where its transaction is."""

from collections.abc import Callable
from typing import Final

from stomprelay.relay.bridge.steps import named
from stomprelay.relay.effects import Effect
from stomprelay.relay.fanout.member import Cover, Lane
from stomprelay.relay.fanout.quorum import Ballot, Votes
from stomprelay.relay.fanout.router import Directory, Trunk
from stomprelay.relay.notes import missed
from stomprelay.session.ledger import Delivery
from stomprelay.session.session import Session
from stomprelay.session.subscriptions import CUMULATIVE
from stomprelay.wire.dialect import Headers
from stomprelay.wire.errors import ProtocolError, Refused
from stomprelay.wire.frame import Frame
from stomprelay.wire.names import (
    ABORT,
    ACK,
    BEGIN,
    COMMIT,
    CONTENT_LENGTH,
    DESTINATION,
    ID,
    MESSAGE_ID,
    NACK,
    RECEIPT_HEADER,
    SEND,
    SUBSCRIBE,
    SUBSCRIPTION,
    TRANSACTION,
    UNSUBSCRIBE,
)


class Placement:
    """A transaction is wholly on one trunk: the first frame in it decides on which. Until it is `used` so, that is the
    trunk that was told its BEGIN (`headers`, without the receipt) for want of a better one.

    `bearing` are lanes with a part of it that no other one has: without them it cannot be committed. `short` are lanes
    that a part of it missed.
    """

    __slots__ = ("bearing", "headers", "short", "trunk", "used")

    def __init__(self, trunk: Trunk, headers: Headers) -> None:
        self.trunk = trunk
        self.headers = headers
        self.used = False
        self.bearing: set[Lane] = set()
        self.short: set[Lane] = set()

    def spoiled(self, name: bytes) -> list[Lane]:
        """The lanes on which it cannot be committed; their `blame` says why."""
        spoiled = []
        for lane in self.trunk.lanes:
            transaction = lane.session.transactions.get(name)
            doomed = None if transaction is None else transaction.doomed
            if not lane.out:
                if doomed is None and lane in self.short:
                    doomed = "it was full"
                if doomed is None:
                    continue
                lane.blame = doomed
            spoiled.append(lane)
        return spoiled


COPY: Final = b"relay-copy"
"""The header by which consumers tell copies of one SEND: its value is the same in all of them and in nothing else."""
VOTES: Final = b"-vote-"
"""In the middle of receipt ids that are asked for in the client's name, between the session's and a number."""


def with_header(frame: Frame, name: bytes, value: bytes) -> Frame:
    """A frame with one more header in front, which is plain in every dialect; in octets of its own."""
    line = b"%b:%b\n" % (name, value)
    start, head, after = frame.start, frame.head, frame.after
    data = b"".join([frame.data[start:head], line, frame.data[head:after]])
    by = len(line) - start
    return Frame(
        frame.command, data, 0, head - start, frame.body + by, frame.end + by, after + by, frame.plain
    )


class Switchboard:
    """Says each frame of a client to the lanes that it is for, and opens a ballot for each receipt."""

    __slots__ = (
        "_copies",
        "_directory",
        "_memo",
        "_memo_lane",
        "_placed",
        "_session",
        "_subscribed",
        "_votes",
        "_votings",
    )

    def __init__(self, session: Session, directory: Directory, votes: Votes[Lane]) -> None:
        self._session = session
        self._directory = directory
        self._votes = votes
        self._copies = 0
        self._votings = 0
        self._memo: bytes | None = None
        self._memo_lane: Lane | None = None
        self._subscribed: dict[bytes, Trunk] = {}
        self._placed: dict[bytes, Placement] = {}

    def say(self, frame: Frame, effects: list[Effect]) -> None:
        """A frame of the client, any but DISCONNECT. Raises `StompError` for one that cannot be said."""
        memo = frame.memo
        if memo is not None and memo is self._memo:
            assert self._memo_lane is not None
            self._memo_lane.say(frame)
            return
        self._memo = None
        receipt = frame.header(RECEIPT_HEADER, self._session.dialect)
        if frame.command is SEND:
            self._send(frame, receipt, effects)
        else:
            _ORDERS[frame.command](self, frame, receipt)

    def _header(self, frame: Frame, name: bytes) -> bytes | None:
        return frame.header(name, self._session.dialect)

    def _ask(self, receipt: bytes | None, trunk: Trunk, lanes: list[Lane], *, weighs: bool = False) -> None:
        """A quorum of these has to confirm. Groups that are not asked count as having refused."""
        if receipt is not None:
            missing = [lane for lane in trunk.lanes if lane not in lanes]
            self._votes.ask(Ballot(receipt, lanes, trunk.quorum, (), missing, weighs=weighs))

    def _ask_one(self, receipt: bytes | None, lane: Lane, *, weighs: bool = False) -> None:
        if receipt is not None:
            self._votes.ask(Ballot(receipt, [lane], 1, weighs=weighs))

    def _tell(self, trunk: Trunk, frame: Frame, receipt: bytes | None) -> None:
        """All groups are told."""
        lanes = trunk.live
        self._ask(receipt, trunk, lanes)
        for lane in lanes:
            lane.say(frame)

    # Messages

    def _send(self, frame: Frame, receipt: bytes | None, effects: list[Effect]) -> None:
        destination = self._header(frame, DESTINATION) or b""
        name = self._header(frame, TRANSACTION)
        trunk = self._directory.trunk(destination)
        placement = self._place(name, trunk, receipt)
        if not trunk.copied(destination):
            lane = self._only(trunk, placement)
            self._ask_one(receipt, lane, weighs=True)
            lane.say(frame)
            if not trunk.fans and receipt is None and name is None:
                self._memo, self._memo_lane = frame.memo, lane
            return
        lanes = trunk.takers()
        if len(lanes) < len(trunk.live):
            self._overflow(trunk, lanes, placement, effects)
        self._copies += 1
        frame = with_header(frame, COPY, b"%b-%d" % (self._session.name, self._copies))
        self._ask(receipt, trunk, lanes, weighs=True)
        for lane in lanes:
            lane.say(frame)

    @staticmethod
    def _only(trunk: Trunk, placement: Placement | None) -> Lane:
        """The lane for what is not copied; in a transaction it stays the same."""
        if not trunk.fans:
            return trunk.lanes[0]
        lane = trunk.primary
        if placement is not None:
            lane = next((each for each in trunk.live if each in placement.bearing), lane)
            placement.bearing.add(lane)
        return lane

    def _overflow(
        self, trunk: Trunk, lanes: list[Lane], placement: Placement | None, effects: list[Effect]
    ) -> None:
        """The others miss a SEND. The log is told when that begins."""
        for lane in trunk.live:
            if lane in lanes:
                continue
            self._session.lose("fanout_overflowed")
            if not lane.short:
                effects.append(missed(lane.branch.group, trunk.upstream))
            lane.blame = "its queue was full"
            lane.short = True
            if placement is not None:
                placement.short.add(lane)

    # Subscriptions

    def _subscribe(self, frame: Frame, receipt: bytes | None) -> None:
        trunk = self._directory.trunk(self._header(frame, DESTINATION) or b"")
        id = self._header(frame, ID)
        if id is not None and self._subscribed.get(id, trunk) is not trunk:
            raise ProtocolError("SUBSCRIBE repeats the id of an open subscription", receipt=receipt)
        self._tell(trunk, frame, receipt)
        if id is not None and self._directory.forks:
            self._subscribed[id] = trunk

    def _unsubscribe(self, frame: Frame, receipt: bytes | None) -> None:
        id = self._header(frame, ID)
        if id is None:
            trunk = self._directory.trunk(self._header(frame, DESTINATION) or b"")
        else:
            trunk = self._subscribed.pop(id, self._directory.main)
        self._tell(trunk, frame, receipt)

    def _acknowledge(self, frame: Frame, receipt: bytes | None) -> None:
        """To the broker that the message came from; a cumulative one concerns what came from others before, too."""
        trunk, lane, delivery = self._origin(frame, receipt)
        name = self._header(frame, TRANSACTION)
        placement = self._place(name, trunk, receipt)
        if placement is not None:
            placement.bearing.add(lane)
        self._ask_one(receipt, lane)
        if lane.out:
            self._session.lose("acks_stale")
            if receipt is not None:
                lane.carrier.answers.append(receipt)
        else:
            lane.say(frame)
        if delivery is None or delivery.subscription.ack != CUMULATIVE:
            return
        cover = Cover(frame.command, delivery.subscription.id, delivery.order, name)
        for other in trunk.live:
            if other is not lane and other.cover(cover) and placement is not None:
                placement.bearing.add(other)

    def _origin(self, frame: Frame, receipt: bytes | None) -> tuple[Trunk, Lane, Delivery | None]:
        """Where a delivery came from: of several that it may mean, the one that came first."""
        dialect = self._session.dialect
        token = self._header(frame, ID) or self._header(frame, MESSAGE_ID)
        found: tuple[Trunk, Lane, Delivery] | None = None
        for trunk, lane in self._directory.places.values():
            delivery = named(frame, dialect, lane.session.ledger)
            if delivery is None:
                continue
            if delivery.token == token:
                return trunk, lane, delivery
            if found is None or delivery.order < found[2].order:
                found = trunk, lane, delivery
        if found is not None:
            return found
        for trunk, lane in self._directory.places.values():
            if lane.session.ledger.forgot:
                return trunk, lane, None  # it may be one of those
        subscription = self._header(frame, SUBSCRIPTION)
        trunk = self._subscribed.get(subscription or b"", self._directory.main)
        if trunk.fans:
            command = frame.command.decode()
            raise ProtocolError(f"{command} names no message that awaits one", receipt=receipt)
        return trunk, trunk.lanes[0], None

    # Transactions

    def _place(self, name: bytes | None, trunk: Trunk, receipt: bytes | None) -> Placement | None:
        """A frame of a transaction is for this trunk: now it is there."""
        placement = None if name is None else self._placed.get(name)
        if name is None or placement is None:
            return None
        if placement.trunk is not trunk:
            if placement.used:
                shown = name[:64].decode("utf-8", "backslashreplace")
                where = f"{shown} is at upstream {placement.trunk}, this belongs to upstream {trunk}"
                raise ProtocolError("a transaction cannot span upstreams", where, receipt=receipt)
            for lane in trunk.live:
                lane.compose(BEGIN, placement.headers)
            for lane in placement.trunk.live:
                lane.compose(ABORT, [(TRANSACTION, name)])
            placement.trunk = trunk
        placement.used = True
        return placement

    def _begin(self, frame: Frame, receipt: bytes | None) -> None:
        headers = frame.headers(self._session.dialect)
        name = next((value for key, value in headers if key == TRANSACTION), None)
        if name is None or name in self._placed:
            # Brokers know what to say of that.
            self._tell(
                self._placed[name].trunk if name in self._placed else self._directory.main, frame, receipt
            )
            return
        self._tell(self._directory.main, frame, receipt)
        ours = [each for each in headers if each[0] not in (RECEIPT_HEADER, CONTENT_LENGTH)]
        self._placed[name] = Placement(self._directory.main, ours)

    def _abort(self, frame: Frame, receipt: bytes | None) -> None:
        placement = self._placed.pop(self._header(frame, TRANSACTION) or b"", None)
        self._tell(self._directory.main if placement is None else placement.trunk, frame, receipt)

    def _commit(self, frame: Frame, receipt: bytes | None) -> None:
        """With the quorum of a SEND, and only where all of it is."""
        name = self._header(frame, TRANSACTION) or b""
        placement = self._placed.pop(name, None)
        if placement is None or not placement.trunk.fans:
            trunk = self._directory.main if placement is None else placement.trunk
            lanes = trunk.live
            self._ask(receipt, trunk, lanes, weighs=True)
            for lane in lanes:
                lane.say(frame)
            return
        trunk, spoiled = placement.trunk, placement.spoiled(name)
        able = [lane for lane in trunk.lanes if lane not in spoiled]
        if len(able) < trunk.quorum or not placement.bearing.issubset(able):
            why = "; ".join(f"group {lane}: {lane.blame}" for lane in spoiled)
            raise Refused("the transaction cannot be committed", why, receipt=receipt)
        hidden = receipt is None
        if receipt is None:
            self._votings += 1
            receipt = b"%b%b%d" % (self._session.name, VOTES, self._votings)
            frame = with_header(frame, RECEIPT_HEADER, receipt)
        ballot = Ballot(receipt, able, trunk.quorum, placement.bearing, spoiled, weighs=True, hidden=hidden)
        self._votes.ask(ballot)
        for lane in able:
            lane.say(frame)
        for lane in spoiled:
            if not lane.out:
                lane.compose(ABORT, [(TRANSACTION, name)])


_ORDERS: Final[dict[bytes, Callable[[Switchboard, Frame, bytes | None], None]]] = {
    SUBSCRIBE: Switchboard._subscribe,
    UNSUBSCRIBE: Switchboard._unsubscribe,
    ACK: Switchboard._acknowledge,
    NACK: Switchboard._acknowledge,
    BEGIN: Switchboard._begin,
    COMMIT: Switchboard._commit,
    ABORT: Switchboard._abort,
}
