"""A client's DISCONNECT, on its way to several brokers."""

from stomprelay.relay.effects import Effect
from stomprelay.relay.fanout.member import Lane
from stomprelay.relay.fanout.quorum import Ballot, Quorum
from stomprelay.relay.fanout.router import Directory
from stomprelay.relay.flow import Goodbye
from stomprelay.session.effects import Send
from stomprelay.session.leg import Leg
from stomprelay.session.session import Session
from stomprelay.session.states import State
from stomprelay.wire.frame import Frame
from stomprelay.wire.names import RECEIPT_HEADER


class Farewell:
    """Waits until everything else is `safe`, is said to all brokers that are there, and confirmed when a quorum of
    each upstream did so.
    """

    __slots__ = ("_awaited", "_directory", "_parting", "_quorum", "_session", "bye", "goodbye")

    def __init__(self, session: Session, directory: Directory, quorum: Quorum) -> None:
        self._session = session
        self._directory = directory
        self._quorum = quorum
        self._parting = b""
        self._awaited = 0
        self.bye: bytes | None = None
        self.goodbye = Goodbye.UNSAID

    @property
    def safe(self) -> bool:
        """Nothing that must not be lost is undecided, and a quorum has all of the rest."""
        return not self._quorum.votes.pending and all(trunk.safe for trunk in self._directory.trunks)

    @property
    def settled(self) -> bool:
        """It was said, and the client is owed nothing."""
        if self.goodbye is Goodbye.SAID:
            told = [lane for _, lane in self._directory.places.values() if lane.told]
            return self.bye is None and all(lane.safe for lane in told)
        return self.goodbye is Goodbye.CONFIRMED

    def came(self, frame: Frame, client: Leg) -> None:
        """The client says it."""
        self.bye = frame.header(RECEIPT_HEADER, client.dialect)
        client.enter(State.LEAVING)
        self.goodbye = Goodbye.WAITING
        self._parting = frame.wire

    def go_on(self, effects: list[Effect], now: float) -> None:
        """Say it to brokers that have all that they shall have."""
        if self.goodbye is Goodbye.WAITING and self.safe:
            self.say(effects, now)
        elif self.goodbye is Goodbye.SAID:
            for _, lane in self._directory.places.values():
                if lane.up and not lane.told and lane.safe:
                    self._tell(lane, effects, now)

    def say(self, effects: list[Effect], now: float) -> None:
        """Say it to all brokers that are there, come what may; what the others miss is counted."""
        self.goodbye = Goodbye.SAID
        for trunk in self._directory.trunks:
            there = [lane for lane in trunk.live if lane.up]
            missed = sum(lane.uncertain for lane in trunk.live if lane not in there)
            self._session.tally["possibly_lost"] += missed
            for lane in there:
                self._tell(lane, effects, now)
            if self.bye is not None and there:
                self._awaited += 1
                self._quorum.votes.ask(Ballot(self.bye, there, min(trunk.quorum, len(there))))

    def _tell(self, lane: Lane, effects: list[Effect], now: float) -> None:
        leg = lane.branch.leg
        assert leg is not None
        lane.blocked = False
        lane.flush(effects, now)
        lane.told = True
        leg.enter(State.LEAVING)
        leg.heartbeat.said_at = now
        effects.append(Send(leg, lane.carrier.spelled(self._parting)))

    def answers(self, lane: Lane, receipt: bytes) -> bool:
        """Whether a RECEIPT is for it."""
        return lane.told and receipt == self.bye

    def awaits(self, lane: Lane) -> bool:
        """Whether a broker was told it and has not confirmed it."""
        votes = self._quorum.votes
        return lane.told and self.bye is not None and votes.awaited(lane, self.bye) is not None

    def answered(self, lane: Lane, receipt: bytes, effects: list[Effect]) -> bool:
        """A broker confirmed it, and is left unless that makes it enough of them. Answers whether it does."""
        if not self.awaits(lane):
            return False  # ActiveMQ may answer twice
        self._awaited -= self._quorum.votes.agree(lane, receipt) is not None
        if self.goodbye is Goodbye.SAID and not self._awaited:
            self.goodbye = Goodbye.CONFIRMED
            return True
        lane.branch.end(effects)  # what it closes now is no loss
        return False
