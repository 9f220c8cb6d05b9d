"""Which brokers a client's frame is for: by routes, by what it refers to, and by where its transaction is."""

from collections.abc import Callable, Collection
from typing import Final

from stomprelay.relay.branch import Branch
from stomprelay.relay.effects import Effect
from stomprelay.relay.lane import Cover, Lane
from stomprelay.relay.listener import Listener
from stomprelay.relay.placement import Placement
from stomprelay.relay.steps import named
from stomprelay.relay.trunk import Trunk
from stomprelay.relay.upstream import Upstream
from stomprelay.relay.votes import Ballot, Votes
from stomprelay.session.effects import Event, Note
from stomprelay.session.ledger import Delivery
from stomprelay.session.session import Session
from stomprelay.session.subscriptions import CUMULATIVE
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

COPY: Final = b"relay-copy"
"""The header by which consumers tell copies of one SEND: its value is the same in all of them and in nothing else."""
VOTES: Final = b"-vote-"
"""In the middle of receipt ids that are asked for in the client's name, between the session's and a number."""

_MOST_KNOWN: Final = 4096


def _with_line(frame: Frame, name: bytes, value: bytes) -> Frame:
    """A frame with one more header in front, in octets of its own."""
    line = b"%b:%b\n" % (name, value)
    data = b"".join([frame.data[frame.start : frame.head], line, frame.data[frame.head : frame.after]])
    by = len(line) - frame.start
    return Frame(
        frame.command,
        data,
        0,
        frame.head - frame.start,
        frame.body + by,
        frame.end + by,
        frame.after + by,
        frame.plain,
    )


