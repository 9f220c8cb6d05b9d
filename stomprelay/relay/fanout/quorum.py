"""What enough groups agree on, which groups are still asked, and what the client is told of both."""

from collections.abc import Callable, Collection, Hashable, Iterable
from enum import Enum
from typing import Final, Generic, TypeVar

from stomprelay.relay.effects import Effect
from stomprelay.relay.fanout.member import Member
from stomprelay.relay.fanout.router import Router, Target
from stomprelay.relay.forward import give
from stomprelay.relay.notes import given_up, left
from stomprelay.session.effects import How
from stomprelay.session.leg import Leg
from stomprelay.session.session import Session
from stomprelay.wire.errors import StompError

Party = TypeVar("Party", bound=Hashable)


class Outcome(Enum):
    """What became of a confirmation."""

    OPEN = "open"
    PASSED = "passed"
    FAILED = "failed"
    """Those that are still to answer cannot bring about the quorum any more."""


class Confirmation(Generic[Party]):
    """One frame whose receipt is asked of several parties. It passes when `quorum` of them agreed, and all that are
    `required`.

    `awaited` have not answered. `refused` said no, or were given up, in that order. An excused party is one that the
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
        parties: Collection[Party],
        quorum: int,
        required: Collection[Party] = (),
        refused: Collection[Party] = (),
        *,
        weighs: bool = False,
        hidden: bool = False,
    ) -> None:
        self.receipt = receipt
        self.hidden = hidden
        self.quorum = quorum
        self.weighs = weighs
        self.awaited = set(parties)
        self.refused = list(refused)
        self.verdict = Outcome.OPEN
        self._required = frozenset(required)
        self._agreed: set[Party] = set()
        self._excused: set[Party] = set()
        self.count()

    def count(self) -> None:
        """Settle the verdict, if it can be."""
        if self.verdict is not Outcome.OPEN:
            return
        if len(self._agreed) >= self.quorum and self._required <= self._agreed:
            self.verdict = Outcome.PASSED
            return
        content = self._agreed | self._excused
        possible = content | self.awaited
        if len(possible) < self.quorum or not self._required <= possible:
            self.verdict = Outcome.FAILED
        elif not self.awaited:
            self.verdict = Outcome.PASSED

    def agree(self, party: Party) -> None:
        """It has what the frame brought."""
        self.awaited.discard(party)
        self._agreed.add(party)
        self.count()

    def excuse(self, party: Party) -> None:
        """The frame does not concern it any more."""
        self.awaited.discard(party)
        self._excused.add(party)
        self.count()

    def refuse(self, party: Party) -> None:
        """It will not have it."""
        self.awaited.discard(party)
        self.refused.append(party)
        self.count()


class Confirmations(Generic[Party]):
    """The confirmations of one client, by receipt. A client may use a receipt id again before it was answered: each
    party answers its confirmations in the order in which they were asked for.

    What is answered by `agree`, `excuse`, `refuse` and `leave` are confirmations that were decided just now. A decided
    one is remembered until the last of its parties answered, so that no answer is taken for another one's.
    """

    __slots__ = ("_confirmations", "pending")

    def __init__(self) -> None:
        self._confirmations: dict[bytes, list[Confirmation[Party]]] = {}
        self.pending = 0
        """How many confirmations that weigh are open: those about what must not be lost."""

    def ask(self, confirmation: Confirmation[Party]) -> None:
        """A frame that asks for a receipt goes to the parties of an open confirmation."""
        assert confirmation.verdict is Outcome.OPEN
        self.pending += confirmation.weighs
        self._confirmations.setdefault(confirmation.receipt, []).append(confirmation)

    def agree(self, party: Party, receipt: bytes) -> Confirmation[Party] | None:
        """A party confirmed."""
        confirmation = self.awaited(party, receipt)
        return None if confirmation is None else self._cast(confirmation, confirmation.agree, party)

    def excuse(self, party: Party, receipt: bytes) -> Confirmation[Party] | None:
        """A party has nothing to confirm any more."""
        confirmation = self.awaited(party, receipt)
        return None if confirmation is None else self._cast(confirmation, confirmation.excuse, party)

    def refuse(self, party: Party, receipt: bytes) -> Confirmation[Party] | None:
        """A party will not confirm."""
        confirmation = self.awaited(party, receipt)
        return None if confirmation is None else self._cast(confirmation, confirmation.refuse, party)

    def leave(self, party: Party) -> list[Confirmation[Party]]:
        """A party is given up: it refuses all that it was asked."""
        asked = [each for same in self._confirmations.values() for each in same if party in each.awaited]
        decided = [self._cast(confirmation, confirmation.refuse, party) for confirmation in asked]
        return [confirmation for confirmation in decided if confirmation is not None]

    def awaited(self, party: Party, receipt: bytes) -> Confirmation[Party] | None:
        """The confirmation that a party's next answer with this receipt is for."""
        return next((each for each in self._confirmations.get(receipt, ()) if party in each.awaited), None)

    def _cast(
        self, confirmation: Confirmation[Party], vote: Callable[[Party], None], party: Party
    ) -> Confirmation[Party] | None:
        was = confirmation.verdict
        vote(party)
        if not confirmation.awaited:
            same = self._confirmations[confirmation.receipt]
            same.remove(confirmation)
            if not same:
                del self._confirmations[confirmation.receipt]
        if confirmation.verdict is was:
            return None
        self.pending -= confirmation.weighs
        return confirmation


