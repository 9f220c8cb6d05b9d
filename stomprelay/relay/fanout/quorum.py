"""What enough groups agree on, which groups are still asked, and what the client is told of both."""

from collections.abc import Callable, Collection, Hashable, Iterable
from enum import Enum
from typing import Final, Generic, TypeVar

from stomprelay.relay.effects import Effect
from stomprelay.relay.fanout.member import Lane
from stomprelay.relay.fanout.router import Directory, Trunk
from stomprelay.relay.forward import give
from stomprelay.relay.notes import given_up, left
from stomprelay.session.effects import How
from stomprelay.session.leg import Leg
from stomprelay.session.session import Session
from stomprelay.wire.errors import StompError

Voter = TypeVar("Voter", bound=Hashable)


class Verdict(Enum):
    """What became of a ballot."""

    OPEN = "open"
    PASSED = "passed"
    FAILED = "failed"
    """Those that are still to answer cannot bring about the quorum any more."""


class Ballot(Generic[Voter]):
    """One frame whose receipt is asked of several voters. It passes when `quorum` of them agreed, and all that are
    `required`.

    `awaited` have not answered. `refused` said no, or were given up, in that order. An excused voter is one that the
    frame does not concern any more: it counts for the quorum only when nobody is left who could agree. `weighs` marks
    frames that must not be lost; `hidden` receipts are asked for in the client's name, without its knowledge.
    """

    __slots__ = (
        "_agreed",
        "_excused",
        "_required",
        "awaited",
        "hidden",
        "quorum",
        "receipt",
        "refused",
        "verdict",
        "weighs",
    )

    def __init__(
        self,
        receipt: bytes,
        voters: Collection[Voter],
        quorum: int,
        required: Collection[Voter] = (),
        refused: Collection[Voter] = (),
        *,
        weighs: bool = False,
        hidden: bool = False,
    ) -> None:
        self.receipt = receipt
        self.hidden = hidden
        self.quorum = quorum
        self.weighs = weighs
        self.awaited = set(voters)
        self.refused = list(refused)
        self.verdict = Verdict.OPEN
        self._required = frozenset(required)
        self._agreed: set[Voter] = set()
        self._excused: set[Voter] = set()
        self.count()

    def count(self) -> None:
        """Settle the verdict, if it can be."""
        if self.verdict is not Verdict.OPEN:
            return
        if len(self._agreed) >= self.quorum and self._required <= self._agreed:
            self.verdict = Verdict.PASSED
            return
        content = self._agreed | self._excused
        possible = content | self.awaited
        if len(possible) < self.quorum or not self._required <= possible:
            self.verdict = Verdict.FAILED
        elif not self.awaited:
            self.verdict = Verdict.PASSED

    def agree(self, voter: Voter) -> None:
        """It has what the frame brought."""
        self.awaited.discard(voter)
        self._agreed.add(voter)
        self.count()

    def excuse(self, voter: Voter) -> None:
        """The frame does not concern it any more."""
        self.awaited.discard(voter)
        self._excused.add(voter)
        self.count()

    def refuse(self, voter: Voter) -> None:
        """It will not have it."""
        self.awaited.discard(voter)
        self.refused.append(voter)
        self.count()


class Votes(Generic[Voter]):
    """The ballots of one client, by receipt. A client may use a receipt id again before it was answered: each voter
    answers its ballots in the order in which they were asked for.

    What is answered by `agree`, `excuse`, `refuse` and `leave` are ballots that were decided just now. A decided
    ballot is remembered until the last of its voters answered, so that no answer is taken for another ballot's.
    """

    __slots__ = ("_ballots", "pending")

    def __init__(self) -> None:
        self._ballots: dict[bytes, list[Ballot[Voter]]] = {}
        self.pending = 0
        """How many ballots that weigh are open: those about what must not be lost."""

    def ask(self, ballot: Ballot[Voter]) -> None:
        """A frame that asks for a receipt goes to the voters of an open ballot."""
        assert ballot.verdict is Verdict.OPEN
        self.pending += ballot.weighs
        self._ballots.setdefault(ballot.receipt, []).append(ballot)

    def agree(self, voter: Voter, receipt: bytes) -> Ballot[Voter] | None:
        """A voter confirmed."""
        ballot = self.awaited(voter, receipt)
        return None if ballot is None else self._cast(ballot, ballot.agree, voter)

    def excuse(self, voter: Voter, receipt: bytes) -> Ballot[Voter] | None:
        """A voter has nothing to confirm any more."""
        ballot = self.awaited(voter, receipt)
        return None if ballot is None else self._cast(ballot, ballot.excuse, voter)

    def refuse(self, voter: Voter, receipt: bytes) -> Ballot[Voter] | None:
        """A voter will not confirm."""
        ballot = self.awaited(voter, receipt)
        return None if ballot is None else self._cast(ballot, ballot.refuse, voter)

    def leave(self, voter: Voter) -> list[Ballot[Voter]]:
        """A voter is given up: it refuses all that it was asked."""
        asked = [each for same in self._ballots.values() for each in same if voter in each.awaited]
        decided = [self._cast(ballot, ballot.refuse, voter) for ballot in asked]
        return [ballot for ballot in decided if ballot is not None]

    def awaited(self, voter: Voter, receipt: bytes) -> Ballot[Voter] | None:
        """The ballot that a voter's next answer with this receipt is for."""
        return next((each for each in self._ballots.get(receipt, ()) if voter in each.awaited), None)

    def _cast(
        self, ballot: Ballot[Voter], vote: Callable[[Voter], None], voter: Voter
    ) -> Ballot[Voter] | None:
        was = ballot.verdict
        vote(voter)
        if not ballot.awaited:
            same = self._ballots[ballot.receipt]
            same.remove(ballot)
            if not same:
                del self._ballots[ballot.receipt]
        if ballot.verdict is was:
            return None
        self.pending -= ballot.weighs
        return ballot


