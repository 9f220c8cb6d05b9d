"""Frames between a client and several brokers: groups of one upstream, upstreams by routes, or both."""

from collections.abc import Callable, Iterable

from stomprelay.relay.branch import Branch
from stomprelay.relay.effects import Effect
from stomprelay.relay.flow import Goodbye
from stomprelay.relay.lane import Lane
from stomprelay.relay.listener import Listener
from stomprelay.relay.switchboard import Switchboard
from stomprelay.relay.trunk import Trunk
from stomprelay.relay.upstream import Upstream
from stomprelay.relay.votes import Ballot, Verdict, Votes
from stomprelay.session.complaint import complain
from stomprelay.session.effects import Event, How, Note, Pause, Resume, Send
from stomprelay.session.leg import Leg
from stomprelay.session.session import Session
from stomprelay.session.states import State
from stomprelay.wire.errors import Refused, StompError
from stomprelay.wire.frame import Frame, compose
from stomprelay.wire.names import (
    DISCONNECT,
    MESSAGE,
    MESSAGE_HEADER,
    RECEIPT,
    RECEIPT_HEADER,
    RECEIPT_ID,
)

_UNACKNOWLEDGED = frozenset({MESSAGE})
_STRIKES = 2
"""How often a broker may answer nothing but an ERROR before its group is given up."""


