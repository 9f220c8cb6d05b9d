"""What enough groups agree on, which groups are still asked, and what the client is told of both."""

from collections.abc import Iterable
from typing import Final

from stomprelay.relay.directory import Directory
from stomprelay.relay.effects import Effect
from stomprelay.relay.lane import Lane
from stomprelay.relay.notes import given_up, left
from stomprelay.relay.receipts import give
from stomprelay.relay.trunk import Trunk
from stomprelay.relay.votes import Ballot, Verdict, Votes
from stomprelay.session.effects import How
from stomprelay.session.leg import Leg
from stomprelay.session.session import Session
from stomprelay.wire.errors import StompError

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