_STRIKES: Final = 2
"""How often a broker may answer nothing but an ERROR before its group is given up."""


class Quorum:
    """The ballots of a session (`votes`), and the groups that fail in it.

    Methods append their effects; those that answer a `StompError` tell why the session cannot go on. `deaf`: the
    client is gone and is told nothing.
    """

    __slots__ = ("_client", "_directory", "_session", "deaf", "votes")

    def __init__(self, client: Leg, session: Session, directory: Directory) -> None:
        self._client = client
        self._session = session
        self._directory = directory
        self.votes: Votes[Lane] = Votes()
        self.deaf = False

    def excused(self, lane: Lane) -> list[Ballot[Lane]]:
        """What the relay answers in the place of a broker that has nothing to do with it any more."""
        answers = lane.carrier.answers
        decided = [self.votes.excuse(lane, receipt) for receipt in answers]
        answers.clear()
        return [ballot for ballot in decided if ballot is not None]

    def announce(
        self, decided: Iterable[Ballot[Lane]], effects: list[Effect], now: float
    ) -> StompError | None:
        """The client is told what was decided without a RECEIPT that it could be passed."""
        failure: StompError | None = None
        passed: list[bytes] = []
        for ballot in decided:
            if ballot.verdict is Verdict.FAILED and failure is None:
                trunk, _ = self._directory.places[ballot.refused[-1].branch]
                failure = trunk.failure(ballot.refused, None if ballot.hidden else ballot.receipt)
            elif ballot.verdict is Verdict.PASSED and not ballot.hidden:
                passed.append(ballot.receipt)
        if not self.deaf:
            give(passed, self._client, effects, now)
        return failure

    def refused(self, lane: Lane, receipt: bytes, effects: list[Effect], now: float) -> StompError | None:
        """A broker will not confirm what it was asked to."""
        ballot = self.votes.refuse(lane, receipt)
        return None if ballot is None else self.announce([ballot], effects, now)

    # Groups that fail

    def lost(self, trunk: Trunk, lane: Lane, effects: list[Effect], now: float) -> StompError | None:
        """A group lost its broker, and with it perhaps the outcome of something."""
        for failure in lane.lost():
            if not trunk.fans or failure.receipt is None:
                return failure
            lane.blame = failure.detail or failure.message
            error = self.refused(lane, failure.receipt, effects, now)
            if error is not None:
                return error
        return None

    def strike(
        self, trunk: Trunk, lane: Lane, why: str, effects: list[Effect], now: float
    ) -> StompError | None:
        """A broker of a fan-out went wrong on its own: it is left, and its group tries once more."""
        lane.strikes += 1
        if lane.strikes >= _STRIKES:
            return self.give_up(trunk, lane, why, effects, now)
        lane.blame = why
        effects.append(left(lane.branch.broker, trunk.upstream, why))
        lane.branch.parted = True
        return None

    def give_up(
        self, trunk: Trunk, lane: Lane, why: str, effects: list[Effect], now: float
    ) -> StompError | None:
        """A group is out for the rest of the session."""
        if lane.out:
            return None
        lane.out = True
        lane.blame = why
        effects.append(
            given_up(lane.branch.group, lane.branch.broker or lane.branch.before, trunk.upstream, why)
        )
        lane.lost()
        self._session.tally["possibly_lost"] += len(lane.carrier.backlog.taken())
        lane.branch.end(effects)
        failure = self.announce([*self.excused(lane), *self.votes.leave(lane)], effects, now)
        if failure is None and not trunk.reachable:
            failure = trunk.failure([each for each in trunk.lanes if each.out])
        return failure

    def leave(self, trunk: Trunk, lane: Lane, effects: list[Effect], now: float) -> StompError | None:
        """A broker takes nothing any more: better to look for another one than to keep ever more for it."""
        branch = lane.branch
        effects.append(left(branch.broker, trunk.upstream, "it takes nothing any more"))
        self._session.tally["brokers_lost"] += 1
        failure = self.lost(trunk, lane, effects, now)
        branch.hang_up(How.ABORT, effects)
        self._directory.opened.append(branch)
        return failure