_STRIKES: Final = 2
"""How often a broker may answer nothing but an ERROR before its group is given up."""


class Quorum:
    """The confirmations of a session (`confirmations`), and the groups that fail in it.

    Methods append their effects; those that answer a `StompError` tell why the session cannot go on. `deaf`: the
    client is gone and is told nothing.
    """

    __slots__ = ("_client", "_router", "_session", "confirmations", "deaf")

    def __init__(self, client: Leg, session: Session, router: Router) -> None:
        self._client = client
        self._session = session
        self._router = router
        self.confirmations: Confirmations[Member] = Confirmations()
        self.deaf = False

    def excused(self, member: Member) -> list[Confirmation[Member]]:
        """What the relay answers in the place of a broker that has nothing to do with it any more."""
        answers = member.resender.answers
        decided = [self.confirmations.excuse(member, receipt) for receipt in answers]
        answers.clear()
        return [confirmation for confirmation in decided if confirmation is not None]

    def announce(
        self, decided: Iterable[Confirmation[Member]], effects: list[Effect], now: float
    ) -> StompError | None:
        """The client is told what was decided without a RECEIPT that it could be passed."""
        failure: StompError | None = None
        passed: list[bytes] = []
        for confirmation in decided:
            if confirmation.verdict is Outcome.FAILED and failure is None:
                target, _ = self._router.places[confirmation.refused[-1].link]
                failure = target.failure(
                    confirmation.refused, None if confirmation.hidden else confirmation.receipt
                )
            elif confirmation.verdict is Outcome.PASSED and not confirmation.hidden:
                passed.append(confirmation.receipt)
        if not self.deaf:
            give(passed, self._client, effects, now)
        return failure

    def refused(self, member: Member, receipt: bytes, effects: list[Effect], now: float) -> StompError | None:
        """A broker will not confirm what it was asked to."""
        confirmation = self.confirmations.refuse(member, receipt)
        return None if confirmation is None else self.announce([confirmation], effects, now)

    # Groups that fail

    def lost(self, target: Target, member: Member, effects: list[Effect], now: float) -> StompError | None:
        """A group lost its broker, and with it perhaps the outcome of something."""
        for failure in member.lost():
            if not target.fans or failure.receipt is None:
                return failure
            member.blame = failure.detail or failure.message
            error = self.refused(member, failure.receipt, effects, now)
            if error is not None:
                return error
        return None

    def strike(
        self, target: Target, member: Member, why: str, effects: list[Effect], now: float
    ) -> StompError | None:
        """A broker of a fan-out went wrong on its own: it is left, and its group tries once more."""
        member.strikes += 1
        if member.strikes >= _STRIKES:
            return self.give_up(target, member, why, effects, now)
        member.blame = why
        effects.append(left(member.link.broker, target.upstream, why))
        member.link.parted = True
        return None

    def give_up(
        self, target: Target, member: Member, why: str, effects: list[Effect], now: float
    ) -> StompError | None:
        """A group is out for the rest of the session."""
        if member.out:
            return None
        member.out = True
        member.blame = why
        effects.append(
            given_up(member.link.group, member.link.broker or member.link.before, target.upstream, why)
        )
        member.lost()
        self._session.counters["possibly_lost"] += len(member.resender.unconfirmed.taken())
        member.link.end(effects)
        failure = self.announce([*self.excused(member), *self.confirmations.leave(member)], effects, now)
        if failure is None and not target.reachable:
            failure = target.failure([each for each in target.members if each.out])
        return failure

    def leave(self, target: Target, member: Member, effects: list[Effect], now: float) -> StompError | None:
        """A broker takes nothing any more: better to look for another one than to keep ever more for it."""
        link = member.link
        effects.append(left(link.broker, target.upstream, "it takes nothing any more"))
        self._session.counters["brokers_lost"] += 1
        failure = self.lost(target, member, effects, now)
        link.hang_up(How.ABORT, effects)
        self._router.opened.append(link)
        return failure