class Switchboard:
    """Says each frame of a client to the lanes that it is for, and opens a ballot for each receipt.

    `trunks` are the upstreams that are in use, the listener's own first; `branches` makes the branches of another one
    when it is first needed, which then wait in `opened` to be sought.
    """

    __slots__ = (
        "_branches",
        "_copies",
        "_known",
        "_listener",
        "_memo",
        "_memo_lane",
        "_placed",
        "_say",
        "_session",
        "_subscribed",
        "_votes",
        "_votings",
        "opened",
        "places",
        "trunks",
    )

    def __init__(
        self,
        listener: Listener,
        session: Session,
        votes: Votes[Lane],
        branches: Callable[[Upstream], list[Branch]],
    ) -> None:
        self._listener = listener
        self._session = session
        self._votes = votes
        self._branches = branches
        self._copies = 0
        self._votings = 0
        self._memo: bytes | None = None
        self._memo_lane: Lane | None = None
        self._known: dict[bytes, Trunk] = {}
        self._subscribed: dict[bytes, Trunk] = {}
        self._placed: dict[bytes, Placement] = {}
        self.trunks: list[Trunk] = []
        self.places: dict[Branch, tuple[Trunk, Lane]] = {}
        self.opened: list[Branch] = []
        self._open(listener.upstream)
        self.opened.clear()
        self._say: dict[bytes, Callable[[Frame, bytes | None, list[Effect]], None]] = {
            SEND: self._send,
            SUBSCRIBE: self._subscribe,
            UNSUBSCRIBE: self._unsubscribe,
            ACK: self._acknowledge,
            NACK: self._acknowledge,
            BEGIN: self._begin,
            COMMIT: self._commit,
            ABORT: self._abort,
        }

    def say(self, frame: Frame, effects: list[Effect]) -> None:
        """A frame of the client, any but DISCONNECT. Raises `StompError` for one that cannot be said."""
        memo = frame.memo
        if memo is not None and memo is self._memo:
            assert self._memo_lane is not None
            self._memo_lane.say(frame)
            return
        self._memo = None
        self._say[frame.command](frame, frame.header(RECEIPT_HEADER, self._session.dialect), effects)

    def asked_by_us(self, receipt: bytes) -> bool:
        """Whether the client knows nothing of a receipt that was asked for in its name."""
        return receipt.startswith(self._session.name + VOTES)

    # Destinations

    def _open(self, upstream: Upstream) -> Trunk:
        for trunk in self.trunks:
            if trunk.upstream is upstream:
                return trunk
        branches = self._branches(upstream)
        trunk = Trunk(upstream, branches)
        self.trunks.append(trunk)
        self.places.update((lane.branch, (trunk, lane)) for lane in trunk.lanes)
        self.opened += branches
        return trunk

    def _trunk(self, destination: bytes) -> Trunk:
        if not self._listener.routes:
            return self.trunks[0]
        trunk = self._known.get(destination)
        if trunk is None:
            trunk = self._open(self._listener.routed(destination))
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[destination] = trunk
        return trunk

    def _header(self, frame: Frame, name: bytes) -> bytes | None:
        return frame.header(name, self._session.dialect)

    # Frames

    def _ask(
        self,
        receipt: bytes | None,
        trunk: Trunk,
        lanes: Collection[Lane],
        quorum: int,
        required: Collection[Lane] = (),
        *,
        weighs: bool = False,
    ) -> None:
        if receipt is not None:
            refused = (
                [lane for lane in trunk.lanes if lane not in lanes] if len(lanes) > 1 or quorum > 1 else ()
            )
            self._votes.ask(Ballot(receipt, lanes, quorum, required, refused, weighs=weighs))

    def _tell(self, trunk: Trunk, frame: Frame, receipt: bytes | None) -> None:
        """All groups are told."""
        lanes = trunk.live
        self._ask(receipt, trunk, lanes, trunk.quorum)
        for lane in lanes:
            lane.say(frame)

    def _send(self, frame: Frame, receipt: bytes | None, effects: list[Effect]) -> None:
        destination = self._header(frame, DESTINATION) or b""
        name = self._header(frame, TRANSACTION)
        trunk = self._trunk(destination)
        placement = self._place(name, trunk, receipt)
        if trunk.copied(destination):
            lanes = trunk.takers()
            self._overflow(trunk, lanes, placement, effects)
            self._copies += 1
            frame = _with_line(frame, COPY, b"%b-%d" % (self._session.name, self._copies))
            self._ask(receipt, trunk, lanes, trunk.quorum, weighs=True)
            for lane in lanes:
                lane.say(frame)
            return
        lane = trunk.primary if trunk.fans else trunk.lanes[0]
        if trunk.fans and placement is not None:
            lane = next(iter(placement.bearing & set(trunk.live)), lane)
            placement.bearing.add(lane)
        self._ask(receipt, trunk, [lane], 1, weighs=True)
        lane.say(frame)
        if not trunk.fans and receipt is None and name is None:
            self._memo, self._memo_lane = frame.memo, lane

    def _overflow(
        self, trunk: Trunk, lanes: list[Lane], placement: Placement | None, effects: list[Effect]
    ) -> None:
        """The others miss a SEND. The log is told when that begins."""
        if len(lanes) == len(trunk.lanes):
            return
        for lane in trunk.live:
            if lane not in lanes:
                self._session.lose("fanout_overflowed")
                lane.blame = "its queue was full"
                lane.short = True
                if placement is not None:
                    placement.short.add(lane)
                if not lane.overflowing:
                    lane.overflowing = True
                    effects.append(Note(Event.LOST, f"group {lane} is full: it misses what is sent"))
            elif lane.overflowing and not lane.crowded:
                lane.overflowing = False

    def _subscribe(self, frame: Frame, receipt: bytes | None, _effects: list[Effect]) -> None:
        trunk = self._trunk(self._header(frame, DESTINATION) or b"")
        id = self._header(frame, ID)
        if id is not None and self._subscribed.get(id, trunk) is not trunk:
            raise ProtocolError("SUBSCRIBE repeats the id of an open subscription", receipt=receipt)
        self._tell(trunk, frame, receipt)
        if id is not None and self._listener.routes:
            self._subscribed[id] = trunk

    def _unsubscribe(self, frame: Frame, receipt: bytes | None, _effects: list[Effect]) -> None:
        id = self._header(frame, ID)
        if id is None:
            trunk = self._trunk(self._header(frame, DESTINATION) or b"")
        else:
            trunk = self._subscribed.pop(id, self.trunks[0])
        self._tell(trunk, frame, receipt)

    # Acknowledgements

    def _acknowledge(self, frame: Frame, receipt: bytes | None, _effects: list[Effect]) -> None:
        """To the broker that the message came from; a cumulative one concerns what came from others before, too."""
        trunk, lane, delivery = self._origin(frame, receipt)
        name = self._header(frame, TRANSACTION)
        placement = self._place(name, trunk, receipt)
        if placement is not None:
            placement.bearing.add(lane)
        self._ask(receipt, trunk, [lane], 1)
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
        found: tuple[Trunk, Lane, Delivery | None] | None = None
        order = 0
        for trunk, lane in self.places.values():
            delivery = named(frame, dialect, lane.session.ledger)
            if delivery is not None and delivery.token == token:
                return trunk, lane, delivery
            if delivery is not None and (found is None or delivery.order < order):
                found, order = (trunk, lane, delivery), delivery.order
        if found is not None:
            return found
        subscription = self._header(frame, SUBSCRIPTION)
        trunk = self._subscribed.get(subscription or b"", self.trunks[0])
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
                where = f"{shown} is at upstream {placement.trunk}, and this belongs to upstream {trunk}"
                raise ProtocolError("a transaction cannot span upstreams", where, receipt=receipt)
            for lane in trunk.live:
                lane.compose(BEGIN, placement.headers)
            for lane in placement.trunk.live:
                lane.compose(ABORT, [(TRANSACTION, name)])
            placement.trunk = trunk
        placement.used = True
        return placement

    def _begin(self, frame: Frame, receipt: bytes | None, _effects: list[Effect]) -> None:
        trunk = self.trunks[0]
        headers = frame.headers(self._session.dialect)
        name = next((value for key, value in headers if key == TRANSACTION), None)
        if name is not None and name in self._placed:
            trunk = self._placed[name].trunk  # its brokers know what to say of that
        self._tell(trunk, frame, receipt)
        if name is not None and name not in self._placed:
            headers = [each for each in headers if each[0] not in (RECEIPT_HEADER, CONTENT_LENGTH)]
            self._placed[name] = Placement(trunk, headers)

    def _abort(self, frame: Frame, receipt: bytes | None, _effects: list[Effect]) -> None:
        placement = self._placed.pop(self._header(frame, TRANSACTION) or b"", None)
        self._tell(self.trunks[0] if placement is None else placement.trunk, frame, receipt)

    def _commit(self, frame: Frame, receipt: bytes | None, _effects: list[Effect]) -> None:
        """With the quorum of a SEND, and only where all of it is."""
        name = self._header(frame, TRANSACTION) or b""
        placement = self._placed.pop(name, None)
        if placement is None or not placement.trunk.fans:
            trunk = self.trunks[0] if placement is None else placement.trunk
            self._ask(receipt, trunk, trunk.live, trunk.quorum, weighs=True)
            for lane in trunk.live:
                lane.say(frame)
            return
        trunk, spoiled = placement.trunk, placement.spoiled(name)
        able = [lane for lane in trunk.lanes if lane not in spoiled]
        if len(able) < trunk.quorum or not placement.bearing.issubset(able):
            why = "; ".join(f"group {lane}: {lane.blame}" for lane in spoiled)
            raise Refused("the transaction cannot be committed", why, receipt=receipt)
        if receipt is None:
            self._votings += 1
            receipt = b"%b%b%d" % (self._session.name, VOTES, self._votings)
            frame = _with_line(frame, RECEIPT_HEADER, receipt)
        self._ask(receipt, trunk, able, trunk.quorum, placement.bearing, weighs=True)
        for lane in able:
            lane.say(frame)
        for lane in spoiled:
            if not lane.out:
                lane.compose(ABORT, [(TRANSACTION, name)])
