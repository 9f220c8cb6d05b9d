"""Receipts that several brokers have to agree on before the client gets one."""

from collections.abc import Callable, Collection, Hashable
from enum import Enum
from typing import Generic, TypeVar

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