class Distribution:
    """A `Flow` with several branches. What the client says goes by its `Switchboard` to lanes, each of which waits for
    its own broker alone; what brokers say is merged, and receipts are passed when a quorum gave them.

    `branches` makes those of an upstream, when it is needed.
    """

    __slots__ = (
        "_begun",
        "_board",
        "_byes",
        "_parting",
        "_places",
        "_trunks",
        "_votes",
        "branches",
        "bye",
        "client",
        "deaf",
        "erred",
        "goodbye",
        "session",
    )

    def __init__(
        self, client: Leg, listener: Listener, session: Session, branches: Callable[[Upstream], list[Branch]]
    ) -> None:
        self.client = client
        self.session = session
        self._votes: Votes[Lane] = Votes()
        self._board = Switchboard(listener, session, self._votes, branches)
        self._trunks = self._board.trunks
        self._places = self._board.places
        self.branches = list(self._places)
        self.bye: bytes | None = None
        self.deaf = False
        self.erred = False
        self.goodbye = Goodbye.UNSAID
        self._begun = False
        self._byes = 0
        self._parting = b""

    # What the circuit asks

    @property
    def survives(self) -> bool:
        """Even where the loss of one broker ends the session, others have their own."""
        return True

    @property
    def ready(self) -> bool:
        """A quorum of the listener's own upstream has brokers."""
        return self._trunks[0].ready

    @property
    def flowing(self) -> bool:
        """What the client says waits in lanes: for one broker, it must not wait for another."""
        return self._begun

    @property
    def full(self) -> bool:
        """In one upstream too few groups have room."""
        return any(trunk.full for trunk in self._trunks)

    @property
    def crowded(self) -> bool:
        """In one upstream too few groups have much room."""
        return any(trunk.crowded for trunk in self._trunks)

    @property
    def safe(self) -> bool:
        """Nothing that a receipt was asked for is undecided, and a quorum has all of the rest."""
        return not self._votes.pending and all(trunk.safe for trunk in self._trunks)

    @property
    def settled(self) -> bool:
        """The client said goodbye and is owed nothing."""
        if self.goodbye is Goodbye.SAID:
            return self.bye is None and all(lane.safe for _, lane in self._places.values() if lane.told)
        return self.goodbye is Goodbye.CONFIRMED

    def opened(self) -> list[Branch]:
        """Those of upstreams that were not needed before, and those whose broker was left just now."""
        opened = self._board.opened[:]
        self._board.opened.clear()
        self.branches += [branch for branch in opened if branch not in self.branches]
        return opened

    # What comes

    def to_broker(self, effects: list[Effect], now: float) -> StompError | None:
        """Carry what the client's leg has."""
        failure = None
        count = 0
        try:
            for frame in self.client.decoder.frames():
                count += 1
                if frame.command is DISCONNECT:
                    self._left(frame)
                    break
                self._board.say(frame, effects)
        except StompError as error:
            failure = error
        self.session.tally["client_frames"] += count
        return self._written(effects, now) or failure

    def to_client(self, branch: Branch, effects: list[Effect], now: float) -> StompError | None:
        """Carry what the broker's leg of a branch has."""
        trunk, lane = self._places[branch]
        assert branch.leg is not None
        failure = self._merge(trunk, lane, effects, now)
        if failure is not None and trunk.fans and not isinstance(failure, Refused):
            why = f"it sent what cannot be passed on: {failure.message}"
            failure = self._strike(trunk, lane, why, effects, now)
        failure = failure or self._written(effects, now)
        if lane.session.full and not lane.held and not branch.leg.closed:
            lane.held = True
            effects.append(Pause(branch.leg))
        return failure

    def bound(self, branch: Branch, effects: list[Effect], now: float) -> StompError | None:
        """Tell a new broker all that it has to know."""
        trunk, lane = self._places[branch]
        lane.bound()
        self._begun = self._begun or self.ready
        try:
            lane.carrier.replay(subscriptions=self.goodbye is Goodbye.UNSAID and not self.deaf)
        except StompError as error:
            if not trunk.fans:
                return error
            return self._give_up(trunk, lane, f"{error.message} there", effects, now)
        finally:
            lane.carrier.flush(effects, now)
        return self._written(effects, now)

    def over(self, branch: Branch) -> bool:
        """It said ERROR, and the client was told; or the client said goodbye."""
        return self.settled or (self.erred and self._places[branch][1].erred)

    def lost(self, branch: Branch, effects: list[Effect], now: float) -> StompError | None:
        """Others go on; this one is sought anew."""
        trunk, lane = self._places[branch]
        if not trunk.upstream.movable:
            self.session.tally["possibly_lost"] += lane.uncertain
            return StompError("connection to the broker was lost", f"upstream {trunk}", receipt=self.bye)
        decided = []
        for failure in lane.lost():
            if not trunk.fans or failure.receipt is None:
                return failure
            lane.blame = failure.detail or failure.message
            decided.append(self._votes.refuse(lane, failure.receipt))
        return self._announce(decided, effects, now) or self._written(effects, now)

    def given_up(self, branch: Branch, effects: list[Effect], now: float) -> StompError | None:
        """Others go on, if they are enough."""
        trunk, lane = self._places[branch]
        if trunk.fans:
            return self._give_up(trunk, lane, branch.verdict or "it did not connect", effects, now)
        if branch.fresh or not trunk.upstream.movable:
            return StompError("broker not available", f"upstream {trunk} did not connect", receipt=self.bye)
        return StompError("no broker available", f"upstream {trunk}: {branch.verdict}", receipt=self.bye)

    def denied(self, branch: Branch, error: bytes, effects: list[Effect], now: float) -> bytes | None:
        """Others go on, if they are enough. Otherwise a client that was not answered yet gets this ERROR."""
        trunk, lane = self._places[branch]
        failure = self._give_up(trunk, lane, "it answered CONNECT with ERROR", effects, now)
        if failure is None:
            return None
        return complain(failure, self.session.dialect) if self._begun and trunk.fans else error

    def blocked(self, leg: Leg) -> None:
        """What is said to this broker waits for it, and for nobody else."""
        for branch, (_, lane) in self._places.items():
            if branch.leg is leg:
                lane.blocked = True

    def unblocked(self, leg: Leg, effects: list[Effect], now: float) -> StompError | None:
        """What waited is said."""
        for branch, (_, lane) in self._places.items():
            if branch.leg is leg:
                lane.blocked = False
        return self._written(effects, now)

    # Between

    def _written(self, effects: list[Effect], now: float) -> StompError | None:
        """What was said is written and what was answered is told; what waited for that goes on."""
        decided: list[Ballot[Lane] | None] = []
        failure: StompError | None = None
        for trunk, lane in list(self._places.values()):
            if lane.out:
                continue
            try:
                lane.flush(effects, now)
            except StompError as error:
                failure = failure or error
            decided += self._excused(lane)
            if lane.held and not lane.session.crowded and lane.branch.leg is not None:
                lane.held = False
                effects.append(Resume(lane.branch.leg))
            if lane.flooded and trunk.upstream.movable:
                self._leave(lane, effects)
        failure = failure or self._announce(decided, effects, now)
        if failure is None:
            self._part(effects, now)
        return failure

    def _excused(self, lane: Lane) -> list[Ballot[Lane] | None]:
        """What the relay answers in the place of a broker that has nothing to do with it any more."""
        answers, lane.carrier.answers = lane.carrier.answers, []
        return [self._votes.excuse(lane, receipt) for receipt in answers]

    def _announce(
        self, decided: Iterable[Ballot[Lane] | None], effects: list[Effect], now: float
    ) -> StompError | None:
        """The client is told what was decided, apart from the RECEIPT that is on its way already."""
        failure: StompError | None = None
        passed = []
        for ballot in decided:
            if ballot is None:
                continue
            ours = self._board.asked_by_us(ballot.receipt)
            if ballot.verdict is Verdict.PASSED and not ours:
                passed.append(compose(RECEIPT, [(RECEIPT_ID, ballot.receipt)], self.session.dialect))
            elif ballot.verdict is Verdict.FAILED and failure is None:
                trunk = self._trunk(ballot)
                failure = trunk.failure(ballot.refused, None if ours else ballot.receipt)
        if passed and not self.deaf:
            self.client.heartbeat.said_at = now
            effects.append(Send(self.client, b"".join(passed)))
        return failure

    def _trunk(self, ballot: Ballot[Lane]) -> Trunk:
        return next(trunk for trunk in self._trunks if ballot.refused[-1] in trunk.lanes)

    # Brokers that fail

    def _leave(self, lane: Lane, effects: list[Effect]) -> None:
        """Its broker takes nothing any more: better to look for another one than to keep ever more for it."""
        branch = lane.branch
        effects.append(Note(Event.LOST, f"broker {branch.broker} is left: it takes nothing any more"))
        self.session.tally["brokers_lost"] += 1
        lane.lost()
        branch.hang_up(How.ABORT, effects)
        self._board.opened.append(branch)

    def _strike(
        self, trunk: Trunk, lane: Lane, why: str, effects: list[Effect], now: float
    ) -> StompError | None:
        """A broker of a fan-out went wrong on its own: it is left, and its group tries once more."""
        lane.strikes += 1
        if lane.strikes >= _STRIKES:
            return self._give_up(trunk, lane, why, effects, now)
        lane.blame = why
        effects.append(Note(Event.LOST, f"broker {lane.branch.broker} is left: {why}"))
        lane.branch.parted = True
        return None

    def _give_up(
        self, trunk: Trunk, lane: Lane, why: str, effects: list[Effect], now: float
    ) -> StompError | None:
        """A group is out for the rest of the session."""
        if lane.out:
            return None
        lane.out = True
        lane.blame = why
        effects.append(Note(Event.LOST, f"group {lane} is given up: {why}"))
        lane.lost()
        self.session.tally["possibly_lost"] += len(lane.carrier.backlog.taken())
        lane.branch.end(effects)
        decided = [*self._excused(lane), *self._votes.leave(lane)]
        failure = self._announce(decided, effects, now)
        if failure is None and not trunk.reachable:
            failure = trunk.failure([each for each in trunk.lanes if each.out], self.bye)
        return failure

    # Goodbye

    def _left(self, frame: Frame) -> None:
        """DISCONNECT: it waits until all that was said before is safe."""
        self.bye = frame.header(RECEIPT_HEADER, self.client.dialect)
        self.client.enter(State.LEAVING)
        self.goodbye = Goodbye.WAITING
        self._parting = frame.wire

    def _part(self, effects: list[Effect], now: float) -> None:
        """Brokers that have all that they shall have are told DISCONNECT."""
        if self.goodbye is Goodbye.WAITING and self.safe:
            self.say_goodbye(effects, now)
        elif self.goodbye is Goodbye.SAID:
            for _, lane in self._places.values():
                if lane.branch.up and not lane.told and lane.safe:
                    self._tell(lane, effects, now)

    def say_goodbye(self, effects: list[Effect], now: float) -> None:
        """The DISCONNECT that waited goes to all brokers that are there; what the others miss is counted."""
        self.goodbye = Goodbye.SAID
        for trunk in self._trunks:
            there = [lane for lane in trunk.live if lane.branch.up]
            self.session.tally["possibly_lost"] += sum(
                lane.uncertain for lane in trunk.live if lane not in there
            )
            for lane in there:
                self._tell(lane, effects, now)
            if self.bye is not None and there:
                self._byes += 1
                self._votes.ask(Ballot(self.bye, there, min(trunk.quorum, len(there))))

    def _tell(self, lane: Lane, effects: list[Effect], now: float) -> None:
        leg = lane.branch.leg
        assert leg is not None
        lane.blocked = False
        lane.flush(effects, now)
        lane.told = True
        leg.enter(State.LEAVING)
        leg.heartbeat.said_at = now
        effects.append(Send(leg, lane.carrier.spelled(self._parting)))

    # Frames of brokers

    def _merge(self, trunk: Trunk, lane: Lane, effects: list[Effect], now: float) -> StompError | None:
        """All complete frames of a broker as one `Send`; neighbours that pass as they came stay one slice."""
        leg, pairing, session = lane.branch.leg, lane.branch.pairing, lane.session
        assert leg is not None
        assert pairing is not None
        bridge, decoder = pairing.to_client, leg.decoder
        untouched = bridge.untouched
        if lane.erred or session.subscriptions.acknowledging:
            untouched = frozenset()
        pieces: list[bytes] = []
        data = b""
        start = stop = count = 0
        failure: StompError | None = None
        try:
            for frame in decoder.frames():
                count += 1
                data = frame.data
                head = None
                if frame.command not in untouched:
                    ours = False
                    if frame.command is not MESSAGE:
                        passes, ours, failure = self._heard(trunk, lane, frame, effects, now)
                        if failure is not None or lane.branch.parted or lane.out:
                            break
                        if not passes:
                            continue
                    elif lane.erred:
                        self.erred = lane.erred = False  # it goes on
                    head = bridge.without(frame, RECEIPT_ID, session) if ours else bridge.head(frame, session)
                if head is not None:
                    pieces += (data[start:stop], head)
                    start = frame.body
                elif frame.start != stop:
                    pieces.append(data[start:stop])
                    start = frame.start
                stop = frame.after
        except StompError as error:
            failure = error
        session.tally["broker_frames"] += count
        pieces.append(data[start:stop])
        if stop and not self.deaf:
            if decoder.trails and stop == len(data) and data[-1] == 0:
                # It would come with the next chunk, too late for clients that wait for it.
                pieces.append(b"\n")
            self.client.heartbeat.said_at = now
            effects.append(Send(self.client, b"".join(pieces)))
        return failure

    def _heard(
        self, trunk: Trunk, lane: Lane, frame: Frame, effects: list[Effect], now: float
    ) -> tuple[bool, bool, StompError | None]:
        """A RECEIPT or an ERROR. Answers whether it passes, whether its receipt-id is none of the client's, and why
        the session cannot go on.
        """
        leg = lane.branch.leg
        assert leg is not None
        receipt = frame.header(RECEIPT_ID, leg.dialect)
        lane.session.received(receipt)
        if frame.command is RECEIPT:
            return self._receipt(trunk, lane, receipt), False, None
        backlog = lane.carrier.backlog
        asked = receipt is not None and self._votes.awaits(lane, receipt)
        ours = receipt is not None and (backlog.mine(receipt) or self._board.asked_by_us(receipt))
        if receipt is not None:
            backlog.refused(receipt)
        if not trunk.fans:
            lane.erred = self.erred = True
            self.session.tally["errors_passed"] += 1
            return True, ours, None
        what = (frame.header(MESSAGE_HEADER, leg.dialect) or b"")[:200].decode("utf-8", "backslashreplace")
        why = f"it answered ERROR: {what}" if what else "it answered ERROR"
        if receipt is not None and asked:
            lane.blame = why
            effects.append(Note(Event.IGNORED, f"group {lane}: {why}"))
            self.session.tally["fanout_errors"] += 1
            return False, ours, self._announce([self._votes.refuse(lane, receipt)], effects, now)
        lane.erred = True
        if all(each.erred for each in trunk.live):
            self.erred = True
            self.session.tally["errors_passed"] += 1
            return True, ours, None
        self.session.tally["fanout_errors"] += 1
        return False, ours, self._strike(trunk, lane, why, effects, now)

    def _receipt(self, trunk: Trunk, lane: Lane, receipt: bytes | None) -> bool:
        """Whether the client gets a RECEIPT that came."""
        if receipt is None:
            return not trunk.fans
        branch = lane.branch
        lane.strikes = 0
        lane.erred = False
        if receipt == branch.parting:
            branch.parted = True
        if lane.told and receipt == self.bye:
            ballot = self._votes.agree(lane, receipt)
            if ballot is not None:
                self._byes -= 1
                if not self._byes:
                    self.goodbye = Goodbye.CONFIRMED
                    return True
            return False
        if not lane.carrier.backlog.received(receipt):
            return False
        ballot = self._votes.agree(lane, receipt)
        return ballot is not None and not self._board.asked_by_us(receipt)
